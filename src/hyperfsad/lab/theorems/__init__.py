"""The paper's theory as a tool: what its statements say of your parts and your detector.

    certificates, hull      Theorem 1: a margin between a good and a bad part
    ranking                 Theorem 2: the bound on misranking images and patches; layers to keep
    stability               Proposition 1 and Appendix A: what noise and memory can change

>>> from hyperfsad.lab.theorems import certify
>>> certify(detector, "good/", "bad/").theorem_1.share
"""

import os
from dataclasses import dataclass
from typing import Any

from ...detector.detector import HyperFSAD
from ...errors import UsageError
from ...images.reading import Images
from ...quality.tokens import encode_images, fitted_bank, plain, refuse_departures
from .certificates import Certificates, certify_tokens
from .ranking import LayerReport, PatchReport, rank_layers, rank_patches, read_masks
from .stability import check_stability


@dataclass(frozen=True)
class TheoremReport:
    """Both theorems for one detector."""

    theorem_1: Certificates
    theorem_2: LayerReport
    theorem_2_patches: PatchReport

    def to_text(self) -> str:
        """For a terminal."""
        first = self.theorem_1.to_text(self.theorem_2.layers)
        second, patches = self.theorem_2.to_text(), self.theorem_2_patches.to_text()
        return f"{first}\n\n{second}\n\n{patches}"

    def to_json(self) -> dict[str, Any]:
        """Every figure."""
        return dict(plain({**vars(self), "theorem_1": self.theorem_1.to_json()}))


def certify(
    detector: HyperFSAD, good: Images, bad: Images, masks: str | os.PathLike[str] | None = None
) -> TheoremReport:
    """Theorems 1 and 2 for a fitted detector and images whose labels are known.

    Good images that it has learnt are left out: they score next to nothing.
    `masks` is a folder of masks that say which patches of the bad images are defective.
    """
    refuse_departures(detector)
    settings, encoding = detector.settings, detector.encoding_
    if settings.pooling != "max":
        raise UsageError("theorem-needs-max-pooling", pooling=settings.pooling)
    bank = fitted_bank(detector)
    normal = encode_images(detector, good, known=detector.memory_.images)
    anomalous = encode_images(detector, bad)
    found = certify_tokens(bank, normal, anomalous, settings.lam, settings.lookup)
    shares = None if masks is None else read_masks(found.bad, masks, encoding.grid)
    return TheoremReport(
        found,
        rank_layers(found.good, found.bad, settings.lam, encoding.layers),
        rank_patches(found.good, found.bad, encoding.layers, shares),
    )


__all__ = ["TheoremReport", "certify", "check_stability", "rank_layers", "rank_patches"]
