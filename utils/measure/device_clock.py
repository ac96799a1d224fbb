"""Device time of a batch of calls: events around the batch, behind a spinning kernel that lets the host run ahead.

Works on anything that has the few methods of `Queue`: a CUDA device (`cuda_queue.CudaQueue`) or a simulated one
(`simulated.SimulatedDevice`), so that the rules below can be tested where there is no GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from itertools import cycle, islice
from typing import Protocol

MOST_SPIN = 40_000_000  # cycles: about 20 ms, enough to enqueue 200 calls of 100 µs each
FIRST_SPIN = 100_000
AHEAD = 40_000
SLOW_CLOCK = 0.75  # of the fastest clock seen: nvbench's limit for a throttled sample


class MeasurementError(RuntimeError):
    """A measurement could not be made; the message says which variant and why."""


class Event(Protocol):
    """A mark in the queue of a device."""

    def record(self) -> None: ...
    def query(self) -> bool: ...
    def elapsed_ms(self, later: Event) -> float: ...


class Queue(Protocol):
    """An asynchronous device as the stopwatch sees it: work goes in at once and is done in order, later."""

    name: str

    def synchronize(self) -> None: ...
    def clock(self) -> int: ...  # the host's time, ns
    def event(self) -> Event: ...
    def spin(self, cycles: int) -> None: ...  # a kernel that does nothing for so many cycles of the device's clock
    def flush(self) -> None: ...  # put other data than the callable's into the device's cache
    def active(self) -> AbstractContextManager: ...  # makes it the current device


class DeviceClock:
    """Makes arms for `stopwatch.interleave` that return the device's time, and keeps the clock rates it saw.

    cold=True: the cache is flushed before every call, outside the events (each call then has its own pair of events).
    """

    def __init__(self, queue: Queue, cold: bool = False):
        self.queue = queue
        self.cold = cold
        self.mhz: list[float] = []
        self.starved: set[str] = set()

    def arm(self, name: str, turn: Sequence[Callable], most: int) -> Callable[[int], float]:
        """An arm that runs n calls of `turn` in batches of at most `most` and returns the seconds the device took."""
        gate = {"cycles": FIRST_SPIN, "most": most}
        turns = cycle(turn)  # goes on from block to block, so that no input is met more often than the others

        def arm(n: int) -> float:
            todo = islice(turns, n)
            seconds, slowest = 0.0, float("inf")
            left = n
            while left:
                batch = list(islice(todo, min(left, gate["most"])))
                left -= len(batch)
                took, mhz = self._batch(name, batch, gate)
                seconds += took
                slowest = min(slowest, mhz)
            self.mhz.append(slowest)
            return seconds

        return arm

    def _batch(self, name: str, batch: list[Callable], gate: dict) -> tuple[float, float]:
        """(seconds, SM clock in MHz) of one batch, run again with a longer spin or in halves until the queue never ran dry."""
        while True:
            took, mhz, held = self._attempt(batch, gate["cycles"])
            if held or name in self.starved:
                return took, mhz
            if gate["cycles"] < MOST_SPIN:
                gate["cycles"] *= 2
            elif len(batch) > 1:  # more kernels than the queue holds: the host waits for the spin, the spin cannot outlast it
                gate["most"] = half = len(batch) // 2
                gate["cycles"] = FIRST_SPIN
                first, mhz_1 = self._batch(name, batch[:half], gate)
                second, mhz_2 = self._batch(name, batch[half:], gate)
                return first + second, min(mhz_1, mhz_2)
            else:  # the call waits for the device itself
                self.starved.add(name)
                gate["cycles"] = FIRST_SPIN

    def _attempt(self, batch: list[Callable], cycles: int) -> tuple[float, float, bool]:
        q = self.queue
        gate, start = q.event(), q.event()
        pairs = [(q.event(), q.event()) for _ in batch] if self.cold else [(start, q.event())]
        kept = None
        q.synchronize()
        q.spin(AHEAD)  # so that the next spin already waits in the queue when it may start: its time is then its own
        gate.record()
        q.spin(cycles)
        start.record()
        if self.cold:
            for f, (before, after) in zip(batch, pairs, strict=True):
                q.flush()
                before.record()
                kept = f()
                after.record()
        else:
            for f in batch:
                kept = f()
            pairs[0][1].record()
        held = not start.query()  # the spin still runs, so everything was in the queue before the first call began
        q.synchronize()
        del kept
        mhz = cycles / max(gate.elapsed_ms(start) * 1e3, 1e-9)
        return sum(before.elapsed_ms(after) for before, after in pairs) * 1e-3, mhz, held

    def forget(self) -> None:
        """Drop the clock rates seen so far (those of the warm-up)."""
        self.mhz.clear()

    @property
    def throttled(self) -> int:
        """Blocks that ran below 75 % of the fastest clock seen."""
        top = max(self.mhz, default=0.0)
        return sum(m < SLOW_CLOCK * top for m in self.mhz)

    def notes(self) -> tuple[str, ...]:
        """What a reader should know about these blocks, in words."""
        out = []
        if self.mhz:
            span = f"{min(self.mhz):,.0f}–{max(self.mhz):,.0f} MHz"
            out.append(f"device clock {span}, read from a spin of known cycles in every block")
        if self.throttled:
            out.append(f"throttled: {self.throttled} of {len(self.mhz)} blocks ran below {SLOW_CLOCK:.0%} of the fastest clock")
        for name in sorted(self.starved):
            out.append(f"{name!r} waits for the device itself, so the host's pace is in its price")
        return tuple(out)
