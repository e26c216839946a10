"""Finds defects from one to four pictures of good parts: no training, no text prompts, no labels.

>>> from hyperfsad import HyperFSAD
>>> detector = HyperFSAD().fit("good/")
>>> detector.predict("part.png").score
"""

from typing import TYPE_CHECKING

from .lazy import loader
from .version import __version__

if TYPE_CHECKING:
    from .decisions.regions import Region
    from .detector.detector import HyperFSAD
    from .detector.pipeline import inspect
    from .detector.products import ProductDetector, load_detector
    from .detector.settings import Settings
    from .errors import DetectorFileError, EncoderError, HyperfsadError, ImageError, UsageError
    from .evidence.evidence import Evidence
    from .evidence.hypergraph import Hypergraph
    from .report.frames import to_frame
    from .results.result import AnomalyResult

_HOMES = {
    "HyperFSAD": "detector.detector",
    "AnomalyResult": "results.result",
    "Evidence": "evidence.evidence",
    "Hypergraph": "evidence.hypergraph",
    "ProductDetector": "detector.products",
    "Settings": "detector.settings",
    "inspect": "detector.pipeline",
    "load_detector": "detector.products",
    "to_frame": "report.frames",
    "Region": "decisions.regions",
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
    "Hypergraph",
    "ImageError",
    "ProductDetector",
    "Region",
    "Settings",
    "UsageError",
    "__version__",
    "inspect",
    "load_detector",
    "to_frame",
]


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = loader(__name__, _HOMES)
