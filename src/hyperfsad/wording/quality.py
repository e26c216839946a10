"""Sentences about `quality`."""

from collections.abc import Sequence

from . import Sentences


def _threshold_not_positive(given: float, product: str, **_: object) -> str:
    of = f" of {product}" if product else ""
    return (
        f"The threshold{of} is {given:g}, which is not above 0; set another with hyperfsad"
        " calibrate."
    )


def _advice_learn(names: Sequence[str], more: int, **_: object) -> str:
    named = ", ".join(names) + (f" and {more} more" if more else "")
    it, part = ("it", "it is") if len(names) == 1 else ("them", "they are")
    return (
        f"More good parts of the kind that was called anomalous help most: make sure that {named}"
        f" really {part.split()[1]} good, then learn {it} and others like {it} (`hyperfsad"
        " extend`)."
    )


QUALITY_SENTENCES: Sentences = {
    "advice-cannot-tell": "This detector cannot tell these parts apart (AUROC {auroc:.2f}, and"
    " chance gives 0.50): no threshold helps.",
    "advice-learn": _advice_learn,
    "advice-more-good": "More good parts help most: {learnt} were learnt, and up to about {enough}"
    " every one counts (`hyperfsad extend`).",
    "advice-line": "Then let it learn from unlabelled parts of the line (`hyperfsad adapt`).",
    "advice-view": "If defects are missed after that, compare views on them (`hyperfsad advise`).",
    "advice-threshold": "A threshold comes last.",
    "advice-too-few": "Advice needs at least two different good parts, not {given}: it learns one"
    " and inspects the other. Four or more are better.",
    "all-images-in-output": "All images lie in the output folder {folder}.",
    "anomalous-without-mask": "{image} is anomalous and has no mask to compare its map with.",
    "both-good-and-bad": "{image} is named as good and as bad; name it once.",
    "coverage-needs-one-rotation": "Coverage counts pictures as they are, but this detector also"
    " holds rotated copies; use a detector fitted with {option[rotations]} 1.",
    "coverage-threshold-low": "The map of a usual good part alone exceeds the threshold"
    " {threshold:.3f} (λ times {level:.3f}); use a higher one.",
    "coverage-too-few": "Coverage needs at least 3 different normal images, not {given}.",
    "coverage-without-cls": "With λ = 1 the CLS token does not count, so there is nothing to"
    " cover.",
    "drift-calibration-not-finite": "A calibration score is NaN or infinite; leave that image out.",
    "drift-defects-range": "{option[defects]} must be at least 0 and below 1, not {given}.",
    "drift-empty-stream": "The stream contains no inspections.",
    "drift-too-few": "Drift needs at least {least} calibration images, not {given}.",
    "labelled-images-lost": lambda images, **_: (
        f"{len(images):,} labelled images are not where the labels say, such as {images[0]}: they"
        " are left out."
    ),
    "labels-without-images": lambda path, images, **_: (
        f"{path} names no labelled image that is there"
        + (f", such as {images[0]}; name the folder that holds them." if images else ".")
    ),
    "maps-shape": "The maps have the shape {maps} and the masks {masks}; both must be (images,"
    " height, width).",
    "mask-shape": "The mask {mask} is {mask_size} and its image {image} is {size}; a mask must"
    " have the aspect ratio of its image.",
    "metrics-not-finite": "The {what} hold NaN or infinity; leave out the images that failed.",
    "no-mask": "{image} has no mask; expected {folder}/{stem}_mask.png or {stem}.png.",
    "no-readable-bad-part": "None of the bad parts can be read, so there is nothing to find.",
    "no-test-images": "{folder} holds no test images; expected them in {expected}.",
    "no-test-images-given": "No image was given; name good parts, bad parts or both.",
    "only-learnt-parts": "The detector has learnt all of the given good parts, and there are no"
    " others; give some that it has not learnt.",
    "pro-limit-range": "{option[pro_limit]} must be above 0 and at most 1, not {given}.",
    "radius-range": "{option[radius]} must be above 0, not {given}.",
    "record-damaged": "Line {line} of {file} is not a result; run hyperfsad detect again.",
    "records-unreadable": "{file} cannot be read: {reason}.",
    "scores-shape": "The labels have the shape {labels} and the image scores {scores}; give one of"
    " each for every image.",
    "share-range": lambda option, option_name, given, **_: (
        f"{option[option_name]} must be between 0 and 1, not {given}."
    ),
    "shared-mask": "{first} and {second} share the mask {mask}; give each image a mask of its own.",
    "test-set-choice": "Parts come either from a tree with test/good and test/<defect>, or from"
    " {option[good]} and {option[bad]}, or from labels.",
    "test-tree-not-a-folder": "{folder} is not a folder; give one that holds test/good and"
    " test/<defect>.",
    "test-tree-without-images": "{folder} holds no test images; give a folder with test/good and"
    " test/<defect>, or name the parts with {option[good]} and {option[bad]}.",
    "threshold-not-positive": _threshold_not_positive,
    "two-masks": "{image} has two masks, {first} and {second}; keep one of them.",
}
