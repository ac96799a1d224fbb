"""Fragmentation, provoked: enough bytes are free, no gap is large enough, and the allocator asks the system for more.

Blocks are taken side by side and every second one is given back. What is asked for then fits into a gap, or is twice as large and
fits into none. The counter-case gives back neighbours, whose gaps join. A planner that knows what comes gets the same requests.
"""

from __future__ import annotations

import sys

from utils.measure import children, malloc
from utils.measure.device_clock import MeasurementError
from utils.measure.either_clock import MIB, Progress, need
from utils.model import memory_plan
from utils.model.memory_plan import Buffer

BLOCKS = 64
BLOCK = {"cpu": MIB, "cuda": 32 * MIB}
SPARE = 4096  # bytes less than the gap: an aligned block needs some room around it
GAPS, LARGER, JOINED = "blocks that fit the gaps", "blocks twice as large", "the same, gaps joined"


def fragmentation(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """The three requests, each after 64 blocks of which 32 were given back:

    "rows": [{"what", "asked" (bytes), "free" (bytes in gaps before it), "grew" (bytes that the allocator took from the system
    for it)}], "numbers": "gaps_grew", "larger_grew", "joined_grew" (over what was asked), "bound", "online", "offline" (bytes:
    the most that lives, first fit in the order of time, the best offline plan, for the request that does not fit),
    "online_over", "offline_over" (over the bound), "block". A second, on a CPU in a process of its own. MeasurementError
    without the device, or on a CPU where malloc is not glibc's.
    """
    need(device, "fragmentation")
    if device == "cuda":
        return _result("cuda", [_on_cuda(what) for what in (GAPS, LARGER, JOINED)])
    if not sys.platform.startswith("linux"):
        raise MeasurementError("page faults follow glibc's malloc, which this system does not have")
    return children.in_child("utils.measure.fragmentation", (), progress or (lambda done, text: None))


def requests(what: str, block: int) -> tuple[list[int], list[int]]:
    """(which of the 64 blocks are given back, the sizes then asked for): half of the bytes, in all three."""
    second = list(range(1, BLOCKS, 2))
    halves = [n for n in range(BLOCKS) if n % 4 in (0, 1)]  # pairs of neighbours
    sizes = [block - SPARE] * (BLOCKS // 2) if what == GAPS else [2 * block - SPARE] * (BLOCKS // 4)
    return (halves if what == JOINED else second), sizes


def measure(progress: Progress) -> dict:
    """What the process of its own does; call it in a fresh one. New memory is seen by the pages that are touched first."""
    import resource

    import torch

    torch.set_num_threads(1)
    if not malloc.pin():
        raise MeasurementError("malloc could not be pinned here: large blocks are mapped one by one, and leave no gaps")
    block, page, rows = BLOCK["cpu"], resource.getpagesize(), []

    def take(size: int):
        return torch.empty(size, dtype=torch.uint8).fill_(1)

    for what in (JOINED, GAPS, LARGER):  # the one that grows comes last: what it took would serve the others
        go, sizes = requests(what, block)
        kept = {n: take(block) for n in range(BLOCKS)}
        for n in go:
            del kept[n]
        before = malloc.page_faults()
        later = [take(size) for size in sizes]
        grew = (malloc.page_faults() - before) * page
        rows.append({"what": what, "asked": sum(sizes), "free": len(go) * block, "grew": grew})
        del later, kept
        progress(len(rows) / 3, what)
    return _result("cpu", rows)


def _on_cuda(what: str) -> dict:
    """The same in one segment of the caching allocator, which splits it; new memory is what it reserves."""
    import torch

    def take(size: int):
        return torch.empty(size, dtype=torch.uint8, device="cuda")

    block = BLOCK["cuda"]
    go, sizes = requests(what, block)
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    whole = take(BLOCKS * block)
    del whole  # its segment stays with the allocator, and is split into the blocks
    kept = {n: take(block) for n in range(BLOCKS)}
    for n in go:
        del kept[n]
    before = torch.cuda.memory_reserved()
    later = [take(size) for size in sizes]
    grew = torch.cuda.memory_reserved() - before
    del later, kept
    torch.cuda.empty_cache()
    return {"what": what, "asked": sum(sizes), "free": len(go) * block, "grew": grew}


def planned(what: str, block: int) -> dict[str, int]:
    """The same requests known beforehand: the most that lives, first fit in the order of time, the best offline plan (bytes)."""
    go, sizes = requests(what, block)
    end = BLOCKS + len(go) + len(sizes)
    gone = {n: BLOCKS + at for at, n in enumerate(go)}
    buffers = [Buffer(n, block, n, gone.get(n, end)) for n in range(BLOCKS)]
    buffers += [Buffer(BLOCKS + at, size, BLOCKS + len(go) + at, end) for at, size in enumerate(sizes)]
    bound = memory_plan.peak(buffers)
    online, offline = memory_plan.first_fit(buffers).size, memory_plan.best_of(buffers).size
    return {"bound": bound, "online": online, "offline": offline}


def _result(device: str, rows: list[dict]) -> dict:
    by = {row["what"]: row for row in rows}
    known = planned(LARGER, BLOCK[device])
    numbers = {
        f"{short}_grew": by[what]["grew"] / by[what]["asked"]
        for short, what in (("gaps", GAPS), ("larger", LARGER), ("joined", JOINED))
    }
    numbers |= known | {"online_over": known["online"] / known["bound"], "offline_over": known["offline"] / known["bound"]}
    how = (
        "glibc's malloc, pinned; new memory by page faults"
        if device == "cpu"
        else "the caching allocator; new memory is what it reserved"
    )
    order = [by[what] for what in (GAPS, LARGER, JOINED)]
    return {"device": device, "rows": order, "numbers": numbers | {"block": BLOCK[device]}, "notes": [how]}


if __name__ == "__main__":
    children.serve(measure)
