"""The report of a run: one HTML page beside the heat maps, the most anomalous images first."""

import html
from typing import Any
from urllib.parse import quote

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>hyperfsad report</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem;
       padding: 0 1rem; }}
h1 {{ font-size: 1.4rem; }}
ol {{ display: grid; gap: 1rem; align-items: start;
     grid-template-columns: repeat(auto-fill, minmax(17rem, 1fr));
     list-style: none; padding: 0; }}
li {{ border: 1px solid #8886; border-radius: .5rem; overflow: hidden; }}
img {{ display: block; width: 100%; max-height: 24rem; object-fit: contain; }}
li p {{ margin: .4rem .8rem; overflow-wrap: anywhere; }}
.failed {{ border-color: #c00; }}
</style>
<h1>{title}</h1>
<p>{summary}</p>
<ol>
{items}
</ol>
</html>
"""


def report_html(lines: list[dict[str, Any]]) -> str:
    """The page for the lines of results.jsonl."""
    scored = sorted((line for line in lines if line["error"] is None), key=lambda x: -x["score"])
    failed = [line for line in lines if line["error"] is not None]
    summary = f"{len(scored)} images, the most anomalous first; all on one colour scale."
    if failed:
        summary += f" {len(failed)} could not be read."
    items = [_item(line) for line in scored] + [
        f'<li class="failed"><p>{_text(line["error"])}</p></li>' for line in failed
    ]
    return _PAGE.format(title="hyperfsad report", summary=summary, items="\n".join(items))


def _item(line: dict[str, Any]) -> str:
    name = _text(line["image"])
    picture = ""
    if line["heatmap"]:
        target = quote(line["heatmap"], errors="replace")
        picture = (
            f'<a href="{target}"><img loading="lazy" src="{target}" alt="heat map of {name}"></a>'
        )
    return f"<li>{picture}<p><b>{line['score']:.3f}</b> {name}</p></li>"


def _text(value: str) -> str:
    return html.escape(value)
