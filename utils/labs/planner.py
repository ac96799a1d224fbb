"""The world that lab 9 is graded on: events of tensors, traces recorded and drawn, traps for planners, a count of rounds.

Recorded traces come from torch programs that ran on a CPU (`utils.measure.storage_events`); the file says which torch. No torch
here, no clock.
"""

from __future__ import annotations

import json
import random
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache

from utils import paths
from utils.model import memory_plan
from utils.model.memory_plan import BadPlan, Buffer, Plan

LAB = 9
RECORDED = paths.RECORDINGS / "storage_events" / "cpu-torch2.13.json"
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

# The largest gap between what an arena needs and the most that lives at once among some million traces of at most ten buffers,
# and others like it: (bytes, start, end). No plan reaches the bound, and `optimum` proves it.
BEYOND = {
    "eight": [(2, 0, 1), (2, 0, 2), (1, 1, 3), (1, 2, 3), (1, 1, 4), (1, 2, 4), (2, 3, 5), (2, 4, 5)],
    "nine": [(2, 0, 1), (3, 0, 2), (1, 1, 3), (1, 2, 3), (1, 1, 4), (2, 2, 4), (3, 4, 5), (2, 3, 6), (3, 5, 6)],
    "uneven": [(5, 0, 1), (2, 1, 2), (1, 2, 3), (1, 0, 3), (2, 3, 4), (3, 1, 4), (1, 2, 5), (5, 4, 5)],
}


@dataclass(frozen=True)
class Event:
    """One thing that happened to a tensor. `what` is "make" (an op returned it), "input" (an op met it as an argument for the
    first time: it was there before the trace began) or "drop" (nobody holds it any more). `storage` is the number of the memory
    that it looks at, `nbytes` the bytes of that memory. Tensors of 0 bytes have no memory; all of them say storage 0."""

    what: str
    tensor: int
    storage: int
    nbytes: int
    op: str = ""


@dataclass(frozen=True)
class Op:
    """One op of a program: the buffers that its kernel reads and those that it writes, by id. A view reads and writes none."""

    name: str
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Trace:
    """A program that ran: its name, what it is in words, its events, and its buffers as torch's references to storages say."""

    name: str
    what: str
    events: tuple[Event, ...]
    buffers: tuple[Buffer, ...]


@lru_cache(maxsize=1)
def recorded() -> dict[str, Trace]:
    """The four recorded programs, by name."""
    found = {}
    for name, one in json.loads(RECORDED.read_text(encoding="utf-8"))["traces"].items():
        events = tuple(Event(*event) for event in one["events"])
        lives = [(size, start, len(events) if end < 0 else end) for size, start, end in one["lives"]]
        found[name] = Trace(name, one["what"], events, tuple(Buffer(i, *life) for i, life in enumerate(lives)))
    return found


# ------------------------------------------------------------------------------------------------ traces that are drawn


def random_buffers(seed, n: int, alive: int = 8) -> list[Buffer]:
    """`n` buffers of a made-up program, of which about `alive` live at a time, whatever n is: a dozen sizes that come again and
    again, from some bytes to a megabyte, most lives short and a few long."""
    return list(_drawn(seed, n, alive))


@lru_cache(maxsize=64)
def _drawn(seed, n: int, alive: int) -> tuple[Buffer, ...]:
    rng = random.Random(f"lab 9/{seed}")
    sizes = [round(2 ** rng.uniform(5, 20)) for _ in range(12)]
    found = []
    for i in range(n):
        start = 2 * i + rng.randint(0, 1)
        life = 1 + int(rng.expovariate(1 / (2 * alive)))
        found.append(Buffer(i, rng.choice(sizes), start, start + life))
    rng.shuffle(found)
    return tuple(found)


def full_arena(seed, n: int, align: int = 64) -> tuple[list[Buffer], int]:
    """`n` buffers cut out of a full arena of 16,384 aligned units (so that a plan of that size exists, and no smaller one can:
    at each moment the arena is full), and its bytes."""
    rng = random.Random(f"lab 9/full/{seed}")
    pieces = [(1 << 14, 0, 40)]
    while len(pieces) < n:
        units, start, end = pieces.pop(max(range(len(pieces)), key=lambda i: pieces[i][0] * rng.random()))
        if rng.random() < 0.5 and end - start > 1:
            cut = rng.randrange(start + 1, end)
            pieces += [(units, start, cut), (units, cut, end)]
        elif units > 1:
            cut = max(1, round(units * rng.uniform(0.2, 0.8)))
            pieces += [(cut, start, end), (units - cut, start, end)] if cut < units else [(units, start, end)]
        else:
            pieces.append((units, start, end))
    rng.shuffle(pieces)
    return [Buffer(i, units * align, start, end) for i, (units, start, end) in enumerate(pieces)], (1 << 14) * align


def beyond(name: str, align: int = 64) -> list[Buffer]:
    """A trace of which no plan reaches the most that lives at once; BEYOND has the names."""
    return [Buffer(i, size * align, start, end) for i, (size, start, end) in enumerate(BEYOND[name])]


def random_events(seed, n: int) -> list[Event]:
    """About `n` events of a made-up program: results, views, ops in place, inputs met late, tensors of no bytes, memory that is
    handed out again; some tensors are never dropped."""
    rng = random.Random(f"lab 9/events/{seed}")
    events, held, free, tensors, storages = [], {}, [], 0, 0
    while len(events) < n:
        roll = rng.random()
        if roll < 0.42 and held:
            tensor = rng.choice(list(held))
            storage, nbytes = held.pop(tensor)
            events.append(Event("drop", tensor, storage, nbytes))
            if storage and storage not in {other for other, _ in held.values()}:
                free.append(storage)
            continue
        tensors += 1
        looked_at = [pair for pair in held.values() if pair[0]]
        if roll < 0.6 and looked_at:
            storage, nbytes = rng.choice(looked_at)
            what, op = "make", rng.choice(["view", "add_"])
        elif roll < 0.66:
            what, op, storage, nbytes = "make", "empty", 0, 0
        else:
            what = "input" if roll > 0.92 else "make"
            op = "" if what == "input" else "mul"
            again = what == "make" and free and rng.random() < 0.6
            storages += not again
            storage, nbytes = free.pop(rng.randrange(len(free))) if again else storages, rng.randint(1, 5_000)
        held[tensors] = storage, nbytes
        events.append(Event(what, tensors, storage, nbytes, op))
    return events


# ------------------------------------------------------------------------------------------------ what a plan is held against


@dataclass(frozen=True)
class Asked:
    """What a planner answered: the `fault` of its plan in words ("" when it is one), and the arena's `size` in bytes."""

    fault: str
    size: int


def ask(place: Callable, buffers: Sequence[Buffer], align: int = 64) -> Asked:
    """The answer of the planner `place(buffers, align)` for copies of the buffers: whatever it does to them, these are judged."""
    with _own_work():
        offsets = place([replace(b) for b in buffers], align)
    return judged(buffers, offsets, align)


def judged(buffers: Sequence[Buffer], offsets, align: int = 64) -> Asked:
    """A plan held against the buffers: a dict of whole offsets, aligned, and no two buffers on the same bytes while both live."""
    if type(offsets) is not dict:
        return Asked(f"a plan is a dict from a buffer's id to its offset; this is a {type(offsets).__name__}", 0)
    for name, offset in offsets.items():
        if type(offset) is not int:
            return Asked(f"buffer {name!r} has an offset of type {type(offset).__name__}; an int is wanted", 0)
    try:
        return Asked("", memory_plan.validate(buffers, offsets, align))
    except BadPlan as error:
        return Asked(str(error), 0)


@dataclass(frozen=True)
class Tried:
    """What a search answered: the `fault` and `size` of its plan as in `Asked`, what it says of a proof, and its plans."""

    fault: str
    size: int
    proven: object
    plans: int


def tried(search: Callable, buffers: Sequence[Buffer], bound: int, budget: int, align: int = 64) -> Tried:
    """The answer of `search(buffers, bound, in_order, budget)`; its calls of in_order are counted and are to be orders."""
    plans, planned = 0, memory_plan._placed

    def in_order(order: Sequence[Buffer]) -> Plan:
        nonlocal plans
        if sorted(b.id for b in order) != sorted(b.id for b in buffers):
            raise ValueError("an order has each buffer of the trace once")
        plans += 1
        return planned(list(order), align, memory_plan._lowest, "in order")

    with _own_work():
        answer = search([replace(b) for b in buffers], bound, in_order, budget)
    if type(answer) is not tuple or len(answer) != 2:
        return Tried(f"a search returns (offsets, proven); this is a {type(answer).__name__}", 0, None, plans)
    got = judged(buffers, answer[0], align)
    return Tried(got.fault, got.size, answer[1], plans)


class NotYours(AssertionError):
    """The course's planner was asked where the learner's own is judged."""


@contextmanager
def _own_work() -> Iterator[None]:
    """While an answer is judged, the planners of utils.model.memory_plan refuse."""

    def refuse(*given):
        raise NotYours("this asks the course's planner (utils.model.memory_plan); what is judged here is your own")

    planned, memory_plan._placed = memory_plan._placed, refuse
    try:
        yield
    finally:
        memory_plan._placed = planned


class TooManyRounds(AssertionError):
    """A function was stopped because it went round and round."""


def rounds(call: Callable[[], object], most: int = 3_000_000) -> int:
    """How many lines of Python `call` runs: a round of a loop is at least one, a call of a function one more. So much work it is
    on every machine, slow or fast.

    What NumPy and other compiled code do inside counts as the one line that asks for it. TooManyRounds after `most`, so that a
    slow function fails soon; AssertionError when `call` turned the counting off.
    """
    count = 0

    def look(frame, event, arg):
        nonlocal count
        count += event in ("line", "call")
        if count > most:
            raise TooManyRounds(f"more than {most:,} lines of Python were run; here it was stopped")
        return look

    before, in_threads = sys.gettrace(), threading.gettrace()
    sys.settrace(look)
    threading.settrace(look)
    try:
        with _own_work():
            call()
        stayed = sys.gettrace() is look
    finally:
        sys.settrace(before)
        threading.settrace(in_threads)
    if not stayed:
        raise AssertionError("the count of lines was turned off while it ran")
    return count


# ------------------------------------------------------------------------------------------------ what a plan looks like


def sketch(buffers: Sequence[Buffer], offsets: dict, align: int = 64, width: int = 64, height: int = 16) -> str:
    """The arena as text: time to the right, offsets upwards, a letter a buffer, "." where nothing is; "#" where two are."""
    sized = [b for b in buffers if b.size]
    if not sized:
        return "(no bytes)"
    last = max(b.end for b in sized)
    top = max(offsets[b.id] + memory_plan.aligned(b.size, align) for b in sized)
    columns = [last * (2 * c + 1) / (2 * width) for c in range(width)]
    rows = [top * (2 * r + 1) / (2 * height) for r in range(height)]
    grid = [["."] * width for _ in rows]
    for n, b in enumerate(sized):
        for r, byte in enumerate(rows):
            if offsets[b.id] <= byte < offsets[b.id] + memory_plan.aligned(b.size, align):
                for c, moment in enumerate(columns):
                    if b.start <= moment < b.end:
                        grid[r][c] = LETTERS[n % len(LETTERS)] if grid[r][c] == "." else "#"
    lines = ["".join(row) for row in reversed(grid)]
    return "\n".join([f"{top:>12,} bytes", *lines, f"0 bytes, moments 0 to {last}"])
