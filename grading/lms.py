"""The learning platforms' files: Canvas's gradebook CSV and Moodle's grading worksheet, read as rosters and given back filled.

Only the cells that the grades belong in are changed; rows, columns, their order and the byte order mark stay as they came.
Formats: Canvas, "How do I export/import grades in the Gradebook" and its importer (header `Student, ID, SIS User ID,
SIS Login ID, Section`, a row of points possible, assignment columns named `Title (id)`); Moodle, mod_assign's offline grading
worksheet (`Identifier` is "Participant 123", `Grade`, `Last modified (grade)`, needed back unchanged, `Feedback comments`).
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

BOM = "\ufeff"
IDENTITY = ("Student", "ID", "SIS User ID", "SIS Login ID", "Integration ID", "Root Account", "Section")
DATES = ("%A, %d %B %Y, %I:%M %p", "%A, %d %B %Y, %H:%M", "%A, %B %d, %Y, %I:%M %p", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S")


class BadRoster(ValueError):
    """The file is no roster that is known here, or lacks what is needed; the message says why."""


@dataclass(frozen=True)
class Roster:
    """Who is in the class: {id: name}, in the file's order; `when` each handed in, where the file says."""

    platform: str  # "canvas", "moodle" or "plain"
    header: list[str]
    rows: list[list[str]]
    names: dict[str, str]
    when: dict[str, datetime]
    bom: bool


def roster(path: Path) -> Roster:
    """The roster in the CSV file at `path`. Raises BadRoster."""
    try:
        text = path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadRoster(f"{path}: cannot be read ({error})") from error
    rows = [row for row in csv.reader(io.StringIO(text.removeprefix(BOM))) if row]
    if len(rows) < 2:
        raise BadRoster(f"{path}: no rows")
    header, rows = rows[0], rows[1:]
    if {"Student", "ID", "Section"} <= set(header):
        platform, names = "canvas", {row[header.index("ID")].strip(): row[header.index("Student")] for row in rows}
        names.pop("", None)  # the row of points possible
    elif {"Identifier", "Grade"} <= set(header):
        name = header.index("Full name") if "Full name" in header else header.index("Identifier")
        platform, names = "moodle", {_participant(row[header.index("Identifier")]): row[name] for row in rows}
    else:
        platform, names = "plain", {row[0].strip(): row[1] if len(row) > 1 else row[0] for row in rows}
    return Roster(platform, header, rows, names, _when(platform, header, rows), text.startswith(BOM))


def _participant(identifier: str) -> str:
    found = re.search(r"\d+$", identifier.strip())
    return found[0] if found else identifier.strip()


def _when(platform: str, header: list[str], rows: list[list[str]]) -> dict[str, datetime]:
    column = "Last modified (submission)"
    if platform != "moodle" or column not in header:
        return {}
    said = {_participant(row[header.index("Identifier")]): row[header.index(column)] for row in rows}
    return {student: when for student, text in said.items() if (when := moment(text))}


def moment(text: str) -> datetime | None:
    """The time that a worksheet or an instructor writes, local; None when it is none."""
    try:
        when = datetime.fromisoformat(text.strip())
        return when.astimezone().replace(tzinfo=None) if when.tzinfo else when
    except ValueError:
        pass
    for form in DATES:
        try:
            return datetime.strptime(text.strip(), form)
        except ValueError:
            continue
    return None


# ------------------------------------------------------------------------------------------------ going back


def canvas(roster: Roster, column: str, totals: dict[str, float]) -> str:
    """The text of the CSV to import in Canvas: who, and the one assignment `column`; others' columns are left alone by leaving
    them out. Students without a total keep what Canvas has."""
    kept = [i for i, name in enumerate(roster.header) if name in IDENTITY] + [roster.header.index(column)]
    out = [[roster.header[i] for i in kept]]
    for row in roster.rows:
        cells = [row[i] if i < len(row) else "" for i in kept]
        student = row[roster.header.index("ID")].strip()
        if student in totals:
            cells[-1] = number(totals[student])
        out.append(cells)
    return _text(roster, out)


def canvas_column(roster: Roster, lab_number: int, named: str | None = None) -> str:
    """The header of the assignment's column: the one that is `named`, else the only one that says "lab N". Raises BadRoster."""
    others = [name for name in roster.header if name not in IDENTITY]
    if named:
        found = [name for name in others if name == named or re.sub(r" \(\d+\)$", "", name) == named]
    else:
        found = [name for name in others if re.search(rf"\blab\s*0*{lab_number}\b", name, re.IGNORECASE)]
    if len(found) != 1:
        raise BadRoster(f"which column is this lab's? Say COLUMN=…: {', '.join(found or others)}")
    return found[0]


def moodle(roster: Roster, totals: dict[str, float], comments: dict[str, str]) -> str:
    """The text of the worksheet to upload in Moodle: grades, and comments where it has a column for them."""
    identifier, grade = roster.header.index("Identifier"), roster.header.index("Grade")
    comment = roster.header.index("Feedback comments") if "Feedback comments" in roster.header else None
    out = [roster.header]
    for row in roster.rows:
        row, student = list(row), _participant(row[identifier])
        if student in totals:
            row[grade] = number(totals[student])
        if student in comments and comment is not None:
            row[comment] = comments[student]
        out.append(row)
    return _text(roster, out)


def possible(roster: Roster, column: str | None = None) -> float | None:
    """The points that the platform gives for the assignment, where its file says so."""
    if roster.platform == "canvas" and column:
        found = [row[roster.header.index(column)] for row in roster.rows if row[0].strip() == "Points Possible"]
    elif roster.platform == "moodle" and "Maximum Grade" in roster.header:
        found = [row[roster.header.index("Maximum Grade")] for row in roster.rows]
    else:
        return None
    try:
        return float(found[0]) if found else None
    except ValueError:
        return None


def number(value: float) -> str:
    """A grade as both platforms read it: a point, and no more digits than needed."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _text(roster: Roster, rows: Iterable[list[str]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerows(rows)  # nothing in them was typed by a learner but a name
    return (BOM if roster.bom else "") + out.getvalue()
