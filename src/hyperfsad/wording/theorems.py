"""Sentences about the theorems."""

from . import Sentences

THEOREMS_SENTENCES: Sentences = {
    "theorem-no-images": "There is no {kind} image to check: none could be read.",
    "theorem-needs-max-pooling": "The theorems are proven for max pooling, not for {pooling}; fit"
    " with {option[pooling]} max.",
    "theorem-needs-sparsemax": "Proposition 1 is proven for sparsemax, not for {lookup}; fit with"
    " {option[lookup]} sparsemax.",
    "noise-range": "{option[noise]} is the length of a step of a unit token, above 0 and at most"
    " 1, not {given}.",
    "ranking-needs-both": "Ranking needs at least one good and one bad image.",
    "masks-without-defect": "No mask shows a defect; give the masks of the bad images.",
    "mask-missing": "{image} has no mask in {folder}; expected {stem}_mask.png or {stem}.png"
    " there, or in a folder {subfolder} below it.",
}
