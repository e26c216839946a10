"""The report of a run: one HTML page that needs nothing else, the most anomalous images first.

Names of files are other people's input. In the page's text they are escaped; the script gets them
as JSON in blocks that browsers never run, and sets them as text; and a policy in the page's head
lets nothing run or load but the page's own style and script.
"""

import base64
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ..exports import severity
from .overview import Learnt, Line, overview_html

MOST_PICTURES = 4000
"""Images with a picture in the page, the most anomalous ones: about 60 MB; others have a link."""
MOST_POINTS = 300
"""Points of the outlines drawn over one image."""


def report_html(
    lines: Sequence[Line],
    entries: Callable[[list[str]], Iterable[dict[str, Any]]],
    learnt: Sequence[Learnt],
    folder: Path,
) -> Iterator[str]:
    """The page, piece by piece.

    `lines` are those of results.jsonl with the number of regions instead of the regions; `entries`
    gives the journal's entries of images, one by one. `learnt` has the good parts of each product.
    Links are relative to `folder`.
    """
    style, script = _asset("report.css"), _asset("report.js")
    failures = [i for i, line in enumerate(lines) if line["error"] is not None]
    order = [i for i, line in enumerate(lines) if line["error"] is None]
    order = sorted(order, key=lambda i: -severity(lines[i])) + failures
    scored = [lines[i] for i in order if lines[i]["error"] is None]
    failed = len(lines) - len(scored)
    yield _HEAD.format(policy=_policy(style, script), style=style)
    yield _HEADER
    yield from overview_html(scored, failed, learnt)
    yield _TOOLS + _MAIN
    yield '<script type="application/json" id="index">['
    for place, index in enumerate(order):
        record = _record(lines[index], index, folder)
        yield ("\n" if place == 0 else ",\n") + _json(record)
    yield "]</script>\n"
    shown = [lines[i]["image"] for i in order if lines[i]["error"] is None][:MOST_PICTURES]
    numbers = [i for i in order if lines[i]["error"] is None]
    for number, entry in zip(numbers, entries(shown), strict=False):
        if "picture" in entry:
            record = {**entry["picture"], "regions": _outlines(entry["line"])}
            yield f'<script type="application/json" id="p{number}">{_json(record)}</script>\n'
    yield f"<script>{script}</script>\n</body>\n</html>\n"


def _asset(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    """Nothing from elsewhere, and of what is here only what we wrote."""

    def source(text: str) -> str:
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        return f"'sha256-{digest}'"

    return (
        f"default-src 'none'; img-src data: file: 'self'; style-src {source(style)};"
        f" script-src {source(script)}; base-uri 'none'; form-action 'none'"
    )


def _record(line: Line, index: int, folder: Path) -> Line:
    """What the page's script knows of an image before its picture is needed."""
    names = (
        "score",
        "score_map",
        "score_cls",
        "threshold",
        "anomalous",
        "size",
        "regions",
        "p_value",
    )
    record = {name: line[name] for name in names if line.get(name) is not None}
    if line.get("map_threshold") is None:  # none were sought, which is not the same as none found
        record.pop("regions", None)
    if line.get("nearest_product") is not None:
        record |= {"product": line["nearest_product"], "unknown": line["unknown_product"]}
    heatmap = line["heatmap"]
    return {
        "index": index,
        "name": line["image"],
        **record,
        **({"error": line["error"]} if line["error"] is not None else {}),
        **({"heatmap": quote(heatmap, errors="replace")} if heatmap else {}),
        **({"original": link} if (link := _link(line["image"], folder)) else {}),
    }


def _link(image: str, folder: Path) -> str | None:
    """From the page to the image itself; no name can make anything but a path of it."""
    if not os.path.isfile(image):
        return None
    try:
        path = os.path.relpath(os.path.abspath(image), os.path.abspath(folder))
    except ValueError:  # on another drive
        return Path(image).absolute().as_uri()
    return quote(os.fsencode(path.replace(os.sep, "/")))


def _outlines(line: Line) -> list[Line]:
    """The regions that are drawn: as many as MOST_POINTS allow, the highest score first."""
    shown: list[Line] = []
    points = 0
    for region in line["regions"]:
        points += len(region["polygon"])
        if shown and points > MOST_POINTS:
            break
        places = [[round(x, 1), round(y, 1)] for x, y in region["polygon"]]
        brief = {"score": round(region["score"], 4), "area": round(region["area"])}
        shown.append({**brief, "bbox": region["bbox"], "polygon": places})
    return shown


def _json(value: Any) -> str:
    """JSON that cannot end the script block it stands in."""
    text = json.dumps(value, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>hyperfsad report</title>
<style>{style}</style>
</head>
<body>
"""

_HEADER = """<header>
<h1>hyperfsad report</h1>
<button type="button" id="theme" aria-label="Switch between light and dark">◐</button>
</header>
<noscript><p>The list of images needs JavaScript; results.csv beside this page holds the same.</p>
</noscript>
"""

_TOOLS = """<form class="tools" id="tools" role="search" aria-label="Choose and sort images">
<fieldset id="filters"><legend>Show</legend>
<label><input type="radio" name="show" value="all" checked><span>All</span></label>
<label><input type="radio" name="show" value="anomalous"><span>Anomalous</span></label>
<label><input type="radio" name="show" value="good"><span>Good</span></label>
<label><input type="radio" name="show" value="failed"><span>Failed</span></label>
<label hidden id="strangers"><input type="radio" name="show" value="unknown">
<span>Fits no product</span></label>
</fieldset>
<label class="field" hidden id="products">Product <select id="product">
<option value="">All</option>
</select></label>
<label class="field">Sort <select id="sort">
<option value="worst">Worst first</option>
<option value="best">Best first</option>
<option value="name">Name</option>
<option value="given">As given</option>
</select></label>
<label class="field">Name <input type="search" id="find" placeholder="contains …"></label>
<label class="field">Map <input type="range" id="overlay" min="0" max="100" value="100"></label>
<label class="field"><input type="checkbox" id="outlines" checked> Regions</label>
<output id="count" aria-live="polite"></output>
</form>
"""

_MAIN = """<main>
<ul id="grid" aria-label="Images"></ul>
<p id="empty" hidden>No image matches.</p>
<div id="more" aria-hidden="true"></div>
</main>
<dialog id="detail" aria-labelledby="detail-name">
<div class="bar">
<button type="button" id="previous" aria-label="Previous image">←</button>
<button type="button" id="next" aria-label="Next image">→</button>
<span id="position"></span>
<button type="button" id="close" aria-label="Close">✕</button>
</div>
<div class="detail">
<div class="stage" id="stage"></div>
<div class="facts">
<h2 id="detail-name"></h2>
<p id="verdict"></p>
<label class="field">Map <input type="range" id="detail-overlay" min="0" max="100"></label>
<label class="field"><input type="checkbox" id="sharp"> Load the original file</label>
<dl id="numbers"></dl>
<p id="beside" class="note"></p>
<ol id="regions"></ol>
<p id="links"></p>
</div>
</div>
<div id="compare"></div>
<p class="hint">← → other images, ↑ ↓ the map, Esc closes</p>
</dialog>
"""
