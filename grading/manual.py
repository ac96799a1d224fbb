"""The written answers: taken out to be read beside their rubric, and the marks read back in.

A sheet is a CSV with an empty column `points`: student, cell, points, of, comment, answer. Fill it in, give it back with --marks.
"""

from __future__ import annotations

import csv
import random
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from grading.store import Store, waiting
from utils.labs import cells

COLUMNS = ("student", "cell", "points", "of", "comment", "answer")


class BadMarks(ValueError):
    """A row of a sheet cannot be taken; the message names it and says why."""


def rubric(source: dict, cell_id: str) -> str:
    """The text of the card above the cell `cell_id`, which holds its rubric."""
    above = ""
    for cell in source["cells"]:
        if any(known.id == cell_id for known in cells.known({"cells": [cell]})):
            return above
        if cell["cell_type"] == "markdown":
            above = cells.source(cell)
    raise KeyError(cell_id)


def to_read(records: Iterable[dict], sample: int | None = None, seed: int = 0) -> Iterator[tuple[dict, str]]:
    """(record, cell) of the answers that wait; of `sample` students drawn at random, the same ones for the same class."""
    waits = [(record, cell) for record in records for cell in waiting(record)]
    students = sorted({record["student"] for record, _ in waits})
    if sample is not None:
        students = random.Random(seed).sample(students, min(sample, len(students)))
    yield from ((record, cell) for record, cell in waits if record["student"] in students)


def sheet(records: Iterable[dict], path: Path, sample: int | None = None) -> int:
    """Write the sheet; how many answers are on it."""
    rows = []
    for record, cell in to_read(records, sample):
        most = next(score["most"] for score in record["scores"] if score["id"] == cell)
        rows.append((record["student"], cell, "", f"{most:g}", "", _harmless(record["answers"].get(cell, ""))))
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows])
    return len(rows)


def take(store: Store, path: Path) -> int:
    """Keep the marks of a filled sheet in the students' records; how many. Raises BadMarks, and then keeps none."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = [row for row in csv.DictReader(file) if (row.get("points") or "").strip()]
    marks = [_checked(store, number, row) for number, row in enumerate(rows, start=1)]
    for student, cell, points, said in marks:
        store.mark(student, cell, points, said)
    return len(marks)


def _checked(store: Store, number: int, row: dict) -> tuple[str, str, float, str]:
    where = f"mark {number} ({row.get('student')}, {row.get('cell')})"
    record = store.get(row.get("student") or "")
    if record is None:
        raise BadMarks(f"{where}: no such student")
    most = next((score["most"] for score in record["scores"] if score["id"] == row["cell"]), None)
    if most is None:
        raise BadMarks(f"{where}: no graded cell of this name in the student's record")
    try:
        points = float(row["points"].replace(",", "."))
    except ValueError:
        raise BadMarks(f"{where}: {row['points']!r} is no number") from None
    if not 0 <= points <= most:
        raise BadMarks(f"{where}: {points:g} points of {most:g}")
    return record["student"], row["cell"], points, (row.get("comment") or "").strip()


def _harmless(text: str) -> str:
    """A learner's text for a spreadsheet, which takes what begins like this for a formula."""
    return f"'{text}" if re.match(r"[=+\-@\t\r]", text) else text
