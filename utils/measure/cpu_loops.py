"""The door to the C++ loops that find a CPU's ceilings (`csrc/roofline.cpp`): compiled on first use, called by ctypes."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache

from utils.measure.device_clock import MeasurementError
from utils.measure.probe import Probe, ProbeError, Unit, build_probe

UNIT = Unit("roofline")
# The order of `Loops` in csrc/roofline.cpp.
KINDS = (
    "read",
    "write",
    "write, streaming stores",
    "copy",
    "copy, streaming stores",
    "add",
    "add, streaming stores",
    "triad",
    "triad, streaming stores",
    "fma chain",
    "integer chain",
    "fma registers",
    "integer registers",
)
WORDS = {"read": 1, "write": 1, "copy": 2, "add": 3, "triad": 3}  # floats moved an element, as the program counts them
ALIGNED = 64  # bytes, as torch allocates: the loops load whole vectors
WHOLE = 128  # elements of a slice come in multiples of this
PER_ROUND = 24  # operations a vector lane in one round of the loops in registers (a multiply-add counts twice)
INSTRUCTIONS, CYCLES = 50, 64  # of one round of the issue loop and of the dependent additions
_POINTER, _INT64, _INT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int


def shared_out(n: int, threads: int) -> int:
    """The largest number up to n of elements that `threads` can share out evenly."""
    return n // (WHOLE * threads) * WHOLE * threads


@dataclass(frozen=True)
class Loops:
    """The loaded unit: `run(kind, …)` and `rounds(what, …)` give seconds, from a common start to the last thread's end."""

    lanes: int
    streams: bool
    counts_instructions: bool
    _run: object
    _rounds: object

    def run(self, kind: str, a=None, b=None, c=None, *, n: int = 0, k: int = 1, threads: int = 1, times: int = 1) -> float:
        """`times` passes over the first n floats of the tensors; for loops in registers (n = 0), k rounds on each thread.

        Raises ValueError for a loop that there is not, MeasurementError for vectors that it cannot run over: too short, out of
        line with the cache, or n no multiple of `WHOLE` times the threads.
        """
        given = [t for t in (a, b, c) if t is not None]
        if any(t.numel() < n or t.element_size() != 4 or not t.is_contiguous() or t.data_ptr() % ALIGNED for t in given):
            raise MeasurementError(
                f"the loop {kind!r} needs contiguous vectors of {n:,} four-byte numbers that begin at a cache line"
            )
        places = [None if t is None else t.data_ptr() for t in (a, b, c)]
        seconds = self._run(KINDS.index(kind), *places, n, k, threads, times)
        if seconds <= 0:
            raise MeasurementError(f"the loop {kind!r} cannot run over {n:,} elements on {threads} threads")
        return seconds

    def rounds(self, what: str, k: int, threads: int = 1) -> float:
        """k rounds of "issue" (`INSTRUCTIONS` each) or "chain" (`CYCLES` each) on every thread. MeasurementError elsewhere."""
        seconds = self._rounds(("issue", "chain").index(what), k, threads)
        if seconds <= 0:
            raise MeasurementError("instructions are counted on x86-64 and arm64 only")
        return seconds


@cache
def loops() -> Loops:
    """The loops, compiled on first use (a few seconds). Raises MeasurementError, in words, without a compiler."""
    try:
        build_probe("cpu", only=(UNIT,))
        probe = Probe((UNIT,))
        run = probe.function(
            UNIT.source, "roof_run", ctypes.c_double, (_INT, _POINTER, _POINTER, _POINTER, _INT64, _INT64, _INT, _INT64)
        )
        rounds = probe.function(UNIT.source, "roof_rounds", ctypes.c_double, (_INT, _INT64, _INT))
        asked = [
            probe.function(UNIT.source, name, _INT, ())() for name in ("roof_lanes", "roof_streams", "roof_counts_instructions")
        ]
    except ProbeError as error:
        raise MeasurementError(f"loops of our own could not be built here: {error}") from None
    return Loops(asked[0], bool(asked[1]), bool(asked[2]), run, rounds)
