"""The floor of one launch, as the host pays for it: an empty kernel from a C++ loop, beside torch's launch and the whole op.

One interleaved race, ns a call. Every arm but the waiting ones keeps its calls below what the queue holds.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from utils.measure import python_arms, seams
from utils.measure.device_clock import MeasurementError
from utils.measure.stopwatch import AGAIN, QUEUE_CALLS, calibrate, interleave, timer_overhead_ns
from utils.model.readings import Race

Progress = Callable[[float, str], None]
EMPTY, TORCH, PYTHON, ADD = "empty launch", "launch by torch", "launch from Python", "c = a + b"
WAITED, STREAM, LOOP = "launch and wait", "back to back", "empty loop"
LONG = 1000  # launches of one stretch of "back to back": its one wait at the end is then a small part


def floor(device: str = "cuda", progress: Progress | None = None, *, blocks: int = 60) -> Race:
    """What one launch costs the host (ns), by readings of one race:

    "empty launch"       the driver's launch of a kernel that does nothing, from a C++ loop
    "launch by torch"    torch's own launch of a kernel that spins for no time, from the same loop (the runtime's launch, the
                         look-up of the stream, the check for an error); missing, with a note, where torch lost that function
    "launch from Python" the empty kernel launched by torch's own callable for it
    "c = a + b"          the whole op, one element, in a Python loop
    "launch and wait"    an empty launch and a wait for the device, each time: latency
    "back to back"       1,000 empty launches and one wait for all of them: throughput
    "empty loop"         the C++ loop alone (in the first two as well)

    Raises MeasurementError, in words, without a CUDA device, a C++ compiler or torch's run-time compiler. About 10 s.
    """
    import torch

    from utils.measure.stamp_kernels import Launcher

    launcher = Launcher()
    kernel = launcher.kernel("empty")
    callable_from_python = launcher.compiled("empty")
    loop = launcher.call["call_loop"]
    a, b = (torch.randn(1, device=device) for _ in range(2))
    by_torch = seams.torch_launch()

    def quiet(arm: Callable[[int], float]) -> Callable[[int], float]:
        """The arm with an empty queue before and after, outside its clock."""

        def timed(n: int) -> float:
            torch.cuda.synchronize()
            took = arm(n)
            torch.cuda.synchronize()
            return took

        return timed

    def from_python(n: int) -> float:
        start = time.perf_counter_ns()
        for _ in range(n):
            callable_from_python(grid=(1, 1, 1), block=(1, 1, 1), args=[])
        return (time.perf_counter_ns() - start) * 1e-9

    def back_to_back(n: int) -> float:
        start = time.perf_counter_ns()
        kernel.loop(n)
        torch.cuda.synchronize()
        return (time.perf_counter_ns() - start) * 1e-9

    arms = {
        EMPTY: quiet(lambda n: kernel.loop(n) * 1e-9),
        EMPTY + AGAIN: quiet(lambda n: kernel.loop(n) * 1e-9),
        PYTHON: quiet(from_python),
        ADD: quiet(python_arms.adding(a, b)),
        WAITED: quiet(lambda n: kernel.loop(n, waiting=True) * 1e-9),
        STREAM: quiet(back_to_back),
        LOOP: lambda n: loop(None, 0, n) * 1e-9,
    }
    notes = ["the calls of a block are kept below what the queue holds, so that the host never waits for room in it"]
    if by_torch is not None:
        arms[TORCH] = quiet(lambda n: loop(by_torch, 0, n) * 1e-9)
    else:
        notes.append("this torch has no launch that can be called apart from an op: its own launch is not priced")
    calls = {n: calibrate(n, arm, 1e-3, QUEUE_CALLS) for n, arm in arms.items() if n not in (STREAM, LOOP)}
    calls |= {EMPTY + AGAIN: calls[EMPTY], STREAM: LONG, LOOP: 100_000}
    readings = interleave(
        arms, blocks=blocks, calls=calls, stretches=1, pair=(EMPTY, EMPTY + AGAIN), progress=progress, at_most_s=15
    )
    if readings[EMPTY].ns <= 0:
        raise MeasurementError("the launches seem to take no time at all: nothing was priced")
    return Race(
        readings=readings,
        control=(EMPTY, EMPTY + AGAIN),
        clock="host",
        device=device,
        block_ms=1.0,
        timer_ns=timer_overhead_ns(),
        loop_ns=readings[LOOP].ns,
        notes=tuple(notes),
    )
