"""Programs of lab 10 with an illness by construction: played through the queue, seen as a trace, cured and played again.

`truth` says what is wrong with a program without reading a trace: it cures the program in each way that there is, plays it again,
and takes the cure that saves most. No torch, no clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from utils.labs.diagnose_traces import HOST_KINDS, ILLNESSES, KERNEL_CURES, NONE, Event, Roofs, Trace
from utils.model import costmodel

WORTH = 0.1  # of a step: a cure that saves less is none


@dataclass(frozen=True)
class Work:
    """One op of a program, µs: its way on the host, its kernel; with `read` the host waits for the device after it."""

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
        one = facts(program)
        return NONE if one["device"] > (1 - 0.9 * WORTH) * one["step"] else None
    if first < 1.5 * WORTH or second > 0.75 * first:
        return None
    found = max(shares, key=shares.get)
    if found == "unfused" and _by_launches(program):
        return None
    return None if found in HOST_KINDS and _issue_as_well(program, first) else found


def _by_launches(program: Program) -> bool:
    """What fusing saves, it saves mostly because fewer ops are issued: one cure for two illnesses, and both names are right."""
    works = [item for item in program.steps[-1] if isinstance(item, Work)]
    host = sum(item.us if isinstance(item, Other) else item.host_us * (not program.graph) for item in program.steps[-1])
    return host > 0.8 * (sum(work.kernel_us for work in works) - _shorter(program, "unfused")) and host > 0.5 * step_us(program)


def _issue_as_well(program: Program, share: float) -> bool:
    """What some steps load or compile could as well be saved by issuing faster, on the mean of the steps: near a border."""
    one = facts(program)
    return not one["wait"] and min(one["issue"], one["step"] - one["device"]) > 0.75 * share * one["step"]


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
    return {"step": step_us(program), **found, **{cure: _shorter(program, cure) for cure in KERNEL_CURES}}


def _shorter(program: Program, illness: str) -> float:
    """µs of a step by which a cure of the kernels shortens them."""

    def kernels(one: Program) -> float:
        return sum(item.kernel_us for step in one.steps[1:] for item in step if isinstance(item, Work))

    return (kernels(program) - kernels(cured(program, illness))) / (len(program.steps) - 1)
