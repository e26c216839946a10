"""A used detector pickles and copies, and works in other processes or says what to do."""

import copy
import multiprocessing
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hyperfsad import AnomalyResult, DetectorFileError, HyperFSAD, ProductDetector
from hyperfsad.encoders.encoder import load_encoder
from hyperfsad.errors import UsageError
from hyperfsad.messages import Notify
from tests.codes import raises
from tests.conftest import make_picture
from tests.detector.test_products import product_picture

KINDS = ("plain", "default", "region", "tiles", "saved tiles", "products", "peer")


unpicklable: Notify = lambda _: None  # noqa: E731 (as users write it)


def used(kind: str, tiny: str, tmp_path: Path) -> Any:
    """A detector that has judged a picture, so that its encoder is loaded."""
    common: dict[str, Any] = {"resolution": 84, "device": "cpu"}
    good = [make_picture(1), make_picture(2)]
    if kind == "products":
        products = ProductDetector(tiny, recipe="paper-offline", **common)
        detector: Any = products.fit({"a": [product_picture(0, 1)], "b": [product_picture(1, 1)]})
    elif kind == "peer":
        from hyperfsad.lab.peers import make_peer

        detector = make_peer("patchcore", tiny, notify=unpicklable, **common).fit(good)
    elif kind == "default":
        detector = HyperFSAD(tiny, missing=0.2, **common).fit(good)
    else:
        more: dict[str, Any] = {"tiles": 64} if "tiles" in kind else {}
        more |= {"roi": "10,10 80,10 80,70"} if kind == "region" else {}
        detector = HyperFSAD(tiny, recipe="paper-offline", **common, **more).fit(good)
    if kind == "saved tiles":
        detector.save(tmp_path / "part.hfsad")
        detector = HyperFSAD.load(tmp_path / "part.hfsad", device="cpu")
    if kind != "peer":
        detector.notify = unpicklable
    detector.predict(make_picture(3))
    return detector


def same(one: AnomalyResult, other: AnomalyResult) -> bool:
    return (
        one.branches == other.branches
        and one.regions == other.regions
        and np.array_equal(one.anomaly_map, other.anomaly_map)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_copies_judge_alike_and_are_their_own(kind: str, tiny: str, tmp_path: Path) -> None:
    detector = used(kind, tiny, tmp_path)
    expected = detector.predict(make_picture(4))
    arrived = pickle.loads(pickle.dumps(detector))
    assert same(arrived.predict(make_picture(4)), expected)
    copied = copy.deepcopy(detector)
    assert same(copied.predict(make_picture(4)), expected)
    assert copied.encoder_ is detector.encoder_
    if kind in ("plain", "default"):
        assert arrived.identity() == copied.identity() == detector.identity()
        copied.extend([make_picture(7)])
        arrived.extend([make_picture(7)])
        assert same(copied.predict(make_picture(4)), arrived.predict(make_picture(4)))
        assert len(detector.support_) == 2
        assert same(detector.predict(make_picture(4)), expected)


def test_an_unfitted_detector_is_copied_too(detector: HyperFSAD) -> None:
    for one in (copy.deepcopy(detector), pickle.loads(pickle.dumps(detector))):
        assert one.fit(make_picture(1)).predict(make_picture(1)).error is None
    with raises(UsageError, "detector-not-fitted"):
        copy.deepcopy(detector).predict(make_picture(1))


def test_other_weights_where_it_arrives_are_refused(detector: HyperFSAD) -> None:
    detector.fit(make_picture(1))
    sent = pickle.loads(pickle.dumps(detector))
    assert sent._memory.stored_fingerprint == detector.encoder_.fingerprint
    sent._memory.stored_fingerprint = "0" * 64
    with pytest.raises(DetectorFileError):
        sent.predict(make_picture(2))


def score(detector: Any) -> float:
    return float(detector.predict(make_picture(4)).score)


def test_in_a_spawned_process(tiny: str, tmp_path: Path) -> None:
    detector = used("plain", tiny, tmp_path)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.apply_async(score, (detector,)).get(120)
    assert found == pytest.approx(score(detector), abs=1e-5)


def test_with_joblib(tiny: str, tmp_path: Path) -> None:
    joblib = pytest.importorskip("joblib")
    detector = used("plain", tiny, tmp_path)
    jobs = [joblib.delayed(score)(detector) for _ in range(2)]
    found = joblib.Parallel(n_jobs=2, timeout=120)(jobs)
    assert found == pytest.approx([score(detector)] * 2, abs=1e-5)


def told(detector: Any, answers: Any) -> None:
    try:
        answers.put(score(detector))
    except Exception as error:
        answers.put(f"{type(error).__name__}: {error}")


def in_a_fork(detector: Any) -> Any:
    """The score in a forked process, which has the detector without pickling it."""
    context: Any = multiprocessing.get_context("fork")
    answers = context.Queue()
    process = context.Process(target=told, args=(detector, answers))
    process.start()
    try:
        return answers.get(timeout=120)
    finally:
        process.kill()
        process.join()


@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="this system does not fork"
)
@pytest.mark.parametrize("kind", ["plain", "saved tiles"])
def test_in_a_forked_process(kind: str, tiny: str, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="only torch survives a fork: hyperfsad[torch]")
    detector = used(kind, tiny, tmp_path)
    large = np.random.default_rng(0).standard_normal((1500, 1500))
    (large @ large).sum()  # by now numpy has threads, which the fork will lack
    assert in_a_fork(detector) == pytest.approx(score(detector), abs=1e-5)


@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="this system does not fork"
)
@pytest.mark.parametrize(
    ("engine", "precision"), [("auto", "auto"), ("auto", "float32"), ("torch", "bf16")]
)
def test_the_fork_waits_for_no_thread_of_torch(engine: Any, precision: Any, tiny: str) -> None:
    """The picture is large enough for torch to share its work among threads."""
    torch = pytest.importorskip("torch", reason="only torch survives a fork: hyperfsad[torch]")
    torch.set_num_threads(2)
    torch.randn(1000, 1000).exp().sum()  # by now torch has threads, whoever asked for them
    detector = HyperFSAD(
        tiny, recipe="paper-offline", resolution=448, engine=engine, precision=precision
    )
    detector.fit([make_picture(1), make_picture(2)])
    assert in_a_fork(detector) == pytest.approx(score(detector), abs=1e-2)


@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="this system does not fork"
)
def test_openvino_in_a_forked_process(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would hang there or abort: what was chosen by hand says so, and auto takes torch."""
    pytest.importorskip("openvino")
    monkeypatch.setenv("HYPERFSAD_CACHE", str(tmp_path / "cache"))
    detector = HyperFSAD(
        tiny, recipe="paper-offline", resolution=84, device="cpu", engine="openvino"
    )
    detector.fit([make_picture(1), make_picture(2)])
    expected = score(detector)
    answer = str(in_a_fork(detector))
    assert answer.startswith("ConversionError: OpenVINO does not survive a fork: start processes")
    pytest.importorskip("torch", reason="only torch survives a fork: hyperfsad[torch]")
    monkeypatch.delenv("HYPERFSAD_ENGINE", raising=False)
    detector._memory.engine = "auto"
    assert in_a_fork(detector) == pytest.approx(expected, abs=1e-4)
    assert score(detector) == expected
    assert load_encoder(detector.encoding_, "cpu").engine == "openvino"
