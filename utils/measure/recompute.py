"""Recompute against store: a stack of the toy block's layers whose backward finds what it needs, or makes it again.

`torch.utils.checkpoint` around every k layers keeps their inputs alone. The peak is traced, the time raced, the gradients
compared: dropout draws again what it drew, because the generator's state is kept too; without that the gradients are others.
"""

from __future__ import annotations

from collections.abc import Callable

from utils.measure.alloc_trace import trace
from utils.measure.either_clock import Progress, filled, need, settled, within
from utils.measure.gemm_peak import torch_dtype
from utils.measure.op_counts import counted
from utils.measure.placed_ops import usual_dtype
from utils.measure.toy_block import DROPPED
from utils.measure.wall_arms import until_idle
from utils.model.readings import Race

LAYERS = 12
EVERY = (0, 1, 2, 3, 4, 6, 12)  # 0: everything is stored; k: the inputs of every k layers are
QUICK_EVERY = (0, 1, 2, 12)
SHAPE = {"cpu": (512, 64), "cuda": (32_768, 1024)}  # weights far smaller than activations, and so are their gradients
STORE = "store"


def name_of(every: int) -> str:
    return f"every {every}" if every else STORE


class Stack:
    """LAYERS times the block, one after the other, each with a weight and a bias of its own."""

    def __init__(self, device: str):
        import torch

        rows, side = SHAPE[device]
        kind = torch_dtype(usual_dtype(device))
        self.device = device
        self.x = filled(rows * side, device, kind).view(rows, side).requires_grad_()
        self.weights = [((torch.randn(side, side, device=device) / side**0.5).to(kind)).requires_grad_() for _ in range(LAYERS)]
        self.biases = [torch.randn(side, device=device).to(kind).requires_grad_() for _ in range(LAYERS)]
        self.activation = self.x.nbytes

    def layers(self, x, first: int, last: int):
        import torch.nn.functional as F

        for w, b in zip(self.weights[first:last], self.biases[first:last], strict=True):
            x = x + F.dropout(F.gelu(x @ w + b), DROPPED, training=True)
        return x

    def step(self, every: int, keep_draws: bool = True) -> Callable:
        """A training step that gives the gradients of all weights."""
        import torch
        from torch.utils.checkpoint import checkpoint

        def run():
            x = self.x
            for first in range(0, LAYERS, every or LAYERS):
                last = first + (every or LAYERS)
                if every:
                    x = checkpoint(self.layers, x, first, last, use_reentrant=False, preserve_rng_state=keep_draws)
                else:
                    x = self.layers(x, first, last)
            return torch.autograd.grad(x.sum(), self.weights)

        return run


def recompute(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """The step by how much of it is stored:

    "rows": [{"every" (0: all is stored), "peak" (bytes beyond what was there), "kept" (bytes that live between forward and
    backward), "ns", "ops" (that compute), "over" (its time over storing's)}], "race"; "layers", "activation" (bytes); "numbers":
    "least_peak" (smallest over storing's), "least_every", "least_time" (that one's time over storing's), "every_1_time",
    "ops_ratio" (ops of checkpointing every layer over storing's), "same" (1.0: gradients are those of storing, bit by bit),
    "same_without" (1.0 where they are also without the generator's state: 0.0 is expected), "saved" and "working" (activations:
    what a layer keeps, and what its backward takes on top). About 5 s. MeasurementError without the device.
    """
    need(device, "recomputing")
    import torch

    with settled(device) as notes:
        stack = Stack(device)
        choices = QUICK_EVERY if quick else EVERY
        steps = {every: stack.step(every) for every in choices}

        def drawn(f: Callable):
            torch.manual_seed(5)
            return f()

        want = drawn(steps[0])
        same = all(torch.equal(a, b) for a, b in zip(want, drawn(steps[2]), strict=True))
        careless = all(torch.equal(a, b) for a, b in zip(want, drawn(stack.step(2, keep_draws=False)), strict=True))
        del want
        traced, kept, ops = {}, {}, {}
        for at, every in enumerate(choices):
            if progress:
                progress(0.5 * at / len(choices), f"traced: {name_of(every)}")
            found = trace(steps[every], device)
            traced[every], kept[every] = found.peak, _between(stack, every)
            ops[every] = len(counted(steps[every]).computing)
        found = _race(stack, steps, quick, within(progress, 0.5, 0.5))
    store = found[name_of(0)].ns
    rows = [
        {"every": every, "peak": traced[every], "kept": kept[every], "ns": found[name_of(every)].ns, "ops": ops[every]}
        | {"over": found[name_of(every)].ns / store}
        for every in choices
    ]
    least = min(rows, key=lambda row: row["peak"])
    numbers = {
        "least_peak": least["peak"] / traced[0],
        "least_every": float(least["every"]),
        "least_time": least["over"],
        "every_1_time": found[name_of(1)].ns / store,
        "every_1_peak": traced[1] / traced[0],
        "ops_ratio": ops[1] / ops[0],
        "same": float(same),
        "same_without": float(careless),
        "saved": kept[0] / LAYERS / stack.activation,
        "working": (traced[0] - kept[0]) / stack.activation,
    }
    notes = [*notes, f"{LAYERS} layers, {usual_dtype(device)}, activation of {stack.activation >> 10:,} KiB"]
    return {
        "device": device,
        "rows": rows,
        "race": found,
        "layers": LAYERS,
        "activation": stack.activation,
        "numbers": numbers,
        "notes": notes,
    }


def _between(stack: Stack, every: int) -> int:
    """Bytes that live when forward has returned, with what backward will need: the trace of forward alone, its result held."""
    from torch.utils.checkpoint import checkpoint

    def forward():
        x = stack.x
        for first in range(0, LAYERS, every or LAYERS):
            last = first + (every or LAYERS)
            x = checkpoint(stack.layers, x, first, last, use_reentrant=False) if every else stack.layers(x, first, last)
        return x

    return trace(forward, stack.device).kept


def _race(stack: Stack, steps: dict[int, Callable], quick: bool, progress: Progress | None) -> Race:
    """ns of a step by name, until the device is idle; storing twice, for the A/A error."""
    from utils.measure.stopwatch import AGAIN, interleave, timer_overhead_ns

    arms = {name_of(every): until_idle(f, stack.device) for every, f in steps.items()}
    arms[STORE + AGAIN] = arms[STORE]
    pair = (STORE, STORE + AGAIN)
    readings = interleave(
        arms,
        blocks=6 if quick else 15,
        calls=dict.fromkeys(arms, 1),
        stretches=1,
        pair=pair,
        at_most_s=3 if quick else 15,
        progress=progress,
    )
    return Race(readings, pair, "host", stack.device, 0.0, timer_overhead_ns())
