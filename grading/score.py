"""What one graded cell earned, and a submission's whole."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Score:
    """One graded cell: `points` of `most`, None while a person has to read it; `said` is why points were lost."""

    id: str
    points: float | None
    most: float
    said: str = ""

    def to_dict(self) -> dict:
        return asdict(self)


def in_a_line(error: str, text: str) -> str:
    """One line for an exception of the type named `error` that says `text`."""
    if error == "NotImplementedError" and not text:
        return "not written yet"
    return f"{error}: {next(iter(text.splitlines()), '')}"


def lost(scores: Iterable[Score]) -> set[str]:
    """The ids of the cells that did not earn all of their points (those that wait for a person left out)."""
    return {score.id for score in scores if score.points is not None and score.points < score.most}


def total(scores: Iterable[Score]) -> float:
    """The points earned so far."""
    return sum(score.points or 0.0 for score in scores)
