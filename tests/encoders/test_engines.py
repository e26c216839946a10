"""Which engine is taken, and what is said where one cannot be had."""

import sys

import pytest
import torch

from hyperfsad.encoders import find_spec
from hyperfsad.encoders.encoder import choose_engine, load_encoder, use_threads
from hyperfsad.encoders.runtime import named_engine
from hyperfsad.errors import UsageError
from tests.codes import raises

CPU, GPU = torch.device("cpu"), torch.device("cuda")


@pytest.fixture
def no_openvino(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openvino", None)  # as if it were not installed


def test_auto_takes_openvino_on_the_cpu_alone() -> None:
    assert choose_engine("auto", CPU) == "openvino"
    assert choose_engine("auto", GPU) == "torch"
    assert choose_engine("torch", CPU) == "torch"
    with raises(UsageError, "engine-with-device", engine="openvino", device="cuda"):
        choose_engine("openvino", GPU)


@pytest.mark.usefixtures("no_openvino")
def test_without_openvino_auto_takes_torch() -> None:
    assert choose_engine("auto", CPU) == "torch"


@pytest.mark.usefixtures("no_openvino")
def test_without_openvino_asking_for_it_says_how_to_install_it(tiny: str) -> None:
    with raises(UsageError, "engine-not-installed", extra="openvino"):
        load_encoder(find_spec(tiny).settings(), engine="openvino")


def test_an_unknown_engine_lists_the_known_ones(tiny: str) -> None:
    with raises(UsageError, "engine-unknown", given="jax"):
        load_encoder(find_spec(tiny).settings(), engine="jax")


def test_a_variable_says_what_auto_means(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYPERFSAD_ENGINE", "openvino")
    assert (named_engine("auto"), named_engine("torch")) == ("openvino", "torch")
    monkeypatch.delenv("HYPERFSAD_ENGINE")
    assert named_engine("auto") == "auto"


def test_threads_are_bounded() -> None:
    before = torch.get_num_threads()
    try:
        use_threads(None)
        assert torch.get_num_threads() == before
        use_threads(1)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
    with raises(UsageError, "threads-range", given=0):
        use_threads(0)
