"""The rules a committed lesson keeps, each with a name: what nbval 0.11 lets pass, and what readers rely on.

nbval passes a notebook whose outputs were stripped, a picture that changed, a tag that is misspelt, a cell tagged
`raises-exception` that does not raise, `!` and `%pip` that fail, and waits on a kernel that a cell ended. Each rule that
catches one of these says so. `tests/test_lint.py` proves every rule red on a bad notebook.
"""

from __future__ import annotations

import ast
import base64
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path

from nbformat import NotebookNode

from tools import badges, canonical
from tools.first_cell import FIRST_CELL

TAGS = {"core", "deeper"}
MAX_CODE_LINES = 12
MAX_CORE_WORDS = 1200
MAX_BYTES, MAX_PICTURE_BYTES = 1_000_000, 150_000  # of a notebook; of one picture in it, decoded
CELLS = range(20, 36)
COMPARED = "# NBVAL_CHECK_OUTPUT"
HOLDS = re.compile(r"✔ [a-z0-9_.]+: holds")

_MACHINE_PATH = re.compile(
    r"(?<![\w./-])(?:/(?:root|home|Users|tmp|var|opt|work|mnt|content|private)/[\w.-]+|[A-Z]:\\\\?\w+)|site-packages"
)
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{5,}\b")
_SVG_DATA = re.compile(r"data:image/svg\+xml;base64,([A-Za-z0-9+/=\s]+)")
_IMAGE_DATA = re.compile(r"data:image/[\w+.-]+;base64,[A-Za-z0-9+/=\s]+")
# Calls after which the kernel is gone: nbval then waits its whole timeout, and a reader loses what was measured.
_DEADLY = {"os._exit", "os.abort", "os.kill", "sys.exit", "exit", "quit", "signal.raise_signal", "raise_signal"}
# Inputs that hide a wrong result and flatter a clock: wrong kernels pass on them, and hardware draws less power.
_UNIFORM = {"torch.zeros", "torch.ones", "torch.full", "torch.zeros_like", "torch.ones_like", "torch.full_like", "torch.eye"}
# Calls whose failure nothing reports.
_UNCHECKED = {"os.system", "os.popen", "get_ipython", "run_line_magic", "run_cell_magic"}

Finding = tuple[str, str, str]  # rule, cell id or "", what is wrong


def lint(nb: NotebookNode) -> Iterator[Finding]:
    """Every broken rule of one notebook, as (rule, cell id, what)."""
    yield from whole_notebook(nb)
    yield from lesson_size(nb)
    yield from first_cells(nb)
    for cell in nb.cells:
        where = cell.get("id", "")
        for rule, what in cell_rules(cell):
            yield rule, where, what


# ------------------------------------------------------------------------------------------------ the notebook as a whole


def whole_notebook(nb: NotebookNode) -> Iterator[Finding]:
    if nb.metadata.get("kernelspec", {}).get("name") != "python3":
        yield "kernelspec", "", "the kernelspec is not python3"
    if "widgets" in nb.metadata:
        yield "widget-state", "", "metadata.widgets is committed"
    ids = [cell.get("id", "") for cell in nb.cells]
    for cell_id in ids:
        if not canonical.CELL_ID.fullmatch(cell_id):
            yield "cell-id", cell_id, "not a stable id (lower-case letters, digits, - and _)"
        elif ids.count(cell_id) > 1:
            yield "cell-id", cell_id, "used by more than one cell"
    # A stripped notebook has no counts, and nbval finds nothing to compare in it.
    counts = [cell.execution_count for cell in nb.cells if cell.cell_type == "code"]
    if counts != list(range(1, len(counts) + 1)):
        yield (
            "executed",
            "",
            f"execution counts are not 1..{len(counts)}: run it on a fresh kernel (python -m tools.notebooks run)",
        )


def lesson_size(nb: NotebookNode) -> Iterator[Finding]:
    if len(nb.cells) not in CELLS:
        yield "cells", "", f"{len(nb.cells)} cells; a lesson has {CELLS.start} to {CELLS.stop - 1}"
    words = sum(count_words(cell.source) for cell in nb.cells if cell.cell_type == "markdown" and "deeper" not in tags(cell))
    if words > MAX_CORE_WORDS:
        yield "words", "", f"{words} words of core prose; at most {MAX_CORE_WORDS}"


def count_words(markdown: str) -> int:
    """The words a reader reads: without badges, code blocks, markup and the targets of links."""
    text = re.sub(r"```.*?```", " ", badges.without(markdown), flags=re.DOTALL)
    text = re.sub(r"<[^>]+>", " ", text)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return len(re.findall(r"\w+(?:['’.,·/-]\w+)*", text))


def first_cells(nb: NotebookNode) -> Iterator[Finding]:
    code = [cell for cell in nb.cells if cell.cell_type == "code"]
    if not code or code[0].source != FIRST_CELL or code[0].get("id") != "setup":
        yield (
            "first-cell",
            "",
            "the first code cell is not tools/first_cell.py's, with the id `setup` (python -m tools.notebooks format)",
        )
    if len(code) > 1:
        tree = parsed(code[1])
        if tree is None or not all(isinstance(node, (ast.Import, ast.ImportFrom)) for node in tree.body):
            yield "imports", code[1].get("id", ""), "the second code cell imports by name what the lesson uses, and nothing else"


# ------------------------------------------------------------------------------------------------ one cell


def tags(cell: NotebookNode) -> list:
    return cell.metadata.get("tags", [])


def parsed(cell: NotebookNode) -> ast.Module | None:
    """The cell as a syntax tree; None when it is not plain Python."""
    try:
        return ast.parse(cell.source)
    except SyntaxError:
        return None


def cell_rules(cell: NotebookNode) -> Iterator[tuple[str, str]]:
    yield from tag_rules(cell)
    yield from readable(cell.source)
    if cell.cell_type == "markdown":
        yield from pictures(cell.source)
    if cell.cell_type != "code":
        return
    yield from code_rules(cell)
    yield from compared_rules(cell)
    yield from output_rules(cell)


def tag_rules(cell: NotebookNode) -> Iterator[tuple[str, str]]:
    """A misspelt tag changes nothing for nbval and everything for a reader; `raises-exception` passes when nothing raises."""
    for tag in tags(cell):
        if tag == "raises-exception":
            yield "raises-exception", "passes when nothing raises: catch the exception in the cell and print what it says"
        elif tag not in TAGS:
            yield "tag", f"unknown tag {tag!r}; known: {', '.join(sorted(TAGS))}"
    if sum(tag in tags(cell) for tag in TAGS) != 1:
        yield "core-or-deeper", "needs exactly one of the tags core and deeper"


def code_rules(cell: NotebookNode, most: int = MAX_CODE_LINES) -> Iterator[tuple[str, str]]:
    lines = [line for line in cell.source.splitlines() if line.strip() and line.strip() != COMPARED]
    if len(lines) > most and cell.source != FIRST_CELL:
        yield "code-lines", f"{len(lines)} lines of code; at most {most}, the rest belongs in utils/"
    for line in cell.source.splitlines():
        if "nbval" in line.lower() and (line != COMPARED or line != cell.source.splitlines()[0]):
            yield "nbval-marker", f"{line.strip()!r}: the one marker is {COMPARED!r}, alone on the cell's first line"
    tree = parsed(cell)
    if tree is None:
        yield "plain-python", "not plain Python: what `!`, `%pip` and other magics do can fail and the cell still passes"
        return
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        if called in _UNIFORM:
            yield "uniform-data", f"{called}(): measured data is random (torch.rand, torch.randn), never uniform"
        if called in _DEADLY:
            yield "kernel-end", f"{called}() ends the kernel, and nbval waits for it until its timeout"
        if called in _UNCHECKED or called.rsplit(".", 1)[-1] in _UNCHECKED:
            yield "plain-python", f"{called}() can fail and the cell still passes"
        if called.startswith("subprocess.") and called not in ("subprocess.check_call", "subprocess.check_output"):
            if not any(k.arg == "check" and getattr(k.value, "value", None) is True for k in node.keywords):
                yield "plain-python", f"{called}() without check=True can fail and the cell still passes"


def compared_rules(cell: NotebookNode) -> Iterator[tuple[str, str]]:
    """nbval compares no pictures and finds nothing wrong with an empty reference, so compared cells hold fixed lines only."""
    tree = parsed(cell)
    calls = [] if tree is None else [n for n in ast.walk(tree) if isinstance(n, ast.Call) and ast.unparse(n.func) == "expect"]
    if not cell.source.startswith(COMPARED):
        if calls:
            yield "compared", f"calls expect() but is not compared: first line {COMPARED}"
        return
    only_expect = tree is not None and all(isinstance(n, ast.Expr) and n.value in calls for n in tree.body)
    if not calls or not only_expect:
        yield "compared", "a compared cell holds expect(…) calls and nothing else: measure in one cell, judge in another"
    outputs = cell.outputs
    if len(outputs) != 1 or outputs[0].output_type != "stream" or outputs[0].name != "stdout":
        yield "compared", "a compared cell has exactly one output, a stream on stdout (stripped? a picture? two streams?)"
        return
    lines = outputs[0].text.splitlines()
    for line in lines:
        if not HOLDS.fullmatch(line):
            yield "compared", f"{line!r} is not a fixed line `✔ metric: holds`"
    if len(lines) != len(calls):
        yield "compared", f"{len(calls)} expect() calls and {len(lines)} lines"


def output_rules(cell: NotebookNode) -> Iterator[tuple[str, str]]:
    tables = any("<table" in output.get("data", {}).get("text/html", "") for output in cell.outputs)
    for output in cell.outputs:
        if output.output_type == "error":
            yield "error", f"{output.ename} is committed as an output"
            continue
        if output.output_type == "stream":
            if output.name == "stderr":
                yield "stderr", f"a warning is committed: {output.text.strip().splitlines()[:1]}"
            yield from readable(output.text)
            continue
        data = output.data
        for mime in (canonical.WIDGET_VIEW, canonical.WIDGET_STATE):
            if mime in data:
                yield "widget-state", "a widget view is committed: it shows nothing without its kernel"
        page = data.get("text/html", "")
        if any(mime.startswith("image/") for mime in data) and not page:
            yield "alt-text", "a bare picture has no alt text: show it with utils.show.figures"
        yield from pictures(page)
        if "<img" in page or "<svg" in page:
            if not tables:
                yield "table-twin", "a figure without the table that says the same"
        for text in (page, data.get("text/plain", "")):
            yield from readable(text)


def readable(text: str) -> Iterator[tuple[str, str]]:
    """Nothing of the machine that ran the lesson: its paths, its name, its addresses (an SVG in base64 is looked into)."""
    inside = [base64.b64decode(data).decode("utf-8", "replace") for data in _SVG_DATA.findall(text)]
    for part in (_IMAGE_DATA.sub("", text), *inside):
        for found in _MACHINE_PATH.findall(part):
            yield "machine", f"{found!r} names a place on the machine that ran it"
        for found in _ADDRESS.findall(part):
            yield "machine", f"{found!r} is a memory address"
        host = socket.gethostname()
        if len(host) > 3 and host != "localhost" and re.search(rf"(?<!\w){re.escape(host)}(?!\w)", part):
            yield "machine", "the name of the machine that ran it"


def sizes(nb: NotebookNode, nbytes: int) -> Iterator[Finding]:
    """A notebook whose file of `nbytes` is too large to load and to review, or a picture in it that is."""
    if nbytes > MAX_BYTES:
        yield "size", "", f"{nbytes:,} bytes; a notebook has at most {MAX_BYTES:,}"
    for cell in nb.cells:
        for output in cell.get("outputs", []):
            for size in _picture_bytes(output.get("data", {})):
                if size > MAX_PICTURE_BYTES:
                    yield "picture-size", cell.get("id", ""), f"a picture of {size:,} bytes; at most {MAX_PICTURE_BYTES:,}"


def _picture_bytes(data: Mapping) -> Iterator[int]:
    """The size of every picture of an output: those inside its HTML, and those that are outputs of their own."""
    for found in _IMAGE_DATA.findall(data.get("text/html", "")):
        yield 3 * len(found.split(",", 1)[1]) // 4
    for mime, value in data.items():
        if mime.startswith("image/"):  # an SVG is text, everything else base64
            yield len(value.encode()) if mime == "image/svg+xml" else 3 * len(value) // 4


class _Pictures(HTMLParser):
    """Collects what is wrong with the pictures of a page: an <img> or <svg> that says nothing to who cannot see it."""

    def __init__(self):
        super().__init__()
        self.wrong: list[str] = []
        self._silent_svg = False

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag == "img" and not (given.get("alt") or "").strip():
            self.wrong.append("an <img> without alt text")
        elif tag == "svg":
            self._silent_svg = not (given.get("aria-label") or given.get("aria-labelledby") or given.get("aria-hidden") == "true")
        elif tag == "title":
            self._silent_svg = False

    handle_startendtag = handle_starttag

    def handle_endtag(self, tag):
        if tag == "svg" and self._silent_svg:
            self.wrong.append("an <svg> without aria-label or <title>")
            self._silent_svg = False


def pictures(text: str) -> Iterator[tuple[str, str]]:
    """Pictures without alt text, in HTML and in markdown."""
    page = _Pictures()
    page.feed(text)
    page.close()
    for wrong in page.wrong:
        yield "alt-text", wrong
    for alt in re.findall(r"!\[([^\]]*)\]\(", text):
        if not alt.strip():
            yield "alt-text", "a markdown picture without alt text"


def lint_file(path: Path, rules: Callable[[NotebookNode], Iterator[Finding]] = lint) -> list[Finding]:
    """Every broken rule of the notebook at `path`, its format included. `rules` are a lesson's unless others are given."""
    text = path.read_text(encoding="utf-8")
    try:
        nb = canonical.loads(text)
    except ValueError as error:
        return [("format", "", str(error))]
    found = [*rules(nb), *sizes(nb, len(text.encode()))]
    if text != canonical.dumps(canonical.canonical(nb)):
        found.append(("format", "", "not in canonical form (python -m tools.notebooks format)"))
    return found
