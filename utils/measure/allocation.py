"""Allocation inside the timed region, on a CPU: page faults, and the history of glibc's malloc that decides about them.

One fresh process measures in this order, since what malloc has seen cannot be undone: as it starts; after a larger block was
freed (its threshold has followed); pinned (`malloc.pin`).
"""

from __future__ import annotations

import sys
import time

from utils.measure import children, malloc
from utils.measure.device_clock import MeasurementError
from utils.measure.either_clock import MIB, Progress, filled
from utils.model.readings import quantile

MEBIBYTES = (16, 64)
HISTORIES = ("fresh process", "after 30 MiB were freed", "malloc pinned")
FREED = 30 * MIB  # below the 32 MiB that glibc's threshold can grow to
GIVEN, FRESH = "result given", "fresh result"


def allocation(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """`torch.add(a, b, out=c)` beside `c = a + b`, in a process of its own:

    "rows": [{"history", "mb" (of one tensor), "arm", "ns", "faults" (pages a call), "pages" (of the result), "gbps"}], "numbers":
    "fresh_64_ratio", "pinned_64_ratio", "fresh_16_ratio", "freed_16_ratio", "pinned_16_ratio" (fresh result over result given),
    "fresh_64_faults" … (pages a call). About 4 s. Raises MeasurementError on a GPU, whose allocator keeps what is freed, and
    where malloc is not glibc's.
    """
    if device != "cpu":
        raise MeasurementError(
            "a GPU's results come from torch's own allocator, which keeps what is freed: no page is touched anew"
        )
    if not sys.platform.startswith("linux"):
        raise MeasurementError("page faults follow glibc's malloc, which this system does not have")
    return children.in_child("utils.measure.allocation", ("quick" if quick else "full",), progress or (lambda done, text: None))


def measure(progress: Progress, quick: bool) -> dict:
    """What the process of its own does (see `allocation`); call it in a fresh one."""
    import resource

    import torch

    torch.set_num_threads(1)  # a team's waits are not what is compared
    page = resource.getpagesize()
    rows, notes = [], []
    for step, history in enumerate(HISTORIES):
        if history == HISTORIES[1]:
            block = torch.empty(FREED, dtype=torch.uint8)
            block.fill_(1)
            del block
        if history == HISTORIES[2] and not malloc.pin():
            notes.append("malloc could not be pinned here")
            break
        for mb in MEBIBYTES:
            progress((step + mb / 80) / len(HISTORIES), f"{history}, {mb} MiB")
            rows += _two_arms(torch, history, mb, page, 8 if quick else 25)
    return {"device": "cpu", "rows": rows, "numbers": numbers(rows), "notes": notes}


def _two_arms(torch, history: str, mb: int, page: int, calls: int) -> list[dict]:
    a, b, c = (filled(mb * MIB // 4, "cpu") for _ in range(3))
    arms = {GIVEN: lambda: torch.add(a, b, out=c), FRESH: lambda: a + b}
    rows = []
    for name, f in arms.items():
        kept = f()
        kept = f()
        samples, before = [], malloc.page_faults()
        for _ in range(calls):
            start = time.perf_counter_ns()
            kept = f()  # the previous result dies now, as in `c = a + b` with c kept
            samples.append(float(time.perf_counter_ns() - start))
        faults = (malloc.page_faults() - before) / calls
        ns = quantile(samples, 0.25)
        rows.append(
            {
                "history": history,
                "mb": mb,
                "arm": name,
                "ns": ns,
                "faults": faults,
                "pages": mb * MIB / page,
                "gbps": 3 * mb * MIB / ns,
            }
        )
        del kept
    return rows


def numbers(rows: list[dict]) -> dict[str, float]:
    """Ratios and faults by name (see `allocation`)."""
    by = {(row["history"], row["mb"], row["arm"]): row for row in rows}
    out = {}
    for short, history in zip(("fresh", "freed", "pinned"), HISTORIES, strict=True):
        for mb in MEBIBYTES:
            if (history, mb, FRESH) in by:
                fresh, given = by[history, mb, FRESH], by[history, mb, GIVEN]
                out[f"{short}_{mb}_ratio"] = fresh["ns"] / given["ns"]
                out[f"{short}_{mb}_faults"] = fresh["faults"]
                out[f"{short}_{mb}_given_faults"] = given["faults"]
    return out


if __name__ == "__main__":
    children.serve(lambda progress: measure(progress, sys.argv[1] == "quick"))
