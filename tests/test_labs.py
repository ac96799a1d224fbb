"""Every lab there is: generated to the byte, sound before it is written, full when it is, and each wrong answer told apart."""

from __future__ import annotations

import json

import pytest

from grading import course, fast, release, wrong
from grading.rebuild import rebuilt
from grading.score import lost, total
from utils.labs import cells
from utils.model import schemas

LABS = course.labs()
WRONG = [answer for lab in LABS for answer in wrong.catalogue(lab)]
EACH = pytest.mark.parametrize("lab", LABS)


def source(lab: str) -> dict:
    return cells.read(course.source(lab))


def student(lab: str) -> dict:
    return cells.read(course.LABS / lab / f"{lab}.ipynb")


def test_there_are_labs():
    assert LABS


@EACH
def test_the_student_edition_is_what_the_source_gives(lab, tmp_path):
    """Generated again, byte by byte: nobody edits labs/ by hand, and nobody forgets `make labs`."""
    made = {path.name: path.read_bytes() for path in release.release(lab, tmp_path / lab)}
    there = {path.name: path.read_bytes() for path in (course.LABS / lab).iterdir() if path.is_file()}
    assert there.keys() == made.keys()
    assert [name for name in made if made[name] != there[name]] == [], "run `make labs`"


@EACH
def test_a_student_edition_gives_nothing_away(lab):
    text = (course.LABS / lab / f"{lab}.ipynb").read_text(encoding="utf-8")
    for words in ("BEGIN SOLUTION", "END SOLUTION", "HIDDEN TESTS", "MARK SCHEME"):
        assert words not in text
    assert not any(cell.get("outputs") for cell in student(lab)["cells"])
    stubs = {cell.id: cell for cell in cells.known(student(lab)) if cell.solution}
    for cell in cells.known(source(lab)):
        if cell.solution:
            body = cell.source.split("### BEGIN SOLUTION")[1].split("### END SOLUTION")[0]
            longest = max(body.strip().splitlines(), key=len).strip()
            assert longest not in stubs[cell.id].source and ("YOUR CODE HERE" in stubs[cell.id].source) != cell.by_hand


@EACH
def test_before_it_is_written_nothing_fails_but_the_stubs(lab):
    """All cells in order, as in Run All that goes on after errors: only NotImplementedError, and only in test cells."""
    namespace: dict = {"__name__": "__main__"}
    failed = {}
    for cell in student(lab)["cells"]:
        if cell["cell_type"] != "code" or cell["id"] == "check":
            continue
        try:
            exec(compile(cells.source(cell), cell["id"], "exec"), namespace)  # noqa: S102
        except NotImplementedError as error:
            failed[cell["id"]] = error
    assert set(failed) == {cell.id for cell in cells.known(student(lab)) if cell.test}


@EACH
def test_the_untouched_lab_earns_nothing_and_the_solution_everything(lab):
    untouched = fast.grade(rebuilt(student(lab), source(lab)))
    full = fast.grade(rebuilt(source(lab), source(lab)))
    assert total(untouched) == 0
    assert lost(full) == set(), [score for score in full if score.said]
    assert total(full) == sum(cell.points for cell in cells.known(source(lab)) if cell.test) > 0


@EACH
def test_a_lab_has_wrong_answers_for_every_test(lab):
    answers = [answer for answer in WRONG if answer.lab == lab]
    assert len(answers) >= 8
    tests = {cell.id for cell in cells.known(source(lab)) if cell.test}
    caught = {cell_id for answer in answers for cell_id in answer.loses}
    assert caught == tests, "a test that no wrong answer fails proves nothing"


@pytest.mark.parametrize("answer", WRONG, ids=lambda answer: f"{answer.lab[:5]}-{answer.id}")
def test_a_wrong_answer_loses_what_it_got_wrong_and_nothing_else(answer):
    scores = fast.grade(rebuilt(answer.notebook(), source(answer.lab)))
    assert lost(scores) == set(answer.loses), [score for score in scores if score.said]
    assert not any("NotImplementedError" in score.said for score in scores)


def test_each_wrong_answer_names_a_misconception_that_exists():
    there = {entry["id"] for entry in schemas.load("misconceptions")["misconceptions"]}
    assert {answer.misconception for answer in WRONG} <= there


@EACH
def test_wrong_answers_are_caught_by_hidden_tests_too(lab):
    """The hidden half must not be decoration: with the visible half gone, every wrong answer still loses something."""
    bare = source(lab)
    for cell in bare["cells"]:
        known = cells.known({"cells": [cell]})
        if known and known[0].test:
            text = cells.source(cell)
            setup = [line for line in cells.visible(text).splitlines() if line.startswith("why = ") and "{" not in line]
            cell["source"] = "\n".join(setup) + "\n" + text[text.index("### BEGIN HIDDEN TESTS") :]
    assert lost(fast.grade(rebuilt(source(lab), bare))) == set()
    slipped = []
    for answer in (answer for answer in WRONG if answer.lab == lab):
        others = {known.id for known in cells.known(bare) if known.test and known.id not in answer.loses}
        only = {**bare, "cells": [c for c in bare["cells"] if not any(k.id in others for k in cells.known({"cells": [c]}))]}
        if not lost(fast.grade(rebuilt(answer.notebook(), only))):
            slipped.append(answer.id)
    assert slipped == []


def test_a_change_that_no_longer_fits_is_an_error():
    answer = next(answer for answer in WRONG if "find" in answer.changes[0])
    stale = {**answer.changes[0], "find": "a line that is not there"}
    with pytest.raises(ValueError, match="occurs 0 times"):
        wrong.Wrong(answer.id, answer.lab, answer.says, answer.misconception, answer.loses, (stale,)).notebook()
    with pytest.raises(ValueError, match="no solution cell"):
        wrong.Wrong(answer.id, answer.lab, answer.says, answer.misconception, answer.loses, ({**stale, "cell": "x"},)).notebook()


def test_answers_in_the_labs_own_file_are_kept(tmp_path, monkeypatch):
    """A learner may work in labs/ itself: `make labs` puts such a file aside before it writes a new one."""
    lab = LABS[0]
    nb = student(lab)
    monkeypatch.setattr(course, "LABS", tmp_path)
    monkeypatch.setattr(course, "WORK", tmp_path / "work")
    path = tmp_path / lab / f"{lab}.ipynb"
    path.parent.mkdir()
    path.write_text(json.dumps(nb), encoding="utf-8")
    assert release.keep_answers(lab) is None
    cell = next(c for c in nb["cells"] if (known := cells.known({"cells": [c]})) and known[0].solution)
    cell["source"] = "def mine(): return 1"
    path.write_text(json.dumps(nb), encoding="utf-8")
    kept = release.keep_answers(lab)
    assert kept is not None and json.loads(kept.read_text(encoding="utf-8")) == nb


def test_a_lab_is_found_by_name_and_number():
    lab = LABS[0]
    assert {course.named(said) for said in (lab, "1", "lab1", "lab01", "LAB1")} == {lab}
    assert course.named("lab99") is None and course.named("") is None and course.named("lab") is None
