"""What stands behind an option on the command line: checked, or refused in a few words."""

import argparse
import math


def numbers(text: str) -> tuple[int, ...]:
    """Whole numbers, as 3,6,9,12."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list such as 3,6,9,12") from None


def place(text: str) -> tuple[float, float]:
    """A pixel, as 120,45."""
    try:
        x, y = map(float, text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a place such as 120,45") from None
    return x, y


def area(text: str) -> float:
    """A number of pixels."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of pixels such as 50")
    return number


def rotations(text: str) -> int | str:
    """How many orientations, or auto."""
    if text == "auto":
        return text
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number such as 16, or auto") from None


def tile(text: str) -> int:
    """The side of a tile in pixels."""
    try:
        side = int(text)
    except ValueError:
        side = 0
    if side < 1:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a tile's side in pixels such as 640; without a number, put --tiles"
            " last or another option after it"
        )
    return side


def score(text: str) -> float:
    """Any finite number."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"{text!r} is not a score such as 0.25")
    return number


def rate(text: str) -> float:
    """A share between 0 and 1."""
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share between 0 and 1 such as 0.01")
    return share


def names(text: str) -> tuple[str, ...]:
    """Words with commas between them."""
    return tuple(part for part in text.split(",") if part)
