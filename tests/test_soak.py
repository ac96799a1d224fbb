"""The soak counts what fails and says why; its neighbours are busy while it runs and gone afterwards."""

from __future__ import annotations

import nbformat
import psutil
import pytest

from tests.notebook_factory import code
from tools import canonical, soak


@pytest.fixture
def lessons(tmp_path):
    """Two small lessons: one that passes, and one of whose two cells the second fails."""
    for name, second in (("sound", "print(x)"), ("broken", "raise ValueError(f'measured {x}, expected 7')")):
        nb = nbformat.v4.new_notebook(cells=[code("x = 6", "a"), code(second, "b")])
        for n, cell in enumerate(nb.cells, start=1):
            cell.execution_count = n
        (tmp_path / f"{name}.ipynb").write_text(canonical.dumps(canonical.canonical(nb)), encoding="utf-8")
    return tmp_path


def test_a_sound_suite_is_counted_and_exits_0(lessons, capsys):
    assert soak.main(["--runs", "1", str(lessons / "sound.ipynb")]) == 0
    told = capsys.readouterr().out
    assert told.count("2 cells passed, 0 failed") == 1
    assert "soak: 1 runs, 0 failed (quiet" in told


def test_what_fails_is_named_with_its_reason_and_exits_1(lessons, capsys):
    paths = [str(lessons / "sound.ipynb"), str(lessons / "broken.ipynb")]
    assert soak.main(["--runs", "1", "--out", str(lessons / "kept"), *paths]) == 1
    told = capsys.readouterr().out
    assert "3 cells passed, 1 failed" in told and "broken: " in told
    assert "ValueError: measured 6, expected 7" in told
    assert "expected 7" in (lessons / "kept" / "run-1.txt").read_text(encoding="utf-8")


def test_nothing_to_run_is_2(tmp_path):
    with pytest.raises(SystemExit) as ended:
        soak.main(["--runs", "0"])
    assert ended.value.code == 2


def test_neighbours_are_busy_and_leave():
    before = {child.pid for child in psutil.Process().children()}
    with soak.neighbours(1):
        mine = [c for c in psutil.Process().children(recursive=True) if c.pid not in before]
        busiest = max(mine, key=lambda c: c.cpu_percent(0.5) + c.cpu_percent(1.0))
        assert busiest.cpu_times().user > 0.1
    assert not [c for c in mine if c.is_running() and c.status() != psutil.STATUS_ZOMBIE and "_spin" in " ".join(c.cmdline())]
