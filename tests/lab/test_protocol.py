"""The protocol on a small generated data set: supports, scores, resumption, summaries."""

import dataclasses
import random
from pathlib import Path

import numpy as np
import pytest

from hyperfsad import HyperFSAD
from hyperfsad.encoders import find_spec
from hyperfsad.encoders.encoder import ImageTokens
from hyperfsad.errors import UsageError
from hyperfsad.lab import protocol as room
from hyperfsad.lab.datasets import Category, load_dataset
from hyperfsad.lab.peers import SAME_TOKENS, make_peer
from hyperfsad.lab.peers.peer import FewShotDetector
from hyperfsad.lab.presets import Variant
from hyperfsad.lab.protocol import CategoryRun
from hyperfsad.lab.records import Record, summarise
from hyperfsad.lab.supports import draw_supports, support_order
from hyperfsad.lab.tables import Cell
from hyperfsad.lab.tokens import TokenCache
from hyperfsad.method.lookups import LOOKUPS
from hyperfsad.quality.metrics import image_metrics, pixel_metrics, upsampled
from hyperfsad.quality.test_set import load_mask
from tests.codes import raises
from tests.lab.trees import mvtec_tree


@pytest.fixture
def cache(tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TokenCache:
    monkeypatch.setenv("HYPERFSAD_CACHE", str(tmp_path / "cache"))
    return TokenCache(find_spec(tiny).settings(), device="cpu")


@pytest.fixture
def category(tmp_path: Path) -> Category:
    mvtec_tree(tmp_path / "data", ["bolt"], normal=6)
    return load_dataset("mvtec", tmp_path / "data")[0]


def evaluation(
    category: Category,
    cache: TokenCache,
    work: Path,
    shots: tuple[int, ...] = (1,),
    runs: int = 1,
    variants: tuple[Variant, ...] = (Variant("sparsemax"),),
    size: int = 32,
) -> CategoryRun:
    supports = draw_supports([category], shots, runs, 0, cache.content_hash).of(category)
    return CategoryRun(category, supports, variants, cache, work, size)


def test_supports_follow_the_rule_and_nothing_else(category: Category, cache: TokenCache) -> None:
    order = support_order(category, 0, 0, cache.content_hash)
    shuffled = list(category.normal)
    random.Random(1).shuffle(shuffled)
    assert (
        support_order(
            dataclasses.replace(category, normal=tuple(shuffled)), 0, 0, cache.content_hash
        )
        == order
    )
    assert support_order(category, 1, 0, cache.content_hash) != order
    assert support_order(category, 0, 1, cache.content_hash) != order
    assert sorted(order) == sorted(category.normal)


def test_a_copy_of_a_good_image_is_never_drawn(category: Category, cache: TokenCache) -> None:
    first = Path(category.normal[0])
    copy = first.with_name("copy.png")
    copy.write_bytes(first.read_bytes())
    doubled = dataclasses.replace(category, normal=(*category.normal, str(copy)))
    assert len(support_order(doubled, 0, 0, cache.content_hash)) == len(category.normal)


def test_records_are_what_the_detector_gives(
    category: Category, cache: TokenCache, tiny: str, tmp_path: Path
) -> None:
    """Every variant, run and number of shots equals a detector fitted and asked on its own."""
    variants = (
        *(Variant(name, lookup=name) for name in LOOKUPS),
        Variant("layers", layers=(1, 3)),
        Variant("pooled", pooling="top-10"),
        Variant("cls", lam=0.0),
        Variant("default", recipe="default"),
        *(Variant(name, peer=name) for name in SAME_TOKENS),
    )
    records = evaluation(category, cache, tmp_path, (1, 3), 2, variants, 64).records()
    assert len(records) == len(variants) * 4
    anomalous = np.array([image.anomalous for image in category.test])
    for record in records:
        variant = next(v for v in variants if v.label == record.method)
        detector: FewShotDetector
        if variant.peer:
            detector = make_peer(variant.peer, tiny, device="cpu")
        elif variant.recipe:
            detector = HyperFSAD(
                tiny,
                recipe=variant.recipe,  # type: ignore[arg-type]
                layers=cache.settings.layers,
                last_norm=cache.settings.last_norm,
                rotations=1,
                device="cpu",
                precision="float32",
            )
        else:
            detector = HyperFSAD(
                tiny,
                recipe="paper-offline",
                layers=variant.layers,  # type: ignore[arg-type]
                lookup=variant.lookup,  # type: ignore[arg-type]
                pooling=variant.pooling,
                lam=variant.lam,
                device="cpu",
            )
        support = [Path(category.normal[0]).parent / name for name in record.support]
        smoothing = 0.0 if isinstance(detector, HyperFSAD) else detector.smoothing
        if isinstance(detector, HyperFSAD):
            detector.fit(support, threshold=False)  # its threshold takes no part in the metrics
        else:
            detector.fit(support)
        results = list(detector.predict_many([image.path for image in category.test]))
        expected = image_metrics(anomalous, np.array([result.score for result in results]))
        for name, value in expected.items():
            assert record.metrics[name] == pytest.approx(value, abs=1e-9), (record.method, name)
        maps = upsampled(np.stack([r.anomaly_map for r in results]), 64, smoothing)
        masks = np.stack([load_mask(image, 64) for image in category.test])
        pixels = pixel_metrics(maps, masks)
        assert record.metrics["P-AUROC"] == pytest.approx(pixels["P-AUROC"], abs=1e-4)


def test_shots_are_nested_and_shared_by_all_methods(
    category: Category, cache: TokenCache, tmp_path: Path
) -> None:
    variants = (Variant("a"), Variant("b", peer="nearest"))
    records = evaluation(category, cache, tmp_path, (1, 2, 4), 2, variants).records()
    support = {(r.method, r.run, r.shots): r.support for r in records}
    for run in range(2):
        whole = support["a", run, 4]
        assert support["a", run, 1] == whole[:1]
        assert support["a", run, 2] == whole[:2]
        assert support["b", run, 2] == whole[:2]


def test_a_killed_run_goes_on_where_it_stopped(
    category: Category, cache: TokenCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "BLOCK", 2)
    whole = evaluation(category, cache, tmp_path / "whole", (1, 2), 2).records()
    mine = evaluation(category, cache, tmp_path / "work", (1, 2), 2)

    class Killed(BaseException):
        pass

    seen = 0

    def kill(count: int) -> None:
        nonlocal seen
        seen += count
        if seen >= 4:
            raise Killed

    with pytest.raises(Killed):
        mine.records(kill)
    finished = sorted((tmp_path / "work").rglob("*.npz"))
    assert len(finished) == 2
    finished[1].write_bytes(finished[1].read_bytes()[:50])  # cut by the kill

    asked: list[str] = []
    original = cache.tokens

    def watched(path: str, angle: float = 0.0) -> ImageTokens:
        asked.append(path)
        return original(path, angle)

    monkeypatch.setattr(cache, "tokens", watched)
    assert mine.records() == whole
    assert category.test[0].path not in asked
    assert category.test[2].path in asked


def test_other_settings_do_not_reuse_old_scores(
    category: Category, cache: TokenCache, tmp_path: Path
) -> None:
    first = evaluation(category, cache, tmp_path).records()
    other = (Variant("sparsemax", lookup="softmax"),)
    second = evaluation(category, cache, tmp_path, variants=other).records()
    assert first[0].metrics != second[0].metrics


def test_too_few_good_images_are_refused(category: Category, cache: TokenCache) -> None:
    with raises(UsageError, "too-few-good-images", category="bolt", found=6, needed=9):
        draw_supports([category], (9,), 1, 0, cache.content_hash)


def test_without_masks_there_are_image_metrics_only(
    category: Category, cache: TokenCache, tmp_path: Path
) -> None:
    bare = tuple(dataclasses.replace(image, mask=None) for image in category.test)
    unmasked = dataclasses.replace(category, test=bare)
    records = evaluation(unmasked, cache, tmp_path).records()
    assert set(records[0].metrics) == {"I-AUROC", "I-F1", "I-AP"}


def record(category: str, run: int, value: float | None) -> Record:
    return Record("d", category, "e", 448, "m", 1, run, (), {"I-AUROC": value})


def test_summaries_average_categories_per_run_and_then_runs() -> None:
    records = [record("a", 0, 0.5), record("b", 0, 0.7), record("a", 1, 0.6), record("b", 1, 1.0)]
    figure = summarise(records, "I-AUROC")
    assert figure is not None
    assert figure.mean == pytest.approx(70)
    assert figure.std == pytest.approx(np.std([60, 80], ddof=1))
    assert summarise(records[:2], "I-AUROC") == Cell(60.0)
    assert summarise(records, "P-AUROC") is None
    assert summarise([*records, record("c", 0, None)], "I-AUROC") == figure


def test_maps_are_upsampled_with_half_pixel_centres() -> None:
    small = np.array([[[0, 1], [0, 1]]], dtype=np.float32)
    large = upsampled(small, 4)
    assert large[0, 0].tolist() == pytest.approx([0, 0.25, 0.75, 1])
    assert upsampled(small, 16, 2.0)[0].std() < upsampled(small, 16)[0].std()
