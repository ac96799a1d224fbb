"""A committed notebook as HTML, by nbconvert with a template of ours: its sources and outputs as they are, and nothing is run."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

from nbconvert import HTMLExporter
from nbconvert.filters import markdown2html_mistune
from nbformat import NotebookNode

from tools import canonical

TEMPLATES = Path(__file__).resolve().parent / "templates"
_LIVE = re.compile(r"live · ([^<()]*?torch [\w.+]+)")


@cache
def _exporter() -> HTMLExporter:
    """Made once. No anchors (tools.site.tidy gives ids), no embedded style sheets of Jupyter's, no sanitiser: the notebooks are ours."""
    exporter = HTMLExporter(
        extra_template_basedirs=[str(TEMPLATES)],
        template_name="priced",
        exclude_anchor_links=True,
        default_preprocessors=["nbconvert.preprocessors.HighlightMagicsPreprocessor"],
    )
    return exporter


def read(path: Path) -> NotebookNode:
    """The notebook in a file."""
    return canonical.loads(path.read_text(encoding="utf-8"))


def body(nb: NotebookNode) -> str:
    """The cells as HTML, in their order."""
    return _exporter().from_notebook_node(nb)[0]


def markdown(text: str) -> str:
    """Markdown as HTML, by the renderer that the notebooks go through."""
    return markdown2html_mistune(text)


def run_on(nb: NotebookNode) -> str:
    """The machine on which the committed outputs were made, by their own labels ("AMD EPYC, 2 cores · torch 2.13.0+cpu"); "" for none."""
    seen = Counter(
        match[1]
        for cell in nb.cells
        for output in cell.get("outputs", [])
        for match in _LIVE.finditer("".join(output.get("data", {}).get("text/html", "")))
    )
    return seen.most_common(1)[0][0] if seen else ""
