"""The results of a class, kept on disk: one JSON file a student, each written whole or not at all.

A record is replaced before its student is graded (status pending, no scores) and again after, so that no score outlives the file
it was given for, and a kill at any point loses no finished one. What a person gave stays in the record over every re-grade.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from grading import status

FIELDS = {  # what a new grading starts from; `manual` and `history` are kept
    "status": status.PENDING,
    "reason": "",
    "scores": [],
    "unconfirmed": [],  # the points of a tampered run: to look at, not to give
    "put_right": [],
    "looks": [],
    "drawn_for": "",  # the name that the lab's numbers were drawn from
    "answers": {},  # the text of the answers graded by hand
}


class Store:
    """The records of one lab in the folder `place`."""

    def __init__(self, place: Path) -> None:
        self.place = place
        (place / "students").mkdir(parents=True, exist_ok=True)
        (place / "graded").mkdir(exist_ok=True)

    def path(self, student: str) -> Path:
        return self.place / "students" / f"{quote(student, safe=' ')}.json"

    def notebook(self, student: str) -> Path:
        """Where the student's notebook is kept as it ran: with hidden tests, for the instructor only."""
        return self.place / "graded" / f"{quote(student, safe=' ')}.ipynb"

    def get(self, student: str) -> dict | None:
        path = self.path(student)
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None

    def all(self) -> Iterator[dict]:
        """Every record, by student."""
        for path in sorted((self.place / "students").glob("*.json")):
            yield json.loads(path.read_text(encoding="utf-8"))

    def begin(self, student: str, key: str, about: dict) -> dict:
        """The student's record for the submission `key`, without scores. `about` is what is known before it is graded."""
        before = self.get(student) or {"manual": {}, "history": []}
        history = before["history"]
        if before.get("status", status.PENDING) != status.PENDING:
            history = [*history, {"at": before["at"], "status": before["status"], "total": total(before)}]
        record = {"student": student, "key": key, **FIELDS, **about, "manual": before["manual"], "history": history, "at": ""}
        self._write(record)
        self.notebook(student).unlink(missing_ok=True)
        return record

    def finish(self, student: str, key: str, outcome: dict, graded: dict | None = None) -> dict | None:
        """Note the outcome for the submission `key`. None, and nothing is noted, when another was begun or finished meanwhile."""
        record = self.get(student)
        if record is None or record["key"] != key or record["status"] != status.PENDING:
            return None
        if graded is not None:
            _whole(self.notebook(student), json.dumps(graded, ensure_ascii=True))
        record = {**record, **outcome, "at": time.strftime("%Y-%m-%dT%H:%M:%S")}
        self._write(record)
        return record

    def change(self, student: str, **fields) -> None:
        """Change what is known about a result that stays (that it was late, say)."""
        self._write({**self.get(student), **fields})

    def mark(self, student: str, cell: str, points: float, said: str) -> None:
        """Keep what a person gave for one answer, with the answer it was given for."""
        record = self.get(student)
        if record is None:
            raise KeyError(student)
        mark = {"points": points, "said": said, "answer": record["answers"].get(cell, "")}
        self._write({**record, "manual": {**record["manual"], cell: mark}})

    def _write(self, record: dict) -> None:
        _whole(self.path(record["student"]), json.dumps(record, indent=1, ensure_ascii=True))


def _whole(path: Path, text: str) -> None:
    """Write the file in one step: after a power cut it is the old one or the new one."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    with open(part, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def points(record: dict) -> Iterator[tuple[dict, float | None]]:
    """Each score of a record, and what it counts: a person's mark where there is one; None while a person has to read it."""
    for score in record["scores"]:
        mark = record["manual"].get(score["id"])
        yield score, mark["points"] if mark else score["points"]


def total(record: dict) -> float | None:
    """The points so far; None when the submission has no score."""
    if record["status"] not in status.SCORED:
        return None
    return sum(value or 0.0 for _, value in points(record))


def waiting(record: dict) -> list[str]:
    """The cells that a person still has to read: no mark yet, or one that was given for another text."""
    out = []
    for score, value in points(record):
        mark = record["manual"].get(score["id"])
        if value is None or (mark and mark["answer"] != record["answers"].get(score["id"], "")):
            out.append(score["id"])
    return out
