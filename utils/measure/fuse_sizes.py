"""`a + b` alone and eight ops, small to large: op by op, by hand, and `a + b` compiled; what a call adds to a row of calls."""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Mapping
from functools import partial

from utils.kernels.data import Data
from utils.kernels.forms import ADD, STEPS
from utils.measure.device_clock import MeasurementError
from utils.measure.either_clock import Progress, need, settled, within
from utils.measure.fuse_arms import buffers, by_hand, checked, spelled, whose
from utils.measure.placed_ops import usual_dtype
from utils.measure.wall_arms import until_idle, wall_race
from utils.model.readings import Race

EIGHT = STEPS["eight ops"]
WIDEST = 4096
# Powers of two, none of which makes a square activation: torch.compile would take its two lengths for one.
EXPONENTS = {"cpu": range(9, 24, 2), "cuda": range(9, 28, 2)}
QUICK = {"cpu": (9, 13, 17, 22), "cuda": (9, 15, 19, 23, 27)}
ROW = {"cpu": 2000, "cuda": 40}  # calls in a row at most; on a GPU so many that a queue holds the launches of all
BLOCK_MS = {"cpu": 2.0, "cuda": 4.0}


def shape(elements: int) -> tuple[int, int]:
    """(rows, columns) of an activation of so many elements, a power of two: eight rows at least."""
    cols = min(WIDEST, elements // 8)
    return elements // cols, cols


def sizes(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """What one more call adds to a row of calls, host and kernels together, by size:

    "rows": [{"elements", "add_eager_us", "add_hand_us", "chain_eager_us", "chain_hand_us" (all into an output that is there),
    "add_fresh_us" (`a + b` as it is written), "add_compiled_us" (the same compiled; None where torch.compile does not work),
    "add_gain", "compiled_gain", "chain_gain" (eager over the other, of the same kind)}], "numbers": those gains
    of the first and the last size ("small_chain_gain", "large_compiled_gain" …), "launches_ratio", "bytes_ratio", "compile_s",
    "wrong". About 4 s quick, and a compilation, which torch keeps on disk. MeasurementError without a kernel of our own here.
    """
    need(device, "chains by size")
    import torch

    with settled(device) as notes, torch.no_grad():
        sets = {}
        for exponent in (QUICK if quick else EXPONENTS)[device]:
            rows, cols = shape(1 << exponent)
            sets[1 << exponent] = buffers(device, sets=1, rows=rows, cols=cols)[0]
        calls, wrong = _by_hand(sets)
        start = time.monotonic()
        try:
            calls |= _compiled(sets, wrong, within(progress, 0, 0.3))
        except MeasurementError as error:
            notes.append(str(error))
        compile_s = time.monotonic() - start
        # Every call in a row of its kind, from an idle device to an idle one; the smallest eager add twice.
        found = wall_race(
            {name: until_idle(call, device, lead=True) for name, call in calls.items()},
            device,
            block_ms=BLOCK_MS[device],
            most=ROW[device],
            blocks=10 if quick else 30,
            stretches=1,
            at_most_s=2.5 if quick else 15.0,
            progress=within(progress, 0.3, 0.7),
        )
    out = [_row(n, found) for n in sets]
    numbers = {f"{name}_{what}": row[what] for name, row in (("small", out[0]), ("large", out[-1]))
               for what in ("add_gain", "compiled_gain", "chain_gain") if row[what] is not None}  # fmt: skip
    numbers |= {
        "launches_ratio": float(EIGHT.ops),
        "bytes_ratio": EIGHT.eager_words(*shape(1 << 20)) / EIGHT.words(*shape(1 << 20)),
        "compile_s": compile_s,
        "wrong": float(len(wrong)),
        "aa_error": found.aa_error,
        "error": found.error,
    }
    notes += [usual_dtype(device), f"by hand in {whose(device)}", "torch.compile for all sizes at once (dynamic=True)"]
    return {"device": device, "by": whose(device), "rows": out, "numbers": numbers, "notes": notes + wrong}


def _by_hand(sets: Mapping[int, Data]) -> tuple[dict[str, Callable], list[str]]:
    """All calls but the compiled ones, and what is wrong with those that are ours."""
    calls, wrong = {}, []
    for n, given in sets.items():
        for what, form in (("add", ADD), ("chain", EIGHT)):
            calls[f"{what}_eager {n}"] = spelled(form, given)
            calls[f"{what}_hand {n}"] = by_hand(form, given)
            calls[f"add_fresh {n}"] = partial(operator.add, given.x, given.residual)
            if said := checked(form, calls[f"{what}_hand {n}"], given, ours=True)[0]:
                wrong.append(f"{what} by hand at {n:,}: {said}")
    return calls, wrong


def _compiled(sets: Mapping[int, Data], wrong: list[str], progress: Progress | None) -> dict[str, Callable]:
    """`a + b` compiled once for all sizes, the largest first."""
    import torch

    made = torch.compile(lambda a, b: a + b, dynamic=True)
    calls = {}
    for n, given in reversed(sets.items()):
        if progress:
            progress(0.1, f"torch.compile on {n:,} elements")
        call = partial(made, given.x, given.residual)
        try:
            said = checked(ADD, lambda call=call, given=given: given.out.copy_(call()), given, ours=True)[0]
        except Exception as error:  # no C++ compiler, no Triton, a graph that it refuses: each in its own way
            raise MeasurementError(f"torch.compile failed: {' '.join(str(error).split())[:200]}") from None
        if said:
            wrong.append(f"compiled at {n:,}: {said}")
        calls[f"add_compiled {n}"] = call
    return calls


def _row(n: int, found: Race) -> dict:
    ns = {name: found.readings[f"{name} {n}"].ns if f"{name} {n}" in found.readings else None
          for name in ("add_eager", "add_hand", "add_fresh", "add_compiled", "chain_eager", "chain_hand")}  # fmt: skip
    gains = {
        "add_gain": ns["add_eager"] / ns["add_hand"],
        "compiled_gain": None if ns["add_compiled"] is None else ns["add_fresh"] / ns["add_compiled"],
        "chain_gain": ns["chain_eager"] / ns["chain_hand"],
    }
    return {"elements": n, **{f"{name}_us": None if t is None else t * 1e-3 for name, t in ns.items()}, **gains}
