"""Timing: every method on the same tokens, memory without that of its neighbours."""

from pathlib import Path

import numpy as np
import pytest

from hyperfsad import HyperFSAD
from hyperfsad.lab import timing
from hyperfsad.lab.peers import make_peer
from hyperfsad.lab.peers.peer import FewShotDetector
from hyperfsad.lab.timing import Meter, time_methods


class Ledger(Meter):
    """Memory on a device that holds what detectors remember; each clock reading is a second."""

    banks: list[int]
    seconds = 0.0

    def now(self) -> float:
        Ledger.seconds += 1
        return Ledger.seconds

    def held(self) -> int:
        return sum(Ledger.banks)

    def peak(self) -> int:
        return sum(Ledger.banks) + 7


def test_a_method_is_not_charged_for_others(
    tiny: str, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Ledger.banks = [1000]  # the encoder's weights
    monkeypatch.setattr(timing, "Meter", Ledger)
    ours = HyperFSAD(tiny, recipe="paper-offline", resolution=84, device="cpu")
    encoder = ours.encoder_

    def own() -> FewShotDetector:
        Ledger.banks.append(50)
        return ours.fit([photos / "0.png"], threshold=False)

    def peer() -> FewShotDetector:
        Ledger.banks.append(300)
        found = make_peer("nearest", tiny, resolution=84, device="cpu")
        found.use_encoder(encoder)
        return found.fit([photos / "0.png", photos / "1.png"])

    paths = [str(photos / f"{n}.png") for n in range(2, 5)]
    found = time_methods({("a", 1): own, ("b", 2): peer}, encoder, paths, (1, 4), images=8)
    assert [(t.method, t.shots, t.batch) for t in found] == [
        *(("a", 1, 1), ("b", 2, 1)),
        *(("a", 1, 4), ("b", 2, 4)),
    ]
    assert [t.peak_bytes for t in found] == [1057, 1307] * 2  # the encoder and this method alone
    for each in found:  # one second a stage, shared by the images of a batch
        assert (each.decode, each.encode, each.match) == (1000 / each.batch,) * 3
        assert each.total == pytest.approx(3000 / each.batch)


def test_batches_hold_as_many_images_as_they_say(tiny: str, photos: Path) -> None:
    detector = HyperFSAD(tiny, recipe="paper-offline", resolution=84, device="cpu")
    seen: list[int] = []
    whole = detector.encoder_.encode_prepared

    def counted(images: list[np.ndarray]) -> object:
        seen.append(len(images))
        return whole(images)

    detector.encoder_.encode_prepared = counted  # type: ignore[method-assign, assignment]
    detector.fit([photos / "0.png"], threshold=False)
    seen.clear()
    paths = [str(photos / f"{n}.png") for n in (1, 2, 3)]
    (found,) = time_methods({("a", 1): lambda: detector}, detector.encoder_, paths, [8], images=16)
    assert seen == [8, 8, 8]  # one to warm up, two that count, although there are three images
    assert min(found.decode, found.encode, found.match) > 0
    assert found.total >= max(found.decode, found.encode, found.match)


class Steps(Meter):
    """A clock that was read at known times."""

    def __init__(self, times: list[float]) -> None:
        self.times = iter(times)
        super().__init__("cpu")

    def now(self) -> float:
        return next(self.times)


def test_stages_add_up_to_the_whole() -> None:
    meter = Steps([10.0, 10.5, 12.0, 12.25])
    assert [meter.lap() for _ in range(3)] == [0.5, 1.5, 0.25]


@pytest.mark.parametrize("kind", ["cuda", "mps"])
def test_the_clock_is_read_once_the_device_is_done(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    waited: list[object] = []
    monkeypatch.setattr(getattr(torch, kind), "synchronize", lambda *device: waited.append(device))
    meter = Meter(kind)
    meter.lap()
    assert len(waited) == 2
    assert meter.counts_tensors == (kind == "cuda")


def test_the_cpu_counts_the_process() -> None:
    meter = Meter("cpu")
    meter.reset()
    before = meter.peak()
    large = np.ones(16 << 20, dtype=np.float32)  # 64 MB
    assert meter.peak() >= before > 10_000_000
    assert meter.held() == 0
    assert meter.name == "CPU"
    del large


def test_a_gpu_counts_its_tensors_and_is_waited_for() -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("there is no CUDA GPU here")
    meter = Meter("cuda")
    meter.reset()
    before = meter.held()
    tensor = torch.ones(1 << 20, device="cuda")
    assert meter.held() - before >= tensor.nbytes
    del tensor
    assert meter.peak() - before >= 4 << 20
    meter.reset()
    assert meter.peak() - before < 4 << 20
    side = torch.rand(4096, 4096, device="cuda")
    for _ in range(20):
        side = side @ side / 4096
    ended = torch.cuda.Event()
    ended.record()
    meter.now()
    assert ended.query()
    assert meter.name != "CUDA"
