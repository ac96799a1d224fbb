"""The world that lab 10 is graded on: traces of sick and healthy programs, drawn for every name, and what each cure would save.

A `Program` is made up: ops with prices, some illness built in. Played through the queue of `utils.model.costmodel` it gives a
`Trace`, which is what a learner's functions see. `truth` says what is wrong with a program without reading a trace: it cures the
program in each way that there is, plays it again, and takes the cure that saves most. No torch here, no clock.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from utils.labs.learner import seed_of
from utils.model import costmodel

LAB = 10
ILLNESSES = ("reads_out", "waits_for_data", "recompiles", "recaptures", "launch_bound", "unfused", "wide_dtype")
NONE = "none_of_these"
WORTH = 0.1  # of a step: a cure that saves less is none
HOST_KINDS = {
    "waits_for_data": "load",
    "recompiles": "compile",
    "recaptures": "record",
}  # illness: the host's events that show it


class Event(NamedTuple):
    """One event of a trace. Times in µs from the trace's begin.

    `lane` is "host" or "device". On the host, `kind` is "op" (the way of one op, with what lies inside it), "launch" (the call that
    starts a kernel) or "replay" (the call that starts a whole graph), both inside an op; "wait" (the host stands still until the
    device has nothing left), inside an op or alone; "load", "compile", "record" (the next batch is fetched, code is compiled, a
    graph is recorded). On the device it is "kernel". `link`: a launch or replay and all kernels that it started carry the same number.
    Of a kernel: the bytes that it moves and its FLOPs, counted from shapes; its dtype; and, where it is one of a `chain` of
    elementwise kernels that could be one kernel (the chain's number, else 0), the bytes of these that are only `handed` on from
    kernel to kernel.
    """

    lane: str
    kind: str
    name: str
    start: float
    end: float
    link: int = 0
    nbytes: int = 0
    flops: int = 0
    dtype: str = ""
    chain: int = 0
    handed: int = 0


@dataclass(frozen=True)
class Roofs:
    """What the device can do at best: GB/s (1e9 bytes a second), for each dtype TFLOP/s (1e12 a second), and what a kernel takes
    that does nothing, µs."""

    gbps: float
    tera: dict[str, float]
    floor_us: float


@dataclass(frozen=True)
class Trace:
    """What was seen of a program: its events in the order of their begin, for each of its steps (start, end) on the host, and the
    roofs of its device. The first step warms up."""

    events: tuple[Event, ...]
    steps: tuple[tuple[float, float], ...]
    roofs: Roofs


@dataclass(frozen=True)
class Patient:
    """A trace with the diagnosis that its program has by construction, and the parts of a step that the program was made of."""

    trace: Trace
    diagnosis: str
    facts: dict[str, float]


# ------------------------------------------------------------------------------------------------ programs


@dataclass(frozen=True)
class Work:
    """One op of a program. host_us: its way on the host; kernel_us: its kernel; `read`: after it the host waits for the device."""

    name: str
    host_us: float
    kernel_us: float
    nbytes: int = 0
    flops: int = 0
    dtype: str = "bf16"
    chain: int = 0
    handed: int = 0
    read: bool = False


@dataclass(frozen=True)
class Other:
    """Something that only the host does: "load", "compile" or "record"."""

    kind: str
    us: float


@dataclass(frozen=True)
class Program:
    """Steps of ops; `graph` where each step's kernels are replayed as one graph, for `replay_us` of the host."""

    steps: tuple[tuple[Work | Other, ...], ...]
    roofs: Roofs
    graph: bool
    replay_us: float
    launch_us: float
    gap_us: float


def play(program: Program) -> tuple[costmodel.Slot, ...]:
    """The program through the queue: one slot for each item of each step, in order."""
    return costmodel.queue(_priced(program), gap_us=program.gap_us, sync_us=1.0).slots


def step_us(program: Program) -> float:
    """What one more step takes, µs: from the end of the first to the end of the last."""
    ends, at, slots = [], 0, play(program)
    for step in program.steps:
        at += len(step)
        ends.append(max(max(slot.issued, slot.ended or 0.0) for slot in slots[:at]))
    return (ends[-1] - ends[0]) / (len(ends) - 1)


def _priced(program: Program) -> list[costmodel.Op]:
    priced = []
    for step in program.steps:
        first = True
        for item in step:
            if isinstance(item, Other):
                priced.append(costmodel.Op(item.us, name=item.kind))
                continue
            launch = min(program.launch_us, item.host_us) if not program.graph else 0.0
            host = item.host_us - launch if not program.graph else program.replay_us * first
            priced.append(costmodel.Op(host, launch, item.kernel_us, item.read, item.name))
            first = False
    return priced


def cured(program: Program, illness: str) -> Program:
    """The program without one illness. Raises ValueError where that cure cannot be had."""
    works = [item for step in program.steps for item in step if isinstance(item, Work)]
    if illness == "launch_bound":
        if program.graph or any(item.read for item in works):
            raise ValueError("it is a graph already, or a read-out stands in its way")
        return replace(program, graph=True)
    if illness in HOST_KINDS:
        kind = HOST_KINDS[illness]
        return replace(program, steps=tuple(tuple(i for i in step if getattr(i, "kind", "") != kind) for step in program.steps))
    change = {"reads_out": _unread, "unfused": _fused, "wide_dtype": _narrow}[illness]
    return replace(program, steps=tuple(tuple(change(step, program.roofs)) for step in program.steps))


def _unread(step: Sequence[Work | Other], roofs: Roofs) -> Iterator[Work | Other]:
    return (replace(item, read=False) if isinstance(item, Work) else item for item in step)


def _fused(step: Sequence[Work | Other], roofs: Roofs) -> Iterator[Work | Other]:
    """Each chain as one kernel, which moves what none of its kernels hands to the next."""
    chains: dict[int, list[Work]] = {}
    for item in step:
        if isinstance(item, Work) and item.chain:
            chains.setdefault(item.chain, []).append(item)
    for item in step:
        links = chains.get(getattr(item, "chain", 0))
        if links is None:
            yield item
        elif item is links[-1]:
            nbytes = sum(work.nbytes - work.handed for work in links)
            us = roofs.floor_us + nbytes / (roofs.gbps * 1e3)
            yield replace(item, kernel_us=min(us, sum(work.kernel_us for work in links)), nbytes=nbytes, chain=0, handed=0)


def _narrow(step: Sequence[Work | Other], roofs: Roofs) -> Iterator[Work | Other]:
    """Each fp32 product on the units for bf16."""
    for item in step:
        if isinstance(item, Work) and item.flops and item.dtype == "fp32":
            best = max(item.flops / (roofs.tera["bf16"] * 1e6), item.nbytes / 2 / (roofs.gbps * 1e3))
            item = replace(item, kernel_us=min(item.kernel_us, best), dtype="bf16")
        yield item


def saved(program: Program) -> dict[str, float]:
    """illness: the share of a step that curing it saves, by playing the cured program."""
    before, found = step_us(program), {}
    for illness in ILLNESSES:
        try:
            found[illness] = 1 - step_us(cured(program, illness)) / before
        except ValueError:
            found[illness] = 0.0
    return found


def truth(program: Program) -> str | None:
    """The illness whose cure saves most, or NONE; None for a program near a border, on which two may differ."""
    shares = saved(program)
    first, second = sorted(shares.values())[-1:-3:-1]
    if first < 0.06:
        return NONE
    if first < 1.5 * WORTH or second > 0.75 * first:
        return None
    found = max(shares, key=shares.get)
    return None if found == "unfused" and _by_launches(program) else found


def _by_launches(program: Program) -> bool:
    """Fusing saves what it saves mostly because fewer ops are issued: one cure for two illnesses, and both names would be right."""
    works = [item for item in program.steps[-1] if isinstance(item, Work)]
    host = sum(item.us if isinstance(item, Other) else item.host_us * (not program.graph) for item in program.steps[-1])
    return host > 0.8 * (sum(work.kernel_us for work in works) - _shorter(program, "unfused")) and host > 0.5 * step_us(program)


# ------------------------------------------------------------------------------------------------ what is seen of a program


def seen(program: Program) -> Trace:
    """The program's trace, the wait at its end that closes the measurement included."""
    slots, events, marks, at, link = play(program), [], [], 0, 0
    for number, step in enumerate(program.steps):
        begun, replays = slots[at].begun, True
        for item in step:
            slot = slots[at]
            at += 1
            if isinstance(item, Other):
                events.append(Event("host", item.kind, _OTHERS[item.kind], slot.begun, slot.issued))
                continue
            after = _after(slot, at, slots)
            if program.graph:
                if replays:
                    link += 1
                    events.append(Event("host", "op", "replay", slot.begun, slot.issued if not item.read else after))
                    events.append(
                        Event("host", "replay", "graph launch", slot.begun + 0.2 * (slot.issued - slot.begun), slot.issued, link)
                    )
                elif item.read:
                    events.append(Event("host", "op", "item", slot.begun, after))
                replays = False
            else:
                link += 1
                events.append(Event("host", "op", item.name, slot.begun, after if item.read else slot.issued))
                events.append(Event("host", "launch", "launch kernel", slot.issued - slot.op.launch_us, slot.issued, link))
            if item.read:
                events.append(Event("host", "wait", "synchronize", slot.issued, after))
            kernel = (link, item.nbytes, item.flops, item.dtype, item.chain and 10 * number + item.chain, item.handed)
            events.append(Event("device", "kernel", f"{item.name}_kernel", slot.started, slot.ended, *kernel))
        marks.append((begun, _after(slots[at - 1], at, slots)))
    drained = max(slot.ended or 0.0 for slot in slots)
    if drained > marks[-1][1]:
        events.append(Event("host", "wait", "synchronize", marks[-1][1], drained))
    return Trace(tuple(sorted(events, key=lambda e: (e.start, -e.end))), tuple(marks), program.roofs)


_OTHERS = {"load": "next batch", "compile": "compile a graph", "record": "record a graph"}


def _after(slot: costmodel.Slot, following: int, slots: Sequence[costmodel.Slot]) -> float:
    """When the host is done with an op, its waiting included."""
    if following < len(slots):
        return slots[following].begun
    return max(slot.issued, slot.ended or 0.0) + 1.0 if slot.op.sync else slot.issued


def facts(program: Program) -> dict[str, float]:
    """The parts of one step, µs, from the program and the queue: the mean over the steps behind the first."""
    slots, at, n = play(program), len(program.steps[0]), len(program.steps) - 1
    found = dict.fromkeys(("issue", "wait", "load", "compile", "record", "device"), 0.0)
    for item in (item for step in program.steps[1:] for item in step):
        slot = slots[at]
        at += 1
        if isinstance(item, Other):
            found[item.kind] += item.us / n
        else:
            found["issue"] += (slot.issued - slot.begun) / n
            found["wait"] += (_after(slot, at, slots) - slot.issued) / n if item.read else 0.0
            found["device"] += item.kernel_us / n
    return {"step": step_us(program), **found, **{cure: _shorter(program, cure) for cure in ("unfused", "wide_dtype")}}


def _shorter(program: Program, illness: str) -> float:
    """µs of a step by which a cure of the kernels shortens them."""

    def kernels(one: Program) -> float:
        return sum(item.kernel_us for step in one.steps[1:] for item in step if isinstance(item, Work))

    return (kernels(program) - kernels(cured(program, illness))) / (len(program.steps) - 1)


# ------------------------------------------------------------------------------------------------ traces by hand, and in disguise

ROOFS = Roofs(1000.0, {"bf16": 200.0, "fp32": 20.0}, 2.0)  # 1e6 bytes a µs; 2e8 FLOP a µs in bf16, 2e7 in fp32


def host(kind: str, start: float, end: float, link: int = 0) -> Event:
    """An event on the host's lane."""
    return Event("host", kind, kind, start, end, link)


def kernel(start: float, end: float, link: int = 0, **work) -> Event:
    """A kernel; `work`: nbytes, flops, dtype, chain, handed."""
    return Event("device", "kernel", "kernel", start, end, link, **work)


def trace_of(events: Sequence[Event], steps: Sequence[tuple[float, float]], roofs: Roofs = ROOFS) -> Trace:
    """A trace of these events, in the order of their begin."""
    return Trace(tuple(sorted(events, key=lambda e: (e.start, -e.end))), tuple(steps), roofs)


def disguised(trace: Trace, seed) -> Trace:
    """The same trace with other names, other numbers for its links, and another begin of time: as ill as it was."""
    rng = random.Random(f"lab 10/disguise/{seed}")
    names, later = {}, float(rng.randint(1, 10**6))
    links = list(range(1, 1 + max((e.link for e in trace.events), default=0)))
    rng.shuffle(links)
    links.insert(0, 0)
    events = [
        e._replace(
            name=names.setdefault(e.name, f"{rng.randrange(16**6):06x}"),
            start=e.start + later,
            end=e.end + later,
            link=links[e.link],
        )
        for e in trace.events
    ]
    return Trace(tuple(events), tuple((start + later, end + later) for start, end in trace.steps), trace.roofs)


def queued(seed) -> tuple[Trace, list[int], list[list[float]]]:
    """A trace whose device runs far behind its host, with launches and replays; for each step, how many calls started something,
    and the lengths of the kernels that they started."""
    rng = random.Random(f"lab 10/queued/{seed}")
    events, steps, calls, lengths, now, free, link = [], [], [], [], 0.0, 5.0, 0
    for _ in range(rng.randint(2, 5)):
        begun, here = now, []
        many = rng.choice((0, 1, 2, 5, 6, 9))
        for _ in range(many):
            link += 1
            kind, started = ("launch", 1) if rng.random() < 0.8 else ("replay", rng.randint(2, 6))
            events += [host("op", now, now + 4.0), host(kind, now + 2.0, now + 4.0, link)]
            now += 4.0
            for _ in range(started):
                us, start = float(rng.randint(1, 40)), max(free, now) + 0.5
                events.append(kernel(start, start + us, link))
                here.append(us)
                free = start + us
        now += 3.0
        steps.append((begun, now))
        calls.append(many)
        lengths.append(here)
    return trace_of(events, steps), calls, lengths


# ------------------------------------------------------------------------------------------------ programs that are drawn


def ward(who: str) -> list[Patient]:
    """Ten programs of this name, whose diagnoses are known: each illness once, two in one program, and two that are well."""
    return list(_patients(seed_of(who, LAB), (*ILLNESSES, "two", NONE, NONE)))


def unseen(seed) -> list[Patient]:
    """Ten programs of a class that nobody's ward has, in disguise: as `ward`, for hidden tests."""
    found = _patients(f"{seed_of('', LAB)}/unseen/{seed}", (*ILLNESSES, "two", NONE, NONE))
    return [replace(patient, trace=disguised(patient.trace, f"{seed}/{i}")) for i, patient in enumerate(found)]


@lru_cache(maxsize=32)
def _patients(seed: str, wanted: tuple[str, ...]) -> tuple[Patient, ...]:
    rng = random.Random(seed)
    found = []
    for want in wanted:
        program, diagnosis = _drawn(rng, want)
        found.append(Patient(seen(program), diagnosis, facts(program)))
    rng.shuffle(found)
    return tuple(found)


def _drawn(rng: random.Random, want: str) -> tuple[Program, str]:
    """A program with this diagnosis ("two": with a second illness that is worth a cure), and the diagnosis."""
    while True:
        program = _program(rng, rng.choice(ILLNESSES) if want == "two" else want, want == "two")
        diagnosis = truth(program)
        if want == "two" and diagnosis not in (None, NONE):
            if sum(share > 1.2 * WORTH for share in saved(program).values()) > 1:
                return program, diagnosis
        elif diagnosis == want:
            return program, diagnosis


def _program(rng: random.Random, illness: str, second: bool) -> Program:
    """One program: a body that keeps the device busy or does not, and what makes it ill. What comes of it, `truth` says."""
    host_us, bf16 = rng.uniform(5.0, 11.0), rng.uniform(90.0, 900.0)
    roofs = Roofs(
        round(rng.uniform(400.0, 4000.0)),
        {"bf16": round(bf16), "fp32": round(bf16 / rng.uniform(7, 16))},
        round(rng.uniform(1.2, 2.6), 1),
    )
    body = _Body(rng, roofs, host_us)
    graph = illness == "recaptures" or (illness == "unfused" and rng.random() < 0.6) or (illness == NONE and rng.random() < 0.3)
    illnesses = {illness} | ({rng.choice([i for i in ILLNESSES if i not in (illness, "recaptures")])} if second else set())
    for other in ("unfused", "recompiles"):  # fusing takes launches away as well; some steps compile and others do not
        if illnesses >= {"launch_bound", other}:
            illnesses.discard(other if illness == "launch_bound" else "launch_bound")
    works = _works(rng, body, illnesses, graph)
    if "reads_out" in illnesses and not graph:
        every = rng.randint(2, 4) if "launch_bound" not in illnesses else rng.randint(3, 8)
        works = [replace(work, read=(i + 1) % every == 0 or i == len(works) - 1) for i, work in enumerate(works)]
    elif illness == NONE and rng.random() < 0.5:  # a read-out for which hardly anybody waits
        works[-1] = replace(works[-1], read=True)
    device = sum(work.kernel_us for work in works)
    busy = max(device, 0.0 if graph else host_us * len(works))
    steps, many = [], 5
    compiles = {0} | (set(rng.sample(range(1, many), rng.randint(2, 3))) if "recompiles" in illnesses else set())
    for number in range(many):
        step: list[Work | Other] = [_jitter(rng, work) for work in works]
        if "waits_for_data" in illnesses:
            step.insert(0, Other("load", rng.uniform(0.9, 2.2) * busy * (rng.uniform(0.5, 0.9) if second else 1.0)))
        elif illness in (NONE, "unfused", "wide_dtype"):  # the next batch comes while the device works
            step.insert(0, Other("load", rng.uniform(0.02, 0.3) * max(0.0, device - 1.3 * host_us * len(works))))
        if number in compiles and (illness != "launch_bound" or rng.random() < 0.5):
            step.insert(0, Other("compile", rng.uniform(1.5, 5.0) * busy))
        if graph and (number == 0 or "recaptures" in illnesses):
            step.insert(0, Other("record", rng.uniform(0.5, 1.5) * busy + 2.0 * host_us * len(works)))
        steps.append(tuple(step))
    return Program(tuple(steps), roofs, graph, round(rng.uniform(6.0, 12.0), 1), rng.uniform(1.5, 3.0), rng.uniform(0.3, 0.9))


def _works(rng: random.Random, body: _Body, illnesses: set[str], graph: bool) -> list[Work]:
    """The ops of one step."""
    if "launch_bound" in illnesses:
        works = [body.small(rng.uniform(0.25, 0.8)) for _ in range(rng.randint(12, 22))]
        if "wide_dtype" in illnesses:
            works += [body.product(rng.uniform(3.0, 8.0), "fp32") for _ in range(2)]
        return works
    if illnesses == {"reads_out"}:
        return [body.small(rng.uniform(0.6, 1.5)) for _ in range(rng.randint(8, 18))]
    dtype = "fp32" if "wide_dtype" in illnesses else "bf16"
    works = [body.product(rng.uniform(2.5, 9.0), dtype) for _ in range(rng.randint(2, 5))]
    works += [body.large(rng.uniform(2.0, 5.0)) for _ in range(rng.randint(0, 3))]
    works += [body.small(rng.uniform(0.3, 0.9)) for _ in range(rng.randint(1, 3))]
    if illnesses == {NONE} and rng.random() < 0.3:  # one product and next to nothing else
        works = [body.product(rng.uniform(40.0, 90.0), "bf16"), body.small(0.5)]
    if "unfused" in illnesses:
        tiny = graph and rng.random() < 0.5
        for chain in range(1, rng.randint(2, 3)):
            works += body.chained(rng.randint(4, 8), rng.uniform(0.3, 0.8) if tiny else rng.uniform(2.5, 7.0), chain)
        if tiny:
            works = [work for work in works if not work.flops]
    return works


@dataclass(frozen=True)
class _Body:
    """Makes ops for one device; lengths of kernels as multiples of the host's time for an op."""

    rng: random.Random
    roofs: Roofs
    host_us: float

    def small(self, times: float) -> Work:
        us = max(self.roofs.floor_us * 1.02, times * self.host_us)
        return self._work(self._name(), us, nbytes=int((us - self.roofs.floor_us) * self.roofs.gbps * 300))

    def large(self, times: float) -> Work:
        return self._work(self._name(), times * self.host_us, nbytes=self._bytes(times * self.host_us))

    def product(self, times: float, dtype: str) -> Work:
        us = times * self.host_us + self.roofs.floor_us
        flops = int((us - self.roofs.floor_us) * self.roofs.tera[dtype] * 1e6 * self.rng.uniform(0.7, 0.92))
        return self._work("mm", us, nbytes=self._bytes(us) // 8, flops=flops, dtype=dtype)

    def chained(self, many: int, times: float, chain: int) -> list[Work]:
        us = max(self.roofs.floor_us * 1.1, times * self.host_us)
        half = self._bytes(us) // 2
        handed = [half, *[2 * half] * (many - 2), half]
        return [self._work(self._name(), us, nbytes=2 * half, chain=chain, handed=h) for h in handed]

    def _bytes(self, us: float) -> int:
        return int((us - self.roofs.floor_us) * self.roofs.gbps * 1e3 * self.rng.uniform(0.8, 0.93)) // 64 * 64

    def _work(self, name: str, us: float, **more) -> Work:
        return Work(name, self.host_us, us, **more)

    def _name(self) -> str:
        return self.rng.choice(("add", "mul", "relu", "gelu", "norm", "softmax", "copy", "where"))


def _jitter(rng: random.Random, work: Work) -> Work:
    """The same op in another step: a little longer or shorter."""
    return replace(work, host_us=work.host_us * rng.uniform(0.93, 1.08), kernel_us=work.kernel_us * rng.uniform(1.0, 1.03))
