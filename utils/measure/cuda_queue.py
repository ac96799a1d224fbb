"""A CUDA device as the stopwatch sees it (`device_clock.Queue`): synchronise, events, a spin, a flush of the L2."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager

from utils.measure.device_clock import MeasurementError
from utils.measure.seams import cuda_spin

L2_WHEN_UNKNOWN = 64 << 20  # bytes: more than any L2 up to Hopper's


class CudaEvent:
    """A timing event on the current stream of the current device."""

    def __init__(self):
        import torch

        self._event = torch.cuda.Event(enable_timing=True)

    def record(self) -> None:
        self._event.record()

    def query(self) -> bool:
        return self._event.query()

    def elapsed_ms(self, later: CudaEvent) -> float:
        return self._event.elapsed_time(later._event)


class CudaQueue:
    """The current stream of one CUDA device. Raises MeasurementError where there is none."""

    clock = staticmethod(time.perf_counter_ns)
    event = CudaEvent

    def __init__(self, device: str = "cuda"):
        import torch

        if not torch.cuda.is_available():
            raise MeasurementError(
                "no CUDA device here, so nothing can be timed on one: time_host(…, device='cpu') prices the CPU,"
                " and the recordings hold a GPU's prices"
            )
        self.name = str(device)
        self._torch = torch
        self._device = torch.device(device)
        self._evicting = None

    def active(self) -> AbstractContextManager:
        return self._torch.cuda.device(self._device)

    def synchronize(self) -> None:
        self._torch.cuda.synchronize(self._device)

    def spin(self, cycles: int) -> None:
        cuda_spin(cycles)

    def flush(self) -> None:
        """Read a buffer of twice the L2. Read, not written: dirty lines would be written back on the timed call's clock."""
        if self._evicting is None:
            props = self._torch.cuda.get_device_properties(self._device)
            size = 2 * (getattr(props, "L2_cache_size", 0) or L2_WHEN_UNKNOWN)
            self._evicting = self._torch.rand(size // 4, device=self._device)
        self._evicting.sum()
