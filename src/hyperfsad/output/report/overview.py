"""The top of the report: what was found, by which thresholds, and the good parts behind them."""

import html
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import HyperfsadError
from ...images.loading import NormalImage, load_image
from ..thumbnails import thumbnail
from .histogram import histogram_svg, products_svg

Line = dict[str, Any]

MOST_SUPPORT = 24
"""Good parts that are shown; of several products each shows two at least."""
MOST_ROWS = 12
"""Thresholds of more products are there when they are asked for."""

BOTH_LINES = (
    "The verdict comes from the score, regions come from the map, and each has a line of its own:"
    " a good image with a region is worth a look; an anomalous one without a region has no place"
    " that stands out enough by itself."
)


@dataclass(frozen=True)
class Learnt:
    """What a detector has learnt of one product."""

    images: tuple[NormalImage, ...]
    product: str | None = None
    """None where the detector knows but one and has no name for it."""
    threshold: float | None = None
    threshold_from: str | None = None


def overview_html(scored: list[Line], failed: int, learnt: Sequence[Learnt]) -> Iterator[str]:
    """The overview, piece by piece; `scored` are the lines of images that could be read."""
    yield '<section class="summary" aria-label="Summary"><div>'
    yield _counts(scored, failed)
    yield from (f"<p>{sentence}</p>" for sentence in _sentences(scored))
    yield f"</div>{_scores(scored)}</section>\n"
    if len(learnt) > 1:
        yield _thresholds(learnt)
    yield from _support(learnt)


def _counts(scored: list[Line], failed: int) -> str:
    judged = [line for line in scored if line["anomalous"] is not None]
    bad = sum(line["anomalous"] for line in judged)
    numbers = [("images", len(scored) + failed, "")]
    if judged:
        numbers += [("anomalous", bad, "bad"), ("good", len(judged) - bad, "good")]
    if failed:
        numbers.append(("failed", failed, "failed"))
    if strange := sum(bool(line.get("unknown_product")) for line in scored):
        numbers.append(("fit no product", strange, "failed"))
    items = "".join(
        f'<div class="{kind}"><dt>{name}</dt><dd>{number:,}</dd></div>'
        for name, number, kind in numbers
    )
    return f"<dl>{items}</dl>"


def _sentences(scored: list[Line]) -> Iterator[str]:
    several = any(line.get("nearest_product") is not None for line in scored)
    same = f"All maps {'of a product ' if several else ''}share one colour scale."
    judged = [line for line in scored if line["anomalous"] is not None]
    thresholds = {line["threshold"] for line in judged}
    if len(thresholds) == 1:
        origins = {str(line["threshold_from"]) for line in judged if line.get("threshold_from")}
        origin = f" ({_text(origins.pop())})" if len(origins) == 1 else ""
        line = f"Above a score of {thresholds.pop():.3f} an image is called anomalous{origin}."
        yield f"{line} {same}"
    elif thresholds:
        yield f"Each image is judged by the threshold of its product. {same}"
    elif scored:
        yield f"There is no threshold, so no verdict: compare the scores. {same}"
    else:
        yield "No image was scored."
    strangers = [line for line in scored if line.get("unknown_product")]
    if strangers:
        yield _about_strangers(strangers)
    if judged and any(line.get("map_threshold") is not None for line in judged):
        yield BOTH_LINES


def _about_strangers(strangers: list[Line]) -> str:
    """They are counted twice, which must be said."""
    verdicts = [line["anomalous"] for line in strangers]
    kinds = [(verdicts.count(True), "anomalous"), (verdicts.count(False), "good")]
    if len(strangers) == 1:
        counted = "".join(f", and counted as {kind} too" for number, kind in kinds if number)
        lead, tail = "The image that fits no product is", "its score says little."
    else:
        found = " and ".join(f"{number:,} as {kind}" for number, kind in kinds if number)
        counted = f", and counted there too, {found}" if found else ""
        lead = f"The {len(strangers):,} images that fit no product are"
        tail = "their scores say little."
    return f"{lead} judged by the nearest one{counted}; {tail}"


def _scores(scored: list[Line]) -> str:
    """The histogram; of several products one of each as well, which the page's script shows."""
    if not scored:
        return ""
    groups: dict[str, list[Line]] = {}
    for line in scored:
        if line.get("product") is not None:
            groups.setdefault(line["product"], []).append(line)
    lines = {name: own[0]["threshold"] for name, own in sorted(groups.items())}
    if len({line.get("threshold") for line in scored}) <= 1 and len(groups) <= 1:
        whole = histogram_svg([line["score"] for line in scored], scored[0]["threshold"])
    else:
        whole = products_svg([(line["score"], line["anomalous"]) for line in scored], lines)
    pictures = [f'<div class="scores" data-product="">{whole}</div>']
    for name, threshold in lines.items() if len(groups) > 1 else ():
        own = histogram_svg([line["score"] for line in groups[name]], threshold)
        pictures.append(
            f'<div class="scores" data-product="{_text(name)}" hidden>{own}'
            f"<p>Scores of {_text(name)}</p></div>"
        )
    return "".join(pictures)


def _thresholds(learnt: Sequence[Learnt]) -> str:
    rows = []
    for each in learnt:
        line = "none" if each.threshold is None else f"{each.threshold:.3f}"
        origin = each.threshold_from or "so there is no verdict"
        rows.append(
            f'<tr><th scope="row">{_text(each.product or "")}</th><td>{len(_distinct(each)):,}</td>'
            f"<td>{line}</td><td>{_text(origin)}</td></tr>\n"
        )
    shut = "" if len(rows) > MOST_ROWS else " open"
    return (
        f'<details class="thresholds"{shut}><summary>Thresholds of {len(rows):,} products</summary>'
        '<table><thead><tr><th scope="col">product</th><th scope="col">good parts</th>'
        '<th scope="col">threshold</th><th scope="col">from</th></tr></thead>\n'
        f"<tbody>{''.join(rows)}</tbody></table></details>\n"
    )


def _support(learnt: Sequence[Learnt]) -> Iterator[str]:
    """The good parts of each product, as far as they are on disk."""
    groups = [(each.product, images) for each in learnt if (images := _distinct(each))]
    total = sum(len(images) for _, images in groups)
    if not groups:
        return
    most = max(2, MOST_SUPPORT // len(groups))
    count = f"{total:,} good part{'' if total == 1 else 's'}"
    of = f" of {len(groups):,} products" if len(groups) > 1 else ""
    yield f'<details class="support" open><summary>Learnt from {count}{of}</summary>'
    yield '<div id="support">\n'
    for product, images in groups:
        label = _text(product or "")
        heading = f"<h2>{label}</h2>" if len(groups) > 1 else ""
        yield f'<section data-product="{label}">{heading}<ul>\n'
        yield from (_good_part(image) for image in images[:most])
        if len(images) > most:
            yield f'<li><span class="none">and {len(images) - most} more</span></li>\n'
        yield "</ul></section>\n"
    yield "</div></details>\n"


def _distinct(learnt: Learnt) -> list[NormalImage]:
    """Each good part once, although it may be remembered in several orientations."""
    return list({image.sha256: image for image in learnt.images}.values())


def _good_part(image: NormalImage) -> str:
    name, small = _text(image.name), _support_picture(image)
    brief = _text(os.path.basename(image.name))
    shown = (
        f'<img src="data:image/jpeg;base64,{small}" alt="good part {name}">'
        if small
        else '<span class="none">not on disk any more</span>'
    )
    return f'<li>{shown}<span class="name" title="{name}">{brief}</span></li>\n'


def _support_picture(image: NormalImage) -> str | None:
    """A thumbnail, unless the file is gone or shows something else by now."""
    try:
        picture = load_image(image.name)
    except HyperfsadError:
        return None
    return thumbnail(picture.rgb()) if picture.sha256() == image.sha256 else None


def _text(value: str) -> str:
    return html.escape(value.encode("utf-8", errors="replace").decode())
