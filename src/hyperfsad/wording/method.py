"""Sentences about `method`."""

from . import Sentences

METHOD_SENTENCES: Sentences = {
    "lookup-unknown": "The lookup is one of {known}, not {given!r}.",
    "sharpness-range": "The sharpness lies between 0 and 1000, not at {given}.",
    "lambda-range": "The weight λ lies between 0 and 1, not at {given}.",
    "missing-range": "The weight of missing pieces lies between 0 and 10, not at {given}.",
    "pooling-unknown": "The pooling is max, top-N or top-P% (as top-10, top-1%), not {given!r}.",
    "score-not-finite": "The score or the map is not finite (NaN or infinity).",
}
