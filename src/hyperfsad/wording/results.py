"""Sentences about `results`."""

from . import Sentences

RESULTS_SENTENCES: Sentences = {
    "threshold-not-finite": (
        "The detector has the threshold {given}, which judges nothing; calibrate it."
    ),
    "result-without-picture": "There is nothing to draw or explain for {image}: {cause}",
    "result-without-source": "The result of {image} does not say where its picture is.",
    "detector-gone": (
        "The detector that judged {image} is gone; keep it while you use its results, or call the"
        " explain method of a loaded detector."
    ),
    "result-outdated": (
        "{image} or the detector has changed since the result was made; predict again."
    ),
}
