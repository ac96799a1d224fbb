"""Why points were not earned, whole, for who grades one notebook: what a test said to its end, and what stopped a cell before it.

It is read from the notebook as it ran, so it is a learner's to forge: shown as text, on this screen only, it decides nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from grading.score import Score
from utils.labs import cells

MOST = 3_000  # characters of one reason
HIDDEN = "Tried with other numbers than the notebook's (a hidden test)."
NOT_DEFINED = re.compile(r"name '(\w+)' is not defined")
FAILED_AT = re.compile(r"^-+> (\d{1,6})\b", re.MULTILINE)  # in what IPython prints of a frame: the test cell's own comes first
COLOUR = re.compile(r"\x1b\[[\d;]*m")


def whole(scores: Iterable[Score], source: dict, graded: dict | None) -> dict[str, str]:
    """By cell, in words, why it has not all of its points. `source` is the lab, `graded` the notebook as it ran."""
    lab = {known.id: known for known in cells.known(source)}
    ran = {known.id: cell for cell in (graded or {"cells": []})["cells"] for known in cells.known({"cells": [cell]})}
    out = {}
    for score in scores:
        if score.id in lab and lab[score.id].by_hand:
            out[score.id] = cells.NOTHING_WRITTEN if score.points == 0 else cells.BY_HAND
        elif score.said and score.points != score.most:
            out[score.id] = "\n".join([*_said(score, ran.get(score.id)), *_before(score.said, lab, ran)])
    return out


def _said(score: Score, cell: dict | None) -> list[str]:
    error = _error(cell)
    if error is None or score.said == "not written yet":
        return [score.said]
    name, text = error.get("ename"), str(error.get("evalue"))
    lines = _lines(text if name == "AssertionError" and text.strip() else f"{name}: {text}")
    hidden = next((n for n, line in enumerate(cells.source(cell).splitlines(), 1) if "BEGIN HIDDEN TESTS" in line), None)
    frames = error.get("traceback")
    at = FAILED_AT.search(COLOUR.sub("", "\n".join(map(str, frames)))) if isinstance(frames, list) else None
    return [*lines, HIDDEN] if hidden and at and int(at[1]) > hidden else lines


def _before(said: str, lab: dict[str, cells.LabCell], ran: dict[str, dict]) -> list[str]:
    """Why a name is not there: the cell that should define it ended in an error, or defines it no more; or none does."""
    found = NOT_DEFINED.search(said) if said.startswith("NameError") else None
    if found is None:
        return []
    name = found[1]
    where = next((k.id for k in lab.values() if k.kind == "code" and not k.test and name in cells.defines(k.source)), None)
    if where is None:
        return [f"No cell of the lab defines {name}: a typo, or a name from a cell that is not handed in?"]
    error = _error(ran.get(where))
    if error is None:
        return [f"The cell {where} should define {name}, and does not."]
    why = next(iter(_lines(str(error.get("evalue")))), "")
    line = re.search(r" \([^()]*, line (\d+)\)$", why)  # the file of a cell is a name that says nothing
    why = why[: line.start()] if line else why
    at = f" in line {line[1]}" if line else ""
    return _lines(f"The cell {where}, which should define {name}, ends in a {error.get('ename')}{at}: {why}")


def _error(cell: dict | None) -> dict | None:
    return next((out for out in (cell or {}).get("outputs", []) if out.get("output_type") == "error"), None)


def _lines(text: str) -> list[str]:
    """The lines that hold something, of printable characters only, and not without end."""
    cut = text if len(text) <= MOST else f"{text[:MOST]}… ({len(text) - MOST:,} more characters)"
    lines = ("".join(c if c.isprintable() else " " for c in line).strip() for line in COLOUR.sub("", cut).splitlines())
    return [line for line in lines if line]
