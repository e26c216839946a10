"""Theorem 1: no certificate is ever broken, and each inequality can be met exactly."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperfsad.encoders.encoder import ImageTokens
from hyperfsad.errors import UsageError
from hyperfsad.images.loading import NormalImage
from hyperfsad.lab.theorems.certificates import Certificates, certify_tokens
from hyperfsad.lab.theorems.ranking import layer_margins
from hyperfsad.method.lookups import reconstruct
from hyperfsad.method.memory import MemoryBank
from hyperfsad.method.scoring import BranchScores, branch_weights, cls_score, patch_scores
from tests.codes import raises

from .samples import World, unit


def reference_score(bank: MemoryBank, image: ImageTokens, lam: float, lookup: str) -> float:
    """S_image by the formulas of `matching` and `scoring`."""
    rebuilt = [
        reconstruct(query, memory, lookup)
        for query, memory in zip(image.patches, bank.patches, strict=True)
    ]
    peak = float(patch_scores(image.patches, rebuilt).max())
    values = {"map": peak, "cls": float(cls_score(image.cls, bank.cls))}
    return BranchScores(values, branch_weights(lam)).total


worlds = st.builds(
    World,
    seed=st.integers(0, 2**32 - 1),
    layers=st.integers(1, 3),
    width=st.integers(3, 12),
    images=st.integers(1, 3),
    spread=st.floats(0.02, 0.5),
)


@settings(max_examples=700, deadline=None)
@given(worlds, st.floats(0, 1), st.sampled_from(["sparsemax", "softmax", "top-1", "entmax-1.5"]))
def test_the_margin_never_exceeds_the_real_gap(world: World, lam: float, lookup: str) -> None:
    bank = world.bank()
    good = [(str(index), world.good()) for index in range(2)]
    bad = [(str(index), world.bad()) for index in range(2)]
    report = certify_tokens(bank, good, bad, lam, lookup, rounding=0.0)
    assert np.isfinite(report.margin).all()
    scores = [
        [reference_score(bank, image, lam, lookup) for _, image in images] for images in (good, bad)
    ]
    gap = np.array(scores[1])[None, :] - np.array(scores[0])[:, None]
    assert np.abs(report.gap - gap).max() < 1e-9
    assert (report.margin <= gap + 1e-9).all()
    assert (gap[report.certified] > -1e-9).all()
    # each part on its own: the layer-wise bound of Theorem 2, and so both branches
    lowest = lam * (report.gamma[None] - report.epsilon[:, None] ** 2 / 2)
    lowest = lowest + (1 - lam) / 2 * (report.delta[None] ** 2 - report.r[:, None] ** 2)
    assert (lowest <= layer_margins(report.good, report.bad, lam) + 1e-9).all()
    assert np.abs(report.layer_margin - lowest).max() < 1e-12
    assert np.abs(report.layer_margin.mean(axis=2) - report.margin).max() < 1e-12


@settings(max_examples=300, deadline=None)
@given(worlds, st.floats(0, 1))
def test_float32_scores_keep_the_margin_with_its_rounding(world: World, lam: float) -> None:
    bank = world.bank(np.float32)
    good = [("good", world.good(np.float32))]
    bad = [("bad", world.bad(np.float32))]
    report = certify_tokens(bank, good, bad, lam)
    apart = reference_score(bank, bad[0][1], lam, "sparsemax")
    apart -= reference_score(bank, good[0][1], lam, "sparsemax")
    assert report.margin[0, 0] <= apart


def image(patches: list[list[float]], cls: list[float]) -> ImageTokens:
    return ImageTokens((unit(np.array(patches)),), unit(np.array([cls])))


def one_row_bank() -> MemoryBank:
    row = np.array([[1.0, 0.0, 0.0]])
    return MemoryBank((row,), row[None], (NormalImage("normal", ""),))


def tight() -> tuple[MemoryBank, ImageTokens, ImageTokens]:
    """One normal patch: every mixture is that patch, and both bounds are met."""
    good = image([[1.0, 0.2, 0.0]], [1.0, 0.1, 0.0])
    bad = image([[0.3, 0.0, 1.0]], [1.0, 0.0, 0.8])
    return one_row_bank(), good, bad


@pytest.mark.parametrize("lam", [0.0, 0.5, 1.0])
def test_with_one_normal_patch_the_margin_is_the_gap(lam: float) -> None:
    bank, good, bad = tight()
    report = certify_tokens(bank, [("good", good)], [("bad", bad)], lam, rounding=0.0)
    assert report.margin[0, 0] == pytest.approx(report.gap[0, 0], abs=1e-10)
    assert report.share == 1
    assert report.reasons["certified"] == 1


@pytest.mark.parametrize("lam", [0.0, 0.3, 1.0])
def test_the_margins_of_layers_are_equation_27(lam: float) -> None:
    """b_l from distances that are computed one by one; with one normal patch it is η itself."""
    bank, good, bad = tight()
    two = MemoryBank(bank.patches * 2, np.tile(bank.cls, (1, 2, 1)), bank.images)
    second = image([[1.0, 0.0, 0.4]], [1.0, 0.3, 0.0]), image([[0.1, 1.0, 0.0]], [0.2, 0.0, 1.0])
    pair = [
        ImageTokens((a.patches[0], b.patches[0]), np.concatenate([a.cls, b.cls]))
        for a, b in zip((good, bad), second, strict=True)
    ]
    report = certify_tokens(two, [("good", pair[0])], [("bad", pair[1])], lam, rounding=1e-5)
    row = bank.patches[0][0]
    for layer in range(2):
        near, far = (each.patches[layer][0] for each in pair)
        c_near, c_far = (each.cls[layer] for each in pair)
        gamma, epsilon = 1 - float(far @ row), float(np.linalg.norm(near - row))
        delta, r = (float(np.linalg.norm(c - row)) for c in (c_far, c_near))
        b = lam * (gamma - epsilon**2 / 2) + (1 - lam) / 2 * (delta**2 - r**2)
        assert report.layer_margin[0, 0, layer] == pytest.approx(b - 1e-5, abs=1e-9)
        eta = layer_margins(report.good, report.bad, lam)[0, 0, layer]
        assert eta == pytest.approx(b, abs=1e-9)
    told = report.to_json()["layer_margin"]
    assert told == [[report.layer_margin[0, 0].tolist()]]


def reason_of(bank: MemoryBank, good: ImageTokens, bad: ImageTokens, lam: float = 1.0) -> str:
    report = certify_tokens(bank, [("good", good)], [("bad", bad)], lam)
    (reason,) = (name for name, count in report.reasons.items() if count)
    return reason


def several(rows: list[list[float]]) -> MemoryBank:
    patches = image(rows, rows[0]).patches[0]
    return MemoryBank((patches,), patches[:1, None], (NormalImage("normal", ""),))


def test_it_says_why_a_pair_is_not_certified() -> None:
    bank, good, bad = tight()
    assert reason_of(bank, good, bad) == "certified"
    assert reason_of(bank, bad, good) == "misranked"
    # a good patch in the middle of wide rows: rebuilt well, but from far away
    wide = several([[1.0, 1.0, 0.0], [1.0, -1.0, 0.0]])
    middle = image([[1.0, 0.0, 0.0]], [1.0, 1.0, 0.0])
    above = image([[1.0, 0.0, 0.7]], [1.0, 1.0, 0.0])
    assert reason_of(wide, middle, above) == "premise (i)"
    # a bad patch that is a mixture of normal ones, but not the one that sparsemax makes
    corner = several([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    known = image([[1.0, 0.0, 0.0]], [1.0, 0.0, 0.0])
    mixed = image([[0.95, 0.31, 0.0]], [1.0, 0.0, 0.0])
    assert reason_of(corner, known, mixed) == "premise (ii)"
    # a good patch rebuilt exactly from afar, and a bad one that is a mixture too
    assert reason_of(corner, image([[1.0, 1.0, 0.0]], [1.0, 0.0, 0.0]), mixed) == "both"


def test_premise_one_itself_can_fail() -> None:
    bank = one_row_bank()
    good = image([[-0.2, 1.0, 0.0]], [1.0, 0.0, 0.0])
    bad = image([[-1.0, 0.0, 0.1]], [0.0, 1.0, 0.0])
    report = certify_tokens(bank, [("good", good)], [("bad", bad)])
    assert report.margin[0, 0] == -math.inf
    told = report.to_json()
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert told["margin"] == [[None]]
    assert told["layer_margin"] == [[[None]]]
    by_cls: Certificates = certify_tokens(bank, [("good", good)], [("bad", bad)], 0.0)
    assert by_cls.certified[0, 0]  # λ = 0 needs no patches


def test_nothing_to_certify() -> None:
    bank, good, _ = tight()
    with raises(UsageError, "theorem-no-images", kind="bad"):
        certify_tokens(bank, [("good", good)], [])
    with raises(UsageError, "theorem-no-images", kind="good"):
        certify_tokens(bank, [], [("bad", good)])
