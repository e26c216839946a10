"""Inspecting pictures while a camera writes them.

>>> from hyperfsad.watch import watch
>>> for result in watch(detector, "camera/", "out/"):
...     print(result.image, result.score)
"""

from typing import TYPE_CHECKING

from ..lazy import loader

if TYPE_CHECKING:
    from .watcher import Watcher, watch

__all__ = ["Watcher", "watch"]

__getattr__ = loader(__name__, {"Watcher": "watcher", "watch": "watcher"})
