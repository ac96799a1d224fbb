"""What runs apart from the grader, in a process of its own: nbgrader on a temporary course of one lab and one submission.

`prepare` makes such a course; `grade_one` grades the submission in it, its kernel in the box. Both write ROOT/told.json, which is
all that the grader reads of them: {"scores": […], "silent": […]} or {"error": why, "status": …}. Also as a program, with ROOT.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import multiprocessing.connection
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

# Imported here, once, and not in each submission's process, which is forked from one that has them: it takes seconds.
from nbgrader.api import Gradebook
from nbgrader.apps import NbGraderAPI
from nbgrader.converters import Autograde
from nbgrader.preprocessors import Execute
from traitlets.config import Config

from grading import box, course, status, witness
from grading.boxed import BoxedExecute
from grading.release import NotReleased, generate
from grading.score import Score, in_a_line
from grading.watch import Watch, end_children
from utils.labs import cells

TOLD = "told.json"
TOO_LONG = ("CellTimeoutError", "KeyboardInterrupt")  # what a cell says whose time was over, by whether its kernel answered
SUBMISSION = "submission"  # the only student of a temporary course
LONGEST_SOCKET = 90  # characters of a path; the system takes 107


class NotGraded(RuntimeError):
    """nbgrader could not run a notebook to its end; `status` is what becomes of the submission, the message says why. `again`:
    it was not the submission's doing, so that it is worth a second try."""

    def __init__(self, said: str, status_: str = status.DIED, *, again: bool = False) -> None:
        super().__init__(said)
        self.status = status_
        self.again = again


def prepare(root: Path, lab: str) -> None:
    """Let nbgrader note the cells of the lab whose source is in ROOT/solutions in a new gradebook there."""
    _own_settings(root)
    try:
        generate(lab, root, gradebook=True)
        _tell(root, {})
    except NotReleased as error:
        _tell(root, {"error": str(error), "status": status.DIED})


def grade_one(root: Path, lab: str, task: dict) -> None:
    """Grade the submission of the course in ROOT; `task` has the limits, the witnesses' words, and whether there is no box."""
    _own_settings(root)
    _leave_with_the_grader()
    try:
        _tell(root, _graded(root, lab, box.Limits(**task["limits"]), task["words"], task["unsafe"]))
    except NotGraded as error:
        _tell(root, {"error": str(error), "status": error.status, "again": error.again})
    finally:
        end_children()


def _graded(root: Path, lab: str, limits: box.Limits, words: list[str], unsafe: bool) -> dict:
    with _socket_folder() as sockets, Watch(sockets, limits) as watch:
        box.kernelspec(root / "jupyter", sockets, limits, unsafe=unsafe)
        api = course.nbgrader(root, more=_settings(sockets, limits))
        done = api.autograde(lab, SUBMISSION, force=True, create=True)
    if watch.reason:
        raise NotGraded(watch.reason, status.TIMEOUT if watch.late else status.DIED)
    if not done["success"]:
        why = _why(done)
        why.again = bool(watch.still_s)
        raise why
    graded = cells.read(graded_notebook(root, lab))
    if watch.still_s and any(_error(cell).startswith(TOO_LONG) for cell in graded["cells"]):
        said = f"everything stood still for {watch.still_s:.0f} s while it was graded, and a cell's time ran out"
        raise NotGraded(said, status.TIMEOUT, again=True)
    return {"scores": [score.to_dict() for score in _scores(api, root, lab, graded)], "silent": witness.silent(graded, words)}


def graded_notebook(root: Path, lab: str) -> Path:
    """Where the notebook is as it ran, with what its cells printed."""
    return root / "work" / "autograded" / SUBMISSION / lab / f"{lab}.ipynb"


def _settings(sockets: Path, limits: box.Limits) -> Config:
    """nbgrader's settings for a boxed run. Its kernel speaks over sockets in a folder, since the box has no network."""
    more = Config()
    steps = Autograde.autograde_preprocessors.default()
    more.Autograde.autograde_preprocessors = [BoxedExecute if step is Execute else step for step in steps]
    more.BoxedExecute.kernel_name = box.KERNEL
    more.BoxedExecute.timeout = int(limits.cell_s)
    more.BoxedExecute.most_output = limits.output_mib * box.MIB
    more.KernelManager.transport = "ipc"
    more.KernelManager.ip = str(sockets / "k")
    more.KernelManager.connection_file = str(sockets / "kernel.json")
    return more


def _scores(api: NbGraderAPI, root: Path, lab: str, graded: dict) -> Iterator[Score]:
    """In the order of the lab's cells, from nbgrader's gradebook."""
    said = {known.id: _error(cell) for cell in graded["cells"] for known in cells.known({"cells": [cell]})}
    with Gradebook(api.coursedir.db_url, api.coursedir.course_id) as gradebook:
        found = {grade.name: grade for grade in gradebook.find_submission_notebook(lab, lab, SUBMISSION).grades}
        for cell in cells.known(cells.read(root / "solutions" / lab / f"{lab}.ipynb")):
            if cell.grade:
                yield Score(cell.id, found[cell.id].auto_score, float(found[cell.id].max_score_gradecell), said.get(cell.id, ""))


def _why(done: dict) -> NotGraded:
    """Why nbgrader gave up, in a few lines: a dead kernel above all."""
    log = f"{done.get('error') or ''}\n{done.get('log') or ''}"
    if "Timeout waiting for IOPub" in log or "CellTimeoutError" in log:
        return NotGraded("a cell could not be stopped when its time was over", status.TIMEOUT)
    if "DeadKernelError" in log or "Kernel died" in log or "Kernel didn't respond" in log:
        return NotGraded("the kernel died while it ran the notebook (out of memory, or a cell ended it)")
    return NotGraded("\n".join(log.strip().splitlines()[-15:]))


def _error(cell: dict) -> str:
    """The error among a cell's outputs, in one line, or ""."""
    for output in cell.get("outputs", []):
        if output.get("output_type") == "error":
            return in_a_line(str(output.get("ename")), str(output.get("evalue")))
    return ""


# ------------------------------------------------------------------------------------------------ a process of its own


def _own_settings(root: Path) -> None:
    """Nothing of the user's own settings decides: Jupyter looks for all of its files in `root`."""
    os.environ.pop("JPY_SESSION_NAME", None)  # whoever grades may do so from a notebook of their own
    os.environ.update(
        ONE_ADD_REPO=str(course.REPO),
        ONE_ADD_HOME=str(root / "home"),
        JUPYTER_CONFIG_DIR=str(root / "jupyter"),
        JUPYTER_DATA_DIR=str(root / "jupyter"),
        JUPYTER_RUNTIME_DIR=str(root / "runtime"),
        IPYTHONDIR=str(root / "ipython"),
        PYTHONHASHSEED="0",  # graded twice, the same
    )


@contextlib.contextmanager
def _socket_folder() -> Iterator[Path]:
    """A folder that the box can write to, and whose path is short enough for a socket.

    Removed by hand: what `tempfile` does about a folder that cannot be emptied follows links, and these are a learner's.
    """
    place = tempfile.gettempdir()
    folder = Path(tempfile.mkdtemp(prefix="one-add-", dir=place if len(place) <= LONGEST_SOCKET - 30 else "/tmp"))
    try:
        yield folder
    finally:
        folder.chmod(0o700)
        shutil.rmtree(folder, ignore_errors=True)


def _leave_with_the_grader() -> None:
    """When the grader is killed, this process and its box go too."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait() -> None:
        multiprocessing.connection.wait([parent.sentinel])
        end_children()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _tell(root: Path, told: dict) -> None:
    part = root / f"{TOLD}.part"
    part.write_text(json.dumps(told), encoding="utf-8")
    part.replace(root / TOLD)


def main(root: Path) -> None:
    """What ROOT/task.json asks for."""
    given = json.loads((root / "task.json").read_text(encoding="utf-8"))
    if "limits" in given:
        grade_one(root, given["lab"], given)
    else:
        prepare(root, given["lab"])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
