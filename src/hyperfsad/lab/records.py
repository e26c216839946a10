"""Records: what each figure is, where it comes from, and what a run writes of it.

Every record carries the key of its entry in `provenance.json`, which holds all that the figure
depends on. The key is the beginning of the entry's hash, so that records of several runs may be put
together with their entries and never mix.
"""

import hashlib
import json
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from ..disk.files import atomic_path, encoded, write_file
from ..encoders import EncoderSettings
from ..report.records import csv_table
from ..version import __version__
from .datasets import Category
from .presets import Variant
from .tables import Cell
from .tokens import TokenCache

IMPORTED = "imported"
"""What stands where our own records name their encoder."""

SCORE_COLUMNS = (
    *("dataset", "category", "image", "anomalous", "method", "encoder", "resolution", "shots"),
    *("run", "score"),
)
"""`image` is relative to the data set's folder; `anomalous` is the truth, true or false."""

ENGINE_PACKAGES = {"torch": ("torch", "transformers"), "openvino": ("openvino",)}
"""What computes tokens, by the name of the engine."""

Entry: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Record:
    """The figures of one method on one category, for one support set."""

    dataset: str
    category: str
    encoder: str
    resolution: int
    method: str
    shots: int
    run: int
    support: tuple[str, ...]
    metrics: dict[str, float | None]
    counts: dict[str, int] = field(default_factory=dict)
    """The images and masks of the category: `normal`, `good`, `bad`, `masks`."""
    provenance: str = ""
    """The key of its entry in provenance.json."""
    imported: bool = False
    """Whether the scores are another system's."""
    every_run: bool = False
    """Whether an import names no run: its figures then stand for each of them."""

    @property
    def label(self) -> str:
        """What a row of a table is called."""
        return f"{self.method} ({IMPORTED if self.imported else self.encoder})"


def summarise(records: Iterable[Record], metric: str) -> Cell | None:
    """The mean over categories of each run, then mean and sample deviation over runs, in percent.

    Categories without the metric (no masks, no defect) do not count; None where all lack it.
    """
    runs: dict[int, list[float]] = {}
    for record in records:
        value = record.metrics.get(metric)
        if value is not None:
            runs.setdefault(record.run, []).append(value)
    means = [100 * sum(values) / len(values) for _, values in sorted(runs.items())]
    if not means:
        return None
    deviation = float(np.std(means, ddof=1)) if len(means) > 1 else None
    return Cell(float(np.mean(means)), deviation)


def measured_entry(cache: TokenCache, variants: Sequence[Variant], **origin: Any) -> Entry:
    """The provenance of what is measured here with one encoder; `origin`: preset, recipe, seed and
    evaluation size."""
    settings, encoder = cache.settings, cache.encoder
    return {
        **origin,
        "encoder": settings.name,
        "weights": encoder.fingerprint,
        "layers": list(settings.layers),
        "final_norm": settings.final_norm,
        "last_norm": settings.last_norm,
        "resolution": settings.resolution,
        "engine": encoder.engine,
        "precision": encoder.precision,
        "device": encoder.device,
        "methods": {variant.label: asdict(variant) for variant in variants},
        "versions": _versions(*ENGINE_PACKAGES[encoder.engine]),
    }


def imported_entry(name: str, scores_sha256: str, *, eval_size: int) -> Entry:
    """The provenance of another system's scores."""
    known = {"imported": name, "scores_sha256": scores_sha256, "eval_size": eval_size}
    return known | {"versions": _versions()}


def entry_key(entry: Entry) -> str:
    """The short name of an entry."""
    return hashlib.sha256(json.dumps(entry, sort_keys=True).encode()).hexdigest()[:12]


def _versions(*packages: str) -> dict[str, str]:
    named = (*packages, "numpy", "pillow")
    versions = {package: metadata.version(package) for package in named}
    return {"hyperfsad": __version__, "python": platform.python_version(), **versions}


def image_columns(category: Category, place: int) -> dict[str, Any]:
    """What a row of the score table says of a test image, whatever the method."""
    image = category.test[place]
    return {
        "dataset": category.dataset,
        "category": category.name,
        "image": category.name_of(image.path),
        "anomalous": "true" if image.anomalous else "false",
    }


def write_records(
    records: Iterable[Record],
    entries: Mapping[str, Entry],
    scores: Iterable[dict[str, Any]],
    out: Path,
) -> None:
    """Writes records.jsonl, provenance.json, and scores.csv row by row, so that memory stays small:
    other programs can recompute every image metric from it."""
    lines = [json.dumps(asdict(record), ensure_ascii=False) + "\n" for record in records]
    write_file(out / "records.jsonl", encoded("".join(lines)), parents=True)
    content = json.dumps(entries, ensure_ascii=False, indent=2) + "\n"
    write_file(out / "provenance.json", encoded(content), parents=True)
    with atomic_path(out / "scores.csv", parents=True) as temporary, temporary.open("wb") as file:
        for line in csv_table(SCORE_COLUMNS, scores):
            file.write(encoded(line))


def encoder_name(encoder: str, encoders: Sequence[str]) -> str:
    """A short name of an encoder for files; two folders of one name get different ones."""
    name = short_name(encoder)
    if sum(short_name(other) == name for other in set(encoders)) == 1:
        return name
    return f"{name}-{hashlib.sha256(encoder.encode(errors='surrogateescape')).hexdigest()[:6]}"


def encoder_label(settings: EncoderSettings, encoders: Sequence[str]) -> str:
    """A name for the folders of an encoder's tokens."""
    label = f"{encoder_name(settings.name, encoders)}-{settings.resolution}"
    return label if settings.form == "unit" else f"{label}-{settings.form}"


def short_name(encoder: str) -> str:
    """An encoder's name; of a folder the last part."""
    return os.path.basename(os.path.normpath(encoder))
