"""What runs inside one op: schema, key sets, table, call tree with instructions, backtrace, timeline. The room's front door.

`trace("a + b")` puts the parts together. What needs a tool that is missing here, or more than a second, is shown from the
committed recordings and says so; `live=True` counts with callgrind in a child process (20 to 40 s, once: it is cached).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from utils.measure import backtrace as gdb
from utils.measure import callgrind, fold_checks, statements, tree_store
from utils.measure import fold_tree as folding
from utils.measure.backtrace import Backtrace, BacktraceError, Frame
from utils.measure.callgrind import CallgrindError, Statement
from utils.measure.dispatch_trace import Dispatch, dispatch_trace
from utils.measure.fold_tree import CallTree, Fold, FoldRow, Rules
from utils.measure.timeline import Launch, Segment, Timeline, TimelineError, record_timeline, timeline, to_perfetto

__all__ = [
    "Backtrace",
    "CallTree",
    "Dispatch",
    "Fold",
    "FoldRow",
    "Frame",
    "Launch",
    "Rules",
    "Segment",
    "Timeline",
    "TimelineError",
    "Trace",
    "backtrace",
    "call_tree",
    "dispatch_trace",
    "fold",
    "live_trees",
    "load_rules",
    "record_timeline",
    "record_trees",
    "recorded_trees",
    "timeline",
    "to_perfetto",
    "trace",
]

Progress = Callable[[float, str], None]
RECORDED = (("a + b", False), ("a + b", True), ("x @ w", False))
LIBRARY_NOTE = (
    "valgrind shows the program another CPU (an Intel one without AVX-512), and the GEMM library chooses its code by the CPU:"
    " the path inside the library is not the one that runs natively"
)


@dataclass(frozen=True)
class Trace:
    """One expression's path: `dispatch` is live, `tree` is the committed one unless a live one was asked for.

    `tree_note` says in words why this tree and no other is here, or why there is none; empty when there is nothing to say.
    """

    dispatch: Dispatch
    tree: CallTree | None
    tree_note: str

    @cached_property
    def fold(self) -> Fold | None:
        """The tree's instructions in the rows of `stages.yml`; None without a tree."""
        return None if self.tree is None else fold(self.tree)

    def to_dict(self) -> dict:
        """Plain JSON of all of it; the tree as rows and lines, not as a graph."""
        tree = self.tree
        lines = [] if tree is None else [[depth, name, round(cost, 1), round(own, 1)] for depth, name, cost, own in tree.lines()]
        return {
            "dispatch": self.dispatch.to_dict(),
            "tree": None if tree is None else {"label": tree.label(), "notes": list(tree.notes), "lines": lines},
            "fold": None if self.fold is None else self.fold.to_dict(),
            "tree_note": self.tree_note,
        }


def trace(
    expression: str = "a + b",
    *,
    grad: bool = False,
    arguments: dict | None = None,
    device: str = "cpu",
    live: bool = False,
    progress: Progress | None = None,
) -> Trace:
    """Trace one expression such as "a + b" or "x @ w".

    `arguments` are its tensors by name; left out, small ones are made (`statements.SHAPES`), requiring grad when `grad`.
    `live` counts its instructions here instead of showing the committed tree. The call tree is that of the small tensors on
    the CPU, whatever the arguments and the device.
    Raises ValueError, in words, for an expression that cannot be evaluated; nothing is raised for a tool that is missing.
    """
    dispatch = dispatch_trace(expression, grad=grad, arguments=arguments, device=device)
    tree, note = call_tree(expression, grad=grad, live=live, progress=progress)
    if tree is not None and dispatch.op and not fold_checks.runs(tree, dispatch.op):
        tree, note = None, f"the tree called {tree.statement!r} does not run {dispatch.op}: it is not shown"
    if tree is not None and dispatch.device != "cpu":
        note = " ".join(filter(None, [note, "the tree is that of the same expression on the CPU"]))
    return Trace(dispatch, tree, note)


# ------------------------------------------------------------------------------------------------ the call tree


def call_tree(
    expression: str, *, grad: bool = False, live: bool = False, progress: Progress | None = None
) -> tuple[CallTree | None, str]:
    """(the call tree, a note in words). The committed tree of this torch (or the newest, which the note says) by default;
    with `live` one counted here, and where that cannot be had the committed one with the reason. Never raises for a tool."""
    name = statements.key(expression, grad)
    if not live:
        return _recorded(name)
    try:
        return live_trees([(expression, grad)], progress)[name], ""
    except (CallgrindError, ValueError) as error:
        tree, note = _recorded(name)
        return tree, " ".join(filter(None, [f"not counted here: {error}.", note]))


def recorded_trees() -> dict[str, CallTree]:
    """The committed trees for this torch's minor version, else the newest: "a + b", "a + b, grad", "x @ w"."""
    return tree_store.trees_of(tree_store.recorded(_torch_version()))


def _recorded(name: str) -> tuple[CallTree | None, str]:
    tree = recorded_trees().get(name)
    if tree is None:
        return None, f"no tree of {name!r} is recorded; --live (in Python live=True) counts one here, with valgrind"
    here, there = _torch_version(), str(tree.where["torch"])
    if here.split(".")[:2] != there.split(".")[:2]:
        return tree, f"no tree is recorded for torch {here}: this is torch {there}'s"
    return tree, ""


def live_trees(wanted: Iterable[tuple[str, bool]], progress: Progress | None = None) -> dict[str, CallTree]:
    """Call trees counted here, by `statements.key(expression, grad)`: all that the cache lacks in one child process.

    Raises CallgrindError when nothing can be counted here, ValueError for an expression with unknown names.
    """
    todo, out = [], {}
    for expression, grad in wanted:
        statement = statement_of(expression, grad)
        known = tree_store.cached(statement.name, callgrind.program_text([statement]))
        if known is None:
            todo.append(statement)
        else:
            out[statement.name] = _noted(known)
    if todo:
        for name, tree in callgrind.count(todo, progress).items():
            statement = next(s for s in todo if s.name == name)
            tree_store.keep(name, callgrind.program_text([statement]), tree)
            out[name] = _noted(tree)
    elif progress:
        progress(1.0, "counted before")
    return out


def statement_of(expression: str, grad: bool = False) -> Statement:
    """The statement that is counted for an expression: its result is kept under a name, as in `c = a + b`."""
    code = f"result = {statements.normal(expression)}"
    return Statement(statements.key(expression, grad), code, statements.setup(expression, grad))


def _noted(tree: CallTree) -> CallTree:
    """The tree with a note where a library chose its code by the CPU that valgrind shows it."""
    library = any(function.startswith(("mkl_", "SGEMM", "sgemm_", "cblas_")) for function in tree.self_cost)
    return replace(tree, notes=(LIBRARY_NOTE,)) if library else tree


def load_rules(torch_version: str | None = None) -> Rules:
    """The rows of `stages.yml` for a torch version (this one's when left out)."""
    from utils.model import schemas

    return folding.rules_from(schemas.load("stages"), torch_version or _torch_version())


def fold(tree: CallTree, rules: Rules | None = None) -> Fold:
    """The tree's instructions, each in one row of the rules (those of the tree's own torch when left out)."""
    return folding.fold(tree, rules or load_rules(str(tree.where["torch"])))


def record_trees(folder: Path | None = None, progress: Progress | None = None) -> Path:
    """Count the statements of `RECORDED` here, stop two of them in gdb, and write the file that is committed. Its path."""
    report = progress or (lambda done, text: None)
    trees = callgrind.count([statement_of(*one) for one in RECORDED], lambda done, text: report(0.8 * done, text))
    backtraces = {}
    for expression in dict.fromkeys(expression for expression, _ in RECORDED):
        report(0.85, f"gdb: {expression}")
        backtraces[expression] = _live_backtrace(expression, None)
    path = tree_store.write({name: _noted(tree) for name, tree in trees.items()}, backtraces, folder)
    report(1.0, "written")
    return path


# ------------------------------------------------------------------------------------------------ the backtrace


def backtrace(expression: str = "a + b", *, live: bool = True, progress: Progress | None = None) -> Backtrace | None:
    """The frames from the kernel up to the interpreter: from gdb in a child process (some 5 to 20 s), else the committed ones
    with the reason in `why`; None when neither can be had. The calling process is never attached to."""
    why = "" if live else "gdb was not asked"
    if live:
        try:
            return _live_backtrace(expression, progress)
        except (BacktraceError, ValueError) as error:
            why = str(error)
    found = tree_store.backtraces_of(tree_store.recorded(_torch_version())).get(statements.normal(expression))
    return None if found is None else replace(found, why=why)


def _live_backtrace(expression: str, progress: Progress | None) -> Backtrace:
    from utils.measure.fingerprints import fingerprint

    ops = dispatch_trace(expression).ops
    stop = next((gdb.KERNELS[op.name] for op in ops if op.name in gdb.KERNELS), None)
    if stop is None:
        raise BacktraceError(f"which C++ function is the kernel of {expression} is not known here")
    frames = gdb.frames_of(expression, stop, progress)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Backtrace(statements.normal(expression), stop, frames, "live", fingerprint(), now)


def _torch_version() -> str:
    import torch

    return str(torch.__version__)
