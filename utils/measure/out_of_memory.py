"""One out-of-memory case, in a process of its own with a limit: a training step that stores everything fails, says why, and
the same step with recomputing fits.

On a CPU the limit is one on address space (RLIMIT_AS); on CUDA it is `torch.cuda.set_per_process_memory_fraction`. Neither
touches any other process."""

from __future__ import annotations

import re
import sys

from utils.measure import children, malloc
from utils.measure.device_clock import MeasurementError
from utils.measure.either_clock import MIB, Progress, need

LIMIT_S = 120
BETWEEN = 0.5  # where the limit lies between the two peaks
SHAPE = {"cpu": (4096, 64), "cuda": (32_768, 1024)}  # of the stack's activation: 1 MiB of fp32, 64 MiB of two bytes
EVERY = 2
KEPT = 256 << 10  # bytes: glibc maps every larger block for itself, so that what is freed leaves the address space
UNTOUCHED = 1024 * MIB  # asked for and not written


def out_of_memory(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """What happens at the limit:

    "rows": [{"way" ("store", "recompute"), "limit" (bytes above what the process had), "peak" (bytes of tensors, counted
    without the limit), "failed" (bool), "error" (its type), "said" (the first lines of its message), "asked" (bytes that the
    message names)}], "numbers": "stored_failed", "recompute_failed", "after_failed" (1.0/0.0: a small step after the failure,
    in the same process), "asked" (bytes), "limit" (bytes), "activation" (bytes); on a CPU "untouched" (bytes asked for and not
    written) and "resident" (bytes of them that the process really got), "written" and "resident_written". About 3 s, in a
    process of its own. MeasurementError without the device, or where no limit can be set.
    """
    need(device, "running out of memory")
    if device == "cpu" and not sys.platform.startswith("linux"):
        raise MeasurementError("a limit on address space is set by Linux's RLIMIT_AS, which this system does not have")
    return children.in_child(
        "utils.measure.out_of_memory",
        (device,),
        progress or (lambda done, text: None),
        LIMIT_S if device == "cpu" else 4 * LIMIT_S,
    )


def measure(device: str, progress: Progress) -> dict:
    """What the process of its own does: never call it in a process that is to go on."""
    import torch

    from utils.measure import recompute
    from utils.measure.live_storages import storages

    torch.set_num_threads(1)
    if device == "cpu" and not malloc.give_back(above=KEPT):
        raise MeasurementError("glibc did not take the setting that makes a limit on address space one on memory")
    recompute.SHAPE = SHAPE
    stack = recompute.Stack(device)
    steps = {"store": stack.step(0), "recompute": stack.step(EVERY)}
    small = recompute.Stack.__new__(recompute.Stack)  # the same on a hundredth of the rows: what still fits afterwards
    small.__dict__ = {**stack.__dict__, "x": stack.x.detach()[: max(1, stack.x.shape[0] // 128)].clone().requires_grad_()}
    tiny = small.step(0)
    progress(0.1, "the peaks, without a limit")
    tiny()
    peaks = {}
    for name in ("recompute", "store"):
        with storages() as seen:
            steps[name]()
        peaks[name] = seen.peak
    limit = int(peaks["recompute"] + BETWEEN * (peaks["store"] - peaks["recompute"]))
    numbers = _untouched() if device == "cpu" else {}
    progress(0.5, "with a limit between the two peaks")
    limited = _limit_cpu if device == "cpu" else _limit_cuda
    lift = limited(limit)
    try:
        rows = [_tried(name, steps[name], limit, peaks[name], device) for name in ("store", "recompute")]
        after = _tried("small", tiny, limit, 0, device)
    finally:
        lift()
    stored, again = rows
    numbers |= {
        "stored_failed": float(stored["failed"]),
        "recompute_failed": float(again["failed"]),
        "after_failed": float(after["failed"]),
        "asked": stored["asked"],
        "limit": limit,
        "activation": stack.activation,
    }
    what = "RLIMIT_AS" if device == "cpu" else "set_per_process_memory_fraction"
    return {"device": device, "rows": rows, "numbers": numbers, "notes": [f"limit set by {what}, in a process of its own"]}


def _tried(way: str, f, limit: int, peak: int, device: str) -> dict:
    """One step under the limit: what it said if it failed. Nothing of it is left behind."""
    import torch

    error = None
    try:
        f()
        if device == "cuda":
            torch.cuda.synchronize()
    except (RuntimeError, MemoryError) as raised:  # torch.OutOfMemoryError is a RuntimeError
        error = (type(raised).__name__, " ".join(str(raised).split()))  # the exception itself holds frames, and they hold tensors
    if device == "cuda":
        torch.cuda.empty_cache()
    kind, said = error or ("", "")
    return {
        "way": way,
        "limit": limit,
        "peak": peak,
        "failed": error is not None,
        "error": kind,
        "said": _shortened(said),
        "asked": _asked(said),
    }


def _shortened(said: str) -> str:
    """The message without a place in source and without advice on the allocator's settings."""
    said = re.sub(r"\[enforce fail at [^\]]*\]\s*\.?\s*", "", said)
    said = re.sub(r"\s*See documentation for Memory Management.*", "", said)
    return re.sub(r"(Exception raised from|C\+\+ CapturedTraceback|frame #0).*", "", said).strip()[:600]


UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": MIB, "GiB": 1 << 30}


def _asked(said: str) -> int:
    """The bytes that the message says were asked for; 0 where it says none."""
    found = re.search(r"tried to allocate (\d+(?:\.\d+)?) (bytes|KiB|MiB|GiB)", said, re.IGNORECASE)
    return round(float(found[1]) * UNITS[found[2]]) if found else 0


# ------------------------------------------------------------------------------------------------ the limits


def _limit_cpu(limit: int):
    """No more address space than there is now and `limit` bytes."""
    import resource

    was = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_statm()[0] + limit, was[1]))
    return lambda: resource.setrlimit(resource.RLIMIT_AS, was)


def _limit_cuda(limit: int):
    """No more device memory for this process than it has now and `limit` bytes."""
    import torch

    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, (torch.cuda.memory_reserved() + limit) / total))
    return lambda: torch.cuda.set_per_process_memory_fraction(1.0)


def _statm() -> tuple[int, int]:
    """(bytes of address space, bytes resident) of this process."""
    import resource

    with open("/proc/self/statm", encoding="ascii") as file:
        size, resident = file.read().split()[:2]
    page = resource.getpagesize()
    return int(size) * page, int(resident) * page


def _untouched() -> dict[str, int]:
    """What asking for memory gives, and what writing to it does: bytes of this process that are resident."""
    import torch

    before = _statm()[1]
    block = torch.empty(UNTOUCHED, dtype=torch.uint8)
    asked = _statm()[1]
    block[: UNTOUCHED // 8].fill_(1)
    written = _statm()[1]
    del block
    return {
        "untouched": UNTOUCHED,
        "resident": asked - before,
        "written": UNTOUCHED // 8,
        "resident_written": written - asked,
    }


if __name__ == "__main__":
    children.serve(lambda progress: measure(sys.argv[1], progress))
