"""The price of each stage of `c = a + b`, measured alone, beside the price of the whole: what adds up to the receipt.

Every stage of `utils/data/stages.yml` has an isolate: a C++ loop (`csrc/`) that runs this piece and nothing else, in the state
it has in a program: inputs held by Python only, the previous result alive until the next one exists. The whole, the isolates,
the entry points of the ladder, an empty loop and an A/A pair run in one interleaved race (`stopwatch.interleave`), so that
they meet the same weather. The stages are a partition: `PIECES` says which loop prices which stage and what is taken off.
What they leave of the whole is the receipt's *context*.

Without a compiler the Python-only arms are measured and each stage says why it is missing.
"""

from __future__ import annotations

import ctypes
import datetime
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import repeat

from utils.measure import seams
from utils.measure.probe import ProbeError, ProbeStatus, Unit, build_probe, function, probe_status, units
from utils.measure.stopwatch import QUEUE_CALLS, interleave
from utils.model.readings import LadderGroup, Reading, Receipt, StagePrice

__all__ = ["PIECES", "ProbeStatus", "build_probe", "price_stages", "probe_status"]

Arm = Callable[[int], float]
Progress = Callable[[float, str], None]
clock = time.perf_counter_ns
WHOLE, AGAIN, LOOP = "c = a + b", "c = a + b (again)", "empty loop"
CALL, PYBIND = "python call", "pybind11 no-op call"  # what a call costs that does nothing: in Python, and through pybind11


@dataclass(frozen=True)
class Piece:
    """How a stage is priced: the loop `arm` of C++ unit `unit`, less the loops in `minus` (which contain only what other
    stages count, or the loop's own overhead), and, where two rungs bracket the stage, their difference `upper - lower`."""

    stage: str
    unit: str
    arm: str
    minus: tuple[str, ...] = ()
    bracket: tuple[str, str] | None = None
    launches: bool = False


PIECES = (
    Piece("python_boundary", "python_boundary", "boundary", (LOOP,)),
    Piece("arg_parser", "arg_parser", "arg_parser"),
    Piece("dispatcher_hop", "dispatcher_hop", "dispatcher_hop"),
    Piece("autograd_key", "autograd_key", "key_real", ("key_base", "key_copies")),
    Piece("autograd_node", "autograd_node", "autograd_node", bracket=("key_real_grad", "key_real")),
    Piece("handle_copies_gil", "handle_copies_gil", "handle_copies_gil"),
    Piece("tensor_iterator", "tensor_iterator", "tensor_iterator"),
    Piece("allocator", "allocator", "allocator", bracket=("rung_empty", "output_tensor")),
    Piece("output_tensor", "output_tensor", "output_tensor", bracket=("rung_empty", "allocator")),
    Piece("wrap_free", "wrap_free", "wrap_free_total", ("output_base",)),
    Piece("kernel", "kernel", "kernel", launches=True),
)
# Loops that are no stage by themselves, by the unit that has them: taken off, bracketing, or steps of the ladder.
HELPERS = {
    "autograd_key": ("key_base", "key_copies", "key_real_grad"),
    "handle_copies_gil": ("front_end_part", "autograd_part"),
    "python_boundary": ("entry_glue",),
    "wrap_free": ("output_base",),
    "ladder": ("rung_empty",),
}
RUNGS = (
    ("rung_number_add", "PyNumber_Add"),
    ("rung_method", "THPVariable_add"),
    ("rung_call", "_ops::add_Tensor::call"),
    ("rung_below_autograd", "call below Autograd"),
    ("rung_kernel_entry", "at::{device}::add"),
)
NEEDS_GRAD = ("autograd_node", "key_real_grad")


def price_stages(
    device: str = "cpu",
    grad: bool = False,
    *,
    blocks: int = 80,
    in_program: bool = True,
    first_call: bool = True,
    progress: Progress | None = None,
    seed: int | None = None,
) -> Receipt:
    """Price one `c = a + b` of two one-element float32 tensors on this machine, stage by stage; all prices in ns a call.

    `device` is "cpu" or "cuda" (there the price is the host's: until the launch has returned), `grad` makes both inputs need
    a gradient. `in_program` adds the curve over N other ops, `first_call` the ladder of first calls (a fresh process, some
    seconds). Compiles the probe first where it is not in the cache. About 12 s once compiled.

    Raises ValueError for another device and RuntimeError for "cuda" without a GPU that torch can use.
    """
    import torch

    units(device)
    if device == "cuda" and not torch.cuda.is_available():
        raise RuntimeError("no CUDA device that torch can use: load the recorded receipt instead (utils.model.recordings)")
    tell = _Parts(progress, compile=0.0 if probe_status(device).cached else 4.0, race=6.0, program=2.0 * in_program, first=3.0 * first_call)
    build_probe(device, tell.part("compile"))
    bench = _Bench(device, grad)
    readings = bench.race(blocks, seed, tell.part("race"))
    loop, whole = readings[LOOP], readings[WHOLE].minus(readings[LOOP].ns)
    curve = ()
    if in_program:
        from utils.measure.programs import in_program_curve

        curve = ((0, whole), *in_program_curve(device, grad, progress=tell.part("program")))
    firsts = ()
    if first_call:
        from utils.measure.first_call import first_calls

        firsts = first_calls(device, progress=tell.part("first"))
    stages = bench.stages(readings)
    return Receipt(
        device=device,
        grad=grad,
        source="live",
        date=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        where=_fingerprint(),
        state=bench.state(),
        end_to_end=Reading("end to end", whole.samples, whole.calls_per_block),
        loop=loop,
        stages=stages,
        control=(whole, readings[AGAIN].minus(loop.ns)),
        ladder=bench.ladder(readings, whole),
        ladder_groups=_groups(readings, {s.stage: s.ns for s in stages}, whole.ns, device, grad),
        arms={name: readings[name].minus(loop.ns) for name in bench.python_arms if name not in (WHOLE, AGAIN, LOOP)},
        in_program=curve,
        first_call=firsts,
        notes=tuple(bench.notes),
    )


# ------------------------------------------------------------------------------------------------ the race


class _Inputs(ctypes.Structure):
    """`Inputs` of csrc/clock.h."""

    _fields_ = [("a", ctypes.py_object), ("b", ctypes.py_object), ("a_impl", ctypes.c_void_p), ("b_impl", ctypes.c_void_p)]


class _Bench:
    """The inputs in their states, and an arm for each thing to time."""

    def __init__(self, device: str, grad: bool):
        self.device, self.grad = device, grad
        self.why: dict[str, str] = {}  # what is missing, by the name of its C++ unit
        self.notes: list[str] = []
        a, b = self._pair()
        self.kept = a + b  # with grad: the inputs' gradient accumulators live as long as some result does
        seen_a, seen_b = self._pair()
        self.views = (seen_a.view(-1), seen_b.view(-1))
        lost_a, lost_b = self._pair()
        self.python_arms: dict[str, Arm] = {
            WHOLE: _adding(a, b),
            AGAIN: _adding(a, b),
            LOOP: _empty,
            "view alive": _adding(seen_a, seen_b),
            "result dropped": _dropping(lost_a, lost_b),
            "torch.add(a, b)": _calling(_torch_add(), a, b),
            "a.add(b)": _method(a, b),
            CALL: _calling_nothing(),
        }
        if not grad:
            self.python_arms["torch.add(a, b, out=c)"] = _into(_torch_add(), a, b)
        if (bound := seams.pybind_call()) is not None:
            self.python_arms[PYBIND] = _calling_one(bound, a)
        self.inputs = self._borrowed(a, b)
        self.c_arms: dict[str, Arm] = self._c_arms()
        self.faults: dict[str, int] = {}

    def race(self, blocks: int, seed: int | None, progress: Progress | None) -> dict[str, Reading]:
        """All arms in one interleaved loop. Notes how many pages each arm faulted in, which must be none."""
        arms = {**self.python_arms, **self.c_arms}
        if self.device == "cuda":
            arms = {name: self._synchronised(arm) for name, arm in arms.items()}
        calls = {name: self._short(arms[name]) for name in arms if self._launches(name)}
        return interleave(arms, blocks=blocks, seed=seed, progress=progress, calls=calls, at_most_s=30.0)

    def stages(self, readings: dict[str, Reading]) -> tuple[StagePrice, ...]:
        """One row for each stage, in the order of `stages.yml`; a stage that was not measured says why."""
        rows = []
        for piece in PIECES:
            if piece.stage == "autograd_node" and not self.grad:
                continue
            reading, difference = readings.get(piece.arm), None
            if reading is not None:
                off = sum(readings[name].ns for name in piece.minus if name in readings)
                reading = Reading(piece.stage, reading.minus(off).samples, reading.calls_per_block)
            if piece.bracket and all(name in readings for name in piece.bracket):
                difference = readings[piece.bracket[0]].ns - readings[piece.bracket[1]].ns
            rows.append(StagePrice(piece.stage, reading, difference, "" if reading else self.why.get(piece.unit, "not measured")))
        return tuple(rows)

    def ladder(self, readings: dict[str, Reading], whole: Reading) -> tuple[Reading, ...]:
        """The entry points from Python down to the kernel's, as far as they were measured."""
        rungs = [Reading("Python: " + WHOLE, whole.samples, whole.calls_per_block)]
        for arm, title in RUNGS:
            if arm in readings:
                r = readings[arm]
                rungs.append(Reading(title.format(device=self.device), r.samples, r.calls_per_block))
        return tuple(rungs)

    def state(self) -> tuple[str, ...]:
        """In which state the op was priced, in words."""
        return (
            "one element, float32, on " + self.device,
            "both inputs need a gradient" if self.grad else "no input needs a gradient",
            "inputs held by Python only (no view of them alive)",
            "result kept until the next one exists",
            "one thread, garbage collector off, hot: the same op over and over",
        )

    def _pair(self):
        import torch

        a, b = torch.rand(1, device=self.device), torch.rand(1, device=self.device)
        return a.requires_grad_(self.grad), b.requires_grad_(self.grad)

    def _borrowed(self, a, b):
        if not seams.has_impl_address():
            return None
        return _Inputs(a, b, seams.impl_address(a), seams.impl_address(b))

    def _c_arms(self) -> dict[str, Arm]:
        """An arm for each C++ loop that could be built and loaded; the others leave the reason in `self.why`."""
        arms: dict[str, Arm] = {}
        for unit in units(self.device):
            names = [p.arm for p in PIECES if p.unit == unit.source and p.arm != "boundary"]
            names += HELPERS.get(unit.source, ())
            names += [arm for arm, _ in RUNGS] if unit.source == "ladder" else []
            try:
                if unit.source == "python_boundary":
                    x, y = _addends(unit, self.kept)
                    arms["boundary"] = _adding(x, y)
                    arms["entry_glue"] = self._c_arm(unit, "entry_glue", _Inputs(x, y, None, None))
                elif self.inputs is None:
                    raise ProbeError("this torch does not give out the address of a tensor")
                else:
                    for name in names:
                        if self.grad or name not in NEEDS_GRAD:
                            arms[name] = self._c_arm(unit, name, self.inputs)
            except ProbeError as error:
                self.why[unit.source] = str(error)
        return arms

    def _c_arm(self, unit: Unit, name: str, inputs: _Inputs) -> Arm:
        run, pointer = function(unit, name), ctypes.addressof(inputs)

        def arm(n: int, _alive=inputs) -> float:
            return run(pointer, n) * 1e-9

        try:
            arm(10)  # an arm that cannot run says so here, where it costs one stage
        except RuntimeError as error:
            raise ProbeError(f"does not run: {str(error).splitlines()[0]}") from None
        return arm

    def _launches(self, name: str) -> bool:
        """Whether an arm puts work into the GPU's queue, so that its blocks must stay short of back-pressure."""
        if self.device != "cuda":
            return False
        return name.startswith("rung_") and name != "rung_empty" or name == "kernel" or name in self.python_arms and name not in (LOOP, CALL, PYBIND)

    def _synchronised(self, arm: Arm) -> Arm:
        import torch

        def run(n: int) -> float:
            torch.cuda.synchronize()
            took = arm(n)
            torch.cuda.synchronize()
            return took

        return run

    def _short(self, arm: Arm) -> int:
        arm(QUEUE_CALLS)
        return max(1, min(QUEUE_CALLS, round(2e-3 * QUEUE_CALLS / arm(QUEUE_CALLS))))


def _addends(unit: Unit, result):
    """Two objects whose `+` goes the way of a tensor's and hands back `result`."""
    base = function(unit, "boundary_type", ctypes.py_object, (ctypes.py_object,))(result)
    addend = type("Addend", (base,), {})
    return addend(), addend()


# ------------------------------------------------------------------------------------------------ arms in Python
# Each keeps what it touches in local variables, as code in a function does. `c` holds the result until the next one exists.


def _adding(a, b) -> Arm:
    def arm(n: int, a=a, b=b) -> float:
        start = clock()
        for _ in repeat(None, n):
            c = a + b  # noqa: F841
        return (clock() - start) * 1e-9

    return arm


def _empty(n: int) -> float:
    start = clock()
    for _ in repeat(None, n):
        pass
    return (clock() - start) * 1e-9


def _dropping(a, b) -> Arm:
    def arm(n: int, a=a, b=b) -> float:
        start = clock()
        for _ in repeat(None, n):
            a + b
        return (clock() - start) * 1e-9

    return arm


def _torch_add():
    import torch

    return torch.add


def _calling(f, a, b) -> Arm:
    def arm(n: int, f=f, a=a, b=b) -> float:
        start = clock()
        for _ in repeat(None, n):
            c = f(a, b)  # noqa: F841
        return (clock() - start) * 1e-9

    return arm


def _method(a, b) -> Arm:
    def arm(n: int, a=a, b=b) -> float:
        start = clock()
        for _ in repeat(None, n):
            c = a.add(b)  # noqa: F841
        return (clock() - start) * 1e-9

    return arm


def _into(f, a, b) -> Arm:
    c = a + b

    def arm(n: int, f=f, a=a, b=b, c=c) -> float:
        start = clock()
        for _ in repeat(None, n):
            f(a, b, out=c)
        return (clock() - start) * 1e-9

    return arm


def _calling_one(f, a) -> Arm:
    def arm(n: int, f=f, a=a) -> float:
        start = clock()
        for _ in repeat(None, n):
            f(a)
        return (clock() - start) * 1e-9

    return arm


def _calling_nothing() -> Arm:
    def nothing():
        pass

    def arm(n: int, f=nothing) -> float:
        start = clock()
        for _ in repeat(None, n):
            f()
        return (clock() - start) * 1e-9

    return arm


# ------------------------------------------------------------------------------------------------ ladder against isolates


def _groups(readings, stages, whole_ns, device, grad) -> tuple[LadderGroup, ...]:
    """Each step of the ladder beside the sum of the isolates that should fill it; only steps whose parts were all measured."""

    def ns(*names):
        return [stages.get(n, readings[n].ns if n in readings else None) for n in names]

    def group(name, upper, lower, step, parts, ids):
        if None in step or None in parts:
            return None
        counted = tuple(zip(ids, parts, strict=True))
        return LadderGroup(name, upper, lower, step[0] - sum(step[1:]), sum(parts), tuple(ids), counted)

    entry = f"at::{device}::add"
    glue = readings["entry_glue"].ns if "entry_glue" in readings else None
    boundary = stages.get("python_boundary")
    slots = None if glue is None or boundary is None else boundary - glue
    node = ("autograd_node",) if grad else ()
    below = ("tensor_iterator", "allocator", "output_tensor", "kernel")
    found = [
        group("slots and arguments", "Python", "THPVariable_add", [whole_ns, *ns("rung_method")], [slots], ["python_boundary"]),
        group(
            "front end",
            "THPVariable_add",
            "_ops::add_Tensor::call",
            ns("rung_method", "rung_call"),
            ns("entry_glue", "arg_parser", "front_end_part", "wrap_free"),
            ["python_boundary", "arg_parser", "handle_copies_gil", "wrap_free"],
        ),
        group(
            "dispatch and autograd",
            "_ops::add_Tensor::call",
            entry,
            ns("rung_call", "rung_kernel_entry"),
            ns("dispatcher_hop", "autograd_key", "autograd_part", *node),
            ["dispatcher_hop", "autograd_key", "handle_copies_gil", *node],
        ),
        group("output", "making the output", "", ns("rung_empty"), ns("allocator", "output_tensor"), ["allocator", "output_tensor"]),
        group("C++ kernel entry", entry, "", ns("rung_kernel_entry"), ns(*below), below),
    ]
    return tuple(g for g in found if g is not None)


def _fingerprint() -> dict:
    from utils.measure.machine import fingerprint

    return fingerprint()


class _Parts:
    """Shares one progress bar among the parts of a receipt, by their expected seconds."""

    def __init__(self, progress: Progress | None, **seconds: float):
        self.progress = progress
        total = sum(seconds.values()) or 1.0
        self.spans, start = {}, 0.0
        for name, s in seconds.items():
            self.spans[name] = (start, s / total)
            start += s / total

    def part(self, name: str) -> Progress | None:
        if self.progress is None:
            return None
        start, width = self.spans[name]
        return lambda done, text: self.progress(start + width * done, text)
