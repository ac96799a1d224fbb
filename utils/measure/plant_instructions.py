"""Instructions planted in one stage of the real op: the call tree's row of that stage must rise by them, and no other row.

Built only when asked for (`csrc/plant_instructions.cpp`); nothing of it is in a reader's probe.
"""

from __future__ import annotations

from pathlib import Path

from utils.measure.probe import Probe, Unit, build_probe

UNIT = Unit("plant_instructions")
# Row of `stages.yml` → the library's function that sets how many instructions each call of that stage spins.
PLANTS = {
    "allocator": "plant_allocator",
    "autograd_key": "plant_autograd_key",
    "tensor_iterator": "plant_tensor_iterator",
    "kernel": "plant_kernel",
}


def planting_library() -> Path:
    """Where the built library is, for a child that loads it before torch. Raises ProbeError without a compiler."""
    build_probe("cpu", only=(UNIT,))
    return Path(Probe((UNIT,)).library._name)
