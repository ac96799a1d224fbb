"""The study "launch": what a launch costs and hides; its PARTS, each measured by a room of its own.

Every part gives a Race (ns) or plain data, and raises MeasurementError, in words, where it cannot be measured.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from utils.measure import profiled
from utils.measure.first_gpu_calls import first_calls
from utils.measure.gil_threads import gil_threads
from utils.measure.hidden_syncs import hidden_syncs
from utils.measure.launch_floor import floor
from utils.measure.occupancy import occupancy
from utils.measure.openmp_cost import openmp
from utils.measure.queue_lanes import lanes, simulated_lanes
from utils.measure.sm_clock import sm_clock
from utils.measure.small_kernel import small_kernel
from utils.measure.study import Part
from utils.measure.utilisation import utilisation

__all__ = ["PARTS", "simulated_lanes"]

GPU, CPU = ("cuda",), ("cpu",)
PARTS: dict[str, Part] = {
    "lanes": Part(lanes, GPU),
    "floor": Part(floor, GPU, 1.5),
    "small_kernel": Part(small_kernel, GPU, 3.0),
    "sm_clock": Part(sm_clock, GPU),
    "utilisation": Part(utilisation, GPU, 3.0),
    "occupancy": Part(occupancy, GPU),
    "hidden_syncs": Part(hidden_syncs, GPU, 1.5),
    "first_calls": Part(first_calls, (*CPU, *GPU)),
    "openmp": Part(openmp, CPU),
    "gil_threads": Part(gil_threads, (*CPU, *GPU)),
}

# The same parts as a lesson measures them, where all of it must fit into a minute: shorter idling, the workloads that answer its
# questions, and one profiled process for the three parts that need one.
IN_LESSON: dict[str, Callable[..., Any]] = {name: part.measure for name, part in PARTS.items()} | {
    "small_kernel": partial(small_kernel, events=profiled.shared),
    "sm_clock": partial(sm_clock, idle_s=1.0),
    "utilisation": partial(utilisation, seconds=2.0, names=("one_sm", "tiny", "eager")),
    "occupancy": partial(occupancy, events=profiled.shared),
    "hidden_syncs": partial(hidden_syncs, events=profiled.shared),
    # On a busy machine an op that waits for its second thread takes a thousand times as long: few of them in a block.
    "openmp": partial(openmp, blocks=25, block_ms=0.2),
}
