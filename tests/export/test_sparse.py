"""Sparsemax of a graph is that of the method, however many patches are active."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from hyperfsad.encoders.runtime import import_openvino
from hyperfsad.export import matching
from hyperfsad.method import lookups
from tests.export.exporting import KINDS


def rows(name: str) -> Tensor:
    """Similarities with few, many and all active, and with nothing to tell them apart."""
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(8, 3000, generator=generator)
    return {
        "few": 0.3 * noise,
        "hundreds": 0.002 * noise,
        "all": 1e-5 * noise,
        "equal": torch.full((2, 40_000), 0.7),
        "one": 50 * noise,
        "short": noise[:, :5],
        "mixed": torch.cat([50 * noise[:4], 1e-4 * noise[4:]]),
    }[name]


CASES = ("few", "hundreds", "all", "equal", "one", "short", "mixed")


@pytest.mark.parametrize("name", CASES)
def test_weights_are_those_of_the_method(name: str) -> None:
    z = rows(name)
    found, expected = matching.sparsemax(z), lookups.sparsemax(z.double()).float()
    assert torch.allclose(found.double().sum(dim=-1), torch.ones(len(z)).double(), atol=1e-5)
    assert (found - expected).abs().max() < 1e-6
    active = {"few": 8, "hundreds": lookups.FIRST_CANDIDATES, "all": 2999, "equal": 39_999}
    assert (expected > 0).sum(dim=-1).max() > active.get(name, 0)


class Lookup(nn.Module):
    def forward(self, z: Tensor) -> Tensor:
        return matching.sparsemax(z)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore")
def test_a_graph_has_the_same_weights(kind: str, tmp_path: Path) -> None:
    """One graph for all: how many steps it goes is decided when it runs."""
    path = tmp_path / "lookup.onnx"
    torch.onnx.export(
        Lookup(),
        (rows("few")[:2],),
        path,
        dynamo=False,
        opset_version=18,
        input_names=["z"],
        dynamic_axes={"z": {0: "rows"}},
    )
    run = runner(kind, path)
    for name in ("few", "hundreds", "all", "one", "mixed"):
        z = rows(name)
        expected = lookups.sparsemax(z.double()).numpy()
        assert np.abs(run(z=z.numpy())[0] - expected).max() < 1e-6, name


def runner(kind: str, path: Path) -> Any:
    """What runs a graph: inputs by name, outputs by place."""
    if kind == "openvino":
        core = import_openvino().Core()
        options = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
        compiled = core.compile_model(core.read_model(path), "CPU", options)
        return lambda **inputs: compiled(inputs)
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return lambda **inputs: session.run(None, inputs)
