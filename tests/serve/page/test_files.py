"""The files of the page: texts in all languages, nothing from elsewhere, all of them packaged."""

import json
import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

from hyperfsad.serve.page import assets
from tests.conftest import REPOSITORY
from tests.serve.stations import Running

FOLDER = REPOSITORY / "src" / "hyperfsad" / "serve" / "page"
SCRIPTS = sorted(FOLDER.rglob("*.js"))
CATALOGUE: dict[str, dict[str, str]] = json.loads(assets()["catalogue.json"])
CODE = "\n".join(path.read_text(encoding="utf-8") for path in SCRIPTS)


def test_every_text_has_every_language() -> None:
    for key, texts in CATALOGUE.items():
        assert set(texts) == {"en", "de"}, key
        assert all(text.strip() for text in texts.values()), key


def test_both_languages_fill_in_the_same_values() -> None:
    for key, texts in CATALOGUE.items():
        filled = {language: set(re.findall(r"{(\w+)}", text)) for language, text in texts.items()}
        assert filled["en"] == filled["de"], key


def test_no_text_is_missing_or_unused() -> None:
    asked = set(re.findall(r"""\bt\(\s*["']([\w.]+)["']""", CODE))
    assert asked <= set(CATALOGUE)
    written = set(re.findall(r"""["']([a-z][\w.]*)["']""", CODE))
    plural = {key for key in CATALOGUE if key.endswith(".one") and key[:-4] in CATALOGUE}
    assert set(CATALOGUE) - plural <= written


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_short_and_make_no_markup_from_text(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") < 300
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", text)
    for name in re.findall(r'from "(\.[^"]+)"', text):
        assert (path.parent / name).is_file()


def test_no_file_names_an_outside_address() -> None:
    for path in FOLDER.rglob("*"):
        if path.suffix in (".js", ".css", ".html", ".json", ".svg"):
            found = re.findall(r"(?:https?:)?//[\w.]+\.\w+[^\s\"']*", path.read_text("utf-8"))
            assert set(found) <= {"http://www.w3.org/2000/svg"}, path


def test_the_page_has_no_inline_script_or_style() -> None:
    page = assets()["index.html"].decode()
    assert not re.search(r"<style|<script(?! type=\"module\" src=)|\son\w+=|\sstyle=", page)
    for name in re.findall(r'(?:href|src)="page/([^"]+)"', page):
        assert name in assets()


def test_every_file_is_in_the_package() -> None:
    lines = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8").splitlines()
    (row,) = [line for line in lines if line.startswith("hyperfsad = [")]
    patterns = re.findall(r'"([^"]+)"', row)
    for name in assets():
        assert any(fnmatch(f"serve/page/{name}", pattern) for pattern in patterns), name


def test_files_are_served_safely(station: Running) -> None:
    status, headers, content = station.ask("GET", "/", prefix="")
    assert status == 200
    assert "script-src 'self'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert content == assets()["index.html"]
    status, headers, _ = station.ask("GET", "/page/js/main.js", prefix="")
    assert (status, headers["content-type"]) == (200, "text/javascript; charset=utf-8")
    again = station.ask(
        "GET", "/page/js/main.js", headers={"If-None-Match": headers["etag"]}, prefix=""
    )
    assert (again[0], again[2]) == (304, b"")
    for name in ("", "__init__.py", "../server.py", "..%2fserver.py", "js", "/etc/passwd", "%00"):
        status, _, content = station.ask("GET", f"/page/{name}", prefix="")
        assert status == 404
        assert json.loads(content)["code"] == "address-unknown"
