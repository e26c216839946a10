"""The paper's theory as a tool: what its statements say of your parts and your detector.

    covering, coverage      Equation 7: how many good pictures cover a new good part; which
    hull, certificates      Theorem 1: a margin between a good and a bad part
    ranking, patchwise      Theorem 2: the bound on misranking images and patches; layers to keep
    active, stability       Proposition 1 and Appendix A: what noise and memory can change
    drift                   a sequential test that says when normal has moved

>>> from hyperfsad.lab.theorems import certify
>>> certify(detector, "good/", "bad/").share
"""

from ...quality.coverage import Coverage, cover_learnt, cover_normal
from ...quality.drift import DriftMonitor, DriftReport, monitor_drift
from .certificates import Certificates, certify
from .patchwise import PatchReport, rank_patches, read_masks
from .ranking import LayerReport, rank_layers
from .stability import StabilityReport, Unaffected, check_extension, check_stability

__all__ = [
    "Certificates",
    "Coverage",
    "DriftMonitor",
    "DriftReport",
    "LayerReport",
    "PatchReport",
    "StabilityReport",
    "Unaffected",
    "certify",
    "check_extension",
    "check_stability",
    "cover_learnt",
    "cover_normal",
    "monitor_drift",
    "rank_layers",
    "rank_patches",
    "read_masks",
]
