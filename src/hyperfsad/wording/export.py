"""Sentences about `export`."""

from . import Sentences

EXPORT_SENTENCES: Sentences = {
    "batch-range": "{option[batch_size]} must be at least 1, not {given}.",
    "export-kind": "A detector is exported to {known}, not to {given!r}.",
    "export-exists": "{folder} exists already; remove it or give another name.",
    "export-other-weights": "This detector was made with other weights of {encoder} than those on"
    " this machine, so its scores would be wrong; fit it again.",
    "export-precision": "A graph computes in float32, and this detector was fitted in {own}; fit it"
    " with {option[precision]} float32, then export it.",
    "export-uneven-orientations": "This detector holds its good parts in different numbers of"
    " orientations; fit it again.",
    "export-with-line": "An exported model cannot hold unlabelled parts; export the detector as it"
    " was before it was adapted.",
    "export-too-large": "The model would have {gigabytes:.1f} GB, and a graph holds {most:.1f};"
    " fit a detector on fewer good parts or orientations.",
    "export-failed": "The detector cannot be exported: {reason}.",
    "export-differs": "The exported model is off by {by:.1g} on this machine, where at most"
    " {most:g} is rounding; nothing was written.",
    "card-unreadable": "{file} cannot be read ({reason}), so its folder is not an exported model.",
    "card-damaged": "{file} is damaged: {reason}.",
    "card-newer": "{file} has format {given}, and this version reads {known}; update hyperfsad.",
    "export-unreadable": "{file} cannot be read: {reason}.",
    "export-changed": "{file} is not the file that was exported: its sha256 differs from that in"
    " {card}; export the detector again.",
    "runtime-missing": "{folder} runs with {package}, which is not installed; install it with `pip"
    " install {package}`.",
    "export-not-runnable": "{folder} cannot be run: {reason}.",
    "pixels-shape": "The model takes uint8 of the shape (images, {side}, {side}, 3), not {type} of"
    " {shape}.",
}
