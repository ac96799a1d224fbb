"""A memory plan: when buffers live, how much lives at once, and where each can lie in one arena. No torch, no clock.

A buffer lives in the half-open interval [start, end) of moments: one that ends at moment 5 and one that starts at 5 may share
bytes. Sizes count rounded up to the alignment, as an allocator hands them out; a buffer of no bytes takes none and meets nobody.
Placing buffers whose times are fixed is *dynamic storage allocation*: NP-hard, so a planner is a heuristic. What it can be held
against is `peak`, the most bytes that live at once, which no arena can be smaller than; and, for a handful of buffers, `optimum`.

`by_size` is the greedy of Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020 (arXiv
2001.03288), used in TensorFlow Lite: largest first, each into the smallest gap that holds it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

ALIGN = 64  # bytes: a cache line, and what torch's CPU allocator aligns to; its CUDA allocator rounds up to 512


class BadPlan(ValueError):
    """An arena in which something is wrong; the message names the buffers and their places."""


@dataclass(frozen=True)
class Buffer:
    """`size` bytes that are needed from moment `start` up to, not including, moment `end`. `id` is its name in a plan.

    ValueError for a negative size and for an end that is not after the start.
    """

    id: Hashable
    size: int
    start: int
    end: int

    def __post_init__(self):
        if self.size < 0:
            raise ValueError(f"buffer {self.id!r} has a size of {self.size} bytes")
        if self.end <= self.start:
            raise ValueError(f"buffer {self.id!r} ends at moment {self.end} and starts at {self.start}: it lives at no moment")

    def meets(self, other: Buffer) -> bool:
        """Whether both live at some moment."""
        return self.start < other.end and other.start < self.end


@dataclass(frozen=True)
class Plan:
    """Where each buffer lies: `offsets` (bytes from the arena's start) by id, and the arena's `size` in bytes."""

    offsets: dict[Hashable, int]
    size: int
    planner: str = ""


def aligned(size: int, align: int = ALIGN) -> int:
    """`size` rounded up to a multiple of `align` bytes."""
    return -(-size // align) * align


# ------------------------------------------------------------------------------------------------ the two ends


def total(buffers: Iterable[Buffer], align: int = ALIGN) -> int:
    """The bytes of all buffers: what an arena takes in which nothing is used twice."""
    return sum(aligned(b.size, align) for b in buffers)


def profile(buffers: Iterable[Buffer], align: int = ALIGN) -> list[tuple[int, int]]:
    """The live bytes over time: (moment, bytes alive from this moment on), a step for each moment at which they change."""
    change: dict[int, int] = {}
    for b in buffers:
        change[b.start] = change.get(b.start, 0) + aligned(b.size, align)
        change[b.end] = change.get(b.end, 0) - aligned(b.size, align)
    steps, live = [], 0
    for moment in sorted(change):
        if change[moment]:
            live += change[moment]
            steps.append((moment, live))
    return steps


def peak(buffers: Iterable[Buffer], align: int = ALIGN) -> int:
    """The most bytes that live at one moment: the lower bound of every arena."""
    return max((live for _, live in profile(buffers, align)), default=0)


# ------------------------------------------------------------------------------------------------ planners


def no_reuse(buffers: Iterable[Buffer], align: int = ALIGN) -> Plan:
    """Each buffer after the one before it: the sum."""
    offsets, top = {}, 0
    for b in buffers:
        offsets[b.id] = top
        top += aligned(b.size, align)
    return Plan(offsets, top, "no reuse")


def first_fit(buffers: Iterable[Buffer], align: int = ALIGN) -> Plan:
    """In the order of time, each at the lowest offset that is free: what an allocator can do that does not know what comes."""
    order = sorted(buffers, key=lambda b: b.start)  # stable: the order given decides between equals
    return _placed(order, align, _lowest, "first fit")


def best_fit(buffers: Iterable[Buffer], align: int = ALIGN) -> Plan:
    """In the order of time, each into the smallest gap that holds it."""
    return _placed(sorted(buffers, key=lambda b: b.start), align, _tightest, "best fit")


def by_size(buffers: Iterable[Buffer], align: int = ALIGN) -> Plan:
    """The largest first (of equals the one that lives longer), each into the smallest gap that holds it."""
    order = sorted(buffers, key=lambda b: (-b.size, b.start - b.end, b.start))
    return _placed(order, align, _tightest, "by size")


def by_area(buffers: Iterable[Buffer], align: int = ALIGN) -> Plan:
    """The largest product of bytes and time first, each at the lowest offset that is free."""
    order = sorted(buffers, key=lambda b: (-aligned(b.size, align) * (b.end - b.start), -b.size, b.start))
    return _placed(order, align, _lowest, "by area")


def by_time(buffers: Iterable[Buffer], align: int = ALIGN) -> Plan:
    """The longest life first (of equals the larger), each at the lowest offset that is free."""
    order = sorted(buffers, key=lambda b: (b.start - b.end, -b.size, b.start))
    return _placed(order, align, _lowest, "by time")


PLANNERS: dict[str, Callable[..., Plan]] = {
    "no reuse": no_reuse,
    "first fit": first_fit,
    "best fit": best_fit,
    "by size": by_size,
    "by area": by_area,
    "by time": by_time,
}


def best_of(buffers: Sequence[Buffer], align: int = ALIGN) -> Plan:
    """The smallest of the plans above."""
    return min((plan(buffers, align) for plan in PLANNERS.values()), key=lambda plan: plan.size)


def in_order(buffers: Iterable[Buffer], align: int = ALIGN) -> Plan:
    """In the order given, each at the lowest offset that is free. For each trace some order gives the smallest arena there is."""
    return _placed(list(buffers), align, _lowest, "in order")


def _placed(order: Sequence[Buffer], align: int, choose: Callable, name: str) -> Plan:
    """Each buffer at the offset that `choose` takes among the gaps that those placed before leave while it lives."""
    offsets: dict[Hashable, int] = {}
    index, top = Placed([b for b in order if b.size]), 0
    for b in order:
        if b.id in offsets:
            raise ValueError(f"two buffers have the id {b.id!r}")
        size = aligned(b.size, align)
        offsets[b.id] = choose(_gaps(index.during(b)), size) if size else 0
        if size:
            index.add(b, offsets[b.id], size)
            top = max(top, offsets[b.id] + size)
    return Plan(offsets, top, name)


def _gaps(taken: list[tuple[int, int]]) -> Iterator[tuple[int, int | None]]:
    """(offset, bytes) of what is free between the (offset, end) that are taken; the last gap has no end: None."""
    free = 0
    for offset, end in sorted(taken):
        if offset > free:
            yield free, offset - free
        free = max(free, end)
    yield free, None


def _lowest(gaps: Iterator[tuple[int, int | None]], size: int) -> int:
    return next(offset for offset, room in gaps if room is None or room >= size)


def _tightest(gaps: Iterator[tuple[int, int | None]], size: int) -> int:
    best, room_of_best = 0, None
    for offset, room in gaps:
        if room is None:
            return offset if room_of_best is None else best
        if room >= size and (room_of_best is None or room < room_of_best):
            best, room_of_best = offset, room
    raise AssertionError("the last gap has no end")


@dataclass
class Placed:
    """The buffers placed so far, found by time without a look at all of them: time is cut into stretches, and each holds those
    that live in it. One that lives for long stands in many stretches, so that a search meets it once a stretch."""

    buffers: Sequence[Buffer]
    _cuts: list[int] = field(default_factory=list)
    _stretches: list[list[tuple[int, int, int, int]]] = field(default_factory=list)

    def __post_init__(self):
        starts = sorted({b.start for b in self.buffers})
        self._cuts = starts[8::8]  # about eight starts a stretch: few strangers met, few stretches to stand in
        self._stretches = [[] for _ in range(len(self._cuts) + 1)]

    def during(self, b: Buffer) -> list[tuple[int, int]]:
        """(offset, end) of those placed that live at some moment of `b`."""
        found = set()
        for i in self._of(b):
            found.update((offset, end) for start, stop, offset, end in self._stretches[i] if start < b.end and b.start < stop)
        return list(found)

    def add(self, b: Buffer, offset: int, size: int) -> None:
        for i in self._of(b):
            self._stretches[i].append((b.start, b.end, offset, offset + size))

    def _of(self, b: Buffer) -> range:
        """The stretches that `b` lives in: stretch i ends where cut i begins."""
        return range(bisect_left(self._cuts, b.start + 1), bisect_left(self._cuts, b.end) + 1)


# ------------------------------------------------------------------------------------------------ is a plan right?


def validate(buffers: Sequence[Buffer], offsets: dict[Hashable, int], align: int = ALIGN, size: int | None = None) -> int:
    """The bytes of the arena that `offsets` need, when every buffer has its own.

    Raises BadPlan naming the first buffer without an offset, with a negative one, off the alignment or past `size` (where it is
    given), or the two that overlap; the two are found in one sweep over time, so that 10,000 buffers take no minute.
    """
    top = 0
    for b in buffers:
        if b.id not in offsets:
            raise BadPlan(f"buffer {b.id!r} has no offset")
        offset = offsets[b.id]
        if isinstance(offset, bool) or not isinstance(offset, int) or offset < 0:
            raise BadPlan(f"buffer {b.id!r} has the offset {offset!r}: a whole number of bytes, 0 or more, is wanted")
        if not b.size:
            continue
        if offset % align:
            raise BadPlan(f"buffer {b.id!r} lies at {offset:,}, which is no multiple of {align}")
        top = max(top, offset + aligned(b.size, align))
        if size is not None and offset + aligned(b.size, align) > size:
            raise BadPlan(f"buffer {b.id!r} ends at {offset + aligned(b.size, align):,}, past the arena's {size:,} bytes")
    strangers = offsets.keys() - {b.id for b in buffers}
    if strangers:
        raise BadPlan(f"the plan places {sorted(map(repr, strangers))[0]}, which is no buffer")
    pair = overlap(buffers, offsets, align)
    if pair:
        raise BadPlan(_two(*pair, offsets, align))
    return top


def overlap(buffers: Sequence[Buffer], offsets: dict[Hashable, int], align: int = ALIGN) -> tuple[Buffer, Buffer] | None:
    """The first two buffers (in time) that live at one moment and share bytes, or None."""
    sized = [b for b in buffers if b.size]
    steps = [(b.end, 0, n) for n, b in enumerate(sized)] + [(b.start, 1, n) for n, b in enumerate(sized)]
    live: list[tuple[int, int, int]] = []  # (offset, end, number) of those alive, none over another: neighbours are enough
    for _, starts, n in sorted(steps):
        b = sized[n]
        here = (offsets[b.id], offsets[b.id] + aligned(b.size, align), n)
        at = bisect_left(live, here)
        if not starts:
            del live[at]
            continue
        for other in live[max(0, at - 1) : at + 1]:
            if other[0] < here[1] and here[0] < other[1]:
                return sized[other[2]], b
        insort(live, here)
    return None


def _two(a: Buffer, b: Buffer, offsets: dict[Hashable, int], align: int) -> str:
    def where(x: Buffer) -> str:
        end = offsets[x.id] + aligned(x.size, align)
        return f"{x.id!r} (bytes {offsets[x.id]:,} to {end:,}, moments {x.start} to {x.end})"

    return f"buffers {where(a)} and {where(b)} share bytes from {max(offsets[a.id], offsets[b.id]):,} on while both live"


# ------------------------------------------------------------------------------------------------ the smallest arena there is


def optimum(buffers: Sequence[Buffer], align: int = ALIGN, most: int = 200_000) -> Plan:
    """A plan of the smallest arena there is, for a handful of buffers: a search that tries every order it cannot rule out.

    Some order placed at the lowest free offsets gives an optimal plan: sort any optimal plan by offset and let each buffer sink.
    So only orders of rising offsets are tried. RuntimeError when `most` steps do not suffice (more than about 12 buffers).
    """
    sized = [b for b in buffers if b.size]
    sizes = [aligned(b.size, align) for b in sized]
    meets = [[j for j, other in enumerate(sized) if j != i and b.meets(other)] for i, b in enumerate(sized)]
    bound, best = peak(sized, align), best_of(sized, align)
    state = {"steps": 0, "size": best.size, "offsets": dict(best.offsets)}

    def place(at: dict[int, int], low: int, top: int) -> None:
        state["steps"] += 1
        if state["steps"] > most:
            raise RuntimeError(f"no proof of the smallest arena of {len(sized)} buffers within {most:,} steps")
        if len(at) == len(sized):
            state["size"], state["offsets"] = top, {sized[i].id: offset for i, offset in at.items()}
            return
        tried = set()
        for i in range(len(sized)):
            if i in at:
                continue
            offset = max((at[j] + sizes[j] for j in meets[i] if j in at), default=0)
            alike = (sizes[i], sized[i].start, sized[i].end)
            if offset < low or alike in tried or offset + sizes[i] >= state["size"]:
                continue
            tried.add(alike)
            place({**at, i: offset}, offset, max(top, offset + sizes[i]))
            if state["size"] == bound:
                return

    if state["size"] > bound:
        place({}, 0, 0)
    return Plan({**state["offsets"], **{b.id: 0 for b in buffers if not b.size}}, state["size"], "optimum")
