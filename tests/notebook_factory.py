"""A small lesson that keeps every rule, for tests that break one rule of it at a time."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbformat import NotebookNode

from tools import canonical
from tools.first_cell import FIRST_CELL

FIGURE = (
    '<figure><img src="data:image/png;base64,AAAA" alt="Bars: allocator 99 ns, tensor 107 ns">'
    "<table><tr><td>99</td></tr></table></figure>"
)


def markdown(source: str, cell_id: str, tag: str = "core") -> NotebookNode:
    return nbformat.v4.new_markdown_cell(source, id=cell_id, metadata={"tags": [tag]})


def code(source: str, cell_id: str, outputs=(), tag: str = "core") -> NotebookNode:
    return nbformat.v4.new_code_cell(source, id=cell_id, metadata={"tags": [tag]}, outputs=list(outputs))


def printed(text: str, name: str = "stdout") -> NotebookNode:
    return nbformat.v4.new_output("stream", name=name, text=text)


def page(html: str) -> NotebookNode:
    return nbformat.v4.new_output("display_data", data={"text/html": html, "text/plain": "a figure"})


def lesson() -> NotebookNode:
    """A sound lesson of 20 cells; its cells can be fetched with `cell(nb, id)`."""
    cells = [
        markdown("# A lesson\n\nIt asks one question.", "title"),
        code(FIRST_CELL, "setup"),
        code("from fractions import Fraction", "imports"),
        code("half = Fraction(1, 2)\nprint(half)", "measure", [printed("1/2\n")]),
        code("half", "picture", [page(FIGURE)]),
        code('# NBVAL_CHECK_OUTPUT\nexpect("half.is_half", half)', "judge", [printed("✔ half.is_half: holds\n")]),
    ]
    cells += [markdown(f"Paragraph {n} explains.", f"text-{n}", "deeper" if n > 10 else "core") for n in range(14)]
    nb = nbformat.v4.new_notebook(cells=cells)
    renumber(nb)
    return canonical.canonical(nb)


def cell(nb: NotebookNode, cell_id: str) -> NotebookNode:
    return next(c for c in nb.cells if c.id == cell_id)


def renumber(nb: NotebookNode) -> None:
    """Execution counts 1..n, as after a run on a fresh kernel."""
    for n, one in enumerate((c for c in nb.cells if c.cell_type == "code"), start=1):
        one.execution_count = n


def small_lesson(folder: Path, source: str) -> Path:
    """The lesson with `source` in its measuring cell and an `expect` that always holds, written into `folder`."""
    nb = lesson()
    cell(nb, "measure").source = source
    cell(nb, "picture").source = "def expect(metric, thing):\n    print(f'✔ {metric}: holds')\nhalf = 1 / 2"
    path = folder / "small.ipynb"
    path.write_text(canonical.dumps(nb), encoding="utf-8")
    return path
