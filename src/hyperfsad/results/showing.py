"""A result as notebooks and other libraries show it."""

import base64
import html
import io
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from PIL import Image

from ..decisions.regions import MISSING, UNEXPECTED, Region
from ..errors import HyperfsadError, UsageError

WIDEST = 960
"""Pixels of the longer side of a picture in a notebook."""

REGION_KINDS = (UNEXPECTED, MISSING)
"""The class of a region by its number."""


def png(plot: Callable[[], Image.Image]) -> bytes | None:
    """What `plot` draws; None where there is no picture to draw on."""
    try:
        picture = plot()
    except HyperfsadError:
        return None
    picture.thumbnail((WIDEST, WIDEST))
    content = io.BytesIO()
    picture.save(content, format="PNG")
    return content.getvalue()


def as_html(name: str, verdict: str, regions: Sequence[Region], picture: bytes | None) -> str:
    """The verdict, the regions and the heat map, in one piece of HTML."""
    rows = [
        f"<tr><td>{html.escape(region.kind)}</td><td>{', '.join(map(str, region.bbox))}</td>"
        f"<td>{region.score:.3f}</td></tr>"
        for region in regions
    ]
    head = "<tr><th>region</th><th>x, y, width, height</th><th>score</th></tr>"
    table = f"<table>{head}{''.join(rows)}</table>" if rows else ""
    shown = ""
    if picture is not None:
        encoded = base64.b64encode(picture).decode()
        shown = f'<img alt="heat map" src="data:image/png;base64,{encoded}">'
    head = f"<b>{html.escape(name)}</b><br>{html.escape(verdict)}"
    return f"<div><p>{head}</p>{shown}{table}</div>"


def detections(regions: Sequence[Region]) -> Any:
    """The regions as `supervision.Detections`."""
    try:
        import supervision
    except ImportError as error:
        raise UsageError("supervision-missing") from error
    boxes = [_corners(*region.bbox) for region in regions]
    kinds = [region.kind for region in regions]
    return supervision.Detections(
        xyxy=np.array(boxes, dtype=np.float32).reshape(-1, 4),
        confidence=np.array([region.score for region in regions], dtype=np.float32),
        class_id=np.array([REGION_KINDS.index(kind) for kind in kinds], dtype=int),
        data={"class_name": np.array(kinds, dtype=str)},
    )


def _corners(x: int, y: int, width: int, height: int) -> tuple[int, int, int, int]:
    return x, y, x + width, y + height
