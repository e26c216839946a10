"""Sentences about `decisions`."""

from . import Sentences

_POLYGON = "a polygon such as '10,20 300,20 300,240'"

DECISIONS_SENTENCES: Sentences = {
    "defect-name": "A defect needs a name of at most {longest} characters other than “unknown”, not"
    " {given}.",
    "defect-not-taught": lambda defect, known, **_: (
        f"No defect “{defect}” was taught; "
        + (f"the detector knows {', '.join(known)}." if known else "the detector knows none.")
    ),
    "examples-many": "A product has at most {most} examples of defects; four of each are enough.",
    "part-not-found": "Part and background could not be told apart in these pictures, so the region"
    " of interest is the whole picture; draw it instead ({option[roi]} with a polygon or a mask).",
    "roi-shape": "{image} is {width}×{height} pixels; the region of interest was made for pictures"
    " of another shape ({aspect:.2f} times as wide as high).",
    "roi-too-small": "The region of interest touches {patches} of the {grid}×{grid} patches that"
    " the encoder sees, and {needed} are needed; draw it larger, or choose a higher"
    " {option[resolution]}.",
    "roi-invalid": f"A region of interest is a mask, or {_POLYGON}, not {{given}}.",
    "roi-unknown": (
        f"The region of interest {{given!r}} is neither a picture that exists nor {_POLYGON}."
    ),
    "roi-mask-unusable": lambda error, **_: f"The region of interest's mask is unusable: {error}",
    "roi-mask-shape": "The mask {mask} is {size} pixels and the first normal image is {of}; a mask"
    " needs the aspect ratio of the pictures, at any size.",
    "roi-mask-empty": "The mask {mask} is all black or all transparent; it must be bright, or"
    " opaque, where parts are inspected.",
    "roi-few-corners": "A polygon needs at least 3 different corners, not {given}.",
    "roi-corner-outside": "The corner {x:g},{y:g} of the region of interest lies outside the first"
    " normal image, which has {width}×{height} pixels.",
    "roi-encloses-nothing": "The corners of the region of interest enclose no area.",
    "rate-range": "The false-alarm rate must be between {least:f} and 1, not {given}.",
    "threshold-preliminary": "This threshold is preliminary: {parts} unlabelled parts of the line"
    " make it a better one (`hyperfsad adapt`).",
    "together-changes": "A limit from these {count} images themselves would change about {changed}"
    " verdicts: try {option[together]}, or `hyperfsad adapt`.",
    "no-good-parts": "There are no good parts to calibrate with.",
}
