"""A watch and its machines."""

import threading
from pathlib import Path
from typing import Any

import pytest

from hyperfsad import HyperFSAD
from hyperfsad.cli import main
from hyperfsad.connect import ConnectSettings, LineSettings, Modbus
from hyperfsad.connect.state import REASONS, STATES
from hyperfsad.watch import Watcher
from tests.cli.running import refusal
from tests.conftest import make_picture, read_results
from tests.connect.machines import Plc, free_port
from tests.waiting import until


@pytest.fixture
def camera(tmp_path: Path) -> Path:
    folder = tmp_path / "camera"
    folder.mkdir()
    return folder


def state(plc: Plc) -> tuple[str, str]:
    registers = plc.read()
    return STATES[registers[1]], REASONS[registers[6]]


def test_a_plc_beside_a_camera(detector: HyperFSAD, camera: Path, tmp_path: Path) -> None:
    detector.fit(make_picture(100))
    detector.threshold_ = 0.0
    port, options = free_port(), {"interval": 0.02, "settle": 0.05, "heatmaps": False}
    connect = ConnectSettings((Modbus(port=port),))
    watcher = Watcher(detector, camera, tmp_path / "out", connect=connect, **options)  # type: ignore[arg-type]
    running = threading.Thread(target=lambda: [*watcher.run()])
    running.start()
    plc = Plc(port)
    until(plc.connect)
    until(lambda: state(plc)[0] == "ready")
    assert plc.write(100, 1)
    assert state(plc)[0] == "busy"
    make_picture(1).save(camera / "1.png")
    until(lambda: plc.read()[4])
    assert plc.read()[5:10] == [2, 0, 0, 1, 1]
    (camera / "2.png").write_bytes(b"no picture")
    camera.rename(tmp_path / "gone")
    until(lambda: state(plc) == ("fault", "fault"))
    assert plc.read()[5] == 0
    (tmp_path / "gone").rename(camera)
    until(lambda: state(plc)[0] != "fault")
    (camera / "2.png").unlink()
    make_picture(3).save(camera / "3.png")
    until(lambda: plc.catch_up() == 2)
    plc.close()
    watcher.stop()
    running.join()
    assert plc.seen == {1: 2, 2: 2}


def test_what_is_late_has_no_verdict(detector: HyperFSAD, camera: Path, tmp_path: Path) -> None:
    """Nothing is as fast as that."""
    detector.fit(make_picture(100))
    detector.threshold_ = 9.0
    make_picture(1).save(camera / "1.png")
    connect = ConnectSettings((Modbus(port=free_port()),), LineSettings(deadline=1e-6))
    options: dict[str, Any] = {"interval": 0.02, "settle": 0.05, "heatmaps": False}
    (result,) = Watcher(detector, camera, tmp_path / "out", connect=connect, **options).run(True)
    assert result.anomalous is False
    (record,) = read_results(tmp_path / "out")
    assert record["late"] is True
    sink = connect.sinks[0]
    assert isinstance(sink, Modbus)
    sink._looked_at = 1
    registers = sink.registers()
    assert (registers[32], REASONS[registers[33]]) == (0, "late")


def test_the_command(detector: HyperFSAD, camera: Path, tmp_path: Path) -> None:
    detector.fit(make_picture(100)).save(tmp_path / "part.hfsad")
    make_picture(1).save(camera / "1.png")
    file = tmp_path / "line.toml"
    file.write_text(f"[modbus]\nport = {free_port()}\n[webhook]\nurl = 'http://127.0.0.1:9/'\n")
    command = ["watch", str(camera), "--detector", str(tmp_path / "part.hfsad")]
    command += ["-o", str(tmp_path / "out"), "--once", "--interval", "0.02", "--settle", "0.05"]
    command += ["--connect", str(file)]
    assert refusal(*command, "--webhook", "http://x/") == "connect-twice"
    file.write_text(f"[modbus]\nport = {free_port()}\n")
    assert main(command) == 0
    assert len(read_results(tmp_path / "out")) == 1
