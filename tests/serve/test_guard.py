"""Who is let in, and with which settings a station does not start: without a server."""

import warnings
from pathlib import Path
from typing import Any

import pytest

from hyperfsad.errors import HyperfsadWarning, UsageError
from hyperfsad.serve.api import guard as guarding
from hyperfsad.serve.api.guard import GUESSES, MOST_OF_ONE, MOST_SESSIONS, Guard
from hyperfsad.serve.refusals import ForbiddenError, NotSignedInError, TooOftenError
from hyperfsad.serve.settings import StationSettings, read_tokens
from tests.codes import raises
from tests.serve.conftest import ADMIN, INSPECT

TOKENS = {"admin": ADMIN, "inspect": INSPECT}
HERE, THERE = "10.0.0.1", "10.0.0.2"


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(guarding, "time", found)
    return found


def role(guard: Guard, cookie: str | None = None, method: str = "GET", **headers: str) -> str:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return guard.who(method, {"host": "station:8000", **named}, cookie, HERE).role


def test_roles_by_token_and_by_session(clock: Clock) -> None:
    guard = Guard(TOKENS)
    assert role(guard) == role(guard, "made up") == ""
    assert role(guard, authorization=f"Bearer {INSPECT}") == "inspect"
    assert role(guard, authorization=f"bearer  {ADMIN} ") == "admin"
    with raises(NotSignedInError, "authorization-kind"):
        role(guard, authorization=f"Basic {ADMIN}")
    with raises(NotSignedInError, "token-unknown"):
        role(guard, authorization="Bearer")
    first, second = guard.begin("inspect", HERE), guard.begin("admin", HERE)
    assert [role(guard, first), role(guard, second)] == ["inspect", "admin"]
    guard.end(first)
    assert [role(guard, first), role(guard, second)] == ["", "admin"]
    clock.now += guarding.SESSION_SECONDS
    assert role(guard, second) == ""


def test_guesses_of_one_do_not_lock_out_others(clock: Clock) -> None:
    guard = Guard(TOKENS)
    for _ in range(GUESSES):
        with raises(NotSignedInError, "token-unknown"):
            guard.known("a guess", HERE)
        clock.now += 1
    with raises(TooOftenError, "tokens-wrong", retry_after=round(guarding.GUESS_WINDOW) - GUESSES):
        guard.known(ADMIN, HERE)
    assert guard.known(ADMIN, THERE) == "admin"
    clock.now += guarding.GUESS_WINDOW - GUESSES
    assert guard.known(ADMIN, HERE) == "admin"


@pytest.mark.parametrize("others", [("inspect", HERE), ("admin", THERE)], ids=["role", "client"])
def test_logins_of_others_end_nobodys_session(others: tuple[str, str]) -> None:
    guard = Guard(TOKENS)
    mine = guard.begin("admin", HERE)
    theirs = [guard.begin(*others) for _ in range(MOST_SESSIONS + 1)]
    assert role(guard, mine) == "admin"
    assert [bool(role(guard, one)) for one in theirs].count(True) == MOST_OF_ONE
    assert role(guard, theirs[-1])


def test_of_ones_own_sessions_the_longest_unused_ends() -> None:
    guard = Guard(TOKENS)
    used, idle = guard.begin("admin", HERE), guard.begin("admin", HERE)
    for _ in range(MOST_OF_ONE):
        assert role(guard, used) == "admin"
        guard.begin("admin", HERE)
    assert [role(guard, used), role(guard, idle)] == ["admin", ""]


def test_sessions_of_many_clients_are_bounded() -> None:
    guard = Guard(TOKENS)
    mine = guard.begin("admin", HERE)
    made = [guard.begin("inspect", f"10.1.{n % 50}.1") for n in range(2 * MOST_SESSIONS)]
    assert sum(bool(role(guard, one)) for one in [mine, *made]) == MOST_SESSIONS
    assert role(guard, mine) == "admin"


def test_without_tokens_only_this_machine_is_admin() -> None:
    guard = Guard({})
    for host in ("localhost:8000", "LOCALHOST", "127.0.0.1:1", "[::1]:8000"):
        assert role(guard, host=host) == "admin", host
    for host in ("evil.example", "localhost.evil.example", "10.0.0.1", "", "[", "[::1"):
        with raises(ForbiddenError, "host-foreign"):
            role(guard, host=host)


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "null", "", "http://station:8001"])
def test_changes_from_other_origins(origin: str) -> None:
    guard = Guard(TOKENS)
    for host in ("station:8000", ""):
        with raises(ForbiddenError, "origin-foreign"):
            role(guard, method="POST", origin=origin, host=host)
    assert role(guard, origin=origin) == ""  # who only reads changes nothing
    assert role(guard, method="POST", origin=origin, authorization=f"Bearer {ADMIN}") == "admin"


def test_changes_with_a_cookie() -> None:
    guard = Guard(TOKENS)
    mine = guard.begin("admin", HERE)
    with raises(ForbiddenError, "header-missing"):
        role(guard, mine, "DELETE")
    with raises(ForbiddenError, "origin-foreign"):
        role(guard, mine, "DELETE", sec_fetch_site="cross-site", x_requested_with="page")
    for told in ({"origin": "http://station:8000"}, {"x_requested_with": "page"}):
        assert role(guard, mine, "DELETE", **told) == "admin"
    assert role(guard, mine, "DELETE", sec_fetch_site="same-origin") == "admin"


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"port": -1}, "port-range"),
        ({"port": 65536}, "port-range"),
        ({"max_queue": 0}, "max-queue-range"),
        ({"max_queue": 10_001}, "max-queue-range"),
        ({"tls_key": Path("key.pem")}, "tls-incomplete"),
        ({"host": "0.0.0.0"}, "token-required"),
        ({"token": Path("nowhere")}, "secret-file-unreadable"),
        ({"watch": (("bolt", Path("camera")),) * 2}, "watch-repeated"),
    ],
)
def test_a_station_that_does_not_start(given: dict[str, Any], code: str, tmp_path: Path) -> None:
    with raises(UsageError, code):
        StationSettings(tmp_path / "store", **given).check()
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("mode", [0o640, 0o620, 0o604, 0o644])
def test_a_token_file_that_others_can_open(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "tokens"
    path.write_text(f"admin: {ADMIN}\n")
    path.chmod(0o600)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_tokens(path)
    path.chmod(mode)
    with pytest.warns(HyperfsadWarning, match="chmod 600"):
        assert read_tokens(path) == {"admin": ADMIN}


def test_a_token_file_that_systemd_hands_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tokens"
    path.write_text(f"admin: {ADMIN}\n")
    path.chmod(0o440)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_tokens(path)
