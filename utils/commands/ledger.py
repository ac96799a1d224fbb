"""Write the claims ledger as a page: every claim, its figures by the recordings, its verdict and its lesson."""

from __future__ import annotations

import argparse
from pathlib import Path

from utils.commands import Refused

HELP = "the claims ledger as a page (--yours: with what you recorded)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", metavar="FILE", type=Path, help="where to write (default: figures/ledger.md of the repository)")
    parser.add_argument("--yours", action="store_true", help="add a column of what you recorded; then --out is needed")


def run(args: argparse.Namespace) -> int:
    from utils import paths
    from utils.model import files
    from utils.show import ledger_page

    if args.yours and args.out is None:
        raise Refused("a page with your own column does not replace the committed one: say where to write it (--out FILE)")
    mine = ledger_page.of_reader() if args.yours else None
    if args.yours and mine is None:
        raise Refused(f"nothing of yours is in {paths.home()} yet: `python -m utils record` measures and writes it")
    out = args.out or paths.REPO / "figures" / ledger_page.FILE
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        files.write_atomically(out, ledger_page.page(mine))
    except OSError as error:
        raise Refused(f"{out} cannot be written: {error.strerror or error}") from error
    print(f"wrote {out}")
    return 0
