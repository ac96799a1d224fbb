"""A machine that is paused while it grades, a closed laptop say: no point is lost, and no time is billed to a submission."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import psutil
import pytest

pytest.importorskip("nbgrader", reason="nbgrader is not installed (make test installs it)")

from grading import apart, box, child, status, watch
from grading.rebuild import rebuilt
from tests import tiny_lab
from tests.conftest import REPO

CELL_S, BUSY_S, AT_WORK = 12, 1.5, "at-work"
# The answer computes for a while, so that a pause can meet it, and says so in the one way that is seen outside of its box.
SLOW = f"""import ctypes, time

def double(x):
    ctypes.CDLL(None).prctl(15, b"{AT_WORK}")
    end = time.process_time() + ({BUSY_S} if x == 2 else 0)
    while time.process_time() < end:
        pass
    return 2 * x"""
GRADE = """
import json, sys
from grading import apart
told = apart.outcome(json.load(open(sys.argv[1])))
print(json.dumps([told["status"], told["reason"], sum(s["points"] or 0 for s in told.get("scores", []))]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the answer's sign that it works is Linux's")
def test_a_pause_costs_no_point(tmp_path):
    task = apart.task(
        tiny_lab.LAB,
        tiny_lab.source(),
        rebuilt(tiny_lab.answered(double=SLOW), tiny_lab.source()),
        box.Limits(cell_s=CELL_S, whole_s=60),
        unsafe=bool(box.why_not()),
    )
    (tmp_path / "task.json").write_text(json.dumps(task), encoding="utf-8")
    line = [sys.executable, "-c", GRADE, str(tmp_path / "task.json")]
    grader = subprocess.Popen(line, cwd=REPO, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(REPO)})
    try:
        pause(grader, CELL_S + 1)
        told = json.loads(grader.communicate(timeout=120)[0])
    finally:
        grader.kill()
    assert told == [status.GRADED, "", tiny_lab.POINTS]


def pause(grader: subprocess.Popen, seconds: float) -> None:
    """Stop the grader and all that it started for so long, as soon as its kernel is at work in a cell."""
    family = psutil.Process(grader.pid)
    end = time.monotonic() + 90
    while not any(name_of(one) == AT_WORK for one in family.children(recursive=True)):
        assert grader.poll() is None and time.monotonic() < end, "no kernel was seen at work"
        time.sleep(0.05)
    stopped = [family, *family.children(recursive=True)]
    for one in stopped:
        one.suspend()
    time.sleep(seconds)
    for one in reversed(stopped):
        one.resume()


def name_of(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.Error:
        return ""


class Cells:
    """What nbgrader would have made of a notebook whose cell ran out of time."""

    def autograde(self, *_, **__):
        return {"success": True}


@pytest.mark.parametrize("name", ["CellTimeoutError", "KeyboardInterrupt"])
@pytest.mark.parametrize("still", [0.0, 9.0])
def test_a_cell_that_ran_out_of_time_is_tried_again_only_after_a_pause(tmp_path, monkeypatch, still, name):
    error = {"output_type": "error", "ename": name, "evalue": "A cell timed out", "traceback": []}
    notebook = {"cells": [{"cell_type": "code", "id": "a", "metadata": {}, "source": "", "outputs": [error]}]}
    monkeypatch.setattr(child.box, "kernelspec", lambda *_, **__: None)
    monkeypatch.setattr(child.course, "nbgrader", lambda *_, **__: Cells())
    monkeypatch.setattr(child.cells, "read", lambda path: notebook)
    monkeypatch.setattr(child, "_scores", lambda *_: iter(()))
    monkeypatch.setattr(child.witness, "silent", lambda *_: [])
    monkeypatch.setattr(child.Watch, "__exit__", lambda self, *_: setattr(self, "still_s", still) or self._over.set())
    if not still:
        assert child._graded(tmp_path, "lab", box.Limits(), [], True) == {"scores": [], "silent": []}
        return
    with pytest.raises(child.NotGraded, match="stood still for 9 s") as caught:
        child._graded(tmp_path, "lab", box.Limits(), [], True)
    assert caught.value.again and caught.value.status == status.TIMEOUT


def test_the_watch_takes_a_pause_off_the_time(tmp_path, monkeypatch):
    """Looks at 0.25 s, 0.5 s, and the next one 700 s later: 700 s are nobody's, and the limit of 600 s is not over."""
    looks = iter([0.0, 0.25, 0.25, 0.25, 0.5, 0.5, 0.5, 700.75, 700.75, 700.75])
    monkeypatch.setattr(watch.time, "monotonic", lambda: next(looks))
    one = watch.Watch(tmp_path, box.Limits())
    rounds = iter([False, False, False, True])
    monkeypatch.setattr(one._over, "wait", lambda _: next(rounds))
    monkeypatch.setattr(watch, "_family", lambda: [])
    one._look()
    assert one.still_s == pytest.approx(700.0) and one.reason == ""


def test_it_is_tried_a_second_time_and_no_third(monkeypatch):
    tries = []

    def once(task):
        tries.append(task)
        raise apart.GradingFailed("stood still", status.TIMEOUT, again=True)

    monkeypatch.setattr(apart, "_once", once)
    assert apart.outcome({})["status"] == status.TIMEOUT and len(tries) == 2
    monkeypatch.setattr(apart, "_once", lambda task: tries.append(task) or (_ for _ in ()).throw(apart.GradingFailed("no")))
    assert apart.outcome({})["status"] == status.DIED and len(tries) == 3
