"""The readings of lab 2: recorded on real machines, another set for every learner, and a colleague's receipt to be judged.

`sheet(who)` is what a bench hands over: how long every block took, nothing computed yet. `own()` is the same for this machine.
`report(seed, fault)` is a finished receipt in which at most one thing is wrong. All of it starts from the committed recordings
and is perturbed by a seed, so the same name gives the same nanoseconds everywhere. Where a reading holds two parts of the add,
it is put together from theirs. There are no answers in this file.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from utils.labs.learner import NOBODY as NOBODY
from utils.labs.learner import name_of as name_of  # the lab's notebook takes it from here
from utils.labs.learner import seed_of
from utils.model import recordings, schemas
from utils.model.readings import Receipt, quantile

SOUND, TWICE, MISSING, UNIT, MEDIAN, LOOP = FAULTS = ("sound", "twice", "missing", "unit", "median", "loop")
LINE, AGAIN, EMPTY = "c = a + b", "c = a + b (again)", "empty loop"
TENSOR = "output_tensor"

# Which parts of the add one reading may hold, by the name of the reading. Those of one part come with the stages' own names.
TOGETHER = {
    "memory and tensor": ("allocator", TENSOR),
    "tensor and its Python object": (TENSOR, "wrap_free"),
    "hops and Autograd's checks": ("dispatcher_hop", "autograd_key"),
    "boundary and parser": ("python_boundary", "arg_parser"),
}


@dataclass(frozen=True)
class Raw:
    """One reading as the clock gave it. `blocks` are the ns that each block took, all of its `calls` together.

    `looped_by` is "Python" where a Python loop repeats the call, and then that loop is in the blocks too; "C++" where the loop
    costs nothing worth counting.
    """

    name: str
    looped_by: str
    calls: int
    blocks: tuple[float, ...]


@dataclass(frozen=True)
class Sheet:
    """The readings of one add on one machine, by name: the line and its twin, the empty loop, rungs of the ladder, pieces.

    `ladder` names the rungs, the whole line first; `pieces` tells of each piece which parts of the add it contains; `parts` are
    all parts that there are, and `groups` the group of each. `curve` holds the same line after N other ops, by N, in ns a call.
    """

    label: str
    parts: tuple[str, ...]
    groups: dict[str, str]
    readings: dict[str, Raw]
    ladder: tuple[str, ...]
    pieces: dict[str, tuple[str, ...]]
    curve: dict[int, float]

    def about(self, name: str) -> str:
        """What the reading of this name is of, in words."""
        if name in self.pieces:
            return f"piece: {' and '.join(self.pieces[name])}"
        named = {LINE: "the whole line, top of the ladder", AGAIN: "its twin: the same line", EMPTY: "nothing, many times"}
        return named.get(name, "rung of the ladder")


@dataclass(frozen=True)
class Line:
    """One printed line: its name, the parts of the add that it counts, the price that was printed, and the ns a call of every
    block behind it."""

    name: str
    parts: tuple[str, ...]
    printed: float
    blocks: tuple[float, ...]


@dataclass(frozen=True)
class Report:
    """A colleague's receipt. `parts` are all parts that an add has. `whole` is the line of Python; the empty loop, `loop_ns` a
    call, is still in the blocks of `whole` and in no other blocks."""

    parts: tuple[str, ...]
    lines: tuple[Line, ...]
    whole: Line
    loop_ns: float


def sheet(who: str, *, grad: bool = False) -> Sheet:
    """The readings of a recorded machine, perturbed by the name: the same name gives the same sheet. With `grad`, the same
    machine with inputs that need a gradient."""
    seed = seed_of(who, 2)
    machine = random.Random(seed)
    receipt, speed = machine.choice(_machines())[grad], machine.uniform(0.85, 1.2)
    factors = {part: machine.uniform(0.92, 1.08) for part in sorted(_known_parts())}  # the same with grad and without
    return _sheet(receipt, random.Random(f"{seed}/{grad}"), speed, factors)


def own() -> Sheet:
    """The readings of this machine: of the newest receipt that it kept (the GPU's first), else of a short race now, else recorded
    elsewhere. The label says which. Imports torch.
    """
    from utils.model import results

    receipt = results.latest_receipt("cuda") or results.latest_receipt("cpu") or _live()
    if receipt is None or not any(stage.isolate for stage in receipt.stages):
        receipt = _machines()[0][False]
    return _sheet(receipt, random.Random("own"))


def _live() -> Receipt | None:
    """A short race on this machine; None where the pieces of the add were never compiled (lesson 05 does that)."""
    from utils.measure.stages import price_stages, probe_status

    if not probe_status("cpu").cached:
        return None
    try:
        return price_stages("cpu", blocks=24, in_program=False, first_call=False)
    except RuntimeError:
        return None


# ------------------------------------------------------------------------------------------------ from a receipt to raw readings


@lru_cache(maxsize=1)
def _machines() -> list[tuple[Receipt, Receipt]]:
    """(without grad, with grad) of every recorded machine and device that has both, with a price for every stage.

    Raises recordings.RecordingError when there is none: then this copy of the course is damaged.
    """
    found = []
    for stem in recordings.available():
        receipts = recordings.load(stem).receipts
        for device in ("cpu", "cuda"):
            pair = receipts.get(device), receipts.get(f"{device}_grad")
            if all(r is not None and r.complete and r.ladder and r.in_program for r in pair):
                found.append(pair)
    if not found:
        raise recordings.RecordingError("no recording has whole receipts with and without grad: lab 2 has nothing to show")
    return found


def _sheet(receipt: Receipt, rng: random.Random, speed: float = 1.0, factors: Mapping[str, float] | None = None) -> Sheet:
    """Undo what the receipt computed: calls put back into blocks, the loop back into what Python looped, overlaps back.

    `speed` multiplies every block, `factors` the parts by name; with factors it is another day, too: other blocks are disturbed.
    """

    def raw(name: str, samples: Sequence[float], *, python: bool = False) -> Raw:
        calls = rng.randint(300, 1_900)
        loop = receipt.loop.samples if python and name != EMPTY else [0.0] * len(samples)
        blocks = [speed * calls * (ns + turn) for ns, turn in zip(samples, loop)]
        if factors:
            start = rng.randrange(len(blocks))
            blocks = [ns + abs(ns) * _disturbance(rng) for ns in blocks[start:] + blocks[:start]]
        return Raw(name, "Python" if python else "C++", calls, tuple(round(ns, 1) for ns in blocks))

    def together(parts: Sequence[str]) -> list[float]:
        return [sum(at) for at in zip(*(measured[part] for part in parts))]

    of = factors or {}
    measured = {s.stage: [ns * of.get(s.stage, 1.0) for ns in s.isolate.samples] for s in receipt.stages if s.isolate}
    pieces, rungs = _pieces(list(measured), rng), receipt.ladder[1:]
    made = [raw(EMPTY, receipt.loop.samples, python=True)]
    made += [raw(name, r.samples, python=True) for name, r in zip((LINE, AGAIN), receipt.control)]
    made += [raw(r.name, r.samples) for r in rungs]
    made += [raw(name, together(parts)) for name, parts in pieces.items()]
    curve = [(n, round(r.ns * speed, 1)) for n, r in receipt.in_program]
    if factors:
        rng.shuffle(curve)
    parts, label = tuple(s.stage for s in receipt.stages), recordings.receipt_label(receipt)
    return Sheet(
        label=f"{label} · perturbed by your name" if factors else label,
        parts=parts,
        groups={part: _known_parts().get(part, "other") for part in parts},
        readings={r.name: r for r in made},
        ladder=(LINE, *(r.name for r in rungs)),
        pieces=pieces,
        curve=dict(curve),
    )


def _disturbance(rng: random.Random) -> float:
    """By which fraction a block is too long: one in ten is, and takes 1.4 to 3 times its time."""
    return rng.uniform(0.4, 2.0) if rng.random() < 0.1 else 0.0


def _known_parts() -> dict[str, str]:
    """The stages of an add, each with the title of its group."""
    catalogue = schemas.load("stages")
    titles = {group["id"]: group["title"] for group in catalogue["groups"]}
    return {stage["id"]: titles[stage["group"]] for stage in catalogue["stages"]}


def _pieces(measured: Sequence[str], rng: random.Random) -> dict[str, tuple[str, ...]]:
    """Readings from which every measured part can be priced in one way: alone, or by what another reading leaves.

    Of the two parts that a reading holds together, the second may have no reading of its own. In random order; the part that
    is had last always takes two steps, from the memory over the tensor to its Python object.
    """
    alone, together = set(measured), {}
    for name, parts in TOGETHER.items():
        chained = TENSOR in parts
        if set(measured).issuperset(parts) and (chained or rng.random() < 0.75):
            together[name] = parts
            if chained or rng.random() < 0.7:
                alone.discard(parts[1])
    pieces = [*((part, (part,)) for part in measured if part in alone), *together.items()]
    rng.shuffle(pieces)
    return dict(pieces)


# ------------------------------------------------------------------------------------------------ a colleague's receipt


def report(seed: int, fault: str = SOUND, *, loaded: bool = False) -> Report:
    """A receipt in which `fault` (one of FAULTS) is planted and nothing else is wrong; prices are printed to 0.1 ns.

    The parts may sum to more than the whole, and the machine may be `loaded` (always when the fault is MEDIAN); where the fault
    is none, or which lines there are, a line may hold two parts and two may cost the same. None of that is a fault.
    Raises ValueError for a fault that there is not.
    """
    if fault not in FAULTS:
        raise ValueError(f"there is no fault {fault!r}; there are: {', '.join(FAULTS)}")
    rng = random.Random(f"one-add-priced/lab 2/report {seed}")
    receipt = rng.choice(_machines())[rng.random() < 0.5]
    prices = {s.stage: max(25.0, abs(s.ns)) * rng.uniform(0.85, 1.15) for s in receipt.stages}
    tricky, q = fault in (SOUND, TWICE, MISSING), 0.5 if fault == MEDIAN else 0.25

    def line(name: str, parts: tuple[str, ...], ns: float, off: float = 0.0) -> Line:
        blocks = _weather(ns, rng, loaded or fault == MEDIAN, off)
        return Line(name, parts, round(quantile(list(blocks), q) - off, 1), blocks)

    groups = [(part,) for part in prices]
    if rng.random() < 0.5 and tricky:
        groups = _joined(groups, TOGETHER["memory and tensor"])
    lines = []
    for parts in groups:
        one, ns = None, sum(prices[p] for p in parts)
        while one is None or any(one.printed == other.printed for other in lines):
            one, ns = line(" and ".join(parts), parts, ns), ns * 1.01
        lines.append(one)
    i, j = rng.sample(range(len(lines)), 2)
    if seed % 2 and tricky:  # two parts that cost the same to the last digit
        lines[i] = replace(lines[j], name=lines[i].name, parts=lines[i].parts)
    loop_ns = round(rng.uniform(4.0, 9.0), 2)
    total = sum(quantile(list(one.blocks), 0.25) for one in lines) / rng.uniform(0.86, 1.05)
    whole = line(LINE, tuple(prices), total + loop_ns, off=loop_ns)
    planted = _planted(fault, lines, whole, loop_ns, line, seed)
    return Report(tuple(prices), tuple(planted[0]), planted[1], loop_ns)


def _weather(ns: float, rng: random.Random, loaded: bool, off: float) -> tuple[float, ...]:
    """41 blocks around a price: the noise only adds; on a loaded machine more than half of the blocks were disturbed.

    Lower quartile and median are told apart by what is printed, also where `off` comes off one of them.
    """
    while True:
        disturbed = set(rng.sample(range(41), 26 if loaded else 3))
        noisy = [ns * (1.0 + rng.expovariate(100.0)) + rng.expovariate(0.5) for _ in range(41)]
        blocks = tuple(round(t * (rng.uniform(1.3, 2.5) if i in disturbed else 1.0), 2) for i, t in enumerate(noisy))
        apart = quantile(list(blocks), 0.5) - quantile(list(blocks), 0.25)
        if apart > 0.5 and abs(apart - off) > 0.5:
            return blocks


def _joined(groups: list[tuple[str, ...]], parts: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The groups with those of `parts` made one, where the first of them stood."""
    place = groups.index(parts[:1])
    rest = [group for group in groups if group[0] not in parts]
    return [*rest[:place], parts, *rest[place:]]


def _planted(
    fault: str, lines: list[Line], whole: Line, loop_ns: float, line: Callable[..., Line], seed: int
) -> tuple[list[Line], Line]:
    """The lines and the whole with one fault in them; MEDIAN is in the printed prices already. The seed says where and how,
    so that the kinds of a fault are all there whatever was recorded."""
    i = seed % len(lines)
    one = lines[i]
    if fault == MISSING:
        return [other for other in lines if other is not one], whole
    if fault == TWICE:  # a line that counts its neighbour's parts as well, or a second line for the same part
        other = lines[(i + 1) % len(lines)]
        if seed % 2:
            return [*lines, replace(one, name=f"{one.name}, second reading")], whole
        both = line(f"{other.name} with {one.name}", (*other.parts, *one.parts), min(other.blocks) + min(one.blocks))
        return [both if kept is other else kept for kept in lines], whole
    if fault == UNIT:
        if seed % 4 == 1:
            return lines, replace(whole, printed=round(whole.printed / 1e3, 4))
        return [replace(kept, printed=round(kept.printed / 1e3, 4)) if kept is one else kept for kept in lines], whole
    if fault == LOOP:
        return lines, replace(whole, printed=round(quantile(list(whole.blocks), 0.25), 1))
    return lines, whole
