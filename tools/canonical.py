"""The canonical form of a committed notebook: what is kept, what is stripped, and how it is written.

A notebook is committed with its outputs, so everything in it that changes from run to run without meaning is noise in
every diff: widget states, execution times, addresses. `canonical(nb)` takes that out and nothing else;
`dumps(nb)` writes the result in one fixed way. `python -m tools.notebooks format` applies both.
"""

from __future__ import annotations

import hashlib
import json
import re

import nbformat
from nbformat import NotebookNode

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
WIDGET_STATE = "application/vnd.jupyter.widget-state+json"
KERNELSPEC = {"display_name": "Python 3", "language": "python", "name": "python3"}
LANGUAGE_INFO = {"name": "python"}
CELL_METADATA = ("tags", "jupyter", "jp-MarkdownHeadingCollapsed", "nbgrader")
CELL_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")

_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{5,}\b")
_WIDGET_REPR = re.compile(r"\s*\w+\((.|\n)*\)\s*")


def canonical(nb: NotebookNode) -> NotebookNode:
    """A copy of `nb` in canonical form. Sources, tags, execution counts and readable outputs are unchanged."""
    out = NotebookNode({"nbformat": 4, "nbformat_minor": 5, "metadata": NotebookNode(), "cells": []})
    out.metadata.kernelspec = NotebookNode(KERNELSPEC)
    out.metadata.language_info = NotebookNode(LANGUAGE_INFO)
    used: set[str] = set()
    for cell in nb.cells:
        out.cells.append(_cell(cell, used))
    return out


def dumps(nb: NotebookNode) -> str:
    """The notebook as text: JSON with one space of indent, sorted keys, lines split, one newline at the end."""
    return json.dumps(nbformat.v4.rwbase.split_lines(_copy(nb)), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def loads(text: str) -> NotebookNode:
    """The notebook in `text`, multi-line fields joined. Raises ValueError when it is not a version 4 notebook."""
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error}") from error
    if not isinstance(data, dict) or data.get("nbformat") != 4:
        raise ValueError("not a version 4 notebook")
    return nbformat.v4.rwbase.rejoin_lines(nbformat.from_dict(data))


def _copy(nb: NotebookNode) -> NotebookNode:
    return nbformat.from_dict(json.loads(json.dumps(nb)))


def _cell(cell: NotebookNode, used: set[str]) -> NotebookNode:
    metadata = NotebookNode({k: cell.metadata[k] for k in CELL_METADATA if cell.metadata.get(k)})
    new = NotebookNode(
        {
            "cell_type": cell.cell_type,
            "id": _cell_id(cell, used),
            "metadata": metadata,
            "source": cell.source.rstrip(),
        }
    )
    if cell.cell_type == "code":
        new.execution_count = cell.get("execution_count")
        new.outputs = _outputs(cell.get("outputs", []), new.execution_count)
    elif cell.get("attachments"):
        new.attachments = cell.attachments
    return new


def _cell_id(cell: NotebookNode, used: set[str]) -> str:
    """The cell's own id where it is sound and not taken, else one made of its source: the same in every run."""
    wanted = cell.get("id", "")
    if not CELL_ID.fullmatch(wanted) or wanted in used:
        digest = hashlib.sha256(cell.source.encode()).hexdigest()
        wanted = next(digest[n : n + 8] for n in range(len(digest)) if digest[n : n + 8] not in used)
    used.add(wanted)
    return wanted


def _outputs(outputs: list, count: int | None) -> list:
    kept: list[NotebookNode] = []
    for output in outputs:
        new = _output(output, count)
        if new is None:
            continue
        last = kept[-1] if kept else None
        if last is not None and new.output_type == last.output_type == "stream" and new.name == last.name:
            last.text += new.text
        else:
            kept.append(new)
    return kept


def _output(output: NotebookNode, count: int | None) -> NotebookNode | None:
    """The output without noise, or None when nothing a reader could see is left of it."""
    kind = output.output_type
    if kind == "stream":
        return NotebookNode({"output_type": kind, "name": output.name, "text": _plain(output.text)})
    if kind == "error":
        return NotebookNode({"output_type": kind, "ename": output.ename, "evalue": output.evalue, "traceback": output.traceback})
    data = {mime: _plain(value) for mime, value in output.data.items() if mime not in (WIDGET_VIEW, WIDGET_STATE)}
    if WIDGET_VIEW in output.data and _only_a_repr(data):
        return None
    if not any(data.values()):  # a progress bar that closed
        return None
    new = NotebookNode({"output_type": kind, "data": NotebookNode(data), "metadata": NotebookNode(output.get("metadata", {}))})
    if kind == "execute_result":
        new.execution_count = count
    return new


def _only_a_repr(data: dict) -> bool:
    """True when all that is left of a widget is its Python repr, `VBox(children=(…))`, which says nothing to a reader."""
    rest = set(data) - {"text/plain"}
    return not rest and bool(_WIDGET_REPR.fullmatch(data.get("text/plain", "X()")))


def _plain(value):
    """Text with memory addresses replaced by `0x…`: they differ in every run. Other values come back unchanged."""
    return _ADDRESS.sub("0x…", value) if isinstance(value, str) else value
