"""What pip and uv are configured with, on each system: the variables and files that they read."""

import os
import sys
from pathlib import Path

import pytest

from hyperfsad.encoders import package_settings
from hyperfsad.encoders.package_settings import PYPI, pip_files, uv_files


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine on which nothing is configured, but for files that a test puts there."""
    for name in list(os.environ):
        if name.startswith(("PIP_", "UV_", "XDG_")) or name == "REQUESTS_CA_BUNDLE":
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(tmp_path / "xdg"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    # the files under /etc are this machine's own
    own = [pip_files, uv_files]
    for read in own:

        def inside(read: object = read) -> list[Path]:
            return [path for path in read() if tmp_path in path.parents]  # type: ignore[operator]

        monkeypatch.setattr(package_settings, read.__name__, inside)
    return tmp_path


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def indexes() -> tuple[str, ...]:
    return package_settings.package_settings().indexes


def test_without_settings_it_is_pypi() -> None:
    found = package_settings.package_settings()
    assert found == package_settings.PackageSettings((PYPI,))


def test_the_files_of_pip_and_which_comes_first(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [
        home / "xdg/pip/pip.conf",
        home / ".pip/pip.conf",
        home / ".config/pip/pip.conf",
        home / "venv/pip.conf",
    ]
    for number, path in enumerate(places):
        put(path, f"[global]\nindex-url = http://{number}/simple\n")
        assert indexes() == (f"http://{number}/simple",)
    put(places[0], "[download]\nindex_url = http://download/simple\n")
    assert indexes() == ("http://download/simple",)
    put(home / "chosen.conf", "[download]\nindex-url=http://chosen\nextra-index-url =\n  a\n  b\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(home / "chosen.conf"))
    assert indexes() == ("http://chosen", "a", "b")
    monkeypatch.setenv("PIP_INDEX_URL", "http://variable")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "c http://variable")
    assert indexes() == ("http://variable", "c")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.delenv("PIP_INDEX_URL")
    assert indexes() == (PYPI, "c", "http://variable")


@pytest.mark.parametrize("content", [b"\xff\xfe", b"no section", b"[global]\n= 5"])
def test_damaged_files_are_passed_over(home: Path, content: bytes) -> None:
    for place in (home / ".config/pip/pip.conf", home / ".config/uv/uv.toml"):
        place.parent.mkdir(parents=True)
        place.write_bytes(content)
    assert indexes() == (PYPI,)


def test_pip_may_be_told_to_ask_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_INDEX_URL", "http://a")
    monkeypatch.setenv("PIP_FIND_LINKS", "/wheels http://links/")
    found = package_settings.package_settings()
    assert (found.indexes, found.links) == ((), ("/wheels", "http://links/"))
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://uv")  # uv was not told so
    assert indexes() == ("http://uv",)


def test_the_other_options_of_pip(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(home / "own.pem", "")
    put(
        home / ".config/pip/pip.conf",
        f"[global]\ncert = {home / 'own.pem'}\nproxy = http://proxy:3128\ntimeout = 4\n"
        "trusted-host = nexus.plant\n  nexus.plant:8443\n",
    )
    found = package_settings.package_settings()
    assert (found.certificates, found.proxy) == (str(home / "own.pem"), "http://proxy:3128")
    assert found.timeout == 4.0
    assert found.trusted == {"nexus.plant", "nexus.plant:8443"}
    monkeypatch.setenv("PIP_TIMEOUT", "soon")
    assert package_settings.package_settings().timeout == package_settings.PATIENCE


def test_the_files_of_uv(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(
        home / ".config/uv/uv.toml",
        'find-links = ["/wheels"]\nallow-insecure-host = ["nexus"]\n'
        '[[index]]\nname = "more"\nurl = "https://more/simple"\n'
        '[[index]]\nname = "plant-line.4"\nurl = "https://plant/simple"\ndefault = true\n'
        '[pip]\nextra-index-url = ["https://extra/simple"]\n',
    )
    found = package_settings.package_settings()
    assert found.indexes == ("https://plant/simple", "https://more/simple", "https://extra/simple")
    assert found.links == ("/wheels",)
    assert found.trusted == {"nexus"}
    monkeypatch.setenv("UV_INDEX_PLANT_LINE_4_USERNAME", "me")
    monkeypatch.setenv("UV_INDEX_PLANT_LINE_4_PASSWORD", "p@ss")
    assert indexes()[0] == "https://me:p%40ss@plant/simple"
    monkeypatch.setenv("UV_INDEX", "http://first more=http://named/simple?a=b")
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://default")
    assert indexes()[:3] == ("http://default", "http://first", "http://named/simple?a=b")
    monkeypatch.setenv("UV_NO_CONFIG", "1")
    assert indexes() == ("http://default", "http://first", "http://named/simple?a=b")


def test_another_file_of_uv_and_the_older_names(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(home / "uv.toml", 'index-url = "http://old"\nextra-index-url = ["http://more"]\n')
    monkeypatch.setenv("UV_CONFIG_FILE", str(home / "uv.toml"))
    assert indexes() == ("http://old", "http://more")
    monkeypatch.setenv("UV_INDEX_URL", "http://variable")
    assert indexes() == ("http://variable", "http://more")
    put(home / "uv.toml", "no-index = true\n")
    assert indexes() == ()
    monkeypatch.setenv("PIP_INDEX_URL", "http://pip")
    assert indexes() == ("http://pip",)


def test_where_macos_and_windows_keep_them(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folders of the system come from platformdirs, which is replaced here."""
    own, all_users = home / "AppData", home / "ProgramData"

    def user(program: str, **_: object) -> Path:
        return own / program

    def site(program: str, **_: object) -> str:
        return str(all_users / program)

    monkeypatch.setattr("platformdirs.user_config_path", user)
    monkeypatch.setattr("platformdirs.site_config_dir", site)
    expected = [all_users / "pip", home / "pip", own / "pip", home / "venv"]
    monkeypatch.setattr(sys, "platform", "win32")
    assert [*pip_files()] == [folder / "pip.ini" for folder in expected]
    assert uv_files() == [own / "uv/uv.toml", all_users / "uv/uv.toml"]
    monkeypatch.setattr(sys, "platform", "darwin")
    expected = [all_users / "pip", home / ".pip", home / ".config/pip", home / "venv"]
    assert [*pip_files()] == [folder / "pip.conf" for folder in expected]
    (own / "pip").mkdir(parents=True)
    assert [*pip_files()][2] == own / "pip/pip.conf"
    assert uv_files()[0] == home / ".config/uv/uv.toml"
