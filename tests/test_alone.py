"""A Colab-like session: Colab's widget stack, and in an empty folder one notebook, which fetches the rest by its first cell."""

from __future__ import annotations

import os
import subprocess

import pytest
from nbformat import NotebookNode

from tests.conftest import REPO, require
from tools import alone, colab_stack
from utils.labs import cells

LESSON = REPO / "notebooks/14_self_check.ipynb"
LAB = "lab01_stopwatch"


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """The course as it stands, at the address that its badges would name, and as an archive that was uploaded: {kind: what a
    kernel's environment gets}."""
    require("git")
    scratch = tmp_path_factory.mktemp("sources")
    bare, archive = alone.published(scratch), scratch / "course.zip"
    subprocess.run(["git", "archive", "--prefix=one-add-term/", f"--output={archive}", "HEAD"], cwd=bare, check=True)
    return {"its address": alone.redirected(bare), "an archive": {"ONE_ADD_REPO": str(archive)}}


def session(nb: NotebookNode, name: str, scratch, source: dict[str, str]) -> NotebookNode:
    return alone.session(nb, name, scratch, {**source, "ONE_ADD_NO_COMPILER": "1"}, str(colab_stack.ensure()))


def said(cell) -> str:
    return "".join(o.get("text", "") + str(o.get("data", {}).get("text/plain", "")) for o in cell.outputs)


@pytest.mark.parametrize(
    ("kind", "folder"), [("its address", f"one-add-priced-{alone.WHERE.ref}"), ("an archive", "one-add-priced")]
)
def test_a_lesson_runs_alone_and_its_first_cell_twice(sources, tmp_path, kind, folder):
    nb = alone.notebook(LESSON)
    setup = next(cell for cell in nb.cells if cell.id == "setup")
    nb.cells.insert(nb.cells.index(setup) + 1, NotebookNode(setup | {"id": "setup-again", "outputs": []}))
    session(nb, LESSON.name, tmp_path, sources[kind])
    assert not [o for cell in nb.cells if cell.cell_type == "code" for o in cell.outputs if o.output_type == "error"]
    assert [path.name for path in (tmp_path / "content").iterdir() if path.is_dir()] == [folder]


def test_a_lab_is_begun_alone_and_its_last_cell_knows_its_file_and_counts(sources, tmp_path):
    """The student edition, untouched, its tests failing as they do for a reader."""
    nb = alone.notebook(REPO / f"labs/{LAB}/{LAB}.ipynb")
    graded = {cell.id for cell in cells.known(nb) if cell.test}
    for cell in nb.cells:
        if cell.id in graded:
            cell.metadata.tags.append("raises-exception")  # the session goes on
    session(nb, f"{LAB}.ipynb", tmp_path, sources["its address"])
    errors = {o.ename for cell in nb.cells if cell.cell_type == "code" for o in cell.outputs if o.output_type == "error"}
    assert errors == {"NotImplementedError"}
    told = said(nb.cells[-1])
    assert f"{LAB}: 0 of 27 points by the visible tests" in told
    assert f"Looked at: {LAB}.ipynb" in told.replace(str(tmp_path / "content") + os.sep, "")


def test_a_lab_is_solved_alone(sources, tmp_path):
    nb = session(alone.notebook(REPO / f"solutions/{LAB}/{LAB}.ipynb"), f"{LAB}.ipynb", tmp_path, sources["an archive"])
    assert f"{LAB}: 27 of 27 points by the visible tests" in said(nb.cells[-1])


def test_the_tool_says_which_notebook_failed(tmp_path, monkeypatch, capsys):
    def fails(nb, name, scratch, env):
        if name == "b.ipynb":
            raise TimeoutError("too slow")

    monkeypatch.setattr(alone, "published", lambda scratch: scratch)
    monkeypatch.setattr(alone, "session", fails)
    monkeypatch.setattr(alone, "notebook", lambda path: None)
    assert alone.main(["a.ipynb", "b.ipynb"]) == 1
    out = capsys.readouterr().out
    assert "a.ipynb: 0 s, ran" in out and "b.ipynb: 0 s, FAILED\ntoo slow" in out and "2 notebooks alone, 1 failed" in out
