"""A slower host in front of the same device, made in two ways: a known price more for each op, and half of a core instead of one.

Both leave the device and its kernels as they are, so a step that the device sets should not move, and one that the host sets
should grow by what was added. What stands far from the host (NUMA, driver, PCIe) cannot be changed from here: see NOT_HERE.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from utils.measure import seams
from utils.measure.either_clock import Progress, need, one_thread, race, within
from utils.measure.gemm_peak import torch_dtype
from utils.measure.null_experiment import FIRST, INFERENCE, Kind, kinds, steps
from utils.measure.op_counts import counted
from utils.measure.placed_ops import usual_dtype
from utils.measure.stopwatch import interleave
from utils.measure.wall_arms import until_idle

SLOW_US = {"cpu": (0.0, 20.0, 40.0), "cuda": (0.0, 5.0, 10.0, 20.0)}
SMALL, WIDE = "small", "wide"
SHARED_MS = 40.0  # of one block with a neighbour: many turns of the scheduler's
NOT_HERE = (
    "NUMA distance, the driver and the PCIe path cannot be changed from a program, so no experiment here speaks of them: "
    "only the host's own time is slowed."
)


@contextmanager
def slowed(us: float) -> Iterator[None]:
    """Inside, the host spins for `us` µs before each op below autograd; with 0 the watcher itself is all that is added."""
    ns = us * 1e3
    clock = time.perf_counter_ns

    def each(op: str, run: Callable, args: tuple, kwargs: dict):
        until = clock() + ns
        while clock() < until:
            pass
        return run()

    with seams.watching_calls(each):
        yield


def host(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """Forward of the null experiment's small model at its smallest batch, and of a wide one, behind a slowed host:

    "slowed": [{"kind": "small" | "wide", "slow_us", "calls" (that were slowed), "step_ns", "predicted_ns" (if the host sets the
    time: the step with 0 µs, and calls × slow_us)}], "shared": [{"kind", "alone_ns", "shared_ns"}] (this thread pinned to one
    core, a process that computes on the same core or not; empty, with a note, where threads cannot be pinned), "words", "races",
    "not_here", "numbers": "slope_small", "slope_wide" (growth over calls × slow_us: 1 where the host sets the time, 0 where the
    device hides it), "slowed_small", "slowed_wide" (the step at the largest slow_us over 0), "shared_small", "shared_wide"
    (ratio). About 4 s quick. MeasurementError without the device.
    """
    need(device, "a slower host")
    dtype = torch_dtype(usual_dtype(device))
    forms = forms_of(device)
    notes = ["on one thread"] if device == "cpu" else []
    with one_thread(device):
        work = {name: steps(form.kind, (form.batch,), device, dtype)[form.batch] for name, form in forms.items()}
        calls = {}
        for name, step in work.items():
            step()
            ops = counted(step)
            calls[name] = len(ops.computing) + len(ops.views)
        delays = SLOW_US[device][:2] if quick else SLOW_US[device]
        arms = {_name(name, us): _inside(until_idle(work[name], device), us) for name in work for us in delays}
        found = race(
            "cpu", {}, arms=arms, blocks=12 if quick else 30, at_most_s=1.5 if quick else 4, progress=within(progress, 0.0, 0.5)
        )
        together, said = _shared(device, work, quick, within(progress, 0.5, 0.5))
    slow = [
        {
            "kind": name,
            "slow_us": us,
            "calls": calls[name],
            "step_ns": found[_name(name, us)].ns,
            "predicted_ns": found[_name(name, 0.0)].ns + calls[name] * us * 1e3,
        }
        for name in work
        for us in delays
    ]
    return {
        "device": device,
        "words": {name: form.words for name, form in forms.items()},
        "slowed": slow,
        "shared": together,
        "race": replace(found, device=device),
        "not_here": NOT_HERE,
        "numbers": numbers(slow, together),
        "notes": [*notes, *said, NOT_HERE],
    }


@dataclass(frozen=True)
class Form:
    """One model at one batch."""

    kind: Kind
    batch: int

    @property
    def words(self) -> str:
        return f"{self.kind.words}, batch {self.batch}"


def forms_of(device: str) -> dict[str, Form]:
    """The small model at its smallest batch, and forward of the wide one at a batch that keeps the device busy."""
    table = kinds(device)
    wide = replace(table[WIDE], backward=False)
    return {SMALL: Form(table[INFERENCE], FIRST), WIDE: Form(wide, 8)}


def numbers(slow: list[dict], together: list[dict]) -> dict[str, float]:
    """See `host`."""
    out = {}
    for kind in (SMALL, WIDE):
        of = {row["slow_us"]: row for row in slow if row["kind"] == kind}
        base, last = of[0.0], of[max(of)]
        added = last["calls"] * last["slow_us"] * 1e3
        out |= {
            f"slope_{kind}": (last["step_ns"] - base["step_ns"]) / added,
            f"slowed_{kind}": last["step_ns"] / base["step_ns"],
        }
    return out | {f"shared_{row['kind']}": row["shared_ns"] / row["alone_ns"] for row in together}


def _name(kind: str, us: float) -> str:
    return f"{kind}, {us:g} µs more an op"


def _inside(arm: Callable[[int], float], us: float) -> Callable[[int], float]:
    def inside(n: int) -> float:
        with slowed(us):
            return arm(n)

    return inside


def _shared(device: str, work: dict[str, Callable], quick: bool, progress: Progress | None) -> tuple[list[dict], list[str]]:
    """(steps alone on a core and with a neighbour on it, notes)."""
    if not hasattr(os, "sched_setaffinity"):
        return [], ["threads cannot be pinned to a core on this system, so no core was shared"]
    before = os.sched_getaffinity(0)
    core = max(before)
    try:
        os.sched_setaffinity(0, {core})
    except OSError as error:
        return [], [f"this thread could not be pinned to a core ({error}), so none was shared"]
    # It starts on the same core: a child may run where its parent may.
    neighbour = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        arms = {}
        for name, step in work.items():
            arms[f"{name}, alone"] = until_idle(step, device)
            arms[f"{name}, shared"] = _beside(until_idle(step, device), neighbour)
        neighbour.send_signal(signal.SIGSTOP)
        # In one stretch: the cheapest of short ones would be one that fell between two turns of the neighbour's.
        blocks = 10 if quick else 20
        found = interleave(arms, blocks=blocks, block_ms=SHARED_MS, stretches=1, at_most_s=2 if quick else 8, progress=progress)
    finally:
        neighbour.kill()
        neighbour.wait()
        os.sched_setaffinity(0, before)
    rows = [{"kind": name, "alone_ns": found[f"{name}, alone"].ns, "shared_ns": found[f"{name}, shared"].median} for name in work]
    return rows, []  # the median: a neighbour takes its turns unevenly, and what it takes is no noise here


def _beside(arm: Callable[[int], float], neighbour: subprocess.Popen) -> Callable[[int], float]:
    """The arm while the neighbour runs; it stands still before and after."""

    def beside(n: int) -> float:
        neighbour.send_signal(signal.SIGCONT)
        try:
            return arm(n)
        finally:
            neighbour.send_signal(signal.SIGSTOP)

    return beside
