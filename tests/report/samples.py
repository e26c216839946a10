"""Results of images that are drawn here, for tests of the report."""

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hyperfsad import AnomalyResult
from hyperfsad.decisions.regions import find_regions
from hyperfsad.method.scoring import BranchScores
from hyperfsad.report.folder import OutputFolder
from hyperfsad.report.page import ProductSummary
from tests.conftest import make_picture

SIZE = (96, 80)


def sample_record(image: str = "a.png", **fields: Any) -> dict[str, Any]:
    """A record of results.jsonl with a score of 0.5 and no verdict."""
    plain = {**AnomalyResult.failed(image, "").to_dict(), "heatmap": None, "map": None}
    scores = {"score": 0.5, "score_map": 0.6, "score_cls": 0.4, "size": [100, 80], "error": None}
    return {**plain, **scores, **fields}


def sample_result(
    name: str, seed: int, *, peak: float, map_threshold: float | None, **fields: Any
) -> AnomalyResult:
    """The result of an image that is saved under `name`; its map has a peak right of the middle."""
    make_picture(seed, SIZE).save(name)
    anomaly_map = np.full((6, 6), 0.1, np.float32)
    anomaly_map[2, 3] = peak
    score = fields.pop("score", peak)
    made = AnomalyResult(name, BranchScores.of_map(score), anomaly_map, SIZE, (0.2, 0.6), name)
    regions = () if map_threshold is None else find_regions(anomaly_map, SIZE, map_threshold)
    return dataclasses.replace(made, map_threshold=map_threshold, regions=regions, **fields)


def written_report(
    folder: Path, results: Iterable[AnomalyResult], products: Sequence[ProductSummary] = ()
) -> Path:
    """The page of a run with these results."""
    made = list(results)
    with OutputFolder(folder, run="r", products=products).open() as output:
        for result in made:
            output.add(result)
        output.finish([result.image for result in made])
    return folder / "report.html"
