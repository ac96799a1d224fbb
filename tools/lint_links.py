"""Dead links: from markdown, and from a notebook's text and outputs, to files of the repository and to headings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from nbformat import NotebookNode

_LINK = re.compile(r"(?<!\\)\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
_HTML = re.compile(r"\b(?:href|src|srcset)=[\"']([^\"']+)[\"']")
_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*\s*$", re.MULTILINE)
_ID = re.compile(r"\b(?:id|name)=[\"']([^\"']+)[\"']")
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


def targets(text: str) -> Iterator[str]:
    """Every link target in markdown or HTML, code left out."""
    text = _CODE.sub("", text)
    for pattern in (_LINK, _HTML):
        yield from pattern.findall(text)


def anchors(text: str) -> set[str]:
    """The anchors a page offers: its headings as GitHub and as JupyterLab write them, and explicit ids."""
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    found = set(_ID.findall(text))
    for heading in _HEADING.findall(text):
        plain = re.sub(r"\]\([^)]*\)|[`*\[\]]|<[^>]+>", "", heading).strip()
        found.add(plain.replace(" ", "-"))
        found.add(re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-"))
    return found


def page_text(path: Path) -> str:
    """What of a file can hold anchors: a notebook's markdown, or the file itself."""
    from tools import canonical

    text = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        return text
    return "\n\n".join(cell.source for cell in canonical.loads(text).cells if cell.cell_type == "markdown")


def notebook_text(nb: NotebookNode) -> str:
    """Everything of a notebook that can hold a link a reader may follow: its markdown and its HTML outputs."""
    parts = [cell.source for cell in nb.cells if cell.cell_type == "markdown"]
    parts += [o.get("data", {}).get("text/html", "") for c in nb.cells if c.cell_type == "code" for o in c.outputs]
    return "\n\n".join(parts)


def dead(path: Path, text: str, repo: Path) -> Iterator[str]:
    """What is wrong with each link of `text`, which stands in the file `path`. Addresses on the web are not asked."""
    for target in targets(text):
        parts = urlsplit(target)
        if parts.scheme in ("http", "https", "mailto", "data"):
            continue
        if parts.scheme or target.startswith("/"):
            yield f"{target}: not a relative link"
            continue
        page = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        if not page.is_relative_to(repo) or not page.exists():
            yield f"{target}: no such file"
        elif parts.fragment and page.suffix in (".md", ".ipynb"):
            if unquote(parts.fragment) not in anchors(page_text(page)):
                yield f"{target}: no such heading in {page.name}"
