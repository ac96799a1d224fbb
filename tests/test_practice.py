"""What kept answers say: progress by topic, days in the reader's zone, the gain by misconception, the last interview."""

from __future__ import annotations

import random
from datetime import date

import pytest

from utils.model import bank, practice, results, schemas

RNG = random.Random(17)
PRE = bank.post_test()
MISCONCEPTIONS = {m["id"] for m in schemas.load("misconceptions")["misconceptions"]}


def entry(question: str, answer, right: bool, *, at: str = "2027-01-04T10:00:00+00:00", **extra) -> dict:
    return {
        "id": question, "date": at, "skipped": False, "answer": answer, "unit": None,
        "extra": {"quiz": True, "right": right, **extra},
    }  # fmt: skip


def chosen(question: dict, option: int, **extra) -> dict:
    return entry(question["id"], question["options"][option]["text"], option == question["answer"], **extra)


def wrong_option(question: dict) -> int:
    return next(i for i in range(len(question["options"])) if i != question["answer"])


def test_predictions_and_the_post_test_are_no_practice():
    kept = [
        {"id": "start.price", "date": "2027-01-04", "skipped": False, "answer": 3.0, "unit": "ns", "extra": {}},
        entry("a.b", "x", True),
        entry("a.b", "x", False, sitting=practice.POST),
    ]
    assert practice.answers(kept) == [kept[1]] and practice.answers(kept, post=True) == [kept[2]]
    assert practice.history(kept) == {"a.b": [(practice.day_of(kept[1]), True)]}


def test_the_day_of_an_answer_is_the_readers(monkeypatch):
    import time

    if not hasattr(time, "tzset"):
        pytest.skip("this system cannot change its time zone for a test")
    late = entry("a.b", "x", True, at="2027-01-04T23:30:00+00:00")
    try:
        for zone, day in (("UTC", 4), ("Asia/Tokyo", 5), ("America/New_York", 4)):
            monkeypatch.setenv("TZ", zone)
            time.tzset()
            assert practice.day_of(late) == date(2027, 1, day), zone
    finally:
        monkeypatch.undo()
        time.tzset()
    assert practice.day_of(entry("a.b", "x", True, at="2027-01-04")) == date(2027, 1, 4)


def test_progress_counts_the_last_answer_and_what_is_known():
    topics = {"one": ["a", "b", "c"], "two": ["d"]}
    days = [f"2027-01-0{n}T10:00:00+00:00" for n in range(1, 6)]
    kept = [entry("a", "x", True, at=at) for at in days[:3]] + [
        entry("b", "x", True, at=days[0]),
        entry("b", "x", False, at=days[1]),
    ]
    rows = practice.progress(kept, topics)
    assert rows[0] == {"topic": "one", "questions": 3, "met": 2, "right": 1, "known": 1}
    assert rows[1] == {"topic": "two", "questions": 1, "met": 0, "right": 0, "known": 0}


def test_the_gain_is_of_questions_answered_both_times_by_misconception():
    first, second, third = PRE[:3]
    beliefs = [q["options"][wrong_option(q)]["misconception"] for q in (first, second)]
    kept = [
        chosen(first, wrong_option(first)),
        chosen(first, first["answer"]),  # practising the pre-test again does not change what was believed
        chosen(second, wrong_option(second)),
        chosen(third, third["answer"]),
        chosen(first, wrong_option(first), sitting=practice.POST),
        chosen(first, first["answer"], sitting=practice.POST),  # of the post-test the last answer counts
        chosen(second, wrong_option(second), sitting=practice.POST),
    ]
    rows = {row["misconception"]: row for row in practice.gain(kept, PRE)}
    assert (rows[beliefs[0]]["before"], rows[beliefs[0]]["after"]) == (1, 0)
    assert rows[beliefs[1]]["after"] >= 1 and set(rows) <= MISCONCEPTIONS
    offered = {o["misconception"] for q in (first, second) for o in q["options"] if "misconception" in o}
    assert set(rows) == offered, "the third question was answered once only"
    assert practice.normalised_gain(kept, PRE) == (2, 0, 1, 0.5)


def test_gain_at_its_ends():
    right = [chosen(q, q["answer"]) for q in PRE]
    post = [chosen(q, q["answer"], sitting=practice.POST) for q in PRE]
    assert practice.normalised_gain([], PRE) == (0, 0, 0, None) and practice.gain([], PRE) == []
    assert practice.normalised_gain(right + post, PRE)[3] is None, "nothing was left to gain"
    worse = [chosen(PRE[0], wrong_option(PRE[0])), *right[1:], *post[1:], chosen(PRE[0], PRE[0]["answer"], sitting=practice.POST)]
    assert practice.normalised_gain(worse, PRE) == (len(PRE), len(PRE) - 1, len(PRE), 1.0)
    down = [chosen(PRE[0], wrong_option(PRE[0])), right[1], chosen(PRE[1], wrong_option(PRE[1]), sitting=practice.POST),
            chosen(PRE[0], wrong_option(PRE[0]), sitting=practice.POST)]  # fmt: skip
    assert practice.normalised_gain(down, PRE)[3] == -1.0
    gone = entry(PRE[0]["id"], "an option of an older course", False)
    assert practice.believed([gone], PRE, post=False) == {}


def test_the_last_interview_counts_its_own_answers_once():
    assert practice.last_interview([]) is None
    kept = [
        entry("a", "x", True, sitting="interview", number="1"),
        entry("a", "x", False, sitting="interview", number="2"),
        entry("a", "x", True, sitting="interview", number="2"),
        entry("b", "x", True, sitting="interview", number="2"),
        entry("c", "x", True, sitting="topic", number="3"),
    ]
    assert practice.last_interview(kept) == (1, 2)


def test_every_entry_of_a_quiz_fits_the_results_file():
    data = results._empty()
    data["predictions"] = [
        entry("a.b", RNG.choice(["x", 3.5, True]), True, sitting="interview", seconds=12.5, late=False, seed=3)
    ]
    schemas.validate("results", data)
