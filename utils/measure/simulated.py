"""A SIMULATED asynchronous device for machines without a GPU: a finite queue, kernels that take time, a host that runs ahead.

It computes nothing and imitates no particular GPU. What it shares with a real one is the order of events: a launch returns at
once, kernels run one after the other, a full queue makes the host wait, `synchronize` and `item` wait until it is empty.
On a `WallClock` all of this takes real time, so any stopwatch can be pointed at it and be wrong in the real ways; on a
`VirtualClock` nothing takes real time and every run gives the same numbers (tests, graded labs). No thread is involved:
when each kernel ends follows from when it was launched, and a waiting host really waits until then.
"""

from __future__ import annotations

import time
from collections import deque
from contextlib import AbstractContextManager, nullcontext

NEAR_NS = 200_000  # a sleep may wake this late, so the last stretch of a wait is spent looking at the clock


class WallClock:
    """Real time."""

    now = staticmethod(time.perf_counter_ns)

    def spend(self, ns: float) -> None:
        """The host works for `ns`: it looks at the clock until they are over."""
        until = time.perf_counter_ns() + ns
        while time.perf_counter_ns() < until:
            pass

    def wait_until(self, ns: float) -> None:
        while (left := ns - time.perf_counter_ns()) > 0:
            if left > NEAR_NS:
                time.sleep((left - NEAR_NS) * 1e-9)


class VirtualClock:
    """Time that passes only when it is spent: deterministic, and free. `reading_ns` is what looking at it costs."""

    def __init__(self, reading_ns: int = 0):
        self._ns = 0.0
        self.reading_ns = reading_ns

    def now(self) -> int:
        self._ns += self.reading_ns
        return int(self._ns)

    def spend(self, ns: float) -> None:
        if ns < 0:
            raise ValueError(f"time does not run backwards: {ns} ns")
        self._ns += ns

    def wait_until(self, ns: float) -> None:
        self._ns = max(self._ns, float(ns))


class SimulatedEvent:
    """A mark in the queue: its time is when the work in front of it is done."""

    def __init__(self, device: SimulatedDevice):
        self._device = device
        self._at: float | None = None

    def record(self) -> None:
        self._at = max(self._device.wall.now(), self._device.busy_until)

    def query(self) -> bool:
        return self._at is None or self._device.wall.now() >= self._at

    def elapsed_ms(self, later: SimulatedEvent) -> float:
        if self._at is None or later._at is None:
            raise ValueError("both events must be recorded before the time between them can be read")
        return (later._at - self._at) * 1e-6


class SimulatedDevice:
    """An asynchronous device with a queue of `depth` kernels; all prices in microseconds.

    launch_us: the host's time for one launch · sync_us: its time for one synchronisation, beyond the waiting · copy_us: what
    `item` adds to that · gap_us: the device's time between two kernels that wait in the queue · mhz: its clock (for `spin`).
    """

    label = "simulated device"
    name = "simulated"

    def __init__(
        self,
        *,
        launch_us: float = 5.0,
        depth: int = 1024,
        sync_us: float = 5.0,
        copy_us: float = 5.0,
        gap_us: float = 0.0,
        mhz: float = 1000.0,
        clock: WallClock | VirtualClock | None = None,
    ):
        if depth < 1 or min(launch_us, sync_us, copy_us, gap_us) < 0:
            raise ValueError("the queue holds at least one kernel, and no price is below 0")
        self.launch_us, self.sync_us, self.copy_us, self.gap_us, self.mhz = launch_us, sync_us, copy_us, gap_us, mhz
        self.depth = depth
        self.wall = clock or WallClock()
        self.launches = self.syncs = 0
        self.busy_until = 0.0  # ns: when the last kernel of the queue ends
        self._ends: deque[float] = deque()
        self._value = 0.0

    def clock(self) -> int:
        """The host's time in ns, for the stopwatch."""
        return self.wall.now()

    def launch(self, kernel_us: float, value: float | None = None) -> None:
        """Put a kernel of `kernel_us` into the queue and return; wait first when the queue is full. `value` is for `item`."""
        if kernel_us < 0:
            raise ValueError(f"a kernel cannot take {kernel_us} µs")
        called = self.wall.now()
        if self.queue_depth() >= self.depth:  # back-pressure: the oldest kernel must end first
            self.wall.wait_until(self._ends[0])
            self.wall.spend(self.launch_us * 1e3)
        else:
            self.wall.spend(max(0.0, self.launch_us * 1e3 - (self.wall.now() - called)))
        now = self.wall.now()
        start = self.busy_until + self.gap_us * 1e3 if self.busy_until > now else now
        self.busy_until = start + kernel_us * 1e3
        self._ends.append(self.busy_until)
        self.launches += 1
        if value is not None:
            self._value = value

    def queue_depth(self) -> int:
        """Kernels launched and not yet ended."""
        now = self.wall.now()
        while self._ends and self._ends[0] <= now:
            self._ends.popleft()
        return len(self._ends)

    def synchronize(self) -> None:
        """Wait until the queue is empty."""
        self.syncs += 1
        self.wall.wait_until(self.busy_until)
        self.wall.spend(self.sync_us * 1e3)

    def item(self) -> float:
        """Wait until the queue is empty, then bring one number to the host (the last `value` launched)."""
        self.synchronize()
        self.wall.spend(self.copy_us * 1e3)
        return self._value

    def event(self) -> SimulatedEvent:
        return SimulatedEvent(self)

    def spin(self, cycles: int) -> None:
        """A kernel that takes `cycles` of the device's clock."""
        self.launch(cycles / self.mhz)

    def flush(self) -> None:
        """Nothing to flush: the simulated device has no cache (cache traps are shown on the real CPU)."""

    def active(self) -> AbstractContextManager:
        return nullcontext()
