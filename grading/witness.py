"""Witnesses: cells that must fail. When one does not, the kernel no longer runs what it is sent, and its passes say nothing.

A learner's code lives in the same process as the tests: it can put a transformer before every cell, or swallow what is raised. In
front of each test goes a copy of its visible part that begins with a false assertion, with a number nobody can know. Honest code
never notices. Whoever wrote a kernel that tells the two apart could still deceive: see `looks`, and read what it lists.
"""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Iterator

from utils.labs import cells

# What an answer to a lab has no use for. Naming one proves nothing, and costs nothing: a person is asked to read the cell.
UNUSUAL = (
    r"input_transformer",
    r"ast_transformers",
    r"\bget_ipython\b",
    r"\bset_custom_exc\b",
    r"\b_getframe\b",
    r"\binspect\b",
    r"\bgc\b",
    r"\bctypes\b",
    r"\blinecache\b",
    r"\bbuiltins\b",
    r"\bsettrace\b",
    r"\bsubprocess\b",
    r"\bsocket\b",
    r"\bos\.(kill|fork|system|_exit|exec|spawn)",
    r"utils\.labs\.strict|\bstrict\s*\.\s*\w+\s*=[^=]|\bstrict\s*=[^=]",
    r"def __(eq|lt|le|gt|ge|ne)__",
    r"\bexec\(|\beval\(",
)


def planted(nb: dict) -> tuple[dict, list[str]]:
    """A copy of the rebuilt notebook `nb` with a witness in front of each test, and the words that each must say."""
    rng, out, words = random.SystemRandom(), [], []
    for cell in nb["cells"]:
        known = cells.known({"cells": [cell]})
        if known and known[0].test:
            words.append(f"{rng.getrandbits(64):016x}")
            out.append(_witness(cells.visible(known[0].source), words[-1], rng, f"witness-{len(words)}"))
        out.append(cell)
    return {**copy.deepcopy({k: v for k, v in nb.items() if k != "cells"}), "cells": out}, words


def _witness(test: str, word: str, rng: random.Random, cell_id: str) -> dict:
    got, wanted = rng.sample(range(1_000_000), 2)
    source = f'assert strict.equal({got}, {wanted}, "{word}")\n{test}'
    return {"cell_type": "code", "id": cell_id, "metadata": {}, "source": source, "outputs": [], "execution_count": None}


def silent(graded: dict, words: list[str]) -> list[str]:
    """Those of `words` whose witness ran in the executed notebook `graded` without any error: they were made to pass."""
    quiet = []
    for cell in graded["cells"]:
        word = next((word for word in words if f'"{word}")' in cells.source(cell)), None)
        if word and not any(output.get("output_type") == "error" for output in cell.get("outputs", [])):
            quiet.append(word)
    return quiet


def looks(submission: dict, fixed: set[str]) -> Iterator[str]:
    """One sentence for each cell that names something unusual; the cells with ids in `fixed` are the lab's own."""
    for number, cell in enumerate(submission["cells"], start=1):
        known = cells.known({"cells": [cell]})
        if cell.get("cell_type") != "code" or (known and known[0].id in fixed):
            continue
        found = [match[0].strip() for pattern in UNUSUAL if (match := re.search(pattern, cells.source(cell)))]
        if found:
            name = known[0].id if known else f"cell {number} of the file"
            yield f"{name}: {', '.join(sorted(set(found)))}"
