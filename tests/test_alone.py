"""A Colab-like session: Colab's widget stack, and in an empty folder one notebook, which fetches the rest by its first cell."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from nbformat import NotebookNode

from tests.conftest import REPO, require
from tools import canonical, colab_stack, gates
from tools.execute import execute
from tools.notebooks import with_standard_cells
from utils.address import Address
from utils.labs import cells

WHERE = Address("someone/one-add", "term-2027-1")
LESSON = REPO / "notebooks/14_self_check.ipynb"
LAB = "lab01_stopwatch"


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """The course as it stands, published at WHERE (git is told to look for that address on this machine), and as an archive that
    was uploaded: {kind: what a kernel's environment gets}."""
    require("git")
    scratch = tmp_path_factory.mktemp("sources")
    bare = gates.published(scratch)
    subprocess.run(["git", "tag", WHERE.ref], cwd=bare, check=True)
    archive = scratch / f"{WHERE.ref}.zip"
    subprocess.run(["git", "archive", "--prefix=one-add-term/", f"--output={archive}", WHERE.ref], cwd=bare, check=True)
    instead = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": f"url.{bare}.insteadOf", "GIT_CONFIG_VALUE_0": WHERE.git}
    return {"its address": instead, "an archive": {"ONE_ADD_REPO": str(archive)}}


def session(path: Path, folder: Path, source: dict, *, twice: bool = False, untouched: bool = False):
    """The notebook at `path` run in `folder`, alone; `twice` runs its first cell again, `untouched` lets a lab's tests fail."""
    nb = with_standard_cells(canonical.loads(path.read_text(encoding="utf-8")), path, WHERE)
    graded = {cell.id for cell in cells.known(nb) if cell.test}
    for cell in nb.cells:
        if untouched and cell.id in graded:
            cell.metadata.tags.append("raises-exception")  # the session goes on, as a reader's does
    if twice:
        setup = next(cell for cell in nb.cells if cell.id == "setup")
        nb.cells.insert(nb.cells.index(setup) + 1, NotebookNode(setup | {"id": "setup-again", "outputs": []}))
    folder.mkdir()
    (folder / path.name).write_text(canonical.dumps(nb), encoding="utf-8")
    scratch = folder.parent / f"{folder.name}-scratch"
    scratch.mkdir()
    env = gates._clean_environment(scratch) | source | {"ONE_ADD_HOME": str(scratch), "ONE_ADD_NO_COMPILER": "1"}
    return execute(nb, folder, python=str(colab_stack.ensure()), env=env)


def said(cell) -> str:
    return "".join(o.get("text", "") + str(o.get("data", {}).get("text/plain", "")) for o in cell.outputs)


@pytest.mark.parametrize("kind", ["its address", "an archive"])
def test_a_lesson_runs_alone(sources, tmp_path, kind):
    nb = session(LESSON, tmp_path / "content", sources[kind], twice=True)
    assert not [o for cell in nb.cells if cell.cell_type == "code" for o in cell.outputs if o.output_type == "error"]
    fetched = [path.name for path in (tmp_path / "content").iterdir() if path.is_dir()]
    assert fetched == {"its address": [f"one-add-priced-{WHERE.ref}"], "an archive": ["one-add-priced"]}[kind]


def test_a_lab_is_begun_alone_and_its_last_cell_knows_its_file_and_counts(sources, tmp_path):
    nb = session(REPO / f"labs/{LAB}/{LAB}.ipynb", tmp_path / "content", sources["its address"], untouched=True)
    errors = {o.ename for cell in nb.cells if cell.cell_type == "code" for o in cell.outputs if o.output_type == "error"}
    assert errors == {"NotImplementedError"}
    told = said(nb.cells[-1])
    assert f"{LAB}: 0 of 27 points by the visible tests" in told
    assert f"Looked at: {LAB}.ipynb" in told.replace(str(tmp_path / "content") + os.sep, "")


def test_a_lab_is_solved_alone(sources, tmp_path):
    nb = session(REPO / f"solutions/{LAB}/{LAB}.ipynb", tmp_path / "content", sources["an archive"])
    assert f"{LAB}: 27 of 27 points by the visible tests" in said(nb.cells[-1])
