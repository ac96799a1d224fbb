"""Answers to a lab: its solution's functions, the solution with cells written anew, and an object that says yes to everything."""

from __future__ import annotations

import copy
from functools import cache

from grading import course, fast
from grading.rebuild import rebuilt
from utils.labs import cells

# Equals all, is above and below all, holds all, and answers every operator with itself.
LIAR = """
class Liar:
    def __init__(self, *a, **k): pass
    def __call__(self, *a, **k): return self
    def __getattr__(self, name): return self
    def __getitem__(self, key): return self
    def __iter__(self): return iter((self, self))
    def __enter__(self): return self
    def __exit__(self, *a): return False
    def __eq__(self, other): return True
    def __ne__(self, other): return True
    def __lt__(self, other): return True
    __le__ = __gt__ = __ge__ = __contains__ = __lt__
    def __hash__(self): return 0
    def __mul__(self, other): return self
    __rmul__ = __add__ = __radd__ = __sub__ = __truediv__ = __rtruediv__ = __mul__
    def __format__(self, spec): return "liar"
    def tolist(self): return self
"""


@cache
def solved(lab: str) -> dict:
    """The functions of the lab's solution, by name, with what its imports bring."""
    namespace: dict = {"__name__": "lab"}
    for cell in cells.known(cells.read(course.source(lab))):
        if cell.id == "imports" or (cell.solution and not cell.by_hand):
            exec(compile(cell.source, cell.id, "exec"), namespace)  # noqa: S102  (committed code)
    return namespace


def answered(lab: str, answers: dict[str, str]) -> list:
    """The scores of the lab's solution with other sources in some of its answers' cells, by cell id."""
    nb = copy.deepcopy(cells.read(course.source(lab)))
    for cell in nb["cells"]:
        known = cells.known({"cells": [cell]})
        if known and known[0].solution and known[0].id in answers:
            cell["source"] = answers[known[0].id]
    return fast.grade(rebuilt(nb, cells.read(course.source(lab))))
