"""What is handed in to a grader: every way we know to break a notebook, or to attack with one, and what must become of it."""

from __future__ import annotations

import copy
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

from grading import status
from tests import tiny_lab
from tests.tiny_lab import ANSWERS, POINTS, answered, cell, file, handed_out, with_cell

WRONG = ANSWERS["double"].replace("2 * x", "x + 2")  # right for 2, and for nothing else
TOGETHER = "together"  # the student who makes all attacks that leave the kernel alive
STARTED = "/tmp/one-add-hostile-started"  # not visible in a box: what is left there came from one


@dataclass(frozen=True)
class Case:
    """The files of one student, and what must come of them: status, points by tests, and words that must be among the reasons,
    the things put right, or the outputs (`printed`)."""

    files: dict[str, bytes]
    status: str = status.GRADED
    points: float | None = POINTS
    says: tuple[str, ...] = ()
    printed: tuple[str, ...] = ()
    looks: tuple[str, ...] = field(default=())
    cell: str = ""  # code of the one notebook TOGETHER, instead of files


def one(nb: dict | bytes, *args, name: str = "lab99_tiny.ipynb", **kwargs) -> Case:
    return Case({name: nb if isinstance(nb, bytes) else file(nb)}, *args, **kwargs)


# Should a box ever fail to be one, the attacks stop here, and not at this machine's files.
INSIDE = "import os\nassert os.environ['HOME'] == '/scratch' and not os.path.exists(os.environ['ONE_ADD_REPO'] + '/solutions')\n"


def attack(code: str, *args, **kwargs) -> Case:
    """The full answer, with a cell of the learner's own that runs before it."""
    return one(with_cell(INSIDE + textwrap.dedent(code).lstrip()), *args, **kwargs)


def inside(code: str, *printed: str) -> Case:
    """An attack that fails and lets the kernel live. A kernel costs seconds, so one notebook makes all of these, a cell each."""
    return Case({}, printed=printed, cell=INSIDE + textwrap.dedent(code).lstrip())


def together(every: dict[str, Case]) -> dict[str, bytes]:
    """The files of the student TOGETHER."""
    nb = answered()
    for case in every.values():
        nb = with_cell(case.cell, nb) if case.cell else nb
    return {"lab99_tiny.ipynb": file(nb)}


def without(*ids: str) -> dict:
    nb = answered()
    nb["cells"] = [c for c in nb["cells"] if c["id"] not in ids]
    return nb


def edited_tests(nb: dict, points: int | None = None) -> dict:
    for test in tiny_lab.TESTS:
        if points is None:
            cell(nb, test)["source"] = "assert True"
        else:
            cell(nb, test)["metadata"]["nbgrader"]["points"] = points
    return nb


def stripped(nb: dict) -> dict:
    for one_cell in nb["cells"]:
        one_cell["metadata"] = {}
    return nb


def copied() -> dict:
    """The answer there twice, the wrong one first: the last counts, as for nbgrader."""
    nb = answered()
    at = nb["cells"].index(cell(nb, "double"))
    twin = copy.deepcopy(nb["cells"][at])
    twin["source"] = WRONG
    nb["cells"].insert(at, twin)
    return nb


def old_format() -> dict:
    nb = answered()
    nb["nbformat_minor"] = 4
    for one_cell in nb["cells"]:
        del one_cell["id"]
    return nb


def by_colab() -> dict:
    """As Colab saves it: no cell ids, notes of its own, another kernelspec."""
    nb = old_format()
    nb.update(nbformat_minor=0)
    nb["metadata"] = {"colab": {"provenance": []}, "kernelspec": {"name": "python3", "display_name": "Python 3"}}
    for number, one_cell in enumerate(nb["cells"]):
        one_cell["metadata"] = {**one_cell["metadata"], "id": f"x{number}", "colab": {"base_uri": "https://localhost:8080/"}}
    return nb


def foreign() -> dict:
    nb = answered()
    nb["metadata"]["kernelspec"] = {"name": "julia-1.9", "display_name": "Julia", "language": "julia"}
    return nb


def odd_metadata() -> dict:
    """Types where nobody expects them."""
    nb = answered()
    nb["metadata"] = [1]
    cell(nb, "greet_says")["metadata"]["nbgrader"].update(points={"a": 1}, grade="yes")
    nb["cells"] += [
        {"cell_type": ["code"], "source": "x", "metadata": {"nbgrader": 3}},
        {"cell_type": None, "source": ["y"], "outputs": 5, "execution_count": "z"},
        {"cell_type": "raw", "source": "w", "metadata": {"nbgrader": {"grade_id": ["double"]}}},
    ]
    return nb


YES = "class Yes:\n" + "".join(
    f"    def __{name}__(self, *a):\n        return {value}\n" for name, value in (("eq", True), ("ne", False), ("bool", True))
)
REWRITES = """
    def nothing(lines):
        text = "".join(lines)
        return ["pass\\n"] if "strict." in text or "assert" in text else lines
    get_ipython().input_transformers_post.append(nothing)
"""

SWALLOWS = """
    import ast
    class Calm(ast.NodeTransformer):
        def visit_Module(self, node):
            handler = ast.ExceptHandler(ast.Name("BaseException", ast.Load()), None, [ast.Pass()])
            return ast.fix_missing_locations(ast.Module([ast.Try(node.body, [handler], [], [])], []))
    get_ipython().ast_transformers.append(Calm())
"""
UNSAYS = """
    from IPython.display import clear_output
    get_ipython().events.register("post_run_cell", lambda *a: clear_output())
"""


def cases(outside: Path, gradebook: Path) -> dict[str, Case]:
    """By student. `outside` is a folder with a file of somebody else's, `gradebook` the folder of the class's results."""
    return {
        # ---- honest, and damaged by accident
        "solution": one(answered()),
        "untouched": one(handed_out(), points=0.0),
        "wrong": one(answered(double=WRONG), points=3.0),
        "edited_tests": one(edited_tests(answered(double=WRONG)), points=3.0, says=("double_zero", "not yours to change")),
        "deleted_tests": one(without("double_small", "greet_says"), says=("double_small, greet_says: lost",)),
        "changed_points": one(edited_tests(answered(double=WRONG), points=100), points=3.0, says=("given other points",)),
        "stripped_metadata": one(stripped(answered()), status.UNREADABLE, None, says=("holds no graded cell",)),
        "copied_cell": one(copied(), says=("double: there more than once",)),
        "deleted_answer": one(without("double"), points=3.0, says=("double: lost",)),
        "invalid_json": one(b'{"cells": [', status.UNREADABLE, None, says=("JSON is damaged",)),
        "empty_file": one(b"", status.UNREADABLE, None, says=("empty",)),
        "huge_number": one(b'{"cells": [], "nbformat": ' + b"9" * 5000 + b"}", status.UNREADABLE, None, says=("damaged",)),
        "deep_json": one(b"[" * 200_000, status.UNREADABLE, None, says=("damaged",)),
        "odd_metadata": one(odd_metadata()),
        "no_notebook": Case({"essay.pdf": b"%PDF"}, status.UNREADABLE, None, says=("no notebook: essay.pdf",)),
        "two_files": Case(
            {"a.ipynb": file(answered()), "b.ipynb": file(handed_out())}, status.UNREADABLE, None, says=("2 different notebooks",)
        ),
        "same_file_twice": Case({"lab.ipynb": file(answered()), "lab (1).ipynb": file(answered())}),
        "renamed_file": one(answered(), name="Copy of my homework (3).ipynb"),
        "no_cell_ids": one(old_format()),
        "colab": one(by_colab()),
        "foreign_kernel": one(foreign()),
        "half_a_character": one(with_cell("x = '\ud800'")),
        "input": inside(
            "name = input()",
            "StdinNotImplementedError",
        ),
        "pip": inside("%pip install numpy==1.0", "No matching distribution"),
        "loop": attack("while True:\n    pass", printed=("CellTimeoutError",)),
        "loop_in_answer": one(
            answered(double="def double(x):\n    while x:\n        pass\n    return 0"), points=5.0, printed=("CellTimeoutError",)
        ),
        "after_the_tests": one(with_cell("import time\ntime.sleep(600)", at=-1)),  # nothing behind the last test runs
        "warns": one(answered(double="def double(x):\n    import warnings\n    warnings.warn('slow')\n    return 2 * x")),
        # ---- on purpose
        "ignores_sigint": attack(
            "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass", status.TIMEOUT, None
        ),
        "memory": inside(
            "hoard = bytearray(20 << 30)",
            "MemoryError",
        ),
        "memory_of_many": attack(
            """
            import time
            for _ in range(8):
                if os.fork() == 0:
                    hoard = bytearray(os.urandom(1 << 20) * 200)
                    time.sleep(60)
            time.sleep(60)
            """,
            status.DIED,
            None,
            says=("MiB of memory",),
        ),
        "output": attack("for _ in range(100):\n    print('x' * (1 << 20))"),
        "large_file": inside(
            "with open('/tmp/f', 'wb') as f:\n    for _ in range(1024):\n        f.write(bytes(1 << 20))",
            "File too large",
        ),
        "dead_kernel": attack("os._exit(1)", status.DIED, None, says=("kernel died",)),
        "killed_kernel": attack("os.kill(os.getpid(), 9)", status.DIED, None, says=("kernel died",)),
        "kills_parent": inside(
            "os.kill(os.getppid(), 9)\nprint('parent', os.getppid())",
            "parent 1",
        ),
        "kills_all": inside(
            "os.kill(-1, 9)",
            "ProcessLookupError",
        ),  # nobody else is there
        "deletes_outside": inside(
            f"""
            import shutil
            for place in ({str(outside)!r}, {str(gradebook)!r}, os.environ["ONE_ADD_REPO"] + "/labs"):
                shutil.rmtree(place, ignore_errors=True)
            print("inside")
            """,
            "inside",
        ),
        "overwrites_outside": inside(
            f"open({str(outside / 'kept.txt')!r}, 'w').write('mine')",
            "FileNotFoundError",
        ),
        "overwrites_course": inside(
            "import utils.labs.strict as s\nopen(s.__file__, 'w').write('')",
            "Read-only file system",
        ),
        "reads_solutions": inside(
            # An environment that lies in the course's folder is there too, as Python's own.
            "import os\nprint('course', sorted(set(os.listdir(os.environ['ONE_ADD_REPO'])) - {'.venv'}))",
            "course ['labs', 'pyproject.toml', 'utils']",
        ),
        "writes_gradebook": inside(
            f"""
            import glob, sqlite3
            print("found", os.path.exists({str(gradebook)!r}), [place for place in glob.glob("/tmp/*") if os.listdir(place)])
            sqlite3.connect("gradebook.db").execute("create table grade (score)")
            sqlite3.connect({str(gradebook / "gradebook.db")!r})
            """,
            "found False",
            "unable to open database file",
        ),
        "links_in_the_sockets": inside(
            f"""
            import glob
            place = next(place for place in glob.glob("/tmp/one-add-*") if os.path.isdir(place))
            os.symlink({str(outside / "kept.txt")!r}, place + "/link")
            os.symlink({str(outside)!r}, place + "/folder")
            os.chmod(place, 0o500)
            print("linked")
            """,
            "linked",
        ),
        "many_processes": attack(
            """
            import time
            for _ in range(100):
                if os.fork() == 0:
                    time.sleep(60)
                    os._exit(0)
            time.sleep(60)
            """,
            status.DIED,
            None,
            says=("processes",),
        ),
        "detached_child": attack(
            f"""
            import subprocess, sys
            code = "import time; open({STARTED!r}, 'w').close(); time.sleep(600)"
            subprocess.Popen([sys.executable, "-c", code, "one-add-hostile"], start_new_session=True)
            """
        ),
        "network": inside(
            "import socket\nsocket.create_connection(('1.1.1.1', 53), timeout=3)",
            "Network is unreachable",
        ),
        "reads_secrets": inside(
            "import os\nprint('env', sorted(k for k in os.environ if 'SECRET' in k))",
            "env []",
        ),
        "says_yes": one(
            answered(double=YES + "def double(x):\n    return Yes()", greet="def greet(name):\n    return Yes()"),
            points=0.0,
            looks=("double: def __eq__",),
        ),
        "unsays_errors": one(with_cell(textwrap.dedent(UNSAYS), answered(double=WRONG)), points=3.0, looks=("get_ipython",)),
        "rewrites_cells": one(
            with_cell(textwrap.dedent(REWRITES), handed_out()),
            status.TAMPERED,
            None,
            says=("made to pass",),
            looks=("input_transformer",),
        ),
        "swallows_errors": one(
            with_cell(textwrap.dedent(SWALLOWS), handed_out()),
            status.TAMPERED,
            None,
            says=("made to pass",),
            looks=("ast_transformers",),
        ),
        "leaks_hidden_tests": one(
            answered(
                double="import sys, linecache\ndef double(x):\n    raise ValueError(''.join(linecache.getlines("
                "sys._getframe(1).f_code.co_filename)))"
            ),
            points=3.0,
            looks=("_getframe",),
        ),
    }
