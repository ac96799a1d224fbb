"""OpenMP as the CPU's own launch cost: an op just below and just above the size from which torch wakes its team of threads.

Elementwise ops run in the calling thread up to 32,768 elements (torch's grain) and are shared among the team above it. Waking the
team has a price that one element more does not explain: the same op with one thread is the null experiment beside it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import repeat

from utils.measure.device_clock import MeasurementError
from utils.measure.fingerprints import cores
from utils.measure.stopwatch import AGAIN, calibrate, interleave, timer_overhead_ns
from utils.model.quantities import noise_of
from utils.model.readings import Race

Progress = Callable[[float, str], None]
GRAIN = 32_768  # at::internal::GRAIN_SIZE, elements
FAR = 16 * GRAIN  # a size at which two threads may pay for themselves


def openmp(device: str = "cpu", progress: Progress | None = None, *, blocks: int = 60, block_ms: float = 1.0) -> dict:
    """Readings of "race" are named "32,768 elements, 1 thread" and so on: ns an op of `torch.add(a, b, out=c)`, for half the
    grain, the grain, one element more, and sixteen grains, each with 1 and 2 threads. Beside it "grain", "sizes", "threads",
    "notes", and

    "numbers" (µs): "half_1_us", "below_1_us", "below_2_us", "above_1_us", "above_2_us", "far_1_us", "far_2_us", "crossing_us"
    (one element more, with two threads), "wake_us" (what the team costs: the op with two threads just above the grain, minus the
    same op if the second thread took half of its work and came for nothing), "wake_error_us", "wake_seen" (1.0 when it is beyond
    that). Raises MeasurementError with fewer than two cores. About 5 s.
    """
    import torch

    if cores() < 2 or not torch.backends.openmp.is_available():
        why = "this torch was built without OpenMP" if cores() >= 2 else "a team of two threads needs two cores"
        raise MeasurementError(f"OpenMP's cost cannot be measured here: {why}")
    sizes = {"half": GRAIN // 2, "below": GRAIN, "above": GRAIN + 1, "far": FAR}
    arms: dict[str, Callable[[int], float]] = {}
    for size in sizes.values():
        inputs = tuple(torch.randn(size) for _ in range(3))
        for threads in (1, 2):
            arms[name_of(size, threads)] = _arm(inputs, threads)
    first = name_of(GRAIN, 1)
    arms[first + AGAIN] = arms[first]
    with threads_restored():
        calls = {name: calibrate(name, arm, block_ms * 1e-3) for name, arm in arms.items()}
        calls[first + AGAIN] = calls[first]
        readings = interleave(
            arms, blocks=blocks, calls=calls, stretches=2, pair=(first, first + AGAIN), progress=progress, at_most_s=12
        )
    race = Race(readings, (first, first + AGAIN), "host", "cpu", block_ms, timer_overhead_ns())
    return {
        "race": race,
        "grain": GRAIN,
        "sizes": sizes,
        "threads": 2,
        "numbers": numbers(race, sizes),
        "notes": ["the team of threads stays awake for a while after an op: what is priced is waking it hot, not making it"],
    }


def name_of(size: int, threads: int) -> str:
    """The reading's name: "32,769 elements, 2 threads"."""
    return f"{size:,} elements, {threads} thread{'s' * (threads > 1)}"


def numbers(race: Race, sizes: dict[str, int]) -> dict:
    """The prices in µs, and what the team adds just above the grain (see `openmp`)."""
    ns = {(place, threads): race[name_of(size, threads)].ns for place, size in sizes.items() for threads in (1, 2)}
    out = {f"{place}_{threads}_us": value * 1e-3 for (place, threads), value in ns.items()}
    work = ns["below", 1] - ns["half", 1]  # what half a grain of elements takes: the op's fixed part is in neither
    wake = ns["above", 2] - (ns["above", 1] - max(0.0, work))
    # Two threads scatter more than the one that the A/A pair ran on, so each price's own scatter is in the error as well.
    used = (("half", 1), ("below", 1), ("above", 1), ("above", 2))
    scatter = sum(noise_of(race[name_of(sizes[place], threads)]) * ns[place, threads] for place, threads in used)
    error = race.error * max(ns["above", 1], ns["above", 2]) + scatter
    return out | {
        "crossing_us": (ns["above", 2] - ns["below", 2]) * 1e-3,
        "wake_us": wake * 1e-3,
        "wake_error_us": error * 1e-3,
        "wake_seen": float(wake > error),
    }


@contextmanager
def threads_restored() -> Iterator[None]:
    """Whatever the number of torch's threads is set to inside, it is what it was afterwards."""
    import torch

    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _arm(inputs, threads: int) -> Callable[[int], float]:
    import torch

    a, b, c = inputs
    add, set_threads, clock = torch.add, torch.set_num_threads, time.perf_counter_ns

    def arm(n: int) -> float:
        if torch.get_num_threads() != threads:
            set_threads(threads)
        add(a, b, out=c)  # the first op after a change makes the team; it is not what an op costs
        start = clock()
        for _ in repeat(None, n):
            add(a, b, out=c)
        return (clock() - start) * 1e-9

    return arm
