"""Evenly spaced repetition: gaps that differ by a day at most, nothing on or after the target, a wrong answer begins anew."""

from __future__ import annotations

import random
from datetime import date, timedelta

import pytest

from utils.model import spacing
from utils.model.spacing import REPEATS

RNG = random.Random(31)
TODAY = date(2027, 2, 27)  # a month's end in between


def day(n: int) -> date:
    return TODAY + timedelta(days=n)


def gaps(days: list[date]) -> list[int]:
    return [(b - a).days for a, b in zip(days, days[1:], strict=False)]


def test_gaps_are_even_with_both_ends():
    for _ in range(300):
        span, wanted = RNG.randint(1, 400), RNG.randint(1, 6)
        found = spacing.due_days(TODAY, day(span), wanted)
        assert found == sorted(set(found)) and all(TODAY < d < day(span) for d in found)
        if span > wanted:
            assert len(found) == wanted
            assert max(gaps([TODAY, *found, day(span)])) - min(gaps([TODAY, *found, day(span)])) <= 1
    assert spacing.due_days(TODAY, day(12), 2) == [day(4), day(8)]
    assert spacing.due_days(TODAY, day(1), 3) == [] and spacing.due_days(TODAY, day(9), 0) == []
    for late in (0, -3):
        with pytest.raises(ValueError, match="after the last answer"):
            spacing.due_days(TODAY, day(late), 2)


def test_right_answers_count_once_a_day_and_a_wrong_one_begins_anew():
    assert spacing.left([]) == REPEATS
    assert spacing.left([(day(0), True), (day(0), True), (day(0), True)]) == REPEATS - 1
    assert spacing.left([(day(0), True), (day(4), True), (day(8), True)]) == 0
    assert spacing.left([(day(0), True), (day(4), True), (day(8), False)]) == REPEATS
    assert spacing.left([(day(0), False), (day(4), True)]) == REPEATS - 1


def test_new_questions_come_at_an_even_rate_in_the_first_half_and_again_until_the_target():
    ids = [f"q{i}" for i in range(40)]
    plan = spacing.plan({}, ids, TODAY, day(20))
    assert list(plan) == [day(i) for i in range(20)]
    first = {i: next(d for d, due in plan.items() if i in due) for i in ids}
    per_day = [sum(d == at for d in first.values()) for at in plan]
    assert set(per_day[:10]) == {4} and set(per_day[10:]) == {0}
    for one in ids:
        days = [d for d, due in plan.items() if one in due]
        assert len(days) == REPEATS and max(gaps([*days, day(20)])) - min(gaps([*days, day(20)])) <= 1


def test_a_reader_who_follows_the_plan_knows_everything_at_the_target_whatever_was_wrong():
    ids = [f"q{i}" for i in range(25)]
    history: dict[str, list] = {}
    target = day(30)
    for at in range(30):
        for one in spacing.plan(history, ids, day(at), target)[day(at)]:
            history.setdefault(one, []).append((day(at), not (at < 12 and RNG.random() < 0.3)))
    assert set(history) == set(ids) and all(spacing.left(history[i]) == 0 for i in ids)


def test_what_was_missed_is_due_today_once_and_what_was_wrong_comes_first():
    history = {
        "missed": [(day(-20), True)],
        "wrong": [(day(-5), False)],
        "today": [(day(0), True)],
        "known": [(day(-9), True), (day(-6), True), (day(-3), True)],
    }
    plan = spacing.plan(history, list(history), TODAY, day(10))
    assert plan[TODAY] == ["wrong", "missed"] or plan[TODAY] == ["missed"]
    assert plan[TODAY].count("missed") == 1 and "today" not in plan[TODAY], "what was answered today is not due today"
    assert not any("known" in due for due in plan.values()), "what is known is left alone"
    late = spacing.plan({"wrong": [(day(-30), False)], "right": [(day(-31), True)]}, ["right", "wrong"], TODAY, day(6))
    assert late[TODAY] == ["wrong", "right"]


def test_a_wrong_answer_brings_a_question_back_sooner():
    right = spacing.plan({"q": [(day(0), True)]}, ["q"], day(0), day(24))
    wrong = spacing.plan({"q": [(day(0), False)]}, ["q"], day(0), day(24))

    def first(plan):
        return next(d for d, due in plan.items() if due)

    assert first(wrong) < first(right)


def test_a_target_that_is_not_ahead_is_refused_and_the_last_day_takes_what_there_is():
    for late in (0, -1):
        with pytest.raises(ValueError, match="after today"):
            spacing.plan({}, ["q"], TODAY, day(late))
    assert spacing.plan({}, ["a", "b"], TODAY, day(1)) == {TODAY: ["a", "b"]}
    assert spacing.plan({}, ["a", "a"], TODAY, day(2))[TODAY] == ["a"], "an id that is named twice is one question"
    ahead = {"q": [(day(3), True)]}  # a clock that was set back
    assert spacing.plan(ahead, ["q"], TODAY, day(9))
