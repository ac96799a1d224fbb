"""The last cell of a lab: it counts what the visible tests say, and sees what was lost, copied, changed or never saved."""

from __future__ import annotations

import copy
import json
import random
import sys
import types

import pytest

from utils.labs import cells, check, find
from utils.labs.check import check_my_lab

LAB = cells.names()[0]
FILE = cells.LABS / LAB / f"{LAB}.ipynb"


def solved() -> dict:
    """A namespace in which the lab is solved."""
    namespace: dict = {}
    for cell in cells.known(cells.read(cells.REPO / "solutions" / LAB / f"{LAB}.ipynb")):
        if cell.kind == "code" and not cell.test and cell.id != "setup":
            exec(compile(cell.source, cell.id, "exec"), namespace)  # noqa: S102
    return namespace


@pytest.fixture
def session(tmp_path, monkeypatch):
    """A session in an empty folder; its namespace can be filled."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    namespace: dict = {}
    monkeypatch.setattr(check, "_namespace", lambda: namespace)
    return namespace


def notebook(path, change=lambda nb: None):
    nb = cells.read(FILE)
    change(nb)
    path.write_text(json.dumps(nb), encoding="utf-8")
    return path


def said(table) -> str:
    return table.text() if hasattr(table, "text") else str(table)


def points() -> float:
    return sum(cell.points for cell in cells.released(LAB) if cell.test)


def test_a_solved_lab_has_all_visible_points_and_its_file_is_found(session, tmp_path):
    session.update(solved())
    before = set(session)
    notebook(tmp_path / "lab1 (1).ipynb")
    text = said(check_my_lab(LAB))
    assert f"{points():g} of {points():g} points" in text and "3 more by hand" in text
    assert "Looked at: lab1 (1).ipynb" in text and "there, once, and unchanged" in text and "To hand in: save" in text
    assert "Not seen from here" in text
    assert set(session) == before, "the tests' own names leaked into the session"


def test_an_untouched_lab_has_none(session, tmp_path):
    for cell in cells.released(LAB):
        if cell.kind == "code" and not cell.test and cell.id != "setup":
            exec(compile(cell.source, cell.id, "exec"), session)  # noqa: S102
    text = said(check_my_lab(LAB))
    assert f"0 of {points():g} points" in text and "not written yet" in text
    assert "was not checked" in text, "there is no file here"


def test_a_fresh_session_is_told_to_run_the_cells(session):
    text = said(check_my_lab(LAB))
    assert f"0 of {points():g} points" in text and "run the cells above first" in text


def test_a_failing_part_says_why_and_costs_only_its_own_points(session):
    session.update(solved())
    session["aa_error"] = lambda first, again: again / first - 1.0
    text = said(check_my_lab(LAB))
    assert f"{points() - 1:g} of {points():g} points" in text and "It has no sign" in text


def test_a_name_that_was_put_over_an_import_decides_nothing(session):
    session.update(solved(), strict=None, random=3, Machine=len)
    assert f"{points():g} of {points():g} points" in said(check_my_lab(LAB))


WRONG_NAME = "def aa_error(first, again):\n    return abs(again / {} - 1.0)\n"


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("frist", "name 'frist' is not defined, and no cell of the lab defines it: did you mean 'first'?"),
        ("helper_xyz", "no cell of the lab defines it: a typo, or a cell of yours that was not run?"),
        ("timed", "name 'timed' is not defined: run the cells above first"),
    ],
)
def test_a_name_that_is_not_there_is_a_typo_or_a_cell_that_was_not_run(session, name, advice):
    session.update(solved())
    exec(WRONG_NAME.format(name), session)  # noqa: S102
    session.pop("timed")
    row = next(line for line in said(check_my_lab(LAB)).splitlines() if line.startswith("aa_error_has_no_sign"))
    assert advice in row and ("run the cells above" in row) == (name == "timed")


@pytest.mark.parametrize("known_from", ["In", "file"])
def test_a_cell_that_does_not_parse_is_named_with_its_line(session, tmp_path, known_from):
    """Its function is missing because of that, and running it again would not help."""
    session.update(solved())
    session.pop("aa_error")
    broken = "def aa_error(first, again):\n    return abs(again / first\n"

    def break_it(nb):
        cell = next(c for c in nb["cells"] if "def aa_error" in cells.source(c))
        cell["source"] = broken

    if known_from == "In":
        session["In"] = ["", WRONG_NAME.format("first"), broken]
    else:
        notebook(tmp_path / "mine.ipynb", break_it)
    text = said(check_my_lab(LAB))
    assert "does not run, because of a syntax error in line 2 ('(' was never closed)" in text
    assert "run the cells above" not in text
    session["In"] = [broken, WRONG_NAME.format("first")]  # mended since, and lost with a restart, say
    if known_from == "In":
        assert "run the cells above first" in said(check_my_lab(LAB))


def test_a_written_answer_that_is_empty_is_told_so(session, tmp_path):
    notebook(tmp_path / "mine.ipynb")
    assert cells.NOTHING_WRITTEN in said(check_my_lab(LAB))

    def write(nb):
        first(nb, lambda known: known.by_hand)["source"] = "The cache was warm."

    notebook(tmp_path / "mine.ipynb", write)
    text = said(check_my_lab(LAB))
    assert cells.BY_HAND in text and "nothing written yet" not in text


@pytest.mark.parametrize("broken", [SystemExit, KeyError, RecursionError], ids=lambda e: e.__name__)
def test_a_part_that_raises_breaks_nothing(session, broken):
    def price(samples):
        raise broken("x")

    session.update(solved(), price=price)
    assert broken.__name__ in said(check_my_lab(LAB))


def first(nb: dict, wanted) -> dict:
    return next(c for c in nb["cells"] if any(wanted(known) for known in cells.known({"cells": [c]})))


def _lose(nb):
    nb["cells"].remove(first(nb, lambda known: known.test))


def _copy(nb):
    nb["cells"].append(copy.deepcopy(first(nb, lambda known: known.solution)))


def _edit(nb):
    first(nb, lambda known: known.test)["source"] = "assert True"


def _strip(nb):
    for cell in nb["cells"]:
        if any(known.test for known in cells.known({"cells": [cell]})):
            cell["metadata"] = {}


def _points(nb):
    first(nb, lambda known: known.test)["metadata"]["nbgrader"]["points"] = 50


@pytest.mark.parametrize(
    ("change", "words"),
    [(_lose, "lost"), (_copy, "more than once"), (_edit, "not yours to change"), (_strip, "lost"), (_points, "other points")],
)
def test_damage_in_the_file_is_named(session, tmp_path, change, words):
    notebook(tmp_path / "mine.ipynb", change)
    text = said(check_my_lab(LAB))
    assert words in text and "Put it right" in text and "To hand in" not in text
    assert "there, once, and unchanged" not in text


def test_an_unsaved_answer_is_seen(session, tmp_path):
    def answer(nb):
        first(nb, lambda known: known.solution and known.kind == "code")["source"] = (
            "\ndef timed(machine, call, n):\n    return 1.0"  # the session's list of cells is without the empty line
        )

    notebook(tmp_path / "mine.ipynb", answer)
    ran = [cell.source for cell in cells.released(LAB)]
    session["In"] = ran
    assert "timed is not what this session ran" in said(check_my_lab(LAB))
    session["In"] = [*ran, "def timed(machine, call, n):\n    return 1.0\n"]
    assert "is not what this session ran" not in said(check_my_lab(LAB))


# ------------------------------------------------------------------------------------------------ finding the file


HANDED_OUT = cells.released(LAB)


def test_the_named_file_is_taken_whatever_else_is_there(tmp_path, session):
    mine, other = notebook(tmp_path / "mine.ipynb"), notebook(tmp_path / "other.ipynb")
    assert find.notebook(HANDED_OUT, mine, {}).where == str(mine)
    with pytest.raises(cells.NoNotebook, match=r"several notebooks.*mine.ipynb, other.ipynb"):
        find.notebook(HANDED_OUT, None, {})
    assert "several notebooks" in said(check_my_lab(LAB))
    assert str(other) in said(check_my_lab(LAB, other))


@pytest.mark.parametrize("place", ["JPY_SESSION_NAME", "__vsc_ipynb_file__"])
def test_jupyter_and_vs_code_say_where_it_is(tmp_path, session, monkeypatch, place):
    notebook(tmp_path / "other.ipynb")
    (tmp_path / "deep").mkdir()
    mine = notebook(tmp_path / "deep" / "mine.ipynb")
    namespace = {}
    if place == "JPY_SESSION_NAME":
        monkeypatch.setenv(place, str(mine))
    else:
        namespace[place] = str(mine)
    assert find.notebook(HANDED_OUT, None, namespace).where == "mine.ipynb"


def test_another_labs_notebook_is_not_taken_for_this_one(tmp_path, session):
    """Labs share ids, such as that of the written answer."""
    for other in cells.names()[1:]:
        assert {cell.id for cell in cells.released(other)} & {cell.id for cell in cells.released(LAB)}
        beside = tmp_path / f"{other}.ipynb"
        beside.write_text((cells.LABS / other / f"{other}.ipynb").read_text(encoding="utf-8"), encoding="utf-8")
        assert "is no notebook of this lab" in said(check_my_lab(LAB, beside))
    notebook(tmp_path / "mine.ipynb")
    assert "Looked at: mine.ipynb" in said(check_my_lab(LAB))


def test_a_stale_hint_is_passed_over(tmp_path, session, monkeypatch):
    notebook(tmp_path / "mine.ipynb")
    (tmp_path / "lesson.ipynb").write_text('{"cells": [], "nbformat": 4, "metadata": {}}', encoding="utf-8")
    for stale in ("gone.ipynb", str(tmp_path / "lesson.ipynb")):
        monkeypatch.setenv("JPY_SESSION_NAME", stale)
        assert find.notebook(HANDED_OUT, None, {}).where == "mine.ipynb"


def test_colabs_page_is_looked_at_live(session, monkeypatch):
    """Colab hands its kernel the page as it is, saved or not; whatever it answers otherwise, nothing breaks."""
    page = cells.read(FILE)
    _lose(page)
    message = types.ModuleType("google.colab._message")
    message.blocking_request = lambda *args, **kwargs: {"ipynb": page}
    colab = types.ModuleType("google.colab")
    colab._message = message
    for name, module in {"google": types.ModuleType("google"), "google.colab": colab, "google.colab._message": message}.items():
        monkeypatch.setitem(sys.modules, name, module)
    text = said(check_my_lab(LAB))
    assert "this page on Colab" in text and "lost" in text
    message.blocking_request = lambda *args, **kwargs: {"ipynb": cells.read(FILE)}
    assert "give the downloaded .ipynb to your instructor" in said(check_my_lab(LAB))
    for answer in (None, {}, {"ipynb": {"cells": random.random()}}):
        message.blocking_request = lambda *args, answer=answer, **kwargs: answer
        assert "was not checked" in said(check_my_lab(LAB))


def test_another_notebook_and_an_unknown_lab_are_told(tmp_path, session):
    path = tmp_path / "lesson.ipynb"
    path.write_text('{"cells": [], "nbformat": 4, "metadata": {}}', encoding="utf-8")
    assert "is no notebook of this lab" in said(check_my_lab(LAB, path))
    with pytest.raises(cells.NoNotebook, match="there is no lab 'lab99'"):
        check_my_lab("lab99")
