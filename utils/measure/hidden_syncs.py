"""Hidden synchronisations, found in a timeline: training steps with one more line, and what that line made the host wait for.

Each variant runs under the profiler in a child process (`profiled`). A line that waits shows as a synchronising call of the
runtime, and on the device as a gap: the queue ran dry while the host was waiting. Beside it stands whether torch's own debug mode
(`torch.cuda.set_sync_debug_mode`) would have warned. Times under the profiler are longer than without it.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable

from utils.measure import profiled
from utils.measure.device_clock import MeasurementError
from utils.model.traces import DEVICE, RUNTIME, WAITS

Progress = Callable[[float, str], None]
BATCH, WIDTH, STEPS = 4096, 2048, 3  # kernels so long that the host, though slowed by the profiler, runs ahead
SMALL = 65_536  # numbers in the tensors that are copied to the device
# Variant → the line that is put at the end of each step, as the reader would write it.
CODE = {
    "none": "(nothing)",
    "item": "loss.item()",
    "print": "print(loss)",
    "if": "if loss > 0: …",
    "cpu": "loss.cpu()",
    "mask": "h[h > 0]",
    "nonzero": "torch.nonzero(h > 0)",
    "where": "torch.where(h > 0, h, 0)",
    "tensor": 'torch.tensor([0.1, 0.2], device="cuda")',
    "full": 'torch.full((2,), 0.1, device="cuda")',
    "to": 'x_cpu.to("cuda")',
    "to pinned": 'x_pinned.to("cuda", non_blocking=True)',
}


def hidden_syncs(device: str = "cuda", progress: Progress | None = None, *, events: Callable = profiled.events) -> dict:
    """One row for each line of CODE, all times in µs a step, under the profiler:

    "variant", "code"; "syncs": {runtime call: how many a step}, "sync_us" the host in them; "copy_us" the host in calls that
    start a copy (one to pageable memory waits for the device by itself); "held_us" both; "idle_us" the device's gap around the
    end of such a wait (None without one); "step_us" the whole step; "waits": a synchronising call was found; "warned": torch's
    debug mode warns of it (None where this torch has no such mode).
    "timelines": of "none" and "item", [start_ns, ns, name] of the host's runtime calls and of the device's work.
    Raises MeasurementError in words. About 25 s.
    """
    report = progress or (lambda done, text: None)
    found = events("steps", lambda done, text: report(0.8 * done, text))
    report(0.8, "torch's own debug mode")
    warned = _warnings()
    rows, timelines = [], {}
    for name, code in CODE.items():
        segment = profiled.inside(found, name)
        rows.append({"variant": name, "code": code, **analyse(segment, STEPS), "warned": warned.get(name)})
        if name in ("none", "item"):
            timelines[name] = timeline(segment)
    report(1.0, "measured")
    return {
        "steps": STEPS,
        "what": f"a two-layer network of width {WIDTH:,}, batch {BATCH:,}: forward, backward and an SGD step",
        "rows": rows,
        "timelines": timelines,
        "numbers": {f"{row['variant'].replace(' ', '_')}_syncs": float(sum(row["syncs"].values())) for row in rows},
    }


def analyse(segment: list[dict], steps: int) -> dict:
    """What the host waited for in one segment (`profiled.inside`) of so many steps, and what the device idled after it.

    The last synchronisation of a segment is the program's own and does not count.
    """
    mark, *events = segment
    calls = [e for e in events if e["cat"] in RUNTIME]
    waits = [e for e in calls if WAITS.search(e["name"])][:-1]
    copies = [e for e in calls if "Memcpy" in e["name"] and e not in waits]
    work = sorted(((float(e["ts"]), float(e["ts"]) + float(e["dur"])) for e in events if e["cat"] in DEVICE), key=lambda w: w[0])
    if not work:
        raise MeasurementError("the profiler ran but saw no work on the device: CUPTI could not start here")
    gaps = [gap for e in waits if (gap := _gap_at(work, float(e["ts"]) + float(e["dur"]))) is not None]
    last = max(end for _, end in work)
    sync_us, copy_us = (sum(float(e["dur"]) for e in some) / steps for some in (waits, copies))
    return {
        "syncs": {name: count / steps for name, count in sorted(Counter(e["name"] for e in waits).items())},
        "sync_us": sync_us,
        "copy_us": copy_us,
        "held_us": sync_us + copy_us,
        "idle_us": sum(gaps) / len(gaps) if gaps else None,
        "step_us": (last - float(mark["ts"])) / steps,
        "waits": bool(waits),
    }


def _gap_at(work: list[tuple[float, float]], moment: float) -> float | None:
    """How long the device did nothing around `moment`: from the last end before it to the next begin; None at the very end."""
    before = [end for _, end in work if end <= moment]
    after = [start for start, _ in work if start >= moment]
    busy = any(start < moment < end for start, end in work)
    return None if busy or not before or not after else min(after) - max(before)


def timeline(segment: list[dict]) -> dict:
    """The two lanes of a segment: [start_ns, ns, name] since its begin, whole ns, and its length."""
    mark, *events = segment
    zero = float(mark["ts"])

    def lane(kinds: tuple[str, ...]) -> list[list]:
        there = (e for e in events if e["cat"] in kinds)
        return [[round((float(e["ts"]) - zero) * 1e3), round(float(e["dur"]) * 1e3), short(e["name"])] for e in there]

    host, device = lane(("cuda_runtime",)), lane(DEVICE)
    return {"host": host, "device": device, "ns": max(start + ns for start, ns, _ in host + device)}


def short(name: str) -> str:
    """A kernel's name without return type, namespaces and template arguments: enough to tell kernels apart."""
    bare = name.removeprefix("void ").replace("(anonymous namespace)::", "").split("<")[0].split("(")[0]
    return bare.rpartition("::")[2].strip() or name


# ------------------------------------------------------------------------------------------------ the programs


def variants() -> dict[str, Callable]:
    """Each variant's steps as a callable, on the CUDA device."""
    import torch
    from torch.nn import functional as F

    torch.manual_seed(0)
    x, y = (torch.randn(BATCH, WIDTH, device="cuda") for _ in range(2))
    weights = [(torch.randn(WIDTH, WIDTH, device="cuda") / WIDTH**0.5).requires_grad_() for _ in range(2)]
    mask_source = torch.randn(SMALL, device="cuda")
    on_cpu = torch.randn(SMALL)
    pinned = torch.randn(SMALL).pin_memory()
    sink: list = []

    def step():
        h = F.relu(x @ weights[0])
        loss = F.mse_loss(h @ weights[1], y)
        loss.backward()
        with torch.no_grad():
            for w in weights:
                w -= 1e-4 * w.grad
                w.grad = None
        return loss.detach()

    def branch(loss) -> None:
        if loss > 0:
            sink.clear()

    lines: dict[str, Callable] = {
        "none": lambda loss: None,
        "item": lambda loss: loss.item(),
        "print": lambda loss: repr(loss),  # what print asks for, without the page
        "if": branch,
        "cpu": lambda loss: loss.cpu(),
        "mask": lambda loss: mask_source[mask_source > 0],
        "nonzero": lambda loss: torch.nonzero(mask_source > 0),
        "where": lambda loss: torch.where(mask_source > 0, mask_source, 0),
        "tensor": lambda loss: torch.tensor([0.1, 0.2], device="cuda"),
        "full": lambda loss: torch.full((2,), 0.1, device="cuda"),
        "to": lambda loss: on_cpu.to("cuda"),
        "to pinned": lambda loss: pinned.to("cuda", non_blocking=True),
    }

    def steps(line: Callable) -> Callable:
        def work() -> None:
            for _ in range(STEPS):
                line(step())

        return work

    return {name: steps(line) for name, line in lines.items()}


def _warnings() -> dict[str, bool]:
    """Whether torch's debug mode warns in each variant; empty where this torch has no such mode."""
    import torch

    if not hasattr(torch.cuda, "set_sync_debug_mode"):
        return {}
    before = torch.cuda.get_sync_debug_mode()
    out = {}
    for name, work in variants().items():
        work()
        torch.cuda.synchronize()
        with warnings.catch_warnings(record=True) as said:  # the mode itself says that it is a prototype: that is no finding
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                work()
            finally:
                torch.cuda.set_sync_debug_mode(before)
        out[name] = any("called a synchronizing" in str(w.message) for w in said)
    return out
