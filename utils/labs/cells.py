"""The graded cells of a lab's notebook file: which are there, and which a learner lost, copied or edited. No nbgrader."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from utils.paths import REPO

LABS = REPO / "labs"
BY_HAND = "read and graded by a person"
NOTHING_WRITTEN = f"nothing written yet; {BY_HAND}"
HANDED_OUT = "handed_out.json"  # beside each lab: its cells as released, for who works in the lab's own file
_HIDDEN = re.compile(r"^[ \t]*#+ *BEGIN HIDDEN TESTS.*?^[ \t]*#+ *END HIDDEN TESTS[^\n]*\n?", re.DOTALL | re.MULTILINE)


class NoNotebook(ValueError):
    """The file is no notebook that can be read; the message says why, and names it."""


@dataclass(frozen=True)
class LabCell:
    """One cell that nbgrader knows: its id, what it is for, its points and its source."""

    id: str
    kind: str  # "code" or "markdown"
    source: str
    points: float = 0.0
    grade: bool = False
    solution: bool = False
    locked: bool = False

    @property
    def test(self) -> bool:
        """A cell that is graded by running it."""
        return self.grade and not self.solution

    @property
    def by_hand(self) -> bool:
        """A cell that a person reads and grades."""
        return self.grade and self.solution

    @property
    def fixed(self) -> bool:
        """A cell that the learner must leave as it is."""
        return self.test or (self.locked and not self.solution)


@dataclass(frozen=True)
class Damage:
    """What a notebook lost against its lab: ids of lost and copied cells, of fixed cells that were edited, of changed points."""

    lost: tuple[str, ...] = ()
    copied: tuple[str, ...] = ()
    edited: tuple[str, ...] = ()
    points: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.lost or self.copied or self.edited or self.points)

    def sentences(self) -> Iterator[str]:
        """One sentence for each kind of damage, without what to do about it."""
        for ids, words in (
            (self.lost, "lost (deleted, or its nbgrader metadata is gone)"),
            (self.copied, "there more than once"),
            (self.edited, "changed, though it is not yours to change"),
            (self.points, "given other points or another role"),
        ):
            if ids:
                yield f"{', '.join(ids)}: {words}"


def read(path: Path) -> dict:
    """The notebook at `path` as JSON data. Raises NoNotebook in words when there is none or it is damaged."""
    path = Path(path)
    if not path.exists():
        raise NoNotebook(f"{path}: no such file")
    if path.is_dir():
        raise NoNotebook(f"{path}: a folder, not a notebook")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise NoNotebook(f"{path}: cannot be read ({error})") from error
    return parsed(content, str(path))


def parsed(content: bytes, name: str) -> dict:
    """The notebook whose file holds `content`, as JSON data. Raises NoNotebook, which says `name`, when it is damaged."""
    try:
        nb = json.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise NoNotebook(f"{name}: cannot be read ({error})") from error
    except (ValueError, RecursionError) as error:  # a number of more digits than Python takes is a ValueError too
        raise NoNotebook(f"{name}: not a notebook (its JSON is damaged: {error})") from error
    return checked(nb, name)


def checked(nb, name: str) -> dict:
    """`nb` when it has the shape of a version 4 notebook. Raises NoNotebook otherwise."""
    if not isinstance(nb, dict) or not isinstance(nb.get("cells"), list):
        raise NoNotebook(f"{name}: not a notebook (JSON without a list of cells)")
    if nb.get("nbformat") != 4:
        raise NoNotebook(f"{name}: notebook format {nb.get('nbformat')!r}; only version 4 is known here")
    for cell in nb["cells"]:
        source = cell.get("source", "") if isinstance(cell, dict) else None
        if not isinstance(cell.get("metadata", {}) if isinstance(cell, dict) else None, dict):
            raise NoNotebook(f"{name}: not a notebook (a cell without metadata)")
        if not isinstance(source, str) and not (isinstance(source, list) and all(isinstance(s, str) for s in source)):
            raise NoNotebook(f"{name}: not a notebook (a cell whose source is no text)")
    return nb


def known(nb: dict) -> list[LabCell]:
    """The cells with an nbgrader id, in order; copies included."""
    found = []
    for cell in nb["cells"]:
        nbgrader = cell.get("metadata", {}).get("nbgrader")
        if not isinstance(nbgrader, dict) or not isinstance(nbgrader.get("grade_id"), str):
            continue
        points = nbgrader.get("points", 0)
        found.append(
            LabCell(
                nbgrader["grade_id"],
                cell.get("cell_type", "code"),
                source(cell),
                float(points) if isinstance(points, (int, float)) else float("nan"),
                nbgrader.get("grade") is True,
                nbgrader.get("solution") is True,
                nbgrader.get("locked") is True,
            )
        )
    return found


def source(cell: dict) -> str:
    """The text of a cell, which a notebook file may keep in lines."""
    text = cell.get("source", "")
    return text if isinstance(text, str) else "".join(text)


def defines(source: str) -> set[str]:
    """The names that a cell's Python gives to the cells below it; none when it does not parse."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return set()
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        else:
            names |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return names


def visible(test: str) -> str:
    """A test cell's source as learners see it: without its hidden tests."""
    return _HIDDEN.sub("", test).rstrip()


def released(lab: str) -> list[LabCell]:
    """The known cells of the lab as it was handed out. Raises NoNotebook when there is no such lab."""
    path = LABS / lab / HANDED_OUT
    if not path.is_file():
        raise NoNotebook(f"there is no lab {lab!r}; there are: {', '.join(names()) or 'none'}")
    return [LabCell(**cell) for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]]


def handed_out(lab: list[LabCell]) -> str:
    """The text of the file that keeps a released lab's cells: what `released` reads."""
    return json.dumps({"cells": [asdict(cell) for cell in lab]}, indent=1, ensure_ascii=False) + "\n"


def belongs(nb: dict, lab: list[LabCell]) -> bool:
    """Whether `nb` is a notebook of `lab`: it holds a cell of it that is graded or answered, and most of its known cells are the
    lab's. Labs share some ids (`price`, `written_answer`), so one alone says nothing."""
    ids = {cell.id for cell in known(nb)}
    every, own = {cell.id for cell in lab}, {cell.id for cell in lab if cell.grade or cell.solution}
    return bool(ids & own) and 2 * len(ids & every) > len(ids)


def names() -> list[str]:
    """The labs there are, by name."""
    return sorted(path.parent.name for path in LABS.glob(f"*/{HANDED_OUT}"))


def damage(lab: list[LabCell], handed_in: list[LabCell]) -> Damage:
    """What `handed_in` lost against `lab`: learners may add cells of their own, and change their answers only."""
    there: dict[str, list[LabCell]] = {}
    for cell in handed_in:
        there.setdefault(cell.id, []).append(cell)
    lost, copied, edited, points = [], [], [], []
    for cell in lab:
        copies = there.get(cell.id, [])
        if not copies:
            lost.append(cell.id)
            continue
        if len(copies) > 1:
            copied.append(cell.id)
        changed = cell.fixed and any(visible(c.source) != visible(cell.source) for c in copies)
        if changed or any(c.kind != cell.kind for c in copies):
            edited.append(cell.id)
        if any((c.points, c.grade, c.solution) != (cell.points, cell.grade, cell.solution) for c in copies):
            points.append(cell.id)
    return Damage(tuple(lost), tuple(copied), tuple(edited), tuple(points))
