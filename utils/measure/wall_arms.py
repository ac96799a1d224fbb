"""Arms by the wall clock, for a CPU and a GPU alike: until the device is idle again, or until the host has issued everything.

And their race, with one of them twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from utils.measure.stopwatch import AGAIN, MOST_CALLS, Arm, calibrate, interleave, timer_overhead_ns
from utils.model.readings import Race


def until_idle(f: Callable[[], object], device: str, *, each: bool = False, lead: bool = False) -> Arm:
    """The seconds of n calls, from an idle device until it is idle again.

    each: until it is idle after every call, and not after the last alone. lead: one call more, before the device is idle and the
    clock starts, so that what an arm before this one left behind is not in the first.
    """
    wait = _wait(device)

    def arm(n: int) -> float:
        if lead:
            f()
        if wait is None:  # a CPU is idle when a call returns, and a wait that does nothing would be in the price
            start = time.perf_counter_ns()
            for _ in range(n):
                f()
            return (time.perf_counter_ns() - start) * 1e-9
        wait()
        start = time.perf_counter_ns()
        for _ in range(n):
            f()
            if each:
                wait()
        wait()
        return (time.perf_counter_ns() - start) * 1e-9

    return arm


def issuing(f: Callable[[], object], device: str) -> Arm:
    """The host's seconds for n calls, each issued into an empty queue; what the device does afterwards is not in them."""
    wait = _wait(device) or (lambda: None)

    def arm(n: int) -> float:
        took = 0
        for _ in range(n):
            wait()
            start = time.perf_counter_ns()
            f()
            took += time.perf_counter_ns() - start
        wait()
        return took * 1e-9

    return arm


def wall_race(arms: Mapping[str, Arm], device: str, *, block_ms: float = 2.0, most: int = MOST_CALLS, **how) -> Race:
    """The arms by turns, the first one twice (the A/A pair): ns a call by the host's clock, at most `most` calls a block.

    `how` goes to `stopwatch.interleave`.
    """
    control = next(iter(arms))
    pair = (control, control + AGAIN)
    calls = {name: calibrate(name, arm, block_ms * 1e-3, most) for name, arm in arms.items()}
    calls[pair[1]] = calls[control]
    found = interleave({**arms, pair[1]: arms[control]}, calls=calls, pair=pair, **how)
    return Race(found, pair, "host", device, block_ms, timer_overhead_ns())


def _wait(device: str) -> Callable[[], None] | None:
    import torch

    return torch.cuda.synchronize if device == "cuda" else None
