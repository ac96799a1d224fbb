"""Rooflines: peaks, ridges, and where a piece of work sits under them. Pure arithmetic: nothing here measures or needs torch.

A machine has one bandwidth and several roofs, one for each engine that can be the limit; each has a ridge of its own. Peaks are
in 1e12 a second, bandwidth in GB/s (1e9 byte/s), intensity in FLOP (or instructions) per byte, times in seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from utils.model.devices import Device

FLOP, INSTRUCTION, OPERATION = "FLOP", "instruction", "integer operation"
UNITS = {"issue": INSTRUCTION, "integer": OPERATION}
NAMES = {
    "gemm_fp32": "products, fp32",
    "gemm_tf32": "products, tf32",
    "gemm_fp16": "products, fp16",
    "gemm_bf16": "products, bf16",
    "vector_fp32": "vector units, fp32",
    "integer": "integer units, 32 bit",
    "issue": "instruction issue",
}
ROOFS = tuple(NAMES)


@dataclass(frozen=True)
class Roof:
    """One ceiling: `peak` in 1e12 of `unit` a second."""

    name: str
    peak: float
    unit: str = FLOP
    source: str = "measured"

    @property
    def title(self) -> str:
        """For a reader: "products, bf16"."""
        return NAMES.get(self.name, self.name)


@dataclass(frozen=True)
class Floor:
    """The least time of some work, and which of the two limits it is ("memory" or "arithmetic")."""

    memory_s: float
    arithmetic_s: float

    @property
    def seconds(self) -> float:
        return max(self.memory_s, self.arithmetic_s)

    @property
    def bound(self) -> str:
        return "memory" if self.memory_s >= self.arithmetic_s else "arithmetic"


@dataclass(frozen=True)
class Roofline:
    """One bandwidth (GB/s) and the roofs over it; `label` must stand beside every number of it."""

    label: str
    gbps: float
    roofs: dict[str, Roof]
    source: str = "measured"

    def ridge(self, roof: str) -> float:
        """Work per byte at which memory and this roof take equally long. KeyError for a roof that is not there."""
        return self.roofs[roof].peak * 1e3 / self.gbps

    def ridges(self) -> dict[str, float]:
        """Every roof's ridge, lowest first."""
        return dict(sorted(((name, self.ridge(name)) for name in self.roofs), key=lambda pair: pair[1]))

    def attainable(self, roof: str, intensity: float) -> float:
        """min(peak, intensity × bandwidth), in 1e12 a second."""
        return min(self.roofs[roof].peak, intensity * self.gbps * 1e-3)

    def floor(self, roof: str, work: float, nbytes: float) -> Floor:
        """What `work` operations and so many bytes take at least."""
        return Floor(nbytes / (self.gbps * 1e9), work / (self.roofs[roof].peak * 1e12))

    def knees(self, lo: float, hi: float, roof: str) -> list[tuple[float, float]]:
        """The corners of the line to draw from intensity lo to hi: two or three (intensity, 1e12 a second)."""
        ridge = self.ridge(roof)
        places = [lo, *([ridge] if lo < ridge < hi else []), hi]
        return [(x, self.attainable(roof, x)) for x in places]


def from_peaks(part: Mapping[str, Any], label: str, source: str = "measured") -> Roofline:
    """The roofline of the part "peaks" of the study (or of anything with its "numbers"). KeyError without a bandwidth."""
    numbers = part["numbers"]
    roofs = {name: Roof(name, numbers[name], UNITS.get(name, FLOP), source) for name in ROOFS if name in numbers}
    return Roofline(label, numbers["gbps"], roofs, source)


def from_datasheet(device: Device) -> Roofline:
    """The roofline that a datasheet promises: its bandwidth, its products per dtype, and its vector rate (fp32)."""
    roofs = {}
    for dtype, figure in device.tflops.items():
        roofs[f"gemm_{dtype}"] = Roof(f"gemm_{dtype}", figure.value, FLOP, "datasheet")
    if "fp32" in device.tflops:
        roofs["vector_fp32"] = Roof("vector_fp32", device.tflops["fp32"].value, FLOP, "datasheet")
    return Roofline(f"datasheet · {device.name}", device.gbps.value, roofs, "datasheet")


def beside(measured: Roofline, device: Device | None) -> list[dict]:
    """Each ceiling as measured and as the datasheet has it: rows "roof" (title), "unit", "measured", "datasheet", "share".

    "datasheet" and "share" are None where no sheet gives the figure; bandwidth comes first.
    """
    sheet = from_datasheet(device) if device else None
    rows = [_row("memory", "GB/s", measured.gbps, sheet.gbps if sheet else None)]
    for name, roof in measured.roofs.items():
        theirs = sheet.roofs.get(name) if sheet else None
        rows.append(_row(roof.title, f"1e12 {roof.unit}/s", roof.peak, theirs.peak if theirs else None))
    return rows


def _row(title: str, unit: str, ours: float, theirs: float | None) -> dict:
    return {"roof": title, "unit": unit, "measured": ours, "datasheet": theirs, "share": ours / theirs if theirs else None}
