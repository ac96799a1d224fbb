"""The line under the title of every lesson and lab that opens it elsewhere, written from the setting of utils/address.py.

With an address it is two badges, Colab's and Binder's, at the pinned ref. Without one it is a link to the README, which says how
to open a notebook there by hand: no badge may lead nowhere. A lab's line is the same in solutions/ and labs/, and opens the
student edition.
"""

from __future__ import annotations

import re
from pathlib import Path

from utils.address import Address

REPO = Path(__file__).resolve().parent.parent
HOW = "README.md#elsewhere"
_LINE = re.compile(r"^(?:\[!\[Open in Colab\]|\[Colab and other machines\]).*\n*", re.MULTILINE)


def opened(path: Path) -> str:
    """The notebook that the badge in the notebook at `path` opens, relative to the repository: a lab's student edition."""
    path = Path(path).resolve().relative_to(REPO) if Path(path).is_absolute() else Path(path)
    parts = path.parts
    return "/".join(("labs", *parts[1:]) if parts[0] == "solutions" else parts)


def line(where: Address, notebook: str) -> str:
    """The line for `notebook`, a path relative to the repository such as notebooks/01_one_add.ipynb."""
    if not where:
        return f"[Colab and other machines]({'../' * notebook.count('/')}{HOW})"
    colab = f"https://colab.research.google.com/github/{where.repo}/blob/{where.ref}/{notebook}"
    binder = f"https://mybinder.org/v2/gh/{where.repo}/{where.ref}?urlpath=lab/tree/{notebook}"
    return (
        f"[![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)]({colab}) "
        f"[![Open on Binder](https://mybinder.org/badge_logo.svg)]({binder})"
    )


def without(source: str) -> str:
    """A title cell's text less its line of badges."""
    return _LINE.sub("", source)


def written(source: str, where: Address, notebook: str) -> str:
    """A title cell's text with the line of badges below its heading; what stood there is replaced."""
    heading, _, rest = without(source).partition("\n")
    return f"{heading}\n\n{line(where, notebook)}\n\n{rest.lstrip()}".rstrip()
