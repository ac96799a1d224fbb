"""A census: every op of a training step of a real small model, by count and by time, with its counted FLOPs and bytes.

Ops are seen below autograd. On a CPU each is timed by the host's clock as it runs; on a GPU by a pair of events around it, behind
a spin that lets the host run ahead, less what an empty pair shows. What passes between two ops is in no row.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from utils.measure import seams
from utils.measure.device_clock import AHEAD, MeasurementError
from utils.measure.either_clock import Progress, need
from utils.measure.gemm_peak import torch_dtype
from utils.measure.intensity import OpWork, measured
from utils.measure.language_model import Size, training
from utils.measure.placed_ops import usual_dtype
from utils.measure.quick_roofs import quick_roofs
from utils.model.readings import quantile

MODEL = {
    "cpu": Size("small", 256, 2, 4, 2048, 4, 64),
    "cuda": Size("small", 1024, 4, 16, 16_384, 8, 512),
}
SPIN, MOST_SPIN = 40_000_000, 640_000_000  # cycles that the queue is held for a phase: 20 to 320 ms
PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "mv", "convolution")
GROUPS = ("product", "attention", "normalisation", "elementwise", "reduction", "optimizer", "copy", "lookup")


def census(
    device: str = "cpu", progress: Progress | None = None, *, quick: bool = False, roofs: dict[str, float] | None = None
) -> dict:
    """One training step, op by op:

    "model" (in words), "dtype", "parameters", "rows": [{"op", "phase", "group", "count", "ns" (all of them), "flops", "bytes",
    "intensity", "below" (of the count: below the ridge of its own engine)}], largest time first, "step_ns" (all ops), "views"
    (ops that compute nothing, not in the rows), "roofs" (given, or measured in a few seconds), "unknown": ops without a FLOP
    rule. "numbers": "ops", "kinds", "below_count" and "below_time" (shares of ops, and of their time, below their ridge),
    "product_count", "product_time", "elementwise_count", "elementwise_time" …  (shares by group). About 5 s and the roofs.
    MeasurementError in words.
    """
    need(device, "a census")
    dtype = usual_dtype(device)
    size = MODEL[device]
    roofs = dict(roofs or quick_roofs(device))
    one = training(size, device, torch_dtype(dtype))
    for _ in range(2):
        one.step()  # makes the optimiser's state, and all that a first call makes
    times = 4 if quick else 10
    seen: list[list[tuple[str, OpWork, float]]] = []
    starved: list[list[tuple[str, OpWork, float]]] = []
    gate = Gate()
    for i in range(times):
        if progress:
            progress(i / times, "a step, op by op")
        gate.held = True
        found = [(phase, work, ns) for phase, f in one.phases().items() for work, ns in _watched(device, f, gate)]
        (seen if gate.held else starved).append(found)
    notes = [] if seen else ["the queue ran dry in every step, so the host's pace is in the times"]
    seen = seen or starved
    lengths = {len(step) for step in seen}
    if len(lengths) > 1:
        raise MeasurementError(f"steps of the same code had {sorted(lengths)} ops: they cannot be lined up")
    ops = [
        (seen[0][i][0], seen[0][i][1], quantile([step[i][2] for step in seen], 0.25))
        for i in range(len(seen[0]))
        if not seen[0][i][1].view
    ]
    rows = rows_of(ops, roofs, dtype)
    return {
        "device": device,
        "model": size.words,
        "dtype": dtype,
        "parameters": one.parameters,
        "rows": rows,
        "step_ns": sum(ns for _, _, ns in ops),
        "views": sum(work.view for _, work, _ in seen[0]),
        "roofs": roofs,
        "unknown": sorted({work.op for _, work, _ in ops if not work.known}),
        "numbers": numbers(rows),
        "notes": notes,
    }


def group_of(op: str, phase: str) -> str:
    """What kind of op "aten::…" is; everything in the optimiser is the optimiser's."""
    name = op.split(".")[0]
    if phase == "optimizer":
        return "optimizer"
    if name in PRODUCTS:
        return "product"
    if "attention" in name:
        return "attention"
    if "norm" in name or "softmax" in name or "nll_loss" in name:
        return "normalisation"
    if name.startswith(("sum", "mean", "amax", "var")):
        return "reduction"
    if name.startswith("embedding"):
        return "lookup"
    if name in (
        "clone",
        "copy_",
        "_to_copy",
        "cat",
        "stack",
        "select_backward",
        "slice_backward",
        "fill_",
        "zero_",
        "ones_like",
        "zeros_like",
    ):
        return "copy"
    return "elementwise"


def below_ridge(work: OpWork, group: str, roofs: dict[str, float], dtype: str) -> bool:
    """Whether the op's intensity is below the ridge of the engine that does its arithmetic."""
    roof = (
        roofs.get(f"gemm_{dtype}") if group in ("product", "attention") else roofs.get("vector_fp32", roofs.get(f"gemm_{dtype}"))
    )
    return work.intensity * roofs["gbps"] < roof * 1e3


def rows_of(ops: list[tuple[str, OpWork, float]], roofs: dict[str, float], dtype: str) -> list[dict]:
    """Ops of one name and phase together, the largest time first."""
    table: dict[tuple[str, str], dict[str, Any]] = {}
    for phase, work, ns in ops:
        group = group_of(work.op, phase)
        row = table.setdefault(
            (phase, work.op),
            {
                "op": work.op,
                "phase": phase,
                "group": group,
                "count": 0,
                "ns": 0.0,
                "flops": 0.0,
                "bytes": 0,
                "below": 0,
                "below_ns": 0.0,
            },
        )
        below = below_ridge(work, group, roofs, dtype)
        row["count"] += 1
        row["ns"] += ns
        row["flops"] += work.flops
        row["bytes"] += work.bytes
        row["below"] += below
        row["below_ns"] += ns * below
    for row in table.values():
        row["intensity"] = row["flops"] / row["bytes"] if row["bytes"] else 0.0
    return sorted(table.values(), key=lambda row: -row["ns"])


def numbers(rows: list[dict]) -> dict[str, float]:
    """Shares by group and below the ridge (see `census`)."""
    count, ns = sum(row["count"] for row in rows), sum(row["ns"] for row in rows)
    out = {
        "ops": float(count),
        "kinds": float(len({row["op"] for row in rows})),
        "below_count": sum(row["below"] for row in rows) / count,
        "below_time": sum(row["below_ns"] for row in rows) / ns,
    }
    for group in GROUPS:
        inside = [row for row in rows if row["group"] == group]
        out[f"{group}_count"] = sum(row["count"] for row in inside) / count
        out[f"{group}_time"] = sum(row["ns"] for row in inside) / ns
    return out


# ------------------------------------------------------------------------------------------------ one phase, op by op


@dataclass
class Gate:
    """How long the queue is held for a phase (cycles), and whether that was long enough in every phase so far."""

    cycles: int = SPIN
    held: bool = True


def _watched(device: str, f: Callable[[], None], gate: Gate) -> list[tuple[OpWork, float]]:
    """(work, ns) of every op that f runs."""
    return _on_gpu(f, gate) if device == "cuda" else _on_cpu(f)


def _on_cpu(f: Callable[[], None]) -> list[tuple[OpWork, float]]:
    found: list[tuple[OpWork, float]] = []
    clock = time.perf_counter_ns

    def each(op: str, run: Callable, args: tuple, kwargs: dict):
        start = clock()
        out = run()
        took = clock() - start
        found.append((measured(op.removeprefix("aten::"), args, kwargs, out), float(took)))
        return out

    with seams.watching_calls(each):
        f()
    return found


def _on_gpu(f: Callable[[], None], gate: Gate) -> list[tuple[OpWork, float]]:
    """Events around each op, all of them in the queue before the first one starts; where they were not, the gate grows."""
    from utils.measure.cuda_queue import CudaQueue

    queue = CudaQueue("cuda")
    found: list[tuple[OpWork, Any, Any]] = []

    def each(op: str, run: Callable, args: tuple, kwargs: dict):
        before, after = queue.event(), queue.event()
        before.record()
        out = run()
        after.record()
        found.append((measured(op.removeprefix("aten::"), args, kwargs, out), before, after))
        return out

    empty = [(queue.event(), queue.event()) for _ in range(20)]
    start = queue.event()
    queue.synchronize()
    queue.spin(AHEAD)
    queue.spin(gate.cycles)
    start.record()
    for before, after in empty:
        before.record()
        after.record()
    with seams.watching_calls(each):
        f()
    if start.query():
        gate.held = False
        gate.cycles = min(MOST_SPIN, 2 * gate.cycles)
    queue.synchronize()
    nothing = sorted(before.elapsed_ms(after) for before, after in empty)[len(empty) // 2]
    return [(work, max(0.0, before.elapsed_ms(after) - nothing) * 1e6) for work, before, after in found]
