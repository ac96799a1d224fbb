"""Evenly spaced repetition towards a target date: which question is due on which day. Pure: dates in, dates out.

A question is known when it was right on REPEATS different days since it was last wrong. What is left of these is spread evenly
from its last answer to the target, so that the last one is as far from the target as they are from each other. Questions
that were never met are met at an even rate in the first half of the time, which leaves room for their repetitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta

REPEATS = 3
History = Sequence[tuple[date, bool]]  # (the day, whether the answer was right), oldest first


def left(history: History) -> int:
    """How many right answers, each on a day of its own, are still wanted; REPEATS again after a wrong one."""
    days: set[date] = set()
    for day, right in history:
        days = {*days, day} if right else set()
    return max(0, REPEATS - len(days))


def due_days(last: date, target: date, wanted: int) -> list[date]:
    """`wanted` days between `last` and `target`, evenly spaced with both of them; fewer where there are not so many days.

    Raises ValueError when `target` does not come after `last`.
    """
    span = (target - last).days
    if span < 1:
        raise ValueError("the target date must come after the last answer")
    steps = [round(span * (i + 1) / (wanted + 1)) for i in range(wanted)]
    return [last + timedelta(days=step) for step in sorted({s for s in steps if 1 <= s < span})]


def plan(history: Mapping[str, History], ids: Iterable[str], today: date, target: date) -> dict[date, list[str]]:
    """Day → the ids that are due on it, from `today` to the day before `target`; every day is there, most important first.

    What should have been repeated before today is due today, those answered wrong in front. A question that is known is not
    asked again. Raises ValueError when `target` does not come after `today`.
    """
    if target <= today:
        raise ValueError(f"the target date must come after today, {today.isoformat()}")
    days = [today + timedelta(days=i) for i in range((target - today).days)]
    out: dict[date, list[str]] = {day: [] for day in days}
    ids = list(dict.fromkeys(ids))
    met = [i for i in ids if history.get(i)]
    wrong = {i for i in met if not history[i][-1][1]}
    for one in sorted(met, key=lambda i: (i not in wrong, history[i][-1][0])):
        last = min(history[one][-1][0], today)
        for day in _onwards(due_days(last, target, left(history[one])), last, today):
            out[day].append(one)
    new = [i for i in ids if not history.get(i)]
    room = max(1, len(days) // 2)
    for at, one in enumerate(new):
        first = days[at * room // len(new)]
        out[first].append(one)
        for day in due_days(first, target, REPEATS - 1):
            out[day].append(one)
    return out


def _onwards(days: list[date], last: date, today: date) -> list[date]:
    """Days from today on; those that were missed become one, today, unless the question was answered today."""
    missed = [day for day in days if day < today]
    later = [day for day in days if day >= today]
    return [today, *(day for day in later if day > today)] if missed and last < today else later
