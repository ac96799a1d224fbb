"""The rules that the source of a lab keeps, beside those it shares with lessons: exercise cards, stubs, tests that explain.

A card is a heading `## Exercise 2 · Title`, the line `> Difficulty ●●○○○ · Importance ●●●●○ · about 15 minutes · 4 points`, and
three hints in folds; the points are those of the graded cells up to the next card. tests/test_lint_labs.py proves all rules red.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from nbformat import NotebookNode

from tools import lint_notebooks as lessons
from tools.lint_notebooks import Finding
from utils.labs import cells

MOST_MINUTES = 90
LINES = {"test": 36, "solution": 36, "free": 14}  # of code, by what a cell is for
CARD = re.compile(r"^## Exercise (\d+) · \S.*$", re.MULTILINE)
MARKS = re.compile(r"^> Difficulty [●○]{5} · Importance [●○]{5} · about (\d+) minutes · (\d+) points?$", re.MULTILINE)
HINTS = ("Hint 1: a question", "Hint 2: an idea", "Hint 3: a skeleton")
BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
STRICT = {"strict.equal", "strict.close", "strict.kind", "strict.raises"}


def lint(nb: NotebookNode) -> Iterator[Finding]:
    """Every broken rule of one lab's source, as (rule, cell id, what)."""
    yield from lessons.whole_notebook(nb)
    yield from lessons.first_cells(nb)
    yield from cards(nb)
    yield from ends(nb)
    for cell in nb.cells:
        where = cell.get("id", "")
        for rule, what in cell_rules(cell):
            yield rule, where, what


def role(cell: NotebookNode) -> cells.LabCell | None:
    """What nbgrader knows of a cell, or None."""
    return next(iter(cells.known({"cells": [cell]})), None)


# ------------------------------------------------------------------------------------------------ the lab as a whole


def cards(nb: NotebookNode) -> Iterator[Finding]:
    """Minutes and points on the cards, against the limit and against the graded cells below each."""
    minutes, numbers, open_card, told, counted = 0, [], "", 0, 0.0
    for cell in [*nb.cells, None]:
        found = None if cell is None or cell.cell_type != "markdown" else CARD.search(cell.source)
        if cell is None or found:
            if open_card and told != counted:
                yield "points", open_card, f"the card says {told} points, the cells below it {counted:g}"
            if cell is None:
                break
            marks = MARKS.search(cell.source)
            if not marks:
                yield "card", cell.id, "no line `> Difficulty ●●○○○ · Importance ●●●●○ · about 15 minutes · 4 points`"
            open_card, told, counted = cell.id, int(marks[2]) if marks else 0, 0.0
            minutes += int(marks[1]) if marks else 0
            numbers.append(int(found[1]))
            summaries = re.findall(r"<summary>(.*?)</summary>", cell.source)
            if role(cell) is None and tuple(s for s in summaries if s.startswith("Hint")) not in (HINTS, ()):
                yield "hints", cell.id, f"the hints are {summaries}, not {list(HINTS)}"
        elif (known := role(cell)) and known.grade:
            if not open_card:
                yield "card", cell.id, "graded, and no card stands above it"
            counted += known.points
            if known.test and not any(h in _source_of(nb, open_card) for h in HINTS):
                yield "hints", open_card, "an exercise with code has three hints"
    if minutes > MOST_MINUTES:
        yield "minutes", "", f"{minutes} minutes on the cards; at most {MOST_MINUTES}"
    if numbers != list(range(1, len(numbers) + 1)):
        yield "card", "", f"the exercises are numbered {numbers}"
    if not any((known := role(cell)) and known.by_hand and known.points == 3 for cell in nb.cells):
        yield "written", "", "no written answer with 3 points"


def _source_of(nb: NotebookNode, cell_id: str) -> str:
    return next((cell.source for cell in nb.cells if cell.get("id") == cell_id), "")


def ends(nb: NotebookNode) -> Iterator[Finding]:
    """The first two code cells are locked; the last counts the points."""
    code = [cell for cell in nb.cells if cell.cell_type == "code"]
    for cell in code[:2]:
        known = role(cell)
        if known is None or not known.locked or known.id not in ("setup", "imports"):
            yield "locked", cell.get("id", ""), "the cells `setup` and `imports` are locked: tests rely on them"
    if not code or not re.fullmatch(r'check_my_lab\("\w+"\)', code[-1].source) or code[-1] is not nb.cells[-1]:
        yield "last-cell", "", 'the last cell is check_my_lab("the lab")'


# ------------------------------------------------------------------------------------------------ one cell


def cell_rules(cell: NotebookNode) -> Iterator[tuple[str, str]]:
    yield from lessons.tag_rules(cell)
    yield from lessons.readable(cell.source)
    known = role(cell)
    if "nbgrader" in cell.metadata and known is None:
        yield "grade-id", "nbgrader metadata without a grade id"
    if known and known.id != cell.get("id"):
        yield "grade-id", f"the grade id is {known.id!r}; a cell has one name"
    if known and known.id != known.id.replace("-", "_"):
        yield "grade-id", "a grade id is lower case with underscores"
    if cell.cell_type == "markdown":
        yield from lessons.pictures(cell.source)
        if known and known.by_hand and not (BEGIN in cell.source and END in cell.source):
            yield "stub", f"the model answer stands between {BEGIN} and {END}"
        return
    kind = "test" if known and known.test else "solution" if known and known.solution else "free"
    yield from lessons.code_rules(cell, LINES[kind])
    yield from lessons.output_rules(cell)
    if kind == "test":
        yield from test_rules(cell)
    elif kind == "solution":
        yield from stub_rules(cell)


def test_rules(cell: NotebookNode) -> Iterator[tuple[str, str]]:
    """A visible assert that explains; hidden tests; nothing that nbgrader would read as partial credit."""
    shown = cells.visible(cell.source)
    if shown == cell.source.rstrip():
        yield "hidden", "no hidden tests: the visible ones alone can be answered by heart"
    for part, name in ((shown, "visible"), (cell.source, "whole")):
        try:
            tree = ast.parse(part)
        except SyntaxError:
            yield "assert", f"the {name} test is no Python of its own"
            return
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            yield "assert", f"the {name} test ends in a bare expression: nbgrader takes its value for partial credit"
    asserts = [node for node in ast.walk(ast.parse(shown)) if isinstance(node, ast.Assert)]
    if not asserts:
        yield "assert", "no visible assert"
    for node in asserts:
        if node.msg is None and not all(_explains(part) for part in _parts(node.test)):
            yield "assert", f"line {node.lineno}: an assert without a message that says what a failure means"


def _parts(test: ast.expr) -> list[ast.expr]:
    return test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]


def _explains(test: ast.expr) -> bool:
    """True for a call of one of utils/labs/strict.py's comparisons, which take the message themselves."""
    return isinstance(test, ast.Call) and ast.unparse(test.func) in STRICT and len(test.args) >= 3


def stub_rules(cell: NotebookNode) -> Iterator[tuple[str, str]]:
    """A function with a docstring that says what comes in and what goes out, its body marked as the solution."""
    if cell.source.count(BEGIN) != cell.source.count(END) or BEGIN not in cell.source:
        yield "stub", f"no {BEGIN} … {END}: the whole cell would be released as a bare stub"
    tree = lessons.parsed(cell)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)] if tree else []
    if tree and len(functions) != len(tree.body):
        yield "stub", "a stub defines functions and nothing else: it must run before it is written"
    for function in functions:
        doc = ast.get_docstring(function) or ""
        if len(doc.splitlines()) < 3 or "Returns" not in doc:
            yield "stub", f"{function.name}: its docstring must say what comes in (with units) and what it Returns"
        for argument in function.args.args:
            if not re.search(rf"\b{argument.arg}\b", doc):
                yield "stub", f"{function.name}: its docstring does not mention {argument.arg}"
