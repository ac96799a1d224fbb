"""`make soak N=10 [LOADED=1]`: every lesson N times under nbval, quiet or with all cores loaded, and a count of what failed.

A lesson that passes once may still fail one time in twenty on a busy machine. Each run is a fresh pytest with a fresh kernel
a lesson. `--loaded` keeps one spinning process per core beside it. Exit 1 when anything failed, 2 when there is nothing to run.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from contextlib import contextmanager
from pathlib import Path

from tools.pytest_lessons import NBVAL

REPO = Path(__file__).resolve().parent.parent


def _spin(stop) -> None:
    """A neighbour that wants a whole core: arithmetic and memory traffic, until told to stop."""
    block = bytearray(1 << 20)
    while not stop.is_set():
        for _ in range(50):
            block[:] = bytes(reversed(block[:4096])) * 256
            sum(range(2000))


@contextmanager
def neighbours(count: int):
    """`count` spinning processes for the length of the block; none is left behind."""
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    crew = [context.Process(target=_spin, args=(stop,), daemon=True) for _ in range(count)]
    for one in crew:
        one.start()
    try:
        yield
    finally:
        stop.set()
        for one in crew:
            one.join(5)
            if one.is_alive():
                one.kill()


def once(lessons: list[Path]) -> tuple[int, list[str], str]:
    """One nbval run: (cells that passed, names of cells that did not, pytest's output)."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        line = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            *NBVAL,
            "-p",
            "no:cacheprovider",
            f"--junitxml={report}",
            *map(str, lessons),
        ]
        run = subprocess.run(line, cwd=REPO, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if not report.is_file():
            return 0, [f"pytest did not run (exit {run.returncode})"], run.stdout + run.stderr
        passed, failed = 0, []
        for case in ElementTree.parse(report).iter("testcase"):
            if case.find("failure") is None and case.find("error") is None and case.find("skipped") is None:
                passed += 1
            else:
                lesson = case.get("classname", "").removesuffix(".ipynb").rsplit(".", 1)[-1]
                failed.append(f"{lesson}: {case.get('name')}")
        if run.returncode and not failed:
            failed.append(f"pytest exit {run.returncode}")
        return passed, failed, run.stdout


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.soak", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1, metavar="N", help="how often the whole suite of lessons runs (1)")
    parser.add_argument("--loaded", action="store_true", help="with one busy neighbour for each core")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="keep the output of failed runs there")
    parser.add_argument("lessons", nargs="*", type=Path, help="notebooks (default: all)")
    args = parser.parse_args(argv)
    lessons = args.lessons or sorted((REPO / "notebooks").glob("*.ipynb"))
    if args.runs < 1 or not lessons:
        parser.error("nothing to run")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    how = f"loaded: {cores} busy neighbours on {cores} cores" if args.loaded else f"quiet, {cores} cores"
    print(f"soak: {len(lessons)} lessons, {args.runs} runs, {how}", flush=True)
    failures = 0
    with neighbours(cores if args.loaded else 0):
        for n in range(1, args.runs + 1):
            began = time.perf_counter()
            passed, failed, output = once(lessons)
            failures += bool(failed)
            print(
                f"run {n}/{args.runs}: {passed} cells passed, {len(failed)} failed, {time.perf_counter() - began:.0f} s",
                flush=True,
            )
            for name in failed:
                print(f"    {name}")
            if failed:
                print("\n".join("    " + line for line in _reasons(output)))
                if args.out:
                    args.out.mkdir(parents=True, exist_ok=True)
                    (args.out / f"run-{n}.txt").write_text(output, encoding="utf-8")
    print(f"soak: {args.runs} runs, {failures} failed ({how})")
    return 1 if failures else 0


def _reasons(output: str) -> list[str]:
    """The lines of nbval's output that say why: error names and what an expectation measured."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output)
    return [line.strip() for line in plain.splitlines() if re.match(r"\s*(\w*(Error|Exception|Interrupt)\b|Timeout)", line)][:20]


if __name__ == "__main__":
    sys.exit(main())
