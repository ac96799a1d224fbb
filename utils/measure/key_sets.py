"""Key sets and tables: what the dispatcher would do with an op here and now, read without running it.

`key_sets` works out the first key as the dispatcher does: unite the sets of the arguments, add what the thread includes, take
away what it excludes and where the op falls through. Sets are combined as sets, never by their printed form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from utils.measure import seams


@dataclass(frozen=True)
class KeySets:
    """How one op's key is found: the union of the arguments' sets, plus and minus what the thread includes and excludes,
    minus the keys at which the op falls through (`masked`); `highest` is the key of the highest priority in `final`.

    Names stand by priority, the lowest first; `priority` is that order for all keys of the op's table.
    """

    arguments: dict[str, tuple[str, ...]]
    union: tuple[str, ...]
    included: tuple[str, ...]
    excluded: tuple[str, ...]
    with_thread: tuple[str, ...]
    masked: tuple[str, ...]
    final: tuple[str, ...]
    highest: str
    priority: tuple[str, ...] = ()


@dataclass(frozen=True)
class TableRow:
    """One row of an op's dispatch table: which kernel stands at a key, what kind it is, and where it was registered."""

    key: str
    kind: str
    registered_at: str
    fallthrough: bool


@dataclass(frozen=True)
class Registration:
    """One entry that somebody made for an op. At an alias it fills the rows of many keys; an inactive one was replaced."""

    key: str
    alias: bool
    active: bool
    registered_at: str


@dataclass(frozen=True)
class ThreadSets:
    """What a thread includes and excludes at one moment (names of keys), and the first key of the op that was asked about."""

    when: str
    included: tuple[str, ...]
    excluded: tuple[str, ...]
    first: str


def table(op: str) -> tuple[TableRow, ...]:
    """The op's dispatch table, lowest priority first; empty for an op that the dispatcher does not know."""
    try:
        text = seams.dispatch_table(op)
    except RuntimeError:
        return ()
    rows = []
    for line in text.splitlines():
        found = re.match(r"(\w+): (fallthrough )?registered at (.*) \[([^\]]+)\]$", line)
        if found:
            key, through, place, kind = found.groups()
            rows.append(TableRow(key, kind, _file(place), bool(through)))
    return tuple(rows)


def registrations(op: str) -> tuple[Registration, ...]:
    """What was registered for the op itself, aliases among it; empty where this torch does not tell."""
    try:
        text = seams.registrations(op)
    except RuntimeError:
        return ()
    found = re.findall(r"^(\w+)(\[alias\])?( \(inactive\))?: registered at (.*?) ::", text, flags=re.MULTILINE)
    return tuple(Registration(key, bool(alias), not inactive, _file(place)) for key, alias, inactive, place in found)


def _file(place: str) -> str:
    return re.sub(r"^.*/", "", place)


def key_sets(op: str, sets: Mapping[str, object], rows: tuple[TableRow, ...]) -> tuple[KeySets, object]:
    """(the key sets of one op in words, the final set itself), from the sets of its arguments by name and the op's table."""
    everything = [row.key for row in rows]
    through = {row.key for row in rows if row.fallthrough}

    def named(keys) -> tuple[str, ...]:
        return seams.keys_among(keys, everything)

    union = None
    for keys in sets.values():
        union = keys if union is None else union | keys
    included, excluded = seams.thread_key_sets()
    with_thread = (union | included) - excluded
    masked = tuple(key for key in named(with_thread) if key in through)
    final = with_thread
    for key in masked:
        final = seams.without_key(final, key)
    words = KeySets(
        arguments={name: named(keys) for name, keys in sets.items()},
        union=named(union),
        included=named(included),
        excluded=named(excluded),
        with_thread=named(with_thread),
        masked=masked,
        final=named(final),
        highest=seams.highest_key(final),
        priority=tuple(everything),
    )
    return words, final


def read(op: str, tensors: Mapping[str, object]) -> KeySets | None:
    """The key sets of `op` called with these tensors, in this thread, now; None where this torch does not tell."""
    rows = () if seams.dispatcher_missing() else table(op)
    if not rows or not tensors:
        return None
    return key_sets(op, {name: seams.key_set(value) for name, value in tensors.items()}, rows)[0]


def around(op: str, tensors: Mapping[str, object], context: Callable[[], AbstractContextManager]) -> tuple[ThreadSets, ...]:
    """The thread's sets before, inside and after a context, each with the first key that `op` has then; () as `read`."""

    def look(when: str) -> ThreadSets | None:
        keys = read(op, tensors)
        return keys and ThreadSets(when, keys.included, keys.excluded, keys.highest)

    moments = [look("before")]
    with context():
        moments.append(look("inside"))
    moments.append(look("after"))
    return tuple(moment for moment in moments if moment is not None)
