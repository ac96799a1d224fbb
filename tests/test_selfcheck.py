"""Sessions of the self-check: one question at a time, in the order of the Tab key, nothing told too early, every answer kept."""

from __future__ import annotations

import asyncio
import random
from datetime import date, timedelta

import pytest

from utils.model import bank, practice, results, spacing
from utils.show import quiz, selfcheck
from utils.show.clock import Clock
from utils.show.widgets import VIEW

RNG = random.Random(41)
FREE = next(q for q in bank.practice() if q["kind"] == "free")


pytestmark = pytest.mark.usefixtures("home")


def page(session: selfcheck.Session) -> str:
    """All that the page has: the bundle and the state of every widget below it."""

    def states(widget):
        yield str(widget.get_state())
        for child in getattr(widget, "children", ()):
            yield from states(child)

    bundle = str(session._repr_mimebundle_())
    return bundle + "".join(states(session._box))


def order(widget) -> list:
    """What the Tab key meets, in this order."""
    import ipywidgets as w

    if isinstance(widget, w.Box):
        return [one for child in widget.children for one in order(child)]
    return (
        [widget] if isinstance(widget, (w.Button, w.RadioButtons, w.Text, w.Textarea, w.Checkbox, w.Dropdown, w.Select)) else []
    )


def give(form, right: bool = True) -> None:
    """Answer the question that stands there, right or wrong, as a reader does it."""
    question = bank.find(form.item.id)
    if question["kind"] == "free":
        form.button.click()
        for box in form.boxes:
            box.value = right
        form.done.click()
        return
    if question["kind"] == "choice":
        options = [o["text"] for o in question["options"]]
        form.field.value = options[question["answer"]] if right else options[question["answer"] - 1]
    else:
        form.field.value = f"{form.item._key(question).value * (1.0 if right else 9.0):.9f}"
    form.button.click()


def secrets(question: dict) -> list[str]:
    found = [o["feedback"] for o in question.get("options", ())] + question.get("points", [])
    return found + [part for one in question.get("follow_ups", ()) for part in one.values()] + [question.get("feedback", "\0")]


SESSIONS = {
    "by topic": selfcheck.by_topic,
    "due": selfcheck.due,
    "interview": lambda: selfcheck.interview(seed=5),
    "post-test": selfcheck.post_test,
}


@pytest.mark.parametrize("kind", SESSIONS)
def test_a_session_from_its_start_to_its_summary(kind):
    session = SESSIONS[kind]()
    before = page(session)
    assert VIEW in session._repr_mimebundle_() and session.label == "Start" and "begin" in repr(session)
    assert not any(q["prompt"][:40] in before for q in [*bank.practice(), *bank.post_test()]), "a question before the start"
    session.button.click()
    asked = list(session.ids)
    assert 1 <= len(asked) <= 12 and len(asked) == len(set(asked))
    rights = 0
    for at, one in enumerate(asked):
        question = bank.find(one)
        assert session.form.item.id == one and f"Question {at + 1} of {len(asked)}" in page(session)
        assert not any(secret in page(session) for secret in secrets(question)), one
        last = at + 1 == len(asked)
        assert session.label == ("Finish" if last else "Leave out")
        right = at % 3 != 0
        give(session.form, right)
        rights += right
        assert session.form.item.right is right, one
        assert session.label == ("Finish" if last else "Next question")
        assert session.form.proof.outputs[0]["data"]["text/html"].count("href=") == 1
        session.button.click()
    assert session.form is None and f"{rights} of {len(asked)} right" in page(session) and session.label == "Start again"
    kept = results.predictions()
    sitting = {"by topic": "topic", "due": "due", "interview": "interview", "post-test": practice.POST}[kind]
    assert [e["id"] for e in kept] == asked and {e["extra"]["sitting"] for e in kept} == {sitting}
    assert all(e["extra"]["seconds"] >= 0 and e["extra"]["quiz"] for e in kept)
    assert (quiz.first_answers() == {}) is (kind == "post-test"), "the post-test is no practice"
    assert len({e["extra"]["number"] for e in kept}) == 1


def test_the_tab_key_goes_from_the_one_button_into_the_question():
    session = selfcheck.by_topic()
    session._repr_mimebundle_()
    import ipywidgets as w

    topics = len(bank.topics())
    assert [type(one) for one in order(session._box)] == [*[w.Checkbox] * topics, w.Button]
    session._list.boxes[1].value = True
    session.button.click()
    met = order(session._box)[topics:]
    assert met[0] is session.button and met[-1] is session.form.button
    assert met[1:-1] == session.form.field.boxes and bank.topic_of(bank.find(session.ids[0])) == bank.topics()[1].id
    free = quiz.quiz(FREE["id"])
    free._repr_mimebundle_()
    assert [type(one) for one in order(free._box)] == [w.Textarea, w.Button]
    free.forms[0].button.click()
    kinds = [type(one) for one in order(free._box)]
    assert kinds == [w.Textarea, w.Button, *[w.Checkbox] * len(FREE["points"]), w.Button]


def test_leaving_out_goes_on_and_is_counted():
    session = selfcheck.interview(seed=2)
    session.step()
    for _ in range(10):
        session.step()
    assert session.status.startswith("0 of 10 right at the first try, 10 left out") and results.predictions() == []
    session.step()
    assert session.at == 0 and session.label == "Leave out", "and it can begin again"


def test_a_second_try_is_practice_and_does_not_change_the_sitting():
    session = selfcheck.post_test()
    session._repr_mimebundle_()
    session.step()
    give(session.form, right=False)
    give(session.form, right=True)
    assert session.given[session.ids[0]][0] is False and session.form.item.right is True
    assert [e["extra"]["right"] for e in results.predictions()] == [False, True]


def test_what_is_no_answer_is_said_and_not_counted():
    session = selfcheck.Session("One", lambda _: ["start_here.calls_in_a_block"], sitting="topic")
    session._repr_mimebundle_()
    session.step()
    session.form.field.value = "many"
    session.form.button.click()
    assert "not a number" in session.form.feedback.value and session.given == {} and session.label == "Finish"
    assert session.form.proof.outputs == ()


def test_a_topic_begins_with_what_was_wrong_then_what_was_never_met():
    topic = bank.topics()[1]
    ids = selfcheck.on_topic(topic.id)
    assert len(ids) == selfcheck.A_SITTING and all(bank.topic_of(bank.find(i)) == topic.id for i in ids)
    known, wrong = ids[0], ids[4]
    results.predict(known, "x", extra={"quiz": True, "right": True})
    results.predict(wrong, "x", extra={"quiz": True, "right": False})
    again = selfcheck.on_topic(topic.id)
    assert again[0] == wrong and known not in again[:8]


def test_due_is_what_the_plan_says_and_the_rest_follows_in_a_second_sitting():
    target = date.today() + timedelta(days=20)
    plan = spacing.plan({}, [q["id"] for q in bank.practice()], date.today(), target)
    assert selfcheck.due_today(target) == plan[date.today()][: selfcheck.A_SITTING]
    first = selfcheck.due_today(target)
    for one in first:
        results.predict(one, "x", extra={"quiz": True, "right": True})
    assert not set(selfcheck.due_today(target)) & set(first)
    table = selfcheck.plan_table(target.isoformat())
    assert [row["day"] for row in table.rows[:3]] == ["today", "tomorrow", "in 2 days"] and len(table.rows) == 20
    assert "in 20 days" in table.notes[0]


def test_nothing_due_is_said():
    session = selfcheck.Session("Due", lambda _: [], sitting="due")
    session._repr_mimebundle_()
    session.button.click()
    assert "Nothing is due" in session._said.value and session.form is None and session.label == "Start"


@pytest.mark.parametrize(
    ("text", "words"), [("tomorrow", "no date"), ("2027-13-01", "no date"), ("2020-01-01", "not after today"), (7, "no date")]
)
def test_a_target_that_is_no_day_ahead_is_refused_in_words(text, words):
    with pytest.raises(ValueError, match=words):
        selfcheck.target_date(text)
    assert selfcheck.target_date(None, date(2027, 1, 1)) == date(2027, 1, 15)


def test_the_numbers_of_a_drill_change_with_every_answer_and_stay_in_an_interview():
    one = "two_ceilings.small_tensors"
    session = selfcheck.Session("Drill", lambda _: [one], sitting="topic")
    prompts = []
    for _ in range(6):
        session.step()
        session._go_to(0)
        prompts.append(session.form.item.prompt)
        results.predict(one, 1.0, extra={"quiz": True, "right": False})
    assert len(set(prompts)) >= 2
    fixed = selfcheck.Session("Drill", lambda _: [one], sitting="interview", seed=3)
    fixed.step()
    assert fixed.form.item.prompt == quiz.item_of(bank.find(one), 3).prompt


def test_progress_and_gain_say_what_is_there_and_what_is_missing():
    rows = selfcheck.progress_table().rows
    assert [row["topic"] for row in rows] == [t.title for t in bank.topics()] and sum(row["met"] for row in rows) == 0
    assert "answered both times" in selfcheck.gain_table()
    question = bank.post_test()[0]
    wrong = next(o for o in question["options"] if "misconception" in o)
    right = question["options"][question["answer"]]["text"]
    results.predict(question["id"], wrong["text"], extra={"quiz": True, "right": False})
    results.predict(question["id"], right, extra={"quiz": True, "right": True, "sitting": practice.POST})
    table = selfcheck.gain_table()
    assert any(row["before"] == 1 and row["after"] == 0 for row in table.rows)
    assert "0 of 1 before, 1 of 1 after" in table.notes[0] and "100 %" in table.notes[1]


# ------------------------------------------------------------------------------------------------ one of several


def test_at_most_one_box_is_ticked():
    from utils.show.one_of import OneOf

    field = OneOf(["a", "b", "c"])
    assert field.value is None
    field.boxes[1].value = True
    field.boxes[2].value = True
    assert [box.value for box in field.boxes] == [False, False, True] and field.value == "c"
    field.boxes[2].value = False
    assert field.value is None
    field.value = "a"
    assert field.value == "a" and OneOf(["a", "b"], "b").value == "b"
    with pytest.raises(ValueError, match="none of a, b, c"):
        field.value = "d"
    assert field.value == "a"


# ------------------------------------------------------------------------------------------------ free recall


def test_free_recall_shows_points_when_asked_and_names_what_was_missing():
    made = quiz.quiz(FREE["id"])
    made._repr_mimebundle_()
    form = made.forms[0]
    form.button.click()
    form.button.click()  # a second click shows nothing twice
    assert [box.description for box in form.boxes] == FREE["points"]
    for box in form.boxes[1:]:
        box.value = True
    form.done.click()
    assert form.item.right and FREE["points"][0] in form.feedback.value.replace("&#x27;", "'")
    assert form.feedback.value.count("<details>") == 2 and results.predictions()[-1]["extra"]["points"] == len(FREE["points"]) - 1
    for box in form.boxes[2:]:
        box.value = False
    form.done.click()
    assert form.item.right is False, "less than two thirds"
    with pytest.raises(ValueError, match="key points to tick"):
        form.item.answer([True])


# ------------------------------------------------------------------------------------------------ the clock


def test_the_clock_counts_down_says_when_time_is_over_and_takes_nothing_away():
    now, shown = [100.0], []
    clock = Clock(shown.append, now=lambda: now[0])
    assert clock.stop() == 0.0 and not clock.late
    clock.start(60)
    now[0] += 20.5
    assert clock.taken == pytest.approx(20.5) and not clock.late
    clock._tick()
    now[0] += 45
    clock._tick()
    assert shown == ["60 s left", "40 s left", "the time is over: finish your sentence"] and clock.late
    assert clock.stop() == pytest.approx(65.5) and clock.stop() == 0.0


def test_in_a_kernel_the_clock_ticks_by_itself_and_stops():
    async def watch():
        shown: list[str] = []
        clock = Clock(shown.append)
        clock.start(60)
        await asyncio.sleep(1.3)
        clock.stop()
        ticks = len(shown)
        await asyncio.sleep(1.2)
        return shown, ticks

    shown, ticks = asyncio.run(watch())
    assert ticks >= 2 and len(shown) == ticks, "a stopped clock goes on"


def test_a_late_answer_is_late_and_counts(monkeypatch):
    session = selfcheck.interview(seed=4)
    session._repr_mimebundle_()
    session.step()
    now = [0.0]
    session.clock._now = lambda: now[0]
    session.clock.start(30)
    now[0] = 31.0
    give(session.form)
    extra = results.predictions()[-1]["extra"]
    assert extra["late"] is True and extra["seconds"] == 31.0 and extra["right"] is True
    assert "1 late" in session.summary()
