"""Sentences about `detector`."""

from collections.abc import Sequence

from . import Options, Sentences, of_limit

_KINDS = {
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
    examples: Sequence[str] = (),
) -> str:
    expected = _KINDS[kind]
    if low is not None:
        expected += f" of at least {low:g}" if high is None else f" from {low:g} to {high:g}"
    if choices:
        names = f"one of {', '.join(choices)}" if len(choices) > 1 else choices[0]
        expected = names if kind == "text" else f"{expected} or {names}"
    if examples:
        expected = f"{', '.join(examples[:-1])} or {examples[-1]}"
    return f"{option[name]} must be {expected}, not {given}."


_LISTED_NAMES = 5
"""Names that a sentence lists."""


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _LISTED_NAMES} more" if len(names) > _LISTED_NAMES else ""
    return ", ".join(names[:_LISTED_NAMES]) + more


def _outliers(names: Sequence[str], times: float) -> str:
    verb = "scores" if len(names) == 1 else "score"
    return f"{_names(names)} {verb} {times:.1f} times as high as any other good part, "


def _rate_lower(
    resolution: int,
    measured: float,
    usual: int,
    usual_rate: float,
    loss: float | None,
    balanced: float | None,
    **_: object,
) -> str:
    text = (
        f"{resolution} px instead of {usual}: this machine inspects {measured:.1f} images a second"
        f" with it, instead of {usual_rate:.1f}. "
    )
    if loss is None:
        return text + "What that costs in accuracy was not measured for this encoder."
    return (
        f"{text}On 15 products that cost {loss:.1f} points of I-AUROC and {balanced:.1f} of"
        " balanced accuracy in the mean; small defects suffer most."
    )


def _outliers_left_out(names: Sequence[str], times: float, option: Options) -> str:
    them = "it" if len(names) == 1 else "them"
    return (
        f"{_outliers(names, times)}so the threshold leaves {them} out: check {them} with"
        f" `hyperfsad explain`, or use {option['keep_outliers']}."
    )


def _outliers_kept(names: Sequence[str], times: float, **_: object) -> str:
    verb = "counts" if len(names) == 1 else "count"
    return f"{_outliers(names, times)}and {verb} towards the threshold."


def _above(names: Sequence[str], **_: object) -> str:
    what = "this part is" if len(names) == 1 else "these parts are"
    return (
        f"Above the threshold that was estimated from the learnt parts: {_names(names)}. Make sure"
        f" that {what} good."
    )


def _foreign(names: Sequence[str], **_: object) -> str:
    look, them = ("looks", "it") if len(names) == 1 else ("look", "them")
    return (
        f"{', '.join(names)} {look} like a different product from the good parts learnt so far; if"
        f" so, leave {them} out."
    )


def _were_anomalous(parts: Sequence[tuple[str, float]], **_: object) -> str:
    listed = _names([f"{name} ({of_limit(level)})" for name, level in parts])
    them = "it is" if len(parts) == 1 else "they are"
    return f"Anomalous until now: {listed}. Learnt as asked; make sure that {them} good."


def _no_good_part(unreadable: int, **_: object) -> str:
    reason = "none could be read" if unreadable else "none was given"
    return f"There is no normal image to learn from: {reason}."


def _line_bad(parts: Sequence[tuple[str, float]], count: int, **_: object) -> str:
    listed = _names([f"{name} ({100 * level:.0f} % of the limit)" for name, level in parts])
    return f"{len(parts)} of {count} unlabelled parts look{'s' * (len(parts) == 1)} bad: {listed}."


def _line_foreign(names: Sequence[str], **_: object) -> str:
    they = "it looks" if len(names) == 1 else "they look"
    return f"Left out, since {they} like another product: {_names(names)}."


def _line_copies(names: Sequence[str], **_: object) -> str:
    return f"Counted once, since an earlier picture shows the same part: {_names(names)}."


def _examples_look_good(parts: Sequence[tuple[str, float]], defect: str, **_: object) -> str:
    listed = _names([f"{name} ({of_limit(level)})" for name, level in parts])
    return (
        f"Taught as {defect}, but good by its verdict: {listed}. The strongest place may be no"
        " defect; say where it is."
    )


def _no_unlabelled_part(unreadable: int, **_: object) -> str:
    reason = "none could be read" if unreadable else "no picture was new"
    return f"There is no unlabelled part to learn from: {reason}."


DETECTOR_SENTENCES: Sentences = {
    "detector-not-fitted": "This detector has not learnt any good parts yet; call fit first.",
    "setting-unknown": lambda name, meant, **_: (
        f"There is no choice {name!r}" + (f"; did you mean {meant!r}?" if meant else ".")
    ),
    "notify-not-callable": "{option[notify]} must be a function, not {given}.",
    "token-width-differs": "This detector holds tokens of {width} numbers, but those of {encoder}"
    " have {expected}; fit it again.",
    "encoder-fixed": "{path} was made with {encoder} and works with no other encoder;"
    " {option[backbone]} only says where its folder is now.",
    "encoder-folder-missing": "{path} needs the encoder folder {folder}, which does not exist; say"
    " where it is now with {option[backbone]}.",
    "no-good-part": _no_good_part,
    "no-unlabelled-part": _no_unlabelled_part,
    "examples-look-good": _examples_look_good,
    "no-example": "There is no example of {defect} to learn: no picture could be read, or all show"
    " good parts that were learnt.",
    "example-without-defect": "{image} shows nothing that the good parts do not have, so it is an"
    " example of no defect.",
    "place-of-several": "A place belongs to one image; teach one at a time with {option[at]}.",
    "teach-with-tiles": "A detector with tiles cannot learn names of defects.",
    "line-bad": _line_bad,
    "line-foreign": _line_foreign,
    "line-copies": _line_copies,
    "line-many-bad": "{bad} of {count} unlabelled parts look bad. Beyond a fifth nobody can tell"
    " what is usual: sort out the bad ones and adapt again.",
    "line-preliminary": "The threshold is preliminary: {missing} more unlabelled parts are needed.",
    "adapt-with-tiles": "A detector with tiles cannot learn from unlabelled parts.",
    "good-part-not-finite": "{names} cannot be learnt: {cause}",
    "result-not-finite": "{name} cannot be scored: {cause}",
    "forget-unknown": "The detector has learnt none of these pictures.",
    "forget-all": "A detector keeps at least one good part; learn another one first.",
    "threshold-invalid": "The threshold must be above 0 and finite, not {given:g}.",
    "one-product-only": "The detector knows only one product; leave {option[product]} out.",
    "no-product": "There is no product to learn.",
    "product-unnamed": "The detector knows several products ({products}); choose one with"
    " {option[product]}.",
    "product-without-name": "A product needs a name.",
    "product-not-learnt": "The product {product} cannot be learnt: {cause}",
    "products-alike": "{product} looks like {other}: {nearer} of its {count} good parts could be"
    " mistaken for it, and their defects would be missed; give more good parts, or make them one"
    " product.",
    "rotations-one-part": "One good part does not show whether parts lie at any angle: its rotated"
    " copies are used only for images that they fit clearly better ({option[rotations]} 1 turns"
    " them off).",
    "rotations-two-parts": "Two good parts are few to tell whether parts lie at any angle"
    " (rotation brings them {closer:.0f} % closer): rotated copies are used only for images that"
    " they fit clearly better ({option[rotations]} 1 turns them off).",
    "rotations-useless": "Rotation brings the good parts only {closer:.0f} % closer, so they are"
    " remembered as they lie; if parts come at any angle, use {option[rotations]} 8.",
    "rotations-help": "The good parts lie at different angles (rotation brings them {closer:.0f} %"
    " closer): each is remembered in {rotations} orientations ({option[rotations]} 1 turns this"
    " off).",
    "view-tiles": "Pictures of {width}×{height} pixels are cut into {tiles} tiles, about {cost}"
    " times the plain cost ({option[tiles]} no keeps them whole).",
    "view-larger": "Pictures of {width}×{height} pixels are encoded at {resolution} instead of"
    " {usual} pixels a side, about {cost:.1f} times the plain cost ({option[resolution]} {usual}"
    " prevents it).",
    "view-reduced": "Pictures of {width}×{height} pixels are reduced to {usual}×{usual}; one patch"
    " covers {across}×{down} of their pixels. To find smaller defects, use {option[max_cost]}"
    " {cost}, which cuts them into tiles.",
    "line-rate-range": "{given} is not a rate: it must be more than 0 images a second.",
    "rate-usual": "This machine inspects {measured:.1f} images a second at {resolution} px, and"
    " {rate:g} were asked for.",
    "rate-lower": _rate_lower,
    "rate-too-high": "This machine cannot inspect {given:g} images a second: even at {resolution}"
    " px it keeps up with {possible:.1f} at most.",
    "good-parts-outliers": _outliers_left_out,
    "good-parts-outliers-kept": _outliers_kept,
    "good-parts-above": _above,
    "good-parts-foreign": _foreign,
    "good-parts-were-anomalous": _were_anomalous,
    "one-part-decides": "At a false-alarm rate of {rate:g} with {parts} good parts, one part sets"
    " the threshold: {name}. With {enough} parts or more, no single part does.",
    "learnt-part-outlier": "{name} stands far apart from the other good parts: compared with them"
    " it scores {score:.3f}, each of them at most {others:.3f}. If it is a bad part, learn without"
    " it, since it raises the threshold.",
    "one-good-part": "One good picture says little about how good parts differ, so small defects"
    " may be missed; two to four pictures of different parts are better.",
    "good-parts-alike": "The {count} good pictures are almost the same, so they say little about"
    " how good parts differ; take pictures of other parts.",
    "inspect-needs-paths": "To write results, give the paths of the images.",
    "images-done-before": lambda count, **_: (
        f"{count} image{'' if count == 1 else 's'} done before."
    ),
    "inspection-stopped": "Stopped after {done} of {total} images; run it again with"
    " {option[resume]} to continue.",
    "file-not-a-path": "A detector file must be given as a path, not {given}.",
    "file-missing": "There is no detector file {path}.",
    "file-is-folder": "{path} is a folder, not a detector file.",
    "file-unreadable": "{path} cannot be read: {cause}.",
    "file-damaged": "{path} is damaged, truncated or not a detector file.",
    "file-not-ours": "{path} is a safetensors file, but not a hyperfsad detector.",
    "file-other-format": "{path} has format {format}, and this version of hyperfsad reads format"
    " {known}; upgrade hyperfsad, or fit the detector again.",
    "file-field-invalid": "{path} is damaged: its field {field} holds {given}.",
    "file-not-written": "{path} was not written, because it could not be read again: {cause}.",
    "file-holds-products": "{path} holds several products, but a detector of one product is"
    " needed; in Python, use ProductDetector.load or load_detector.",
    "file-not-products": "{path} holds a detector of one product; in Python, use HyperFSAD.load or"
    " load_detector.",
    "setting-invalid": _setting_invalid,
    "detector-without-threshold": "The detector has no threshold, so it cannot decide: calibrate"
    " it.",
    "tiles-with-rotations": "A tile is compared with the same place of the good parts, so parts"
    " must always lie at the same angle; leave {option[tiles]} or {option[rotations]} out.",
    "tiles-with-roi": "Tiles do not support a region of interest; leave {option[tiles]} or"
    " {option[roi]} out.",
    "engine-with-device": "The engine {engine} does not run on {device}; leave"
    " {option[engine]} out, or set {option[device]} to cpu.",
    "exported-with-machine": "An exported model runs its own encoder on the CPU, in float32; leave"
    " {option[engine]}, {option[precision]} and {option[device]} out.",
    "hypergraph-with-tiles": "With tiles, each tile has normal patches of its own and tiles"
    " overlap, so an image has no single hypergraph; fit a detector without {option[tiles]}, or"
    " explain one place.",
    "compact-with-tiles": "Tiles are compared with normal tiles at the same place, so their memory"
    " cannot be made compact; leave {option[memory]} out, or {option[tiles]} and"
    " {option[max_cost]}.",
    "compact-with-lookup": "The effect of a compact memory is known for sparsemax only; leave"
    " {option[memory]} or {option[lookup]} out.",
    "products-with-roi": "A mask or polygon is the region of one product; with several products,"
    " {option[roi]} must be auto.",
    "products-with-tiles": "A detector of several products does not cut images into tiles; leave"
    " {option[tiles]} out, or fit one detector for each product.",
    "products-with-max-cost": "{option[max_cost]} chooses the view of one product; with several"
    " products, give {option[resolution]}.",
    "products-with-compact": "A compact memory works for one product; with several products, leave"
    " {option[memory]} out.",
    "export-with-products": "A graph holds one product, and this detector knows several; fit a"
    " detector of one.",
    "export-with-tiles": "A graph takes whole pictures of a fixed size, and this detector cuts"
    " them into tiles; fit one without {option[tiles]}.",
    "export-with-roi": "A region of interest is cut out of pictures before they are resized, which"
    " a graph cannot do; fit a detector without {option[roi]}.",
    "export-with-compact": "A graph compares with the whole memory, but this detector's is"
    " compact; fit one without {option[memory]}.",
    "export-with-lookup": "A graph weights patches with sparsemax, and this detector with"
    " {lookup}; fit one without {option[lookup]}.",
    "theory-with-recipe": "The theory holds for the paper's algorithm, not for the recipe"
    " {recipe}; use {option[recipe]} paper-offline.",
    "theory-with-tiles": "The theory holds for whole images; use a detector that was fitted"
    " without {option[tiles]}.",
    "theory-with-compact": "The theory holds for the whole memory, and this one is compact; use a"
    " detector that was fitted without {option[memory]}.",
    "theory-with-roi": "The theory holds for whole pictures, and this detector has a region of"
    " interest; use one that was fitted without {option[roi]}.",
}
