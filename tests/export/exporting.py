"""Small detectors, their exported models, and how far apart the two are."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from hyperfsad import HyperFSAD
from hyperfsad.encoders.runtime import import_openvino
from hyperfsad.export.exported import ExportedModel, Outputs
from hyperfsad.export.nodes import Node, ops
from hyperfsad.export.onnx import write_onnx
from hyperfsad.export.openvino import model_of, write_openvino
from hyperfsad.export.writing import export
from hyperfsad.images.loading import load_image
from tests.conftest import make_picture

SIDE = 84
KINDS = ("onnx", "openvino")


def fitted(tiny: str, recipe: str, shots: int, **options: object) -> HyperFSAD:
    """A detector of the small model; `pictures` replace the usual good parts."""
    pictures = options.pop("pictures", [make_picture(seed) for seed in range(shots)])
    detector = HyperFSAD(
        tiny,
        recipe=recipe,  # type: ignore[arg-type]
        resolution=SIDE,
        device="cpu",
        **{"precision": "float32", **options},  # type: ignore[arg-type]
    )
    return detector.fit(pictures)  # type: ignore[arg-type]


def exported(detector: HyperFSAD, folder: Path, kind: str) -> ExportedModel:
    export(detector, folder, kind)
    return ExportedModel(folder, threads=1)


def pixels_of(pictures: Sequence[Image.Image]) -> NDArray[np.uint8]:
    """What the encoder sees of pictures before it normalises them."""
    seen = [load_image(each).to_array(SIDE, (0, 0, 0), (1, 1, 1)) for each in pictures]
    values: NDArray[np.float32] = 255 * np.stack(seen).transpose(0, 2, 3, 1)
    return np.rint(values).astype(np.uint8)


def differences(
    detector: HyperFSAD, found: Outputs, pictures: Sequence[Image.Image]
) -> dict[str, float]:
    """The largest differences between a detector's results and what a graph gave, by output."""
    expected = [detector.predict(picture) for picture in pictures]
    off = {
        "score": max(abs(one.score - found["score"][n]) for n, one in enumerate(expected)),
        "map": max(
            float(abs(one.anomaly_map - found["map"][n]).max()) for n, one in enumerate(expected)
        ),
    }
    for name in expected[0].branches.values:
        scores = found[f"score_{name}"]
        off[name] = max(
            abs(one.branches.values[name] - scores[n]) for n, one in enumerate(expected)
        )
    for n, one in enumerate(expected):
        by_score, by_map = found["anomalous_by_score"][n], found["anomalous_by_map"][n]
        assert bool(by_score or by_map) == one.anomalous
    return off


def graph_of(
    formula: Callable[..., Sequence[Node]], kind: str, folder: Path, **shapes: Sequence[int]
) -> Callable[..., list[NDArray[Any]]]:
    """What a formula draws for inputs of these shapes, written and run; the first axis is open."""
    inputs = {name: ops.parameter([-1, *shape], np.float32) for name, shape in shapes.items()}
    found = formula(*(Node(each.output(0)) for each in inputs.values()))
    outputs = {f"output_{place}": each for place, each in enumerate(found)}
    model = model_of(inputs, outputs)
    if kind == "openvino":
        write_openvino(model, folder / "model.xml")
        core = import_openvino().Core()
        options = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
        compiled = core.compile_model(core.read_model(folder / "model.xml"), "CPU", options)
        return lambda **given: [np.array(each) for each in compiled(given).values()]
    write_onnx(model, folder / "model.onnx")
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(
        str(folder / "model.onnx"), providers=["CPUExecutionProvider"]
    )
    return lambda **given: session.run([*outputs], given)
