"""Options that several commands share."""

import argparse

from ..decisions.thresholds import FALSE_ALARM_RATE
from ..detector.recipes import DEFAULT_RECIPE, RECIPES
from ..encoders import ENGINES
from . import values


def add_recipe(command: argparse.ArgumentParser, usual: str = DEFAULT_RECIPE) -> None:
    """How patches are compared; `usual` is the recipe where none is named."""
    recipe = command.add_argument_group("recipe", "what --recipe says unless it is given")
    recipe.add_argument("--recipe", choices=tuple(RECIPES), help=f"default: {usual}")
    command.set_defaults(usual_recipe=usual)
    recipe.add_argument("--backbone", metavar="NAME", help="encoder, or the folder of one")
    recipe.add_argument("--layers", type=values.numbers, metavar="2,4,6,8", help="blocks, from 1")
    recipe.add_argument("--resolution", type=int, metavar="PX", help="a multiple of the patch size")
    recipe.add_argument(
        "--lookup", metavar="RULE", help="sparsemax, softmax, top-1, top-p, entmax-1.5"
    )
    recipe.add_argument("--pooling", metavar="RULE", help="max, top-10, top-1%%")
    recipe.add_argument(
        "--lambda",
        dest="lam",
        type=float,
        metavar="WEIGHT",
        help="weight of the map (default: 0.5)",
    )


def add_support(command: argparse.ArgumentParser) -> None:
    """What is learnt from good parts."""
    support = command.add_argument_group("good parts", "what is learnt from them")
    support.add_argument(
        "--rotations",
        type=values.rotations,
        metavar="N",
        help="remember each in so many orientations, for parts that lie at any angle, or auto"
        " (default: 1)",
    )
    support.add_argument(
        "--roi",
        metavar="MASK",
        help="look only where this picture is bright; or a polygon 'x,y x,y x,y' in pixels of the"
        " first good part; or auto, the part itself",
    )
    support.add_argument(
        "--tiles",
        nargs="?",
        type=values.tile,
        const=True,
        metavar="PX",
        help="cut large images into tiles of so many pixels a side (default: what the encoder"
        " takes), so that small defects are seen",
    )


def add_lines(command: argparse.ArgumentParser) -> None:
    """How the line between good and anomalous is drawn."""
    lines = command.add_argument_group("threshold", "between good and anomalous")
    lines.add_argument(
        "--calibrate",
        nargs="+",
        metavar="GOOD",
        help="further good parts, which bound the false-alarm rate (default: an estimate from the"
        " learnt ones)",
    )
    add_rate(lines)


def add_rate(command: "argparse.ArgumentParser | argparse._ArgumentGroup") -> None:
    """How many good parts may be called anomalous."""
    command.add_argument(
        "--false-alarm-rate",
        type=values.rate,
        metavar="SHARE",
        help=f"of good parts that may be called anomalous (default: {FALSE_ALARM_RATE})",
    )


def add_machine(command: argparse.ArgumentParser) -> None:
    """Where and how the encoder runs."""
    machine = command.add_argument_group("machine")
    machine.add_argument("--device", default="auto", help="auto, cpu, cuda or mps")
    machine.add_argument(
        "--engine",
        choices=ENGINES,
        default="auto",
        help="default: openvino on a CPU where it is installed, otherwise torch",
    )
    machine.add_argument("--threads", type=int, metavar="N", help="CPU cores (default: all)")
    machine.add_argument("--batch-size", type=int, metavar="N", help="images encoded at once")
