"""The commands: each takes the parsed options, does its work and returns an exit code.

Heavy imports wait inside the functions, since the parser needs the commands' names.
"""

from .detecting import detect, explain
from .learning import calibrate, extend, fit
from .tools import demo, encoders, info, speed
from .watching import watch

__all__ = [
    "calibrate",
    "demo",
    "detect",
    "encoders",
    "explain",
    "extend",
    "fit",
    "info",
    "speed",
    "watch",
]
