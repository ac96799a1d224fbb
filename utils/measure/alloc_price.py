"""What one request to an allocator costs: from memory that it kept (a hit) and from the system (a miss); and how many a step
makes.

A CPU's tensors come from glibc's malloc: small blocks from what it kept, large ones mapped anew, page by page on first touch.
CUDA's come from torch's caching allocator, and cudaMalloc where the cache has nothing that fits. The CPU's prices are taken in
a process of their own, since what malloc has seen decides about them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from utils.measure import children, malloc
from utils.measure.device_clock import MeasurementError
from utils.measure.either_clock import MIB, Progress, need
from utils.model.readings import quantile

SMALL, LARGE = 64 << 10, 64 * MIB  # bytes: kept by malloc in any state; mapped anew unless malloc is pinned
AS_IT_COMES, PINNED = "malloc as it comes", "malloc pinned"
ASKED, WRITTEN = "asked for", "asked for and written"
HIT, MISS = "kept by the cache", "not in the cache"
STEPS = 5


def requests(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """Prices of a request by size and by where its memory comes from, and the first steps of the toy block:

    "rows": [{"state", "bytes", "what" (the block is asked for, or written too), "ns", "faults" (pages, CPU) | "segments"
    (asked of the driver, CUDA)}], "steps": [{"state", "step" (1, 2, …), "ms", "faults" | "segments", "requests" (None on a
    CPU: the trace of the part "liveness" counts them)}], "numbers": "hit" (ns, large, kept), "hit_small", "miss" (ns, large,
    from the system; on a CPU what it costs more than a kept one when written), "miss_over_hit", "first_faults" and
    "later_faults" (a step's; CUDA: segments), "step" (ns, a later one), on a CPU also with "pinned_" before them, "per_page"
    (ns), "asked_large" (ns, large, mapped and unmapped without a touch). About 3 s. MeasurementError without the device, or on
    a CPU where malloc is not glibc's.
    """
    need(device, "a request to the allocator")
    if device == "cuda":
        return _on_cuda(progress)
    if not sys.platform.startswith("linux"):
        raise MeasurementError("page faults follow glibc's malloc, which this system does not have")
    return children.in_child("utils.measure.alloc_price", ("quick" if quick else "full",), progress or (lambda done, text: None))


# ------------------------------------------------------------------------------------------------ a CPU's, in its own process


def measure(progress: Progress, quick: bool) -> dict:
    """What the process of its own does; call it in a fresh one."""
    import torch

    torch.set_num_threads(1)
    rows, steps, notes = [], [], ["torch on one thread, in a process of its own"]
    for at, state in enumerate((AS_IT_COMES, PINNED)):
        if state == PINNED and not malloc.pin():
            notes.append("malloc could not be pinned here")
            break
        progress(at / 2, state)
        steps += _steps(torch, state)
        for size, n in ((SMALL, 400 if quick else 2000), (LARGE, 6 if quick else 20)):
            rows += [_price(state, size, what, f, n) for what, f in _arms(torch, size).items()]
    return {"device": "cpu", "rows": rows, "steps": steps, "numbers": numbers(rows, steps), "notes": notes}


def _arms(torch, size: int) -> dict[str, Callable]:
    return {
        ASKED: lambda: torch.empty(size, dtype=torch.uint8),
        WRITTEN: lambda: torch.empty(size, dtype=torch.uint8).fill_(1),
    }


def _price(state: str, size: int, what: str, f: Callable, n: int) -> dict:
    f()
    f()
    samples, before = [], malloc.page_faults()
    for _ in range(n):
        start = time.perf_counter_ns()
        f()  # taken, and given back at once
        samples.append(float(time.perf_counter_ns() - start))
    faults = (malloc.page_faults() - before) / n
    return {"state": state, "bytes": size, "what": what, "ns": quantile(samples, 0.25), "faults": faults}


def _steps(torch, state: str) -> list[dict]:
    """The first training steps of the toy block: how long each took and how many pages it touched for the first time."""
    from utils.measure.block_memory import QUICK, Toy

    toy = Toy("cpu", QUICK["cpu"])
    out = []
    for step in range(1, STEPS + 1):
        before, start = malloc.page_faults(), time.perf_counter_ns()
        toy.training()
        took = time.perf_counter_ns() - start
        faults = malloc.page_faults() - before
        out.append({"state": state, "step": step, "ms": took * 1e-6, "faults": faults, "requests": None})
    return out


def numbers(rows: list[dict], steps: list[dict]) -> dict[str, float]:
    """The prices by name (see `requests`)."""
    by = {(row["state"], row["bytes"], row["what"]): row for row in rows}
    fresh = by[AS_IT_COMES, LARGE, WRITTEN]
    out = {
        "hit_small": by[AS_IT_COMES, SMALL, ASKED]["ns"],
        "asked_large": by[AS_IT_COMES, LARGE, ASKED]["ns"],
        "fresh_faults": fresh["faults"],
    }
    if (PINNED, LARGE, WRITTEN) in by:
        kept, hit = by[PINNED, LARGE, WRITTEN], by[PINNED, LARGE, ASKED]["ns"]
        miss = fresh["ns"] - kept["ns"]
        out |= {"hit": hit, "miss": miss, "miss_over_hit": miss / hit}
        out |= {"kept_faults": kept["faults"], "written_ratio": fresh["ns"] / kept["ns"]}
        if fresh["faults"]:
            out["per_page"] = miss / fresh["faults"]
    for name, state in (("", AS_IT_COMES), ("pinned_", PINNED)):
        ours = [step for step in steps if step["state"] == state]
        if ours:
            later = ours[1:]
            out |= {
                f"{name}first_faults": float(ours[0]["faults"]),
                f"{name}later_faults": quantile([float(step["faults"]) for step in later], 0.5),
                f"{name}step": 1e6 * quantile([step["ms"] for step in later], 0.25),
            }
    return out


# ------------------------------------------------------------------------------------------------ CUDA's


def _on_cuda(progress: Progress | None) -> dict:
    import torch

    from utils.measure.block_memory import SHAPE, Toy

    def segments() -> int:
        return torch.cuda.memory_stats()["segment.all.allocated"]

    rows = []
    for size, n in ((SMALL, 2000), (LARGE, 200)):
        for state in (HIT, MISS):
            samples, calls = [], n if state == HIT else 30
            torch.empty(size, dtype=torch.uint8, device="cuda")
            torch.cuda.synchronize()
            before = segments()
            for _ in range(calls):
                if state == MISS:
                    torch.cuda.empty_cache()
                    torch.cuda.synchronize()
                start = time.perf_counter_ns()
                torch.empty(size, dtype=torch.uint8, device="cuda")
                samples.append(float(time.perf_counter_ns() - start))
            asked = (segments() - before) / calls
            rows.append({"state": state, "bytes": size, "what": ASKED, "ns": quantile(samples, 0.25), "segments": asked})
        if progress:
            progress(0.5 if size == SMALL else 0.8, f"requests of {size >> 10:,} KiB")
    toy, steps = Toy("cuda", SHAPE["cuda"]), []
    torch.cuda.empty_cache()
    for step in range(1, STEPS + 1):
        torch.cuda.synchronize()
        before, start = torch.cuda.memory_stats(), time.perf_counter_ns()
        toy.training()
        torch.cuda.synchronize()
        took, after = time.perf_counter_ns() - start, torch.cuda.memory_stats()
        new = {
            name: after[key] - before[key]
            for name, key in (("segments", "segment.all.allocated"), ("requests", "allocation.all.allocated"))
        }
        steps.append({"state": HIT, "step": step, "ms": took * 1e-6, **new})
    by = {(row["state"], row["bytes"]): row for row in rows}
    hit, miss = by[HIT, LARGE]["ns"], by[MISS, LARGE]["ns"]
    found = {
        "hit": hit,
        "hit_small": by[HIT, SMALL]["ns"],
        "miss": miss,
        "miss_small": by[MISS, SMALL]["ns"],
        "miss_over_hit": miss / hit,
        "hit_segments": by[HIT, LARGE]["segments"],
        "miss_segments": by[MISS, LARGE]["segments"],
        "first_faults": float(steps[0]["segments"]),
        "later_faults": float(steps[-1]["segments"]),
        "requests": float(steps[-1]["requests"]),
        "step": 1e6 * quantile([step["ms"] for step in steps[1:]], 0.25),
    }
    return {
        "device": "cuda",
        "rows": rows,
        "steps": steps,
        "numbers": found,
        "notes": ["a request through torch.empty, host time; before each miss the cache was emptied, outside the clock"],
    }


if __name__ == "__main__":
    children.serve(lambda progress: measure(progress, sys.argv[1] == "quick"))
