"""The folder of an exported model as a detector: results with verdicts and regions.

It answers as `HyperFSAD.predict` does. What a graph has no tokens for, evidence, it cannot give.
`model.json`, the card, holds all that the graph cannot say of itself.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..decisions.thresholds import Calibration
from ..detector import pipeline
from ..detector.pipeline import Levels
from ..disk.files import file_sha256, open_regular
from ..encoders.runtime import CompileOptions, last_line, openvino_core
from ..errors import DetectorFileError, UsageError, first_line, reason
from ..images.loading import (
    LARGEST_DRAWN,
    ChannelOrder,
    ImageSource,
    LoadedImage,
    NormalImage,
    PreparedImage,
    fitting_memory,
    load_image,
)
from ..images.reading import READ_AHEAD, Images
from ..method.scoring import BranchScores, TokenScore
from ..results.result import AnomalyResult

CARD = "model.json"
CARD_FORMAT = 1
MAX_CARD_BYTES = 64 << 20
"""Bytes of a card: no list of good parts is longer."""
GRAPHS = {"onnx": "model.onnx", "openvino": "model.xml"}
"""The kinds of models, and the file that holds the graph of each."""
RUNTIMES = {"onnx": "onnxruntime", "openvino": "openvino"}
"""The package that runs each."""

Outputs: TypeAlias = Mapping[str, NDArray[Any]]
Run: TypeAlias = Callable[[NDArray[np.uint8]], Outputs]


@dataclass(frozen=True)
class Card:
    """What a card says, checked."""

    kind: str
    graph: Path
    """The file of the graph."""
    side: int
    """Of the graph's square input, in pixels."""
    outputs: tuple[str, ...]
    """What comes out of the graph, in its order."""
    weights: Mapping[str, float]
    """Of the branches in the image score."""
    levels: Levels
    support: tuple[NormalImage, ...]
    identity: str
    """A hash of all that scores depend on: that of the detector which was exported."""


def read_card(folder: Path) -> Card:
    """The card of a folder; its files must be those that were exported."""
    path = folder / CARD
    try:
        with open_regular(path) as file:
            found = json.loads(file.read(MAX_CARD_BYTES))
        if found["format"] > CARD_FORMAT:
            facts = {"given": found["format"], "known": CARD_FORMAT}
            raise DetectorFileError("card-newer", file=path, **facts)
        card = _checked(folder, found)
        hashes = {folder / Path(name).name: one["sha256"] for name, one in found["files"].items()}
    except DetectorFileError:
        raise
    except OSError as error:
        raise DetectorFileError("card-unreadable", file=path, reason=reason(error)) from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        problem = first_line(error) if isinstance(error, ValueError) else repr(error)
        raise DetectorFileError("card-damaged", file=path, reason=problem) from error
    for each, expected in hashes.items():
        try:
            same = file_sha256(each) == expected
        except OSError as error:
            raise DetectorFileError("export-unreadable", file=each, reason=reason(error)) from error
        if not same:
            raise DetectorFileError("export-changed", file=each, card=CARD)
    return card


def _checked(folder: Path, found: Mapping[str, Any]) -> Card:
    kind, side, levels = found["kind"], int(found["input"]["side"]), found["levels"]
    weights = {str(name): float(weight) for name, weight in found["branches"].items()}
    low, high = map(float, levels["scale"])
    outputs = tuple(map(str, found["outputs"]))
    if kind not in GRAPHS or GRAPHS[kind] not in found["files"] or not 1 <= found["grid"] <= side:
        raise ValueError("its graph is not one that hyperfsad writes")
    if not {"score", "map", *(f"score_{name}" for name in weights)} <= set(outputs):
        raise ValueError("its outputs are not those that hyperfsad writes")
    if (
        not {"map", "cls"} <= weights.keys()
        or not np.isfinite([*weights.values(), low, high]).all()
    ):
        raise ValueError("its branches are not those that hyperfsad writes")
    numbers = ("threshold", "map_threshold", "foreign")
    threshold, map_threshold, foreign = (
        None if levels[name] is None else float(levels[name]) for name in numbers
    )
    stored = levels["calibration"]
    return Card(
        kind,
        folder / GRAPHS[kind],
        side,
        outputs,
        weights,
        Levels(
            threshold,
            map_threshold,
            levels["threshold_from"],
            None if stored is None else Calibration.from_dict(stored),
            foreign,
            (low, high),
        ),
        tuple(
            NormalImage(str(one["name"]), str(one["sha256"]), tuple(one["size"] or ()) or None)
            for one in found["normal_images"]
        ),
        str(found["identity"]),
    )


class ExportedModel:
    """The graph of an exported folder, run by ONNX Runtime or OpenVINO alone.

    model = ExportedModel("model/")
    model(pixels)["score"]                 # pixels: (images, side, side, 3), uint8
    """

    def __init__(self, folder: str | os.PathLike[str], *, threads: int | None = None) -> None:
        """`threads` bounds the CPU cores that it takes; None takes all."""
        self.card = read_card(Path(folder))
        start = {"onnx": _onnx, "openvino": _openvino}[self.card.kind]
        try:
            self._run = start(self.card, threads or 0)
        except ImportError as error:
            package = RUNTIMES[self.card.kind]
            raise UsageError("runtime-missing", folder=folder, package=package) from error
        except RuntimeError as error:
            raise DetectorFileError(
                "export-not-runnable", folder=folder, reason=last_line(error)
            ) from error

    def __call__(self, pixels: NDArray[np.uint8]) -> Outputs:
        """What the graph says of images (images, side, side, 3), by the names of its outputs."""
        side = self.card.side
        if pixels.dtype != np.uint8 or pixels.ndim != 4 or pixels.shape[1:] != (side, side, 3):
            raise UsageError("pixels-shape", side=side, type=pixels.dtype, shape=pixels.shape)
        return self._run(np.ascontiguousarray(pixels))


def _onnx(card: Card, threads: int) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(
            os.fspath(card.graph), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # which are classes of its own, derived from Exception
        raise RuntimeError(str(error)) from error
    names = card.outputs
    return lambda pixels: dict(zip(names, session.run(names, {"pixels": pixels}), strict=True))


def _openvino(card: Card, threads: int) -> Run:
    core = openvino_core()
    compiled = CompileOptions(threads).compile(core, core.read_model(card.graph))

    def run(pixels: NDArray[np.uint8]) -> Outputs:
        found = compiled({"pixels": pixels})
        # by their order: an output that equals another has the names of both
        return {name: np.array(found[place]) for place, name in enumerate(card.outputs)}

    return run


class ExportedDetector:
    """A detector of one product in the folder of an exported model.

    detector = ExportedDetector("model/")
    detector.predict("part.png").score
    """

    read_ahead = READ_AHEAD
    """Images that are read before they are asked for."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        threads: int | None = None,
        batch_size: int | None = None,
    ) -> None:
        if batch_size is not None and batch_size < 1:
            raise UsageError("batch-range", given=batch_size)
        self.model = ExportedModel(folder, threads=threads)
        card = self.model.card
        self.batch = batch_size or 1
        """Images that are scored at once."""
        self.min_area = 0.0
        """Regions of fewer pixels of the image are left out."""
        self.support_ = card.support
        """The normal images."""
        self.threshold_, self.threshold_from_ = card.levels.threshold, card.levels.threshold_from
        """The threshold of the score, and where it comes from, in a few words."""

    @property
    def products_(self) -> Mapping[str, "ExportedDetector"]:
        """Its one product, which has no name."""
        return {"": self}

    def identity(self) -> str:
        """That of the detector that was exported: results differ by rounding, as between engines,
        so a run may be resumed with either."""
        return self.model.card.identity

    def predict(
        self,
        image: ImageSource | LoadedImage,
        *,
        channels: ChannelOrder = "rgb",
        keep_pictures: bool = False,
    ) -> AnomalyResult:
        """Scores one image, as `HyperFSAD.predict` does."""
        return pipeline.predict(self, image, channels, keep_pictures)

    def predict_many(
        self, images: Images, *, channels: ChannelOrder = "rgb", keep_pictures: bool = False
    ) -> Iterator[AnomalyResult]:
        """Scores each image, as `HyperFSAD.predict_many` does."""
        return pipeline.predict_many(self, images, channels, keep_pictures)

    def prepare(self, source: ImageSource | LoadedImage, keep_picture: bool) -> PreparedImage:
        """Reads an image as the graph takes it: what `preprocess.py` gives for the file.

        Grey of more than 8 bits is rounded; all else is what the encoder of a detector sees.
        """
        loaded = load_image(source)
        with fitting_memory(loaded.name):
            return PreparedImage(
                loaded.pixels if isinstance(source, LoadedImage) else source,
                loaded.name,
                loaded.size,
                np.rint(loaded.square(self.model.card.side)).astype(np.uint8),
                loaded.reduced(LARGEST_DRAWN) if keep_picture else None,
            )

    def judge(self, images: Sequence[PreparedImage]) -> list[AnomalyResult]:
        """The results of a few images, as one batch."""
        found = self.model(np.stack([image.pixels for image in images]))
        card = self.model.card
        levels = replace(card.levels, min_area=self.min_area)
        results = []
        for at, image in enumerate(images):
            values = {name: float(found[f"score_{name}"][at]) for name in card.weights}
            missing = found["map_missing"][at] if "map_missing" in found else None
            score = TokenScore(
                found["map"][at],
                BranchScores(values, card.weights),
                missing=missing if missing is not None and missing.any() else None,
            )
            results.append(
                levels.result(image.name, image.size, image.source, image.picture, score)
            )
        return results
