"""Sentences about `export`."""

from . import Sentences

EXPORT_SENTENCES: Sentences = {
    "card-unreadable": "{file} cannot be read ({reason}), so its folder is not an exported model.",
    "card-damaged": "{file} is damaged: {reason}.",
    "card-newer": "{file} has the format {given}, this version reads {known}; update hyperfsad.",
    "export-unreadable": "{file} cannot be read: {reason}.",
    "export-changed": (
        "{file} is not the file that was exported: its sha256 differs from that in {card}; export"
        " the detector again."
    ),
    "runtime-missing": (
        "{folder} runs with {package}, which is not installed; install it with `pip install"
        " {package}`."
    ),
    "export-not-runnable": "{folder} cannot be run: {reason}.",
    "pixels-shape": (
        "The model takes uint8 of the shape (images, {side}, {side}, 3), not {type} of {shape}."
    ),
}
