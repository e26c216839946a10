"""Names of defects: a part that a person has named is an example, by which others are named."""

from ..detector.detector import HyperFSAD
from ..errors import UsageError
from ..images.loading import LoadedImage

ENOUGH = 4
"""Examples of a defect; further ones are learnt only where the product named them wrongly."""


def learn_name(
    detector: HyperFSAD,
    image: LoadedImage,
    defect: str,
    at: tuple[float, float] | None,
    known: str | None,
) -> str | None:
    """Teaches a part under a name; returns the hash of its pixels, or None where it is no example:
    the product has enough of them and called it so itself (`known`), or it cannot learn it."""
    part = image.sha256()
    before = detector.defects_.without_example(part)
    detector.name_by(before)
    if known == defect and before.counts[defect] >= ENOUGH:
        return None
    try:
        detector.teach(image, defect, at=at)
    except UsageError:  # with tiles, outside the region of interest, or a learnt good part
        detector.name_by(before)
        return None
    return part
