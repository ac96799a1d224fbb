"""The study "fuse": a chain op by op and as one kernel; its PARTS, each measured by a room of its own.

Every part gives plain data with "device", "numbers" (by name; ratios, counts and seconds) and "notes", and raises
MeasurementError, in words, where it cannot be measured. Columns of rows name their unit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from utils.kernels import interpreted
from utils.kernels.forms import STEPS
from utils.measure.either_clock import Progress
from utils.measure.fuse_output import fresh_output
from utils.measure.fuse_peer import against_compile
from utils.measure.fuse_sizes import sizes
from utils.measure.fuse_steps import chain, steps
from utils.measure.study import Part

__all__ = ["IN_LESSON", "PARTS", "judged"]


def interpreter(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """Every step of the chain in Triton's interpreter, on a CPU: its correctness, never its speed.

    "rows": [{"step", "wrong" (words, or ""), "seconds"}], "numbers": "steps", "wrong" (how many), "shapes". A few seconds.
    MeasurementError, in words, where Triton is not installed.
    """
    found = interpreted.check(STEPS, progress=progress)
    rows = [{"step": name, "wrong": one["wrong"], "seconds": one["seconds"]} for name, one in found.items()]
    numbers = {"steps": float(len(rows)), "wrong": float(sum(bool(row["wrong"]) for row in rows))}
    shapes = ", ".join(f"{rows} x {cols}" for rows, cols in interpreted.SHAPES)
    return {"device": "cpu", "rows": rows, "numbers": numbers | {"shapes": float(len(interpreted.SHAPES))},
            "notes": [f"fp32, {shapes}", "in Triton's interpreter, whose times say nothing about a GPU"]}  # fmt: skip


def judged(part: Mapping[str, Any]) -> dict[str, Any]:
    """What `expect` takes of a part: its numbers by name, with its device."""
    return {**part["numbers"], "device": part["device"]}


_ROOMS: dict[str, tuple[Callable[..., Any], tuple[str, ...], float]] = {
    "steps": (steps, ("cpu", "cuda"), 4.0),
    "chain": (chain, ("cpu", "cuda"), 3.0),
    "sizes": (sizes, ("cpu", "cuda"), 4.0),
    "peer": (against_compile, ("cpu", "cuda"), 4.0),
    "interpreter": (interpreter, ("cpu",), 2.0),
    "fresh_output": (fresh_output, ("cpu",), 1.0),
}
PARTS: dict[str, Part] = {name: Part(measure, devices, weight) for name, (measure, devices, weight) in _ROOMS.items()}

# The same parts as a lesson measures them within half a minute on two cores.
IN_LESSON: dict[str, Callable[..., Any]] = {name: partial(measure, quick=True) for name, (measure, _, _) in _ROOMS.items()}
