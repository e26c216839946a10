"""The file of `--connect`."""

import subprocess
import sys
from pathlib import Path

import pytest

from hyperfsad.connect import read_connections
from hyperfsad.connect.config import PACKAGES, LineSettings
from hyperfsad.errors import UsageError
from tests.codes import raises

SECRET = "s3cret-word"


def written(folder: Path, text: str) -> Path:
    path = folder / "line.toml"
    path.write_text(text)
    return path


def test_every_table(tmp_path: Path) -> None:
    for name, text in (("headers", f"Authorization: Bearer {SECRET}"), ("word", SECRET)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o600)
    path = written(
        tmp_path,
        """
        [line]
        deadline = 0.5
        [webhook]
        url = "https://plant.example/parts"
        on = ["anomalous", "error"]
        headers_file = "headers"
        [mqtt]
        host = "broker.example"
        topic = "plant/line4"
        user = "line4"
        password_file = "word"
        timeout = 3
        [opcua]
        port = 4841
        [modbus]
        """,
    )
    found = read_connections(path)
    assert found.line == LineSettings(deadline=0.5)
    assert [(sink.name, sink.address) for sink in found.sinks] == [
        ("webhook", "https://plant.example"),
        ("mqtt", "mqtt://broker.example:1883"),
        ("opcua", "opc.tcp://127.0.0.1:4841"),
        ("modbus", "modbus://127.0.0.1:5020"),
    ]
    assert found.sinks[1].timeout == 3.0
    assert SECRET not in repr(found) + "".join(map(str, found.sinks))


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("config-unreadable", "[mqtt"),
        ("connect-empty", ""),
        ("connect-empty", "[line]\nhold = 3"),
        ("connect-table", "[profinet]\nhost = 'x'"),
        ("connect-table", "mqtt = 'x'"),
        ("connect-key", "[mqtt]\nhost = 'x'\npassword = 'y'"),
        ("connect-missing", "[mqtt]\nport = 1"),
        ("connect-missing", "[webhook]"),
        ("connect-value", "[mqtt]\nhost = 3"),
        ("connect-value", "[mqtt]\nhost = 'x'\ntls = 1"),
        ("connect-value", "[modbus]\nport = true"),
        ("connect-value", "[webhook]\nurl = 'http://x/'\non = 'all'"),
        ("port-range", "[modbus]\nport = 70000"),
        ("connect-seconds", "[line]\ndeadline = 0"),
        ("connect-seconds", "[line]\nhold = -1\n[modbus]"),
        ("secret-file-unreadable", "[mqtt]\nhost = 'x'\nuser = 'y'\npassword_file = 'nowhere'"),
    ],
)
def test_files_that_cannot_be_used(code: str, text: str, tmp_path: Path) -> None:
    with raises(UsageError, code):
        read_connections(written(tmp_path, text))


def test_a_package_that_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PACKAGES, "modbus", "no_such_package")
    with raises(UsageError, "connect-package", extra="modbus"):
        read_connections(written(tmp_path, "[modbus]"))


def test_nothing_is_imported_that_is_not_used(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from hyperfsad.connect import read_connections;"
        f"read_connections(Path({str(written(tmp_path, '[modbus]'))!r}));"
        f"print([name for name in {[*PACKAGES.values()]} if name in sys.modules])"
    )
    command = [sys.executable, "-c", script]
    assert subprocess.run(command, capture_output=True, check=True).stdout.strip() == b"[]"
