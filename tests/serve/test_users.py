"""Named users: who signs in, who is locked out, and what the audit log says of them."""

import io
from pathlib import Path
from typing import Any

import pytest

from hyperfsad.cli import main
from hyperfsad.cli.console import DONE
from hyperfsad.errors import UsageError
from hyperfsad.serve import users as named
from hyperfsad.serve.pins import NOBODY, fits, hashed
from hyperfsad.serve.refusals import (
    ConflictError,
    MissingError,
    NotSignedInError,
    TooOftenError,
)
from hyperfsad.serve.store.audit import Actor, verify_store
from hyperfsad.serve.store.store import Store
from hyperfsad.serve.users import FIRST_LOCK, GUESSES, LONGEST_LOCK, Users
from tests.codes import raises
from tests.serve.conftest import ADMIN, png, token_file
from tests.serve.stations import Running, Stations, refused, until

ENGINEER, OPERATOR = "482 915", "7315"
WHO = Actor("admin", "10.0.0.1")


class Clock:
    """A clock that a test sets; in microseconds."""

    def __init__(self) -> None:
        self.time = 10**15

    def __call__(self) -> int:
        return self.time


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(named, "now", found)
    return found


@pytest.fixture
def users(tmp_path: Path) -> Users:
    """With an engineer and an operator."""
    found = Users(Store(tmp_path, reserve=0).open().database)
    found.add(WHO, "Ada", "admin", ENGINEER)
    found.add(WHO, "Jürgen  Groß", "inspect", OPERATOR)
    return found


def test_a_pin_is_kept_as_a_slow_hash() -> None:
    first, second = hashed(OPERATOR, "inspect"), hashed(OPERATOR, "inspect")
    assert first != second
    assert OPERATOR not in first
    assert fits(OPERATOR, first)
    assert not fits(f"{OPERATOR} ", first)
    assert not fits("", NOBODY)
    for pin in ("123", "1" * 65, "12\n4", " 1234"):
        with raises(UsageError, "pin-invalid", shortest=4):
            hashed(pin, "inspect")
    with raises(UsageError, "pin-invalid", shortest=6):
        hashed("12345", "admin")
    with raises(UsageError, "pin-simple"):
        hashed("1111", "inspect")


def test_who_signs_in(users: Users) -> None:
    found = users.sign_in(WHO, " jürgen groß ", OPERATOR)
    assert (found.name, found.role) == ("Jürgen Groß", "inspect")
    for name, pin in (("Ada", OPERATOR), ("Nobody", OPERATOR), ("", "")):
        with raises(NotSignedInError, "pin-unknown"):
            users.sign_in(WHO, name, pin)
    with raises(ConflictError, "user-name-taken"):
        users.add(WHO, "ADA", "admin", ENGINEER)
    with raises(UsageError, "user-name-invalid"):
        users.add(WHO, " \t", "admin", ENGINEER)


def test_wrong_pins_lock_a_name_for_longer_each_time(users: Users, clock: Clock) -> None:
    def guess() -> None:
        with raises(NotSignedInError, "pin-unknown"):
            users.sign_in(WHO, "Ada", "000 001")

    for _ in range(GUESSES):
        guess()
    for wait in (FIRST_LOCK, 2 * FIRST_LOCK, 4 * FIRST_LOCK):
        with raises(TooOftenError, "user-locked", retry_after=wait // 10**6):
            users.sign_in(WHO, "Ada", ENGINEER)  # even the right one
        clock.time += wait
        guess()
    clock.time += 30 * LONGEST_LOCK
    assert users.sign_in(WHO, "Ada", ENGINEER).role == "admin"
    for _ in range(GUESSES - 1):
        guess()  # it counts from the start again
    assert users.sign_in(WHO, "Ada", ENGINEER).name == "Ada"
    assert users.sign_in(WHO, "Jürgen Groß", OPERATOR).role == "inspect"


def test_a_lock_has_an_end_and_a_way_back(users: Users, clock: Clock) -> None:
    for _ in range(60):
        with pytest.raises((NotSignedInError, TooOftenError)):
            users.sign_in(WHO, "Ada", "000 001")
        clock.time += 2 * LONGEST_LOCK
    clock.time -= 2 * LONGEST_LOCK
    with pytest.raises(TooOftenError) as caught:
        users.sign_in(WHO, "Ada", ENGINEER)
    assert caught.value.facts["retry_after"] <= LONGEST_LOCK // 10**6
    (ada,) = [one for one in users.all() if one.name == "Ada"]
    assert ada.locked
    users.change(WHO, ada.id, None, "917 306")
    assert users.sign_in(WHO, "Ada", "917 306").name == "Ada"


def test_a_guess_counts_before_it_is_compared(
    users: Users, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the station is killed in between: it gives no guess for nothing."""

    def killed(*_: Any) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr(named, "fits", killed)
        for _ in range(GUESSES):
            with pytest.raises(KeyboardInterrupt):
                users.sign_in(WHO, "Ada", ENGINEER)
    with raises(TooOftenError, "user-locked"):
        users.sign_in(WHO, "Ada", ENGINEER)


def test_the_last_engineer_stays_while_others_need_one(users: Users) -> None:
    ada, juergen = users.all()
    with raises(ConflictError, "engineer-last"):
        users.remove(WHO, ada.id)
    with raises(ConflictError, "engineer-last"):
        users.change(WHO, ada.id, "inspect", None)
    with raises(UsageError, "pin-needed"):
        users.change(WHO, juergen.id, "admin", None)
    users.change(WHO, juergen.id, "admin", "738 201")
    users.remove(WHO, ada.id)
    users.remove(WHO, juergen.id)
    with raises(MissingError, "user-unknown"):
        users.remove(WHO, juergen.id)
    with raises(ConflictError, "engineer-last"):
        users.add(WHO, "Jürgen", "inspect", OPERATOR)
    assert users.all() == []


def signed_in(station: Running, **sent: str) -> tuple[int, dict[str, str]]:
    """The status, and the headers by which a browser goes on."""
    answer = station.ask("POST", "/login", sent, {"X-Requested-With": "page"})
    cookie = answer.headers.get("set-cookie", "").split(";")[0]
    return answer.status, {"Cookie": cookie, "X-Requested-With": "page"}


def test_a_station_with_users(stations: Stations, tmp_path: Path) -> None:
    with stations.running(tmp_path / "store") as station:
        open_to_all = station.client()
        assert station.ask("GET", "/session").json()["open"]
        product = open_to_all.create_product("bolt", [png(0), png(1)])["id"]
        with refused(409, "engineer-last"):
            open_to_all.add_user("Jürgen", "inspect", OPERATOR)
        open_to_all.add_user("Ada", "admin", ENGINEER)
        found = station.ask("GET", "/session").json()
        assert found == {"role": "", "user": "", "open": False, "users": True}
        with refused(401, "not-signed-in"):
            open_to_all.products()

        status, ada = signed_in(station, name="ada", pin=ENGINEER)
        assert status == 200
        new = {"name": "Jürgen", "role": "inspect", "pin": OPERATOR}
        assert station.ask("POST", "/users", new, ada).status == 201
        assert signed_in(station, name="Jürgen", pin="0001")[0] == 401
        status, juergen = signed_in(station, name="Jürgen", pin=OPERATOR)
        assert status == 200
        assert station.ask("GET", "/session", None, juergen).json()["user"] == "Jürgen"
        assert station.ask("GET", "/users", None, juergen).status == 403
        assert station.ask("DELETE", f"/products/{product}", None, juergen).status == 403
        assert station.ask("PATCH", f"/products/{product}", {"name": "nut"}, ada).status == 200
        rows = station.ask("GET", "/audit", None, ada).json()["entries"]
        told = {(row["user"], row["role"], row["action"]) for row in rows}
        assert ("Ada", "admin", "product renamed") in told
        assert ("Jürgen", "inspect", "signed in") in told
        assert not any(pin in str(rows) for pin in (ENGINEER, OPERATOR))

        users = station.ask("GET", "/users", None, ada).json()["users"]
        (his,) = [one["id"] for one in users if one["name"] == "Jürgen"]
        assert station.ask("PATCH", f"/users/{his}", {"pin": "9182"}, ada).status == 200
        assert station.ask("GET", "/products", None, juergen).status == 401
        status, juergen = signed_in(station, name="Jürgen", pin="9182")
        assert station.ask("GET", "/products", None, juergen).status == 200
        assert station.ask("DELETE", f"/users/{his}", None, ada).status == 204
        assert station.ask("GET", "/products", None, juergen).status == 401
        assert station.ask("POST", "/logout", None, ada).status == 204
        assert station.ask("GET", "/products", None, ada).status == 401
    assert verify_store(tmp_path / "store").rows == len(rows) + 3


def test_guesses_of_one_client_are_limited_for_all_names(
    stations: Stations, tmp_path: Path
) -> None:
    with stations.running(tmp_path / "store") as station:
        station.client().add_user("Ada", "admin", ENGINEER)
        statuses = [signed_in(station, name=f"guess {n}", pin="1234")[0] for n in range(7)]
        assert statuses == [401] * 5 + [429] * 2
        for sent in ({}, {"name": "Ada"}, {"name": "Ada", "pin": "1", "token": "x"}):
            assert signed_in(station, **sent)[0] == 422


def test_tokens_beside_users(stations: Stations, tmp_path: Path) -> None:
    with stations.running(tmp_path / "store", *token_file(tmp_path)) as station:
        machine = station.client(ADMIN)
        machine.add_user("Ada", "admin", ENGINEER)
        assert machine.products() == []
        assert machine.audit()[0]["user"] == ""
        assert signed_in(station, token=ADMIN)[0] == 200
        assert signed_in(station, name="Ada", pin=ENGINEER)[0] == 200


def test_the_first_engineer_from_the_machine(
    stations: Stations, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store"

    def set_pin(pin: str) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{pin}\n"))
        assert main(["serve", "--store", str(store), "--engineer", "Ada"]) == DONE

    set_pin(ENGINEER)  # before the first start
    with stations.running(store) as station:
        assert signed_in(station, name="Ada", pin=ENGINEER)[0] == 200
        set_pin("605 117")  # while it runs
        status, ada = signed_in(station, name="Ada", pin="605 117")
        assert status == 200
        until(lambda: station.ask("GET", "/users", None, ada).status == 200, "her session")
    assert verify_store(store).rows == 4
