"""Names of the files and folders of a run."""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from ..encoders import EncoderSettings


def encoder_label(encoder: str, encoders: Sequence[str]) -> str:
    """A short name of an encoder; two folders of one name are told apart."""
    name = _last_part(encoder)
    if sum(_last_part(other) == name for other in set(encoders)) == 1:
        return name
    return f"{name}-{hashlib.sha256(encoder.encode(errors='surrogateescape')).hexdigest()[:6]}"


def settings_label(settings: EncoderSettings, encoders: Sequence[str]) -> str:
    """A name for the folders of an encoder's tokens."""
    label = f"{encoder_label(settings.name, encoders)}-{settings.resolution}"
    return label if settings.form == "unit" else f"{label}-{settings.form}"


def work_folder(out: Path, preset: str, label: str) -> Path:
    """Where the blocks of a pass are kept."""
    return out / "work" / f"{preset}-{label}"


def _last_part(encoder: str) -> str:
    return os.path.basename(os.path.normpath(encoder))
