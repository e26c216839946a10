"""Sentences about `results`."""

from . import Sentences

RESULTS_SENTENCES: Sentences = {
    "threshold-not-finite": "The detector's threshold is {given}, so it cannot give verdicts;"
    " calibrate it.",
    "supervision-missing": "Detections need supervision: pip install supervision.",
    "result-without-score": "{image} has no score: {cause} Ask for `error` first.",
    "result-without-picture": "There is nothing to draw or explain for {image}: {cause}",
    "result-without-source": "The result of {image} does not say where the picture is.",
    "detector-gone": "The detector that scored {image} is gone; keep it while you use its results,"
    " or call the explain method of a loaded detector.",
    "result-outdated": "{image} or the detector has changed since the result was made; predict"
    " again.",
}
