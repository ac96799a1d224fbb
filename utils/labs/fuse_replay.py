"""Remembers what a kernel did to the numbers it was given, so that the same run need not be interpreted twice.

A program in the interpreter takes about a millisecond, and a lab's tests are run again and again: as cells, by check_my_lab, by
a grader. A kernel has no state of its own, so its code, its arguments and the values it loads settle what it stores. Only then is
it replayed: the code equal, the arguments equal, every load answered with the very bits of that time, and nothing loaded that the
same launch stores. The learner's function is never remembered; it runs each time, and launches each time.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable

import numpy as np

from utils.labs.fuse_memory import Memory, Region
from utils.labs.fuse_triton import names_in

MOST = 200  # kernels with their arguments
SETS = 4  # of numbers, for each of them: the arrays of one take some ten to a hundred kB
_kept: OrderedDict = OrderedDict()


def replayed(key, memory: Memory, regions: list[Region]) -> bool:
    """Whether a run under `key` is known and this memory would answer it alike; then it is done to the memory again."""
    kept = _kept.get(key, ()) if key is not None else ()
    trace = next((t for t in kept if all(_alike(regions[where], step) for stored, _, where, *step in t if not stored)), None)
    if trace is None:
        return False
    _kept.move_to_end(key)
    for stored, memory.program, where, places, wanted, values in trace:
        if stored:
            memory.store(regions[where], places, values, wanted)
        else:
            memory.load(regions[where], places, wanted, values.dtype)
    return True


def keep(key, memory: Memory, regions: list[Region]) -> None:
    """Keep what `memory.trace` says this launch did, where it can be replayed."""
    trace, memory.trace = memory.trace, None
    if key is None or trace is None or any(all(step[2] is not r for r in regions) for step in trace):
        return
    stored = {id(step[2]) for step in trace if step[0]}
    if stored & {id(step[2]) for step in trace if not step[0]}:
        return
    places = {id(region): i for i, region in reversed(list(enumerate(regions)))}
    found = [(step[0], step[1], places[id(step[2])], *step[3:]) for step in trace]
    _kept[key] = [found, *_kept.get(key, ())][:SETS]
    while len(_kept) > MOST:
        _kept.popitem(last=False)


def _alike(region: Region, step: list) -> bool:
    """Whether the region holds, where the program loaded, what it held then."""
    places, wanted, values = step
    good = wanted & region.belongs(places)
    return np.array_equal(region.values(places[good]).view(np.uint8), values[good].view(np.uint8))


def key_of(function: Callable, grid: tuple, programs: list, args: list, kwargs: dict, known: dict):
    """What settles a run but for the values loaded, or None where the kernel may depend on something else. Arguments are ints or
    (Region, place of the first element)."""
    code = _fingerprint(function, known)
    if code is None:
        return None
    regions = [value[0] for value in (*args, *kwargs.values()) if isinstance(value, tuple)]
    numbers = {id(region): i for i, region in enumerate(regions)}

    def told(value):
        if not isinstance(value, tuple):
            return type(value), value
        region, at = value
        return numbers[id(region)], region.name, region.dtype, region.layout, region.raw is None, at

    return code, grid, tuple(programs), tuple(map(told, args)), tuple((name, told(value)) for name, value in kwargs.items())


def _fingerprint(function: Callable, known: dict):
    """A kernel's code and all that it names, hashable; None when it names something that may change. `known`: names of modules
    that do not, and `"function"`, which gives the plain function of a kernel of the lab, or None."""
    if function.__closure__:
        return None
    named = []
    for name in sorted(set(names_in(function.__code__)) & set(function.__globals__)):
        value = function.__globals__[name]
        inner = known["function"](value)
        if inner is not None:
            found = None if inner is function else _fingerprint(inner, known)
        elif any(value is module for module in known["modules"]) or value is math:
            found = "module"
        else:
            found = (type(value), value) if type(value) in (int, float, bool, str) else None
        if found is None:
            return None
        named.append((name, found))
    return function.__code__, repr(function.__annotations__), function.__defaults__, tuple(named)
