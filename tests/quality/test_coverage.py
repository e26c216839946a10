"""The coverage report: how many good pictures, which, and what cannot be answered."""

import json

import numpy as np
import pytest

from hyperfsad.errors import UsageError
from hyperfsad.quality import miss_rates
from hyperfsad.quality.coverage import cover_tokens
from tests.lab.theorems.samples import cls_tokens


def test_the_answer_tells_how_many_and_which() -> None:
    crowd = cls_tokens(3, 20, 2, spread=0.05)
    report = cover_tokens(
        crowd, radii=np.full(2, 0.15), names=[f"{i}.png" for i in range(20)], blocks=[2, 4]
    )
    assert report.needed is not None
    assert report.missed[report.needed - 1] <= 0.05
    assert report.needed == 1 or report.missed[report.needed - 2] > 0.05
    assert report.answer().startswith(f"{report.needed} support image")
    assert report.needed_by_formula is not None
    assert len(report.take) <= report.needed
    assert report.layers[0].missed_by_formula[1] == pytest.approx((1 - report.layers[0].alpha) ** 2)
    told = report.to_json()
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert told["needed"] == report.needed


def test_isolated_parts_are_told() -> None:
    apart = np.eye(5)[:, None]
    report = cover_tokens(apart, radii=np.array([0.5]), names="abcde", blocks=[1])
    assert report.needed is None
    assert report.needed_by_formula is None
    assert "5 images are too few" in report.answer()
    assert (report.layers[0].shares == 0).all()
    assert report.layers[0].alpha_interval[0] == 0
    assert len(report.take) == 5


def test_many_layers_fall_back_to_the_union_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(miss_rates, "MAX_JOINT_LAYERS", 2)
    report = cover_tokens(
        cls_tokens(0, 6, 3), radii=np.full(3, 0.8), names="abcdef", blocks=[1, 2, 3]
    )
    measured = np.sum([layer.missed for layer in report.layers], axis=0)
    assert (report.missed == np.minimum(1, measured)).all()


@pytest.mark.parametrize(("images", "chance"), [(2, 0.95), (5, 0.0), (5, 1.0)])
def test_what_cannot_be_answered_is_refused(images: int, chance: float) -> None:
    with pytest.raises(UsageError):
        cover_tokens(
            cls_tokens(0, images, 1),
            radii=np.ones(1),
            names="abcde"[:images],
            blocks=[1],
            chance=chance,
        )
