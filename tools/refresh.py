"""`make refresh`: runs the lessons again and rewrites those that then say something else; timings alone are no reason.

    python -m tools.refresh [--check] [--all] [FILE …]

What counts as something else is in tools/substance.py. A notebook whose first run differs is run a second time, so that what
two fresh runs do not agree on is not taken for a change. A rewritten notebook is rewritten whole: its numbers are of one run.
Exit 0 when nothing had to be changed (or was changed), 1 when a notebook fails, or with --check when one says something else.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from nbformat import NotebookNode

from tools import canonical, lint_notebooks, notebooks, substance

SHOWN = 6  # changed lines that are printed of one notebook
Run = Callable[[Path], NotebookNode | None]


def refresh(path: Path, run: Run, *, check: bool, always: bool = False) -> str:
    """ "unchanged", "rewritten", "differs" (with `check`) or "failed", for one notebook; prints what changed.

    `run(path)` gives a fresh run, or None; `always` rewrites whatever it says.
    """
    old = canonical.loads(path.read_text(encoding="utf-8"))
    new = run(path)
    if new is None:
        return "failed"
    lines = substance.changed(old, new)
    if lines and not always:
        again = run(path)
        if again is None:
            return "failed"
        lines = substance.changed(old, new, again)
    if not lines and not always:
        return "unchanged"
    for line in lines[:SHOWN]:
        print(f"  {line[:160]}")
    if len(lines) > SHOWN:
        print(f"  … and {len(lines) - SHOWN} lines more")
    text = canonical.dumps(new)
    if too_large := list(lint_notebooks.sizes(new, len(text.encode()))):
        print("".join(f"  {rule}: cell {cell}: {what}\n" for rule, cell, what in too_large), end="")
        return "failed"
    if check:
        return "differs"
    notebooks.write(path, text)
    return "rewritten"


def runner(timeout_s: float, show: Callable[[float, str], None]) -> Run:
    """Runs a notebook on a fresh kernel; `show(done, text)` hears of each cell."""

    def run(path: Path) -> NotebookNode | None:
        return notebooks.executed(
            path, timeout_s=timeout_s, on_cell=lambda index, of: show(index / of, f"{path.stem}: cell {index + 1} of {of}")
        )

    return run


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.refresh", description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="notebooks (default: every lesson)")
    parser.add_argument("--check", action="store_true", help="change no file; exit 1 when one says something else")
    parser.add_argument("--all", action="store_true", help="rewrite every notebook, whatever it says")
    parser.add_argument("--timeout", type=float, default=300, metavar="S", help="seconds a cell may take (300)")
    args = parser.parse_args(argv)
    files = args.files or sorted((notebooks.REPO / "notebooks").glob("*.ipynb"))
    absent = [str(file) for file in files if not file.is_file()]
    if absent:
        parser.error(f"no such notebook: {', '.join(absent)}")
    from utils.show.progress import bar

    became: dict[str, str] = {}
    for at, path in enumerate(files):
        with bar(f"{at + 1} of {len(files)}") as show:
            became[str(path)] = refresh(path, runner(args.timeout, show), check=args.check, always=args.all)
        print(f"{path}: {became[str(path)]}", flush=True)
    counts = {word: list(became.values()).count(word) for word in dict.fromkeys(became.values())}
    print(", ".join(f"{n} {word}" for word, n in counts.items()))
    return 1 if {"failed", "differs"} & set(counts) else 0


if __name__ == "__main__":
    sys.exit(main())
