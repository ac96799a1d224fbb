"""The arms of the receipt that need nothing but Python: `c = a + b` in its states, other spellings, calls that do nothing.

An arm runs n times and returns the seconds of its loop. Each keeps what it touches in local variables, as code in a function
does; `c` holds a result until the next one exists, unless the arm says otherwise.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import repeat

from utils.measure import seams

Arm = Callable[[int], float]
clock = time.perf_counter_ns
WHOLE, AGAIN, LOOP = "c = a + b", "c = a + b (again)", "empty loop"
VIEW, DROPPED = "view alive", "result dropped"
WITHOUT = "without grad"  # raced in the receipt with grad: two receipts are two runs, under different weather
CALL, PYBIND = "python call", "pybind11 no-op call"  # what a call costs that does nothing: in Python, and through pybind11
FUNCTION, METHOD, OUT = "torch.add(a, b)", "a.add(b)", "torch.add(a, b, out=c)"
LAUNCHES = (WHOLE, AGAIN, VIEW, DROPPED, WITHOUT, FUNCTION, METHOD, OUT)  # put work into a GPU's queue


def make(a, b, seen, lost, grad: bool) -> dict[str, Arm]:
    """All of them by name. `seen` and `lost` are pairs of tensors of their own, for the states that would spoil a and b."""
    import torch

    views = tuple(t.view(-1) for t in seen)
    arms = {
        WHOLE: adding(a, b),
        AGAIN: adding(a, b),
        LOOP: _empty,
        VIEW: adding(*seen, alive=views),
        DROPPED: _dropping(*lost),
        FUNCTION: _calling(torch.add, a, b),
        METHOD: _method(a, b),
        CALL: _calling(_nothing),
    }
    if grad:
        arms[WITHOUT] = adding(a.detach().clone(), b.detach().clone())
    else:
        arms[OUT] = _into(torch.add, a, b)
    if (bound := seams.pybind_call()) is not None:
        arms[PYBIND] = _calling(bound, a)
    return arms


def adding(a, b, alive: object = None) -> Arm:
    """`c = a + b` over and over; `alive` is kept for as long as the arm is."""

    def arm(n: int, a=a, b=b, alive=alive) -> float:
        start = clock()
        for _ in repeat(None, n):
            c = a + b  # noqa: F841
        return (clock() - start) * 1e-9

    return arm


def _empty(n: int) -> float:
    start = clock()
    for _ in repeat(None, n):
        pass
    return (clock() - start) * 1e-9


def _dropping(a, b) -> Arm:
    def arm(n: int, a=a, b=b) -> float:
        start = clock()
        for _ in repeat(None, n):
            a + b
        return (clock() - start) * 1e-9

    return arm


def _nothing() -> None:
    """The empty call."""


def _calling(f, *args) -> Arm:
    def none(n: int, f=f) -> float:
        start = clock()
        for _ in repeat(None, n):
            f()
        return (clock() - start) * 1e-9

    def one(n: int, f=f, a=args[0] if args else None) -> float:
        start = clock()
        for _ in repeat(None, n):
            c = f(a)  # noqa: F841
        return (clock() - start) * 1e-9

    def two(n: int, f=f, a=args[0] if args else None, b=args[-1] if args else None) -> float:
        start = clock()
        for _ in repeat(None, n):
            c = f(a, b)  # noqa: F841
        return (clock() - start) * 1e-9

    return (none, one, two)[len(args)]


def _method(a, b) -> Arm:
    def arm(n: int, a=a, b=b) -> float:
        start = clock()
        for _ in repeat(None, n):
            c = a.add(b)  # noqa: F841
        return (clock() - start) * 1e-9

    return arm


def _into(f, a, b) -> Arm:
    c = a + b

    def arm(n: int, f=f, a=a, b=b, c=c) -> float:
        start = clock()
        for _ in repeat(None, n):
            f(a, b, out=c)
        return (clock() - start) * 1e-9

    return arm
