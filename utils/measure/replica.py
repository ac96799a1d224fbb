"""A replica of `c = a + b` made of the probe's steps, so that each piece is timed where it stands and not by itself.

A piece repeated in a loop of its own has the CPU's front end to itself: its code stays decoded, its branches predicted. In the
op it shares them with all the other pieces. On an AMD Zen 3 the pieces' prices alone added up to 62 % of the op, and putting
16 kB of idle instructions into the loop of the iterator's set-up raised its price by half. So a pass of the replica runs every
piece once, in the op's order, inside a `+` of Python; the clock (the CPU's time-stamp counter) is held around one of them.

`PLANS` says for each segment which steps a pass runs and which of them are timed. Steps are C++ objects of `csrc/`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from utils.measure import seams
from utils.measure.probe import ProbeError, function, units
from utils.measure.python_arms import adding

WHOLE = ("parse", "gil_release", "autograd_real", "iterator", "memory", "compute", "gil_take", "wrapped_output")
BACKEND = ("iterator", "memory", "compute")
# Where each step comes from: the C++ unit that exports it.
UNIT_OF = {
    "nothing": "driver",
    "parse": "arg_parser",
    "gil_release": "handle_copies_gil",
    "gil_take": "handle_copies_gil",
    "copies": "handle_copies_gil",
    "copies_held": "handle_copies_gil",
    "hops": "dispatcher_hop",
    "autograd_real": "autograd_key",
    "autograd_checks": "autograd_key",
    "node": "autograd_node",
    "iterator": "tensor_iterator",
    "memory": "allocator",
    "compute": "kernel",
    "output": "output_tensor",
    "wrapped_output": "wrap_free",
    "wrapped_real_output": "wrap_free",
    "entry_glue": "python_boundary",
    "number_add": "ladder",
    "method": "ladder",
    "call": "ladder",
    "below_autograd": "ladder",
    "kernel_entry": "ladder",
    "empty": "ladder",
}


@dataclass(frozen=True)
class Plan:
    """The steps of one pass, and which of them the clock is held around; adjacent timed steps share one pair of readings."""

    steps: tuple[str, ...]
    timed: frozenset[str]

    @property
    def pairs(self) -> int:
        """Pairs of clock readings in a pass."""
        marks = [s in self.timed for s in self.steps]
        return sum(now and not before for before, now in zip([False, *marks], marks, strict=False))


def _plan(timed: str, **instead: tuple[str, ...]) -> Plan:
    """WHOLE with some steps replaced (`step=(new, …)`), and the space-separated steps of `timed` timed."""
    steps = tuple(s for old in WHOLE for s in instead.get(old, (old,)))
    wanted = frozenset(timed.split())
    if missing := wanted - set(steps):
        raise ValueError(f"{', '.join(sorted(missing))}: timed, but not in the plan {steps}")
    return Plan(steps, wanted)


def _rung(step: str, below: bool = False) -> Plan:
    """An entry point of the real op in the place of what it contains; the steps that stay use the process's own allocator."""
    gone = dict.fromkeys(BACKEND, ())
    return _plan(
        step, **gone, autograd_real=("autograd_real", step) if below else (step,), wrapped_output=("wrapped_real_output",)
    )


PLANS: dict[str, Plan] = {
    "pair": _plan("nothing", autograd_real=("nothing", "autograd_real")),
    "parse": _plan("parse"),
    "handles": _plan("gil_release copies gil_take", autograd_real=("hops", "copies")),
    "copies": _plan("copies", autograd_real=("hops", "copies")),
    "copies_held": _plan("copies_held", autograd_real=("hops", "copies_held")),
    "hops": _plan("hops", autograd_real=("hops", "copies")),
    "autograd_real": _plan("autograd_real"),
    "autograd_checks": _plan("autograd_checks", autograd_real=("autograd_checks",)),
    "node": _plan("node", autograd_real=("hops", "copies", "node")),
    "iterator": _plan("iterator"),
    "memory": _plan("memory"),
    "compute": _plan("compute"),
    "output": _plan("output", memory=("memory", "output"), wrapped_output=()),
    "wrapped_output": _plan("wrapped_output"),
    "entry_glue": _plan("entry_glue", wrapped_output=("wrapped_output", "entry_glue")),
    "number_add": Plan(("number_add",), frozenset({"number_add"})),
    "method": Plan(("method",), frozenset({"method"})),
    "call": _rung("call"),
    "below_autograd": _rung("below_autograd"),
    "kernel_entry": _rung("kernel_entry", below=True),
    "empty": _rung("empty", below=True),
}
INSIDE = Plan(WHOLE, frozenset(WHOLE))  # all of it timed as one: what is left of the pass is the Python boundary
# The same pieces, each in a tight loop of its own.
ALONE: dict[str, tuple[str, ...]] = {
    "parse": ("parse",),
    "handles": ("gil_release", "copies", "gil_take"),
    "copies_held": ("copies_held",),
    "hops": ("hops",),
    "autograd_checks": ("autograd_checks",),
    "node": ("node",),
    "iterator": ("iterator",),
    "memory": ("memory",),
    "compute": ("compute",),
    "output": ("output",),
    "wrapped_output": ("wrapped_output",),
}
NEEDS_GRAD = ("node",)


class Inputs(ctypes.Structure):
    """`Inputs` of csrc/step.h."""

    _fields_ = [("a", ctypes.py_object), ("b", ctypes.py_object), ("a_impl", ctypes.c_void_p), ("b_impl", ctypes.c_void_p)]


class Replica:
    """The replica for two tensors on one device. `why` names, for each C++ unit that is missing, the reason.

    Raises ProbeError when not even the driver is there (no compiler).
    """

    def __init__(self, device: str, a, b):
        if not seams.has_impl_address():
            raise ProbeError("this torch does not give out the address of a tensor, so the probe cannot borrow its inputs")
        self.inputs = Inputs(a, b, seams.impl_address(a), seams.impl_address(b))
        self.units = {unit.source: unit for unit in units(device)}
        self.why: dict[str, str] = {}
        driver = self.units["driver"]
        pointer, number, count = ctypes.c_void_p, ctypes.c_double, ctypes.c_int
        self._new = function(driver, "plan_new", pointer, ())
        self._add = function(driver, "plan_add", count, (pointer, pointer, count, count))
        self._free = function(driver, "plan_free", count, (pointer,))
        self._start = function(driver, "plan_start", count, (pointer,))
        self._stop = function(driver, "plan_stop", number, (pointer,))
        self._loop = function(driver, "plan_loop", number, (pointer, ctypes.c_int64))
        self._pass = ctypes.cast(function(driver, "plan_pass", None, (pointer,)), pointer)
        self._python_loop, self._inside = self._boundary(a + b)
        self._make = {}
        for step, source in UNIT_OF.items():
            self._try(step, source)

    def _boundary(self, result):
        """A loop of n Python `+` whose inside is a pass, and the function that sets that inside; None without the unit."""
        unit = self.units["python_boundary"]
        try:
            base = function(unit, "boundary_type", ctypes.py_object, (ctypes.py_object,))(result)
            inside = function(unit, "boundary_inside", ctypes.c_int, (ctypes.c_void_p, ctypes.c_void_p))
        except ProbeError as error:
            self.why[unit.source] = str(error)
            return None, None
        addend = type("Addend", (base,), {})
        self.addends = (addend(), addend())
        return adding(*self.addends), inside

    def _try(self, step: str, source: str) -> None:
        """Keep the function that makes `step`, if it is there and a step made by it runs."""
        if source in self.why:
            return
        try:
            make = function(self.units[source], step, ctypes.c_void_p, (ctypes.c_void_p,))
            make_free = make(ctypes.addressof(self._inputs_of(step)))
            plan = self._new()
            self._add(plan, make_free, 0, 0)
            self._free(plan)
            self._make[step] = make
        except ProbeError as error:
            self.why[source] = str(error)
        except RuntimeError as error:
            self.why[source] = f"does not run: {str(error).splitlines()[0]}"

    def _inputs_of(self, step: str) -> Inputs:
        if step == "entry_glue":
            self._glue_inputs = Inputs(*self.addends, None, None)
            return self._glue_inputs
        return self.inputs

    def has(self, *steps: str) -> bool:
        return all(s in self._make for s in steps)

    @contextmanager
    def _ready(self, plan: Plan) -> Iterator[int]:
        """A plan in C++ from which steps that are missing here are left out, begun; ended and freed afterwards."""
        steps = [s for s in plan.steps if s in self._make]
        marks = [s in plan.timed for s in steps]
        made = self._new()
        try:
            for i, step in enumerate(steps):
                opens = marks[i] and not (i and marks[i - 1])
                closes = marks[i] and not (i + 1 < len(steps) and marks[i + 1])
                self._add(made, self._make[step](ctypes.addressof(self._inputs_of(step))), opens, closes)
            yield made
        finally:
            self._free(made)

    def passes(self, plan: Plan, n: int) -> tuple[float, float]:
        """(seconds that n passes took, seconds of that in the timed steps). The loop is Python's where the boundary is there."""
        with self._ready(plan) as made:
            self._start(made)
            try:
                if self._inside is None:
                    whole = self._loop(made, n) * 1e-9
                else:
                    self._inside(self._pass, made)
                    whole = self._python_loop(n)
            finally:
                timed = self._stop(made) * 1e-9
                if self._inside is not None:
                    self._inside(None, None)
            return whole, timed

    def alone(self, steps: tuple[str, ...], n: int) -> float:
        """Seconds that n runs of the steps took, in a C++ loop of their own."""
        with self._ready(Plan(steps, frozenset())) as made:
            self._start(made)
            try:
                return self._loop(made, n) * 1e-9
            finally:
                self._stop(made)

    def arms(self, grad: bool) -> dict[str, Callable[[int], float]]:
        """An arm for each segment that can be timed here, by name; "alone: …" for the tight loops.

        "replica" is the whole pass, untimed; "boundary" what a pass takes outside its steps.
        """
        arms: dict[str, Callable[[int], float]] = {}
        for name, plan in PLANS.items():
            if self.has(*plan.timed) and (grad or name not in NEEDS_GRAD):
                arms[name] = lambda n, plan=plan: self.passes(plan, n)[1]
        for name, steps in ALONE.items():
            if self.has(*steps) and (grad or name not in NEEDS_GRAD):
                arms[f"alone: {name}"] = lambda n, steps=steps: self.alone(steps, n)
        arms["replica"] = lambda n: self.passes(Plan(WHOLE, frozenset()), n)[0]
        if self._inside is not None:
            arms["boundary"] = self._outside
            arms["alone: boundary"] = self._python_loop
        return arms

    def _outside(self, n: int) -> float:
        whole, inside = self.passes(INSIDE, n)
        return whole - inside
