"""`python -m tools.site [--out FOLDER]`: the course as a static site, from what is committed; no cell runs, none is fetched."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.site", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where to build (default: build/site); what is there goes")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="one-add-site-") as home:
        os.environ["ONE_ADD_HOME"] = home  # the builder's own results are nobody's business: the site shows recordings
        from tools.site import build

        try:
            written = build.build(args.out or build.OUT)
        except build.NotEmpty as refusal:
            print(f"error: {refusal}", file=sys.stderr)
            return 2
    print(f"wrote {written} pages: open {(args.out or build.OUT) / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
