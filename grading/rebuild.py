"""A submission put back into the shape of its lab before it is graded: what the grade hangs on comes from the source.

A learner's file decides nothing but its answers. Points, roles, tests and locked cells are the source's again; lost tests are put
back where they belong; of copied cells the last counts, as in nbgrader. In front of each test the lab's imports run again, so
that a name redefined by accident, Python's own among them, or `strict` by intent, does not decide either.
"""

from __future__ import annotations

import copy

from utils.labs import cells

STRICT_AGAIN = "import importlib\n\nimportlib.reload(importlib.import_module('utils.labs.strict'))\n"
BUILTINS_AGAIN = (  # `len = 3` in an answer would fail every test that counts, `all = …` would pass some
    "import builtins\n\n[builtins.globals().pop(name, None) for name in builtins.dir(builtins) if name[0] != '_']\n"
)
NOT_RUN = "skip-execution"  # nbclient's own name for it
BEFORE_A_TEST = "before_a_test"  # the id under which nothing in a lab may go


def rebuilt(submission: dict, source: dict) -> dict:
    """A copy of `submission` with everything but its answers as in `source` (both notebooks as JSON data)."""
    wanted = {_id(cell): cell for cell in source["cells"] if _id(cell)}
    out = {**copy.deepcopy({k: v for k, v in source.items() if k != "cells"}), "cells": _known(submission, wanted)}
    _put_back(out["cells"], wanted)
    out["cells"] = _imports_again(out["cells"], wanted)
    _end_after_the_tests(out["cells"])
    for i, cell in enumerate(out["cells"]):  # copies and hand-edited files have ids twice or none at all
        cell["id"] = f"cell-{i}"
    return out


def _id(cell: dict) -> str | None:
    found = cells.known({"cells": [cell]})
    return found[0].id if found else None


def _known(submission: dict, wanted: dict[str, dict]) -> list[dict]:
    """The submission's cells in order, each that the lab knows as the lab has it, the others without a role."""
    last = {_id(cell): i for i, cell in enumerate(submission["cells"])}
    out = []
    for i, given in enumerate(submission["cells"]):
        cell_id = _id(given)
        if cell_id in wanted and last[cell_id] == i:
            out.append(_as_in(wanted[cell_id], cells.source(given)))
        else:
            out.append(_plain(given))
    return out


def _as_in(source: dict, answer: str) -> dict:
    """The source's cell; with the learner's text where that is the learner's to write."""
    cell = copy.deepcopy(source)
    if cells.known({"cells": [source]})[0].solution:
        cell["source"] = answer
    return _without_outputs(cell)


def _plain(given: dict) -> dict:
    """A cell of the learner's own: its text, and no role in grading."""
    kind = "code" if given.get("cell_type") == "code" else "markdown"
    return _without_outputs({"cell_type": kind, "metadata": {}, "source": cells.source(given)})


def _without_outputs(cell: dict) -> dict:
    if cell["cell_type"] == "code":
        cell.update(outputs=[], execution_count=None)
    return cell


def _put_back(there: list[dict], wanted: dict[str, dict]) -> None:
    """Insert each lost cell behind the one that precedes it in the lab. A lost answer in code comes back as nothing: what
    the learner wrote elsewhere may stand in for it. A lost written answer comes back empty, and so earns nothing."""
    before = None
    for cell_id, source in wanted.items():
        known = cells.known({"cells": [source]})[0]
        if not any(_id(cell) == cell_id for cell in there):
            if known.solution and known.kind == "code":
                continue
            place = next((i + 1 for i, cell in enumerate(there) if _id(cell) == before), 0) if before else 0
            there.insert(place, _as_in(source, ""))
        before = cell_id


def _imports_again(there: list[dict], wanted: dict[str, dict]) -> list[dict]:
    """The cells with one more in front of each test: Python's own names, `strict` as it is in its file, and the lab's imports."""
    again = (
        BUILTINS_AGAIN + STRICT_AGAIN + "\n".join(cells.source(cell) for cell_id, cell in wanted.items() if cell_id == "imports")
    )
    out = []
    for cell in there:
        known = cells.known({"cells": [cell]})
        if known and known[0].test:
            out.append(_without_outputs({"cell_type": "code", "metadata": {BEFORE_A_TEST: True}, "source": again}))
        out.append(cell)
    return out


def _end_after_the_tests(there: list[dict]) -> None:
    """Let nothing run behind the last test: no point hangs on it, and a lab's measurements of the real machine cost seconds."""
    tests = [i for i, cell in enumerate(there) if (known := cells.known({"cells": [cell]})) and known[0].test]
    for cell in there[tests[-1] + 1 :] if tests else []:
        if cell["cell_type"] == "code":
            cell["metadata"] = {**cell["metadata"], "tags": [NOT_RUN]}
