"""What a learner's functions see in lab 10: a trace, and traces made by hand or in disguise for tests. No torch, no clock."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

LAB = 10
ILLNESSES = ("reads_out", "waits_for_data", "recompiles", "recaptures", "launch_bound", "unfused", "wide_dtype")
NONE = "none_of_these"
HOST_KINDS = {"waits_for_data": "load", "recompiles": "compile", "recaptures": "record"}  # illness: what the host shows of it
KERNEL_CURES = ("unfused", "wide_dtype")


class Event(NamedTuple):
    """One event of a trace. Times in µs from the trace's begin.

    `lane` is "host" or "device". On the host, `kind` is "op" (the way of one op, with what lies inside it), "launch" (the call
    that starts a kernel) or "replay" (the call that starts a whole graph), both inside an op; "wait" (the host stands still until
    the device has nothing left), inside an op or alone; "load", "compile", "record" (the next batch is fetched, code is compiled,
    a graph is recorded). On the device it is "kernel". `link`: a launch or replay and all kernels that it started carry the same
    number.
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


def facts_of(**us: float) -> dict[str, float]:
    """The facts of a step with these µs, and 0 for what is left out."""
    return dict.fromkeys(("issue", "wait", "load", "compile", "record", "device", *KERNEL_CURES), 0.0) | us


def disguised(trace: Trace, seed) -> Trace:
    """The same trace with other names, other numbers for its links, and another begin of time: as ill as it was."""
    rng = random.Random(f"lab 10/disguise/{seed}")
    later = float(rng.randint(1, 10**6))
    names = {name: f"{rng.randrange(16**6):06x}" for name in sorted({e.name for e in trace.events})}
    links = list(range(1, 1 + max((e.link for e in trace.events), default=0)))
    rng.shuffle(links)
    links.insert(0, 0)
    events = [e._replace(name=names[e.name], start=e.start + later, end=e.end + later, link=links[e.link]) for e in trace.events]
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
            if rng.random() < 0.2:  # an op without a kernel
                events.append(host("op", now, now + 1.0))
                now += 1.0
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
