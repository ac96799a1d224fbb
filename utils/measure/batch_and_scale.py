"""The study "batch_and_scale": what a batch size and a larger device change, and what they do not; its PARTS, one room each.

Every part gives plain data with "device", "numbers" (by name; times in ns, the rest counts and ratios) and "notes", and raises
MeasurementError, in words, where it cannot be measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from utils.measure import two_kernels as short_kernels
from utils.measure.clocks_of_load import clocks
from utils.measure.either_clock import Progress
from utils.measure.grid_waves import waves
from utils.measure.layer_ops import layer_ops
from utils.measure.null_experiment import null_experiment
from utils.measure.serving import cost
from utils.measure.slow_host import host
from utils.measure.step32 import step32
from utils.measure.study import Part


def judged(part: Mapping[str, Any]) -> dict[str, Any]:
    """What `expect` takes of a part: its numbers by name, with its device."""
    return {**part["numbers"], "device": part["device"]}


def two_kernels(device: str = "cpu", progress: Progress | None = None) -> dict:
    """Measured on a GPU; elsewhere played through by the queue model, and labelled so."""
    return short_kernels.two_kernels(device, progress, quick=True) if device == "cuda" else short_kernels.simulated(device)


BOTH, GPU = ("cpu", "cuda"), ("cuda",)
PARTS: dict[str, Part] = {
    "null_experiment": Part(null_experiment, BOTH, 3.0),
    "layer_ops": Part(layer_ops, BOTH, 2.0),
    "step32": Part(step32, BOTH, 3.0),
    "two_kernels": Part(short_kernels.two_kernels, GPU, 1.0),
    "waves": Part(waves, GPU, 1.5),
    "clocks": Part(clocks, GPU, 1.5),
    "host": Part(host, BOTH, 1.5),
    "cost": Part(cost, BOTH, 1.5),
}

# The same parts as a lesson measures them within a minute on two cores. Nothing is profiled: the recordings have the kernels.
IN_LESSON: dict[str, Callable[..., Any]] = {name: partial(part.measure, quick=True) for name, part in PARTS.items()} | {
    "two_kernels": two_kernels,
}
