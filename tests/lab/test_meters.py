"""Meters: the clock waits for the device, stages add up, and memory is counted."""

from typing import Any

import pytest
import torch

from hyperfsad.lab.meters import Meter


class Steps(Meter):
    """A clock that was read at known times."""

    def __init__(self, times: list[float]) -> None:
        self.times = iter(times)
        super().__init__(torch.device("cpu"))

    def now(self) -> float:
        return next(self.times)


def test_stages_add_up_to_the_whole() -> None:
    meter = Steps([10.0, 10.5, 12.0, 12.25])
    assert [meter.lap() for _ in range(3)] == [0.5, 1.5, 0.25]


@pytest.mark.parametrize("kind", ["cuda", "mps"])
def test_the_clock_is_read_once_the_device_is_done(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[object] = []
    monkeypatch.setattr(getattr(torch, kind), "synchronize", lambda *device: waited.append(device))
    meter = Meter(torch.device(kind))
    meter.lap()
    assert len(waited) == 2
    assert meter.counts_tensors == (kind == "cuda")


def test_the_cpu_counts_the_process() -> None:
    meter = Meter(torch.device("cpu"))
    meter.reset()
    before = meter.peak()
    large = torch.ones(16 << 20)  # 64 MB
    assert meter.peak() >= before > 10_000_000
    assert meter.held() == 0
    assert meter.name == "CPU"
    del large


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA GPU here")
def test_a_gpu_counts_its_tensors_and_is_waited_for() -> None:
    meter = Meter(torch.device("cuda"))
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
    ended: Any = torch.cuda.Event()  # type: ignore[no-untyped-call]
    ended.record()
    meter.now()
    assert ended.query()
    assert meter.name != "CUDA"
