"""Quizzes: the key is nowhere before an answer, feedback names the misconception, wrong numbers are refused in words."""

from __future__ import annotations

import random

import pytest

from tests.factories import make_receipt
from utils import paths
from utils.model import quantities, recordings, results, schemas
from utils.show import catalogue
from utils.show import quiz as room
from utils.show.numbers import format_number
from utils.show.widgets import VIEW

RNG = random.Random(29)
QUESTIONS = {q["id"]: q for q in schemas.load("questions")["questions"]}
CHOICES = [i for i, q in QUESTIONS.items() if q["kind"] == "choice"]
MEASURED = [i for i, q in QUESTIONS.items() if q["kind"] == "number" and "from_results" in q["answer"]]


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ONE_ADD_HOME", str(tmp_path))
    monkeypatch.setattr(recordings.paths, "RECORDINGS", tmp_path / "none")
    paths._folder.cache_clear()
    results._open.cache_clear()
    yield
    paths._folder.cache_clear()
    results._open.cache_clear()


def state(made: room.Quiz) -> str:
    """All that the page gets: the bundle and the state of every widget."""
    bundle = str(made._repr_mimebundle_())
    parts = [w for form in made.forms for w in (form.widget, *form.widget.children)]
    return bundle + str([w.get_state() for w in parts])


@pytest.mark.parametrize("question", list(QUESTIONS))
def test_before_an_answer_neither_feedback_nor_misconception_nor_key_is_in_the_page(question):
    row = QUESTIONS[question]
    page = state(room.quiz(question))
    assert row["prompt"].split("`")[0].split("{")[0].replace("'", "&#x27;")[:20] in page or row["prompt"][:1] == "{"
    secrets = [o["feedback"] for o in row.get("options", ())] + [row[key] for key in ("feedback",) if key in row]
    secrets += [*row.get("points", ()), *(part for one in row.get("follow_ups", ()) for part in one.values())]
    secrets += [o["misconception"] for o in row.get("options", ()) if "misconception" in o]
    assert secrets and not any(secret in page for secret in secrets)


@pytest.mark.parametrize("question", CHOICES)
def test_every_option_answers_with_its_feedback_and_its_misconception(question):
    row = QUESTIONS[question]
    for at, option in enumerate(row["options"]):
        made = room.quiz(question)
        made._repr_mimebundle_()
        form = made.forms[0]
        form.field.value = option["text"]
        form.button.click()
        assert form.item.right == (at == row["answer"])
        said = form.item.answer(option["text"])
        assert option["feedback"] in said and said.startswith("✔" if at == row["answer"] else "✘")
        if "misconception" in option:
            assert catalogue.misconception(option["misconception"])["name"] in said
    with pytest.raises(ValueError, match="Choose"):
        made.items[0].answer(None)


@pytest.fixture
def fixed(monkeypatch):
    """Makes an item whose key is a fixed number of ns."""
    known = room._questions()

    def item(wanted: float, tolerance: float = 0.1) -> room.Item:
        key = {"value": wanted, "unit": "ns", "tolerance": tolerance}
        row = {"id": "test.fixed", "prompt": "How many?", "kind": "number", "feedback": "It was counted.", "answer": key}
        monkeypatch.setattr(room, "_questions", lambda: {**known, "test.fixed": row})
        return room.Item(row)

    return item


def test_a_number_is_right_within_its_tolerance_and_wrong_outside(fixed):
    wanted = RNG.uniform(100, 900)
    item = fixed(wanted)
    for factor, right in ((1.0, True), (1.09, True), (0.91, True), (1.11, False), (0.89, False), (-1.0, False)):
        said = item.answer(f"{wanted * factor:.4f}")
        assert item.right is right and "It was counted." in said
        verdict = "✔ Near enough." if right else "✘ Not near enough."
        assert said.startswith(f"{verdict} It is {format_number(wanted, 3)} "), "the number is the answer, not what was given"
    assert item.answer(f"{wanted / 1000:.6f} µs") and item.right


@pytest.mark.parametrize("raw", ["", "about ten", "1,200", "5 GB", "ten ns"])
def test_what_is_no_number_is_refused_and_not_kept(fixed, raw):
    item = fixed(500.0)
    with pytest.raises(ValueError) as refusal:
        item.answer(raw)
    assert len(str(refusal.value)) > 15 and "500" not in str(refusal.value) and item.right is None
    assert results.predictions() == []


@pytest.mark.parametrize("question", MEASURED)
def test_a_question_about_measurements_is_judged_by_the_readers_own(question):
    item = room.quiz(question).items[0]
    assert "Nothing to compare with yet" in item.answer("5") and item.right is False
    for grad in (False, True):
        results.record_receipt(make_receipt("cpu", grad, seed=RNG.randrange(10**6), where=results._fingerprint()))
    key = QUESTIONS[question]["answer"]
    factor = {"percent": 100.0, "us": 1e-3}.get(key["unit"], 1.0)
    own = None
    for grad in (False, True):
        try:
            own = quantities.evaluate(key["from_results"], results.latest_receipt("cpu", grad)).value * factor
            break
        except LookupError:
            continue
    assert own is not None
    said = item.answer(f"{own:.6f}")
    assert item.right and "your own measurement" in said
    item.answer(f"{own * (1.1 + key['tolerance']):.6f}")
    assert not item.right


def test_the_first_answer_counts_for_the_progress():
    question = CHOICES[0]
    row = QUESTIONS[question]
    item = room.quiz(question).items[0]
    texts = [o["text"] for o in row["options"]]
    wrong = next(t for at, t in enumerate(texts) if at != row["answer"])
    item.answer(wrong)
    item.answer(texts[row["answer"]])
    other = room.quiz(CHOICES[1]).items[0]
    other.answer(QUESTIONS[CHOICES[1]]["options"][QUESTIONS[CHOICES[1]]["answer"]]["text"])
    assert room.first_answers() == {question: False, CHOICES[1]: True}
    assert room.score(CHOICES[:3]).rows == [{"questions": 3, "answered": 2, "right at the first try": 1}]
    assert all(p["extra"]["quiz"] for p in results.predictions())


def test_recall_takes_earlier_lessons_and_what_was_not_known_first():
    made = room.recall("price_each_stage", 3)
    lessons = [QUESTIONS[i.id]["lesson"] for i in made.items]
    assert len(made.items) == 3 and all(schemas.LESSONS.index(lesson) < 5 for lesson in lessons)
    first = made.items[0]
    row = QUESTIONS[first.id]
    first.answer(row["options"][row["answer"]]["text"])
    assert room.recall("price_each_stage", 3).items[0].id != first.id
    with pytest.raises(LookupError, match="no question from a lesson before"):
        room.recall("start_here")


def test_without_widgets_the_questions_stand_as_text_and_unknown_ids_are_refused():
    made = room.quiz(CHOICES[:2], title="Pre-test")
    bundle = made._repr_mimebundle_()
    assert VIEW in bundle and "Answer by running this cell" in bundle["text/html"] and "Pre-test" in bundle["text/plain"]
    for question in CHOICES[:2]:
        assert QUESTIONS[question]["prompt"] in bundle["text/plain"]
        assert all(o["text"] in repr(made) for o in QUESTIONS[question]["options"])
    for wrong in ("no.such", ["no.such"], []):
        with pytest.raises(LookupError, match="no such question"):
            room.quiz(wrong)
