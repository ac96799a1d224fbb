"""A committed notebook as HTML, by nbconvert with a template of ours: its sources and outputs as they are, and nothing is run."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

from nbconvert import HTMLExporter, TemplateExporter
from nbconvert.filters import DataTypeFilter, Highlight2HTML
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_notebook

from tools import canonical

TEMPLATES = Path(__file__).resolve().parent / "templates"
_LIVE = re.compile(r"live · ([^<()]*?torch [\w.+]+)")


class _Exporter(HTMLExporter):
    """nbconvert's, without its parse of the whole page afterwards: tools.site.tidy parses it, and a test looks for alt texts."""

    def from_notebook_node(self, nb, resources=None, **kw):
        self.register_filter("highlight_code", Highlight2HTML(pygments_lexer="ipython3", parent=self))
        self.register_filter("filter_data_type", DataTypeFilter(parent=self))
        return TemplateExporter.from_notebook_node(self, nb, resources, **kw)


@cache
def _exporter() -> _Exporter:
    """Made once. No anchors (tools.site.tidy gives ids), no style sheets of Jupyter's, no sanitiser: the notebooks are ours."""
    return _Exporter(
        extra_template_basedirs=[str(TEMPLATES)], template_name="priced", exclude_anchor_links=True, default_preprocessors=[]
    )


def read(path: Path) -> NotebookNode:
    """The notebook in a file."""
    return canonical.loads(path.read_text(encoding="utf-8"))


def body(nb: NotebookNode) -> str:
    """The cells as HTML, in their order."""
    return _exporter().from_notebook_node(nb)[0]


def markdown(text: str) -> str:
    """Markdown as HTML, by the way that the notebooks go."""
    return body(new_notebook(cells=[new_markdown_cell(text, id="page")]))


def run_on(nb: NotebookNode) -> str:
    """The machine that made the outputs, by their own labels ("AMD EPYC, 2 cores · torch 2.13.0+cpu"); "" without any."""
    seen = Counter(
        match[1]
        for cell in nb.cells
        for output in cell.get("outputs", [])
        for match in _LIVE.finditer("".join(output.get("data", {}).get("text/html", "")))
    )
    return seen.most_common(1)[0][0] if seen else ""
