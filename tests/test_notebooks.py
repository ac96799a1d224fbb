"""The lessons as files: canonical form, the tool that runs and strips them, a first cell that needs nothing beside it."""

from __future__ import annotations

import functools
import http.server
import importlib.util
import os
import subprocess
import sys
import threading

import nbformat
import pytest

from tests.conftest import REPO, require
from tests.notebook_factory import cell, code, lesson, printed
from tools import canonical, notebooks
from tools.first_cell import FIRST_CELL
from utils import bootstrap

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
    yield {"git": str(bare), "folder": str(scratch / "tree"), "zip": f"{web}/main.zip", "tar.gz": f"{web}/main.tar.gz"}
    server.shutdown()


def _first_cell(folder, address: str | None, then: str = ""):
    env = {k: v for k, v in os.environ.items() if k not in ("ONE_ADD_REPO", "PYTHONPATH")}
    if address is not None:
        env["ONE_ADD_REPO"] = address
    source = FIRST_CELL + "\n" + FIRST_CELL + "\nimport utils.paths\nprint(utils.paths.REPO)" + then
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
    ran = _first_cell(tmp_path, None)
    assert ran.returncode == 1
    assert "set ONE_ADD_REPO" in ran.stderr.splitlines()[-1]


def test_the_first_cell_does_not_hide_a_wrong_address(tmp_path):
    ran = _first_cell(tmp_path, str(tmp_path / "nowhere.git"))
    assert ran.returncode == 1 and "nowhere.git" in ran.stderr


# ------------------------------------------------------------------------------------------------ utils/bootstrap.py


def test_ready_does_nothing_where_all_is_there(monkeypatch, capsys):
    monkeypatch.setattr(bootstrap, "install", lambda lines: pytest.fail(f"installs {lines}"))
    bootstrap.ready()
    assert capsys.readouterr().out == ""


def _without(monkeypatch, *absent):
    real = importlib.util.find_spec
    monkeypatch.setattr(bootstrap.importlib.util, "find_spec", lambda name: None if name in absent else real(name))


def test_ready_installs_only_what_is_missing(monkeypatch, capsys):
    asked = []
    _without(monkeypatch, "yaml", "tabulate")
    monkeypatch.setattr(bootstrap, "install", lambda lines: (asked.extend(lines), monkeypatch.undo()))
    bootstrap.ready()
    assert sorted(line.split("==")[0] for line in asked) == ["pyyaml", "tabulate"]
    assert "pyyaml" in capsys.readouterr().out


@pytest.mark.parametrize("given", ["torch", "numpy"])
def test_torch_and_numpy_are_never_installed(monkeypatch, given):
    _without(monkeypatch, given)
    monkeypatch.setattr(bootstrap, "install", lambda lines: pytest.fail(f"installs {lines}"))
    with pytest.raises(bootstrap.NotReady, match=f"{given} cannot be imported"):
        bootstrap.ready()
    assert not {"torch", "numpy", "jupyterlab"} & set(bootstrap.requirements())


def test_pip_is_held_to_the_torch_and_numpy_that_are_here(monkeypatch):
    ran = []
    monkeypatch.setattr(
        bootstrap.subprocess, "run", lambda line, **_: (ran.append(line), subprocess.CompletedProcess(line, 0))[1]
    )
    bootstrap.install(["tabulate==0.10.0"])
    versions = [importlib.metadata.version(name) for name in ("torch", "numpy")]
    assert ran[0][-3:] == ["tabulate==0.10.0", f"torch=={versions[0]}", f"numpy=={versions[1]}"]


def test_offline_is_said_in_words(monkeypatch):
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    with pytest.raises(bootstrap.NotReady, match="offline"):
        bootstrap.install(["one-add-priced-no-such-package==1"])


def test_an_install_that_changes_nothing_says_restart(monkeypatch):
    _without(monkeypatch, "tabulate")
    monkeypatch.setattr(bootstrap, "install", lambda lines: None)
    with pytest.raises(bootstrap.NotReady, match="restart the kernel"):
        bootstrap.ready()


def test_everything_listed_has_the_import_name_we_look_for():
    """A requirement whose import name is not its own would be installed again by every first cell."""
    assert bootstrap.missing(bootstrap.requirements()) == []
