"""Inspecting pictures while a camera writes them.

>>> from hyperfsad.watch import watch
>>> for result in watch(detector, "camera/", "out/"):
...     print(result.image, result.score)
"""

from typing import TYPE_CHECKING

from ..lazy import loader

if TYPE_CHECKING:
    from .shots import CameraWatcher
    from .watcher import Watcher, watch

__all__ = ["CameraWatcher", "Watcher", "watch"]

__getattr__ = loader(__name__, {"CameraWatcher": "shots", "Watcher": "watcher", "watch": "watcher"})
