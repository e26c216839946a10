"""The image as a whole: the colour scale comes from the normal images alone."""

import pytest
import torch

from hyperfsad.decisions.interest import Interest
from hyperfsad.encoders import EncoderSettings
from hyperfsad.encoders.tokens import Tokens
from hyperfsad.images.loading import NormalImage
from hyperfsad.method.lookups import LOOKUPS
from hyperfsad.method.matching import Comparison
from hyperfsad.method.memory import MemoryBank
from hyperfsad.method.scoring import ImageScoring, Pooling, branch_weights
from hyperfsad.views import Rules
from hyperfsad.views.view import SPAN
from hyperfsad.views.whole import WholeView

SETTINGS = EncoderSettings("none", (1, 2), 84, 14, (0.5,) * 3, (0.2,) * 3, False)


def bank(images: int, noise: float) -> MemoryBank:
    """Images that show the same thing, but for some noise."""
    generator = torch.Generator().manual_seed(0)
    part = torch.randn(1, 2, 36, 16, generator=generator)
    patches = part + noise * torch.randn(images, 2, 36, 16, generator=generator)
    patches = torch.nn.functional.normalize(patches, dim=-1)
    names = [NormalImage(str(index), str(index)) for index in range(images)]
    return MemoryBank.of(Tokens(patches, patches[:, :, 0]), names)


def colour_scale(memory: MemoryBank, how: Comparison) -> tuple[float, float]:
    rules = Rules(SETTINGS, how, ImageScoring(Pooling.parse("max"), branch_weights(0.5)))
    return WholeView(rules, Interest()).fitted(memory).colour_scale()


def test_the_scale_grows_with_the_variation_of_good_parts() -> None:
    calm, _ = colour_scale(bank(4, 0.05), Comparison(6))
    wild, top = colour_scale(bank(4, 0.5), Comparison(6))
    assert 0 < calm < wild < 1
    assert top == SPAN * wild


def test_each_image_is_left_out_of_its_own_memory() -> None:
    twins = bank(2, 0.0)
    low, _ = colour_scale(twins, Comparison(6, "top-1"))
    assert low < 1e-5  # a twin explains everything
    low, _ = colour_scale(bank(2, 5.0), Comparison(6, "top-1"))
    assert low > 0.1  # a stranger does not, although each image would explain itself


@pytest.mark.parametrize(
    "how",
    [*(Comparison(6, lookup) for lookup in LOOKUPS), Comparison(6, sharpness=16, scales=(1, 3))],
)
def test_a_lone_image_is_never_explained_by_the_patch_itself(how: Comparison) -> None:
    low, high = colour_scale(bank(1, 0.1), how)
    assert low > 0.1
    assert high > low
