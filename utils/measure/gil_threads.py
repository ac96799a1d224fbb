"""Two Python threads that add at once: what one op costs each of them, beside the same op in one thread alone.

On the CPU both need the interpreter's lock (GIL) for most of an op, so two threads mostly take turns. torch's own threads are
set to one meanwhile, so that none of them takes the second core.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import nullcontext

from utils.measure import python_arms
from utils.measure.device_clock import MeasurementError
from utils.measure.fingerprints import cores
from utils.measure.stopwatch import AGAIN, calibrate, interleave, timer_overhead_ns
from utils.measure.torch_threads import one_torch_thread
from utils.model.readings import Race

Progress = Callable[[float, str], None]
ALONE, TOGETHER = "alone", "two threads"
INFERENCE = ", inference_mode"


def gil_threads(device: str = "cpu", progress: Progress | None = None, *, blocks: int = 30, block_ms: float = 5.0) -> dict:
    """Readings of "race" are ns an op *as each thread sees it* (the time in which one thread got an op of its own done): "alone",
    "alone (again)", "two threads", and the first and last with ", inference_mode" added. Beside it "notes", and

    "numbers": "alone_us", "together_us", "ratio" (2 = the threads took turns, 1 = they did not meet), the same with "inference_"
    before, "cores" (given to this process), "gil" (1.0 where there is one).
    Raises MeasurementError with fewer than two cores: two threads then take turns whatever the lock does. About 3 s.
    """
    import sys

    import torch

    given = cores()
    if given < 2:
        raise MeasurementError("two threads on one core take turns whatever the interpreter does: this needs two cores")
    if device == "cuda" and not torch.cuda.is_available():
        raise MeasurementError("no CUDA device here, so no thread can add on one: the recordings hold a GPU's prices")
    pairs = [tuple(torch.randn(1, device=device) for _ in range(2)) for _ in range(2)]
    wait = torch.cuda.synchronize if device == "cuda" else None
    arms = {}
    for mode, guard in {"": nullcontext, INFERENCE: torch.inference_mode}.items():
        arms[ALONE + mode] = _alone(pairs[0], guard, wait)
        if not mode:
            arms[ALONE + AGAIN] = _alone(pairs[0], guard, wait)
        arms[TOGETHER + mode] = _together(pairs, guard, wait)
    with one_torch_thread():
        most = 400 if device == "cuda" else 10_000_000  # two threads share one queue
        calls = {name: calibrate(name, arm, block_ms * 1e-3, most) for name, arm in arms.items()}
        calls[ALONE + AGAIN] = calls[ALONE]
        readings = interleave(
            arms, blocks=blocks, calls=calls, stretches=1, pair=(ALONE, ALONE + AGAIN), progress=progress, at_most_s=5
        )
    race = Race(readings, (ALONE, ALONE + AGAIN), "host", device, block_ms, timer_overhead_ns())
    numbers = {"cores": float(given), "gil": float(getattr(sys, "_is_gil_enabled", lambda: True)())}
    for mode, prefix in {"": "", INFERENCE: "inference_"}.items():
        alone, together = race[ALONE + mode].ns, race[TOGETHER + mode].ns
        numbers |= {
            f"{prefix}alone_us": alone * 1e-3,
            f"{prefix}together_us": together * 1e-3,
            f"{prefix}ratio": together / alone,
        }
    return {"race": race, "numbers": numbers, "notes": [f"one element, {device}; torch's own threads set to one meanwhile"]}


def _alone(pair, guard: Callable, wait: Callable | None) -> Callable[[int], float]:
    def arm(n: int) -> float:
        with guard():
            add = python_arms.adding(*pair)
            if wait:
                wait()
            took = add(n)
        if wait:
            wait()
        return took

    return arm


def _together(pairs, guard: Callable, wait: Callable | None) -> Callable[[int], float]:
    """An arm of n ops in each of two threads at once: seconds from the common start until both are done."""

    def arm(n: int) -> float:
        ready, ends = threading.Barrier(3, timeout=60), []

        def work(pair) -> None:
            with guard():  # the mode belongs to the thread
                add = python_arms.adding(*pair)
                ready.wait()
                add(n)
                ends.append(time.perf_counter_ns())

        threads = [threading.Thread(target=work, args=(pair,)) for pair in pairs]
        for thread in threads:
            thread.start()
        if wait:
            wait()
        ready.wait()
        start = time.perf_counter_ns()
        for thread in threads:
            thread.join()
        if wait:
            wait()
        if len(ends) != len(threads):
            raise MeasurementError("one of the two threads failed")
        return (max(ends) - start) * 1e-9

    return arm
