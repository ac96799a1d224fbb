"""A class with every hostile submission we know, graded as one batch: what becomes of each, and that none touches another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

pytest.importorskip("nbgrader", reason="nbgrader is not installed (make test installs it)")

from grading import box, status
from grading.classroom import Klass, run
from grading.intake import handed_in
from grading.lms import roster
from grading.store import Store, total
from tests import hostile, tiny_lab
from tests.conftest import REPO
from utils.labs import cells

CI = os.environ.get("CI") == "true"
BOXED = pytest.mark.skipif(bool(box.why_not()) and not CI, reason=f"no box here: {box.why_not()}")
NAMES = list(hostile.cases(Path("/nowhere"), Path("/nowhere")))
LIMITS = box.Limits(cell_s=8, whole_s=90, memory_mib=1024, output_mib=1)


def klass(place, **more) -> Klass:
    """A class of the tiny lab whose submissions are in `place`/submitted and whose results go to `place`/grades."""
    handed = handed_in(place / "submitted", tiny_lab.LAB)
    return Klass(tiny_lab.LAB, tiny_lab.source(), Store(place / "grades"), handed, limits=more.pop("limits", LIMITS), **more)


def hand_in(place, student: str, files: dict[str, bytes]) -> None:
    folder = place / "submitted" / student
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


@pytest.fixture(scope="module")
def batch(tmp_path_factory):
    """(the class after grading, what was outside before and after)."""
    place = tmp_path_factory.mktemp("class")
    outside = place / "outside"
    outside.mkdir()
    (outside / "kept.txt").write_text("somebody else's")
    (outside / "kept.txt").chmod(0o640)
    outside.chmod(0o750)
    os.environ["ONE_ADD_TEST_SECRET"] = "not theirs"
    every = hostile.cases(outside, place / "grades")
    files = {student: case.files for student, case in every.items() if case.files}
    files[hostile.TOGETHER] = hostile.together(every)
    for student, theirs in files.items():
        hand_in(place, student, theirs)
    (place / "roster.csv").write_text("id,name\n" + "".join(f"{name},Student {name}\n" for name in [*files, "nobody"]))
    before = {path: path.read_bytes() for path in (place / "submitted").rglob("*") if path.is_file()}
    one = klass(place, roster=roster(place / "roster.csv"))
    run(one, jobs=2, quiet=True)
    del os.environ["ONE_ADD_TEST_SECRET"]
    assert before == {path: path.read_bytes() for path in (place / "submitted").rglob("*") if path.is_file()}
    return one, every, outside


@BOXED
@pytest.mark.parametrize("name", NAMES)
def test_every_case_has_its_outcome_and_no_other(batch, name):
    one, every, _ = batch
    case = every[name]
    student = hostile.TOGETHER if case.cell else name
    record = one.store.get(student)
    assert (record["status"], record["reason"]) == (case.status, record["reason"])
    assert total(record) == case.points
    told = " | ".join([record["reason"], *record["put_right"]])
    assert all(words in told for words in case.says), told
    assert all(any(words in look for look in record["looks"]) for words in case.looks), record["looks"]
    printed = json.dumps(cells.read(one.store.notebook(student))) if case.printed else ""
    assert all(words in printed for words in case.printed), printed


@BOXED
def test_a_killed_grader_takes_its_boxes_along(tmp_path):
    """SIGKILL leaves no time to clean up: the kernel in the box goes all the same, and the student's turn comes again."""
    hand_in(tmp_path, "sleeper", {"lab.ipynb": tiny_lab.file(tiny_lab.with_cell("import time\ntime.sleep(500)"))})
    code = "import sys\nfrom pathlib import Path\nfrom tests import test_grading_class as t\n"
    code += "t.run(t.klass(Path(sys.argv[1]), limits=t.box.Limits()), jobs=1, quiet=True)"
    grader = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], cwd=REPO)
    family: list[psutil.Process] = []
    try:
        until(lambda: any("ipykernel_launcher" in _command(process) for process in _new(family, grader.pid)))
    finally:
        grader.kill()
        grader.wait()
    until(lambda: not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in family))
    assert klass(tmp_path).store.get("sleeper")["status"] == status.PENDING


def until(true, seconds: float = 300.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.1)


def _new(family: list[psutil.Process], pid: int) -> list[psutil.Process]:
    """Keep in `family` every process that `pid` has started so far."""
    for process in psutil.Process(pid).children(recursive=True):
        if process not in family:
            family.append(process)
    return family


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@BOXED
def test_nothing_outside_was_touched_and_nothing_still_runs(batch):
    one, every, outside = batch
    assert (outside / "kept.txt").read_text() == "somebody else's"
    assert (outside / "kept.txt").stat().st_mode & 0o777 == 0o640 and outside.stat().st_mode & 0o777 == 0o750
    assert not os.path.exists(hostile.STARTED)
    assert not [p for p in psutil.process_iter(["cmdline"]) if "one-add-hostile" in " ".join(p.info["cmdline"] or [])]
    assert one.store.get("nobody")["status"] == status.MISSING
    students = [name for name, case in every.items() if case.files]
    assert sorted(record["student"] for record in one.records()) == sorted([*students, hostile.TOGETHER, "nobody"])
