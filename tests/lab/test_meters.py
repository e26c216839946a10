"""Meters: the device chooses the clock, which waits for it, and stages add up."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
import torch

from hyperfsad.lab.meters import CudaMeter, Meter, MpsMeter, Stopwatch, meter_of


@pytest.mark.parametrize(
    ("device", "kind"), [("cpu", Meter), ("cuda:1", CudaMeter), ("mps", MpsMeter)]
)
def test_the_device_chooses_its_meter(device: str, kind: type[Meter]) -> None:
    meter = meter_of(torch.device(device))
    assert type(meter) is kind
    assert meter.device == torch.device(device)


class Steps(Meter):
    """A clock that was read at known times."""

    def __init__(self, times: list[float]) -> None:
        super().__init__(torch.device("cpu"))
        self.times = iter(times)

    def now(self) -> float:
        return next(self.times)


def test_stages_add_up_to_the_whole() -> None:
    watch = Stopwatch(Steps([10.0, 10.5, 12.0, 12.25]))
    laps = [watch.lap() for _ in range(3)]
    assert laps == [0.5, 1.5, 0.25]
    assert sum(laps) == 12.25 - 10.0


class Queue(Meter):
    """A device that works behind the program's back, as a GPU does: a thread of its own."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        super().__init__(torch.device("cpu"))
        self.pool, self.given = pool, list[Future[None]]()

    def wait(self) -> None:
        for work in self.given:
            work.result()


def test_a_lap_ends_when_the_device_has_done_its_work() -> None:
    done = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        meter = Queue(pool)
        watch = Stopwatch(meter)
        release = threading.Event()

        def work() -> None:
            release.wait()
            done.set()

        meter.given.append(pool.submit(work))
        assert not done.is_set()  # the call has returned, the work has not
        threading.Timer(0.05, release.set).start()
        assert watch.lap() > 0
        assert done.is_set()


def test_the_cpu_counts_the_process() -> None:
    meter = meter_of(torch.device("cpu"))
    meter.reset()
    before = meter.peak()
    held = torch.ones(16 << 20)  # 64 MB
    assert meter.peak() >= before > 10_000_000
    assert meter.held() == 0
    assert meter.name == "CPU"
    del held


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA GPU here")
def test_a_gpu_counts_its_tensors_and_is_waited_for() -> None:
    meter = meter_of(torch.device("cuda"))
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
