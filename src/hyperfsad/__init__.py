"""Finds defects from one to four pictures of good parts: no training, no text prompts, no labels.

>>> from hyperfsad import HyperFSAD
>>> detector = HyperFSAD().fit("good/")
>>> detector.predict("part.png").score
"""

from typing import TYPE_CHECKING

from .lazy import loader

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .detector import HyperFSAD
    from .errors import DetectorFileError, EncoderError, HyperfsadError, ImageError, UsageError
    from .evidence import Evidence
    from .products import ProductDetector, load_detector
    from .results import AnomalyResult, Region

_HOMES = {
    "HyperFSAD": "detector",
    "AnomalyResult": "results",
    "Evidence": "evidence",
    "ProductDetector": "products",
    "load_detector": "products",
    "Region": "results",
    "HyperfsadError": "errors",
    "UsageError": "errors",
    "ImageError": "errors",
    "EncoderError": "errors",
    "DetectorFileError": "errors",
}

__all__ = [
    "AnomalyResult",
    "DetectorFileError",
    "EncoderError",
    "Evidence",
    "HyperFSAD",
    "HyperfsadError",
    "ImageError",
    "ProductDetector",
    "Region",
    "UsageError",
    "__version__",
    "load_detector",
]


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = loader(__name__, _HOMES)
