"""What this machine charges: host, launch, kernel, gap, wait, bandwidth by size; and how the host's price drifts.

`calibration` is the list that the sliders are seeded with. Where a price cannot be measured here it is left out of "numbers"
and a note says why; `prices` then takes none (0) or the usual one (a queue of 1,024 places).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from utils.measure.device_clock import MeasurementError
from utils.measure.either_clock import Progress, filled, free_bytes, need, one_thread, race, settled, within
from utils.measure.programs import in_program_curve
from utils.measure.stopwatch import time_host
from utils.model.costmodel import Prices
from utils.model.readings import quantile

AFTER = 20  # other ops before the add that is priced in a program
USUAL_DEPTH = 1024
SIZES = {"cpu": (10, 14, 17, 20, 22, 24), "cuda": (10, 16, 18, 20, 22, 24, 25, 26, 27)}
QUICK = {"cpu": (10, 16, 20, 22), "cuda": (10, 20, 22, 24, 26)}
A_WAIT = 20  # adds that are each waited for, in a stretch


def kinds(device: str) -> dict[str, Callable]:
    """Elementwise ops of one element, by their kind."""
    import torch

    x, y = (torch.rand(1, device=device) for _ in range(2))
    f = torch.nn.functional
    return {
        "add": lambda: x + y,
        "mul": lambda: x * y,
        "scale": lambda: x * 0.99,
        "relu": lambda: torch.relu(x),
        "exp": lambda: torch.exp(x),
        "gelu": lambda: f.gelu(x),
    }


def calibration(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """The price list of this machine:

    "kinds": [{"kind", "host_us", "grad_us" (with a tape; add alone)}], "bandwidth": [{"elements", "bytes", "us", "gbps"}] (fp32
    adds into a given result), "race" (ns, host, one element), "numbers": "hot" (ns, an add that repeats itself), "in_program"
    (ns, after 20 other ops), "grad" (ns, hot, with a tape), "dispatch" and "launch" (ns, together "hot"), "start" (ns, a kernel
    that moves nothing), "gap" (ns, between two kernels of a full queue), "sync" (ns, a wait beyond the waiting), "depth"
    (places in the queue), "gbps" (of the largest add). About 3 s quick, on a GPU without a compiler less (and without launch,
    gap, depth). MeasurementError without the device.
    """
    need(device, "the price list")
    numbers: dict[str, float] = {}
    with settled(device) as notes:
        table = kinds(device)
        import torch

        x, y = (torch.rand(1, device=device).requires_grad_() for _ in range(2))
        host = time_host(
            {**table, "add, grad": lambda: x + y},
            device=device,
            blocks=25 if quick else 60,
            at_most_s=1.5 if quick else 4,
            progress=within(progress, 0.0, 0.3),
        )
        after = in_program_curve(device, after=(AFTER,), blocks=15 if quick else 30, progress=within(progress, 0.3, 0.2))
        numbers |= {"hot": host["add"].ns, "grad": host["add, grad"].ns, "in_program": after[-1][1].ns}
        bandwidth = _by_size(device, quick, within(progress, 0.5, 0.3))
        numbers["gbps"] = bandwidth[-1]["gbps"]
        if device == "cuda":
            numbers |= _of_the_queue(numbers["hot"], bandwidth, notes, within(progress, 0.8, 0.2))
        else:
            numbers |= {"dispatch": numbers["hot"], "launch": 0.0, "start": 0.0, "gap": 0.0, "sync": 0.0}
            notes.append("a CPU's host runs its kernels itself: no launch, no queue, no wait")
    return {
        "device": device,
        "kinds": [
            {"kind": name, "host_us": host[name].ns * 1e-3} | ({"grad_us": host["add, grad"].ns * 1e-3} if name == "add" else {})
            for name in table
        ],
        "bandwidth": bandwidth,
        "race": host,
        "numbers": numbers,
        "notes": notes,
    }


def _by_size(device: str, quick: bool, progress: Progress | None) -> list[dict]:
    import torch

    exponents = [e for e in (QUICK if quick else SIZES)[device] if 3 * 4 * 2**e < free_bytes(device) // 4]
    a, b, c = (filled(1 << exponents[-1], device) for _ in range(3))
    calls = {}
    for exponent in exponents:
        n = 1 << exponent
        three = a[:n], b[:n], c[:n]
        calls[str(n)] = lambda three=three: torch.add(three[0], three[1], out=three[2])
    found = race(device, calls, blocks=12, at_most_s=1.5 if quick else 4, progress=progress)
    rows = []
    for exponent in exponents:
        n, ns = 1 << exponent, found[str(1 << exponent)].ns
        rows.append({"elements": n, "bytes": 12 * n, "us": ns * 1e-3, "gbps": 12 * n / ns})
    return rows


def _of_the_queue(hot: float, bandwidth: list[dict], notes: list[str], progress: Progress | None) -> dict[str, float]:
    """What stands between host and kernels on a GPU, ns; by rooms of lesson 04, where their parts can be built."""
    import torch

    least = bandwidth[0]["us"] * 1e3  # back to back: the kernel, and the step to the next one
    out = {"dispatch": hot, "launch": 0.0, "start": least, "gap": 0.0}
    try:
        from utils.measure.launch_floor import TORCH, floor
        from utils.measure.queue_lanes import lanes

        launch = floor("cuda", within(progress, 0.0, 0.5), blocks=20)
        if TORCH in launch.readings:
            out["launch"] = min(hot, launch[TORCH].ns)
            out["dispatch"] = hot - out["launch"]
        slow = lanes("cuda", within(progress, 0.5, 0.4))["slow"]["numbers"]
        out["gap"] = min(least, slow["gap_us"] * 1e3)
        out["start"] = least - out["gap"]
        out["depth"] = float(slow["depth_max"])
    except MeasurementError as error:
        notes.append(f"launch, gap and depth are not measured here: {error}")
    x, y = (torch.rand(1, device="cuda") for _ in range(2))

    def waited() -> None:
        for _ in range(A_WAIT):
            x + y
            torch.cuda.synchronize()

    each = time_host({"waited for": waited}, device="cuda", blocks=20, at_most_s=1)["waited for"].ns / A_WAIT
    out["sync"] = max(0.0, each - hot - out["start"])
    return out


def prices(part: Mapping[str, Any]) -> Prices:
    """A calibration as prices of the cost model (µs, GB/s), an add's; live or from a recording."""
    n = part["numbers"]
    return Prices(
        dispatch_us=n["dispatch"] * 1e-3,
        launch_us=n["launch"] * 1e-3,
        gbps=n["gbps"],
        start_us=n["start"] * 1e-3,
        gap_us=n["gap"] * 1e-3,
        depth=int(n.get("depth", USUAL_DEPTH)),
        sync_us=n["sync"] * 1e-3,
    )


# ------------------------------------------------------------------------------------------------ through time


def drift(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False, seconds: float | None = None) -> dict:
    """The host's price of the same add, again and again for 15 s (quick: 3 s):

    "points": [{"s", "ns"}] (each the lower quartile of the stretches of a fifth of a second), "numbers": "low" and "high" (ns,
    5th and 95th percentile of the points), "ratio", "seconds", "twins" (ratio of the same percentiles between the even and the
    odd stretches of the same moment, which meet the same weather: what is left is chance). MeasurementError without the device.
    """
    need(device, "the drift of the host's price")
    import torch

    seconds = seconds or (3.0 if quick else 15.0)
    x, y = (torch.rand(1, device=device) for _ in range(2))
    wait = torch.cuda.synchronize if device == "cuda" else (lambda: None)
    points, odd = [], []
    with one_thread(device):
        began = time.perf_counter()
        while (now := time.perf_counter() - began) < seconds:
            stretches = []
            until = time.perf_counter() + 0.2
            while time.perf_counter() < until:
                wait()
                start = time.perf_counter_ns()
                for _ in range(100):
                    x + y
                stretches.append((time.perf_counter_ns() - start) / 100)
            points.append({"s": now, "ns": quantile(stretches, 0.25)})
            odd.append(quantile(stretches[::2], 0.25) / quantile(stretches[1::2] or stretches, 0.25))
            if progress:
                progress(min(1.0, now / seconds), "the same add, again and again")
    prices_ns = [p["ns"] for p in points]
    low, high = quantile(prices_ns, 0.05), quantile(prices_ns, 0.95)
    return {
        "device": device,
        "points": points,
        "numbers": {
            "low": low,
            "high": high,
            "ratio": high / low,
            "seconds": seconds,
            "twins": quantile(odd, 0.95) / quantile(odd, 0.05),
        },
        "notes": [],
    }
