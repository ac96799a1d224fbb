"""A lab as small as one can be: two functions, three tests, one written answer. Tests of the grader hand in what it makes."""

from __future__ import annotations

import copy
import json

from utils.labs import cells

LAB = "lab99_tiny"
POINTS = 8.0  # by tests
BY_HAND = 3.0
SECRET = 987_654  # a number of a hidden test, which no student may ever read
ANSWERS = {
    "double": "def double(x):\n    ### BEGIN SOLUTION\n    return 2 * x\n    ### END SOLUTION",
    "greet": 'def greet(name):\n    ### BEGIN SOLUTION\n    return f"hello {name}"\n    ### END SOLUTION',
}
TESTS = {
    "double_small": (
        3,
        'why = "Doubling is adding a number to itself."\nassert strict.equal(double(2), 4, why)\n'
        f"### BEGIN HIDDEN TESTS\nassert strict.equal(double({SECRET}), {2 * SECRET}, why)\n### END HIDDEN TESTS",
    ),
    "double_zero": (
        2,
        'got = double(0)\nassert got == 0, f"Twice nothing is nothing, you say {got}."\n'
        "### BEGIN HIDDEN TESTS\nassert strict.kind(double(0), int, 'An int stays an int.')\n### END HIDDEN TESTS",
    ),
    "greet_says": (3, 'assert strict.equal(greet("Ada"), "hello Ada", "A greeting begins with hello.")'),
}
SETUP = 'import os, sys\nsys.path.insert(0, os.environ["ONE_ADD_REPO"])'


def _code(source: str, cell_id: str = "", **role) -> dict:
    about = {"grade_id": cell_id, "schema_version": 3, "cell_type": "code", "task": False, **role}
    metadata = {"nbgrader": about} if cell_id else {}
    return {"cell_type": "code", "id": cell_id, "metadata": metadata, "source": source, "outputs": [], "execution_count": None}


def source() -> dict:
    """The lab's source, in nbgrader's format."""
    locked = {"grade": False, "solution": False, "locked": True}
    made = [_code(SETUP, "setup", **locked), _code("from utils.labs import strict", "imports", **locked)]
    for name, answer in ANSWERS.items():
        made.append(_code(answer, name, grade=False, solution=True, locked=False))
        for test, (points, text) in TESTS.items():
            if test.startswith(name):
                made.append(_code(text, test, grade=True, solution=False, locked=True, points=points))
    card = "## Why?\n\nOne point each: that it is so, why, and an example."
    made.append({"cell_type": "markdown", "id": "card", "metadata": {}, "source": card})
    why = _code("YOUR ANSWER HERE", "why", grade=True, solution=True, locked=False, points=BY_HAND)
    del why["outputs"], why["execution_count"]
    why["cell_type"] = why["metadata"]["nbgrader"]["cell_type"] = "markdown"
    made.append(why)
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def handed_out() -> dict:
    """The lab as students get it."""
    nb = source()
    for cell in nb["cells"]:
        known = cells.known({"cells": [cell]})
        if known and known[0].test:
            cell["source"] = cells.visible(known[0].source)
        elif known and known[0].solution and known[0].kind == "code":
            cell["source"] = known[0].source.split("\n")[0] + "\n    # YOUR CODE HERE\n    raise NotImplementedError()"
    return nb


def cell(nb: dict, cell_id: str) -> dict:
    return next(c for c in nb["cells"] if any(known.id == cell_id for known in cells.known({"cells": [c]})))


def answered(**changed: str) -> dict:
    """What somebody who knows everything hands in, with `changed` answers by cell."""
    nb = handed_out()
    for name, answer in {**ANSWERS, "why": "Because.", **changed}.items():
        cell(nb, name)["source"] = answer
    return nb


def with_cell(code: str, nb: dict | None = None, at: int = 2) -> dict:
    """A notebook with a cell of the learner's own, before the first answer (`at` 2) or at the end (-1)."""
    nb = copy.deepcopy(nb or answered())
    nb["cells"].insert(at if at >= 0 else len(nb["cells"]), _code(code))
    return nb


def file(nb: dict) -> bytes:
    return json.dumps(nb).encode()
