"""The question bank: what is asked on which topic, the cell that proves an answer, and the ten that an interview draws."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from utils.model import schemas

KEPT_FOR_THE_POST_TEST = "pre_test"  # the one use that practice leaves alone
# What an interview of ten is made of, in the order asked; a kind that runs short is filled up with what is left.
INTERVIEW = ("free", "choice", "number", "free", "bad_premise", "choice", "trace", "free", "number", "choice")
SECONDS = {"free": 60, "choice": 45, "bad_premise": 45, "trace": 60, "number": 90}


@dataclass(frozen=True)
class Topic:
    id: str
    title: str
    lessons: tuple[str, ...]


@dataclass(frozen=True)
class Proof:
    """The cell that proves an answer: `file` and `cell` of a lesson, `href` from another lesson, `words` for where links fail."""

    lesson: str
    cell: str

    @property
    def number(self) -> int:
        return schemas.LESSONS.index(self.lesson)

    @property
    def file(self) -> str:
        return f"{self.number:02d}_{self.lesson}.ipynb"

    @property
    def href(self) -> str:
        return self.file + (f"#cell-id={self.cell}" if self.cell else "")

    @property
    def words(self) -> str:
        title = self.lesson.replace("_", " ")
        return f"lesson {self.number:02d}, {title}" + (f", cell “{self.cell}”" if self.cell else "")


def topics() -> tuple[Topic, ...]:
    """At most eight, in the file's order; together they have every lesson once."""
    return tuple(Topic(t["id"], t["title"], tuple(t["lessons"])) for t in schemas.load("questions")["topics"])


@cache
def _all() -> dict[str, dict]:
    return {q["id"]: q for q in schemas.load("questions")["questions"]}


def find(question_id: str) -> dict:
    """The question of this id. Raises LookupError when there is none."""
    if question_id not in _all():
        raise LookupError(f"no such question: {question_id}")
    return _all()[question_id]


def topic_of(question: Mapping[str, Any]) -> str:
    """The topic of a question: its own where it names one, else its lesson's."""
    return question.get("topic") or next(t.id for t in topics() if question["lesson"] in t.lessons)


def form_of(question: Mapping[str, Any]) -> str:
    """free | choice | number | bad_premise | trace: what a question asks of the reader."""
    form = question.get("form", question["kind"])
    return question["kind"] if form == "estimate" else form


def seconds(question: Mapping[str, Any]) -> int:
    """How long an interviewer would wait for the answer."""
    return question.get("seconds", SECONDS[form_of(question)])


def proof(question: Mapping[str, Any]) -> Proof:
    """The cell that proves the answer; the beginning of the question's lesson where no cell is named."""
    lesson, _, cell = question.get("proof", question["objective"].split(".")[0]).partition("#")
    return Proof(lesson, cell)


def practice(topic: str | None = None) -> list[dict]:
    """What may be practised, on one topic or on all: every question but those that the post-test asks again."""
    return [q for q in _all().values() if q["use"] != KEPT_FOR_THE_POST_TEST and topic in (None, topic_of(q))]


def by_topic() -> dict[str, list[str]]:
    """Title of each topic → the ids of its practice questions."""
    return {t.title: [q["id"] for q in practice(t.id)] for t in topics()}


def post_test() -> list[dict]:
    """The questions of the pre-test, which the post-test asks again."""
    return [q for q in _all().values() if q["use"] == KEPT_FOR_THE_POST_TEST]


def interview(seed: int, n: int = 10) -> list[str]:
    """`n` different questions as an interview asks them: mixed kinds, topics in turn. The same seed, the same interview."""
    rng = random.Random(f"interview:{seed}")
    rest = practice()
    rng.shuffle(rest)
    asked: list[str] = []
    counts: Counter[str] = Counter()
    while rest and len(asked) < n:
        wanted = INTERVIEW[len(asked) % len(INTERVIEW)]
        fitting = [q for q in rest if form_of(q) == wanted] or rest
        chosen = min(fitting, key=lambda q: counts[topic_of(q)])  # min keeps the shuffled order among equals
        rest.remove(chosen)
        asked.append(chosen["id"])
        counts[topic_of(chosen)] += 1
    return asked
