"""Runs one submission in a process of its own, on a temporary course that is copied from one made once.

A task is plain data (see `task`), so that it can be sent to another machine; so is what comes back. Where processes can be forked
from a server that has nbgrader imported already, that is done: a second less for each of three hundred.
"""

from __future__ import annotations

import functools
import hashlib
import json
import multiprocessing
import shutil
import subprocess
import sys
import tempfile
import threading
from dataclasses import asdict
from pathlib import Path

import psutil

from grading import box, course, status, witness
from utils.labs import cells

GRACE_S = 60.0  # beyond a submission's own time: for nbgrader itself, and for a machine that is busy


class GradingFailed(RuntimeError):
    """The notebook could not be run to its end; the message says why, and `status` what becomes of it. `again`: not its doing."""

    def __init__(self, said: str, status_: str = status.DIED, *, again: bool = False) -> None:
        super().__init__(said)
        self.status = status_
        self.again = again


def task(lab: str, source: dict, notebook: dict, limits: box.Limits, *, unsafe: bool = False) -> dict:
    """What is needed to grade the rebuilt `notebook` as `lab`, whose source is `source`, as plain data."""
    with_witnesses, words = witness.planted(notebook)
    return {
        "lab": lab,
        "source": source,
        "notebook": with_witnesses,
        "words": words,
        "limits": asdict(limits),
        "unsafe": unsafe,
    }


def run(task: dict) -> dict:
    """Grade the task in a process of its own. Returns {"scores": […], "silent": […], "graded": the notebook as it ran}.

    Where a cell's time ran out because the machine was paused, it is graded a second time: a point is never lost to that. Raises
    GradingFailed when it took too long or died, NoBox where its kernel cannot be boxed.
    """
    try:
        return _once(task)
    except GradingFailed as error:
        if not error.again:
            raise
        return _once(task)


def _once(task: dict) -> dict:
    if not task["unsafe"]:
        box.needed()
    lab = task["lab"]
    with _MAKING:  # several threads ask for the same course at once
        made = _made(lab, json.dumps(task["source"], sort_keys=True))
    with tempfile.TemporaryDirectory(prefix="one-add-grade-", ignore_cleanup_errors=True) as folder:
        root = Path(folder) / "course"
        shutil.copytree(made, root)
        to_grade = root / "work" / "submitted" / "submission" / lab / f"{lab}.ipynb"
        to_grade.parent.mkdir(parents=True)
        to_grade.write_text(json.dumps(task["notebook"]), encoding="utf-8")
        given = {key: task[key] for key in ("lab", "limits", "words", "unsafe")}
        told = _apart(root, given, task["limits"]["whole_s"] + GRACE_S)
        graded = root / "work" / "autograded" / "submission" / lab / f"{lab}.ipynb"
        return {**told, "graded": cells.read(graded) if graded.exists() else None}


def outcome(task: dict) -> dict:
    """What becomes of the task, as fields of a record (grading/store.py), with the notebook as it ran. Raises NoBox only."""
    try:
        told = run(task)
    except GradingFailed as error:
        return {"status": error.status, "reason": str(error), "graded": None}
    except box.NoBox:
        raise
    except Exception as error:  # a full disk, say: one submission's, and told; the others go on
        return {"status": status.DIED, "reason": f"{type(error).__name__}: {error}", "graded": None}
    if told["silent"]:
        reason = f"{len(told['silent'])} cells that must fail were made to pass"
        return {"status": status.TAMPERED, "reason": reason, "unconfirmed": told["scores"], "graded": told["graded"]}
    return {"status": status.GRADED, "reason": "", "scores": told["scores"], "graded": told["graded"]}


@functools.lru_cache(maxsize=4)
def _made(lab: str, source: str) -> Path:
    """A course folder in which nbgrader knows the cells of `source`. Made once a process, and for as long as it lives."""
    folder = tempfile.TemporaryDirectory(prefix="one-add-course-", ignore_cleanup_errors=True)
    _KEPT.append(folder)
    root = Path(folder.name) / hashlib.sha256(source.encode()).hexdigest()[:12]
    place = root / "solutions" / lab / f"{lab}.ipynb"
    place.parent.mkdir(parents=True)
    place.write_text(source, encoding="utf-8")
    _apart(root, {"lab": lab}, 120.0)
    return root


_KEPT: list[tempfile.TemporaryDirectory] = []
_MAKING = threading.Lock()


# ------------------------------------------------------------------------------------------------ the process


def _apart(root: Path, given: dict, limit_s: float) -> dict:
    """Let grading/child.py do what `given` says on the course in `root`; what it told."""
    (root / "task.json").write_text(json.dumps(given), encoding="utf-8")
    (root / "told.json").unlink(missing_ok=True)
    with open(root / "log.txt", "wb") as log:
        ended = _forked(root, limit_s) if _can_fork() else _started(root, limit_s, log)
    told = root / "told.json"
    if told.is_file():
        said = json.loads(told.read_text(encoding="utf-8"))
        if "error" in said:
            raise GradingFailed(said["error"], said["status"], again=said.get("again", False))
        return said
    if not ended:
        raise GradingFailed(f"took longer than {limit_s:g} s: stopped", status.TIMEOUT)
    log = (root / "log.txt").read_text(encoding="utf-8", errors="replace")
    raise GradingFailed("the grading process ended without a result:\n" + "\n".join(log.splitlines()[-15:]))


def stop() -> None:
    """End the processes that grade for this one, from whatever thread."""
    for pid in list(_RUNNING):
        end_family(pid)


_RUNNING: set[int] = set()


def _can_fork() -> bool:
    """A pool's own worker (of Dask, say) may not have such children; it starts programs instead."""
    return "forkserver" in multiprocessing.get_all_start_methods() and not multiprocessing.current_process().daemon


@functools.cache
def _server():
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["grading.child"])
    return context


def _forked(root: Path, limit_s: float) -> bool:
    """Whether it ended in time."""
    child = _server().Process(target=_in_the_fork, args=(str(root),))
    child.start()
    _RUNNING.add(child.pid)
    child.join(limit_s)
    ended = not child.is_alive()
    end_family(child.pid)
    child.join()
    _RUNNING.discard(child.pid)
    return ended


def _in_the_fork(root: str) -> None:
    import os

    from grading import child

    log = os.open(Path(root) / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.setsid()  # Ctrl-C is the grader's to handle
    child.main(Path(root))


def _started(root: Path, limit_s: float, log) -> bool:
    """Whether it ended in time."""
    command = [sys.executable, "-m", "grading.child", str(root)]
    child = subprocess.Popen(command, cwd=course.REPO, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        child.wait(limit_s)
        return True
    except subprocess.TimeoutExpired:
        return False
    finally:
        end_family(child.pid)
        child.wait()


def end_family(pid: int) -> None:
    """End a process and everything it started, some of it in process groups of its own."""
    try:
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return
    for member in family:
        try:
            member.kill()
        except psutil.NoSuchProcess:
            continue
