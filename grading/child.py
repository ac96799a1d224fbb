"""`python -m grading.child ROOT LAB`: what runs apart from the grader: nbgrader on a temporary course of one lab and one submission.

Expects the source in ROOT/solutions/LAB and the submission in ROOT/work/submitted/one/LAB. Writes ROOT/scores.json: the scores from
nbgrader's gradebook, or {"error": why}. A process of its own, so that a time limit can end it with all that it started.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from grading import course
from grading.release import NotReleased, generate
from grading.score import Score
from utils.labs import cells

STUDENT = "one"
MARK = "\x1b["


def main(root: Path, lab: str) -> int:
    try:
        generate(lab, root)
        told = {"scores": [score.to_dict() for score in _autograded(root, lab)]}
    except NotReleased as error:
        told = {"error": str(error)}
    (root / "scores.json").write_text(json.dumps(told), encoding="utf-8")
    return "error" in told


def _autograded(root: Path, lab: str) -> list[Score]:
    from nbgrader.api import Gradebook

    api = course.nbgrader(root)
    done = api.autograde(lab, STUDENT, force=True, create=True)
    if not done["success"]:
        raise NotReleased(_reason(done))
    graded = root / "work" / "autograded" / STUDENT / lab / f"{lab}.ipynb"
    said = {known.id: _error(cell) for cell, known in _with_ids(cells.read(graded))}
    with Gradebook(api.coursedir.db_url, api.coursedir.course_id) as gradebook:
        notebook = gradebook.find_submission_notebook(lab, lab, STUDENT)
        found = {
            grade.name: Score(
                grade.name,
                None if grade.auto_score is None else float(grade.auto_score),
                float(grade.max_score_gradecell),
                said.get(grade.name, ""),
            )
            for grade in notebook.grades
        }
    order = [cell.id for cell in cells.known(cells.read(graded)) if cell.grade]
    return [found[name] for name in [*order, *sorted(found.keys() - set(order))]]


def _reason(done: dict) -> str:
    """Why nbgrader gave up, in a few lines: a dead kernel above all."""
    log = f"{done.get('error') or ''}\n{done.get('log') or ''}"
    if "DeadKernelError" in log or "Kernel died" in log:
        return "the kernel died while it ran the notebook (out of memory, or a cell ended it)"
    return "\n".join(line for line in log.strip().splitlines()[-15:])


def _with_ids(nb: dict):
    for cell in nb["cells"]:
        for known in cells.known({"cells": [cell]}):
            yield cell, known


def _error(cell: dict) -> str:
    """The error among a cell's outputs, in one line, or ""."""
    for output in cell.get("outputs", []):
        if output.get("output_type") == "error":
            return f"{output['ename']}: {next(iter(output['evalue'].splitlines()), '')}"
    return ""


if __name__ == "__main__":
    os.environ.pop("JPY_SESSION_NAME", None)  # whoever grades may do so from a notebook of their own
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
