"""The self-check outside a notebook: the questions on paper, the one page of numbers to know, and an export for Moodle."""

from __future__ import annotations

import argparse
from pathlib import Path

from utils.commands import Refused

HELP = "the self-check on paper, the numbers to know, an export for Moodle"
ACTIONS = {
    "print": "write all questions with their answers as an HTML page to print",
    "numbers": "write the one page of numbers to know as an HTML page",
    "moodle": "write the questions as Moodle XML",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    for name, words in ACTIONS.items():
        action = actions.add_parser(name, help=words, description=words)
        action.add_argument("file", metavar="FILE", type=Path)
        if name == "print":
            action.add_argument("--seed", type=int, default=0, help="draws the numbers of the drills (0)")


def run(args: argparse.Namespace) -> int:
    from utils.show import moodle, print_out

    if args.action is None:
        _show()
        return 0
    makers = {"print": lambda: print_out.questions(seed=args.seed), "numbers": print_out.numbers, "moodle": moodle.document}
    try:
        args.file.write_text(makers[args.action](), encoding="utf-8")
    except OSError as error:
        raise Refused(f"{args.file} cannot be written: {error.strerror or error}", code=1) from error
    print(f"wrote {args.file}")
    if args.action == "moodle":
        print(f"left out, because their key is a reader's own measurement: {', '.join(moodle.left_out())}")
    return 0


def _show() -> None:
    """The reader's progress by topic."""
    from utils.model import results
    from utils.show import selfcheck

    print(selfcheck.progress_table().text())
    for note in results.notes():
        print(f"note: {note}")
