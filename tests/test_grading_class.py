"""A class with every hostile submission we know, graded as one batch: what becomes of each, and that none touches another."""

from __future__ import annotations

import json
import os
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
from utils.labs import cells

CI = os.environ.get("CI") == "true"
BOXED = pytest.mark.skipif(bool(box.why_not()) and not CI, reason=f"no box here: {box.why_not()}")
NAMES = list(hostile.cases(Path("/nowhere"), Path("/nowhere")))
LIMITS = box.Limits(cell_s=2, whole_s=20, memory_mib=1024, output_mib=1)


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
    os.environ["ONE_ADD_TEST_SECRET"] = "not theirs"
    every = hostile.cases(outside, place / "grades")
    for student, case in every.items():
        hand_in(place, student, case.files)
    (place / "roster.csv").write_text("id,name\n" + "".join(f"{name},Student {name}\n" for name in [*every, "nobody"]))
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
    case, record = every[name], one.store.get(name)
    assert (record["status"], record["reason"]) == (case.status, record["reason"])
    assert total(record) == case.points
    told = " | ".join([record["reason"], *record["put_right"]])
    assert all(words in told for words in case.says), told
    assert all(any(words in look for look in record["looks"]) for words in case.looks), record["looks"]
    printed = json.dumps(cells.read(one.store.notebook(name))) if case.printed else ""
    assert all(words in printed for words in case.printed), printed


@BOXED
def test_nothing_outside_was_touched_and_nothing_still_runs(batch):
    one, every, outside = batch
    assert (outside / "kept.txt").read_text() == "somebody else's"
    assert not os.path.exists(hostile.STARTED)
    assert not [p for p in psutil.process_iter(["cmdline"]) if "one-add-hostile" in " ".join(p.info["cmdline"] or [])]
    assert one.store.get("nobody")["status"] == status.MISSING
    assert sorted(record["student"] for record in one.records()) == sorted([*every, "nobody"])
