"""Around every request: an id, who asks, safe headers, a row of the log, figures."""

import json
import time
import uuid
from http.cookies import CookieError, SimpleCookie

import anyio
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..faults import NotSignedInError, RefusedError, TooLargeError, TooSlowError
from ..store.store import Actor
from .guard import COOKIE, Guard
from .logs import LOG
from .metrics import Metrics

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:;"
    " media-src 'self' blob:; connect-src 'self'; font-src 'self'; form-action 'self';"
    " base-uri 'none'; frame-ancestors 'none'"
)
LARGEST = 1_000_000
"""Bytes of a request that brings no files."""
SLOWEST = 30.0
"""Seconds for which one piece of such a request is waited for."""
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
DOORS = ("login", "logout", "session", "health", "ready")
OPEN_DOORS = frozenset(f"/api/v1/{name}" for name in DOORS)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(self), microphone=(), geolocation=()",
}


class Gatekeeper:
    """The outermost layer; knows nothing of what is asked."""

    def __init__(self, app: ASGIApp, guard: Guard, metrics: Metrics, *, secure: bool) -> None:
        self._app, self._guard, self._metrics, self._secure = app, guard, metrics, secure

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, if it may pass."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, request, status = time.monotonic(), uuid.uuid4().hex, 500
        headers = Headers(scope=scope)
        client = (scope.get("client") or ("",))[0]
        state = scope.setdefault("state", {})
        state["cookie"] = _cookie(headers)
        state["actor"] = Actor("", client, request)

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                found = MutableHeaders(scope=message)
                found["x-request-id"] = request
                for name, value in HEADERS.items():
                    found.setdefault(name, value)
                found.setdefault("cache-control", "no-store")
                if self._secure:
                    found["strict-transport-security"] = "max-age=31536000"
            await send(message)

        role = ""
        try:
            role = self._guard.role(scope["method"], headers, state["cookie"], client)
            state["actor"] = Actor(role, client, request)
            _check_door(scope["path"], role)
            await self._app(scope, _bounded(headers, receive), answer)
        except RefusedError as error:
            await _refuse(error, answer)
        finally:
            seconds = time.monotonic() - began
            # by name: some paths have ids in them, and strangers may ask for any path
            route = getattr(scope.get("endpoint"), "__name__", "none")
            method = scope["method"] if scope["method"] in METHODS else "other"  # any word may come
            self._metrics.requests.labels(method, route, str(status)).inc()
            self._metrics.seconds.labels(route).observe(seconds)
            fields = {
                "request": request,
                "method": scope["method"],
                "path": scope["path"],
                "status": status,
                "milliseconds": round(1000 * seconds),
                "role": role,
                "client": client,
            }
            LOG.info("request", extra=fields)


def _check_door(path: str, role: str) -> None:
    """Strangers get no further than the doors that are meant for them, whatever a later endpoint
    may forget to ask; nothing of what they send is read."""
    inside = path.startswith("/api/") or path == "/metrics"
    if inside and not role and path not in OPEN_DOORS:
        raise NotSignedInError("Sign in first, or send the header `Authorization: Bearer TOKEN`.")


def _bounded(headers: Headers, receive: Receive) -> Receive:
    """Forms with files have limits of their own; of everything else little is read, and that is
    not waited for without end."""
    if headers.get("content-type", "").startswith("multipart/form-data"):
        return receive
    length = headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > LARGEST:
        raise TooLargeError(f"The request is larger than {LARGEST:,} bytes.")
    left, more = LARGEST, True

    async def count() -> Message:
        nonlocal left, more
        try:  # after the last byte, it is the client's end that is waited for
            # in this very task: who only looks whether the client is there does not wait at all
            with anyio.fail_after(SLOWEST if more else None):
                message = await receive()
        except TimeoutError:
            raise TooSlowError("The request stopped before it was complete.") from None
        more = bool(message.get("more_body"))
        left -= len(message.get("body", b""))
        if left < 0:
            raise TooLargeError(f"The request is larger than {LARGEST:,} bytes.")
        return message

    return count


async def _refuse(error: RefusedError, send: Send) -> None:
    body = json.dumps({"detail": str(error)}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    if error.retry_after is not None:
        headers.append((b"retry-after", b"%d" % error.retry_after))
    if error.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _cookie(headers: Headers) -> str | None:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return None
    return None if found is None else found.value
