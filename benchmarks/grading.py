"""How long does a class take? Grading N submissions of lab 1, each in its box, beside bare nbgrader, one after the other.

    python benchmarks/grading.py [--submissions N] [--jobs N] [--peer N]

Bar: 300 submissions on two cores in at most 20 minutes. With fewer (12 by default, for `make bench`) the time of one is
multiplied, and the line says so; the start of the pool is left out of what is multiplied and added once. A third each are the
solution, the untouched lab and wrong answers, and all must earn the points they should. The peer is nbgrader's own `autograde` in
one process with plain kernels: no box, no limits of memory, no witnesses, no record that survives a kill.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tabulate import tabulate

LAB, CLASS, WANTED_S, CORES = "lab01_stopwatch", 300, 1200.0, 2


def hand_in(place: Path, number: int) -> dict[str, float]:
    """Put `number` submissions into `place`; the points by tests that each must earn."""
    from grading import course, wrong
    from utils.labs import cells

    source = course.read_source(LAB)
    points = {cell.id: cell.points for cell in cells.known(source) if cell.test}
    full, catalogue = sum(points.values()), wrong.catalogue(LAB)
    untouched = cells.read(course.LABS / LAB / f"{LAB}.ipynb")
    wanted = {}
    for i in range(number):
        answer = catalogue[i % len(catalogue)]
        kinds = ((source, full), (untouched, 0.0), (answer.notebook(), full - sum(points[cell] for cell in answer.loses)))
        nb, earned = kinds[i % 3]
        wanted[f"student{i:04}"] = earned
        (place / f"student{i:04}.ipynb").write_text(json.dumps(nb), encoding="utf-8")
    return wanted


def ours(place: Path, number: int, jobs: int) -> tuple[float, float]:
    """(seconds until the first was graded, seconds for the others). Raises SystemExit when one earned other points."""
    from grading import course, turns
    from grading.classroom import Klass
    from grading.intake import handed_in
    from grading.store import Store, total

    wanted = hand_in(place, number)
    klass = Klass(LAB, course.read_source(LAB), Store(place / "grades"), handed_in(place, LAB))
    todo = klass.plan()
    keys, marks = dict(todo), [time.perf_counter()]
    for student, outcome in turns.here(klass.work(todo), jobs):
        klass.note(student, keys[student], outcome)
        marks.append(time.perf_counter())
    bad = {r["student"]: total(r) for r in klass.records() if total(r) != wanted[r["student"]]}
    if bad:
        raise SystemExit(f"other points than they should: {bad}")
    return marks[1] - marks[0], marks[-1] - marks[1]


def bare(place: Path, number: int) -> float:
    """Seconds that nbgrader takes for `number` of the same submissions, its start and its lab's generation left out."""
    from grading import course
    from grading.rebuild import rebuilt
    from grading.release import generate
    from utils.labs import cells

    root = place / "bare"
    course.copy_source(LAB, root)
    source = course.read_source(LAB)
    for path in sorted(place.glob("student*.ipynb"))[:number]:
        to = root / "work" / "submitted" / path.stem / LAB / f"{LAB}.ipynb"
        to.parent.mkdir(parents=True)
        to.write_text(json.dumps(rebuilt(cells.read(path), source)), encoding="utf-8")
    generate(LAB, root, gradebook=True)
    api = course.nbgrader(root)
    began = time.perf_counter()
    for folder in sorted((root / "work" / "submitted").iterdir()):
        if not api.autograde(LAB, folder.name, force=True, create=True)["success"]:
            raise SystemExit(f"nbgrader could not grade {folder.name}")
    return time.perf_counter() - began


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--submissions", type=int, default=12, help=f"{CLASS} for the whole claim (20 minutes)")
    parser.add_argument("--jobs", type=int, default=CORES)
    parser.add_argument("--peer", type=int, default=6, help="how many of them the peer grades (0: none)")
    parser.add_argument("--bare", type=Path, help=argparse.SUPPRESS)
    args, _ = parser.parse_known_args(argv)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    if args.bare:
        print(bare(args.bare, args.peer))
        return 0
    with tempfile.TemporaryDirectory(prefix="one-add-bench-", ignore_cleanup_errors=True) as folder:
        first, rest = ours(Path(folder), args.submissions, args.jobs)
        command = [sys.executable, __file__, "--bare", folder, "--peer", str(args.peer)]
        env = {**os.environ, "ONE_ADD_REPO": str(Path(__file__).resolve().parent.parent)}
        peer = float(subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout) if args.peer else None
    each = rest / max(1, args.submissions - 1)
    whole = first + each * (CLASS - 1)
    rows = [("ours, boxed", args.submissions, args.jobs, f"{first:.1f}", f"{each:.2f}", f"{whole / 60:.1f}")]
    if peer is not None:
        rows.append(("bare nbgrader", args.peer, 1, "", f"{peer / args.peer:.2f}", f"{peer / args.peer * CLASS / 60:.1f}"))
    print(tabulate(rows, ["", "graded", "at a time", "first s", "each s", f"{CLASS} take min"]))
    how = "measured" if args.submissions >= CLASS else f"from_{args.submissions}"
    print(f"bar class_of_300_{how} measured={whole:.0f}s wanted<={WANTED_S:.0f}s {'pass' if whole <= WANTED_S else 'short'}")
    return int(whole > WANTED_S)


if __name__ == "__main__":
    sys.exit(main())
