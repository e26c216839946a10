"""The command export: a detector as a model that runs without torch and without hyperfsad."""

import argparse
from pathlib import Path

from . import arguments
from .arguments import option
from .console import DONE, printable, say
from .detectors import saved_detector

FORMS = ("onnx", "openvino")
PRECISIONS = ("f32", "int8")


def add_export(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Write a detector as one graph from pixels to scores, for ONNX Runtime or OpenVINO."
    )
    command.add_argument("detector", metavar="DETECTOR", help="detector file to export")
    command.add_argument("--to", choices=FORMS, required=True, help="the runtime that runs it")
    text = (
        "precision of the encoder: that of the engine with which the detector was fitted (default);"
        " another one is refused"
    )
    command.add_argument("--precision", choices=PRECISIONS, help=text)
    option(command, "-o --output DIR", "folder to make", required=True)
    arguments.add_moved_encoder(command)
    command.set_defaults(device="cpu", engine="auto", batch_size=None, threads=None)


def export(options: argparse.Namespace) -> int:
    """Writes the folder of an exported model."""
    detector = saved_detector(options)
    from ..export.writing import export as write

    card = write(detector, Path(options.output), options.to, say, precision=options.precision)
    size = sum(file["bytes"] for file in card["files"].values())
    off = max(card["checked"].values())
    print(
        printable(
            f"{options.output}: {size / 1e6:.0f} MB, off by {off:.0e} from the detector;"
            " model.json describes it, preprocess.py prepares its input"
        )
    )
    return DONE
