"""`python -m grading.child ROOT LAB`: what runs apart from the grader: nbgrader on a temporary course of one lab.

Expects the source in ROOT/solutions/LAB and each submission in work/submitted/NAME/LAB there. Writes ROOT/scores.json: by NAME
the scores from nbgrader's gradebook, or {"error": why}. A process of its own, so that a time limit can end it with all that
it started.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from grading import course
from grading.release import NotReleased, generate
from grading.score import Score, in_a_line
from utils.labs import cells


class NotGraded(RuntimeError):
    """nbgrader could not run a notebook to its end; the message says why."""


def main(root: Path, lab: str) -> int:
    told: dict[str, dict] = {}
    names = sorted(path.name for path in (root / "work" / "submitted").iterdir())
    try:
        generate(lab, root, gradebook=True)
    except NotReleased as error:
        told = dict.fromkeys(names, {"error": str(error)})
        names = []
    for name in names:
        try:
            told[name] = {"scores": [score.to_dict() for score in _autograded(root, lab, name)]}
        except NotGraded as error:
            told[name] = {"error": str(error)}
    (root / "scores.json").write_text(json.dumps(told), encoding="utf-8")
    return 0


def _autograded(root: Path, lab: str, name: str) -> list[Score]:
    """The scores of submission `name`, in the order of the lab's cells."""
    from nbgrader.api import Gradebook

    api = course.nbgrader(root)
    done = api.autograde(lab, name, force=True, create=True)
    if not done["success"]:
        raise NotGraded(_reason(done))
    graded = cells.read(root / "work" / "autograded" / name / lab / f"{lab}.ipynb")
    said = {known.id: _error(cell) for cell, known in _with_ids(graded)}
    with Gradebook(api.coursedir.db_url, api.coursedir.course_id) as gradebook:
        found = {grade.name: grade for grade in gradebook.find_submission_notebook(lab, lab, name).grades}
        return [
            Score(cell.id, found[cell.id].auto_score, float(found[cell.id].max_score_gradecell), said.get(cell.id, ""))
            for cell in cells.known(cells.read(course.source(lab)))
            if cell.grade
        ]


def _reason(done: dict) -> str:
    """Why nbgrader gave up, in a few lines: a dead kernel above all."""
    log = f"{done.get('error') or ''}\n{done.get('log') or ''}"
    if "DeadKernelError" in log or "Kernel died" in log:
        return "the kernel died while it ran the notebook (out of memory, or a cell ended it)"
    return "\n".join(log.strip().splitlines()[-15:])


def _with_ids(nb: dict) -> Iterator[tuple[dict, cells.LabCell]]:
    for cell in nb["cells"]:
        for known in cells.known({"cells": [cell]}):
            yield cell, known


def _error(cell: dict) -> str:
    """The error among a cell's outputs, in one line, or ""."""
    for output in cell.get("outputs", []):
        if output.get("output_type") == "error":
            return in_a_line(output["ename"], output["evalue"])
    return ""


if __name__ == "__main__":
    os.environ.pop("JPY_SESSION_NAME", None)  # whoever grades may do so from a notebook of their own
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
