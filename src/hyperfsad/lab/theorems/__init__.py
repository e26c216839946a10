"""The paper's theory as a tool: what its statements say of your parts and your detector.

    hull, certificates      Theorem 1: a margin between a good and a bad part
    ranking                 Theorem 2: the bound on misranking images and patches; layers to keep
    active, stability       Proposition 1 and Appendix A: what noise and memory can change

>>> from hyperfsad.lab.theorems import certify
>>> certify(detector, "good/", "bad/").share
"""

from .certificates import certify
from .ranking import rank_layers, rank_patches, read_masks
from .stability import check_stability

__all__ = [
    "certify",
    "check_stability",
    "rank_layers",
    "rank_patches",
    "read_masks",
]
