"""A part worded as measured here and as recorded there: what is said where one of them is missing."""

from __future__ import annotations

from types import SimpleNamespace

from utils.measure import either_clock, study_here, two_ceilings
from utils.measure.launch_here import Found
from utils.measure.study_here import NOT_YET, Both
from utils.show.explain import Sentence
from utils.show.here_and_there import not_measured, told

HERE, THERE = "live · here", "recorded · there"


def words(here: dict | None, there: dict | None) -> str:
    missing = Found(None, why=NOT_YET["cuda"])
    found = Both(Found(here, HERE) if here else Found(None, why="no GPU here"), Found(there, THERE) if there else missing)
    return str(told(found, "the price", lambda value: f"It takes {value['us']} µs."))


def test_both_are_told_with_their_labels():
    said = words({"us": 3, "device": "cpu"}, {"us": 2, "device": "cuda"})
    assert f"It takes 3 µs. ({HERE})" in said and f"It takes 2 µs. ({THERE})" in said and "Not measured" not in said


def test_each_source_has_a_paragraph_of_its_own_and_a_string_is_one_line():
    live, kept = Found({"us": 3}, HERE), Found({"us": 2}, THERE)
    said = told(Both(live, kept), "the price", lambda value: f"It takes {value['us']} µs.")
    assert said._repr_html_() == f"<p>It takes 3 µs. ({HERE})</p><p>It takes 2 µs. ({THERE})</p>"
    assert said.text() == repr(said) == f"It takes 3 µs. ({HERE})\nIt takes 2 µs. ({THERE})"
    assert str(said) == said.measured() == f"It takes 3 µs. ({HERE}) It takes 2 µs. ({THERE})"
    assert "\n" not in Sentence("One.", "Two.").text() and Sentence("One.", "Two.")._repr_html_() == "<p>One. Two.</p>"


def test_that_something_was_not_measured_is_said_once(monkeypatch):
    def none(device, progress):
        either_clock.need("cuda", "a step")

    monkeypatch.setattr(either_clock, "gpu", lambda: SimpleNamespace(usable=False))
    monkeypatch.setattr(two_ceilings, "IN_LESSON", {"drift": none})
    missing = study_here.both("two_ceilings", "drift", "cuda").here
    said = not_measured(missing, "a price")
    assert said == "Not measured: a price; no CUDA device here for a step: the recordings hold a GPU's."


def test_what_is_missing_is_told_unless_a_gpu_has_just_measured_it():
    assert NOT_YET["cuda"] in words({"us": 3, "device": "cpu"}, None) and NOT_YET["cuda"] in words(None, None)
    assert words({"us": 3, "device": "cuda"}, None) == f"It takes 3 µs. ({HERE})"
    assert "Not measured: the price; no GPU here." in words(None, {"us": 2, "device": "cuda"})


def test_what_comes_after_keeps_the_paragraphs_apart():
    said = Sentence("here (live)", "there (recorded)", apart=True).then("and beyond", "")
    assert said.text().splitlines() == ["here (live)", "there (recorded)", "and beyond"]
    assert str(said) == "here (live) there (recorded) and beyond" and said._repr_html_().count("<p>") == 3
    assert Sentence("one", "line").then("more").text() == "one line more"
