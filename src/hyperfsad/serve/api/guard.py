"""Who may ask: tokens, named users, sessions of browsers, and a limit on guesses."""

import hashlib
import hmac
import secrets
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from ...connect.sinks.serving import is_loopback
from ..refusals import ForbiddenError, NotSignedInError, TooOftenError
from ..settings import ADMIN, INSPECT
from ..store.audit import Actor
from ..users import User, Users

SESSION_COOKIE = "hyperfsad"
HEADER = "x-requested-with"
"""A header that no form of another site can send."""
ROLE_HEADER = "x-role"
"""With the value `inspect` a client asks for no more rights than that, as the page's operator view
does."""
SESSION_SECONDS = 12 * 3600.0
"""Seconds until a browser has to sign in again."""
MOST_SESSIONS, MOST_OF_ONE, MOST_CLIENTS = 1000, 100, 10_000
"""Sessions of all and of one role at one address, and addresses whose wrong tokens are counted."""
GUESSES, GUESS_WINDOW = 5, 60.0
"""Wrong tokens that a client may send, and within how many seconds."""
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


class Session(NamedTuple):
    """A browser that has signed in."""

    role: str
    client: str
    end: float
    user: User | None = None
    """As it was then; None where it signed in with a token."""


class Who(NamedTuple):
    """Who asks: the role, empty for a stranger, and the name where there is one."""

    role: str
    user: str = ""


class Guard:
    """Knows roles; without tokens and users everybody who reaches the station is admin."""

    def __init__(self, tokens: Mapping[str, str], users: Users | None = None) -> None:
        self._tokens, self._users = dict(tokens), users
        self._lock = threading.Lock()
        self._sessions: OrderedDict[str, Session] = OrderedDict()  # the longest unused first
        self._failures: OrderedDict[str, list[float]] = OrderedDict()

    @property
    def is_open(self) -> bool:
        return not self._tokens and not self.has_users

    @property
    def has_users(self) -> bool:
        return self._users is not None and bool(self._users.known)

    def who(self, method: str, headers: Mapping[str, str], cookie: str | None, client: str) -> Who:
        """The client, with its own role or the lower one that it asks for."""
        found = self._who(method, headers, cookie, client)
        lower = found.role and headers.get(ROLE_HEADER) == INSPECT
        return Who(INSPECT, found.user) if lower else found

    def _who(self, method: str, headers: Mapping[str, str], cookie: str | None, client: str) -> Who:
        self._check_host(headers)
        bearer = headers.get("authorization")
        if bearer is not None and not self.is_open:
            kind, _, token = bearer.partition(" ")
            if kind.lower() != "bearer":
                raise NotSignedInError("authorization-kind")
            return Who(self.known(token.strip(), client))
        if method not in SAFE_METHODS:
            self._check_origin(headers, cookie is not None)
        if self.is_open:
            return Who(ADMIN)
        key = _digest(cookie or "")
        with self._lock:
            found = self._sessions.get(key)
            if found is None or found.end <= time.monotonic():
                return Who("")
            user = found.user
            if user is not None and (self._users is None or self._users.known.get(user.id) != user):
                del self._sessions[key]  # removed since, or changed
                return Who("")
            self._sessions.move_to_end(key)
            return Who(found.role, "" if user is None else user.name)

    def known(self, token: str, client: str) -> str:
        """The role of a token; wrong ones are counted."""
        with self._lock:
            self._check_guesses(client)
            found = ""
            for role, right in self._tokens.items():  # all of them, so that time tells nothing
                if hmac.compare_digest(token.encode(), right.encode()):
                    found = role
            if not found:
                self._count_guess(client)
                raise NotSignedInError("token-unknown")
        return found

    def named(self, name: str, pin: str, client: Actor) -> User:
        """The user of a name and a PIN; wrong ones are counted, before they are compared."""
        with self._lock:
            self._check_guesses(client.client)
            self._count_guess(client.client)
        if self._users is None:
            raise NotSignedInError("pin-unknown")
        found = self._users.sign_in(client, name, pin)
        with self._lock:
            self._failures.get(client.client, [0.0]).pop()
        return found

    def _count_guess(self, client: str) -> None:
        self._failures.setdefault(client, []).append(time.monotonic())
        self._failures.move_to_end(client)
        while len(self._failures) > MOST_CLIENTS:
            self._failures.popitem(last=False)

    def begin(self, role: str, client: str, user: User | None = None) -> str:
        """A new session; what the cookie holds. Who signs in too often loses sessions of their own,
        those that were not used for longest."""
        cookie, now = secrets.token_urlsafe(32), time.monotonic()
        with self._lock:
            for key in [key for key, one in self._sessions.items() if one.end <= now]:
                del self._sessions[key]
            self._sessions[_digest(cookie)] = Session(role, client, now + SESSION_SECONDS, user)
            counts = Counter(one[:2] for one in self._sessions.values())
            ((owner, most),) = counts.most_common(1)
            if most > MOST_OF_ONE or counts.total() > MOST_SESSIONS:
                del self._sessions[next(k for k, one in self._sessions.items() if one[:2] == owner)]
        return cookie

    def end(self, cookie: str) -> None:
        with self._lock:
            self._sessions.pop(_digest(cookie), None)

    def _check_guesses(self, client: str) -> None:
        begin = time.monotonic() - GUESS_WINDOW
        recent = [at for at in self._failures.get(client, []) if at > begin]
        if client in self._failures:
            self._failures[client] = recent
        if len(recent) >= GUESSES:
            wait = max(1, round(recent[0] - begin))
            raise TooOftenError("tokens-wrong", retry_after=wait)

    def _check_host(self, headers: Mapping[str, str]) -> None:
        """Without tokens, a page of another site must not reach us under a name of its own."""
        host = _split(f"//{headers.get('host', '')}").hostname or ""
        if not self._tokens and not is_loopback(host.lower()):
            raise ForbiddenError("host-foreign")

    def _check_origin(self, headers: Mapping[str, str], signed_in: bool) -> None:
        """Changes come from our own page or from a program, never from another site's page."""
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        ours = origin is None or _split(origin).netloc == (headers.get("host") or None)
        if not ours or site not in (None, "same-origin", "none"):
            raise ForbiddenError("origin-foreign")
        if signed_in and site is None and origin is None and HEADER not in headers:
            raise ForbiddenError("header-missing", header=HEADER)


def _split(address: str) -> SplitResult:
    """The parts of an address; none of one that is damaged."""
    try:
        return urlsplit(address)
    except ValueError:
        return urlsplit("")


def _digest(cookie: str) -> str:
    return hashlib.sha256(cookie.encode()).hexdigest()
