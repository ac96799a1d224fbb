"""What the reader's kept answers say: progress by topic, when a question was right, and the gain of the post-test. Pure.

Every function takes the entries that `results.predictions()` returns; those of a quiz carry `extra.quiz` and `extra.right`.
Answers of the post-test (`extra.sitting`) never count as practice: its questions are the pre-test's, asked again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any

POST = "post_test"
INTERVIEW = "interview"
Entry = Mapping[str, Any]


def answers(entries: Iterable[Entry], *, post: bool = False) -> list[Entry]:
    """The entries that are answers to questions: those of practice, or (post) those of the post-test; oldest first."""
    found = [e for e in entries if (e.get("extra") or {}).get("quiz")]
    return [e for e in found if (e["extra"].get("sitting") == POST) is post]


def history(entries: Iterable[Entry]) -> dict[str, list[tuple[date, bool]]]:
    """Question id → (the reader's local day, whether the answer was right), oldest first: what `spacing` takes."""
    out: dict[str, list[tuple[date, bool]]] = {}
    for entry in answers(entries):
        out.setdefault(entry["id"], []).append((day_of(entry), bool(entry["extra"].get("right"))))
    return out


def day_of(entry: Entry) -> date:
    """The day of an answer where the reader is: midnight is theirs, and not Greenwich's."""
    when = datetime.fromisoformat(entry["date"].replace("Z", "+00:00"))
    return (when.astimezone() if when.tzinfo else when).date()


def progress(entries: Iterable[Entry], topics: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    """A row for each topic (title → ids of its questions): questions, met, right at the last answer, known for good."""
    from utils.model import spacing

    kept = history(entries)
    rows = []
    for title, ids in topics.items():
        met = [i for i in ids if i in kept]
        rows.append(
            {
                "topic": title,
                "questions": len(ids),
                "met": len(met),
                "right": sum(kept[i][-1][1] for i in met),
                "known": sum(spacing.left(kept[i]) == 0 for i in met),
            }
        )
    return rows


def believed(entries: Iterable[Entry], questions: Iterable[Mapping[str, Any]], *, post: bool) -> dict[str, str | None]:
    """Question id → the misconception that the answer showed, None for a right one; questions without an answer are absent.

    Of the pre-test the first answer counts, of the post-test the last one: its cell may be answered again.
    """
    rows = {q["id"]: q for q in questions}
    out: dict[str, str | None] = {}
    for entry in answers(entries, post=post):
        question = rows.get(entry["id"])
        if question is None or (not post and entry["id"] in out):
            continue
        chosen = next((o for o in question["options"] if o["text"] == entry["answer"]), None)
        if chosen is not None:
            out[entry["id"]] = chosen.get("misconception")
    return out


def gain(entries: Iterable[Entry], questions: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row for each misconception that the questions offer: how often it was offered, chosen before and chosen after.

    Only questions that were answered both times count, so that the two are of the same questions.
    """
    entries = list(entries)
    before, after = (believed(entries, questions, post=post) for post in (False, True))
    both = [q for q in questions if q["id"] in before and q["id"] in after]
    offered = dict.fromkeys(o["misconception"] for q in both for o in q["options"] if "misconception" in o)
    return [
        {
            "misconception": name,
            "offered": sum(name in {o.get("misconception") for o in q["options"]} for q in both),
            "before": sum(before[q["id"]] == name for q in both),
            "after": sum(after[q["id"]] == name for q in both),
        }
        for name in offered
    ]


def normalised_gain(entries: Iterable[Entry], questions: Sequence[Mapping[str, Any]]) -> tuple[int, int, int, float | None]:
    """(questions answered both times, right before, right after, share of what was still to be gained that was gained).

    The share is None where there was nothing to gain; it is negative when the post-test went worse.
    """
    entries = list(entries)
    before, after = (believed(entries, questions, post=post) for post in (False, True))
    both = [q["id"] for q in questions if q["id"] in before and q["id"] in after]
    right = [sum(one[i] is None for i in both) for one in (before, after)]
    room = len(both) - right[0]
    return len(both), right[0], right[1], (right[1] - right[0]) / room if room else None


def last_interview(entries: Iterable[Entry]) -> tuple[int, int] | None:
    """(right, answered) of the newest interview, counting the first answer to each question; None when none was sat.

    An interview's answers carry its number in `extra.number`.
    """
    kept = [e for e in answers(entries) if e["extra"].get("sitting") == INTERVIEW]
    if not kept:
        return None
    newest = kept[-1]["extra"].get("number")
    first: dict[str, bool] = {}
    for entry in kept:
        if entry["extra"].get("number") == newest:
            first.setdefault(entry["id"], bool(entry["extra"].get("right")))
    return sum(first.values()), len(first)
