"""The time of one small kernel by every means there is, side by side: events, a graph, the profiler, its own stamps.

They disagree because each has its own idea of where a kernel begins and ends. The op is `a + b` of one element; "own stamps" is a
kernel of ours that does the same add between two looks at the device's clock. Device times in ns.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from utils.measure import lanes as two_lanes
from utils.measure import profiled
from utils.measure.cuda_queue import CudaQueue
from utils.measure.device_clock import MeasurementError
from utils.measure.stopwatch import AGAIN, time_device
from utils.model.readings import Race, Reading

Progress = Callable[[float, str], None]
BATCH, OWN, GRAPH, PROFILER, STAMPS = "back to back", "own kernel, back to back", "graph node", "profiler", "own stamps"
PAIR, HELD_PAIR, EMPTY_PAIR, PACE = "event pair", "event pair, queue held", "empty event pair, queue held", "host's pace"
PAIRS, SPIN_CYCLES = 200, 200_000  # about 0.1 ms: longer than the host needs for three calls


def small_kernel(device: str = "cuda", progress: Progress | None = None, *, events: Callable = profiled.events) -> Race:
    """What one small kernel takes on the device (ns), by readings that each name their means:

    "back to back"                 events around 200 ops that wait in the queue, a 200th: the kernel and the step to the next
    "own kernel, back to back"     the same of a kernel of ours that does the same add
    "event pair"                   two events around one op in an idle queue: mostly the host's time between its calls
    "event pair, queue held"       the same while a spinning kernel holds the queue, so that no host is in it
    "empty event pair, queue held" two events with nothing between them: what a pair costs
    "host's pace"                  a loop of the op as fast as the host can, per op
    "graph node"                   one node more in a graph of dependent adds
    "profiler"                     the kernel's begin to end as the profiler reports it
    "own stamps"                   begin to end as the kernel itself sees it on the device's clock (`notes` say how coarse)

    One that cannot be had is missing, and `notes` say why. Raises MeasurementError without CUDA. About 40 s.
    """
    import torch

    queue = CudaQueue(device)
    report = progress or (lambda done, text: None)
    notes: list[str] = []
    with queue.active():
        a, b = (torch.randn(1, device=device) for _ in range(2))
        variants: dict[str, Callable] = {BATCH: lambda: a + b}
        own = None
        try:
            own = _Own(a, b)
            variants[OWN] = own.once
        except MeasurementError as error:
            notes.append(f"no kernel of our own: {error}")
        report(0.0, "queue held")
        race = time_device(variants, device=device, blocks=30, at_most_s=10)
        readings = dict(race.readings)
        report(0.3, "event pairs")
        readings |= _pairs(queue, lambda: a + b)
        if own is not None:
            readings[STAMPS] = own.stamped()
            notes.append(f"the device's clock ticks every {own.resolution:,} ns: own stamps are whole ticks")
        report(0.4, "in a loop and in a graph")
        found = two_lanes.lanes(device, blocks=15)
        readings |= {PACE: _named(found["period"], PACE), GRAPH: _named(found["captured per node"], GRAPH)}
    report(0.7, "under the profiler, in a process of its own")
    try:
        readings[PROFILER] = Reading(PROFILER, tuple(_profiled(report, events)))
    except MeasurementError as error:
        notes.append(f"no profiler: {error}")
    report(1.0, "measured")
    return Race(
        readings=readings,
        control=(BATCH, BATCH + AGAIN),
        clock="device",
        device=race.device,
        block_ms=race.block_ms,
        loop_ns=race.loop_ns,
        throttled_blocks=race.throttled_blocks,
        notes=(*race.notes, *notes),
    )


def _named(reading: Reading, name: str) -> Reading:
    return Reading(name, reading.samples, reading.calls_per_block)


def _profiled(report: Progress, events: Callable) -> list[float]:
    """Lengths of the op's kernels as the profiler gives them, ns. Raises MeasurementError."""
    found = events("adds", lambda done, text: report(0.7 + 0.3 * done, text))
    lengths = [float(e["dur"]) * 1e3 for e in profiled.inside(found, "adds") if e["cat"] == "kernel"]
    if not lengths:
        raise MeasurementError("the profiler ran but saw no kernel: CUPTI could not start here")
    return lengths


class _Own:
    """Our own add of one element, which stamps its begin and end."""

    def __init__(self, a, b):
        import torch

        from utils.measure.stamp_kernels import Launcher

        self._launcher = Launcher()
        self.resolution = self._launcher.timer_resolution_ns()
        self._a, self._b, self._c = a, b, torch.full((1,), float("nan"), device=a.device)
        self._out = self._launcher.poisoned(PAIRS, 2)
        self._kernel = self._launcher.kernel("add", self._out, 0, a, b, self._c, row=1)
        self.once = self._kernel.once

    def stamped(self) -> Reading:
        """Begin to end of 200 of them, ns. Raises MeasurementError when the sum is wrong."""
        self._kernel.stamped(PAIRS)
        stamps = self._launcher.read(self._out)
        if float(self._c) != float(self._a + self._b):
            raise MeasurementError("the kernel of our own computed another sum than torch: its time means nothing")
        return Reading(STAMPS, tuple(float(end - start) for start, end in stamps))


def _pairs(queue: CudaQueue, f: Callable) -> dict[str, Reading]:
    """One op between two events, 200 times each way (ns)."""

    def pair(held: bool, work: Callable | None) -> float:
        start, stop = queue.event(), queue.event()
        queue.synchronize()
        if held:
            queue.spin(SPIN_CYCLES)
        else:
            until = time.perf_counter_ns() + 20_000  # the queue is idle before the first event, as in a program that times one op
            while time.perf_counter_ns() < until:
                pass
        start.record()
        kept = work() if work else None
        stop.record()
        queue.synchronize()
        del kept
        return start.elapsed_ms(stop) * 1e6

    ways = {PAIR: (False, f), HELD_PAIR: (True, f), EMPTY_PAIR: (True, None)}
    for held, work in ways.values():
        pair(held, work)
    samples: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(PAIRS):
        for name, (held, work) in ways.items():
            samples[name].append(pair(held, work))
    return {name: Reading(name, tuple(s)) for name, s in samples.items()}
