"""The study "capture": a graph captured by hand, or what stands in for one; its PARTS, each measured by a room of its own.

Every part gives plain data with "device", "rows", "numbers" (by name; times in ns, the rest counts, ratios and seconds) and
"notes", and raises MeasurementError, in words, where it cannot be measured. Columns of rows name their unit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from utils.measure.capture_pays import pays_back
from utils.measure.captured_block import blocks
from utils.measure.dependent_launch import pdl
from utils.measure.guard_cost import guards
from utils.measure.joint_graph import joint
from utils.measure.node_places import places
from utils.measure.replay_nodes import nodes
from utils.measure.same_bytes import same_bytes
from utils.measure.stand_ins import stand_ins
from utils.measure.study import Part

__all__ = ["IN_LESSON", "PARTS", "judged"]


def judged(part: Mapping[str, Any]) -> dict[str, Any]:
    """What `expect` takes of a part: its numbers by name, with its device."""
    return {**part["numbers"], "device": part["device"]}


CPU, GPU = ("cpu",), ("cuda",)
_ROOMS: dict[str, tuple[Callable[..., Any], tuple[str, ...], float]] = {
    "nodes": (nodes, (*CPU, *GPU), 2.0),
    "block": (blocks, (*CPU, *GPU), 3.0),
    "pdl": (pdl, GPU, 1.0),
    "places": (places, GPU, 1.0),
    "stand_ins": (stand_ins, CPU, 4.0),
    "pays_back": (pays_back, (*CPU, *GPU), 2.0),
    "guards": (guards, (*CPU, *GPU), 2.0),
    "joint": (joint, (*CPU, *GPU), 0.5),
    "same_bytes": (same_bytes, (*CPU, *GPU), 1.0),
}
PARTS: dict[str, Part] = {name: Part(measure, devices, weight) for name, (measure, devices, weight) in _ROOMS.items()}

# The same parts as a lesson measures them within half a minute on two cores.
IN_LESSON: dict[str, Callable[..., Any]] = {name: partial(measure, quick=True) for name, (measure, _, _) in _ROOMS.items()}
