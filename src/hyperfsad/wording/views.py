"""Sentences about `views`."""

from . import Sentences

VIEWS_SENTENCES: Sentences = {
    "place-incomplete": "A place is given by both {option[x]} and {option[y]}.",
    "place-outside": "{x:g}, {y:g} lies outside {image}, which has {width}×{height} pixels.",
    "place-outside-roi": "{x:g}, {y:g} of {image} lies outside the region of interest, where"
    " nothing is inspected.",
    "layer-unused": "The layer must be one that the detector uses ({used}), not {given}.",
    "bank-without-tiles": "This memory bank was made without tiles; fit the detector again.",
    "tile-spool-full": "The tiles of the normal images cannot be kept in {folder}: {reason}; name"
    " a folder with more space in TMPDIR.",
    "tile-damaged": "{file} is damaged, or was changed while it was in use: a tile of a normal"
    " image is not what was stored. Load or fit the detector again.",
    "tile-unreadable": "{file} cannot be read: {reason}.",
}
