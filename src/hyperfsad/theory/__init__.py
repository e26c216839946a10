"""The paper's theory as a tool: what its statements say of your parts and your detector.

    coverage, cover, radii      Equation 7: how many good pictures cover a new good part; which
    hull, certificates          Theorem 1: a margin between a good and a bad part
    ranking                     Theorem 2: the bound on misranking; which layers to keep
    active, noise, stability    Proposition 1 and Appendix A: what noise and memory can change
    drift                       a sequential test that says when normal has moved

>>> from hyperfsad.theory import certify
>>> certify(detector, "good/", "bad/").share
"""

from typing import TYPE_CHECKING

from ..lazy import loader

if TYPE_CHECKING:
    from .certificates import Certificates, certify
    from .coverage import Coverage
    from .drift import DriftMonitor, DriftReport, monitor_drift
    from .radii import cover_normal
    from .ranking import LayerReport, rank_layers
    from .stability import StabilityReport, Unaffected, check_extension, check_stability

_HOMES = {
    "Certificates": "certificates",
    "Coverage": "coverage",
    "DriftMonitor": "drift",
    "DriftReport": "drift",
    "LayerReport": "ranking",
    "StabilityReport": "stability",
    "Unaffected": "stability",
    "certify": "certificates",
    "check_extension": "stability",
    "check_stability": "stability",
    "cover_normal": "radii",
    "rank_layers": "ranking",
    "monitor_drift": "drift",
}

__all__ = [
    "Certificates",
    "Coverage",
    "DriftMonitor",
    "DriftReport",
    "LayerReport",
    "StabilityReport",
    "Unaffected",
    "certify",
    "check_extension",
    "check_stability",
    "cover_normal",
    "monitor_drift",
    "rank_layers",
]


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = loader(__name__, _HOMES)
