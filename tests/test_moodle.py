"""The export for Moodle: what its importer asks for, every question in it or named as left out, and errors that are found."""

from __future__ import annotations

import random
import re
from xml.etree import ElementTree as et

import pytest

from tests.moodle_rules import problems
from utils import paths
from utils.model import bank, keys, recordings, results
from utils.show import moodle

RNG = random.Random(6)


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> str:
    with pytest.MonkeyPatch.context() as m:
        m.setenv("ONE_ADD_HOME", str(tmp_path_factory.mktemp("home")))
        paths._folder.cache_clear()
        results._open.cache_clear()
        made = moodle.document()
    paths._folder.cache_clear()
    results._open.cache_clear()
    return made


@pytest.fixture
def quiz(text) -> et.Element:
    return et.fromstring(text.encode())


def named(quiz: et.Element, name: str) -> et.Element:
    return next(q for q in quiz if q.findtext("name/text") == name)


def test_it_is_what_moodles_importer_asks_for(text):
    assert problems(text) == []


def test_every_question_is_in_it_or_named_as_left_out(quiz):
    names = {q.findtext("name/text").split(" ")[0] for q in quiz if q.get("type") != "category"}
    everything = {q["id"] for q in [*bank.practice(), *bank.post_test()]}
    assert names | set(moodle.left_out()) == everything and not names & set(moodle.left_out())
    assert all(bank.find(i)["kind"] == "number" for i in moodle.left_out())
    categories = [q.findtext("category/text") for q in quiz if q.get("type") == "category"]
    assert categories == [f"{moodle.ROOT}/{title}" for title in ("Pre-test", *(t.title for t in bank.topics()))]


def test_a_choice_carries_its_reasons_and_misconceptions(quiz):
    for question in RNG.sample([q for q in bank.practice() if q["kind"] == "choice"], 12):
        answers = named(quiz, question["id"]).findall("answer")
        assert [a.get("fraction") == "100" for a in answers] == [at == question["answer"] for at in range(len(answers))]
        for answer, option in zip(answers, question["options"], strict=True):
            assert ("Misconception" in answer.findtext("feedback/text")) is ("misconception" in option)
        assert bank.proof(question).words in named(quiz, question["id"]).findtext("generalfeedback/text")


def test_a_drill_is_one_question_a_seed_with_its_own_key(quiz):
    question = bank.find("two_ceilings.profiler_by_hand")
    for seed in moodle.SEEDS:
        found, key = named(quiz, f"{question['id']} {seed}"), keys.key(question, seed)
        answer = found.find("answer")
        assert float(answer.findtext("text")) == pytest.approx(key.value)
        assert float(answer.findtext("tolerance")) == pytest.approx(key.tolerance * key.value, rel=1e-4)
        assert "In µs" in found.findtext("questiontext/text")


def test_a_trace_travels_with_its_question(quiz):
    question = next(q for q in bank.practice() if "trace" in q)
    found = named(quiz, question["id"])
    assert found.find("questiontext/file").get("name") == f"{question['id']}.svg" and "alt=" in found.findtext(
        "questiontext/text"
    )


def test_without_a_recording_the_words_stand_in_the_picture_s_place(tmp_path, monkeypatch):
    monkeypatch.setattr(recordings.paths, "RECORDINGS", tmp_path)
    question = next(q for q in bank.practice() if "trace" in q)
    made = moodle._choice(question)
    assert made.find("questiontext/file") is None and "cannot be shown" in made.findtext("questiontext/text")


FAULTS = {
    "a blank line in front": lambda t: "\n" + t,
    "an unknown fraction": lambda t: t.replace('fraction="100"', 'fraction="99"', 1),
    "two right answers": lambda t: t.replace('fraction="0"', 'fraction="100"', 1),
    "a key that is no number": lambda t: t.replace("<tolerance>", "<tolerance>about ", 1),
    "a name given twice": lambda t: t.replace("start_here.three_percent", "start_here.half_the_elements"),
    "a category outside the course": lambda t: t.replace("$course$/", "", 1),
    "a type that Moodle does not know": lambda t: t.replace('type="essay"', 'type="free"', 1),
    "a text that is none": lambda t: re.sub(r"<name>\s*<text>(.*?)</text>", r"<name><t>\1</t>", t, count=1),
    "a picture that is not there": lambda t: t.replace(".svg\" path", ".png\" path", 1),
    "an essay without anything for the grader": lambda t: re.sub("graderinfo", "hints", t, count=2),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_the_rules_find(fault, text):
    changed = FAULTS[fault](text)
    assert changed != text and problems(changed)
