"""Sentences about `evidence`."""

from . import Sentences

EVIDENCE_SENTENCES: Sentences = {
    "column-unknown": "The columns are 0 to {last}, one for each normal patch; {given} is not one"
    " of them.",
    "support-gone": "The picture shows only the places in these parts, which are no longer on"
    " disk or have changed: {names}; {option[normal]} names the folder where they are now.",
    "support-gone-caption": "No longer on disk, or changed, so only their places are shown:"
    " {names}.",
}
