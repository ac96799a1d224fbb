"""One small model served at growing batches, the same on every device, with its work counted: what throughput per cost needs."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

from utils.measure import intensity
from utils.measure.either_clock import Progress, need, race
from utils.measure.gemm_peak import torch_dtype
from utils.measure.language_model import Size, model, tokens
from utils.measure.null_experiment import Kind, steps
from utils.measure.op_counts import counted
from utils.measure.placed_ops import usual_dtype
from utils.measure.torch_threads import one_torch_thread
from utils.measure.wall_arms import until_idle

SIZE = Size("served", 256, 4, 4, 1024, 1, 32)
QUICK, BATCHES = (1, 2, 4, 8, 16), {"cpu": (1, 2, 4, 8, 16, 32, 64), "cuda": tuple(1 << k for k in range(13))}
COUNTED = (16, 32)  # batches whose work is counted: both grow by the sample from there on


def work(batch: int, dtype: str) -> intensity.Work:
    """FLOPs, bytes and ops of one step at this batch, counted from shapes alone (on meta tensors: nothing is computed)."""
    import torch

    size = replace(SIZE, batch=batch)
    module, given = model(size, "meta", torch_dtype(dtype)), tokens(size, "meta")
    with torch.no_grad():
        return intensity.count(module, given)


def cost(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """Forward of one small model (4 layers of 256, 32 tokens a sample) at growing batches, wall time until the device is done:

    "words", "dtype" (the usual one of the device), "rows": [{"batch", "step_ns", "per_s" (samples a second)}], "ops" (that
    compute), "work": [{"batch", "flops", "bytes"}] at two batches (both are straight lines), "race", "numbers": "gain" (per_s at
    the largest batch over that at the first), "first_ns", "first_per_s", "best_per_s", "best_batch". A CPU uses all of torch's
    threads, as a server would; quick it uses one, whose times hold where others use the cores too ("threads" says it). About 4 s
    quick. MeasurementError without the device.
    """
    need(device, "a served model")
    with one_torch_thread() if quick and device == "cpu" else nullcontext():
        return _cost(device, progress, quick)


def _cost(device: str, progress: Progress | None, quick: bool) -> dict:
    import torch

    dtype = usual_dtype(device)
    kind = Kind(SIZE, QUICK, BATCHES[device], False)
    batches = kind.quick if quick and device == "cpu" else kind.batches
    run = steps(kind, batches, device, torch_dtype(dtype))
    ops = len(counted(run[batches[-1]]).computing)
    arms = {f"batch {batch}": until_idle(step, device) for batch, step in run.items()}
    found = race("cpu", {}, arms=arms, blocks=10 if quick else 30, at_most_s=2 if quick else 8, progress=progress)
    rows = rows_of({batch: found[f"batch {batch}"].ns for batch in batches})
    counted_work = {batch: work(batch, dtype) for batch in COUNTED}
    return {
        "device": device,
        "words": kind.words,
        "dtype": dtype,
        "rows": rows,
        "ops": ops,
        "work": [{"batch": batch, "flops": w.flops, "bytes": w.bytes} for batch, w in counted_work.items()],
        "race": replace(found, device=device),
        "numbers": numbers(rows) | {"aa_error": found.aa_error},
        "threads": torch.get_num_threads() if device == "cpu" else None,
        "notes": [f"torch threads: {torch.get_num_threads()}"] if device == "cpu" else [],
    }


def rows_of(step_ns: dict[int, float]) -> list[dict]:
    return [{"batch": batch, "step_ns": ns, "per_s": batch / ns * 1e9} for batch, ns in step_ns.items()]


def numbers(rows: list[dict]) -> dict[str, float]:
    """See `cost`."""
    first, last, best = rows[0], rows[-1], max(rows, key=lambda row: row["per_s"])
    return {
        "gain": last["per_s"] / first["per_s"],
        "first_ns": first["step_ns"],
        "first_per_s": first["per_s"],
        "best_per_s": best["per_s"],
        "best_batch": float(best["batch"]),
    }
