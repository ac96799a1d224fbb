"""The lessons as files: canonical form, the tool that runs and strips them, a first cell that needs nothing beside it."""

from __future__ import annotations

import functools
import http.server
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import nbformat
import pytest

from tests.conftest import REPO, require
from tests.notebook_factory import cell, code, lesson, printed
from tools import canonical, notebooks
from tools.first_cell import FIRST_CELL, first_cell
from utils.address import Address

LESSONS = sorted((REPO / "notebooks").glob("*.ipynb"))

# ------------------------------------------------------------------------------------------------ canonical form


def test_canonical_form_is_stable_and_loses_nothing_a_reader_sees():
    nb = lesson()
    text = canonical.dumps(nb)
    assert canonical.dumps(canonical.canonical(canonical.loads(text))) == text
    assert [c.source for c in canonical.loads(text).cells] == [c.source for c in nb.cells]
    assert canonical.loads(text).cells[4].outputs == nb.cells[4].outputs
    nbformat.validate(canonical.loads(text))


def test_noise_is_stripped():
    nb = lesson()
    noisy = cell(nb, "measure")
    noisy.metadata.update(execution={"iopub.execute_input": "2026"}, collapsed=True, scrolled=False)
    view = {canonical.WIDGET_VIEW: {"model_id": "1"}, "text/plain": "IntSlider(value=0)"}
    noisy.outputs = [
        printed("one "),
        printed("two at 0x7f00aa55\n"),
        nbformat.v4.new_output("display_data", data=view),
        nbformat.v4.new_output("display_data", data={**view, "text/html": "<p>a table</p>"}),
        nbformat.v4.new_output("display_data", data={"text/html": "", "text/plain": ""}),
    ]
    nb.metadata.update(widgets={"state": {}}, vscode={"hash": "1"})
    out = canonical.canonical(nb)
    assert set(out.metadata) == {"kernelspec", "language_info"}
    kept = cell(out, "measure")
    assert set(kept.metadata) == {"tags"}
    assert [o.output_type for o in kept.outputs] == ["stream", "display_data"]
    assert kept.outputs[0].text == "one two at 0x…\n"
    assert kept.outputs[1].data == {"text/html": "<p>a table</p>", "text/plain": "IntSlider(value=0)"}


def test_missing_and_doubled_ids_become_stable_ones():
    def ids():
        nb = nbformat.v4.new_notebook(cells=[code("a = 1", "same"), code("b = 2", "b"), code("c = 3", "c")])
        nb.cells[1].id, nb.cells[2].id = "same", "Not Stable"
        return [c.id for c in canonical.canonical(nb).cells]

    assert ids()[0] == "same" and len(set(ids())) == 3
    assert ids() == ids()


@pytest.mark.parametrize("text", ["{", "[]", '{"nbformat": 3}'])
def test_what_is_no_notebook_is_refused(text):
    with pytest.raises(ValueError):
        canonical.loads(text)


# ------------------------------------------------------------------------------------------------ the tool


@pytest.fixture
def small(tmp_path):
    nb = nbformat.v4.new_notebook(cells=[code("x = 6 * 7", "a"), code("print(x)", "b")])
    path = tmp_path / "small.ipynb"
    path.write_text(canonical.dumps(canonical.canonical(nb)), encoding="utf-8")
    return path


def test_run_executes_and_writes_the_canonical_form(small):
    assert notebooks.main(["run", str(small)]) == 0
    nb = canonical.loads(small.read_text(encoding="utf-8"))
    assert [c.execution_count for c in nb.cells] == [1, 2]
    assert cell(nb, "b").outputs[0].text == "42\n"
    assert notebooks.main(["format", "--check", str(small)]) == 0


def test_run_names_the_cell_that_fails_and_writes_nothing(small, capsys):
    nb = canonical.loads(small.read_text(encoding="utf-8"))
    cell(nb, "b").source = "1 / 0"
    small.write_text(canonical.dumps(nb), encoding="utf-8")
    before = small.read_bytes()
    assert notebooks.main(["run", str(small)]) == 1
    told = capsys.readouterr().err
    assert "(b) failed" in told and "ZeroDivisionError" in told
    assert small.read_bytes() == before


def test_run_ends_a_cell_that_hangs(small, capsys):
    nb = canonical.loads(small.read_text(encoding="utf-8"))
    cell(nb, "a").source = "import time\ntime.sleep(60)"
    small.write_text(canonical.dumps(nb), encoding="utf-8")
    assert notebooks.main(["run", "--check", "--timeout", "1", str(small)]) == 1
    assert "(a) failed: CellTimeoutError" in capsys.readouterr().err


def test_format_fixes_and_check_only_says(small, capsys):
    loose = canonical.loads(small.read_text(encoding="utf-8"))
    cell(loose, "a").source = "x = {'a':1}"
    small.write_text(nbformat.writes(loose), encoding="utf-8")
    before = small.read_bytes()
    assert notebooks.main(["format", "--check", str(small)]) == 1
    assert small.read_bytes() == before and "not in canonical form" in capsys.readouterr().err
    assert notebooks.main(["format", str(small)]) == 0
    assert cell(canonical.loads(small.read_text(encoding="utf-8")), "a").source == 'x = {"a": 1}'


def test_new_writes_a_lesson_with_the_first_cell_and_never_over_another(tmp_path, capsys):
    path = tmp_path / "15_more.ipynb"
    assert notebooks.main(["new", str(path)]) == 0
    nb = canonical.loads(path.read_text(encoding="utf-8"))
    assert cell(nb, "setup").source == FIRST_CELL
    assert notebooks.main(["new", str(path)]) == 1
    assert "exists already" in capsys.readouterr().err


def test_a_wrong_command_line_is_2(tmp_path):
    with pytest.raises(SystemExit) as ended:
        notebooks.main(["run", str(tmp_path / "none.ipynb")])
    assert ended.value.code == 2


# ------------------------------------------------------------------------------------------------ the lessons as committed


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_lesson_is_as_the_tool_writes_it(path):
    text = path.read_text(encoding="utf-8")
    nb = canonical.loads(text)
    nbformat.validate(nb)
    assert text == canonical.dumps(canonical.canonical(nb)), "run `make format`"
    assert cell(nb, "setup").source == FIRST_CELL, "run `make format`"


def test_nbval_sees_a_dead_kernel_at_once(tmp_path):
    """nbval 0.11 waits its whole cell timeout (2,000 s) on a kernel that is gone; our plugin makes that a second."""
    nb = nbformat.v4.new_notebook(cells=[code("import os\nos._exit(1)", "end")])
    cell(nb, "end").execution_count = 1
    path = tmp_path / "dead.ipynb"
    path.write_text(canonical.dumps(nb), encoding="utf-8")
    line = ["-p", "tools.pytest_lessons", "--nbval-lax", "--nbval-current-env", "--nbval-cell-timeout=2000", str(path)]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *line],
        cwd=REPO,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.returncode == 1 and "the kernel died" in run.stdout


# ------------------------------------------------------------------------------------------------ the first cell, alone


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """The course as it stands, at every kind of address the first cell takes: {kind: ONE_ADD_REPO}."""
    require("git")
    from tools.gates import published as publish

    scratch = tmp_path_factory.mktemp("published")
    bare = publish(scratch)
    served = scratch / "served"
    served.mkdir()
    for kind in ("zip", "tar.gz"):
        archive = [
            "git",
            "archive",
            f"--format={kind}",
            "--prefix=one-add-priced-main/",
            f"--output={served / f'main.{kind}'}",
            "HEAD",
        ]
        subprocess.run(archive, cwd=bare, check=True)
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(served))
    handler.log_message = lambda *args: None
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    web = f"http://127.0.0.1:{server.server_address[1]}"
    yield {
        "git": str(bare),
        "folder": str(scratch / "tree"),
        "zip": f"{web}/main.zip",
        "tar.gz": f"{web}/main.tar.gz",
        "uploaded": str(served / "main.zip"),
    }
    server.shutdown()


def _first_cell(folder, address: str | None, then: str = "", first: str = FIRST_CELL, **more):
    env = {k: v for k, v in os.environ.items() if k not in ("ONE_ADD_REPO", "PYTHONPATH")}
    if address is not None:
        env["ONE_ADD_REPO"] = address
    env |= more
    source = first + "\n" + first + "\nimport utils.paths\nprint(utils.paths.REPO)" + then
    return subprocess.run([sys.executable, "-c", source], cwd=folder, env=env, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("kind", ["git", "folder", "zip", "tar.gz"])
def test_the_first_cell_fetches_the_course(published, tmp_path, kind):
    """Run twice in an empty folder; the second time it finds what the first fetched."""
    ran = _first_cell(tmp_path, published[kind])
    assert ran.returncode == 0, ran.stderr
    home = ran.stdout.strip().splitlines()[-1]
    assert home.startswith(published["folder"] if kind == "folder" else str(tmp_path.resolve()))


def test_the_first_cell_finds_the_repository_around_it(tmp_path):
    ran = _first_cell(REPO / "notebooks", None)
    assert ran.returncode == 0 and ran.stdout.split() == [str(REPO)], ran.stderr


def test_the_first_cell_says_what_to_do_without_an_address(tmp_path):
    ran = _first_cell(tmp_path, None, first=first_cell(Address()))
    assert ran.returncode == 1
    assert "set ONE_ADD_REPO" in ran.stderr.splitlines()[-1]


def test_the_first_cell_does_not_hide_a_wrong_address(tmp_path):
    ran = _first_cell(tmp_path, str(tmp_path / "nowhere.git"))
    assert ran.returncode == 1 and "nowhere.git" in ran.stderr


def test_the_first_cell_fetches_the_state_that_its_tag_names(published, tmp_path):
    """Not what came later; and beside another tag's folder, so that an old one is never taken for it."""
    tree, bare = Path(published["folder"]), published["git"]
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for command in (["tag", "term-1"], ["commit", "-q", "--allow-empty", "-m", "later"], ["push", "-q", bare, "HEAD", "term-1"]):
        subprocess.run([*git, *command], cwd=tree, check=True, capture_output=True)
    log = "subprocess.check_output(['git', 'log', '-1', '--format=%s'], cwd=utils.paths.REPO, text=True)"
    there = f"\nimport subprocess\nprint({log})"
    for address, folder, message in ((f"{bare}#term-1", "one-add-priced-term-1", "as it is"), (bare, "one-add-priced", "later")):
        ran = _first_cell(tmp_path, address, there)
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout.split("\n")[:2] == [str(tmp_path.resolve() / folder), message]
    ran = _first_cell(tmp_path, f"{bare}#term-2")
    assert ran.returncode == 1 and "term-2 gave none (offline?)" in ran.stderr


def test_the_first_cell_takes_an_archive_that_was_uploaded(published, tmp_path):
    shutil.copy(published["uploaded"], tmp_path / "course.zip")
    ran = _first_cell(tmp_path, "course.zip")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == str(tmp_path.resolve() / "one-add-priced" / "one-add-priced-main")


def test_what_was_interrupted_is_fetched_again(published, tmp_path):
    """Half a course under its final name would be found by every later run, and never mended."""
    half = tmp_path / "one-add-priced.part" / "utils"
    half.mkdir(parents=True)
    (half / "bootstrap.py").write_text("half of it", encoding="utf-8")
    ran = _first_cell(tmp_path, published["git"])
    assert ran.returncode == 0, ran.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["one-add-priced"]


@pytest.mark.parametrize("kind", ["git", "zip"])
def test_offline_the_first_cell_says_what_is_missing_and_the_next_try_is_a_fresh_one(published, tmp_path, kind):
    closed = {"git": "https://127.0.0.1:9/one-add.git", "zip": "http://127.0.0.1:9/main.zip"}[kind]
    ran = _first_cell(tmp_path, closed)
    assert ran.returncode == 1
    told = next(line for line in ran.stderr.splitlines() if line.startswith("ConnectionError: "))
    assert f"not here, and {closed} gave none (offline?)" in told
    assert "Keep this notebook in the course's folder, or set ONE_ADD_REPO" in told
    assert _first_cell(tmp_path, published[kind]).returncode == 0


def test_the_first_cell_without_git_says_so(published, tmp_path):
    ran = _first_cell(tmp_path, published["git"], PATH=str(tmp_path))
    assert ran.returncode == 1 and "No such file or directory: 'git'" in ran.stderr
