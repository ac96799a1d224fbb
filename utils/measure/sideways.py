"""Fusing sideways: one optimiser step over many small parameters, op by op, by lists of tensors, and as one fused op.

A loop updates parameter by parameter. `foreach` calls each op once for the whole list; `fused` makes the whole update one op.
The counter-case is few large parameters, where the launches are not what a step costs.
"""

from __future__ import annotations

from collections.abc import Callable

from utils.measure.device_clock import MeasurementError
from utils.measure.either_clock import Progress, need, one_thread, within
from utils.measure.op_counts import counted
from utils.measure.wall_arms import until_idle, wall_race

KINDS = {"loop": {"foreach": False, "fused": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}
SMALL = (100, 16)  # parameters, numbers of each
LARGE, LARGE_QUICK = (8, 1 << 20), (4, 1 << 19)
STEPS_FIRST = 2  # the first step makes the optimiser's state


def sideways(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """AdamW's step, three ways, on many small parameters and on few large ones; all in fp32, gradients that stay.

    "rows": [{"case": "small" | "large", "parameters", "elements" (of each), "kind", "ns", "ops" (below autograd), "gain" (the
    loop's time over it)}], "races" by case; "numbers": "loop", "foreach", "fused" (ns, small), "<case>_loop_over_foreach",
    "<case>_loop_over_fused", "ops_loop", "ops_foreach", "ops_fused". From an idle device to an idle one. About 2 s quick.
    MeasurementError without the device.
    """
    need(device, "an optimiser's step")
    large = LARGE_QUICK if quick else LARGE
    rows, races, numbers = [], {}, {}
    with one_thread(device) as where:
        for at, (case, shape) in enumerate((("small", SMALL), ("large", large))):
            steps = {kind: _step(device, shape, kind) for kind in KINDS}
            counts = {kind: len(counted(step).computing) for kind, step in steps.items()}  # on a GPU about as many launches
            arms = {kind: until_idle(step, device) for kind, step in steps.items()}
            how = {"blocks": 40, "at_most_s": 0.8 if quick else 4.0, "progress": within(progress, at / 2, 0.5)}
            race = wall_race(arms, device, **how)
            races[case] = race
            for kind in KINDS:
                rows.append(
                    {"case": case, "parameters": shape[0], "elements": shape[1], "kind": kind, "ns": race[kind].ns}
                    | {"ops": counts[kind], "gain": race["loop"].ns / race[kind].ns}
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
