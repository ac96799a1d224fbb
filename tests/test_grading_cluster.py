"""The same tasks on a Dask cluster: a real scheduler and two workers on this machine, one of them killed half-way."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest

pytest.importorskip("nbgrader", reason="nbgrader is not installed (make test installs it)")
pytest.importorskip("distributed", reason="Dask is not installed (the extra `cluster`; make test installs it)")

from grading import box, status
from grading.classroom import Klass, run
from grading.intake import handed_in
from grading.store import Store, total
from tests import tiny_lab
from tests.conftest import REPO
from tests.hostile import WRONG

pytestmark = pytest.mark.skipif(bool(box.why_not()), reason=f"no box here: {box.why_not()}")


@pytest.fixture
def cluster(tmp_path):
    """(the scheduler's address, its two workers' processes)."""
    started = []

    def start(module: str, *args: str) -> subprocess.Popen:
        command = [sys.executable, "-m", f"distributed.cli.{module}", *args]
        log = open(tmp_path / f"{module}-{len(started)}.log", "wb")
        started.append(subprocess.Popen(command, cwd=REPO, stdin=subprocess.DEVNULL, stdout=log, stderr=log))
        return started[-1]

    file = tmp_path / "scheduler.json"
    start("dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file))
    _until(file.exists)
    args = ("--scheduler-file", str(file), "--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(tmp_path))
    workers = [start("dask_worker", *args) for _ in range(2)]
    yield json.loads(file.read_text())["address"], workers
    for process in reversed(started):
        process.kill()
        process.wait()


def _until(true, seconds: float = 300.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not start"
        time.sleep(0.1)


def test_a_killed_worker_loses_and_doubles_no_submission(tmp_path, cluster, monkeypatch):
    address, workers = cluster
    for n in range(4):
        path = tmp_path / "submitted" / f"s{n}.ipynb"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(tiny_lab.file(tiny_lab.answered(double=WRONG) if n % 2 else tiny_lab.answered()))
    one = Klass(tiny_lab.LAB, tiny_lab.source(), Store(tmp_path / "grades"), handed_in(tmp_path / "submitted", tiny_lab.LAB))
    noted = []
    note = one.note

    def noting(student, key, outcome):
        noted.append(student)
        if len(noted) == 1:
            workers[0].kill()
        return note(student, key, outcome)

    monkeypatch.setattr(one, "note", noting)
    assert run(one, jobs=0, cluster=address, quiet=True) == 4
    assert sorted(noted) == [f"s{n}" for n in range(4)]
    assert {r["student"]: (r["status"], total(r), r["history"]) for r in one.records()} == {
        f"s{n}": (status.GRADED, 3.0 if n % 2 else 8.0, []) for n in range(4)
    }
    assert workers[0].wait() != 0 and workers[1].poll() is None
