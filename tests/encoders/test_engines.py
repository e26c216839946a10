"""Which device and engine are taken, and what is said where one cannot be had."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from hyperfsad import threads
from hyperfsad.encoders import devices, find_spec
from hyperfsad.encoders.devices import (
    choose_device,
    choose_engine,
    choose_precision,
    computes_in,
    has_precision,
    runs_on,
)
from hyperfsad.encoders.encoder import load_encoder, use_threads
from hyperfsad.encoders.runtime import named_engine
from hyperfsad.errors import ConversionError, UsageError
from hyperfsad.images.loading import load_image
from tests.codes import raises
from tests.conftest import make_picture


class Torch(ModuleType):
    """As much of torch as the search for devices asks."""

    def __init__(self, cuda: int = 0, mps: bool = False) -> None:
        super().__init__("torch")
        self.cuda = SimpleNamespace(
            is_available=lambda: cuda > 0,
            device_count=lambda: cuda,
            get_device_name=lambda place: f"card {place}",
        )
        self.backends = SimpleNamespace(mps=SimpleNamespace(is_available=lambda: mps))


class Core:
    """OpenVINO on a machine with a CPU, two graphics cards and an NPU."""

    available_devices = ("CPU", "GPU.0", "GPU.1", "NPU")

    def get_property(self, device: str, name: str) -> str:
        return f"{device} of the maker "


@pytest.fixture
def with_torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Puts a torch of some devices in the place of whatever is installed."""

    def use(**found: Any) -> None:
        monkeypatch.setitem(sys.modules, "torch", Torch(**found))
        monkeypatch.setattr(devices, "_installed", lambda package: f"/site/{package}/__init__.py")

    return use


@pytest.fixture
def no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # as if it were not installed


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "openvino_core", Core)


@pytest.mark.parametrize("found", [{"cuda": 1}, {"cuda": 1, "mps": True}])
def test_auto_is_cuda_where_torch_has_it(with_torch: Any, found: dict[str, Any]) -> None:
    with_torch(**found)
    assert choose_device("auto") == "cuda"


@pytest.mark.usefixtures("many")
def test_auto_is_never_another_card_unasked(with_torch: Any) -> None:
    with_torch(mps=True)
    assert choose_device("auto") == "cpu"
    assert [choose_device(name) for name in ("gpu:1", "gpu:0", "npu", "mps")] == [
        "gpu:1",
        "gpu:0",
        "npu",
        "mps",
    ]


@pytest.mark.usefixtures("no_torch", "many")
def test_the_devices_of_this_machine_are_named_without_torch() -> None:
    assert devices.available() == {
        "cpu": "CPU of the maker",
        "gpu:0": "GPU.0 of the maker",
        "gpu:1": "GPU.1 of the maker",
        "npu": "NPU of the maker",
    }
    assert choose_device("auto") == "cpu"
    with raises(UsageError, "device-unavailable", device="gpu:2"):
        choose_device("gpu:2")


def test_several_cards_have_numbers(with_torch: Any) -> None:
    with_torch(cuda=2)
    assert devices.available().items() >= {"cuda:0": "card 0", "cuda:1": "card 1"}.items()
    assert choose_device("cuda") == "cuda"
    assert choose_device("cuda:1") == "cuda:1"
    assert choose_device("auto") == "cuda"
    with raises(UsageError, "device-unavailable", device="cuda:2"):
        choose_device("cuda:2")


def test_this_machine_has_a_cpu() -> None:
    assert devices.available()["cpu"]


@pytest.mark.usefixtures("no_torch")
def test_without_torch_asking_for_it_says_how_to_install_it(tiny: str) -> None:
    settings = find_spec(tiny).settings()
    for machine in ({"device": "cuda"}, {"device": "mps"}, {"engine": "torch"}):
        with raises(UsageError, "torch-not-installed") as caught:
            load_encoder(settings, **machine)  # type: ignore[arg-type]
        assert "pip install 'hyperfsad[torch]'" in str(caught.value)


def test_a_broken_torch_is_survived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torch", "transformers"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise OSError('no such library')\n")
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    assert choose_device("auto") == "cpu"
    assert set(devices.available()).isdisjoint({"cuda", "mps"})
    with raises(UsageError, "torch-broken", reason="no such library"):
        choose_device("cuda")


def test_a_broken_openvino_has_no_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise ConversionError("openvino-broken", reason="no such library")

    monkeypatch.setattr(devices, "openvino_core", broken)
    assert "cpu" not in devices.available()
    assert choose_device("cpu") == "cpu"


VERSION = """from typing import Optional
__version__ = '2.13.0'
cuda: Optional[str] = {cuda}
hip: Optional[str] = {hip}
"""


@pytest.mark.parametrize(
    ("cuda", "hip", "driver", "expected"),
    [
        ("None", "None", True, False),
        ("'12.8'", "None", True, True),
        ("'12.8'", "None", False, False),
        ("None", "'6.4'", False, True),
    ],
)
def test_torch_is_imported_for_auto_only_where_it_may_have_a_card(
    cuda: str, hip: str, driver: bool, expected: bool, tmp_path: Path, monkeypatch: Any
) -> None:
    (tmp_path / "version.py").write_text(VERSION.format(cuda=cuda, hip=hip))
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr(devices, "_installed", lambda _: str(tmp_path / "__init__.py"))
    monkeypatch.setattr(devices, "_has_driver", lambda: driver)
    assert devices.torch_may_have_cuda() == expected


def test_encoding_on_the_cpu_imports_no_torch(tiny: str) -> None:
    code = (
        "import sys\n"
        "from hyperfsad.encoders import find_spec\n"
        "from hyperfsad.encoders.encoder import load_encoder\n"
        f"load_encoder(find_spec({tiny!r}).settings(resolution=84), 'cpu')\n"
        "heavy = {'torch', 'transformers', 'onnx', 'scipy', 'huggingface_hub'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_names_settings_and_help_need_no_numpy() -> None:
    code = (
        "import sys, hyperfsad.encoders, hyperfsad.encoders.checkpoints\n"
        "import hyperfsad.encoders.devices, hyperfsad.encoders.runtime\n"
        "print('numpy' in sys.modules, 'openvino' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"


def test_each_device_has_its_engines() -> None:
    assert [choose_engine("auto", device) for device in ("cpu", "gpu:1", "npu", "cuda", "mps")] == [
        "openvino",
        "openvino",
        "openvino",
        "torch",
        "torch",
    ]
    assert choose_engine("openvino", "gpu") == "openvino"
    for engine, device in (("openvino", "cuda"), ("openvino", "mps"), ("torch", "gpu")):
        assert not runs_on(engine, device)
        with raises(UsageError, "engine-with-device", engine=engine, device=device):
            choose_engine(engine, device)
    assert runs_on("auto", "gpu")
    assert runs_on("openvino", "auto")


def test_each_device_has_its_precision() -> None:
    devices = {"gpu": "float32", "npu": "float16", "mps": "float32"}
    assert {one: choose_precision("auto", "openvino", one) for one in devices} == devices
    assert choose_precision("bf16", "openvino", "cpu") == "bf16"
    here = [each for each in ("bf16", "int8") if computes_in(each, "openvino", "cpu")]
    assert choose_precision("auto", "openvino", "cpu") == next(iter(here), "float32")
    assert choose_precision("auto", "openvino", "cpu", "float32") == "float32"
    assert choose_precision("auto", "openvino", "cpu", "float16") == "float32"
    assert choose_precision("auto", "torch", "cpu") == "float32"
    assert has_precision("bf16", "auto", "auto")
    assert has_precision("float32", "torch", "mps")
    for precision, engine, device in (
        ("int8", "torch", "cpu"),
        ("float16", "auto", "cuda"),
    ):
        assert not has_precision(precision, engine, device)


def test_torch_computes_in_half_precision_too(tiny: str) -> None:
    pytest.importorskip("torch", reason="needs the extra [torch]")
    settings = find_spec(tiny).settings(resolution=84)
    exact, half = (
        load_encoder(settings, "cpu", engine="torch", precision=each)
        for each in ("float32", "bf16")
    )
    assert half.precision == "bf16"
    image = [load_image(make_picture(1))]
    one, other = (encoder.encode(image).patches for encoder in (exact, half))
    assert 1e-7 < 1 - (one * other).sum(axis=-1).mean() < 1e-3


def test_an_unknown_engine_lists_the_known_ones(tiny: str) -> None:
    with raises(UsageError, "engine-unknown", given="jax"):
        load_encoder(find_spec(tiny).settings(), engine="jax")


def test_a_variable_says_what_auto_means(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYPERFSAD_ENGINE", "openvino")
    assert (named_engine("auto"), named_engine("torch")) == ("openvino", "torch")
    monkeypatch.delenv("HYPERFSAD_ENGINE")
    assert named_engine("auto") == "auto"


def test_threads_are_bounded() -> None:
    before = threads.count()
    try:
        use_threads(None)
        assert threads.count() == before
        use_threads(1)
        assert threads.count() == 1
    finally:
        threads.limit(before)
    with raises(UsageError, "threads-range", given=0):
        use_threads(0)
