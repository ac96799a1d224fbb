"""INSTRUCTOR.md's table of objectives: what lessons, questions, labs and claims give, and every name in it means something."""

from __future__ import annotations

import copy
import re

import pytest

from grading import course
from tools import syllabus
from utils.model import schemas


def test_the_table_is_what_the_files_give():
    text = syllabus.PAGE.read_text(encoding="utf-8")
    assert syllabus.page(text) == text, "run `python -m tools.syllabus`"
    assert syllabus.problems() == []


def test_every_objective_of_every_lesson_has_a_row_with_its_questions():
    rows, there = [line for line in syllabus.table().splitlines() if line.startswith("| [")], syllabus.objectives()
    assert len(rows) == len(there) >= 4 * 9
    asked = {q["id"].split(".")[1] for q in schemas.load("questions")["questions"] if q["objective"] in there}
    assert asked <= set(re.findall(r"\w+", " ".join(rows)))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"id": "one_add.nothing"}, "no lesson has this objective"),
        ({"sections": ["nowhere"]}, "no cell nowhere-text"),
        ({"exercises": ["lab01_stopwatch/99"]}, "no exercise lab01_stopwatch/99"),
        ({"claims": ["A99"]}, "claim A99 is not of its lesson"),
        ({"exercises": []}, "no objective asks for this exercise"),
    ],
)
def test_a_name_that_means_nothing_is_told(monkeypatch, change, said):
    data = copy.deepcopy(schemas.load("syllabus"))
    row = next(row for row in data["objectives"] if row["id"] == "start_here.spot_traps")
    row.update(change)
    load = schemas.load
    monkeypatch.setattr(schemas, "load", lambda kind: data if kind == "syllabus" else load(kind))
    assert any(said in problem for problem in syllabus.problems())


def test_a_page_without_a_place_is_told():
    with pytest.raises(ValueError, match="no place"):
        syllabus.page("# Teaching")


@pytest.mark.parametrize("lab", course.labs())
def test_every_lab_has_its_row_and_three_oral_questions_with_answers(lab):
    text = syllabus.PAGE.read_text(encoding="utf-8")
    number = int(lab[3:5])
    oral = text.split(f"**Lab {number} ·")[1].split("\n**Lab ")[0].split("\n## ")[0]
    asked = re.findall(r"^\d\. \*(.+?\?)\* (\S.+)$|^\d\. \*(.+?)\* (\S.+)$", oral, re.MULTILINE)
    assert len(asked) == 3
    assert f"labs/{lab}/{lab}.ipynb)" in text
