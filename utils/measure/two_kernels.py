"""A shorter kernel behind the same work of the host: whether a step gets shorter with it (a pinned host, kernels that spin)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from utils.measure.device_clock import MeasurementError
from utils.measure.either_clock import Progress, need, race
from utils.model.costmodel import Op, per_step

HOST_US = 8.0
KERNELS_US = (1.5, 3.0, 6.0, 12.0, 24.0)
MANY = 500  # launches of one stretch: its one wait at the end is then a small part, and they fit into the queue


def two_kernels(device: str = "cuda", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """One step is one launch, 8 µs of the host in all (its launch, and work of its own until they are over), and one kernel:

    "rows": [{"kernel_us", "host_us", "step_ns", "queue_ns" (what the queue model says)}], "race", "launch_ns" (an empty launch),
    "label", "numbers": "half_ratio" (a kernel of 1.5 µs against one of 3), "long_ratio" (12 against 24), "step_<kernel>" (ns).
    About 3 s. MeasurementError without a GPU, a compiler or torch's run-time compiler.
    """
    import torch

    from utils.measure.stamp_kernels import Launcher

    need(device, "a kernel behind the host")
    launcher = Launcher()
    empty = launcher.kernel("empty")
    empty.loop(200)
    torch.cuda.synchronize()
    launch_ns = min(_settled(empty.loop, 200) for _ in range(5))
    pause = round(HOST_US * 1e3 - launch_ns)
    if pause <= 0:
        raise MeasurementError(f"one launch alone takes {launch_ns * 1e-3:.1f} µs here: no room for {HOST_US:g} µs of host time")
    out = launcher.poisoned(1, 2)
    kernels = {us: launcher.kernel("stamp", out, 0, round(us * 1e3)) for us in KERNELS_US}
    arms = {_name(us): _behind(kernel, pause) for us, kernel in kernels.items()}
    found = race("cpu", {}, arms=arms, blocks=15 if quick else 30, block_ms=5.0, at_most_s=6, progress=progress)
    rows = rows_of({us: found[_name(us)].ns for us in KERNELS_US})
    return {
        "device": device,
        "label": "measured",
        "rows": rows,
        "race": replace(found, device=device),
        "launch_ns": launch_ns,
        "numbers": numbers(rows),
        "notes": [],
    }


def simulated(device: str = "cpu", progress: Progress | None = None) -> dict:
    """The same steps played through by the queue model, for a machine without a GPU; "label" says so. Nothing is measured."""
    rows = rows_of({us: queue_ns(us) for us in KERNELS_US})
    notes = ["played through, not measured"]
    return {"device": device, "label": "simulated", "rows": rows, "numbers": numbers(rows), "notes": notes}


def queue_ns(kernel_us: float, host_us: float = HOST_US) -> float:
    """What one more step adds by the queue model, ns."""
    return per_step([Op(host_us, device_us=kernel_us)]) * 1e3


def rows_of(step_ns: dict[float, float]) -> list[dict]:
    return [{"kernel_us": us, "host_us": HOST_US, "step_ns": ns, "queue_ns": queue_ns(us)} for us, ns in step_ns.items()]


def numbers(rows: list[dict]) -> dict[str, float]:
    """See `two_kernels`."""
    at = {row["kernel_us"]: row["step_ns"] for row in rows}
    steps = {f"step_{us:g}".replace(".", "_"): ns for us, ns in at.items()}
    return {"half_ratio": at[1.5] / at[3.0], "long_ratio": at[12.0] / at[24.0], **steps}


def _name(us: float) -> str:
    return f"a kernel of {us:g} µs"


def _settled(loop: Callable[[int], float], n: int) -> float:
    import torch

    took = loop(n) / n
    torch.cuda.synchronize()
    return took


def _behind(kernel, pause: int) -> Callable[[int], float]:
    """An arm: seconds of n launches with the host's pause after each, until the device is done."""
    import torch

    def arm(n: int) -> float:
        torch.cuda.synchronize()
        seconds, left = 0.0, n
        while left:
            some = min(left, MANY)
            start = time.perf_counter_ns()
            kernel.loop(some, pause_ns=pause)
            torch.cuda.synchronize()
            seconds += (time.perf_counter_ns() - start) * 1e-9
            left -= some
        return seconds

    return arm
