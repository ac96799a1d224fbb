"""A private folder of hidden tests that replace the public ones: `solutions/` is public, so a term's own tests must not be.

OVERLAY/<lab>/<test cell's id>.py holds what stands between `### BEGIN HIDDEN TESTS` and `### END HIDDEN TESTS` instead. Cells
without a file keep what they have. Everything else of the lab, its points among it, stays as it is.
"""

from __future__ import annotations

import ast
import copy
import re
from pathlib import Path

from utils.labs import cells

HIDDEN = re.compile(r"^### BEGIN HIDDEN TESTS\n.*?^### END HIDDEN TESTS[^\n]*", re.DOTALL | re.MULTILINE)


class BadOverlay(ValueError):
    """The overlay does not fit its lab; the message names the file and says why."""


def replaced(source: dict, folder: Path) -> dict:
    """A copy of the lab `source` with the hidden tests of `folder`. Raises BadOverlay."""
    files = {path.stem: path for path in sorted(folder.glob("*.py"))}
    if not files:
        raise BadOverlay(f"{folder}: no hidden tests there (one file a test cell, <id>.py)")
    out = copy.deepcopy(source)
    for cell in out["cells"]:
        known = cells.known({"cells": [cell]})
        path = files.pop(known[0].id, None) if known and known[0].test else None
        if path is None:
            continue
        tests = path.read_text(encoding="utf-8").strip("\n")
        try:
            ast.parse(tests)
        except SyntaxError as error:
            raise BadOverlay(f"{path}: {error}") from error
        block = f"### BEGIN HIDDEN TESTS\n{tests}\n### END HIDDEN TESTS"
        text = cells.source(cell)
        found = HIDDEN.search(text)
        cell["source"] = text[: found.start()] + block + text[found.end() :] if found else f"{text.rstrip()}\n{block}"
    if files:
        raise BadOverlay(f"{', '.join(str(path) for path in files.values())}: the lab has no test cell of this name")
    return out
