"""Fusing sideways: one optimiser step over many small parameters, op by op, by lists of tensors, and as one fused op.

A loop updates parameter by parameter. `foreach` calls each op once for the whole list; `fused` makes the whole update one op.
The counter-case is few large parameters, where the launches are not what a step costs.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from utils.measure.device_clock import MeasurementError
from utils.measure.either_clock import Progress, need, one_thread, within
from utils.measure.op_counts import counted
from utils.measure.stopwatch import AGAIN, calibrate, interleave, timer_overhead_ns
from utils.model.readings import Race

KINDS = {"loop": {"foreach": False, "fused": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}
SMALL = (100, 16)  # parameters, numbers of each
LARGE, LARGE_QUICK = (8, 1 << 20), (4, 1 << 19)
STEPS_FIRST = 2  # the first step makes the optimiser's state


def sideways(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """AdamW's step, three ways, on many small parameters and on few large ones; all in fp32, gradients that stay.

    "rows": [{"case": "small" | "large", "parameters", "elements" (of each), "kind", "ns", "ops" (below autograd)}], "races" by
    case; "numbers": "loop", "foreach", "fused" (ns, small), "<case>_loop_over_foreach", "<case>_loop_over_fused", "ops_loop",
    "ops_foreach", "ops_fused". From an idle device to an idle one. About 2 s quick. MeasurementError without the device.
    """
    need(device, "an optimiser's step")
    large = LARGE_QUICK if quick else LARGE
    rows, races, numbers = [], {}, {}
    with one_thread(device) as where:
        for at, (case, shape) in enumerate((("small", SMALL), ("large", large))):
            steps = {kind: _step(device, shape, kind) for kind in KINDS}
            counts = {kind: len(counted(step).computing) for kind, step in steps.items()}  # on a GPU about as many launches
            race = _race(device, steps, 0.8 if quick else 4.0, within(progress, at / 2, 0.5))
            races[case] = race
            for kind in KINDS:
                rows.append(
                    {"case": case, "parameters": shape[0], "elements": shape[1], "kind": kind, "ns": race[kind].ns}
                    | {"ops": counts[kind]}
                )
            for kind in ("foreach", "fused"):
                numbers[f"{case}_loop_over_{kind}"] = race["loop"].ns / race[kind].ns
            if case == "small":
                numbers |= {kind: race[kind].ns for kind in KINDS}
                numbers |= {f"ops_{kind}": counts[kind] for kind in KINDS}
    return {"device": device, "rows": rows, "races": races, "numbers": numbers, "notes": [where]}


def _step(device: str, shape: tuple[int, int], kind: str) -> Callable[[], object]:
    """A call that does one step of its own parameters."""
    import torch

    parameters = [torch.rand(shape[1], device=device, requires_grad=True) for _ in range(shape[0])]
    for p in parameters:
        p.grad = torch.rand_like(p)
    try:
        optimiser = torch.optim.AdamW(parameters, lr=1e-4, **KINDS[kind])
        for _ in range(STEPS_FIRST):
            optimiser.step()
    except (RuntimeError, ValueError, TypeError) as error:  # a build without the fused step for this device
        raise MeasurementError(f"AdamW as {kind} does not run here: {error}") from None
    return optimiser.step


def _race(device: str, steps: dict[str, Callable], at_most_s: float, progress: Progress | None) -> Race:
    import torch

    wait = torch.cuda.synchronize if device == "cuda" else (lambda: None)

    def arm(step: Callable) -> Callable[[int], float]:
        def timed(n: int) -> float:
            wait()
            start = time.perf_counter_ns()
            for _ in range(n):
                step()
            wait()
            return (time.perf_counter_ns() - start) * 1e-9

        return timed

    arms = {kind: arm(step) for kind, step in steps.items()}
    pair = ("loop", "loop" + AGAIN)
    calls = {kind: calibrate(kind, one, 2e-3) for kind, one in arms.items()}
    arms[pair[1]], calls[pair[1]] = arms[pair[0]], calls[pair[0]]
    found = interleave(arms, blocks=40, calls=calls, at_most_s=at_most_s, pair=pair, progress=progress)
    return Race(found, pair, "host", device, timer_ns=timer_overhead_ns())
