"""Draw the README's figure again from the committed recordings: light, dark, and its table twin."""

from __future__ import annotations

import argparse
from pathlib import Path

from utils.commands import Refused

HELP = "draw the README's figure again from the committed recordings"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", metavar="FOLDER", type=Path, help="where to write (default: figures/ of the repository)")


def run(args: argparse.Namespace) -> int:
    from utils import paths
    from utils.show import receipt

    folder = args.out or paths.REPO / "figures"
    try:
        written = receipt.build(folder)
    except LookupError as error:
        raise Refused(str(error), code=1) from error
    except OSError as error:
        raise Refused(f"{folder} cannot be written: {error.strerror or error}", code=1) from error
    print("\n".join(f"wrote {path}" for path in written))
    return 0
