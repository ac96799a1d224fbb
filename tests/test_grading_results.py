"""A class's results: kept whole over kills and re-grades, explained, read by a person, compared; and a lab's private tests.

Outcomes are made up where nothing has to be run.
"""

from __future__ import annotations

import csv
import json
import random
import signal
import subprocess
import sys
import time

import pytest

from grading import apart, box, klass, manual, report, similar, status
from grading.classroom import Klass, drawn_for, run
from grading.intake import handed_in
from grading.overlay import BadOverlay, replaced
from grading.store import Store, total, waiting
from tests import tiny_lab
from tests.conftest import REPO
from utils.labs import cells

SCORES = [
    {"id": "double_small", "points": 3.0, "most": 3.0, "said": ""},
    {"id": "double_zero", "points": 0.0, "most": 2.0, "said": "AssertionError: Twice nothing is nothing, you say 2."},
    {"id": "why", "points": None, "most": 3.0, "said": ""},
]


def a_class(place, answers: dict[str, str], **more) -> Klass:
    """A class in which each student wrote `answers[student]` under "why"."""
    for student, why in answers.items():
        path = place / "submitted" / student / "lab.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(tiny_lab.file(tiny_lab.answered(why=why)))
    handed = handed_in(place / "submitted", tiny_lab.LAB)
    return Klass(tiny_lab.LAB, tiny_lab.source(), Store(place / "grades"), handed, **more)


def graded(one: Klass, outcome: dict | None = None) -> list[str]:
    """Grade what is planned, with a made-up outcome; the students that were."""
    todo = one.plan()
    for student, key in todo:
        one.note(student, key, dict(outcome or {"status": status.GRADED, "reason": "", "scores": SCORES}))
    return [student for student, _ in todo]


# ------------------------------------------------------------------------------------------------ again, and after a kill


def test_the_same_file_is_graded_once_and_another_one_again(tmp_path):
    one = a_class(tmp_path, {"ada": "a", "bob": "b"})
    assert graded(one) == ["ada", "bob"]
    assert graded(a_class(tmp_path, {"ada": "a", "bob": "b"})) == []
    assert graded(a_class(tmp_path, {"ada": "a", "bob": "changed"})) == ["bob"]
    assert graded(a_class(tmp_path, {}, again=True)) == ["ada", "bob"]
    assert graded(a_class(tmp_path, {}, limits=box.Limits(cell_s=5))) == ["ada", "bob"], "more time is another grading"


def test_no_old_score_stands_after_a_failed_regrade(tmp_path):
    graded(a_class(tmp_path, {"ada": "a"}))
    one = a_class(tmp_path, {"ada": "changed"})
    one.plan()
    assert total(one.store.get("ada")) is None, "while its turn has not come"
    died = {"status": status.DIED, "reason": "the kernel died"}
    assert graded(a_class(tmp_path, {}), died) == ["ada"]
    record = one.store.get("ada")
    assert total(record) is None and record["scores"] == [] and not one.store.notebook("ada").exists()
    assert [old["total"] for old in record["history"]] == [3.0]


def test_an_unreadable_file_takes_the_score_of_the_one_before_away(tmp_path):
    graded(a_class(tmp_path, {"ada": "a"}))
    (tmp_path / "submitted" / "ada" / "lab.ipynb").write_bytes(b"{")
    one = a_class(tmp_path, {})
    assert one.plan() == [] and one.store.get("ada")["status"] == status.UNREADABLE
    assert total(one.store.get("ada")) is None


def test_a_regrade_keeps_marks_and_lists_changed_totals(tmp_path):
    one = a_class(tmp_path, {"ada": "my reason", "bob": "b"})
    graded(one)
    one.store.mark("ada", "why", 2.0, "an example is missing")
    assert total(one.store.get("ada")) == 5.0 and waiting(one.store.get("ada")) == []
    better = [{**score, "points": score["most"]} if score["id"] == "double_zero" else score for score in SCORES]
    again = a_class(tmp_path, {}, again=True)
    graded(again, {"status": status.GRADED, "reason": "", "scores": better})
    assert total(again.store.get("ada")) == 7.0
    assert "ada: was 5 points, is 7 points" in report.summary(again)
    changed = a_class(tmp_path, {"ada": "another reason"})
    graded(changed)
    assert waiting(changed.store.get("ada")) == ["why"], "the mark was given for another text"
    assert total(changed.store.get("ada")) == 5.0


def test_an_outcome_that_comes_twice_or_late_is_kept_once(tmp_path):
    one = a_class(tmp_path, {"ada": "a"})
    ((student, key),) = one.plan()
    outcome = {"status": status.GRADED, "reason": "", "scores": SCORES}
    assert one.note(student, key, dict(outcome)) and one.note(student, key, dict(outcome)) is None
    newer = a_class(tmp_path, {"ada": "changed"})
    newer.plan()
    assert one.note(student, key, dict(outcome)) is None, "an outcome for the file before"
    assert one.store.get("ada")["status"] == status.PENDING


SLOW = """
import sys, time
from pathlib import Path
from grading import apart
from tests import test_grading_results as t
from grading.classroom import run
def outcome(task):
    time.sleep(0.05)
    return {"status": "graded", "reason": "", "scores": t.SCORES, "graded": task["notebook"]}
apart.outcome = outcome
one = t.a_class(Path(sys.argv[1]), {}, unsafe=True)
print("ready", flush=True)
run(one, jobs=2, quiet=True)
"""


def test_killed_again_and_again_no_grade_is_lost_or_doubled(tmp_path):
    students = {f"s{n:02}": str(n) for n in range(40)}
    store = a_class(tmp_path, students).store
    rng, kills = random.Random(9), 0
    while True:
        done = {r["student"]: r["at"] for r in store.all() if r["status"] == status.GRADED}
        child = subprocess.Popen([sys.executable, "-c", SLOW, str(tmp_path)], cwd=REPO, stdout=subprocess.PIPE)
        child.stdout.readline()
        try:
            child.wait(rng.uniform(0.05, 0.5) if kills < 4 else 60)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
            child.wait()
            kills += 1
        after = {r["student"]: r for r in store.all()}
        assert all(after[student]["at"] == at for student, at in done.items()), "a finished one was graded again"
        if child.returncode == 0:
            break
    assert kills and sorted(after) == sorted(students)
    assert all(r["status"] == status.GRADED and total(r) == 3.0 and r["history"] == [] for r in after.values())


def test_without_a_box_it_refuses_and_says_the_container_way(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(box, "why_not", lambda: "bubblewrap is there on Linux only, and this is plan9")
    (tmp_path / "submitted").mkdir()
    lab = tmp_path / "submitted" / "ada.ipynb"
    lab.write_bytes((REPO / "labs/lab01_stopwatch/lab01_stopwatch.ipynb").read_bytes())
    assert klass.main(["1", str(tmp_path / "submitted"), "--out", str(tmp_path / "grades")]) == 2
    told = capsys.readouterr().err
    assert "plan9" in told and "container" in told and "ARGS=--unsafe" in told
    assert list((tmp_path / "grades" / "students").iterdir()) == []


# ------------------------------------------------------------------------------------------------ told


def test_everything_about_one_grade_can_be_told(tmp_path):
    one = a_class(tmp_path, {"ada": "a"})
    graded(one)
    one.store.mark("ada", "why", 2.0, "an example is missing")
    text = report.explanation(one, "ada")
    for words in ("graded, its points count", "double_zero", "Twice nothing is nothing, you say 2.", "2 by a person", "5 points"):
        assert words in text
    with pytest.raises(report.NoStudent):
        report.explanation(one, "nobody")


def test_the_class_is_summed_up_by_misconception():
    from grading import believed, wrong

    catalogue = wrong.catalogue("lab01_stopwatch")
    answer = next(one for one in catalogue if len(one.loses) == 1)
    lost = {"scores": [{"id": answer.loses[0], "points": 0.0, "most": 1.0, "said": "AssertionError: no"}]}
    unwritten = {"scores": [{"id": answer.loses[0], "points": 0.0, "most": 1.0, "said": "not written yet"}]}
    found = {name: count for name, count, _ in believed.by_misconception([lost, lost, unwritten], catalogue)}
    assert found[answer.misconception] == 2
    assert believed.name_of(answer.misconception) != answer.misconception


def test_two_students_with_the_same_drawn_numbers_are_listed(tmp_path):
    mine = cells.read(REPO / "labs/lab05_roofline/lab05_roofline.ipynb")
    answer = next(c for c in mine["cells"] if c["metadata"].get("nbgrader", {}).get("grade_id") == "my_name")
    records = []
    for student, name in (
        ("ada", '"Ada  Lovelace"'),
        ("bob", '"ada lovelace"'),
        ("eve", '"Eve"'),
        ("odd", "1 +"),
        ("dan", "f()"),
    ):
        answer["source"] = f"def my_name():\n    return {name}"
        records.append({"student": student, "drawn_for": drawn_for(mine)})
    assert [record["drawn_for"] for record in records] == ["ada lovelace", "ada lovelace", "eve", "", ""]
    assert list(report._shared(records)) == [("ada lovelace", ["ada", "bob"])]


def test_a_class_draws_its_own_numbers(tmp_path, monkeypatch):
    """Of labs 2, 5, 6 (10: test_lab_diagnose.py): a class with a seed has other numbers, the same whenever they are drawn."""
    from utils.labs import cost_model, learner, roofline, stage_prices

    drawn = (stage_prices.sheet, roofline.bench, cost_model.bench.__wrapped__)
    without = [repr(draw("Ada")) for draw in drawn]
    assert learner.seed_of("Ada", 5) == "one-add-priced/lab 5/ada", "without a seed as ever"
    monkeypatch.setattr(learner, "CLASS_SEED", tmp_path / "class_seed.txt")
    learner.CLASS_SEED.write_text("spring 2027\n")
    learner.class_seed.cache_clear()
    try:
        here = [repr(draw("Ada")) for draw in drawn]
        again = [repr(draw("Ada")) for draw in drawn]
    finally:
        monkeypatch.undo()
        learner.class_seed.cache_clear()
    assert here == again and all(a != b for a, b in zip(here, without))


# ------------------------------------------------------------------------------------------------ read by a person


def test_answers_go_out_to_be_read_and_marks_come_back(tmp_path):
    one = a_class(tmp_path, {f"s{n}": f"=answer {n}" for n in range(9)})
    graded(one)
    path = tmp_path / "sheet.csv"
    assert manual.sheet(one.records(), path, sample=4) == 4
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert all(row["answer"].startswith("'=answer") for row in rows), "no spreadsheet may take it for a formula"
    assert "One point each" in manual.rubric(one.source, "why")
    for row in rows[:2]:
        row.update(points="2,5", comment="good")
    _write(path, rows)
    assert manual.take(one.store, path) == 2
    assert total(one.store.get(rows[0]["student"])) == 5.5
    assert manual.sheet(one.records(), path) == 7
    for bad, said in (
        ({"points": "4"}, "4 points of 3"),
        ({"points": "x"}, "no number"),
        ({"student": "eve"}, "no such student"),
    ):
        _write(path, [{**rows[2], "points": "1"}, {**rows[3], "points": "1", **bad}])
        with pytest.raises(manual.BadMarks, match=said):
            manual.take(one.store, path)
        assert waiting(one.store.get(rows[2]["student"])) == ["why"], "a bad sheet is taken whole or not at all"


def _write(path, rows: list[dict]) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        out = csv.DictWriter(file, manual.COLUMNS)
        out.writeheader()
        out.writerows(rows)


# ------------------------------------------------------------------------------------------------ alike


def _program(seed: int) -> str:
    rng = random.Random(seed)
    lines = [f"    {rng.choice('abcd')} = {rng.choice('abcd')} {rng.choice('+-*/')} {rng.randint(1, 99)}" for _ in range(12)]
    return "def f(a, b, c, d):\n" + "\n".join(lines) + "\n    return a"


def test_renamed_and_commented_copies_are_listed_and_others_are_not():
    answers = {f"s{n}": [_program(n)] for n in range(12)}
    copied = "# mine\n" + _program(3).replace("    a =", "    total =  ").replace("def f", "def g")
    found = similar.pairs({**answers, "copycat": [copied]}, [])
    assert [pair[1:] for pair in found] == [("copycat", "s3")] and found[0][0] > 0.9
    assert similar.pairs({**answers, "copycat": [copied]}, [_program(3)]) == [], "what the lab gives away says nothing"
    assert similar.pairs({name: [_program(3)] for name in answers}, []) == [], "what everybody writes says nothing"
    assert similar.runs("def f(:") == set()


# ------------------------------------------------------------------------------------------------ private hidden tests


def test_a_private_folder_replaces_the_hidden_tests(tmp_path):
    folder = tmp_path / tiny_lab.LAB
    folder.mkdir()
    (folder / "double_small.py").write_text("assert strict.equal(double(11), 22, 'Eleven, twice.')\n")
    (folder / "greet_says.py").write_text("assert strict.equal(greet('Bob'), 'hello Bob', 'Bob, too.')\n")
    private = replaced(tiny_lab.source(), folder)
    small, says = (cells.source(tiny_lab.cell(private, name)) for name in ("double_small", "greet_says"))
    assert str(tiny_lab.SECRET) not in small and "double(11)" in small and "double(2)" in small
    assert "hello Ada" in says and "hello Bob" in says, "a cell without hidden tests gets some"
    assert cells.source(tiny_lab.cell(private, "double_zero")) == cells.source(tiny_lab.cell(tiny_lab.source(), "double_zero"))
    assert [c.points for c in cells.known(private)] == [c.points for c in cells.known(tiny_lab.source())]
    (folder / "double_smal.py").write_text("pass")
    with pytest.raises(BadOverlay, match="double_smal"):
        replaced(tiny_lab.source(), folder)


@pytest.mark.skipif(bool(box.why_not()), reason="no box here")
def test_private_tests_decide_the_grade(tmp_path):
    """An answer that knows the public hidden tests by heart, graded with others."""
    folder = tmp_path / "overlay" / tiny_lab.LAB
    folder.mkdir(parents=True)
    (folder / "double_small.py").write_text("assert strict.equal(double(11), 22, why)\n")
    by_heart = f"def double(x):\n    return {{2: 4, 0: 0, {tiny_lab.SECRET}: {2 * tiny_lab.SECRET}}}[x]"
    path = tmp_path / "submitted" / "eve.ipynb"
    path.parent.mkdir()
    path.write_bytes(tiny_lab.file(tiny_lab.answered(double=by_heart)))
    points = []
    for source in (tiny_lab.source(), replaced(tiny_lab.source(), folder)):
        one = Klass(tiny_lab.LAB, source, Store(tmp_path / "grades"), handed_in(path.parent, tiny_lab.LAB))
        run(one, jobs=1, quiet=True)
        points.append(total(one.store.get("eve")))
    assert points == [8.0, 5.0]


# ------------------------------------------------------------------------------------------------ apart


def test_a_grading_process_that_never_ends_is_ended(tmp_path, monkeypatch):
    popen = subprocess.Popen
    monkeypatch.setattr(apart, "_can_fork", lambda: False)
    monkeypatch.setattr(apart.subprocess, "Popen", lambda command, **kw: popen(["sleep", "600"], **kw))
    began = time.monotonic()
    with pytest.raises(apart.GradingFailed, match="longer than 0.2 s") as error:
        apart._apart(tmp_path, {}, 0.2)
    assert error.value.status == status.TIMEOUT and time.monotonic() - began < 60


def test_no_name_leads_out_of_the_folder_of_results(tmp_path):
    store = Store(tmp_path / "grades")
    store.begin("../../ü/x", "key", {"file": "", "late": False})
    (path,) = (tmp_path / "grades" / "students").glob("*.json")
    assert json.loads(path.read_text())["student"] == "../../ü/x"
    assert store.get("../../ü/x") == next(store.all())


def test_private_tests_that_the_solution_fails_are_refused(tmp_path, capsys):
    folder = tmp_path / "lab01_stopwatch"
    folder.mkdir()
    (folder / "timed_waits.py").write_text("assert timed(machine, machine.call(1.0), 3) == 0, 'nothing is free'\n")
    assert klass.main(["1", "--overlay", str(tmp_path), "--out", str(tmp_path / "grades")]) == 2
    assert "the solution itself loses timed_waits" in capsys.readouterr().err
