"""`python -m grading.grade LAB NOTEBOOK`: grades one notebook with nbgrader and prints the points of each graded cell.

The submission is put back into its lab's shape (grading/rebuild.py), then nbgrader runs it in a temporary course, in a process
of its own and under a time limit, with a home and a Jupyter configuration of its own. The file that was handed in is only read.
No wall stands around the learner's code yet beyond that: grade files of people you trust, or on a machine that may be lost.

Exit 0 when a score was found, whatever it is; 1 when grading failed; 2 for a path or a notebook that cannot be graded.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import psutil

from grading import course
from grading.rebuild import rebuilt
from grading.score import Score, total
from utils.labs import cells
from utils.labs.cells import Damage

LIMIT_S = 600.0  # every test cell of a lab may meet its own limit, and there is a score


class CannotGrade(ValueError):
    """There is nothing here to grade; the message names the file and says why."""


class GradingFailed(RuntimeError):
    """The notebook could not be run to its end; the message says why."""


@dataclass(frozen=True)
class Graded:
    """The result for one file: its scores, and what was damaged in it and put right first."""

    file: Path
    lab: str
    scores: tuple[Score, ...]
    damage: Damage


def grade(lab: str, notebook: Path, *, limit_s: float = LIMIT_S, keep: Path | None = None) -> Graded:
    """Grade `notebook` as `lab`. `keep` is where the graded notebook, with what its cells printed, is put.

    `lab` is its name or number. Raises CannotGrade for an unknown lab or a file that is no notebook of it, GradingFailed when the
    run takes longer than `limit_s` seconds, or its kernel dies.
    """
    found = course.named(lab)
    if found is None:
        raise CannotGrade(f"there is no lab {lab!r}; there are: {', '.join(course.labs()) or 'none'}")
    lab = found
    submission, source = _read(lab, notebook)
    damage = cells.damage(cells.known(source), cells.known(submission))
    result = run(lab, {"submission": rebuilt(submission, source)}, limit_s=limit_s, keep=keep)["submission"]
    if isinstance(result, str):
        raise GradingFailed(result)
    return Graded(notebook, lab, result, damage)


def run(
    lab: str, notebooks: dict[str, dict], *, limit_s: float = LIMIT_S, keep: Path | None = None
) -> dict[str, tuple[Score, ...] | str]:
    """Let nbgrader grade rebuilt `notebooks` (by a name for each) as `lab`, one after the other in one child process.

    Returns by name the scores, or why the notebook could not be run. `keep` is where the last one's graded notebook is put.
    Raises GradingFailed when all together take longer than `limit_s` seconds.
    """
    with tempfile.TemporaryDirectory(prefix="one-add-grade-", ignore_cleanup_errors=True) as folder:
        root = Path(folder)
        course.copy_source(lab, root)
        for name, nb in notebooks.items():
            to_grade = root / "work" / "submitted" / name / lab / f"{lab}.ipynb"
            to_grade.parent.mkdir(parents=True)
            to_grade.write_text(json.dumps(nb), encoding="utf-8")
        told = _in_a_child(root, lab, limit_s)
        graded = root / "work" / "autograded" / list(notebooks)[-1] / lab / f"{lab}.ipynb"
        if keep is not None and graded.exists():
            keep.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(graded, keep)
    return {name: one.get("error") or tuple(Score(**score) for score in one["scores"]) for name, one in told.items()}


def _read(lab: str, notebook: Path) -> tuple[dict, dict]:
    """(the submission, the source) as JSON data."""
    try:
        submission = cells.read(notebook)
    except cells.NoNotebook as error:
        raise CannotGrade(str(error)) from error
    source = cells.read(course.source(lab))
    if not cells.belongs(submission, cells.known(source)):
        others = [one for one in course.labs() if cells.belongs(submission, cells.known(cells.read(course.source(one))))]
        hint = f"it looks like {others[0]}" if others else "it holds no graded cell (was its nbgrader metadata stripped?)"
        raise CannotGrade(f"{notebook}: no notebook of {lab}; {hint}")
    return submission, source


def _in_a_child(root: Path, lab: str, limit_s: float) -> dict[str, dict]:
    """What grading/child.py told about the course in `root`, by the name of the submission."""
    env = {
        **os.environ,
        "ONE_ADD_REPO": str(course.REPO),
        "ONE_ADD_HOME": str(root / "home"),
        "JUPYTER_CONFIG_DIR": str(root / "jupyter"),
        "JUPYTER_DATA_DIR": str(root / "jupyter"),
        "JUPYTER_RUNTIME_DIR": str(root / "runtime"),
        "IPYTHONDIR": str(root / "ipython"),
        "PYTHONHASHSEED": "0",  # graded twice, the same
    }
    child = subprocess.Popen(
        [sys.executable, "-m", "grading.child", str(root), lab],
        cwd=course.REPO,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    try:
        printed, _ = child.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        raise GradingFailed(f"took longer than {limit_s:g} s: stopped") from None
    finally:
        _end(child)
    told = root / "scores.json"
    if not told.is_file():
        raise GradingFailed("the grading process ended without a result:\n" + "\n".join(printed.splitlines()[-15:]))
    return json.loads(told.read_text(encoding="utf-8"))


def _end(child: subprocess.Popen) -> None:
    """End the child and everything it started: its kernels have process groups of their own."""
    try:
        family = psutil.Process(child.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        family = []
    for process in [*family, child]:
        try:
            process.kill()
        except (psutil.NoSuchProcess, ProcessLookupError):
            pass
    child.wait()


# ------------------------------------------------------------------------------------------------ the table


def table(graded: Graded) -> str:
    """The points of each graded cell, their total, and what was put right, as text."""
    from tabulate import tabulate

    rows = [(s.id, "by hand" if s.points is None else f"{s.points:g}", f"{s.most:g}", _short(s.said)) for s in graded.scores]
    waiting = sum(s.most for s in graded.scores if s.points is None)
    most = sum(s.most for s in graded.scores)
    lines = [
        f"Graded {graded.file} as {graded.lab}",
        "",
        tabulate(rows, ["cell", "points", "of", "why"], disable_numparse=True),
        "",
    ]
    lines.append(
        f"total {total(graded.scores):g} of {most:g}" + (f", {waiting:g} of them still to be graded by hand" if waiting else "")
    )
    lines += [f"put right before grading: {sentence}" for sentence in graded.damage.sentences()]
    return "\n".join(lines)


def _short(text: str, width: int = 90) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m grading.grade", description=__doc__.splitlines()[0])
    parser.add_argument("lab", help=f"its name or number; there are: {', '.join(course.labs())}")
    parser.add_argument("notebook", type=Path, help="the file that was handed in")
    parser.add_argument("--limit", type=float, default=LIMIT_S, metavar="S", help="seconds the whole may take (600)")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="where to put the notebook as graded, with its outputs")
    args = parser.parse_args(argv)
    try:
        print(table(grade(args.lab, args.notebook, limit_s=args.limit, keep=args.keep)))
    except CannotGrade as error:
        print(f"make grade: {error}", file=sys.stderr)
        return 2
    except GradingFailed as error:
        print(f"make grade: {args.notebook}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
