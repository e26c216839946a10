"""Sentences about `method`."""

from . import Sentences

METHOD_SENTENCES: Sentences = {
    "lookup-unknown": "The lookup must be one of {known}, not {given!r}.",
    "sharpness-range": "The sharpness must be between 0 and 1000, not {given}.",
    "lambda-range": "The weight λ must be between 0 and 1, not {given}.",
    "missing-range": "The weight of missing pieces must be between 0 and 10, not {given}.",
    "pooling-unknown": "The pooling must be max, top-N or top-P% (as top-10, top-1%), not"
    " {given!r}.",
    "score-not-finite": "The score or the map is not finite (NaN or infinity).",
}
