"""The catalogue of wrong answers: small committed changes to a lab's solution, each with the points that it must lose, and why.

`solutions/<lab>/wrong/<id>.yml` (schema: utils/data/schema/wrong_answer.json): what it says, the misconception behind it, the
test cells it loses, and its changes: a text of a solution cell that occurs there exactly once, and what stands there instead.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path

from grading import course
from utils.labs import cells
from utils.model import schemas


@dataclass(frozen=True)
class Wrong:
    """One wrong answer: `loses` are ids of test cells; `changes` are dicts with cell and either find and put, or source."""

    id: str
    lab: str
    says: str
    misconception: str
    loses: tuple[str, ...]
    changes: tuple[dict, ...]

    def notebook(self) -> dict:
        """The solution's notebook with this mistake in it. Raises ValueError when a change no longer fits the solution."""
        nb = copy.deepcopy(cells.read(course.source(self.lab)))
        by_id = {known[0].id: cell for cell in nb["cells"] if (known := cells.known({"cells": [cell]})) and known[0].solution}
        for change in self.changes:
            cell = by_id.get(change["cell"])
            if cell is None:
                raise ValueError(f"{self.lab}/{self.id}: no solution cell {change['cell']!r}; there are: {', '.join(by_id)}")
            text = cells.source(cell)
            if "source" in change:
                cell["source"] = change["source"]
                continue
            if text.count(change["find"]) != 1:
                raise ValueError(
                    f"{self.lab}/{self.id}: {change['find']!r} occurs {text.count(change['find'])} times in {change['cell']}"
                )
            cell["source"] = text.replace(change["find"], change["put"])
        return nb


def catalogue(lab: str) -> list[Wrong]:
    """All wrong answers of `lab`, by name. Raises schemas.SchemaError, with the file's name, for one that its schema refuses."""
    return [_load(path, lab) for path in sorted((course.SOLUTIONS / lab / "wrong").glob("*.yml"))]


def _load(path: Path, lab: str) -> Wrong:
    data = schemas.read_yaml(path)
    try:
        schemas.validate("wrong_answer", data)
    except schemas.SchemaError as error:
        raise schemas.SchemaError(f"{lab}/{path.name}: {error}") from None
    return Wrong(path.stem, lab, data["says"], data["misconception"], tuple(data["loses"]), tuple(data["changes"]))
