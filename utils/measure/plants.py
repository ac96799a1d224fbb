"""Costs planted on purpose in one stage of the real `a + b`, to see that exactly that row of the receipt rises.

Built only when asked for (`csrc/plants.cpp`); nothing of it is in a reader's probe.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from utils.measure.probe import Probe, Unit, build_probe

UNIT = Unit("plants")
STAGE = {"plant_autograd": "autograd_key", "plant_allocator": "allocator"}


@cache
def _loaded() -> Probe:
    return Probe((UNIT,))


@contextmanager
def planted(stage: str, ns: float) -> Iterator[None]:
    """Inside, the `autograd_key` or the `allocator` of every add of this process spins for `ns` nanoseconds more.

    The Autograd kernel is slowed on CPU and CUDA, the allocator on CPU. Raises ValueError for another stage and ProbeError
    without a compiler.
    """
    name = next((n for n, s in STAGE.items() if s == stage), None)
    if name is None:
        raise ValueError(f"a cost can be planted in {' or '.join(STAGE.values())}, not in {stage!r}")
    build_probe("cpu", only=(UNIT,))
    plant = _loaded().function(UNIT.source, name, ctypes.c_int, (ctypes.c_double,))
    plant(ns)
    try:
        yield
    finally:
        plant(0.0)
