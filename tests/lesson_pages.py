"""What the tests of the lessons share: a committed notebook's cells, and what of an output stands outside every closed fold."""

from __future__ import annotations

import re
from functools import cache

from tests.conftest import REPO
from tools import canonical
from utils.model import schemas

PRICE = re.compile(r"\d(?:\.\d+)?\s*(?:ns|µs|ms|%)(?!\w)")


def stem_of(number: int) -> str:
    """The stem of lesson n: its name in claims, questions and ranges ("launch" for 4)."""
    return schemas.LESSONS[number]


def path_of(number: int):
    return REPO / "notebooks" / f"{number:02d}_{stem_of(number)}.ipynb"


@cache
def notebook(number: int):
    """The committed notebook of lesson n."""
    return canonical.loads(path_of(number).read_text(encoding="utf-8"))


def code_cells(nb):
    return [c for c in nb.cells if c.cell_type == "code"]


def markdown(nb):
    return [c for c in nb.cells if c.cell_type == "markdown"]


def plain(text: str) -> str:
    return text.replace("`", "")


def outside(html: str) -> str:
    """What stands outside every <details>, nested ones included; of a picture the alt text, and no style."""
    out, depth, at = [], 0, 0
    for tag in re.finditer(r"<(/?)details\b[^>]*>", html):
        if depth == 0:
            out.append(html[at : tag.start()])
        depth += -1 if tag[1] else 1
        at = tag.end()
    return re.sub(r"base64,[A-Za-z0-9+/=]+|style=\"[^\"]*\"", "", "".join([*out, html[at:] if depth == 0 else ""]))
