"""What a class gets back: its platform's file with the grades in it, the feedback under the names that came, a plain table."""

from __future__ import annotations

import csv
import zipfile
from pathlib import Path

from grading import feedback, lms
from grading.classroom import Klass
from grading.store import total, waiting


def archive_of_feedback(klass: Klass) -> Path:
    """The archive with each student's feedback under the name of the file handed in."""
    path = klass.store.place / "feedback.zip"
    part = path.with_suffix(".part")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
        for record in klass.records():
            if record["student"] in klass.handed and record["file"]:
                nb = klass.chosen.get(record["student"], (None, None))[1]
                archive.writestr(_inside(record["file"]), feedback.text(record, klass.source, nb))
    part.replace(path)
    return path


def grades(klass: Klass) -> Path:
    """A plain table of everything, for whoever has no platform."""
    path = klass.store.place / "grades.csv"
    with open(path, "w", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        out.writerow(("student", "name", "status", "points", "of", "still to be read", "reason", "file"))
        for record in klass.records():
            got, most = total(record), sum(score["most"] for score in record["scores"])
            numbers = ("", "") if got is None else (lms.number(got), lms.number(most))
            about = (record["student"], record["name"], record["status"])
            out.writerow((*about, *numbers, " ".join(waiting(record)), record["reason"], record["file"]))
    return path


def platform_file(klass: Klass, column: str | None) -> tuple[Path, str] | None:
    """The roster given back with the grades in it, and a warning or "". None without a platform's roster."""
    if klass.roster is None or klass.roster.platform == "plain":
        return None
    totals = {record["student"]: got for record in klass.records() if (got := total(record)) is not None}
    if klass.roster.platform == "canvas":
        column = lms.canvas_column(klass.roster, int("".join(filter(str.isdigit, klass.lab.split("_")[0]))), column)
        text = lms.canvas(klass.roster, column, totals)
    else:
        comments = {record["student"]: said for record in klass.records() if (said := feedback.comment(record))}
        text = lms.moodle(klass.roster, totals, comments)
    path = klass.store.place / f"{klass.roster.platform}.csv"
    path.write_bytes(text.encode())
    most, theirs = sum(cell.points for cell in klass.known() if cell.grade), lms.possible(klass.roster, column)
    differs = theirs is not None and theirs != most
    return path, f"the platform gives {theirs:g} points for this lab, which has {most:g}: set it there" if differs else ""


def _inside(path: str) -> str:
    """The name of an entry: as it came, and never outside the archive's folder.

    What is no notebook by its name becomes one, since that is what feedback is; both platforms look at the name's beginning only.
    """
    parts = [part for part in path.replace("\\", "/").split("/") if part not in ("", ".", "..")]
    return "/".join(parts) + ("" if path.lower().endswith(".ipynb") else ".ipynb")
