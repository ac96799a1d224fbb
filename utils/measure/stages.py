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
from utils.measure.replica import PLANS, UNIT_OF, Replica
from utils.measure.stopwatch import QUEUE_CALLS, interleave
from utils.model.readings import LadderGroup, Reading, Receipt, StagePrice

__all__ = ["PIECES", "ProbeStatus", "build_probe", "price_stages", "probe_status"]

Arm = Callable[[int], float]
Progress = Callable[[float, str], None]
BLOCK_MS = 2.0


@dataclass(frozen=True)
class Piece:
    """How a stage is priced: the segment `of` of the replica, less the segments in `less`, which other stages count.

    Where two segments bracket the stage, their difference `bracket[0] - bracket[1]` is shown beside it and used for nothing.
    """

    stage: str
    of: str
    less: tuple[str, ...] = ()
    bracket: tuple[str, str] | None = None


PIECES = (
    Piece("python_boundary", "boundary"),
    Piece("arg_parser", "parse"),
    Piece("dispatcher_hop", "hops"),
    Piece("autograd_key", "autograd_checks", ("hops", "copies_held")),
    Piece("autograd_node", "node", bracket=("autograd_real", "autograd_checks")),
    Piece("handle_copies_gil", "handles"),
    Piece("tensor_iterator", "iterator"),
    Piece("allocator", "memory", bracket=("empty", "output")),
    Piece("output_tensor", "output", bracket=("empty", "memory")),
    Piece("wrap_free", "wrapped_output", ("output",)),
    Piece("kernel", "compute"),
)
RUNGS = (
    ("number_add", "PyNumber_Add"),
    ("method", "THPVariable_add"),
    ("call", "_ops::add_Tensor::call"),
    ("below_autograd", "call below Autograd"),
    ("kernel_entry", "at::{device}::add"),
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
        self.replica: dict[str, Arm] = {}
        try:
            replica = Replica(device, a, b)
            self.replica = replica.arms(grad)
            self.why = replica.why
        except ProbeError as error:
            self.why = dict.fromkeys(UNIT_OF.values(), str(error))
        self.faults: Counter[str] = Counter()

    def race(self, blocks: int, seed: int | None, progress: Progress | None) -> dict[str, Reading]:
        """All arms in one interleaved loop, in ns a call: the empty loop off the Python arms, the clock off the segments."""
        plain = {**self.python, **self.replica}
        arms = {name: self._watched(name, arm) for name, arm in plain.items()}
        readings = interleave(
            arms, blocks=blocks, block_ms=BLOCK_MS, seed=seed, progress=progress, calls=self._calls(plain), at_most_s=40.0
        )
        loop, pair = readings[LOOP].ns, readings["pair"].ns if "pair" in readings else 0.0
        out = {}
        for name, r in readings.items():
            if name in PLANS:
                off = pair * PLANS[name].pairs
            elif name == "boundary":  # the pass was timed from inside, so one reading of the clock's two is outside
                off = pair + loop
            else:
                off = loop if name in self.python and name != LOOP or name in ("replica", "alone: boundary") else 0.0
            out[name] = r if name == "pair" else r.minus(off)
        return out

    def _calls(self, arms: Mapping[str, Arm]) -> dict[str, int]:
        """Calls a block. A segment is a part of the pass it is timed in, so its own seconds cannot set them.

        On CUDA no block launches more than the queue takes without pushing back.
        """
        calls = {}
        for name, arm in arms.items():
            if name in self.replica and not name.startswith("alone: "):
                arm, ms = arms["replica"], BLOCK_MS
            elif name in (WHOLE, AGAIN, LOOP):
                ms = BLOCK_MS
            else:
                ms = BLOCK_MS / 4  # shown beside, added to nothing
            arm(100)
            calls[name] = max(1, round(ms * 1e-3 * 100 / min(arm(100), arm(100))))
            if self.device == "cuda" and (name in self.replica or name in python_arms.LAUNCHES):
                calls[name] = min(calls[name], QUEUE_CALLS)
        return calls

    def _watched(self, name: str, arm: Arm) -> Arm:
        """The arm with an empty queue before and after (CUDA), and its page faults counted; both outside its clock."""
        synchronise = None
        if self.device == "cuda":
            import torch

            synchronise = torch.cuda.synchronize

        def run(n: int) -> float:
            if synchronise:
                synchronise()
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
            alone = _less(readings, f"alone: {piece.of}", tuple(f"alone: {n}" for n in piece.less))
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
        needed = ["python_boundary"] if piece.of == "boundary" else []
        for segment in (piece.of, *piece.less):
            needed += [UNIT_OF[s] for s in sorted(PLANS[segment].timed)] if segment in PLANS else []
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
        if "pair" in readings:
            notes.append(f"reading the clock twice inside a pass takes {readings['pair'].ns:.1f} ns, already taken off")
        notes += [f"{unit} is missing: {why}" for unit, why in self.why.items()]
        return tuple(notes)


def _less(readings: Mapping[str, Reading], name: str, off: tuple[str, ...]) -> Reading | None:
    """A segment with others taken off; None when one of them was not measured."""
    if name not in readings or any(n not in readings for n in off):
        return None
    return readings[name].minus(sum(readings[n].ns for n in off))


def _named(reading: Reading, name: str) -> Reading:
    return Reading(name, reading.samples, reading.calls_per_block)


# ------------------------------------------------------------------------------------------------ ladder against isolates


def _groups(
    readings: Mapping[str, Reading], stages: Mapping[str, float | None], device: str, grad: bool
) -> tuple[LadderGroup, ...]:
    """Each step of the ladder beside the isolates that should fill it; a step whose parts were not all measured is left out."""
    ns = {name: r.ns for name, r in readings.items()} | {name: price for name, price in stages.items() if price is not None}
    if "entry_glue" in ns and "python_boundary" in ns:
        ns["slots"] = ns["python_boundary"] - ns["entry_glue"]
    if "handles" in ns and "copies" in ns:
        ns["front_end_copies"] = ns["handles"] - ns["copies"]
    entry = f"at::{device}::add"
    node = [("autograd_node", "autograd_node")] if grad else []
    same = [(s, s) for s in ("tensor_iterator", "allocator", "output_tensor", "kernel")]
    # name, the rungs' titles and keys, and of each stage the part that lies between them
    steps = [
        ("slots and arguments", ("Python", WHOLE), ("THPVariable_add", "method"), [("python_boundary", "slots")]),
        (
            "front end",
            ("THPVariable_add", "method"),
            ("_ops::add_Tensor::call", "call"),
            [
                ("python_boundary", "entry_glue"),
                ("arg_parser", "arg_parser"),
                ("handle_copies_gil", "front_end_copies"),
                ("wrap_free", "wrap_free"),
            ],
        ),
        (
            "dispatch and autograd",
            ("_ops::add_Tensor::call", "call"),
            (entry, "kernel_entry"),
            [("dispatcher_hop", "dispatcher_hop"), ("autograd_key", "autograd_key"), ("handle_copies_gil", "copies"), *node],
        ),
        ("output", ("making the output", "empty"), None, same[1:3]),
        ("C++ kernel entry", (entry, "kernel_entry"), None, same),
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
