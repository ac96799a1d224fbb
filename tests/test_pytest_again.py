"""What `make test` runs a second time: a burst of noise becomes a warning, a fault stays a failure, and both can be read."""

from __future__ import annotations

import subprocess
import sys

from tests.conftest import REPO
from tests.notebook_factory import cell, small_lesson
from tools import canonical
from tools.pytest_lessons import NBVAL

ONCE = "from pathlib import Path\nmark = Path({mark!r})\nfirst = not mark.exists()\nmark.touch()\n"


def run(path):
    line = [*NBVAL, "-p", "tools.pytest_again", "-p", "no:cacheprovider", "-rR", "-q", str(path)]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *line], cwd=REPO, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300
    )


def test_a_lesson_that_fails_once_is_a_warning(tmp_path, monkeypatch):
    monkeypatch.setenv("ONE_ADD_REPO", str(REPO))
    done = run(small_lesson(tmp_path, ONCE.format(mark=str(tmp_path / "mark")) + "assert not first, 'a neighbour'"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed when run again" in done.stdout and "a neighbour" in done.stdout


def test_a_lesson_that_is_wrong_fails_and_both_runs_are_told(tmp_path, monkeypatch):
    monkeypatch.setenv("ONE_ADD_REPO", str(REPO))
    done = run(small_lesson(tmp_path, "assert False, 'the idea is wrong'"))
    assert done.returncode == 1
    told = done.stdout.split("Run once more, on a fresh kernel:")
    assert len(told) > 1 and all("the idea is wrong" in part for part in told[:2]), done.stdout


def test_a_lesson_that_says_something_else_the_second_time_fails(tmp_path, monkeypatch):
    """Its compared cell prints another line than the committed one: no second chance makes that right."""
    monkeypatch.setenv("ONE_ADD_REPO", str(REPO))
    path = small_lesson(tmp_path, "")
    nb = canonical.loads(path.read_text(encoding="utf-8"))
    cell(nb, "picture").source = "def expect(metric, thing):\n    print('✔ other: holds')\nhalf = 1 / 2"
    path.write_text(canonical.dumps(nb), encoding="utf-8")
    done = run(path)
    assert done.returncode == 1 and "something else than what is committed" in done.stdout, done.stdout


def test_a_test_that_fails_once_is_listed_and_one_that_is_wrong_fails(tmp_path):
    source = (
        ONCE.format(mark=str(tmp_path / "mark"))
        + """
def test_noise():
    again = mark.with_name("again")
    found = again.exists()
    again.touch()
    assert found

def test_fault():
    assert 1 == 2
"""
    )
    (tmp_path / "test_two.py").write_text(source, encoding="utf-8")
    done = run(tmp_path / "test_two.py")
    assert done.returncode == 1
    assert "1 failed, 1 passed, 2 rerun" in done.stdout, done.stdout
    assert "RERUN" in done.stdout and "test_noise" in done.stdout
