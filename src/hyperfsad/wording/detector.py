"""Sentences about `detector`."""

from collections.abc import Sequence

from . import Options, Sentences

KINDS = {
    "text": "a text",
    "whole": "a whole number",
    "number": "a number",
    "wholes": "several whole numbers such as [3, 6, 9]",
    "flag": "true or false",
    "tiles": "a tile's side in pixels, a whole number",
}


def _setting_invalid(
    option: Options,
    name: str,
    given: object,
    kind: str = "text",
    low: float | None = None,
    high: float | None = None,
    choices: Sequence[str] = (),
) -> str:
    expected = KINDS[kind]
    if low is not None:
        expected += f" of at least {low:g}" if high is None else f" from {low:g} to {high:g}"
    if choices:
        names = f"one of {', '.join(choices)}"
        expected = names if kind == "text" else f"{expected} or {names}"
    return f"{option[name]} must be {expected}, not {given}."


DETECTOR_SENTENCES: Sentences = {
    "setting-invalid": _setting_invalid,
    "tiles-with-rotations": (
        "Tiles are compared near their own place, and parts that lie at any angle have none; leave"
        " {option[tiles]} or {option[rotations]} out."
    ),
    "tiles-with-roi": (
        "Tiles do not know a region of interest; leave {option[tiles]} or {option[roi]} out."
    ),
    "tiles-with-int8": (
        "The engine openvino-int8 is calibrated on whole pictures, and tiles are parts of them;"
        " leave {option[tiles]} and {option[max_cost]} out, or choose another {option[engine]}."
    ),
    "compact-with-tiles": (
        "Tiles are compared near their own place, so there is nothing to make compact; leave"
        " {option[memory]} out, or {option[tiles]} and {option[max_cost]}."
    ),
    "compact-with-lookup": (
        "The effect of a compact memory is known for sparsemax alone; leave {option[memory]} or"
        " {option[lookup]} out."
    ),
    "products-with-roi": (
        "A mask or polygon is the region of one product; with several products, {option[roi]} must"
        " be auto."
    ),
    "products-with-tiles": (
        "A detector of several products does not cut images into tiles; leave {option[tiles]} out,"
        " or fit one detector for each product."
    ),
    "products-with-max-cost": (
        "{option[max_cost]} chooses the view of one product; with several products, give"
        " {option[resolution]}."
    ),
    "products-with-compact": (
        "A compact memory is for one product; with several products, leave {option[memory]} out."
    ),
    "products-with-int8": (
        "The engine openvino-int8 is calibrated on one product; with several products, choose"
        " another {option[engine]}, or fit one detector for each."
    ),
    "cascade-with-tiles": (
        "8-bit pre-screening sees whole pictures, and tiles are there to see more; leave"
        " {option[fast]} out, or {option[tiles]} and {option[max_cost]}."
    ),
    "cascade-with-compact": (
        "8-bit pre-screening and a compact memory serve the same purpose; leave {option[fast]} or"
        " {option[memory]} out."
    ),
    "cascade-with-roi": (
        "8-bit pre-screening does not know a region of interest; leave {option[fast]} or"
        " {option[roi]} out."
    ),
    "cascade-with-int8": (
        "8-bit pre-screening needs a full detector of higher precision; leave {option[fast]} out,"
        " or choose another {option[engine]}."
    ),
    "export-with-tiles": (
        "A graph takes whole pictures of a fixed size, and this detector cuts them into tiles; fit"
        " one without {option[tiles]}."
    ),
    "export-with-roi": (
        "A region of interest is cut out of pictures before they are resized, which a graph cannot"
        " do; fit a detector without {option[roi]}."
    ),
    "export-with-compact": (
        "A graph compares with the whole memory, and this detector with a part of it; fit one"
        " without {option[memory]}."
    ),
    "export-with-lookup": (
        "A graph weights patches with sparsemax, and this detector with {lookup}; fit one without"
        " {option[lookup]}."
    ),
    "theory-with-recipe": (
        "The theory holds for the paper's algorithm, not for the recipe {recipe}; use"
        " {option[recipe]} paper-offline."
    ),
    "theory-with-tiles": (
        "The theory holds for whole images; use a detector that was fitted without {option[tiles]}."
    ),
    "theory-with-compact": (
        "The theory holds for the whole memory, and this one is compact; use a detector that was"
        " fitted without {option[memory]}."
    ),
    "theory-with-roi": (
        "The theory holds for whole pictures, and this detector has a region of interest; use one"
        " that was fitted without {option[roi]}."
    ),
}
