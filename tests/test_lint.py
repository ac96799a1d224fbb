"""Every rule of our lint: silent on a sound lesson, red on the one bad thing it is there for; ruff over everything."""

from __future__ import annotations

import socket
import subprocess
import sys

import nbformat
import pytest

from tests.conftest import REPO, require
from tests.notebook_factory import cell, code, lesson, markdown, page, printed, renumber
from tools import canonical, lint, lint_code, lint_links, lint_notebooks


def rules(nb) -> set[str]:
    return {rule for rule, _, _ in lint_notebooks.lint(nb)}


def test_a_sound_lesson_breaks_no_rule(tmp_path):
    path = tmp_path / "sound.ipynb"
    path.write_text(canonical.dumps(lesson()), encoding="utf-8")
    assert lint_notebooks.lint_file(path) == []


def _strip(nb):
    for one in nb.cells:
        if one.cell_type == "code":
            one.outputs, one.execution_count = [], None


def _set(cell_id, **fields):
    return lambda nb: cell(nb, cell_id).update(fields)


def _source(cell_id, source):
    return _set(cell_id, source=source)


def _output(cell_id, *outputs):
    return _set(cell_id, outputs=list(outputs))


def _tags(cell_id, *tags):
    return lambda nb: cell(nb, cell_id).metadata.update(tags=list(tags))


PNG = nbformat.v4.new_output("display_data", data={"image/png": "iVBORw0KGgo=", "text/plain": "<Figure>"})
WIDGET = nbformat.v4.new_output("display_data", data={canonical.WIDGET_VIEW: {"model_id": "1"}, "text/html": "<p>a slider</p>"})
ROOT = "/"  # apart, so that no path of one machine stands in this file
JUDGE = '# NBVAL_CHECK_OUTPUT\nexpect("half.is_half", half)'

# (the bad thing, the rule that must see it, what does it). The first seven are what nbval 0.11 lets pass.
PLANTED = [
    ("a stripped notebook", "executed", _strip),
    ("a stripped notebook's compared cell", "compared", _strip),
    ("a picture in a compared cell", "compared", _output("judge", PNG)),
    ("a misspelt tag", "tag", _tags("measure", "core", "raise-exception")),
    ("a misspelt marker", "nbval-marker", _source("judge", JUDGE.replace("_OUTPUT", "_OUTPUTS"))),
    ("raises-exception", "raises-exception", _tags("measure", "core", "raises-exception")),
    ("a shell line", "plain-python", _source("measure", "!pip list")),
    ("a pip line", "plain-python", _source("measure", "%pip install six")),
    ("a cell that ends the kernel", "kernel-end", _source("measure", "import os\nos._exit(1)")),
    ("a marker that skips", "nbval-marker", _source("measure", "# NBVAL_SKIP\nhalf")),
    ("a marker below the first line", "nbval-marker", _source("judge", 'expect("half.is_half", half)\n# NBVAL_CHECK_OUTPUT')),
    ("a shell through os", "plain-python", _source("measure", "import os\nos.system('false')")),
    ("an unchecked subprocess", "plain-python", _source("measure", "import subprocess\nsubprocess.run(['false'])")),
    ("a shell through IPython", "plain-python", _source("measure", "get_ipython().system('false')")),
    ("zeros for data", "uniform-data", _source("measure", "import torch\na = torch.zeros(4)")),
    ("counts out of order", "executed", _set("measure", execution_count=9)),
    ("another kernel", "kernelspec", lambda nb: nb.metadata.kernelspec.update(name="ir")),
    ("widget state", "widget-state", lambda nb: nb.metadata.update(widgets={})),
    ("a widget view", "widget-state", _output("measure", WIDGET)),
    ("two cells of one id", "cell-id", lambda nb: cell(nb, "measure").update(id="judge")),
    ("an unstable id", "cell-id", lambda nb: cell(nb, "measure").update(id="A B")),
    ("neither core nor deeper", "core-or-deeper", _tags("text-3")),
    ("core and deeper", "core-or-deeper", _tags("text-3", "core", "deeper")),
    ("an uncompared check", "compared", _source("judge", 'expect("half.is_half", half)')),
    ("measuring where it is judged", "compared", _source("judge", JUDGE + "\nprint(half)")),
    ("a number in a compared line", "compared", _output("judge", printed("✔ half.is_half: holds (0.50)\n"))),
    ("two streams", "compared", _output("judge", printed("✔ half.is_half: holds\n"), printed("oh\n", "stderr"))),
    ("a check that printed nothing", "compared", _source("judge", JUDGE + '\nexpect("half.too", half)')),
    ("a path of this machine", "machine", _output("measure", printed(ROOT + "root/course/x.py\n"))),
    ("a path of this machine in the text", "machine", _source("text-3", f"See {ROOT}home/ann/course.")),
    ("an address", "machine", _output("measure", printed("<object at 0x7f3a5c10>\n"))),
    (
        "a picture that holds a path",
        "machine",
        _output("picture", page("<img alt='x' src='data:image/svg+xml;base64,PHN2Zz4vaG9tZS9hbm4vPC9zdmc+'><table>")),
    ),
    ("a warning", "stderr", _output("measure", printed("UserWarning\n", "stderr"))),
    ("an error", "error", _output("measure", nbformat.v4.new_output("error", ename="ValueError", evalue="", traceback=[]))),
    ("thirteen lines of code", "code-lines", _source("measure", "\n".join(f"a{n} = {n}" for n in range(13)))),
    ("too many words", "words", _source("text-3", "word " * 1300)),
    ("too few cells", "cells", lambda nb: nb.cells.pop()),
    ("too many cells", "cells", lambda nb: nb.cells.extend(markdown("More.", f"more-{n}") for n in range(20))),
    ("a picture without alt text", "alt-text", _output("picture", page("<img src='x.svg'><table></table>"))),
    ("a drawing without a name", "alt-text", _output("picture", page("<svg><path/></svg><table></table>"))),
    ("a bare picture", "alt-text", _output("picture", PNG)),
    ("a markdown picture without alt text", "alt-text", _source("text-3", "![](strip.svg)")),
    ("a figure without its table", "table-twin", _output("picture", page("<img src='x.svg' alt='bars'>"))),
    ("another first cell", "first-cell", _source("setup", "import torch")),
    ("work in the import cell", "imports", _source("imports", "import math\nprint(math.pi)")),
]


@pytest.mark.parametrize(("rule", "plant"), [p[1:] for p in PLANTED], ids=[p[0] for p in PLANTED])
def test_a_planted_fault_is_seen(rule, plant):
    nb = lesson()
    plant(nb)
    assert rule in rules(nb)


def test_the_machines_own_name_is_seen(monkeypatch):
    nb = lesson()
    monkeypatch.setattr(socket, "gethostname", lambda: "annes-laptop")
    assert "machine" not in rules(nb)
    cell(nb, "measure").outputs = [printed("ran on annes-laptop\n")]
    assert "machine" in rules(nb)


def test_words_count_what_is_read():
    assert lint_notebooks.count_words("One `two` [three](a/b/c.md) <b>four</b>.\n\n```\nfive six\n```") == 4


def test_a_notebook_out_of_form_is_seen(tmp_path):
    path = tmp_path / "loose.ipynb"
    path.write_text(nbformat.writes(lesson()).replace(" ", "  ", 1), encoding="utf-8")
    assert ("format", "", "not in canonical form (python -m tools.notebooks format)") in lint_notebooks.lint_file(path)
    path.write_text("{", encoding="utf-8")
    assert lint_notebooks.lint_file(path)[0][0] == "format"


# ------------------------------------------------------------------------------------------------ code


PRIVATE = [
    "import torch\ntorch._C._get_tracing_state()",
    "import torch._dynamo",
    "from torch._C import _dispatch_keys",
    "from torch import _ops",
    "import torch as t\nt._ops.ops",
    "import torch.utils.cpp_extension as ext\next._join_cuda_home('lib')",
    "from torch.utils import cpp_extension\ncpp_extension._get_build_directory('x', False)",
    "import torch\ngetattr(torch, '_C')",
    "import importlib\nimportlib.import_module('torch._inductor')",
    "def f(x):\n    return x.op._dispatch_has_kernel('CPU')",
]
PUBLIC = [
    "import torch\ntorch.__version__",
    "import torch\nprint('torch._C is private')",
    "class A:\n    def __init__(self):\n        self._C = 1",
    "from utils.measure.seams import key_set",
]


@pytest.mark.parametrize("source", PRIVATE)
def test_private_torch_is_seen(source):
    assert list(lint_code.private_torch(source))


@pytest.mark.parametrize("source", PUBLIC)
def test_public_torch_is_left_alone(source):
    assert not list(lint_code.private_torch(source))


def test_a_module_opens_with_what_it_is_for():
    assert lint_code.first_line_missing("import os\n")
    assert lint_code.first_line_missing('"""Utilities."""\n')
    assert not lint_code.first_line_missing('"""Where things live on this machine."""\n')


# ------------------------------------------------------------------------------------------------ links


@pytest.mark.parametrize(
    ("text", "dead"),
    [
        ("[a](there.md)", False),
        ("[a](there.md#the-second-part)", False),
        ("[a](#own)\n\n# Own", False),
        ("`[a](nowhere.md)` and [b](https://example.org/x)", False),
        ("[a](nowhere.md)", True),
        ("[a](there.md#no-such-part)", True),
        ("[a](#nothing)", True),
        ("[a](/there.md)", True),
        ("[a](../outside.md)", True),
        ('<img src="gone.svg" alt="x">', True),
        ('<source srcset="gone.svg">', True),
    ],
)
def test_dead_links(tmp_path, text, dead):
    (tmp_path / "there.md").write_text("# There\n\n## The second part\n", encoding="utf-8")
    page_ = tmp_path / "page.md"
    page_.write_text(text, encoding="utf-8")
    assert bool(list(lint_links.dead(page_, text, tmp_path))) is dead


# ------------------------------------------------------------------------------------------------ the repository


def _small_repository(root):
    (root / "notebooks").mkdir()
    (root / "notebooks" / "00_start.ipynb").write_text(canonical.dumps(lesson()), encoding="utf-8")
    (root / "README.md").write_text(
        "| 00 | [start](notebooks/00_start.ipynb) | here |\n| 01 | one | planned |\n", encoding="utf-8"
    )
    (root / "tool.py").write_text('"""Does one small thing."""\n', encoding="utf-8")


def _found(root) -> set[str]:
    files = [path.relative_to(root) for path in root.rglob("*") if path.is_file()]
    return {rule for _, rule, _ in lint.problems(root, files)}


def _write(name, text):
    return lambda root: (root / name).write_text(text, encoding="utf-8")


def _second_lesson(root):
    (root / "notebooks" / "01_one.ipynb").write_text(canonical.dumps(lesson()), encoding="utf-8")


def _notebook_with_private_torch(root):
    nb = lesson()
    cell(nb, "measure").source = "import torch\ntorch._C"
    (root / "notebooks" / "00_start.ipynb").write_text(canonical.dumps(nb), encoding="utf-8")


def _notebook_with_a_dead_link(root):
    nb = lesson()
    cell(nb, "text-3").source = "[next](01_one.ipynb)"
    (root / "notebooks" / "00_start.ipynb").write_text(canonical.dumps(nb), encoding="utf-8")


README = "| 00 | [start](notebooks/00_start.ipynb) | here |\n"


@pytest.mark.parametrize(
    ("rule", "plant"),
    [
        ("docstring", _write("bare.py", "x = 1\n")),
        ("private-torch", _write("deep.py", '"""Looks too deep inside."""\nimport torch._C\n')),
        ("private-torch", _notebook_with_private_torch),
        ("machine", _write("notes.md", f"see {ROOT}home/ann/notes")),
        ("size", _write("big.txt", "x" * 2_000_001)),
        ("link", _write("README.md", README + "[a](gone.md)")),
        ("link", _notebook_with_a_dead_link),
        ("lessons", _second_lesson),
        ("lessons", _write("README.md", README + "| 01 | [one](notebooks/01_one.ipynb) | |\n")),
        ("lessons", _write("README.md", README + "| 01 | one | soon |\n")),
        ("lessons", _write("README.md", README.replace("here", "planned"))),
    ],
)
def test_a_fault_of_the_repository_is_seen(tmp_path, rule, plant):
    _small_repository(tmp_path)
    assert _found(tmp_path) == set()
    plant(tmp_path)
    assert rule in _found(tmp_path)


def test_seams_may_use_private_torch(tmp_path):
    _small_repository(tmp_path)
    seams = tmp_path / lint_code.SEAMS
    seams.parent.mkdir(parents=True)
    seams.write_text('"""The one place for private torch API."""\nimport torch._C\n', encoding="utf-8")
    assert _found(tmp_path) == set()


def test_the_repository_breaks_no_rule():
    require("git")
    problems = lint.lint_repository()
    assert not problems, "\n" + "\n".join(problems)


@pytest.mark.parametrize("command", [["check"], ["format", "--check"]], ids=["check", "format"])
def test_ruff(command):
    ruff = subprocess.run([sys.executable, "-m", "ruff", *command, "."], cwd=REPO, capture_output=True, text=True)
    assert ruff.returncode == 0, "\n" + ruff.stdout + ruff.stderr


def test_ruff_sees_notebooks(tmp_path):
    """Ruff over notebooks is on: an unused import in a cell is an error."""
    nb = lesson()
    nb.cells.append(code("import json", "unused"))
    renumber(nb)
    path = tmp_path / "bad.ipynb"
    path.write_text(canonical.dumps(nb), encoding="utf-8")
    ruff = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--config", str(REPO / "pyproject.toml"), str(path)],
        capture_output=True,
        text=True,
    )
    assert ruff.returncode == 1 and "F401" in ruff.stdout
