"""The fused tail on a GPU: the first try, taken apart, brought back rung by rung, and its peers; one race with a plain add.

An activation of 256 MiB of two-byte numbers, cold. Every arm reads and writes the same buffers, and is checked against float64
and against the mask recomputed from the seed before it is timed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from utils.kernels import cuda_door, on_gpu, peer, triton_door
from utils.kernels.data import Data
from utils.kernels.forms import ABLATIONS, BLOCK_TAIL, FIRST_TRY, Form
from utils.kernels.ladder import rungs
from utils.measure.device_clock import MeasurementError
from utils.measure.either_clock import Progress, need, within
from utils.measure.engines import engines
from utils.measure.fuse_arms import buffers as made
from utils.measure.fuse_arms import checked
from utils.measure.stopwatch import time_device

PLAIN = "torch.add"
EAGER, COMPILED = "eager", "torch.compile"
FIRST = "first try"
LANES = (4, 8, 16)  # elements a lane and row of Triton's cut
AHEAD = (2, 4, 8)  # rows loaded before the first is used
WARPS = 4


def tails(device: str = "cuda", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """The race of all variants, as plain data with the Race in it:

    "rows": [{"name", "kind": "peer" | "ablation" | "rung", "ns", "share" (of the plain add's speed)}]; "by" (Triton or CUDA
    C++), "elements", "bytes" (that a fused tail has to move), "missing" (arms that could not run, in words), "numbers": "add",
    "first_try", "finished" (ns), "share_first", "share_finished", "without_draw", "without_erf", "with_neither",
    "gelu_adds" (ns that erf-GELU adds to the tail that has neither), "issue", "vector_fp32" (1e12 a second), "gbps" (of
    the plain add), "ridge_issue", "ridge_vector_fp32". 30 s, compilers included. MeasurementError without a GPU.
    """
    need(device, "the fused tail")
    if device != "cuda":
        raise MeasurementError("the fused tail is a GPU's kernel: on a CPU there are the C++ chain and the recordings")
    import torch

    units = engines(device, within(progress, 0.0, 0.1), quick=True)["numbers"]
    (buffers,) = made(device)
    arms, kinds, missing, by = _arms(buffers, within(progress, 0.1, 0.6))
    with torch.no_grad():  # as it was compiled: with gradients torch.compile would do so once more, inside the race
        race = time_device(
            arms,
            control=PLAIN,
            cold=True,
            blocks=20 if quick else 40,
            at_most_s=8 if quick else 20,
            progress=within(progress, 0.7, 0.3),
        )
    add, nbytes = race[PLAIN].ns, FIRST_TRY.nbytes(buffers.rows, buffers.cols, buffers.dtype)
    rows = [{"name": n, "kind": kinds[n], "ns": race[n].ns, "share": add / race[n].ns} for n in arms if n != PLAIN]
    return {
        "device": device,
        "by": by,
        "elements": buffers.x.numel(),
        "bytes": nbytes,
        "race": race,
        "rows": rows,
        "missing": missing,
        "numbers": numbers_of({row["name"]: row["ns"] for row in rows}, add, nbytes, units),
        "notes": [f"kernels by {by}", *race.notes, *(f"{name} not measured: {why}" for name, why in missing.items())],
    }


def numbers_of(ns: Mapping[str, float], add: float, nbytes: int, units: Mapping[str, float]) -> dict[str, float]:
    """The "numbers" of `tails` from the times by name, the plain add's, the bytes of a tail and the units' rates."""
    finished = rungs()[-1].name
    gbps = nbytes / add
    numbers = {"add": add, "gbps": gbps}
    known = {
        "first_try": FIRST,
        "finished": finished,
        "without_draw": "without the draw",
        "without_erf": "without erf",
        "with_neither": "with neither",
        "eager": EAGER,
        "compiled": COMPILED,
    }
    numbers |= {key: ns[name] for key, name in known.items() if name in ns}
    if "first_try" in numbers:
        numbers["share_first"] = add / numbers["first_try"]
    if "finished" in numbers:
        numbers["share_finished"] = add / numbers["finished"]
    if {"without_draw", "with_neither"} <= set(numbers):
        numbers["gelu_adds"] = numbers["without_draw"] - numbers["with_neither"]
    for unit in ("issue", "vector_fp32"):
        if unit in units:
            numbers |= {unit: units[unit], f"ridge_{unit}": units[unit] * 1e3 / gbps}
    return numbers


def _arms(buffers: Data, progress: Progress | None) -> tuple[dict[str, Callable], dict[str, str], dict[str, str], str]:
    """(arms by name, the plain add first; what each is; what is missing and why; by which door), every arm tried and checked."""
    import torch

    arms: dict[str, Callable] = {PLAIN: partial(torch.add, buffers.x, buffers.residual, out=buffers.out)}
    kinds, missing, by = {}, {}, "nothing"
    wanted = [(name, "ablation", form, partial(on_gpu.fused, form, buffers)) for name, form in ABLATIONS.items()]
    wanted += [(one.name, "rung", one.form, partial(one.fused, buffers)) for one in rungs() if one.name != FIRST]
    wanted += [
        (COMPILED, "peer", BLOCK_TAIL, partial(peer.compiled, BLOCK_TAIL, buffers)),
        (EAGER, "peer", BLOCK_TAIL, partial(peer.eager, BLOCK_TAIL, buffers)),
    ]
    for at, (name, kind, form, make) in enumerate(wanted):
        try:
            call = make()
            by = getattr(call, "by", by)
            _tried(call, form, buffers, ours=kind != "peer")
            arms[name], kinds[name] = call, kind
        except Exception as error:  # a compiler fails in kinds of its own; the other arms go on
            missing[name] = str(error)[:200]
        if progress is not None:
            progress((at + 1) / len(wanted), name)
    if FIRST in missing:  # all else is said beside it
        raise MeasurementError(f"the first try did not run: {missing[FIRST]}")
    return arms, kinds, missing, by


def _tried(call: Callable, form: Form, buffers: Data, *, ours: bool = True) -> None:
    """Runs the call. MeasurementError, in words, when what it leaves in the output is wrong."""
    import torch

    with torch.no_grad():
        wrong, _ = checked(form, call, buffers, ours=ours)
    if wrong:
        raise MeasurementError(f"its output is wrong: {wrong}")


def cuts(device: str = "cuda", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """The finished tail cut in nine ways, each lane with 4, 8 or 16 elements of a row, 2, 4 or 8 rows loaded ahead; one race.

    "rows": [{"lane", "ahead", "ns", "share"}], "by", "numbers": "add", "best", "worst" (ns), "spread" (worst over best). On a GPU
    without Triton the widths that the same kernel in CUDA C++ can load at once. MeasurementError without a GPU.
    """
    need(device, "a kernel's cut")
    if device != "cuda":
        raise MeasurementError("how a kernel is cut into programs is a GPU's matter")
    import torch

    (buffers,) = made(device)
    arms: dict[str, Callable] = {PLAIN: partial(torch.add, buffers.x, buffers.residual, out=buffers.out)}
    by, places, missing = "nothing", {}, {}
    for lane in LANES:
        for ahead in AHEAD:
            name = f"{lane} a lane, {ahead} ahead"
            tuning = {
                "Triton": triton_door.Tuning(block=32 * WARPS * lane, warps=WARPS, batch=ahead),
                "CUDA C++": cuda_door.Tuning(vector=lane, threads=32 * WARPS, batch=ahead),
            }
            try:
                call = on_gpu.fused(BLOCK_TAIL, buffers, tuning=tuning)
                if call.by == "CUDA C++" and lane > 8:
                    continue  # sixteen bytes are the widest load
                _tried(call, BLOCK_TAIL, buffers)
            except Exception as error:  # a compiler fails in kinds of its own; the other arms go on
                missing[name] = str(error)[:200]
                continue
            by, arms[name], places[name] = call.by, call, (lane, ahead)
    if not places:
        raise MeasurementError(next(iter(missing.values()), "no kernel ran"))
    race = time_device(arms, control=PLAIN, cold=True, blocks=20 if quick else 40, at_most_s=6, progress=progress)
    add = race[PLAIN].ns
    rows = [{"lane": a, "ahead": b, "ns": race[n].ns, "share": add / race[n].ns} for n, (a, b) in places.items()]
    best, worst = min(row["ns"] for row in rows), max(row["ns"] for row in rows)
    notes = [f"kernels by {by}", *race.notes, *(f"{name} not measured: {why}" for name, why in missing.items())]
    numbers = {"add": add, "best": best, "worst": worst, "spread": worst / best}
    return {"device": device, "by": by, "race": race, "rows": rows, "missing": missing, "numbers": numbers, "notes": notes}
