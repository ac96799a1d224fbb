"""Which file of the repository becomes which page of the site, and where a link to a file leads from a page."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

from utils import address
from utils.address import Address
from utils.paths import REPO

HOME, LEDGER, RECEIPT, GLOSSARY = "index.html", "ledger.html", "receipt.html", "glossary.html"
NUMBERS, SELF_CHECK, MACHINES = "numbers.html", "self-check.html", "machines.html"
# What a link in the repository's pages may lead to, other than a notebook. A folder stands for all that is in it.
FILES = {
    "README.md": HOME,
    "figures/ledger.md": LEDGER,
    "figures/receipt.md": RECEIPT,
    "utils/data/glossary.yml": GLOSSARY,
    "utils/recordings": MACHINES,
    "CONTRIBUTING.md": "contributing.html",
    "INSTRUCTOR.md": "teaching.html",
    "LICENSE": "licence.html",
    "CITATION.cff": "citation.html",
}


@dataclass(frozen=True)
class Notebook:
    """A lesson or a lab: its file in the repository, its page, and its title."""

    source: str
    page: str
    title: str
    lesson: bool

    @property
    def study(self) -> str:
        """The lesson's stem, which is the name of its study: "launch" of 04_launch."""
        return Path(self.source).stem[3:]


@cache
def notebooks() -> tuple[Notebook, ...]:
    """The lessons, then the student editions of the labs, in order."""
    return (*_found("notebooks", "*.ipynb", "lessons"), *_found("labs", "*/*.ipynb", "labs"))


def _found(folder: str, pattern: str, under: str) -> Iterator[Notebook]:
    for path in sorted((REPO / folder).glob(pattern)):
        title = re.search(r'"# (.+?)(?:\\n)?"', path.read_text(encoding="utf-8"))
        name = title[1] if title else path.stem.replace("_", " ")
        yield Notebook(path.relative_to(REPO).as_posix(), f"{under}/{path.stem}.html", name, folder == "notebooks")


def page_of(source: str) -> str | None:
    """The page that a file of the repository (its path there) became, or None: then it is on no page."""
    for notebook in notebooks():
        if source == notebook.source:
            return notebook.page
    for known, page in FILES.items():
        if source == known or source.startswith(known + "/"):
            return page
    return None


def link(target: str, source: str, page: str, words: str = "", published: Address | None = None) -> str | None:
    """Where `target`, a link in the file `source`, leads from `page`.

    A file that is no page leads to where the course is published (default: the setting); None where it is not published.
    Addresses on the web stay. `words`, the link's text, choose the glossary's term.
    """
    parts = urlsplit(target)
    if parts.scheme or parts.netloc:
        return target
    if not parts.path:
        return target
    found = page_of(normal(parts.path, source))
    if found is None:
        return (address.read() if published is None else published).page(normal(parts.path, source)) or None
    fragment = term(words) if found == GLOSSARY and not parts.fragment else parts.fragment
    return relative(found, page) + (f"#{fragment}" if fragment else "")


def normal(target: str, source: str) -> str:
    """The path in the repository that a relative link in the file `source` means."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), unquote(target)))


def relative(page: str, start: str) -> str:
    """The link from page `start` to `page`; both are paths in the site."""
    return posixpath.relpath(page, posixpath.dirname(start) or ".")


@cache
def _terms() -> dict[str, str]:
    from utils.model import schemas

    return {row["term"].lower(): row["id"] for row in schemas.load("glossary")["terms"]}


def term(words: str) -> str:
    """The glossary's anchor for a link's text ("queues" finds "queue"), or "" for a word that it does not have."""
    said = " ".join(words.lower().split())
    for form in (said, said.removesuffix("s"), said.removesuffix("es"), said.replace("-", " ")):
        if form in _terms():
            return f"term-{_terms()[form]}"
    return ""
