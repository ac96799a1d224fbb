"""What the datasheets say: dense peaks per GPU, read from `utils/data/devices.yml`; ridge points are computed here.

A datasheet peak is a ceiling to compare with, never a measurement: what a machine reaches is measured elsewhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

import yaml

from utils import paths

TRAPS = {
    "sparse": "with 2:4 structured sparsity, which no dense tensor has",
    "fp16_accumulate": "with sums kept in fp16, where PyTorch sums in fp32",
}


@dataclass(frozen=True)
class Figure:
    """One number of a datasheet; `checked` is False, with the reason, where no source at hand confirms it."""

    value: float
    checked: bool = True
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.value:,g}" + ("" if self.checked else " (unconfirmed)")


@dataclass(frozen=True)
class Device:
    """One row of `devices.yml`: dense peaks in TFLOP/s per dtype, bandwidth in GB/s, L2 in MB, power in watts."""

    id: str
    device_class: str
    name: str
    match: tuple[str, ...]
    capability: str | None
    sms: Figure
    l2_mb: Figure
    gbps: Figure
    tflops: dict[str, Figure]
    watts: Figure | None
    note: str
    quoted: tuple[dict, ...]
    sources: tuple[str, ...]

    def ridge(self, dtype: str) -> float:
        """FLOP per byte at which this dtype's peak and the memory's peak take equally long.

        Raises KeyError when the device has no such peak (bf16 on a T4).
        """
        return 1000.0 * self.tflops[dtype].value / self.gbps.value

    def matches(self, gpu_name: str) -> bool:
        """True when `gpu_name`, as the driver gives it, names this device as a whole (a MIG slice of it does not)."""
        return any(re.fullmatch(pattern, gpu_name.strip(), re.IGNORECASE) for pattern in self.match)

    def warnings(self) -> list[str]:
        """One sentence per figure that circulates and is not the dense peak."""
        return [f"{q['value']:,g} TFLOP/s in {q['dtype']} is {TRAPS[q['trap']]}" for q in self.quoted]


@lru_cache(maxsize=1)
def _file() -> dict:
    return yaml.safe_load((paths.DATA / "devices.yml").read_text(encoding="utf-8"))


def sources() -> dict[str, dict]:
    """Source id → {title, note}."""
    return _file()["sources"]


@lru_cache(maxsize=1)
def load() -> tuple[Device, ...]:
    """Every device of the table, in its order."""
    return tuple(_device(row) for row in _file()["devices"])


def find(gpu_name: str | None) -> Device | None:
    """The row whose names match `gpu_name`, or None for no GPU, an unknown one, or a part of one."""
    if not gpu_name:
        return None
    return next((d for d in load() if d.matches(gpu_name)), None)


def _figure(raw) -> Figure:
    return Figure(float(raw["value"]), False, raw["reason"]) if isinstance(raw, dict) else Figure(float(raw))


def _device(row: dict) -> Device:
    return Device(
        id=row["id"],
        device_class=row["class"],
        name=row["name"],
        match=tuple(row["match"]),
        capability=row["capability"],
        sms=_figure(row["sms"]),
        l2_mb=_figure(row["l2_mb"]),
        gbps=_figure(row["gbps"]),
        tflops={dtype: _figure(raw) for dtype, raw in row["tflops"].items()},
        watts=_figure(row["watts"]) if "watts" in row else None,
        note=row.get("note", ""),
        quoted=tuple(row.get("quoted", ())),
        sources=tuple(row["sources"]),
    )
