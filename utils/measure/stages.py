"""The price of each stage of `c = a + b`, measured on its own, beside the price of the whole: what adds up to the receipt.

Every stage of `utils/data/stages.yml` has an isolate: a piece of C++ (`csrc/`) that does this stage's work and nothing else, in
the state that it has in a program: inputs held by Python only, the previous result alive until the next one exists, and the
other pieces of the op running between (`utils.measure.replica`). The whole, the isolates, the entry points of the ladder, an
empty loop and an A/A pair run in one interleaved race (`stopwatch.interleave`), so that they meet the same weather.

The stages are a partition: `PIECES` says which segments price which stage and what is taken off, because another stage counts
it. Nothing is derived from the price of the whole. What the stages leave of it is the receipt's *context*. The same pieces in
tight loops of their own (`StagePrice.alone_ns`) stand beside them: there each has the CPU's front end to itself.

Without a compiler the Python-only arms are measured and each stage says why it is missing.
"""

from __future__ import annotations

import datetime
import resource
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from utils.measure import python_arms
from utils.measure.probe import ProbeError, ProbeStatus, build_probe, probe_status, units
from utils.measure.python_arms import AGAIN, LOOP, WHOLE
from utils.measure.replica import LAPS, UNIT_OF, WARM_UP, Replica
from utils.measure.stopwatch import QUEUE_CALLS, interleave
from utils.model.readings import LadderGroup, Reading, Receipt, StagePrice

__all__ = ["PIECES", "ProbeStatus", "build_probe", "price_stages", "probe_status"]

Arm = Callable[[int], float]
Progress = Callable[[float, str], None]
BLOCK_MS = 2.0
TRIES = 8  # of 100 calls, to set the calls of a block
STRETCHES = {"cpu": 8, "cuda": 4}  # of a block: on CUDA each begins with an empty queue and a warm-up, so fewer and longer ones


@dataclass(frozen=True)
class Piece:
    """How a stage is priced: the laps `of` of the replica, less the readings `less`, which hold what other stages count.

    A lap is "plan/steps" (`replica.PLANS`). `alone` names the same in tight loops: the first counts, the others come off.
    Where two laps bracket the stage, their difference `bracket[0] - bracket[1]` is shown beside it and used for nothing.
    """

    stage: str
    of: tuple[str, ...]
    less: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()
    bracket: tuple[str, str] | None = None


FREE = "alone: free_memory"  # what memory free of charge costs all the same
PIECES = (
    Piece("python_boundary", ("whole/outside",), alone=("outside",)),
    Piece("arg_parser", ("whole/parse",), alone=("parse",)),
    Piece("dispatcher_hop", ("parts/hops",), alone=("hops",)),
    Piece("autograd_key", ("checks/autograd_checks",), ("unchecked/hops+copies_held",), ("checks", "unchecked")),
    Piece("autograd_node", ("node/node",), alone=("node",), bracket=("whole/autograd_real", "checks/autograd_checks")),
    Piece("handle_copies_gil", ("parts/gil_release", "parts/copies", "parts/gil_take"), alone=("handles",)),
    Piece("tensor_iterator", ("whole/iterator",), alone=("iterator",)),
    Piece("allocator", ("whole/memory",), alone=("memory",), bracket=("empty/empty", "output/output")),
    Piece("output_tensor", ("output/output",), (FREE,), ("output", "free_memory"), ("empty/empty", "whole/memory")),
    Piece("wrap_free", ("whole/wrapped_output",), ("output/output",), ("wrapped_output", "output")),
    Piece("kernel", ("whole/compute",), alone=("compute",)),
)
NUMBER_ADD, METHOD, CALL, ENTRY = "number_add/number_add", "method/method", "call/call", "kernel_entry/kernel_entry"
GLUE, COPIES, EMPTY = "glue/entry_glue", "parts/copies", "empty/empty"
RUNGS = (
    (NUMBER_ADD, "PyNumber_Add"),
    (METHOD, "THPVariable_add"),
    (CALL, "_ops::add_Tensor::call"),
    ("below_autograd/below_autograd", "call below Autograd"),
    (ENTRY, "at::{device}::add"),
)


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
    seconds). Compiles the probe first where it is not in the cache. About 15 s once compiled.

    Raises ValueError for another device and RuntimeError for "cuda" without a GPU that torch can use.
    """
    import torch

    units(device)
    if device == "cuda" and not torch.cuda.is_available():
        raise RuntimeError("no CUDA device that torch can use: load the recorded receipt instead (utils.model.recordings)")
    compiling = 0.0 if probe_status(device).cached else 45.0
    on_device = 10.0 * (device == "cuda" and not grad)
    tell = _Parts(progress, compile=compiling, race=9.0, program=3.0 * in_program, first=4.0 * first_call, lanes=on_device)
    build_probe(device, tell.part("compile"))
    bench = _Bench(device, grad)
    readings = bench.race(blocks, seed, tell.part("race"))
    whole = readings[WHOLE]
    stages = bench.stages(readings)
    curve = ()
    if in_program:
        from utils.measure.programs import in_program_curve

        curve = ((0, whole), *in_program_curve(device, grad, progress=tell.part("program")))
    firsts = ()
    if first_call:
        from utils.measure.first_call import first_calls

        firsts = first_calls(device, progress=tell.part("first"))
    device_time, trouble = _device_lanes(device, grad, tell.part("lanes"))
    return Receipt(
        device=device,
        grad=grad,
        source="live",
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        where=_fingerprint(),
        state=bench.state(),
        end_to_end=_named(whole, "end to end"),
        loop=readings[LOOP],
        stages=stages,
        control=(whole, readings[AGAIN]),
        ladder=bench.ladder(readings),
        ladder_groups=_groups(readings, {s.stage: s.ns for s in stages}, device, grad),
        arms=bench.extras(readings),
        in_program=curve,
        first_call=firsts,
        device_time=device_time,
        notes=(*bench.notes(readings), *trouble),
    )


def _device_lanes(device: str, grad: bool, progress: Progress | None) -> tuple[dict[str, Reading], tuple[str, ...]]:
    """(what the GPU takes and how long it waits, what went wrong). With grad the kernel is the same and not timed again."""
    if device != "cuda" or grad:
        return {}, ()
    from utils.measure.lanes import lanes

    try:
        return lanes(device, progress=progress), ()
    except Exception as error:  # a driver that refuses to capture, say, must not cost the reader the host's receipt
        return {}, (f"the GPU's own times could not be measured: {error}",)


# ------------------------------------------------------------------------------------------------ the race


class _Bench:
    """The inputs in their states, an arm for each thing to time, and the prices that come of their readings."""

    def __init__(self, device: str, grad: bool):
        import torch

        self.device, self.grad = device, grad
        self.why: dict[str, str] = {}  # what is missing, by the name of its C++ unit

        def pair():
            return tuple(torch.rand(1, device=device).requires_grad_(grad) for _ in range(2))

        a, b = pair()
        self.kept = a + b  # with grad: the inputs' gradient accumulators live as long as some result does
        self.python = python_arms.make(a, b, pair(), pair(), grad)
        self.replica: Replica | None = None
        try:
            self.replica = Replica(device, a, b)
            self.why = self.replica.why
        except ProbeError as error:
            self.why = dict.fromkeys(UNIT_OF.values(), str(error))
        self.faults: Counter[str] = Counter()

    def race(self, blocks: int, seed: int | None, progress: Progress | None) -> dict[str, Reading]:
        """All arms in one interleaved loop, and the laps of the replica; ns a call, the empty Python loop taken off."""
        plain = {**self.python, **(self.replica.arms(self.grad) if self.replica else {})}
        arms = {name: self._watched(name, arm) for name, arm in plain.items()}
        readings = interleave(
            arms,
            blocks=blocks,
            block_ms=BLOCK_MS,
            seed=seed,
            progress=progress,
            calls={name: self._calls(name, arm) for name, arm in plain.items()},
            at_most_s=40.0,
            stretches=STRETCHES[self.device],
            after_round=self.replica.keep if self.replica else None,
        )
        loop = readings[LOOP].ns
        in_c = [n for n in readings if n.startswith("alone: ") and n != "alone: outside"]
        out = {name: r if name == LOOP or name in in_c else r.minus(loop) for name, r in readings.items()}
        return {**out, **self.replica.readings(out, loop)} if self.replica else out

    def _calls(self, name: str, arm: Arm) -> int:
        """Calls a block: of 2 ms, or of half a ms for what is shown beside and added to nothing.

        On CUDA no block launches more than the queue takes without pushing back. Set by the quickest of several tries: an arm
        that was preempted in all of two tries got so few calls that its blocks' fixed costs made it 300 ns dearer than it is.
        """
        added = name in (WHOLE, AGAIN, LOOP, "replica", "padded replica") or name.startswith(LAPS)
        quickest = min(arm(100) for _ in range(TRIES))
        calls = max(1, round((BLOCK_MS if added else BLOCK_MS / 4) * 1e-3 * 100 / max(1e-9, quickest)))
        launches = name in python_arms.LAUNCHES or name not in self.python
        return min(calls, QUEUE_CALLS) if self.device == "cuda" and launches else calls

    def _watched(self, name: str, arm: Arm) -> Arm:
        """The arm with an empty queue before and after (CUDA), and its page faults counted; both outside its clock."""
        synchronise = None
        if self.device == "cuda":
            import torch

            synchronise = torch.cuda.synchronize

        def run(n: int) -> float:
            if synchronise:
                synchronise()
            if name in self.python:
                arm(WARM_UP)
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            took = arm(n)
            self.faults[name] += resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
            if synchronise:
                synchronise()
            return took

        return run

    def stages(self, readings: Mapping[str, Reading]) -> tuple[StagePrice, ...]:
        """One row for each stage, in the order of `stages.yml`; a stage that was not measured says why."""
        rows = []
        for piece in PIECES:
            if piece.stage == "autograd_node" and not self.grad:
                continue
            reading, difference = _less(readings, piece.of, piece.less), None
            alone = _less(readings, (f"alone: {piece.alone[0]}",), tuple(f"alone: {n}" for n in piece.alone[1:]))
            if piece.bracket and all(name in readings for name in piece.bracket):
                difference = readings[piece.bracket[0]].ns - readings[piece.bracket[1]].ns
            why = "" if reading else self._why(piece)
            rows.append(
                StagePrice(
                    piece.stage,
                    None if reading is None else _named(reading, piece.stage),
                    difference,
                    why,
                    None if alone is None else alone.ns,
                )
            )
        return tuple(rows)

    def _why(self, piece: Piece) -> str:
        """Why a stage has no price: the first unit it needs that is missing."""
        steps = [step for key in (*piece.of, *piece.less) for step in key.split("/")[-1].removeprefix("alone: ").split("+")]
        needed = [UNIT_OF.get(step, "python_boundary") for step in steps]  # what is outside the steps is the boundary's
        missing = [u for u in needed if u in self.why]
        return f"{missing[0]}: {self.why[missing[0]]}" if missing else "not measured"

    def ladder(self, readings: Mapping[str, Reading]) -> tuple[Reading, ...]:
        """The entry points from Python down to the kernel's, as far as they were measured."""
        rungs = [_named(readings[WHOLE], "Python: " + WHOLE)]
        rungs += [_named(readings[name], title.format(device=self.device)) for name, title in RUNGS if name in readings]
        return tuple(rungs)

    def extras(self, readings: Mapping[str, Reading]) -> dict[str, Reading]:
        """The same op in other states, other spellings of it, calls that do nothing, and the replica as a whole."""
        names = [n for n in self.python if n not in (WHOLE, AGAIN, LOOP)]
        return {n: readings[n] for n in (*names, *(["replica"] if "replica" in readings else []))}

    def state(self) -> tuple[str, ...]:
        """In which state the op was priced, in words."""
        return (
            f"one element, float32, on {self.device}",
            "both inputs need a gradient" if self.grad else "no input needs a gradient",
            "inputs held by Python only (no view of them alive)",
            "result kept until the next one exists",
            "one thread, garbage collector off, hot: the same op over and over",
        )

    def notes(self, readings: Mapping[str, Reading]) -> tuple[str, ...]:
        """What a reader should know of this race: page faults, the clock's own price, units that are missing."""
        blocks = {name: len(readings[name].samples) for name in readings}
        many = {name: f for name, f in self.faults.items() if f > 0.05 * blocks[name] * readings[name].calls_per_block}
        notes = [
            f"page faults in {', '.join(sorted(many))}: their prices are too high"
            if many
            else "page faults: none to speak of in any arm"
        ]
        if self.replica:
            rebuilt, clock = readings["replica"].ns, self.replica.clock_ns(readings)
            notes.append(
                f"rebuilt from its pieces the op takes {rebuilt:,.0f} ns; a reading of the clock adds {clock:.1f} ns, taken off"
            )
        notes += [f"{unit} is missing: {why}" for unit, why in self.why.items()]
        return tuple(notes)


def _less(readings: Mapping[str, Reading], names: tuple[str, ...], off: tuple[str, ...]) -> Reading | None:
    """Laps of one plan, added block by block, with others taken off; None when one of them was not measured."""
    if any(n not in readings for n in (*names, *off)):
        return None
    first, samples = readings[names[0]], zip(*(readings[n].samples for n in names), strict=True)
    return Reading(names[0], tuple(map(sum, samples)), first.calls_per_block).minus(sum(readings[n].ns for n in off))


def _named(reading: Reading, name: str) -> Reading:
    return Reading(name, reading.samples, reading.calls_per_block)


# ------------------------------------------------------------------------------------------------ ladder against isolates


def _groups(
    readings: Mapping[str, Reading], stages: Mapping[str, float | None], device: str, grad: bool
) -> tuple[LadderGroup, ...]:
    """Each step of the ladder beside the isolates that should fill it; a step whose parts were not all measured is left out."""
    ns = {name: r.ns for name, r in readings.items()} | {name: price for name, price in stages.items() if price is not None}
    if GLUE in ns and "python_boundary" in ns:
        ns["slots"] = ns["python_boundary"] - ns[GLUE]
    if COPIES in ns and "handle_copies_gil" in ns:
        ns["front_end_copies"] = ns["handle_copies_gil"] - ns[COPIES]
    entry = f"at::{device}::add"
    node = [("autograd_node", "autograd_node")] if grad else []
    same = [(s, s) for s in ("tensor_iterator", "allocator", "output_tensor", "kernel")]
    # name, the rungs' titles and keys, and of each stage the part that lies between them
    steps = [
        # From PyNumber_Add, which is entered inside a pass as THPVariable_add is: the whole is not, and stands in warmer code.
        ("slots and arguments", ("PyNumber_Add", NUMBER_ADD), ("THPVariable_add", METHOD), [("python_boundary", "slots")]),
        (
            "front end",
            ("THPVariable_add", METHOD),
            ("_ops::add_Tensor::call", CALL),
            [
                ("python_boundary", GLUE),
                ("arg_parser", "arg_parser"),
                ("handle_copies_gil", "front_end_copies"),
                ("wrap_free", "wrap_free"),
            ],
        ),
        (
            "dispatch and autograd",
            ("_ops::add_Tensor::call", CALL),
            (entry, ENTRY),
            [("dispatcher_hop", "dispatcher_hop"), ("autograd_key", "autograd_key"), ("handle_copies_gil", COPIES), *node],
        ),
        ("output", ("making the output", EMPTY), None, same[1:3]),
        ("C++ kernel entry", (entry, ENTRY), None, same),
    ]
    groups = []
    for name, upper, lower, parts in steps:
        needed = [upper[1], *([lower[1]] if lower else []), *(key for _, key in parts)]
        if all(key in ns for key in needed):
            priced = tuple((stage, ns[key]) for stage, key in parts)
            step = ns[upper[1]] - (ns[lower[1]] if lower else 0.0)
            groups.append(
                LadderGroup(
                    name,
                    upper[0],
                    lower[0] if lower else "",
                    step,
                    sum(p for _, p in priced),
                    tuple(stage for stage, _ in priced),
                    priced,
                )
            )
    return tuple(groups)


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
