"""A replica of `c = a + b` made of the probe's steps, so that each piece is timed where it stands and not by itself.

A piece repeated in a loop of its own has the CPU's front end to itself: its code stays decoded, its branches predicted. In the
op it shares them with all the other pieces. On an AMD Zen 3 the pieces' prices alone added up to 62 % of the op, and putting
16 kB of idle instructions into the loop of the iterator's set-up raised its price by half. So a pass of the replica runs every
piece once, in the op's order, inside a `+` of Python, and takes laps: the CPU's time-stamp counter is read between the pieces.

`PLANS` says which steps a pass runs and where its laps end. Some passes hold another step in a piece's place: what the piece
is made of, or the real op entered further down (the ladder). Steps are C++ objects of `csrc/`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from utils.measure import seams
from utils.measure.probe import Probe, ProbeError, units
from utils.measure.python_arms import adding
from utils.model.readings import Reading

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
    "free_memory": "output_tensor",
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
NEEDS_GRAD = ("node",)
# The op's pieces in the op's order. autograd_real is the dispatcher's two hops with the registered Autograd kernel between.
WHOLE = ("parse", "gil_release", "autograd_real", "iterator", "memory", "compute", "gil_take", "wrapped_output")
WARM_UP = 50  # passes before the laps of a block count

LAPS = "laps: "  # the arms that take laps

Block = tuple[float, dict[str, float], int]  # seconds of the passes, of that by lap, how many passes
Plan = tuple[tuple[str, ...], ...]  # laps, each the steps that it spans; a lap is named by them: "hops+copies_held"


def _plan(**instead: str) -> Plan:
    """WHOLE with some pieces replaced by the laps of a text: "hops copies" are two laps, "hops+copies" is one, "" none."""
    text = " ".join(instead.get(piece, piece) for piece in WHOLE)
    return tuple(tuple(lap.split("+")) for lap in text.split())


def _rung(step: str, below_autograd: bool = False) -> Plan:
    """An entry point of the real op in the place of what it contains; the pieces that stay use the process's own allocator."""
    dispatch = f"autograd_real {step}" if below_autograd else step
    return _plan(autograd_real=dispatch, iterator="", memory="", compute="", wrapped_output="wrapped_real_output")


PLANS: dict[str, Plan] = {
    "whole": _plan(),
    "parts": _plan(autograd_real="hops copies"),
    "node": _plan(autograd_real="hops copies node"),
    "checks": _plan(autograd_real="autograd_checks"),
    "unchecked": _plan(autograd_real="hops+copies_held"),
    "output": _plan(memory="memory output", wrapped_output=""),
    "glue": _plan(wrapped_output="wrapped_output entry_glue"),
    "number_add": (("number_add",),),
    "method": (("method",),),
    "call": _rung("call"),
    "below_autograd": _rung("below_autograd"),
    "kernel_entry": _rung("kernel_entry", below_autograd=True),
    "empty": _rung("empty", below_autograd=True),
}
PADDED: Plan = tuple((step,) for piece in WHOLE for step in (piece, "nothing"))
# The same pieces, each in a tight loop of its own.
ALONE: dict[str, tuple[str, ...]] = {
    "parse": ("parse",),
    "handles": ("gil_release", "copies", "gil_take"),
    "hops": ("hops",),
    "checks": ("autograd_checks",),
    "unchecked": ("hops", "copies_held"),
    "node": ("node",),
    "iterator": ("iterator",),
    "memory": ("memory",),
    "compute": ("compute",),
    "output": ("output",),
    "free_memory": ("free_memory",),
    "wrapped_output": ("wrapped_output",),
}


class Inputs(ctypes.Structure):
    """`Inputs` of csrc/step.h."""

    _fields_ = [("a", ctypes.py_object), ("b", ctypes.py_object), ("a_impl", ctypes.c_void_p), ("b_impl", ctypes.c_void_p)]


class Replica:
    """The replica for two tensors on one device. `why` names, for each C++ unit that is missing, the reason.

    `arms(grad)` are for `stopwatch.interleave`, with `keep` as its `after_round`; `readings` then gives the laps. Raises
    ProbeError when not even the driver is there (no compiler).
    """

    def __init__(self, device: str, a, b):
        if not seams.has_impl_address():
            raise ProbeError("this torch does not give out the address of a tensor, so the probe cannot borrow its inputs")
        self._probe = Probe(units(device))
        self.why = dict(self._probe.why)
        self._inputs = Inputs(a, b, seams.impl_address(a), seams.impl_address(b))
        pointer, number, flag = ctypes.c_void_p, ctypes.c_double, ctypes.c_int
        self._new = self._c("plan_new", pointer)
        self._add = self._c("plan_add", flag, pointer, pointer, flag)
        self._free, self._begin, self._end, self._start = (
            self._c(f"plan_{name}", flag, pointer) for name in ("free", "begin", "end", "start")
        )
        self._stop = self._c("plan_stop", flag, pointer, pointer)
        self._loop = self._c("plan_loop", number, pointer, ctypes.c_int64, flag)
        plain, timed = (ctypes.cast(self._c(name, None, pointer), pointer) for name in ("plan_pass", "plan_timed_pass"))
        self._passes = {False: plain, True: timed}
        self._best: dict[str, Block] = {}
        self._kept: dict[str, list[Block]] = {}
        self._python_loop, self._inside = self._boundary(a + b)
        self._make: dict[str, Callable] = {}
        for step, source in UNIT_OF.items():
            if source not in self.why:
                self._try(step, source)

    def _c(self, name: str, result, *arguments):
        return self._probe.function("driver", name, result, arguments)

    def _boundary(self, result):
        """A loop of n Python `+` whose inside is a pass, and the function that sets that inside; (None, None) without it."""
        try:
            base = self._probe.function("python_boundary", "boundary_type", ctypes.py_object, (ctypes.py_object,))(result)
            inside = self._probe.function("python_boundary", "boundary_inside", ctypes.c_int, (ctypes.c_void_p, ctypes.c_void_p))
        except ProbeError:
            return None, None
        addend = type("Addend", (base,), {})
        self._addends = (addend(), addend())
        self._glue_inputs = Inputs(*self._addends, None, None)
        return adding(*self._addends), inside

    def _try(self, step: str, source: str) -> None:
        """Keep the function that makes `step`, if one can be made; else the reason costs its unit, and only that."""
        try:
            self._make[step] = self._probe.function(source, step, ctypes.c_void_p, (ctypes.c_void_p,))
            with self._ready(((step,),)):
                pass
        except RuntimeError as error:  # a ProbeError too
            self._make.pop(step, None)
            self.why[source] = str(error).splitlines()[0]

    def _has(self, *steps: str) -> bool:
        return all(s in self._make for s in steps)

    @contextmanager
    def _ready(self, plan: Plan) -> Iterator[tuple[int, list[str]]]:
        """(the plan in C++, its steps' lap names, "" where none ends). Laps with a step that is missing here are left out."""
        made, names = self._new(), []
        try:
            for lap in plan:
                if self._has(*lap):
                    for i, step in enumerate(lap):
                        inputs = self._glue_inputs if step == "entry_glue" else self._inputs
                        last = i == len(lap) - 1
                        self._add(made, self._make[step](ctypes.addressof(inputs)), last)
                        names.append("+".join(lap) if last else "")
            yield made, names
        finally:
            self._free(made)

    def _run(self, plan: Plan, n: int, timed: bool) -> tuple[float, dict[str, float]]:
        """(seconds that n passes took, seconds of that by lap). The loop is Python's where the boundary is there."""
        with self._ready(plan) as (made, names):
            self._begin(made)
            try:
                if self._inside is not None:
                    self._inside(self._passes[timed], made)
                loop = self._python_loop or (lambda n: self._loop(made, n, timed) * 1e-9)
                loop(WARM_UP)
                self._start(made)
                whole = loop(n)
                laps = (ctypes.c_double * len(names))()
                self._stop(made, laps)
                return whole, {name: ns * 1e-9 for name, ns in zip(names, laps, strict=True) if name}
            finally:
                if self._inside is not None:
                    self._inside(None, None)
                self._end(made)

    def _alone(self, steps: tuple[str, ...], n: int) -> float:
        """Seconds that n runs of the steps took, in a C++ loop of their own."""
        with self._ready((steps,)) as (made, _):
            self._begin(made)
            try:
                self._loop(made, WARM_UP, False)
                return self._loop(made, n, False) * 1e-9
            finally:
                self._end(made)

    def arms(self, grad: bool) -> dict[str, Callable[[int], float]]:
        """Arms that return the seconds of n passes: "replica" and "padded replica" plainly, "laps: …" with laps, "alone: …"."""
        arms: dict[str, Callable[[int], float]] = {
            "replica": lambda n: self._run(PLANS["whole"], n, timed=False)[0],
            "padded replica": lambda n: self._run(PADDED, n, timed=False)[0],
        }
        for name, plan in PLANS.items():
            if grad or not any(step in NEEDS_GRAD for lap in plan for step in lap):
                arms[f"{LAPS}{name}"] = lambda n, name=name, plan=plan: self._with_laps(name, plan, n)
        if self._python_loop is not None:
            arms["alone: outside"] = self._python_loop
        for name, steps in ALONE.items():
            if self._has(*steps) and (grad or name not in NEEDS_GRAD):
                arms[f"alone: {name}"] = lambda n, steps=steps: self._alone(steps, n)
        return arms

    def _with_laps(self, name: str, plan: Plan, n: int) -> float:
        whole, laps = self._run(plan, n, timed=True)
        if name not in self._best or whole < self._best[name][0]:
            self._best[name] = (whole, laps, n)
        return whole

    def keep(self, round_: int) -> None:
        """After a round of the race: of each plan's stretches the least disturbed one is the block's, as for any other arm."""
        if round_ >= 0:
            for name, block in self._best.items():
                self._kept.setdefault(name, []).append(block)
        self._best.clear()

    def readings(self, plain: Mapping[str, Reading], loop_ns: float) -> dict[str, Reading]:
        """Every lap as "plan/lap" in ns a pass, and "whole/outside": what a pass takes outside its laps.

        `plain` are the readings of the arms, `loop_ns` the empty Python loop. What a pass takes longer with laps than without
        is the price of reading the clock, and what it takes longer with a step that does nothing after each piece is that of
        running a step: both come off every lap in equal parts.
        """
        samples: dict[str, list[float]] = {}
        for plan, blocks in self._kept.items():
            for whole, laps, n in blocks:
                for lap, s in laps.items():
                    samples.setdefault(f"{plan}/{lap}", []).append(s * 1e9 / n)
                if plan == "whole" and self._python_loop is not None:
                    samples.setdefault("whole/outside", []).append((whole - sum(laps.values())) * 1e9 / n - loop_ns)
        off = self.clock_ns(plain) + self._running_ns(plain)
        calls = {plan: blocks[0][2] for plan, blocks in self._kept.items()}
        return {key: Reading(key, tuple(s), calls[key.split("/")[0]]).minus(off) for key, s in samples.items()}

    def clock_ns(self, plain: Mapping[str, Reading]) -> float:
        """What one reading of the clock adds to a pass (0 where it hides behind other work, as it mostly does)."""
        laps = len(self._kept["whole"][0][1])
        return max(0.0, (plain[f"{LAPS}whole"].ns - plain["replica"].ns) / (laps + 1))

    def _running_ns(self, plain: Mapping[str, Reading]) -> float:
        """What running one step adds to a pass."""
        return max(0.0, (plain["padded replica"].ns - plain["replica"].ns) / len(WHOLE))
