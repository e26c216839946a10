"""Small detectors, their exported models, and how far apart the two are."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from hyperfsad import HyperFSAD
from hyperfsad.export.exported import ExportedModel, Outputs
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
        recipe=recipe,
        resolution=SIDE,
        device="cpu",
        engine="torch",
        **options,  # type: ignore[arg-type]
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
