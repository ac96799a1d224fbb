"""Grading one notebook: nbgrader agrees with the fast path, and a submission decides nothing but its answers.

All notebooks of a lab are run by nbgrader once, each in a box of its own (a few seconds each). Hostile: test_grading_class.py.
"""

from __future__ import annotations

import copy
import json
import subprocess
import sys

import pytest

pytest.importorskip("nbgrader", reason="nbgrader is not installed (make test installs it)")

from grading import apart, box, course, fast, grade, reasons, wrong
from grading.rebuild import BEFORE_A_TEST, rebuilt
from grading.score import Score, lost, total
from tests.conftest import REPO
from utils.labs import cells
from utils.labs.cells import Damage

LABS = course.labs()
LAB = LABS[0]


def source(lab: str = LAB) -> dict:
    return cells.read(course.source(lab))


def student(lab: str = LAB) -> dict:
    return cells.read(course.LABS / lab / f"{lab}.ipynb")


def cell(nb: dict, cell_id: str) -> dict:
    return next(c for c in nb["cells"] if any(known.id == cell_id for known in cells.known({"cells": [c]})))


def answered(lab: str = LAB) -> dict:
    """What a learner who knows everything hands in: the student edition with the solution's answers in it."""
    nb = student(lab)
    for known in cells.known(source(lab)):
        if known.solution:
            cell(nb, known.id)["source"] = known.source
    return nb


# ------------------------------------------------------------------------------------------------ damaged submissions


def ids_of_tests(nb: dict) -> list[str]:
    return [known.id for known in cells.known(nb) if known.test]


def with_lost_cells(nb: dict) -> dict:
    ids = ids_of_tests(nb)[:2]
    nb["cells"] = [c for c in nb["cells"] if not any(k.id in ids for k in cells.known({"cells": [c]}))]
    return nb


def with_stripped_metadata(nb: dict) -> dict:
    for cell_id in ids_of_tests(nb):
        cell(nb, cell_id)["metadata"] = {}
    return nb


def with_copied_cells(nb: dict) -> dict:
    answer = next(k.id for k in cells.known(nb) if k.solution)
    for cell_id in (answer, ids_of_tests(nb)[0]):
        i = nb["cells"].index(cell(nb, cell_id))
        nb["cells"].insert(i, copy.deepcopy(nb["cells"][i]))
    return nb


def with_edited_tests(nb: dict) -> dict:
    for cell_id in ids_of_tests(nb):
        cell(nb, cell_id)["source"] = "assert True"
    return nb


def with_more_points(nb: dict) -> dict:
    for cell_id in ids_of_tests(nb):
        cell(nb, cell_id)["metadata"]["nbgrader"]["points"] = 100
    return nb


def with_no_tests_left(nb: dict) -> dict:
    """Every test declared a solution of the learner's own, to be graded by hand."""
    for cell_id in ids_of_tests(nb):
        cell(nb, cell_id)["metadata"]["nbgrader"].update(solution=True, grade=False, locked=False)
    return nb


def with_a_false_strict(nb: dict) -> dict:
    """Comparisons that say yes: a name put over `strict`, and the module's own functions replaced.

    The fast path runs no cell of the learner's own, so its score is what an honest file earns: nbgrader must agree with it.
    """
    lie = "class _Yes:\n    def __getattr__(self, name):\n        return lambda *a, **k: True\nstrict = _Yes()\n"
    lie += "import utils.labs.strict as _s\n"
    lie += "for _n in ('equal', 'close', 'kind', 'raises'):\n    setattr(_s, _n, lambda *a, **k: True)"
    at = nb["cells"].index(cell(nb, "imports")) + 1
    nb["cells"].insert(at, {"cell_type": "code", "metadata": {}, "source": lie, "outputs": [], "execution_count": None})
    return nb


DAMAGED = {
    "lost": (with_lost_cells, "lost"),
    "stripped": (with_stripped_metadata, "lost"),
    "copied": (with_copied_cells, "copied"),
    "edited": (with_edited_tests, "edited"),
    "points": (with_more_points, "points"),
    "roles": (with_no_tests_left, "points"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_is_reported_and_changes_no_score(name):
    """On a full answer and on the untouched lab alike."""
    plant, kind = DAMAGED[name]
    for nb, earned in ((answered(), total(fast.grade(rebuilt(source(), source())))), (student(), 0)):
        hurt = plant(nb)
        told = cells.damage(cells.known(source()), cells.known(hurt))
        assert getattr(told, kind), f"{kind} is not reported"
        assert not any(getattr(told, other) for other in ("lost", "copied", "edited", "points") if other not in (kind, "edited"))
        assert list(told.sentences())
        assert total(fast.grade(rebuilt(hurt, source()))) == earned


def test_a_sound_submission_has_no_damage():
    assert cells.damage(cells.known(source()), cells.known(answered())) == Damage()
    assert cells.damage(cells.known(student()), cells.known(student())) == Damage()
    assert not Damage() and not list(Damage().sentences())


def test_a_lost_answer_cell_does_not_lose_the_answer():
    """Pasted into a cell of the learner's own, an answer still counts; nowhere, it earns nothing and nothing else breaks."""
    nb = answered()
    answer = next(k for k in cells.known(nb) if k.solution and not k.by_hand)
    cell(nb, answer.id)["metadata"] = {}
    remade = rebuilt(nb, source())
    assert [c for c in remade["cells"] if cells.source(c) == answer.source]
    nb["cells"] = [c for c in nb["cells"] if cells.source(c) != answer.source]
    gone = lost(fast.grade(rebuilt(nb, source())))
    assert gone and gone < set(ids_of_tests(source()))


def test_an_object_that_says_yes_earns_nothing():
    nb = answered()
    for known in cells.known(nb):
        if known.solution and not known.by_hand:
            lie = "class Yes:\n" + "".join(
                f"    def __{name}__(self, *a, **k):\n        return {value}\n"
                for name, value in (("eq", True), ("lt", True), ("gt", True), ("le", True), ("ge", True), ("ne", False))
            )
            functions = [line.split("(")[0].removeprefix("def ") for line in known.source.splitlines() if line.startswith("def ")]
            lie += "\n".join(f"def {function}(*a, **k):\n    return Yes()" for function in functions)
            cell(nb, known.id)["source"] = lie
    assert total(fast.grade(rebuilt(nb, source()))) == 0


# ------------------------------------------------------------------------------------------------ through nbgrader


@pytest.fixture(scope="module", params=LABS)
def graded(request):
    """By name: what nbgrader and what the fast path say of each of a few notebooks of one lab."""
    lab = request.param
    notebooks = {"untouched": student(lab), "solution": answered(lab), "wrong": most_wrong(lab)}
    if lab == LAB:
        notebooks["damaged"] = with_a_false_strict(with_copied_cells(with_edited_tests(with_lost_cells(most_wrong(lab)))))
    remade = {name: rebuilt(nb, source(lab)) for name, nb in notebooks.items()}
    for name in remade.keys() - {"solution"}:  # without the cells that no point hangs on: importing torch takes seconds
        needed = {"nbgrader", BEFORE_A_TEST}
        remade[name]["cells"] = [c for c in remade[name]["cells"] if c["metadata"].keys() & needed or "_Yes" in cells.source(c)]
    by_fast_path = {name: fast.grade(nb) for name, nb in remade.items()}
    return lab, {name: through_nbgrader(lab, nb) for name, nb in remade.items()}, by_fast_path


def through_nbgrader(lab: str, nb: dict) -> tuple[Score, ...]:
    told = apart.run(apart.task(lab, source(lab), nb, box.Limits(), unsafe=bool(box.why_not())))
    assert told["silent"] == [], "an honest notebook made a witness pass"
    return tuple(Score(**score) for score in told["scores"])


def most_wrong(lab: str) -> dict:
    """The wrong answer that loses in most places."""
    return max(wrong.catalogue(lab), key=lambda answer: (len(answer.loses), answer.id)).notebook()


def test_nbgrader_and_the_fast_path_agree(graded):
    lab, by_nbgrader, by_fast_path = graded
    for name in by_fast_path:
        scores = by_nbgrader[name]
        automatic = [(s.id, s.points, s.most) for s in scores if not _by_hand(lab, s.id)]
        assert automatic == [(s.id, s.points, s.most) for s in by_fast_path[name] if not _by_hand(lab, s.id)], name


def _by_hand(lab: str, cell_id: str) -> bool:
    return any(known.id == cell_id and known.by_hand for known in cells.known(source(lab)))


def test_the_untouched_lab_scores_0_and_the_solution_full(graded):
    lab, by_nbgrader, _ = graded
    points = {known.id: known.points for known in cells.known(source(lab)) if known.grade}
    assert {s.id: s.points for s in by_nbgrader["untouched"]} == dict.fromkeys(points, 0)
    full = {s.id: s.points for s in by_nbgrader["solution"]}
    assert full == {cell_id: None if _by_hand(lab, cell_id) else most for cell_id, most in points.items()}


# ------------------------------------------------------------------------------------------------ the command


def test_graded_again_the_same_and_the_file_is_named(tmp_path, graded):
    """The command itself, on a file with a download's name; the file handed in is left as it was."""
    lab, by_nbgrader, _ = graded
    if lab != LAB:
        pytest.skip("once is enough")
    path = tmp_path / "lab1 (1).ipynb"
    path.write_text(json.dumps(with_lost_cells(most_wrong(lab))), encoding="utf-8")
    before = path.read_bytes()
    command = [sys.executable, "-m", "grading.grade", "1", str(path), "--keep", str(tmp_path / "out" / "kept.ipynb")]
    command += ["--unsafe"] if box.why_not() else []
    ran = subprocess.run(command, cwd=REPO, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    shown = {words[0]: words[1] for line in ran.stdout.splitlines() if len(words := line.split()) > 2}
    earlier = {s.id: "?" if _by_hand(lab, s.id) else f"{s.points:g}" for s in by_nbgrader["wrong"]}
    assert {cell_id: shown[cell_id] for cell_id in earlier} == earlier, "graded before, and scored something else"
    assert "What came back: " in ran.stdout, "the whole reason, as the notebook shows it"
    assert f"Graded {path} as {LAB}" in ran.stdout and "put right before grading" in ran.stdout
    assert path.read_bytes() == before
    assert "AssertionError" in (tmp_path / "out" / "kept.ipynb").read_text(encoding="utf-8")


def _file(tmp_path, text):
    path = tmp_path / "it.ipynb"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "no such file"),
        ("", "JSON is damaged"),
        ("[]", "without a list of cells"),
        ('{"cells": [3], "nbformat": 4}', "a cell without metadata"),
        ('{"cells": [{"source": [1]}], "nbformat": 4}', "whose source is no text"),
        ('{"cells": [], "nbformat": 3}', "only version 4"),
        ('{"cells": [], "nbformat": 4}', "it holds no graded cell"),
    ],
)
def test_what_cannot_be_graded_is_said_with_its_name(tmp_path, text, said, capsys):
    path = tmp_path / "it.ipynb" if text is None else _file(tmp_path, text)
    assert grade.main([LAB, str(path)]) == 2
    told = capsys.readouterr().err
    assert said in told and str(path) in told and len(told.splitlines()) == 1


@pytest.mark.parametrize("lab", LABS)
def test_another_labs_notebook_is_no_score_of_0(lab, capsys):
    other = next(one for one in LABS if one != lab)
    assert grade.main([lab, str(course.LABS / other / f"{other}.ipynb")]) == 2
    assert f"no notebook of {lab}; it looks like {other}" in capsys.readouterr().err


def test_what_was_never_written_is_told_so():
    said = {score.said for score in fast.grade(rebuilt(student(), source())) if score.points == 0}
    assert said == {"not written yet"}


def test_a_folder_and_an_unknown_lab_are_said(tmp_path, capsys):
    assert grade.main([LAB, str(tmp_path)]) == 2 and "a folder" in capsys.readouterr().err
    assert grade.main(["lab99", str(tmp_path)]) == 2
    assert "no lab 'lab99'" in capsys.readouterr().err


def test_the_table_shows_what_waits_and_what_was_put_right(tmp_path):
    scores = (Score("a", 2.0, 2.0), Score("b", 0.0, 1.0, "AssertionError: too short"), Score("c", None, 3.0))
    text = grade.table(grade.Graded(tmp_path / "x.ipynb", LAB, scores, Damage(lost=("b",))))
    assert f"{LAB}: 2 of 3 points by the tests, the hidden ones too, 3 more by hand" in text.splitlines()
    assert "read and graded by a person" in text and "too short" in text and "put right before grading: b: lost" in text


# ------------------------------------------------------------------------------------------------ the reasons


def ended(nb: dict, cell_id: str, name: str, text: str, at: int = 1) -> None:
    """Let the cell have ended in an error in its line `at`, as IPython says it."""
    frame = f"\x1b[36mCell In[3], line {at}\x1b[39m\n      1 x = 1\n\x1b[32m----> {at}\x1b[39m assert x\n"
    cell(nb, cell_id)["outputs"] = [
        {
            "output_type": "error",
            "ename": name,
            "evalue": text,
            "traceback": ["---", f"{name}   Traceback", frame, "----> 999 in f"],
        }
    ]


def why(nb: dict, **said: str) -> dict[str, str]:
    return reasons.whole([Score(cell_id, 0.0, 1.0, text) for cell_id, text in said.items()], source(), nb)


def test_a_reason_is_whole_and_a_hidden_test_is_called_so():
    nb, test = source(), "aa_error_has_no_sign"
    hidden = next(n for n, line in enumerate(cells.source(cell(nb, test)).splitlines(), 1) if "BEGIN HIDDEN" in line)
    text = "It has no sign. " + "And so on. " * 20 + "\n  What came back: it is 48004000; wanted: 32004000"
    for at in (hidden - 1, hidden + 1):
        ended(nb, test, "AssertionError", text, at)
        found = why(nb, **{test: "AssertionError: It has no sign."})[test].splitlines()
        assert found[0].startswith("It has no sign.") and found[0].endswith("And so on.")
        assert found[1] == "What came back: it is 48004000; wanted: 32004000"
        assert found[2:] == ([reasons.HIDDEN] if at > hidden else [])
    table = grade.table(
        grade.Graded(REPO / "x.ipynb", LAB, (Score(test, 0.0, 1.0, "cut"),), Damage(), 0, {test: "\n".join(found)})
    )
    assert "wanted: 32004000" in table and reasons.HIDDEN in table
    assert " ".join(table.split()).count("And so on.") == 20 and max(map(len, table.splitlines())) < 150


def test_a_reason_is_text_and_has_an_end():
    """It comes out of a learner's kernel, and goes to a terminal."""
    nb, test = source(), "aa_error_has_no_sign"
    ended(nb, test, "ValueError", "\x1b[2J\x1b]0;title\x07red\x1b[31m\u202e\r\n" + "x" * 100_000)
    found = why(nb, **{test: "ValueError: "})[test]
    assert found.startswith("ValueError: ") and len(found) < reasons.MOST + 100 and "more characters" in found
    assert all(c.isprintable() for line in found.splitlines() for c in line)
    for frames in (3, None, {"a": 1}, ["----> " + "9" * 5000], [None, 7]):  # a forged message: told as if it had none
        cell(nb, test)["outputs"][0]["traceback"] = frames
        assert why(nb, **{test: "ValueError: "})[test] == found


def test_the_cell_that_should_define_a_name_is_told_with_its_error():
    test, no_name = "aa_error_has_no_sign", "NameError: name 'aa_error' is not defined"
    nb = source()
    ended(nb, test, *no_name.split(": "))
    ended(nb, "aa_error", "SyntaxError", "'(' was never closed (1234567.py, line 9)")
    told = "The cell aa_error, which should define aa_error, ends in a SyntaxError in line 9: '(' was never closed"
    assert why(nb, **{test: no_name})[test].splitlines() == [no_name, told]
    cell(nb, "aa_error")["outputs"] = []
    assert "The cell aa_error should define aa_error, and does not." in why(nb, **{test: no_name})[test]
    typo = "NameError: name 'frist' is not defined"
    ended(nb, test, *typo.split(": "))
    assert "No cell of the lab defines frist: a typo" in why(nb, **{test: typo})[test]


def test_without_a_notebook_that_ran_the_scores_own_words_stand():
    assert why(None, aa_error_has_no_sign="ValueError: x") == {"aa_error_has_no_sign": "ValueError: x"}
    unread = [Score("written_answer", 0.0, 3.0), Score("written_answer", None, 3.0)]
    assert [reasons.whole([one], source(), None)["written_answer"] for one in unread] == [cells.NOTHING_WRITTEN, cells.BY_HAND]


def test_one_notebook_graded_says_what_the_lab_itself_says(tmp_path):
    """Through nbgrader: a cell that does not parse, a number written down, and nothing in words."""
    nb = student()
    cell(nb, "aa_error")["source"] = "def aa_error(first, again):\n    return abs(again / first\n"
    cell(nb, "buffers_needed")["source"] = "def buffers_needed(*args):\n    return 7\n"
    path = _file(tmp_path, json.dumps(nb))
    done = grade.grade(LAB, path, unsafe=bool(box.why_not()))
    text = grade.table(done)
    assert "ends in a SyntaxError in line" in done.why["aa_error_has_no_sign"]
    assert "What came back: it is 7; wanted: " in done.why["enough_buffers"]
    assert done.why["written_answer"] == cells.NOTHING_WRITTEN
    by_tests = sum(s.most for s in done.scores if not _by_hand(LAB, s.id))
    assert f"{LAB}: 0 of {by_tests:g} points by the tests, the hidden ones too, 3 more by hand" in text


def test_without_a_box_the_message_has_the_whole_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        box, "why_not", lambda: "bwrap cannot be found (Debian and Ubuntu: apt-get install bubblewrap util-linux)"
    )
    path = tmp_path / "my lab.ipynb"
    path.write_text(json.dumps(student()), encoding="utf-8")
    assert grade.main(["lab1", str(path)]) == 2
    told = capsys.readouterr().err
    assert len(told.splitlines()) == 1 and "apt-get install bubblewrap" in told
    assert f"make grade LAB=lab1 NOTEBOOK='{path}' ARGS=--unsafe" in told
    assert "Only for a notebook that is your own" in told and "as you, with your files and your network" in told


@pytest.mark.parametrize("lab", LABS)
def test_a_builtin_that_an_answer_redefines_decides_nothing(lab):
    source = cells.read(course.source(lab))
    nb = copy.deepcopy(source)
    answer = next(c for c in nb["cells"] if (k := cells.known({"cells": [c]})) and k[0].solution and c["cell_type"] == "code")
    wanted = total(fast.grade(rebuilt(nb, source)))
    answer["source"] = cells.source(answer) + "\nlen = sum = sorted = zip = all = any = type = range = 3\n"
    assert total(fast.grade(rebuilt(nb, source))) == wanted > 0
