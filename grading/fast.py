"""Grades a notebook inside this process in a fraction of a second: for the catalogue of wrong answers, never for a learner.

Runs the lab's own cells of a rebuilt notebook in one fresh namespace; a test earns its points when it raises nothing. No kernel,
no limit of time or memory, no wall to this process. tests/test_grading.py proves on some that nbgrader says the same.
"""

from __future__ import annotations

import contextlib
import functools
import io
import linecache

from grading.rebuild import BEFORE_A_TEST
from grading.score import Score, in_a_line
from utils.labs import cells


def grade(nb: dict) -> list[Score]:
    """The scores of the graded cells of `nb` (as from `rebuild.rebuilt`), in their order."""
    namespace: dict = {"__name__": "__main__"}
    scores = []
    for cell in nb["cells"]:
        known = next(iter(cells.known({"cells": [cell]})), None)
        if known is None and BEFORE_A_TEST not in cell["metadata"]:
            continue  # a cell that no point hangs on
        if known is not None and known.by_hand:
            scores.append(Score(known.id, None, known.points))
        elif cell["cell_type"] == "code" and not (known and known.id == "setup"):  # the course is found already
            said = _run(cells.source(cell), known.id if known else BEFORE_A_TEST, namespace)
            if known is not None and known.test:
                scores.append(Score(known.id, 0.0 if said else known.points, known.points, said))
    return scores


def _run(source: str, name: str, namespace: dict) -> str:
    """Run one cell; why it failed, in one line, or ""."""
    file = f"<{name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(_compiled(source, file), namespace)  # noqa: S102  (committed cells and their planted mistakes)
    except (Exception, SystemExit) as error:
        return in_a_line(type(error).__name__, str(error))
    return ""


@functools.lru_cache(maxsize=2048)
def _compiled(source: str, file: str):
    """A cell's code: a catalogue grades the same tests a hundred times, and compiling them takes longer than running them."""
    return compile(source, file, "exec")
