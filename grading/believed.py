"""What a class believes: the points that its students lost, beside the points that each catalogued wrong answer loses."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from grading import wrong
from utils.model import schemas
from utils.paths import DATA


def by_misconception(records: Iterable[dict], catalogue: list[wrong.Wrong]) -> list[tuple[str, int, list[str]]]:
    """(misconception, how many students, the test cells), the most frequent first. A student counts for a misconception when all
    the cells that one of its wrong answers loses were lost, and written: consistent with it, which is no proof."""
    students: Counter[str] = Counter()
    where: dict[str, set[str]] = defaultdict(set)
    for record in records:
        lost = {
            s["id"] for s in record["scores"] if s["points"] is not None and s["points"] < s["most"] and s["said"] != UNWRITTEN
        }
        found = [answer for answer in catalogue if answer.loses and set(answer.loses) <= lost]
        largest = [a for a in found if not any(set(a.loses) < set(b.loses) for b in found)]
        for name in {answer.misconception for answer in largest}:
            students[name] += 1
            where[name] |= {cell for a in largest if a.misconception == name for cell in a.loses}
    return [(name, count, sorted(where[name])) for name, count in students.most_common()]


UNWRITTEN = "not written yet"


def name_of(misconception: str) -> str:
    """Its name in words."""
    every = schemas.read_yaml(DATA / "misconceptions.yml")["misconceptions"]
    return next((one["name"] for one in every if one["id"] == misconception), misconception)
