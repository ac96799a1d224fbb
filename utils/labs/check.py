"""`check_my_lab(lab)`, the last cell of each lab: counts visible points, looks for lost or copied cells, says how to hand in.

It needs nothing of nbgrader. The visible tests are the released ones, run again in a copy of the session's namespace, so a test
cell that was edited or never run changes nothing. What it cannot see (hidden tests, written answers, an unsaved page), it says.
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import io
import os
import re
import sys
import warnings
from collections.abc import Iterator

from utils.labs import cells, find
from utils.labs.cells import LabCell
from utils.show.tables import Table

COLUMNS = {"part": "part", "points": "points", "visible": "visible tests"}


def check_my_lab(lab: str, notebook: str | os.PathLike | None = None) -> Table:
    """The visible points of `lab` in this session, and the state of its notebook file.

    notebook: the file to look at, where this session cannot tell (it says so). Raises cells.NoNotebook for an unknown lab.
    """
    handed_out = cells.released(lab)
    namespace = _namespace()
    tried = {**namespace, **_imports(handed_out)}
    found, why_not = _found(handed_out, notebook, namespace)
    in_file = {cell.id: cell.source for cell in cells.known(found.nb)} if found else {}
    rows, won = [], 0.0
    for cell in handed_out:
        if cell.test:
            said = verdict(cell, tried, handed_out, in_file)
            won += 0.0 if said else cell.points
            rows.append(
                {"part": cell.id, "points": f"{0 if said else cell.points:g} of {cell.points:g}", "visible": said or "pass"}
            )
        elif cell.by_hand:
            empty = in_file.get(cell.id, "…").strip() in ("", cell.source.strip())
            rows.append(
                {"part": cell.id, "points": f"? of {cell.points:g}", "visible": cells.NOTHING_WRITTEN if empty else cells.BY_HAND}
            )
    most = sum(c.points for c in handed_out if c.test)
    by_hand = sum(c.points for c in handed_out if c.by_hand)
    notes = [*(_about_the_file(handed_out, found, namespace) if found else [why_not]), _NOT_SEEN]
    caption = f"{lab}: {won:g} of {most:g} points by the visible tests" + (f", {by_hand:g} more by hand" if by_hand else "")
    return Table(rows, COLUMNS, caption, notes)


_NOT_SEEN = (
    "Not seen from here: the tests that run when you hand in (the same properties on other numbers), and whether everything runs "
    "from top to bottom on a fresh kernel. Restart and run all to see that."
)


def _namespace() -> dict:
    """What the reader's cells defined: the namespace of the running kernel, or of the main module."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell.user_ns if shell is not None else vars(sys.modules["__main__"])


def _imports(handed_out: list[LabCell]) -> dict:
    """The names that the lab's import cell gives, whatever the session made of them since: the grader does the same."""
    names: dict = {}
    for cell in handed_out:
        if cell.id == "imports":
            exec(compile(cell.source, "<imports>", "exec"), names)  # noqa: S102
    return names


def verdict(test: LabCell, namespace: dict, handed_out: list[LabCell], in_file: dict[str, str]) -> str:
    """ "" when the cell `test` passes on `namespace`, which it does not change; else why not, in one line.

    `handed_out` is the lab, `in_file` the cells of the reader's file by id: they say why a name is not there.
    """
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(test.source, f"<{test.id}>", "exec"), dict(namespace))  # noqa: S102  (the released test, no one else's)
    except NotImplementedError:
        return "not written yet"
    except UnboundLocalError as error:
        return f"UnboundLocalError: {_first_line(error)}"
    except NameError as error:
        return f"{_first_line(error)}{_why_no_name(error, handed_out, in_file, namespace)}"
    except AssertionError as error:
        return _first_line(error) or "a test fails"
    except (Exception, SystemExit) as error:
        return f"{type(error).__name__}: {_first_line(error)}"
    return ""


def _why_no_name(error: NameError, handed_out: list[LabCell], in_file: dict[str, str], namespace: dict) -> str:
    """What to do about a name that is not there: mend its cell, run it, or look at the spelling."""
    name = error.name or ""
    cell = next((c for c in handed_out if c.kind == "code" and not c.test and name in cells.defines(c.source)), None)
    if cell is None:
        return f", and no cell of the lab defines it: {_meant(name, error)}"
    for source in (*_last_run(name, namespace), in_file.get(cell.id, "")):
        if broken := _syntax_error(source):
            where = f" in line {broken.lineno}" if broken.lineno else ""
            return f": the cell {cell.id} does not run, because of a syntax error{where} ({broken.msg})"
    return ": run the cells above first"


def _meant(name: str, error: NameError) -> str:
    """The name in sight of the failing line that looks most like `name`, as a question."""
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    sight = [*step.tb_frame.f_locals, *step.tb_frame.f_globals] if step is not None else []
    near = difflib.get_close_matches(name, [n for n in sight if not n.startswith("_")], n=1)
    return f"did you mean {near[0]!r}?" if near else "a typo, or a cell of yours that was not run?"


def _last_run(name: str, namespace: dict) -> list[str]:
    """The last cell of this session that defines `name`, whether it ran or not."""
    begins = re.compile(rf"^\s*((async\s+)?def|class)\s+{re.escape(name)}\b|^{re.escape(name)}\s*=", re.MULTILINE)
    return [text for text in map(str, namespace.get("In", ())) if begins.search(text)][-1:]


def _syntax_error(source: str) -> SyntaxError | None:
    """Why a cell cannot even begin. One with a line of IPython's own (%, !) is taken for sound."""
    if re.search(r"^\s*[%!]", source, re.MULTILINE):
        return None
    try:
        with warnings.catch_warnings(action="ignore"):
            compile(source, "<cell>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except SyntaxError as error:
        return error
    except ValueError:
        return None
    return None


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), "")


def _found(handed_out: list[LabCell], named, namespace: dict) -> tuple[find.Found | None, str]:
    """The reader's file; or None, and why not."""
    try:
        return find.notebook(handed_out, named, namespace), ""
    except cells.NoNotebook as error:
        return None, f'The notebook file was not checked: {error}. Give its name: check_my_lab(…, "name.ipynb").'


def _about_the_file(handed_out: list[LabCell], found: find.Found, namespace: dict) -> Iterator[str]:
    handed_in = cells.known(found.nb)
    hurt = cells.damage(handed_out, handed_in)
    yield f"Looked at: {found.where}."
    for sentence in hurt.sentences():
        yield f"Damaged: {sentence}."
    if hurt:
        yield (
            "Put it right: take a fresh copy of the lab, paste your answers into its cells and hand that in. Of a copied cell "
            "delete all but the one that you mean."
        )
    else:
        yield "Every graded cell is there, once, and unchanged."
    if not found.live:
        yield from _unsaved(handed_in, namespace)
    if not hurt:  # a damaged file is not what to hand in
        file = "the downloaded .ipynb" if found.live else found.where
        yield f"To hand in: save, and give {file} to your instructor, as it is."


def _unsaved(handed_in: list[LabCell], namespace: dict) -> Iterator[str]:
    """Answers in the file that this session never ran: the page was not saved, or the cell was changed and not run."""
    ran = {str(source).strip() for source in namespace.get("In", ())}  # IPython drops a cell's empty first lines
    stale = [c.id for c in handed_in if c.solution and c.kind == "code" and c.source.strip() not in ran]
    if ran and stale:
        yield f"In the file {', '.join(stale)} is not what this session ran: save, run it, and check again."
