"""The study "reach_the_roof": a fused tail that misses the roof, why, and its way there; its PARTS, each of a room of its own.

Every part gives plain data with "device", "numbers" (by name; times in ns, rates in GB/s and 1e12/s, the rest ratios and counts)
and "notes", and raises MeasurementError, in words, where it cannot be measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from utils.measure.chain_on_cpu import chain
from utils.measure.honest_tail import honest
from utils.measure.sideways import sideways
from utils.measure.study import Part
from utils.measure.tail_instructions import instructions
from utils.measure.tail_races import cuts, tails


def judged(part: Mapping[str, Any]) -> dict[str, Any]:
    """What `expect` takes of a part: its numbers by name, with its device."""
    return {**part["numbers"], "device": part["device"]}


_ROOMS: dict[str, tuple[Callable[..., Any], tuple[str, ...], float]] = {
    "tails": (tails, ("cuda",), 6.0),
    "instructions": (instructions, ("cpu", "cuda"), 4.0),
    "honest": (honest, ("cpu", "cuda"), 1.0),
    "chain": (chain, ("cpu",), 2.0),
    "cuts": (cuts, ("cuda",), 3.0),
    "sideways": (sideways, ("cpu", "cuda"), 1.0),
}
PARTS: dict[str, Part] = {name: Part(measure, where, weight) for name, (measure, where, weight) in _ROOMS.items()}

# The same parts as a lesson measures them within half a minute on two cores.
IN_LESSON: dict[str, Callable[..., Any]] = {name: partial(measure, quick=True) for name, (measure, _, _) in _ROOMS.items()}
