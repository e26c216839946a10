"""Where a figure comes from: all that its value depends on, under a short key in every record.

`provenance.json` holds the entries by key. The key is the beginning of the entry's hash, so that
records of several runs may be put together with their entries and never mix.
"""

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any, TypeAlias

from ..disk.files import encoded, write_file
from ..version import __version__
from .scorer import Variant
from .token_cache import TokenCache

Entry: TypeAlias = dict[str, Any]


def measured(
    cache: TokenCache,
    variants: Sequence[Variant],
    *,
    preset: str,
    recipe: str,
    seed: int | None,
    eval_size: int,
) -> Entry:
    """The entry of what is measured here with one encoder."""
    settings, encoder = cache.settings, cache.encoder
    return {
        "preset": preset,
        "recipe": recipe,
        "seed": seed,
        "eval_size": eval_size,
        "encoder": settings.name,
        "weights": encoder.fingerprint,
        "layers": list(settings.layers),
        "final_norm": settings.final_norm,
        "last_norm": settings.last_norm,
        "resolution": settings.resolution,
        "engine": encoder.engine,
        "device": str(encoder.device),
        "methods": {variant.label: asdict(variant) for variant in variants},
        "versions": _versions(encoder.engine),
    }


def imported(name: str, scores: str, *, eval_size: int) -> Entry:
    """The entry of another system's scores; `scores` is the hash of its file."""
    return {
        "imported": name,
        "scores_sha256": scores,
        "eval_size": eval_size,
        "versions": _versions(),
    }


def key_of(entry: Entry) -> str:
    """The short name of an entry."""
    text = json.dumps(entry, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def write_entries(entries: Mapping[str, Entry], path: Path) -> None:
    """Writes `provenance.json`."""
    content = json.dumps(entries, ensure_ascii=False, indent=2) + "\n"
    write_file(path, encoded(content), parents=True)


def _versions(engine: str | None = None) -> dict[str, str]:
    packages = ["torch", "transformers"] if engine else []
    packages += [
        "numpy",
        "scipy",
        "pillow",
        *(["openvino"] if (engine or "").startswith("openvino") else []),
    ]
    versions = {package: metadata.version(package) for package in packages}
    return {"hyperfsad": __version__, "python": platform.python_version(), **versions}
