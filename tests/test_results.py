"""The reader's results: nothing is lost to damage, crashes, full disks, read-only homes or a second writer."""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.factories import WHERE, make_race, make_receipt
from utils import paths
from utils.model import files, results
from utils.model.results import Results, ResultsError

RNG = random.Random(41)


def row(kind: str = "race", where: dict | None = None, **payload) -> dict:
    where = where or WHERE["cpu"]
    return {
        "kind": kind,
        "machine": results.machine_id(where),
        "torch": where["torch"],
        "date": f"2026-11-29T12:00:{RNG.uniform(0, 59.9):09.6f}+00:00",
        "where": where,
        "payload": payload or {"ns": RNG.uniform(100, 2000)},
    }


def write(path: Path, rows: list[dict]) -> None:
    path.write_text(json.dumps({"format": results.FORMAT, "version": 1, "rows": rows, "predictions": []}))


def asides(path: Path) -> list[str]:
    return sorted(p.name for p in path.parent.glob(f"{path.stem}.*-*{path.suffix}"))


# ---- what is kept, and who may read it ---------------------------------------------------------------------


def test_a_receipt_comes_back_sample_by_sample(home):
    receipt = make_receipt(seed=RNG.randrange(10**6))
    results.record_receipt(receipt)
    results._open.cache_clear()  # a new session
    assert results.latest_receipt("cpu", where=WHERE["cpu"]) == receipt
    assert results.latest_receipt("cpu", grad=True, where=WHERE["cpu"]) is None


def test_a_lesson_reads_only_rows_of_this_machine_and_this_torch(home):
    other_cpu = {**WHERE["cpu"], "cpu": "Another CPU"}
    other_torch = {**WHERE["cpu"], "torch": "2.11.0+cpu"}
    for n, where in enumerate((WHERE["cpu"], other_cpu, other_torch)):
        results.record("roof", {"gbps": 10.0 + n}, where=where)
    assert results.latest("roof", where=WHERE["cpu"]) == {"gbps": 10.0}
    assert results.latest("roof", where=other_torch) == {"gbps": 12.0}
    assert results.latest("roof", where={**WHERE["cpu"], "cores": 64}) is None
    assert results.latest("nothing", where=WHERE["cpu"]) is None
    assert len(results.load().rows("roof")) == 3


def test_the_machine_is_not_another_one_because_of_python_or_the_driver():
    same = {**WHERE["cuda"], "python": "3.13.1", "driver": "600.1", "torch": "2.13.0"}
    assert results.machine_id(same) == results.machine_id(WHERE["cuda"])
    assert results.machine_id({**same, "gpu": "Tesla T4"}) != results.machine_id(same)


def test_the_latest_of_two_is_the_later_one(home):
    for n in (1, 2, 3):
        results.record("roof", {"n": n}, where=WHERE["cpu"])
    assert results.latest("roof", where=WHERE["cpu"]) == {"n": 3}


def test_a_race_is_kept_as_a_race(home):
    race = make_race(seed=RNG.randrange(10**6))
    results.record("race", race, where=WHERE["cpu"])
    assert type(race).from_dict(results.latest("race", where=WHERE["cpu"])).ratio("a + b", "python_call") == pytest.approx(
        race.ratio("a + b", "python_call")
    )


def test_a_recording_is_not_a_result_of_the_reader(home):
    with pytest.raises(ResultsError, match="recorded"):
        results.record_receipt(make_receipt(source="recorded"))


def test_predictions_are_kept_and_an_answer_outlives_a_later_skip(home):
    results.predict("output.memory_share", 80.0, unit="%")
    results.predict("output.memory_share", None, skipped=True)
    assert [p["skipped"] for p in results.predictions("output.memory_share")] == [False, True]
    assert results.last_prediction("output.memory_share")["answer"] == 80.0
    assert results.last_prediction("never asked") is None


@pytest.mark.parametrize("payload", [{"ns": float("nan")}, {"ns": float("inf")}, {"ns": {1, 2}}])
def test_what_is_no_json_is_the_callers_mistake_and_changes_nothing(home, payload):
    results.record("roof", {"ok": 1}, where=WHERE["cpu"])
    before = (home / "results.json").read_bytes()
    with pytest.raises(ResultsError, match="cannot be kept"):
        results.record("roof", payload, where=WHERE["cpu"])
    assert (home / "results.json").read_bytes() == before


def test_only_the_newest_rows_of_a_kind_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "KEEP", 3)
    store = Results(tmp_path / "results.json")
    for n in range(5):
        store.add("rows", row("roof", n=n))
        store.add("rows", row("other", n=n))
    assert [r["payload"]["n"] for r in Results(store.path).rows("roof")] == [2, 3, 4]
    assert len(Results(store.path).rows("other")) == 3


# ---- files that cannot be used -----------------------------------------------------------------------------

BAD = {
    "half a file": '{"format": "one-add-priced/results", "version": 1, "rows": [{"kind"',
    "no text": b"\x80\x81\xff\x00",
    "another program's": '{"format": "spreadsheet/1", "cells": [1, 2]}',
    "a list": "[1, 2, 3]",
    "empty": "",
    "version of the wrong kind": '{"format": "one-add-priced/results", "version": "one", "rows": [], "predictions": []}',
    "a row without payload": '{"format": "one-add-priced/results", "version": 1, "rows": [{"kind": "a"}], "predictions": []}',
    "an old file with a hole": '{"format": "one-add-priced/results", "version": 0, "rows": {"roof": [{}]}, "predictions": {}}',
}


@pytest.mark.parametrize("content", BAD.values(), ids=BAD)
def test_a_bad_file_is_refused_with_the_reason_and_set_aside_whole(tmp_path, content):
    path = tmp_path / "results.json"
    raw = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(raw)
    store = Results(path)
    assert store.rows() == []
    assert len(store.notes) == 1 and "cannot be used" in store.notes[0] and "results.refused-1.json" in store.notes[0]
    assert (tmp_path / "results.refused-1.json").read_bytes() == raw
    store.add("rows", row())
    assert len(Results(path).rows()) == 1


def test_a_second_bad_file_does_not_overwrite_the_first(tmp_path):
    path = tmp_path / "results.json"
    for n in (1, 2, 3):
        path.write_text(f"damage number {n}")
        Results(path).rows()
    assert [(tmp_path / name).read_text() for name in asides(path)] == [f"damage number {n}" for n in (1, 2, 3)]


def test_a_bad_file_that_cannot_be_renamed_stays_and_the_session_lives_in_memory(tmp_path, monkeypatch):
    path = tmp_path / "results.json"
    path.write_text("damaged")

    def refuse(*_):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(files.os, "rename", refuse)
    store = Results(path)
    store.add("rows", row("roof", n=7))
    assert [r["payload"]["n"] for r in store.rows("roof")] == [7]
    assert path.read_text() == "damaged"
    assert "in memory" in store.notes[0]


def test_a_newer_file_is_left_alone_and_the_session_lives_in_memory(tmp_path):
    path = tmp_path / "results.json"
    content = json.dumps({"format": results.FORMAT, "version": 7, "tables": {"x": [1]}})
    path.write_text(content)
    store = Results(path)
    store.add("rows", row("roof", n=1))
    store.add("rows", row("roof", n=2))
    assert [r["payload"]["n"] for r in store.rows("roof")] == [1, 2]
    assert path.read_text() == content and asides(path) == []
    assert len(store.notes) == 1 and "version 7" in store.notes[0] and "in memory" in store.notes[0]


# ---- an older file -----------------------------------------------------------------------------------------


def old_file() -> dict:
    return {
        "format": results.FORMAT,
        "version": 0,
        "rows": {
            "roof": [{"date": "2026-03-02T10:00:00+00:00", "where": WHERE["cpu"], "payload": {"gbps": 14.5}}],
            "receipt_cuda": [
                {"date": "2026-03-01T10:00:00+00:00", "where": WHERE["cuda"], "payload": make_receipt("cuda").to_dict()}
            ],
        },
        "predictions": {
            "output.memory_share": {"date": "2026-03-01T09:00:00+00:00", "answer": 35.5, "unit": "%"},
            "skipped.one": {"date": "2026-03-01T09:00:00+00:00", "answer": None},
        },
    }


def test_an_older_file_is_migrated_and_kept(tmp_path):
    path = tmp_path / "results.json"
    old = json.dumps(old_file())
    path.write_text(old)
    store = Results(path)
    assert store.rows("roof", machine=results.machine_id(WHERE["cpu"]), torch="2.13.0+cpu")[0]["payload"] == {"gbps": 14.5}
    assert [r["kind"] for r in store.rows()] == ["receipt_cuda", "roof"], "by date"
    assert {p["id"]: (p["answer"], p["skipped"], p["unit"]) for p in store.predictions()} == {
        "output.memory_share": (35.5, False, "%"),
        "skipped.one": (None, True, None),
    }
    assert (tmp_path / "results.version-0-1.json").read_text() == old
    assert json.loads(path.read_text())["version"] == 1, "migrated once, not at every start"
    assert "migrated" in store.notes[0]
    assert Results(path).notes == []


# ---- writes: crash, full disk, second writer ---------------------------------------------------------------

WRITER = """
import sys, time
from pathlib import Path
from utils.model import files, results
store = results.Results(Path(sys.argv[1]))
mode, count = sys.argv[2], int(sys.argv[3])
where = {"cpu": "a CPU", "torch": "2.13.0", "python": "3.11", "machine": "x86_64"}
if mode == "hang":  # stop between the temporary file and its new name, and say so
    def replace(*_):
        print("hanging", flush=True)
        time.sleep(60)
    files.os.replace = replace
for n in range(count):
    row = {"kind": "roof", "machine": results.machine_id(where), "torch": "2.13.0", "where": where,
           "date": results._now(), "payload": {"writer": sys.argv[4], "n": n, "ballast": [0.1234567 * i for i in range(300)]}}
    store.add("rows", row)
    print(n, flush=True)
"""


def writer(path: Path, mode: str, count: int, name: str = "w") -> subprocess.Popen:
    command = [sys.executable, "-c", WRITER, str(path), mode, str(count), name]
    return subprocess.Popen(command, cwd=paths.REPO, stdout=subprocess.PIPE, text=True)


def test_a_writer_killed_between_writing_and_renaming_loses_nothing(tmp_path):
    path = tmp_path / "results.json"
    write(path, [row("roof", n=n) for n in range(20)])
    before = path.read_bytes()
    child = writer(path, "hang", 1)
    assert child.stdout.readline().strip() == "hanging"
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    assert path.read_bytes() == before
    assert list(tmp_path.glob("*.tmp")), "the half-done file is there, so the kill came in the middle of a write"
    store = Results(path)
    store.add("rows", row("roof", n=20))  # the dead writer's lock does not block, its leftover goes
    assert [r["payload"]["n"] for r in Results(path).rows()] == list(range(21))
    assert not list(tmp_path.glob("*.tmp")) and store.notes == []


def test_writers_killed_at_random_moments_leave_a_whole_file_with_every_reported_row(tmp_path):
    path = tmp_path / "results.json"
    reported = 0
    for _ in range(4):
        child = writer(path, "run", 10_000)
        for _ in range(RNG.randrange(3, 9)):
            child.stdout.readline()
            reported += 1
        time.sleep(RNG.uniform(0, 0.02))
        child.kill()
        reported += len(child.stdout.read().splitlines())
        child.wait()
    store = Results(path)
    assert len(store.rows()) >= min(reported, results.KEEP) and store.notes == [] and asides(path) == []


def test_two_writers_at_once_lose_no_row(tmp_path):
    path = tmp_path / "results.json"
    children = [writer(path, "run", 15, name) for name in ("left", "right")]
    for child in children:
        child.communicate(timeout=60)
    kept = [(r["payload"]["writer"], r["payload"]["n"]) for r in Results(path).rows()]
    assert sorted(kept) == [(name, n) for name in ("left", "right") for n in range(15)]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_costs_nothing_that_was_there_and_the_session_goes_on(tmp_path, monkeypatch, code):
    path = tmp_path / "results.json"
    write(path, [row("roof", n=0)])
    before = path.read_bytes()
    store = Results(path)

    def full(_):
        raise OSError(code, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(files.os, "fsync", full)
        store.add("rows", row("roof", n=1))
        store.add("rows", row("roof", n=2))
        assert path.read_bytes() == before and not list(tmp_path.glob("*.tmp"))
        assert [r["payload"]["n"] for r in store.rows("roof")] == [0, 1, 2]
        assert len(store.notes) == 1 and "the disk is full" in store.notes[0]
    store.add("rows", row("roof", n=3))  # there is room again
    assert [r["payload"]["n"] for r in Results(path).rows("roof")] == [0, 1, 2, 3]


@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="this system has no limit on a file's size")
def test_a_disk_that_fills_in_the_middle_of_a_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "results.json"
    write(path, [row("roof", n=0)])
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))\n"
    command = [sys.executable, "-c", limit + WRITER + "print(store.notes)", str(path), "run", "3", "w"]
    done = subprocess.run(command, cwd=paths.REPO, capture_output=True, text=True, check=True)
    assert "the disk is full" in done.stdout
    kept = Results(path)
    assert kept.rows()[0]["payload"] == {"n": 0} and kept.notes == [] and not list(tmp_path.glob("*.tmp"))


def test_a_home_that_cannot_be_written_moves_and_says_so(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("a file where the folder should be")
    monkeypatch.setenv("ONE_ADD_HOME", str(blocked / "home"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(paths.tempfile, "tempdir", None)
    paths._folder.cache_clear()
    results._open.cache_clear()
    try:
        results.record("roof", {"n": 5}, where=WHERE["cpu"])
        assert results.latest("roof", where=WHERE["cpu"]) == {"n": 5}
        assert "cannot be written" in results.notes()[0]
        assert tmp_path in results.load().path.parents
    finally:
        paths._folder.cache_clear()
        results._open.cache_clear()


def test_a_folder_that_turns_read_only_keeps_the_session_going(tmp_path, monkeypatch):
    store = Results(tmp_path / "results.json")
    store.add("rows", row("roof", n=0))

    def refuse(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(files, "write_atomically", refuse)
    store.add("rows", row("roof", n=1))
    assert [r["payload"]["n"] for r in store.rows("roof")] == [0, 1]
    assert "Read-only file system" in store.notes[0]
    assert len(Results(store.path).rows()) == 1


# ---- carrying it elsewhere ---------------------------------------------------------------------------------


def test_export_and_import_carry_everything_once(tmp_path):
    here, there = Results(tmp_path / "a" / "results.json"), Results(tmp_path / "b" / "results.json")
    for store in (here, there):
        store.path.parent.mkdir()
    for n in range(3):
        here.add("rows", row("roof", n=n))
    here.add("predictions", {"id": "q", "date": results._now(), "skipped": False, "answer": "b", "unit": None, "extra": {}})
    there.add("rows", row("roof", n=9))
    copy = here.export(tmp_path / "carried.json")
    assert there.import_(copy) == 4
    assert there.import_(copy) == 0
    assert sorted(r["payload"]["n"] for r in Results(there.path).rows()) == [0, 1, 2, 9]
    assert Results(there.path).predictions("q")[0]["answer"] == "b"


def test_an_export_overwrites_an_export_and_nothing_else(tmp_path):
    store = Results(tmp_path / "results.json")
    store.add("rows", row("roof", n=1))
    copy = store.export(tmp_path / "carried.json")
    store.add("rows", row("roof", n=2))
    assert len(Results(store.export(copy)).rows()) == 2
    precious = tmp_path / "thesis.md"
    precious.write_text("three years of work")
    with pytest.raises(ResultsError, match="is there already and is kept"):
        store.export(precious)
    assert precious.read_text() == "three years of work"


def test_an_export_holds_what_waits_in_memory(tmp_path):
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"format": results.FORMAT, "version": 9}))
    store = Results(path)
    store.add("rows", row("roof", n=4))
    assert [r["payload"]["n"] for r in Results(store.export(tmp_path / "out.json")).rows()] == [4]


@pytest.mark.parametrize("content", ["damaged", '{"format": "x"}', json.dumps({"format": results.FORMAT, "version": 5})])
def test_importing_a_bad_file_changes_nothing(tmp_path, content):
    store = Results(tmp_path / "results.json")
    store.add("rows", row("roof", n=1))
    source = tmp_path / "carried.json"
    source.write_text(content)
    before = store.path.read_bytes()
    with pytest.raises(ResultsError, match="carried.json cannot be imported"):
        store.import_(source)
    with pytest.raises(ResultsError, match="no file"):
        store.import_(tmp_path / "missing.json")
    assert store.path.read_bytes() == before and source.read_text() == content


def test_an_exported_old_file_is_migrated_on_import(tmp_path):
    source = tmp_path / "carried.json"
    source.write_text(json.dumps(old_file()))
    store = Results(tmp_path / "results.json")
    assert store.import_(source) == 4
    assert source.read_text() == json.dumps(old_file()), "the imported file itself stays as it was"
