"""A look at each file before anything runs: which one is the student's notebook of this lab, or why there is none."""

from __future__ import annotations

from grading.intake import NOTEBOOK, File
from utils.labs import cells
from utils.labs.cells import LabCell


class Unreadable(ValueError):
    """Nothing among the files can be graded; the message says why."""


def notebook(files: list[File], lab: list[LabCell]) -> tuple[File, dict]:
    """The one notebook of the lab with the cells `lab` among a student's files, and its JSON data. Raises Unreadable.

    Copies of the same bytes count once. Two different notebooks of the lab are the student's to choose between, not ours.
    """
    candidates = [file for file in files if file.name.lower().endswith(NOTEBOOK)]
    if not candidates:
        raise Unreadable(f"no notebook: {', '.join(file.name for file in files) or 'nothing'} was handed in")
    ours: dict[bytes, tuple[File, dict]] = {}
    reasons = []
    for file in candidates:
        try:
            nb = _read(file)
        except cells.NoNotebook as error:
            reasons.append(str(error))
            continue
        if cells.belongs(nb, lab):
            ours.setdefault(file.content, (file, nb))
        else:
            reasons.append(f"{file.name}: no notebook of this lab" + ("" if cells.known(nb) else " (it holds no graded cell)"))
    if len(ours) > 1:
        names = ", ".join(file.path for file, _ in ours.values())
        raise Unreadable(f"{len(ours)} different notebooks of this lab ({names}): which one counts?")
    if not ours:
        raise Unreadable("; ".join(reasons))
    return next(iter(ours.values()))


def _read(file: File) -> dict:
    if file.content is None:
        raise cells.NoNotebook(f"{file.name}: {file.refused}")
    if not file.content.strip():
        raise cells.NoNotebook(f"{file.name}: empty")
    nb = cells.parsed(file.content, file.name)
    for cell in nb["cells"]:  # half of a character, which JSON can say and no file can hold
        cell["source"] = cells.source(cell).encode("utf-8", "replace").decode("utf-8")
    return nb
