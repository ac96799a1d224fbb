"""The study "memory_plan": what a program's memory is made of, what a plan of it saves, and what not; its PARTS, one room each.

Every part gives plain data with "device", "numbers" (by name; times in ns, sizes in bytes, the rest counts and ratios) and
"notes", and raises MeasurementError, in words, where it cannot be measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from utils.measure.alloc_price import requests
from utils.measure.arena import arena
from utils.measure.arena_traffic import traffic
from utils.measure.block_memory import liveness
from utils.measure.compiled_memory import compiled
from utils.measure.fragmentation import fragmentation
from utils.measure.out_of_memory import out_of_memory
from utils.measure.recompute import recompute
from utils.measure.stream_reuse import reuse
from utils.measure.study import Part


def judged(part: Mapping[str, Any]) -> dict[str, Any]:
    """What `expect` takes of a part: its numbers by name, with its device."""
    return {**part["numbers"], "device": part["device"]}


BOTH, GPU = ("cpu", "cuda"), ("cuda",)
PARTS: dict[str, Part] = {
    "liveness": Part(liveness, BOTH, 1.0),
    "requests": Part(requests, BOTH, 1.0),
    "arena": Part(arena, BOTH, 1.0),
    "compiled": Part(compiled, BOTH, 4.0),
    "traffic": Part(traffic, BOTH, 2.0),
    "recompute": Part(recompute, BOTH, 2.0),
    "out_of_memory": Part(out_of_memory, BOTH, 1.5),
    "fragmentation": Part(fragmentation, BOTH, 0.5),
    "reuse": Part(reuse, GPU, 0.5),
}

# The same parts as a lesson measures them within half a minute on two cores; reuse without a GPU is played through, and says so.
IN_LESSON: dict[str, Callable[..., Any]] = {name: partial(part.measure, quick=True) for name, part in PARTS.items()}
