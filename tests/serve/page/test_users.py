"""Named users on the page."""

from pathlib import Path

from tests.serve.page.conftest import Opener
from tests.serve.stations import Stations
from tests.serve.test_users import ENGINEER, OPERATOR


def test_users_from_the_first_to_the_last(
    stations: Stations, tmp_path: Path, visit: Opener
) -> None:
    with stations.running(tmp_path / "store") as station:
        page = visit(station.url, "#/users", allowed=("401",))

        def add(name: str, pin: str) -> None:
            page.get_by_label("Name").fill(name)
            page.get_by_label("PIN").fill(pin)
            page.get_by_role("button", name="Add").click()

        def sign_in(place: str, name: str, pin: str) -> None:
            form = page.locator(f"{place} .signing")
            form.get_by_label("Name").fill(name)
            form.get_by_label("PIN").fill(pin)
            form.get_by_role("button", name="Sign in").click()

        add("Ada", ENGINEER)
        sign_in("main", "Ada", "a wrong one")
        page.wait_for_selector(".toast.bad >> text=do not fit together")
        sign_in("main", "Ada", ENGINEER)
        page.wait_for_selector("tbody >> text=user added")
        add("Jürgen", OPERATOR)
        page.get_by_role("row", name="Jürgen").first.wait_for()
        page.get_by_role("button", name="Ada").click()
        sign_in("dialog", "Jürgen", OPERATOR)
        page.get_by_role("button", name="Jürgen").wait_for()
        assert page.locator("dialog").count() == 0
        assert page.locator(".menu").get_by_role("link").count() == 0
        page.get_by_role("button", name="Jürgen").click()
        page.get_by_role("button", name="Sign out").click()
        sign_in("main", "Ada", ENGINEER)
        for name in ("Jürgen", "Ada"):
            row = page.locator("main section").first.get_by_role("row", name=name)
            row.get_by_role("button", name="Remove").click()
            page.locator("dialog").get_by_role("button", name="Remove").click()
            row.wait_for(state="detached")
            page.locator(".toast button").click()
        page.goto(f"{station.url}/#/new")
        page.get_by_role("button", name="Ada").wait_for(state="detached")
