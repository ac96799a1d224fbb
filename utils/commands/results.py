"""Your own measurements and predictions: where they are kept, and how to carry them to another machine."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from utils.commands import Refused, print_json

HELP = "where your results are; export and import them"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON instead of words")
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    for name, words in (
        ("export", "write everything into a file of its own"),
        ("import", "add what an exported file has and yours has not"),
    ):
        action = actions.add_parser(name, help=words, description=words)
        action.add_argument("file", metavar="FILE", type=Path)


def run(args: argparse.Namespace) -> int:
    from utils.model import results

    try:
        done = None
        if args.action == "export":
            done = f"wrote {_export(args.file)}"
        elif args.action == "import":
            done = f"added {results.import_(args.file)} entries from {args.file}"
    except results.ResultsError as error:
        raise Refused(str(error), code=1) from error
    if done is None:
        _show(args.json)
    else:
        print(done)
    if not args.json:
        for note in results.notes():
            print(f"note: {note}")
    return 0


def _export(file: Path) -> Path:
    from utils.model import results

    try:
        return results.export(file)
    except OSError as error:
        raise Refused(f"{file} cannot be written: {error.strerror or error}", code=1) from error


def _show(as_json: bool) -> None:
    from utils.model import results

    mine = results.load()
    kinds = Counter(row["kind"] for row in mine.rows())
    machines = {row["machine"] for row in mine.rows()}
    predictions = len(mine.predictions())
    if as_json:
        print_json({"file": str(mine.path), "rows": dict(kinds), "machines": len(machines), "predictions": predictions})
        return
    print(f"your results: {mine.path}" + ("" if mine.path.exists() else " (nothing kept yet)"))
    print(f"measured: {', '.join(f'{kind} × {n}' for kind, n in sorted(kinds.items())) or 'nothing'}; machines: {len(machines)}")
    print(f"predictions: {predictions}")
