"""Around every request: an id, who asks, safe headers, a row of the log, figures."""

import time
import uuid

import anyio
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..monitoring import LOG, Metrics
from ..refusals import NotSignedInError, RefusedError, TooLargeError, TooSlowError, problem
from ..store.store import Actor
from .guard import SESSION_COOKIE, Guard

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:;"
    " media-src 'self' blob:; connect-src 'self'; font-src 'self'; form-action 'self';"
    " base-uri 'none'; frame-ancestors 'none'"
)
MAX_PLAIN_REQUEST = 1_000_000
"""Bytes of a request that brings no files."""
PLAIN_REQUEST_TIMEOUT = 30.0
"""Seconds to wait for one piece of such a request."""
HTTP_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
PUBLIC_PATHS = frozenset(
    f"/api/v1/{name}" for name in ("login", "logout", "session", "health", "ready")
)
SECURITY_HEADERS = {
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
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, request, status = time.monotonic(), uuid.uuid4().hex, 500
        headers = Headers(scope=scope)
        client = (scope.get("client") or ("",))[0]
        state = scope.setdefault("state", {})
        state["cookie"] = Request(scope).cookies.get(SESSION_COOKIE)
        state["actor"] = Actor("", client, request)

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                found = MutableHeaders(scope=message)
                found["x-request-id"] = request
                for name, value in SECURITY_HEADERS.items():
                    found.setdefault(name, value)
                found.setdefault("cache-control", "no-store")
                if self._secure:
                    found["strict-transport-security"] = "max-age=31536000"
            await send(message)

        try:
            role = self._guard.role(scope["method"], headers, state["cookie"], client)
            state["actor"] = Actor(role, client, request)
            # even if a later endpoint forgets to ask for a role, strangers reach public paths only,
            # and nothing of what they send is read
            path = scope["path"]
            inside = path.startswith("/api/") or path == "/metrics"
            if inside and not role and path not in PUBLIC_PATHS:
                raise NotSignedInError("not-signed-in")
            await self._app(scope, _bounded(headers, receive), answer)
        except RefusedError as error:
            await refusal(error)(scope, receive, answer)
        finally:
            seconds = time.monotonic() - began
            # by name: some paths have ids in them, and strangers may ask for any path
            route = getattr(scope.get("endpoint"), "__name__", "none")
            method = scope["method"] if scope["method"] in HTTP_METHODS else "other"
            self._metrics.requests.labels(method, route, str(status)).inc()
            self._metrics.seconds.labels(route).observe(seconds)
            asked = {"method": scope["method"], "path": scope["path"], **vars(state["actor"])}
            took = {"status": status, "milliseconds": round(1000 * seconds)}
            LOG.info("request", extra=asked | took)


def _bounded(headers: Headers, receive: Receive) -> Receive:
    """Forms with files have limits of their own; of everything else little is read, and not waited
    for without end."""
    if headers.get("content-type", "").startswith("multipart/form-data"):
        return receive
    length = headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > MAX_PLAIN_REQUEST:
        raise TooLargeError("request-too-large", limit=MAX_PLAIN_REQUEST)
    left, more = MAX_PLAIN_REQUEST, True

    async def count() -> Message:
        nonlocal left, more
        try:  # after the last byte, what is left to come is the client's disconnect
            # in this very task: checking whether the client is there must not wait at all
            with anyio.fail_after(PLAIN_REQUEST_TIMEOUT if more else None):
                message = await receive()
        except TimeoutError:
            raise TooSlowError("upload-stopped") from None
        more = bool(message.get("more_body"))
        left -= len(message.get("body", b""))
        if left < 0:
            raise TooLargeError("request-too-large", limit=MAX_PLAIN_REQUEST)
        return message

    return count


def refusal(error: RefusedError) -> JSONResponse:
    headers = {}
    if (seconds := error.facts.get("retry_after")) is not None:
        headers["retry-after"] = str(seconds)
    if error.status == 401:
        headers["www-authenticate"] = "Bearer"
    return JSONResponse(problem(error), error.status, headers)
