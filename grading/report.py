"""What an instructor is told about a class: what became of whom, what the lost points say, and everything about one grade."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tabulate import tabulate

from grading import believed, feedback, similar, status, wrong
from grading.classroom import Klass
from grading.store import total, waiting
from utils.labs import cells


class NoStudent(ValueError):
    """There is no result for a student of this name."""


def summary(klass: Klass) -> str:
    records = klass.records()
    counts = Counter(record["status"] for record in records)
    lines = [tabulate([(word, count, status.MEANING[word]) for word, count in counts.most_common()], ["status", "students", ""])]
    odd = [record for record in records if record["status"] not in (status.GRADED, status.LATE, status.MISSING)]
    lines += [f"{r['student']} ({r['name']}): {r['status']}: {_short(r['reason'])}" for r in odd]
    lines += [f"{r['student']}: look at {'; '.join(r['looks'])}" for r in records if r["looks"]]
    lines += [f"{r['student']}: was {_points(before)}, is {_points(total(r))}" for r, before in _changed(klass)]
    lines += [f"{', '.join(students)}: the same numbers, drawn for {name!r}" for name, students in _shared(records)]
    if klass.roster and (strangers := sorted(set(klass.handed) - set(klass.roster.names))):
        lines.append(f"not on the roster, and in no file for the platform: {', '.join(strangers)}")
    beliefs = believed.by_misconception(records, wrong.catalogue(klass.lab))
    if beliefs:
        rows = [(believed.name_of(name), count, ", ".join(where)) for name, count, where in beliefs]
        lines += ["", tabulate(rows, ["what lost points are consistent with", "students", "cells"])]
    unread = sum(bool(waiting(record)) for record in records)
    if unread:
        lines += ["", f"{unread} students have written answers that wait: --manual"]
    return "\n".join(lines)


def explanation(klass: Klass, student: str) -> str:
    """Everything that is known about one grade, for an appeal; with the hidden tests' words, so for the instructor."""
    record = klass.store.get(student) or next((r for r in klass.records() if r["name"] == student), None)
    if record is None:
        raise NoStudent(f"no student {student!r} in {klass.store.place}")
    got = total(record)
    lines = [f"{record['student']} ({record['name']}): {record['status']}, {status.MEANING[record['status']]}",
             f"handed in as {record['file'] or 'nothing'}; graded {record['at']}; {_points(got)}"]  # fmt: skip
    lines += [record["reason"]] if record["reason"] else []
    tests = {known.id: known.source for known in klass.known()}
    rows = []
    for score in record["scores"] or record["unconfirmed"]:
        mark = record["manual"].get(score["id"])
        earned = "by hand" if score["points"] is None else f"{score['points']:g}"
        earned = f"{mark['points']:g} by a person" if mark else earned
        shown = mark["said"] if mark else feedback.explained(tests.get(score["id"], ""), score["said"])
        rows.append((score["id"], earned, f"{score['most']:g}", _short(score["said"]), shown))
    lines += ["", tabulate(rows, ["cell", "points", "of", "what came back", "what the student reads"], disable_numparse=True)]
    lines += [f"put right before grading: {sentence}" for sentence in record["put_right"]]
    lines += [f"look at {sentence}" for sentence in record["looks"]]
    lines += [f"before: {old['at']} {old['status']}, {_points(old['total'])}" for old in record["history"]]
    kept = klass.store.notebook(record["student"])
    lines += [f"as it ran, with every output and hidden test: {kept}"] if kept.exists() else []
    return "\n".join(lines)


def alike(klass: Klass) -> str:
    """The answers that look alike, of the submissions at hand."""
    lab = klass.known()
    code = {cell.id for cell in lab if cell.solution and cell.kind == "code"}
    answers = {student: [cell.source for cell in cells.known(nb) if cell.id in code] for student, (_, nb) in klass.chosen.items()}
    stubs = [cell.source for cell in (*lab, *cells.released(klass.lab)) if cell.id in code]
    rows = [(f"{100 * share:.0f} %", a, b) for share, a, b in similar.pairs(answers, stubs)]
    return (
        tabulate(rows, ["alike", "student", "student"])
        if rows
        else "no two answers are alike by the measure of grading/similar.py"
    )


def _points(value: float | None) -> str:
    return "no score" if value is None else f"{value:g} points"


def _short(text: str, width: int = 100) -> str:
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1] + "…"


def _changed(klass: Klass) -> Iterator[tuple[dict, float | None]]:
    """(record, its total before) where the last grading changed it."""
    for record in klass.records():
        if record["history"] and record["history"][-1]["total"] != total(record):
            yield record, record["history"][-1]["total"]


def _shared(records: list[dict]) -> Iterator[tuple[str, list[str]]]:
    """(name, students) where several students gave the one name that a lab's numbers are drawn from."""
    drawn: dict[str, list[str]] = {}
    for record in records:
        if record.get("drawn_for"):
            drawn.setdefault(record["drawn_for"], []).append(record["student"])
    yield from ((name, students) for name, students in drawn.items() if len(students) > 1)
