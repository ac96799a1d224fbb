"""What a student reads about each cell: why points were lost, in the words of the lab's own tests, without the hidden ones.

What comes out of a learner's kernel is never shown back: with a frame at hand, an answer could put the text of a hidden test into
an error's message. Shown are only points, the messages that the tests' author wrote, with "…" for every value in them, and the
names of Python's own exceptions.
"""

from __future__ import annotations

import ast
import builtins
import copy
import json
import re

from grading import status
from grading.store import points, total, waiting
from utils.labs import cells

SHORTEST = 12  # characters of a text that is taken for a message
NO_RESULT = {
    status.UNREADABLE: "It could not be graded: {reason}.",
    status.TIMEOUT: "It did not come to an end: a cell runs on and on. Restart the kernel, run all, and see which.",
    status.DIED: "Its kernel died before the end (no memory left, or a cell ended it). Run all on a fresh kernel, and see.",
    status.TAMPERED: "It has to be read by a person before it gets points.",
}


def explained(test: str, said: str) -> str:
    """Why the cell with the source `test` earned nothing, when `said` is what came back (one line); "" when nothing did."""
    if not said:
        return ""
    if said == "not written yet":
        return said
    error, _, text = said.partition(": ")
    if error == "CellTimeoutError":
        return "it takes too long: stopped after its time"
    if error == "AssertionError":
        return _written(test, text) or "a check of this cell does not hold, on numbers of its own"
    if isinstance(getattr(builtins, error, None), type) and issubclass(getattr(builtins, error), BaseException):
        return f"a {error} is raised where the test calls your code"
    return "an error is raised where the test calls your code"


def _written(test: str, text: str) -> str:
    """The message in `test` that `text` begins with, as its author wrote it."""
    for node in ast.walk(ast.parse(test)):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else None for part in node.values]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            parts = [node.value]
        else:
            continue
        shown = "".join("…" if part is None else part for part in parts)
        pattern = "".join(".*" if part is None else re.escape(part) for part in parts)
        if len(shown) >= SHORTEST and not shown.startswith("…") and re.fullmatch(pattern, text.strip(), re.DOTALL):
            return shown
    return ""


def notebook(record: dict, source: dict, handed_in: dict | None) -> dict:
    """The student's own notebook with the feedback in it: a cell at the top, and one below each graded cell. Without a readable
    one (None) the top alone."""
    tests = {known.id: known.source for known in cells.known(source)}
    below = {score["id"]: _about(score, value, tests[score["id"]], record) for score, value in points(record)}
    out = [_markdown(_top(record), "feedback")]
    for cell in copy.deepcopy(handed_in["cells"]) if handed_in else []:
        out.append(cell)
        for known in cells.known({"cells": [cell]}):
            if known.id in below:
                out.append(_markdown(below.pop(known.id), f"feedback-{len(out)}"))
    out += [_markdown(text, f"feedback-{cell_id}") for cell_id, text in below.items()]  # cells that the student lost
    head = {k: v for k, v in (handed_in or source).items() if k != "cells"}
    return {**head, "cells": out}


def text(record: dict, source: dict, handed_in: dict | None) -> str:
    return json.dumps(notebook(record, source, handed_in), indent=1) + "\n"


def comment(record: dict) -> str:
    """One line for a platform's comment field."""
    got = total(record)
    if got is None:
        return NO_RESULT.get(record["status"], "").format(reason=record["reason"])
    most = sum(score["most"] for score in record["scores"])
    left = waiting(record)
    return f"{got:g} of {most:g} points" + (f"; still to be read by a person: {', '.join(left)}" if left else "")


def _top(record: dict) -> str:
    lines = ["## Feedback", "", comment(record)]
    if record["status"] == status.LATE:
        lines += ["", "Handed in late."]
    lines += [f"- put right before grading: {sentence}" for sentence in record["put_right"]]
    return "\n".join(lines)


def _about(score: dict, value: float | None, test: str, record: dict) -> str:
    earned = "to be read by a person" if value is None else f"{value:g} of {score['most']:g} points"
    mark = record["manual"].get(score["id"])
    why = mark["said"] if mark else explained(test, score["said"]) if (value or 0) < score["most"] else ""
    return f"**{score['id']}: {earned}**" + (f"\n\n{why}" if why else "")


def _markdown(text: str, cell_id: str) -> dict:
    return {
        "cell_type": "markdown",
        "id": re.sub(r"[^\w-]", "-", cell_id)[:64],
        "metadata": {"tags": ["feedback"]},
        "source": text,
    }
