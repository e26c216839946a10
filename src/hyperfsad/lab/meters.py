"""The clock and the memory of one device.

A GPU returns from a call once the work is queued, not once it is done. So the clock waits for the
device before it is read; otherwise the encoder would seem to take no time at all.
"""

import sys
import time

import torch


class Meter:
    """Measures seconds and bytes on a device.

    On a CPU, memory is that of the whole process; CUDA counts the tensors on the GPU.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.counts_tensors = device.type == "cuda"
        """Whether `peak` belongs to one method, whatever ran before it."""
        self._last = self.now()

    @property
    def name(self) -> str:
        """What the figures were measured on."""
        if self.counts_tensors:
            return torch.cuda.get_device_name(self.device)
        return self.device.type.upper()

    def now(self) -> float:
        """Seconds, once the device has finished all work that it was given."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        elif self.device.type == "mps":
            torch.mps.synchronize()
        return time.perf_counter()

    def lap(self) -> float:
        """Seconds since the last call; laps add up to the whole."""
        before, self._last = self._last, self.now()
        return self._last - before

    def held(self) -> int:
        """Bytes that tensors hold on the device now; 0 where that is not counted."""
        return torch.cuda.memory_allocated(self.device) if self.counts_tensors else 0

    def reset(self) -> None:
        """Forgets the peak, where the device can."""
        if self.counts_tensors:
            torch.cuda.reset_peak_memory_stats(self.device)

    def peak(self) -> int:
        """Bytes: the largest memory since `reset`; 0 where the system does not say."""
        if self.counts_tensors:
            return torch.cuda.max_memory_allocated(self.device)
        try:
            import resource
        except ImportError:  # Windows
            return 0
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
