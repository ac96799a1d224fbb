"""`python -m grading.klass LAB SUBMISSIONS`: grades a class, and makes the files that its learning platform takes back.

Results are kept in work/grades/<lab>/, and the same command again goes on where the last one stopped. What each room does:
intake.py finds whose file is whose, preflight.py the one to grade, classroom.py what has to be done, turns.py and apart.py run
it, each submission in a box (box.py), store.py keeps the results, report.py tells them, give_back.py makes what is uploaded.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from grading import box, course, fast, give_back, grade, intake, lms, manual, report, turns
from grading.classroom import LIMITS, Klass, run
from grading.overlay import BadOverlay
from grading.rebuild import rebuilt
from grading.score import lost
from grading.store import Store

GRADES = course.WORK / "grades"


class Refused(ValueError):
    """What was asked for cannot be done; the message says why. Nothing was changed."""


REFUSED = (
    Refused,
    grade.CannotGrade,
    intake.CannotTake,
    lms.BadRoster,
    manual.BadMarks,
    report.NoStudent,
    turns.NoCluster,
    BadOverlay,
    box.NoBox,
    OSError,
)


def extensions(path: Path) -> dict[str, datetime]:
    """{student: until when} from a CSV of two columns. Raises Refused."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = [row for row in csv.reader(file) if len(row) >= 2]
    out = {row[0].strip(): lms.moment(row[1]) for row in rows}
    bad = [student for i, (student, when) in enumerate(out.items()) if when is None and i > 0]  # the first row may be a header
    if bad:
        raise Refused(f"{path}: no time that can be read for {', '.join(bad)}")
    return {student: when for student, when in out.items() if when}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m grading.klass", description=__doc__.splitlines()[0])
    parser.add_argument("lab", help=f"its name or number; there are: {', '.join(course.labs())}")
    parser.add_argument("submissions", nargs="?", type=Path, help="a folder or a .zip")
    parser.add_argument("--jobs", type=int, default=0, help="submissions at a time (as many as cores)")
    parser.add_argument("--roster", type=Path, help="Canvas's gradebook CSV, Moodle's grading worksheet, or a CSV id,name")
    parser.add_argument("--lms", choices=("canvas", "moodle"), help="whose names the files have (seen by themselves)")
    parser.add_argument("--column", help="the assignment's column in Canvas's CSV (the one that says “lab N”)")
    parser.add_argument("--due", help="2026-03-01T23:59, local time")
    parser.add_argument("--extensions", type=Path, help="a CSV student,until")
    parser.add_argument("--out", type=Path, help=f"where results are kept ({GRADES.relative_to(course.REPO)}/<lab>)")
    parser.add_argument("--overlay", type=Path, help="a folder with private hidden tests (grading/overlay.py)")
    parser.add_argument("--limit", type=float, default=LIMITS.whole_s, metavar="S", help="seconds a submission may take (240)")
    parser.add_argument("--cell-limit", type=float, default=LIMITS.cell_s, metavar="S", help="seconds a cell may take (30)")
    parser.add_argument("--memory", type=int, default=LIMITS.memory_mib, metavar="MIB", help="of a submission (4096)")
    parser.add_argument("--again", action="store_true", help="grade also what has a result for the same file")
    parser.add_argument("--unsafe", action="store_true", help="without a box: the learners' code runs as you")
    parser.add_argument("--cluster", metavar="ADDRESS", help="a Dask scheduler, tcp://…, instead of this machine")
    parser.add_argument("--explain", metavar="STUDENT", help="everything about one grade")
    parser.add_argument("--similar", action="store_true", help="list answers that look alike")
    parser.add_argument("--manual", action="store_true", help="write the sheet of answers to be read by a person")
    parser.add_argument("--sample", type=int, metavar="N", help="with --manual: of N students, drawn at random")
    parser.add_argument("--marks", type=Path, metavar="SHEET", help="take the points of a filled sheet")
    return parser


def opened(args: argparse.Namespace) -> Klass:
    """The class that the arguments name. Raises Refused and the rooms' own errors."""
    lab = grade.named(args.lab)
    source = course.read_source(lab, args.overlay)
    if args.overlay and (failed := lost(fast.grade(rebuilt(source, source)))):
        raise BadOverlay(f"{args.overlay}: the solution itself loses {', '.join(sorted(failed))}")
    roster = lms.roster(args.roster) if args.roster else None
    due = lms.moment(args.due) if args.due else None
    if args.due and due is None:
        raise Refused(f"--due {args.due}: say it like 2026-03-01T23:59")
    platform = args.lms or (roster.platform if roster and roster.platform != "plain" else None)
    handed = {}
    if args.submissions:
        handed = intake.handed_in(args.submissions, lab, platform, frozenset(roster.names) if roster else frozenset())
    limits = replace(LIMITS, whole_s=args.limit, cell_s=args.cell_limit, memory_mib=args.memory)
    return Klass(lab, source, Store(args.out or GRADES / lab), handed, roster, due,
                 extensions(args.extensions) if args.extensions else {}, limits, args.unsafe, args.again)  # fmt: skip


def told(klass: Klass, args: argparse.Namespace) -> Iterator[str]:
    """What the command says, line by line, doing it."""
    if args.marks:
        yield f"{manual.take(klass.store, args.marks)} marks taken from {args.marks}"
    if args.explain:
        yield report.explanation(klass, args.explain)
        return
    if args.submissions:
        done = run(klass, jobs=args.jobs or turns.cores(), cluster=args.cluster)
        yield f"{done} graded now, {len(klass.records())} students in {klass.store.place}\n"
    yield report.summary(klass)
    yield f"\nall grades: {give_back.grades(klass)}"
    back = give_back.platform_file(klass, args.column)
    if back:
        yield f"to upload: {back[0]}" + (f"\nCAREFUL: {back[1]}" if back[1] else "")
    if klass.handed:
        yield f"feedback: {give_back.archive_of_feedback(klass)}"
    if args.similar:
        yield report.alike(klass)
    if args.manual:
        path = klass.store.place / "to_read.csv"
        yield f"{manual.sheet(klass.records(), path, args.sample)} answers to read in {path}"
        for cell in klass.known():
            if cell.by_hand:
                yield f"\n{manual.rubric(klass.source, cell.id)}"


def main(argv: list[str] | None = None) -> int:
    args = _parser().parse_args(argv)
    try:
        for line in told(opened(args), args):
            print(line)
    except (
        Refused,
        grade.CannotGrade,
        intake.CannotTake,
        lms.BadRoster,
        manual.BadMarks,
        BadOverlay,
        box.NoBox,
        OSError,
    ) as error:
        print(f"make grade: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nmake grade: stopped; the same command goes on from here", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
