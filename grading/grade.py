"""`python -m grading.grade LAB NOTEBOOK`: grades one notebook with nbgrader and prints the points of each graded cell.

The submission is put back into its lab's shape (grading/rebuild.py), then nbgrader runs it in a temporary course, in a process
of its own and under limits, its kernel in the box (grading/box.py). The file that was handed in is only read. A whole class:
grading/klass.py.

Exit 0 when a score was found, whatever it is; 1 when grading failed; 2 for a path or a notebook that cannot be graded, or where
there is no box.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import textwrap
from dataclasses import dataclass, field, replace
from pathlib import Path

from grading import apart, box, course, reasons
from grading.apart import GradingFailed
from grading.rebuild import rebuilt
from grading.score import Score, total
from utils.labs import cells
from utils.labs.cells import Damage

LIMITS = box.Limits()  # every test cell of a lab may meet its own limit, and there is a score
WIDE = 90  # columns of a reason, which goes on in the next line


class CannotGrade(ValueError):
    """There is nothing here to grade; the message names the file and says why."""


@dataclass(frozen=True)
class Graded:
    """The result for one file: its scores, what was damaged in it and put right first, the witnesses that kept silent, and by
    cell the whole reason for points that were not earned, where more is known than its score says."""

    file: Path
    lab: str
    scores: tuple[Score, ...]
    damage: Damage
    silent: int = 0
    why: dict[str, str] = field(default_factory=dict)


def grade(lab: str, notebook: Path, *, limits: box.Limits = LIMITS, keep: Path | None = None, unsafe: bool = False) -> Graded:
    """Grade `notebook` as `lab`. `keep` is where the graded notebook, with what its cells printed, is put.

    `lab` is its name or number. Raises CannotGrade for an unknown lab or a file that is no notebook of it, GradingFailed when the
    run takes too long or its kernel dies, box.NoBox where kernels cannot be boxed.
    """
    lab = named(lab)
    source = course.read_source(lab)
    submission = belonging(lab, cells.known(source), notebook)
    damage = cells.damage(cells.known(source), cells.known(submission))
    told = apart.run(apart.task(lab, source, rebuilt(submission, source), limits, unsafe=unsafe))
    if keep is not None and told["graded"]:
        keep.parent.mkdir(parents=True, exist_ok=True)
        keep.write_text(json.dumps(told["graded"], indent=1, ensure_ascii=False), encoding="utf-8")
    scores = tuple(Score(**score) for score in told["scores"])
    return Graded(notebook, lab, scores, damage, len(told["silent"]), reasons.whole(scores, source, told["graded"]))


def named(said: str) -> str:
    """The lab that is meant by `said`. Raises CannotGrade."""
    found = course.named(said)
    if found is None:
        raise CannotGrade(f"there is no lab {said!r}; there are: {', '.join(course.labs()) or 'none'}")
    return found


def belonging(lab: str, source: list[cells.LabCell], notebook: Path) -> dict:
    """The notebook in the file, as JSON data. Raises CannotGrade when it is damaged, or none of `lab`."""
    try:
        submission = cells.read(notebook)
    except cells.NoNotebook as error:
        raise CannotGrade(str(error)) from error
    if not cells.belongs(submission, source):
        raise CannotGrade(f"{notebook}: {not_of(lab, submission)}")
    return submission


def not_of(lab: str, submission: dict) -> str:
    """Why `submission`, which does not belong to `lab`, may be here."""
    others = [one for one in course.labs() if cells.belongs(submission, cells.known(course.read_source(one)))]
    hint = f"it looks like {others[0]}" if others else "it holds no graded cell (was its nbgrader metadata stripped?)"
    return f"no notebook of {lab}; {hint}"


# ------------------------------------------------------------------------------------------------ the table


def table(graded: Graded) -> str:
    """The points of each graded cell, their total, and what was put right, as text."""
    from tabulate import tabulate

    by_hand = {s.id for s in graded.scores if s.points is None or graded.why.get(s.id) in (cells.BY_HAND, cells.NOTHING_WRITTEN)}
    rows = []
    for s in graded.scores:
        why = graded.why.get(s.id) or (cells.BY_HAND if s.points is None else s.said)
        rows.append((s.id, "?" if s.id in by_hand else f"{s.points:g}", f"{s.most:g}", _wrapped(why)))
    most = {hand: sum(s.most for s in graded.scores if (s.id in by_hand) == hand) for hand in (False, True)}
    lines = [
        f"Graded {graded.file} as {graded.lab}",
        "",
        tabulate(rows, ["cell", "points", "of", "why"], disable_numparse=True),
        "",
    ]
    lines.append(
        f"{graded.lab}: {total(graded.scores):g} of {most[False]:g} points by the tests, the hidden ones too"
        + (f", {most[True]:g} more by hand" if by_hand else "")
    )
    lines += [f"put right before grading: {sentence}" for sentence in graded.damage.sentences()]
    if graded.silent:
        lines.append(f"TAMPERED: {graded.silent} cells that must fail were made to pass: these points say nothing, read the file")
    return "\n".join(lines)


def _wrapped(text: str) -> str:
    return "\n".join(textwrap.fill(line, WIDE) for line in text.splitlines())


def no_box(error: box.NoBox, lab: str, notebook: Path) -> str:
    """What to do where a kernel cannot be boxed, for who grades one notebook."""
    command = f"make grade LAB={shlex.quote(lab)} NOTEBOOK={shlex.quote(str(notebook))} ARGS=--unsafe"
    return (
        f"{error.reason}. Its box keeps a notebook's code from your files. Only for a notebook that is your own you can do "
        f"without: {command} (its code then runs as you, with your files and your network)"
    )


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m grading.grade", description=__doc__.splitlines()[0])
    parser.add_argument("lab", help=f"its name or number; there are: {', '.join(course.labs())}")
    parser.add_argument("notebook", type=Path, help="the file that was handed in")
    parser.add_argument("--limit", type=float, default=LIMITS.whole_s, metavar="S", help="seconds the whole may take (600)")
    parser.add_argument("--unsafe", action="store_true", help="without a box: the learner's code runs as you")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="where to put the notebook as graded, with its outputs")
    args = parser.parse_args(argv)
    try:
        limits = replace(LIMITS, whole_s=args.limit)
        print(table(grade(args.lab, args.notebook, limits=limits, keep=args.keep, unsafe=args.unsafe)))
    except CannotGrade as error:
        print(f"make grade: {error}", file=sys.stderr)
        return 2
    except box.NoBox as error:
        print(f"make grade: {no_box(error, args.lab, args.notebook)}", file=sys.stderr)
        return 2
    except GradingFailed as error:
        print(f"make grade: {args.notebook}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
