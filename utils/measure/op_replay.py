"""Replays a recorded list of ops: baked kernels and boxed calls in C++ where there is a compiler, else calls from Python.

`csrc/replay_*.cpp`. A baked call runs its kernel on the iterator that was set up once; a boxed one goes through the dispatcher
with the arguments that it was recorded with. Both write into the static tensors of the record.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from utils.measure import seams
from utils.measure.device_clock import MeasurementError
from utils.measure.op_record import Call
from utils.measure.probe import Probe, ProbeError, Unit, build_probe

UNITS = tuple(Unit(name) for name in ("replay_boxed", "replay_baked", "replay_typed", "replay_list"))
TYPED = ("at::add_out", "at::cpu::add_out")  # the order of `Way` in csrc/replay_typed.cpp
BAKED, BOXED, FOREIGN = "baked", "boxed", "a kernel of our own"
_POINTER, _OBJECT, _INT = ctypes.c_void_p, ctypes.py_object, ctypes.c_int
_FUNCTIONS = {
    "recorded_call": ("replay_boxed", _POINTER, (_OBJECT,) * 5),
    "recorded_free": ("replay_boxed", _INT, (_POINTER,)),
    "replay_boxed": ("replay_boxed", _POINTER, (_POINTER,)),
    "replay_baked": ("replay_baked", _POINTER, (_POINTER,)),
    "replay_typed": ("replay_typed", _POINTER, (_POINTER, _INT)),
    "replay_new": ("replay_list", _POINTER, ()),
    "replay_foreign": ("replay_list", _POINTER, (_POINTER, _POINTER)),
    "replay_push": ("replay_list", _INT, (_POINTER, _POINTER)),
    "replay_run": ("replay_list", ctypes.c_double, (_POINTER, ctypes.c_int64)),
    "replay_free": ("replay_list", _INT, (_POINTER,)),
}
OPTIONAL = ("replay_baked", "replay_typed")  # without them there is still a list of boxed calls


@cache
def _loaded() -> tuple[dict[str, Callable], str]:
    """The C functions by name, and why some are missing. Raises MeasurementError, in words, when no list can be replayed."""
    try:
        build_probe("cpu", only=UNITS)
        probe = Probe(UNITS)
    except ProbeError as error:
        raise MeasurementError(f"recorded ops cannot be replayed from C++ here: {error}") from None
    found, missing = {}, []
    for name, (unit, result, arguments) in _FUNCTIONS.items():
        try:
            found[name] = probe.function(unit, name, result, arguments)
        except ProbeError as error:
            if name not in OPTIONAL:
                raise MeasurementError(f"recorded ops cannot be replayed from C++ here: {error}") from None
            missing.append(f"{name}: {error}")
    return found, "; ".join(missing)


def why_not() -> str:
    """Why nothing can be replayed from C++ on this machine, in words; "" where it can (compiled then, half a minute once)."""
    try:
        _loaded()
    except MeasurementError as error:
        return str(error)
    return ""


class Replay:
    """A list of calls in C++. `ways` says of each call how it is replayed (BAKED, BOXED, or a name of TYPED).

    way: "" bakes what can be baked and boxes the rest; BAKED, BOXED or one of TYPED asks for this way for every call, and
    MeasurementError says which call cannot be had so. Replaying raises RuntimeError with what an op said.
    """

    def __init__(self, calls: Sequence[Call], way: str = ""):
        self._call, missing = _loaded()
        self._kept: list = list(calls)  # their tensors' addresses are in the list
        self._list = self._call["replay_new"]()
        self.ways: list[str] = []
        for call in calls:
            done = self._push(call, way)
            if not done:
                raise MeasurementError(f"{call.name} cannot be replayed as {way}{f': {missing}' if missing else ''}")
            self.ways.append(done)

    def _push(self, call: Call, way: str) -> str:
        """Appends a call by the wanted way, or by the best one; which it was, "" when it cannot be had so."""
        if way != BOXED and call.results:
            handle = self._recorded(call.name, call.args, call.kwargs, call.results)
            try:
                step = None
                if way in TYPED and "replay_typed" in self._call:
                    step = self._call["replay_typed"](handle, TYPED.index(way))
                elif way in ("", BAKED) and "replay_baked" in self._call:
                    step = self._tried(lambda: self._call["replay_baked"](handle))
            finally:
                self._call["recorded_free"](handle)
            if step:
                self._call["replay_push"](self._list, step)
                return way or BAKED
        if way not in ("", BOXED):
            return ""
        name, args, kwargs, results = call.name, call.args, call.kwargs, call.results
        out = seams.out_overload(seams.overload_named(name)) if results else None
        if out is not None and len(out[1]) == len(results):
            name = out[0].name()
            kwargs, results = kwargs | dict(zip(out[1], results, strict=True)), ()
        handle = self._recorded(name, args, kwargs, results)
        self._call["replay_push"](self._list, self._call["replay_boxed"](handle))
        self._call["recorded_free"](handle)
        return BOXED

    def then(self, function: int, job: int, kept: object) -> None:
        """Appends a C function `double f(void* job, int64_t times)`, to be called with 1; `kept` lives as long as the list."""
        self._kept.append(kept)
        self._call["replay_push"](self._list, self._call["replay_foreign"](function, job))
        self.ways.append(FOREIGN)

    def _recorded(self, name: str, args: tuple, kwargs: dict[str, Any], results: tuple) -> int:
        symbol, _, overload = name.partition(".")
        return self._call["recorded_call"](symbol, overload, tuple(args), dict(kwargs), tuple(results))

    def _tried(self, make: Callable[[], int | None]) -> int | None:
        """A step, or None also where the kernel refuses these tensors."""
        try:
            return make()
        except RuntimeError:
            return None

    def __call__(self, times: int = 1) -> float:
        """Replays the list; nanoseconds of all the times, by C++'s own clock."""
        return self._call["replay_run"](self._list, times)

    def __del__(self):
        if getattr(self, "_list", None):
            self._call["replay_free"](self._list)


class PythonReplay:
    """The same list from Python: each call through torch.ops, into its static result. Works everywhere and gains little."""

    def __init__(self, calls: Sequence[Call]):
        self.ways = ["Python"] * len(calls)
        self._steps = [_step(call) for call in calls]

    def __call__(self, times: int = 1) -> None:
        import torch

        with torch.no_grad():
            for _ in range(times):
                for step in self._steps:
                    step()


def _step(call: Call) -> Callable[[], object]:
    overload, results = seams.overload_named(call.name), call.results
    args, kwargs = call.args, call.kwargs
    if not results:
        return lambda: overload(*args, **kwargs)
    out = seams.out_overload(overload)
    if out is not None and len(out[1]) == len(results):
        into = kwargs | dict(zip(out[1], results, strict=True))
        return lambda: out[0](*args, **into)

    def copied() -> None:
        for static, fresh in zip(results, seams.tensors_in(overload(*args, **kwargs)), strict=True):
            static.copy_(fresh)

    return copied
