"""The SM's clock by what the device has to do: after idling, with a small kernel now and then, launch bound, under products."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

from utils.measure.either_clock import Progress, need, within
from utils.measure.sm_clock import clock_of, sm_clock

LOOK, EVERY_NS = 21, 100_000  # 2 ms of looking, in steps of 0.1 ms
PAUSE_S = 1e-3


def clocks(device: str = "cuda", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """The clock of one SM in four states, counted by a kernel (cycles over the device's nanoseconds):

    "rows": [{"state": "after idling" | "sparse" (a kernel of 2 µs every millisecond) | "eager" (one-element adds as fast as
    Python issues them) | "products" (on all SMs), "mhz", "low", "high", "what"}], "numbers": "idle_mhz", "sparse_mhz",
    "eager_mhz", "products_mhz", "max_mhz" (by nvidia-smi, missing without it), "idle_over_max", "idle_over_products",
    "ramp_ms" (until an idle SM had 95 % of the clock it settled at). About 9 s, 6 s quick. MeasurementError without a GPU, a
    compiler or torch's run-time compiler.
    """
    import torch

    from utils.measure.stamp_kernels import Launcher

    need(device, "an SM's clock")
    seconds = 1.0 if quick else 2.0
    launcher = Launcher()
    tiny = launcher.kernel("stamp", launcher.poisoned(1, 2), 0, 2_000)
    a, b = (torch.randn(1, device=device) for _ in range(2))

    def sparse() -> None:
        tiny.once()
        time.sleep(PAUSE_S)

    def eager() -> None:
        for _ in range(100):
            c = a + b
        del c

    seen = {}
    for name, work in (("sparse", sparse), ("eager", eager)):
        if progress:
            progress(0.1, f"the clock: {name}")
        seen[name] = _during(launcher, work, seconds)
    found = sm_clock(device, within(progress, 0.4, 0.6), idle_s=seconds)
    curves = {"after idling": found["after_idle"]["mhz"][:LOOK], **seen, "products": found["under_gemm"]["mhz"]}
    rows = [row(state, mhz) for state, mhz in curves.items()]
    return {
        "device": device,
        "rows": rows,
        "numbers": numbers(rows, found["numbers"]["max_mhz"]) | {"ramp_ms": found["numbers"]["ramp_ms"]},
        "notes": found["notes"],
    }


WHAT = {
    "after idling": "nothing ran, then one block",
    "sparse": "a kernel of 2 µs on one SM every millisecond",
    "eager": "one-element adds as fast as Python issues them",
    "products": "matrix products on all SMs",
}


def row(state: str, mhz: list[float]) -> dict:
    """A state's readings (MHz) as one line; of the products the last two thirds, once the power limit has acted."""
    settled = mhz[len(mhz) // 3 :] if state == "products" else mhz
    return {"state": state, "mhz": median(settled), "low": min(settled), "high": max(settled), "what": WHAT[state]}


def numbers(rows: list[dict], max_mhz: float | None) -> dict[str, float]:
    """See `clocks`."""
    of = {row["state"]: row["mhz"] for row in rows}
    out = {
        "idle_mhz": of["after idling"],
        "sparse_mhz": of["sparse"],
        "eager_mhz": of["eager"],
        "products_mhz": of["products"],
        "idle_over_products": of["after idling"] / of["products"],
    }
    return out | ({"max_mhz": max_mhz, "idle_over_max": of["after idling"] / max_mhz} if max_mhz else {})


def _during(launcher, work: Callable[[], None], seconds: float) -> list[float]:
    """MHz right behind `seconds` of such work."""
    import torch

    stamps = launcher.poisoned(LOOK, 2)
    look = launcher.kernel("clocks", stamps, LOOK, EVERY_NS)
    look.once()  # loads it
    launcher.read(stamps)
    stamps.fill_(-1)
    torch.cuda.synchronize()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        work()
    look.once()
    return clock_of(launcher.read(stamps))["mhz"]
