"""Every rule for the source of a lab: silent on the labs there are, red on the one bad thing it is there for."""

from __future__ import annotations

import pytest

from grading import course
from tests.notebook_factory import cell, code, markdown
from tools import canonical, lint, lint_labs

LAB = course.labs()[0]


def lab():
    return canonical.loads(course.source(LAB).read_text(encoding="utf-8"))


def rules(nb) -> set[str]:
    return {rule for rule, _, _ in lint_labs.lint(nb)}


def first(nb, wanted):
    return next(c for c in nb.cells if (known := lint_labs.role(c)) and wanted(known))


@pytest.mark.parametrize("name", course.labs())
def test_a_lab_breaks_no_rule(name):
    assert lint.lint_notebook(course.source(name)) == []


def _replace(pick, old, new, count=1):
    def plant(nb):
        one = pick(nb)
        assert old in one.source
        one.source = one.source.replace(old, new, count)

    return plant


def card(nb):
    return next(c for c in nb.cells if lint_labs.CARD.search(c.source))


def a_test(nb):
    return first(nb, lambda known: known.test)


def stub(nb):
    return first(nb, lambda known: known.solution and known.kind == "code")


def _append(pick, text):
    return lambda nb: pick(nb).update(source=pick(nb).source + text)


def _without_messages(nb):
    one = a_test(nb)
    one.source = "assert True\n" + one.source[one.source.index("### BEGIN HIDDEN") :]


PLANTED = [
    ("too many minutes", "minutes", _replace(card, "about 15 minutes", "about 75 minutes")),
    ("points that do not add up", "points", _replace(card, "· 4 points", "· 9 points")),
    ("a card without its line", "card", _replace(card, "> Difficulty", "Difficulty")),
    ("exercises out of order", "card", _replace(card, "## Exercise 1", "## Exercise 7")),
    ("a graded cell above every card", "card", lambda nb: nb.cells.insert(2, nb.cells.pop(nb.cells.index(a_test(nb))))),
    ("a hint too few", "hints", _replace(card, "Hint 3: a skeleton", "A thought")),
    ("no hint at all", "hints", lambda nb: card(nb).update(source=card(nb).source.split("<details>")[0])),
    ("no written answer", "written", lambda nb: nb.cells.remove(first(nb, lambda known: known.by_hand))),
    ("unlocked imports", "locked", lambda nb: cell(nb, "imports").metadata.nbgrader.update(locked=False)),
    ("no count at the end", "last-cell", lambda nb: nb.cells.append(markdown("Done.", "done"))),
    ("another last call", "last-cell", lambda nb: cell(nb, "check").update(source="print(1)")),
    ("a cell with two names", "grade-id", lambda nb: a_test(nb).metadata.nbgrader.update(grade_id="other")),
    ("a role without a name", "grade-id", lambda nb: a_test(nb).metadata.nbgrader.pop("grade_id")),
    ("no hidden tests", "hidden", lambda nb: a_test(nb).update(source="assert 1, 'one'")),
    ("an assert without words", "assert", _without_messages),
    ("no visible assert", "assert", _replace(a_test, "assert ", "bool ")),
    ("a value at the end", "assert", _append(a_test, "\n1")),
    ("no solution marked", "stub", _replace(stub, "### BEGIN SOLUTION", "# solution")),
    ("no word on what it returns", "stub", _replace(stub, "Returns", "Gives")),
    ("an argument nobody explains", "stub", _replace(stub, "(machine, call, n)", "(machine, call, n, extra)")),
    ("a stub that does more", "stub", _append(stub, "\ntimed(1, 2, 3)")),
    ("a model answer in the open", "stub", lambda nb: first(nb, lambda k: k.by_hand).update(source="The clock stopped.")),
    ("a stub too long", "code-lines", _append(stub, "\ndef f(n):\n" + "\n".join(f"    n += {i}" for i in range(40)))),
    ("a test too long", "code-lines", _append(a_test, "".join(f"\nn = {i}" for i in range(40)))),
    ("a path of this machine", "machine", _append(card, "\nSee /" + "home/ann/lab.")),
    ("a shell line", "plain-python", _append(a_test, "\n!ls")),
    ("another first cell", "first-cell", lambda nb: cell(nb, "setup").update(source="import torch")),
    ("work among the imports", "imports", _append(lambda nb: cell(nb, "imports"), "\nprint(1)")),
    ("neither core nor deeper", "core-or-deeper", lambda nb: nb.cells.insert(-1, code("1", "loose", tag="maybe"))),
    ("a stripped notebook", "executed", lambda nb: a_test(nb).update(execution_count=None)),
]


@pytest.mark.parametrize(("rule", "plant"), [p[1:] for p in PLANTED], ids=[p[0] for p in PLANTED])
def test_a_planted_fault_is_seen(rule, plant):
    nb = lab()
    assert rules(nb) == set()
    plant(nb)
    assert rule in rules(nb)


def _repository(root, row, released=True):
    for folder in ("solutions", "labs") if released else ("solutions",):
        path = root / folder / "lab01_x" / "lab01_x.ipynb"
        path.parent.mkdir(parents=True)
        path.write_text("{}", encoding="utf-8")
    (root / "README.md").write_text(row, encoding="utf-8")
    return list(lint.lab_table(root))


ROW = "| lab 1 | [X](labs/lab01_x/lab01_x.ipynb) | it |\n"


@pytest.mark.parametrize(
    ("row", "released", "said"),
    [
        (ROW, True, None),
        ("", True, "linked 0 times"),
        (ROW * 2, True, "linked 2 times"),
        (ROW, False, "only in one of solutions/ and labs/"),
        (ROW + ROW.replace("lab01_x", "lab02_y"), True, "there is no such lab"),
    ],
)
def test_the_readmes_table_of_labs(tmp_path, row, released, said):
    found = _repository(tmp_path, row, released)
    assert any(said in what for what in found) if said else found == []
