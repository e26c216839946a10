"""What a data set is made of: categories, each with normal images and images to be judged."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TestImage:
    """One image to be judged, and the truth about it."""

    __test__ = False  # or pytest would take it for a class of tests

    path: str
    anomalous: bool
    defect: str
    mask: str | None


@dataclass(frozen=True)
class Category:
    """One kind of object: its normal images, from which support is drawn, and its test images."""

    dataset: str
    name: str
    normal: tuple[str, ...]
    test: tuple[TestImage, ...]

    @property
    def has_masks(self) -> bool:
        """Whether there are anomalous test images, and each of them has a mask."""
        masks = [image.mask for image in self.test if image.anomalous]
        return bool(masks) and None not in masks
