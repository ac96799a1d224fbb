"""The study "ridge_point": bandwidth, peaks, ridges and intensities of this machine; its PARTS, each measured by a room of its
own.

Every part gives plain data with "device", "numbers" (by name; times in ns, rates in GB/s and 1e12/s, the rest ratios) and
"notes", and raises MeasurementError, in words, where it cannot be measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from utils.measure.allocation import allocation
from utils.measure.bandwidth import bandwidth, levels
from utils.measure.cache_effects import intermediate, warm_cold
from utils.measure.census import census
from utils.measure.decode import decode
from utils.measure.either_clock import Progress, machine_name, need, within
from utils.measure.engines import engines
from utils.measure.gemm_peak import gemm
from utils.measure.knee import knee
from utils.measure.layout import layout
from utils.measure.paper_sums import activation, gemm_tax
from utils.measure.placed_ops import ops
from utils.measure.study import Part
from utils.measure.utilisation_of_flops import mfu
from utils.model import devices


def peaks(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """All ceilings of one machine, each by its own room: "machine", "bandwidth", "gemm", "engines" (their whole answers),
    "datasheet" ({"name", "gbps", "tflops"} or None), "paper" (a CPU's, see engines), "numbers": theirs, and "ridge_<roof>" for
    each roof (peak over bandwidth). About 8 s quick. MeasurementError without the device.
    """
    need(device, "peaks")
    moved = bandwidth(device, within(progress, 0.0, 0.4), quick=quick)
    products = gemm(device, within(progress, 0.4, 0.4), quick=quick)
    units = engines(device, within(progress, 0.8, 0.2), quick=quick)
    numbers = moved["numbers"] | products["numbers"] | units["numbers"]
    roofs = [name for name in numbers if name.startswith("gemm_") or name in ("vector_fp32", "integer", "issue")]
    numbers |= {f"ridge_{name}": numbers[name] * 1e3 / numbers["gbps"] for name in roofs}
    sheet = devices.find(machine_name("cuda")) if device == "cuda" else None
    return {
        "device": device,
        "machine": machine_name(device),
        "bandwidth": moved,
        "gemm": products,
        "engines": units,
        "datasheet": {"name": sheet.name, "gbps": sheet.gbps.value, "tflops": {d: f.value for d, f in sheet.tflops.items()}}
        if sheet
        else None,
        "paper": units["paper"],
        "numbers": numbers,
        "notes": [*moved["notes"], *products["notes"], *units["notes"]],
    }


def judged(part: Mapping[str, Any]) -> dict[str, Any]:
    """What `expect` takes of a part: its numbers by name, with its device."""
    return {**part["numbers"], "device": part["device"]}


_ROOMS: dict[str, tuple[Callable[..., Any], tuple[str, ...], float]] = {
    "peaks": (peaks, ("cpu", "cuda"), 3.0),
    "levels": (levels, ("cpu", "cuda"), 1.0),
    "knee": (knee, ("cpu", "cuda"), 1.0),
    "warm_cold": (warm_cold, ("cpu", "cuda"), 1.0),
    "intermediate": (intermediate, ("cpu", "cuda"), 1.0),
    "layout": (layout, ("cpu", "cuda"), 1.0),
    "allocation": (allocation, ("cpu",), 1.0),
    "ops": (ops, ("cpu", "cuda"), 2.0),
    "activation": (activation, ("cpu", "cuda"), 1.0),
    "gemm_tax": (gemm_tax, ("cpu", "cuda"), 1.0),
    "decode": (decode, ("cpu", "cuda"), 1.0),
    "census": (census, ("cpu", "cuda"), 2.0),
    "mfu": (mfu, ("cpu", "cuda"), 2.0),
}
PARTS: dict[str, Part] = {name: Part(measure, where, weight) for name, (measure, where, weight) in _ROOMS.items()}

# The same parts as a lesson measures them within a minute on two cores.
IN_LESSON: dict[str, Callable[..., Any]] = {name: partial(measure, quick=True) for name, (measure, _, _) in _ROOMS.items()}
