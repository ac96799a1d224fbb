"""Predictions: the answer is kept before anything shows, the first one counts, and the fold gives nothing away."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys

import nbformat
import pytest

from tests.factories import make_receipt
from tools import canonical
from utils import paths
from utils.model import results, schemas
from utils.show import explain, figures, numbers, widgets
from utils.show import predict as room
from utils.show.predict import fold, predict, review
from utils.show.tables import Table
from utils.show.widgets import VIEW

RNG = random.Random(17)


@pytest.fixture(autouse=True)
def session(tmp_path, monkeypatch):
    """A reader's folder of its own; the returned function forgets the session, as a new kernel would."""

    def forget() -> None:
        paths._folder.cache_clear()
        results._open.cache_clear()
        room._guesses.clear()

    monkeypatch.setenv("ONE_ADD_HOME", str(tmp_path))
    forget()
    yield forget
    forget()


def number(id: str = "test.number", **changes):
    return predict(id, "Which share?", **{"unit": "%", "low": 0, "high": 100, **changes})


def choice(id: str = "test.choice"):
    return predict(id, "What is dearest?", options=[("call_is_work", "the addition"), (None, "the tensor")])


def secret_fold(guess, **more):
    """A fold that holds a random number in every kind of part; returns (fold, the number as text).

    The number is written as no widget's id can hold it: an id is hexadecimal, and a bare 5560 was once found in one.
    """
    value = RNG.randint(100_001, 999_999) / 100
    parts = [
        Table([{"part": "kernel", "price": f"{value} ns"}], caption=f"of {value}"),
        figures.bar({"kernel": float(value)}, title=f"kernel {value}", unit="things"),
        explain.Sentence(lambda: f"It took {value}.", guess=guess),
        f"Plainly {value}.",
    ]
    return fold(guess, *parts, **more), str(value)


def shown(thing) -> str:
    """All that a cell's output holds, widget state included."""
    bundle = thing._repr_mimebundle_()
    panel = getattr(thing, "_panel", None)
    state = "" if panel is None else str([w.get_state() for w in (panel.widget, *panel.widget.children)])
    return str(bundle) + state


# ------------------------------------------------------------------------------------------------ before an answer


def test_before_an_answer_nothing_but_the_closed_fold_holds_it():
    guess = number()
    made, secret = secret_fold(guess)
    assert secret not in shown(guess) and guess.skipped and guess.said == ""
    bundle = made._repr_mimebundle_()
    assert bundle["text/html"].startswith("<details><summary>") and secret not in bundle["text/plain"]
    assert secret in bundle["text/html"] and secret not in made.title
    assert secret in made.text()


def test_the_committed_form_has_a_fallback_and_no_widget():
    guess = choice()
    bundle = guess._repr_mimebundle_()
    assert bundle[VIEW]["model_id"] and "Answer by running this cell" in bundle["text/html"]
    assert all(text in bundle["text/html"] for _, text in guess.options) and "call_is_work" not in str(bundle)
    output = nbformat.v4.new_output("execute_result", data=bundle, execution_count=1)
    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("guess", outputs=[output], execution_count=1)])
    kept = canonical.canonical(nb).cells[0].outputs[0]
    assert VIEW not in kept.data and "Answer by running this cell" in kept.data["text/html"]


def test_on_colab_the_view_stands_alone(monkeypatch):
    monkeypatch.setitem(sys.modules, "google.colab", object())
    bundle = number()._repr_mimebundle_()
    assert VIEW in bundle and "text/html" not in bundle


# ------------------------------------------------------------------------------------------------ answering


def test_an_answer_is_on_disk_before_the_copy_opens(monkeypatch):
    guess = number()
    made, secret = secret_fold(guess)
    guess._repr_mimebundle_()
    order = []
    monkeypatch.setattr(results, "predict", lambda *a, **k: order.append(("kept", secret in guess._panel.copy.value)))
    real = made.html
    monkeypatch.setattr(made, "html", lambda *, open: order.append(("drawn", open)) or real(open=open))
    assert guess.give("80 %")
    assert order[0] == ("kept", False) and ("drawn", True) in order
    assert secret in guess._panel.copy.value and "<details open>" in guess._panel.copy.value


def test_the_first_answer_stays_and_the_reader_is_told():
    guess = number()
    made, secret = secret_fold(guess)
    assert guess.give("80") and guess.number == 80.0
    assert not guess.give("3") and guess.number == 80.0 and "Your first answer stays your prediction: 80 %" in guess.note
    kept = results.predictions("test.number")
    assert [(p["answer"], p["unit"], p["skipped"]) for p in kept] == [(80.0, "%", False)]
    assert made.html(open=True).count("You said 80 %.") == 1


def test_skip_opens_and_no_prediction_can_be_kept_after_it():
    guess = number()
    made, secret = secret_fold(guess)
    guess._repr_mimebundle_()
    guess.skip()
    assert guess.open and guess.skipped and secret in guess._panel.copy.value
    assert not guess.give("80") and guess.skipped and "seen the figure" in guess.note
    assert [p["skipped"] for p in results.predictions("test.number")] == [True]
    guess.skip()
    assert len(results.predictions("test.number")) == 1


@pytest.mark.parametrize(
    "raw", ["", "  ", "eighty", "-1", "101", "1,200", "1.2.3", "80 ns", "1e400", "nan", "inf", None, "8" * 400]
)
def test_a_wrong_input_is_refused_in_words_and_loses_nothing(raw):
    guess = number()
    made, secret = secret_fold(guess)
    guess._repr_mimebundle_()
    guess._panel.field.value = raw or ""
    assert not guess.give(raw)
    assert guess.skipped and not guess.open and len(guess.note) > 15 and secret not in shown(guess)
    assert results.predictions("test.number") == [] and guess._panel.field.value == (raw or "")
    assert guess.give("7,5 %") and guess.number == 7.5


def test_the_buttons_and_enter_do_what_they_say():
    guess = number()
    guess._repr_mimebundle_()
    panel = guess._panel
    panel.answer.click()
    assert guess.skipped and "first" in panel.note.value
    panel.field.value = "4"
    assert guess.skipped, "leaving the field is no answer yet"
    panel.field._submission_callbacks(panel.field)
    assert guess.number == 4.0 and "You said 4 %." in panel.note.value
    other = choice()
    other._repr_mimebundle_()
    assert other._panel.field.value is None
    other._panel.answer.click()
    assert other.skipped and "Choose one" in other._panel.note.value
    other._panel.field.value = "the tensor"
    other._panel.answer.click()
    assert other.choice == "the tensor"
    third = number("test.third")
    third._repr_mimebundle_()
    third._panel.skip.click()
    assert third.open and third.skipped


def test_enter_waits_for_the_text_that_is_still_on_its_way(monkeypatch):
    guess, other = number(), number("test.unchanged")
    monkeypatch.setattr(widgets, "SETTLE_S", 0.05)

    async def page() -> None:
        for one in (guess, other):
            one._repr_mimebundle_()
        other._panel.field.value = "7"
        for one in (guess, other):
            one._panel.field._submission_callbacks(one._panel.field)
        assert guess.skipped and guess.note == "" and other.skipped
        guess._panel.field.value = "80"
        assert guess.number == 80.0, "the text decides at once"
        await asyncio.sleep(0.2)

    asyncio.run(page())
    assert other.number == 7.0, "nothing was changed, so what stands there counts"
    assert len(results.predictions("test.number")) == 1 and "first answer" not in guess.note


def test_an_answer_before_the_fold_opens_the_fold_in_its_own_cell():
    guess = number()
    guess.give("80")
    assert "Run on" in guess.note
    made, secret = secret_fold(guess)
    assert made._repr_html_().startswith("<details open>") and secret in made._repr_html_()


def test_a_fold_with_two_predictions_waits_for_both():
    one, two = number("test.one"), number("test.two")
    made = fold(one, two, "the answer")
    one.give("1")
    assert not made.open and made._repr_html_().startswith("<details><summary>")
    two.skip()
    assert made.open


def test_cells_run_again_keep_the_answer_and_replace_the_fold():
    guess = number()
    secret_fold(guess)
    guess._repr_mimebundle_()
    guess.give("80")
    again = number()
    assert again is guess
    made, secret = secret_fold(again)
    assert secret in guess._panel.copy.value and guess._panel.copy.value.count("<details open>") == 1
    edited = predict("test.number", "Another question?", unit="ns")
    assert edited is not guess and edited.skipped


def test_in_a_new_session_the_answer_is_known_and_the_fold_closed(session):
    number().give("80")
    choice().give("the addition")
    session()
    guess, other = number(), choice()
    made, secret = secret_fold(guess)
    assert guess.number == 80.0 and other.choice == "call_is_work" and "kept on" in guess.note
    assert not made.open and secret not in shown(guess)
    assert guess._panel.skip.description == "Open the figure"
    guess._panel.skip.click()
    assert made.open and guess.number == 80.0 and secret in guess._panel.copy.value
    assert len(results.predictions("test.number")) == 1


def test_an_answer_that_no_longer_fits_the_question_is_not_taken_over(session):
    number().give("80")
    choice().give("the addition")
    session()
    assert number(unit="ns").skipped
    assert predict("test.choice", "What is dearest?", options=[(None, "a"), (None, "b")]).skipped


def test_a_home_that_cannot_be_written_is_told_and_costs_no_answer(monkeypatch, session, tmp_path):
    monkeypatch.setattr(results, "notes", lambda: ["the disk is full"])
    guess = number()
    made, secret = secret_fold(guess)
    assert guess.give("80") and "The disk is full." in guess.note and guess.number == 80.0 and made.open


# ------------------------------------------------------------------------------------------------ options, review, text


def test_the_feedback_names_the_misconception_or_says_right():
    wrong, right = choice("test.a"), choice("test.b")
    wrong.give("the addition")
    right.give("the tensor")
    row = next(r for r in schemas.load("misconceptions")["misconceptions"] if r["id"] == "call_is_work")
    said = wrong.feedback("the tensor")
    assert row["name"] in said and row["truth"] in said and "What was measured here: the tensor." in said
    assert right.feedback("the tensor") == "That is what was measured here."
    assert row["name"] in fold(wrong, "x", right="the tensor").html(open=True)
    assert wrong.feedback(None) == "" and choice("test.c").feedback("the tensor") == ""
    with pytest.raises(ValueError, match="none of the options"):
        wrong.feedback("the moon")


def test_options_must_differ():
    with pytest.raises(ValueError, match="two options"):
        predict("test.one", "Which?", options=[(None, "the same"), ("x", "the same")])


def test_the_review_is_folded_and_follows_later_answers():
    guess, other = number(), choice()
    made = review([(guess, "4711 ns", "because"), (other, "the tensor", "so")])
    assert made._repr_html_().startswith("<details><summary>") and "4711" not in made._repr_mimebundle_()["text/plain"]
    assert made.text().count("skipped") == 2
    guess.give("80")
    assert "80 %" in made.text() and made.text().count("skipped") == 1
    said = explain.Sentence("It took 3 ns.", guess=guess)
    assert "It took 3 ns." in (text := review([(guess, said, "so")]).text()) and "You said" not in text
    assert "You said 80 %." in said.text()


def test_an_empty_fold_is_refused_and_nothing_is_left_unescaped():
    with pytest.raises(ValueError, match="nothing"):
        fold(number(), None)
    made = fold(number(), "a < b & c", title="<b>")
    assert "a &lt; b &amp; c" in made._repr_html_() and "&lt;b&gt;" in made._repr_html_()
    assert "<code>a &lt; b</code>" in fold("is `a < b`?")._repr_html_()


def test_the_hint_stands_on_the_closed_fold_only():
    guess = number()
    made = fold(guess, "x")
    assert (
        room.HINT in made.html(open=False)
        and room.HINT not in made.html(open=True)
        and room.HINT not in fold("x").html(open=False)
    )


def test_a_fold_of_a_real_receipt_is_light():
    receipt = make_receipt()
    made = fold(number(), figures.stage_bars(receipt), explain.adds_up(receipt))
    assert len(made._repr_html_()) < 80_000


# ------------------------------------------------------------------------------------------------ numbers


@pytest.mark.parametrize(
    ("raw", "unit", "value"),
    [("80", "%", 80), ("80 %", "%", 80), ("0,5", "ns", 0.5), (".5", "", 0.5), ("1.2 µs", "ns", 1200), ("1200 ns", "µs", 1.2),
     ("2 us", "µs", 2), ("−3", "", -3), ("+3", "", 3), ("1000", "ns", 1000), ("0,250", "", None), ("1.200", "", 1.2)],
)  # fmt: skip
def test_numbers_as_readers_type_them(raw, unit, value):
    if value is None:
        with pytest.raises(ValueError, match="two ways"):
            numbers.parse_number(raw, unit)
    else:
        assert numbers.parse_number(raw, unit) == pytest.approx(value)


def test_numbers_written_back_read_as_the_same():
    for _ in range(300):
        value = float(f"{RNG.uniform(-1, 1) * 10 ** RNG.randint(-4, 7):.5g}")
        text = numbers.format_number(value)
        assert float(text.replace(",", "")) == pytest.approx(value, rel=1e-5) and "e" not in text


# ------------------------------------------------------------------------------------------------ cost


def test_importing_the_room_imports_neither_matplotlib_nor_widgets_nor_torch():
    rooms = ["tables", "figures", "predict", "quiz", "controls", "progress", "explain", "receipt"]
    code = "import sys, utils.show\n" + "".join(f"import utils.show.{r}\n" for r in rooms)
    code += "print([m for m in ('matplotlib', 'ipywidgets', 'torch', 'IPython', 'numpy', 'jsonschema') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=paths.REPO, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
