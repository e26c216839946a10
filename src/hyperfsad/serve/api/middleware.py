"""Around every request: an id, who asks, safe headers, a row of the log, figures."""

import re
import time
import uuid
from typing import NamedTuple

import anyio
from fastapi.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..monitoring import LOG
from ..pictures import UploadLimits
from ..refusals import NotSignedInError, RefusedError, TooLargeError, TooSlowError, problem
from ..station import Station
from ..store.audit import Actor
from .guard import SESSION_COOKIE, Guard
from .uploads import MAX_FIELDS, MAX_PART_HEADER

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:;"
    " media-src 'self' blob:; connect-src 'self'; font-src 'self'; form-action 'self';"
    " base-uri 'none'; frame-ancestors 'none'"
)
UPLOAD_TIMEOUT = 60.0
MIN_BODY_RATE = 10_000
"""Bytes a second that a body has to bring on average, after the seconds of its limit."""
HEALTH = "/api/v1/health"
"""Waits for nothing."""
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


class BodyLimit(NamedTuple):
    """What is read of a request, whatever type it says it has."""

    bytes: int
    seconds: float
    """Without a byte, after which it is given up."""


PLAIN = BodyLimit(1_000_000, 30.0)
"""Of every request that is not in the table."""


def body_limits(limits: UploadLimits) -> dict[re.Pattern[str], BodyLimit]:
    """The table of requests that bring files; how many and how large each, the form says."""
    texts = MAX_FIELDS * (limits.text_bytes + MAX_PART_HEADER)
    parts = (limits.image_bytes + MAX_PART_HEADER) * limits.images
    at = "POST /api/v1/products"
    return {
        re.compile(rf"{at}(/[^/]+/(images|calibration|inspections))?"): BodyLimit(
            parts + texts, UPLOAD_TIMEOUT
        ),
        re.compile(rf"{at}/upload"): BodyLimit(limits.detector_bytes + texts, UPLOAD_TIMEOUT),
    }


class Gatekeeper:
    """The outermost layer; knows nothing of what is asked."""

    def __init__(self, app: ASGIApp, guard: Guard, station: Station) -> None:
        self._app, self._guard = app, guard
        self._users, self._metrics = station.users, station.metrics
        self._secure = station.settings.secure
        self._limits = body_limits(station.settings.limits)

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
            path = scope["path"]
            if self._users.is_old and path.startswith("/api/") and path != HEALTH:
                await run_in_threadpool(self._users.look_again)
            role, user = self._guard.who(scope["method"], headers, state["cookie"], client)
            state["actor"] = Actor(role, client, request, user)
            # even if a later endpoint forgets to ask for a role, strangers reach public paths only,
            # and nothing of what they send is read
            inside = path.startswith("/api/") or path == "/metrics"
            if inside and not role and path not in PUBLIC_PATHS:
                raise NotSignedInError("not-signed-in")
            asked = f"{scope['method']} {path}"
            limit = next((one for at, one in self._limits.items() if at.fullmatch(asked)), PLAIN)
            await self._app(scope, _bounded(headers, receive, limit), answer)
        except RefusedError as error:
            await refusal(error)(scope, receive, answer)
        finally:
            seconds = time.monotonic() - began
            # by name: some paths have ids in them, and strangers may ask for any path
            route = getattr(scope.get("endpoint"), "__name__", "none")
            method = scope["method"] if scope["method"] in HTTP_METHODS else "other"
            self._metrics.requests.labels(method, route, str(status)).inc()
            self._metrics.seconds.labels(route).observe(seconds)
            told = {"method": scope["method"], "path": scope["path"], **vars(state["actor"])}
            took = {"status": status, "milliseconds": round(1000 * seconds)}
            LOG.info("request", extra=told | took)


def _bounded(headers: Headers, receive: Receive, limit: BodyLimit) -> Receive:
    """Of a body no more is read than its limit, and nobody is waited for without end."""
    length = headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > limit.bytes:
        raise TooLargeError("request-too-large", limit=limit.bytes)
    began, count, more = time.monotonic(), 0, True

    async def bounded() -> Message:
        nonlocal count, more
        if not more:  # what is left to come is the client's disconnect
            return await receive()
        try:  # in this very task: checking whether the client is there must not wait at all
            with anyio.fail_after(limit.seconds):
                message = await receive()
        except TimeoutError:
            raise TooSlowError("upload-stopped") from None
        more = bool(message.get("more_body"))
        count += len(message.get("body", b""))
        if count > limit.bytes:
            raise TooLargeError("request-too-large", limit=limit.bytes)
        if more and time.monotonic() - began > limit.seconds + count / MIN_BODY_RATE:
            raise TooSlowError("upload-slow")
        return message

    return bounded


def refusal(error: RefusedError) -> JSONResponse:
    headers = {}
    if (seconds := error.facts.get("retry_after")) is not None:
        headers["retry-after"] = str(seconds)
    if error.status == 401:
        headers["www-authenticate"] = "Bearer"
    if error.status == 408:
        headers["connection"] = "close"
    return JSONResponse(problem(error), error.status, headers)
