"""The study "two_ceilings": what limits a step, the host or the device; its PARTS, each measured by a room of its own.

Every part gives plain data with "device", "numbers" (by name; times in ns, rates in GB/s and 1e12/s, sizes in elements, the rest
ratios) and "notes", and raises MeasurementError, in words, where it cannot be measured. Columns of rows name their unit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from utils.measure.break_even import sweep, thousand
from utils.measure.either_clock import need, settled
from utils.measure.price_list import calibration, drift, prices
from utils.measure.stopwatch import AGAIN, calibrate, interleave, timer_overhead_ns
from utils.measure.study import Part
from utils.measure.three_models import three_models
from utils.measure.toy_block import flip, flop_only, toy_block
from utils.measure.wall_arms import until_idle
from utils.model.readings import Race

__all__ = ["IN_LESSON", "PARTS", "judged", "prices", "step"]

STEP = "step"


def step(device: str, f: Callable[[], object], *, at_most_s: float = 0.8) -> Race:
    """One step of any callable, from an idle device to an idle one, beside the same again (ns; readings "step" and its twin):
    on a GPU the wait at its end is in it. MeasurementError when it raises, or without the device."""
    need(device, "a step")
    arm = until_idle(f, device, each=True)
    with settled(device):
        n = calibrate(STEP, arm, 2e-3)
        pair = (STEP, STEP + AGAIN)
        found = interleave(dict.fromkeys(pair, arm), blocks=40, calls=dict.fromkeys(pair, n), at_most_s=at_most_s, pair=pair)
    return Race(found, pair, "host", device, timer_ns=timer_overhead_ns())


def judged(part: Mapping[str, Any]) -> dict[str, Any]:
    """What `expect` takes of a part: its numbers by name, with its device."""
    return {**part["numbers"], "device": part["device"]}


_ROOMS: dict[str, tuple[Callable[..., Any], float]] = {
    "calibration": (calibration, 1.5),
    "sweep": (sweep, 1.5),
    "thousand": (thousand, 1.0),
    "toy_block": (toy_block, 2.0),
    "flop_only": (flop_only, 1.5),
    "flip": (flip, 1.0),
    "three_models": (three_models, 6.0),
    "drift": (drift, 4.0),
}
PARTS: dict[str, Part] = {name: Part(measure, weight=weight) for name, (measure, weight) in _ROOMS.items()}

# The same parts as a lesson measures them within half a minute on two cores.
IN_LESSON: dict[str, Callable[..., Any]] = {name: partial(measure, quick=True) for name, (measure, _) in _ROOMS.items()}
