"""Clocks and memory, one meter for each kind of device; the device chooses, and nobody else asks.

A GPU works behind the program's back: a call returns when the work is queued, not when it is done.
So a clock has to wait for the device before it is read, or the encoder seems to take no time and
whatever waits next seems to take all of it.
"""

import sys
import time

import torch


class Meter:
    """The CPU: work is done when a call returns, and the memory is that of the process."""

    memory = "the whole process so far"
    tells_apart = False
    """Whether `peak` is that of one method, whatever ran before it."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    @property
    def name(self) -> str:
        """What the figures were measured on."""
        return self.device.type.upper()

    def now(self) -> float:
        """Seconds, once all work given to the device is done."""
        self.wait()
        return time.perf_counter()

    def wait(self) -> None:
        """Waits until the device has done all work that it was given."""

    def held(self) -> int:
        """Bytes that tensors hold on the device now; 0 where that cannot be told apart."""
        return 0

    def reset(self) -> None:
        """Forgets the peak, where the device can."""

    def peak(self) -> int:
        """Bytes: the largest memory since `reset`; 0 where the device does not tell."""
        return peak_memory()


class CudaMeter(Meter):
    """A CUDA GPU: its queue is waited for, and tensors are counted on the GPU alone."""

    memory = "tensors on the GPU (torch.cuda.max_memory_allocated)"
    tells_apart = True

    @property
    def name(self) -> str:
        return torch.cuda.get_device_name(self.device)

    def wait(self) -> None:
        torch.cuda.synchronize(self.device)

    def held(self) -> int:
        return torch.cuda.memory_allocated(self.device)

    def reset(self) -> None:
        torch.cuda.reset_peak_memory_stats(self.device)

    def peak(self) -> int:
        return torch.cuda.max_memory_allocated(self.device)


class MpsMeter(Meter):
    """Apple's GPU: its queue is waited for; it tells no peak, so the process's own stands."""

    def wait(self) -> None:
        torch.mps.synchronize()


METERS: dict[str, type[Meter]] = {"cuda": CudaMeter, "mps": MpsMeter}


def meter_of(device: torch.device) -> Meter:
    """The meter of a device."""
    return METERS.get(device.type, Meter)(device)


class Stopwatch:
    """The seconds of one stage after the other; together they are the whole."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._last = meter.now()

    def lap(self) -> float:
        """Seconds since the last call, or since it was made."""
        before, self._last = self._last, self._meter.now()
        return self._last - before


def peak_memory() -> int:
    """Bytes: the largest memory of this process so far; 0 where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows has no such count
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
