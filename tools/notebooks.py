"""`python -m tools.notebooks run|format|lint|new FILE…`: everything that is done to a lesson's or a lab's notebook.

    run      execute on a fresh kernel, strip what is noise, write the canonical form  (--check: write nothing)
    format   canonical form and ruff's formatting of the code cells, without running   (--check: write nothing)
    lint     the rules a committed lesson keeps (tools/lint.py); all notebooks when none is named
    new      an empty lesson with the standard first cell

Exit 0 when all is well, 1 when a notebook fails or is not in shape, 2 for a wrong command line.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from nbformat import NotebookNode

from tools import badges, canonical
from tools.first_cell import first_cell
from utils import address
from utils.address import Address

REPO = Path(__file__).resolve().parent.parent


def write(path: Path, text: str) -> None:
    """Replace `path` by `text` in one step, so that a crash leaves the old notebook and never half of one."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".tmp", delete=False, encoding="utf-8") as file:
        file.write(text)
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)


def with_standard_cells(nb, path: Path, where: Address | None = None):
    """`nb`, the notebook at `path`, with the standard text in its cell `setup` and the badges in its title cell.

    So one edit of tools/first_cell.py or of the address reaches every notebook. `where` is the address (default: the setting).
    Badges are written into notebooks of the repository only: elsewhere there is nothing that they could open.
    """
    where = address.read() if where is None else where
    inside = path.resolve().is_relative_to(REPO)
    for cell in nb.cells:
        if cell.get("id") == "setup" and cell.cell_type == "code":
            cell.source = first_cell(where)
        elif cell.get("id") == "title" and cell.cell_type == "markdown" and inside:
            cell.source = badges.written(cell.source, where, badges.opened(path.resolve()))
    return nb


def run(path: Path, *, check: bool, timeout_s: float) -> bool:
    """Execute one notebook; True when every cell ran. Writes it back unless `check`."""
    began = time.perf_counter()
    nb = executed(path, timeout_s=timeout_s)
    took = time.perf_counter() - began
    if nb is None:
        return False
    if not check:
        write(path, canonical.dumps(nb))
    print(f"{path}: {sum(c.cell_type == 'code' for c in nb.cells)} code cells ran in {took:.1f} s{'' if check else ', written'}")
    return True


def executed(path: Path, *, timeout_s: float, on_cell: Callable[[int, int], None] | None = None) -> NotebookNode | None:
    """The notebook as a fresh run leaves it, in canonical form; None, with the reason on stderr, when a cell failed.

    `on_cell(index, of)` is called before each cell.
    """
    from nbclient.exceptions import CellControlSignal, CellExecutionError, DeadKernelError

    from tools.execute import execute

    nb = with_standard_cells(canonical.loads(path.read_text(encoding="utf-8")), path)
    for cell in nb.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    at = [0]

    def begins(index: int) -> None:
        at[0] = index
        if on_cell is not None:
            on_cell(index, len(nb.cells))

    try:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:  # what the author once answered must not show
            execute(nb, path.resolve().parent, timeout_s=timeout_s, env={**os.environ, "ONE_ADD_HOME": home}, on_cell=begins)
    except (CellExecutionError, CellControlSignal, DeadKernelError, TimeoutError) as error:
        print(
            f"{path}: cell {at[0]} ({nb.cells[at[0]].get('id', 'no id')}) failed: {type(error).__name__}\n{error}",
            file=sys.stderr,
        )
        return None
    return canonical.canonical(nb)


def format_(path: Path, *, check: bool) -> bool:
    """Bring one notebook into canonical form; with `check` only say whether it is. True when it is (or was written)."""
    text = path.read_text(encoding="utf-8")
    wanted = _ruff_format(canonical.dumps(canonical.canonical(with_standard_cells(canonical.loads(text), path))), path)
    if text == wanted:
        return True
    if check:
        print(f"{path}: not in canonical form: run `python -m tools.notebooks format {path}`", file=sys.stderr)
        return False
    write(path, wanted)
    print(f"{path}: formatted")
    return True


def _ruff_format(text: str, path: Path) -> str:
    """The notebook with its code cells formatted by ruff, in canonical form again."""
    ruff = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--quiet", "--stdin-filename", str(path), "-"],
        input=text,
        capture_output=True,
        text=True,
        cwd=REPO,
    )
    if ruff.returncode:
        raise ValueError(f"ruff cannot format it: {ruff.stderr.strip()}")
    return canonical.dumps(canonical.canonical(canonical.loads(ruff.stdout)))


def new(path: Path) -> bool:
    """Write an empty lesson with the standard first cell; refuses to overwrite."""
    import nbformat

    if path.exists():
        print(f"{path} exists already: remove it first", file=sys.stderr)
        return False
    nb = nbformat.v4.new_notebook()
    nb.cells = [
        nbformat.v4.new_markdown_cell(f"# {path.stem.replace('_', ' ')}", id="title", metadata={"tags": ["core"]}),
        nbformat.v4.new_code_cell(id="setup", metadata={"tags": ["core"]}),
    ]
    write(path, canonical.dumps(canonical.canonical(with_standard_cells(nb, path))))
    print(f"{path}: written; run it with `python -m tools.notebooks run {path}`")
    return True


def lint(paths: list[Path]) -> bool:
    """Print each broken rule as `file: rule: what`; True when there is none."""
    from tools.lint import lint_notebook

    problems = [problem for path in paths for problem in lint_notebook(path)]
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"{len(paths)} notebooks, {len(problems)} problems")
    return not problems


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.notebooks", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (
        ("run", "execute fresh and strip"),
        ("format", "canonical form"),
        ("lint", "rules"),
        ("new", "empty lesson"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("files", nargs="+" if name == "new" else "*", type=Path, metavar="FILE")
        if name in ("run", "format"):
            command.add_argument("--check", action="store_true", help="change no file")
        if name == "run":
            command.add_argument("--timeout", type=float, default=300, metavar="S", help="seconds a cell may take (300)")
    args = parser.parse_args(argv)
    files = args.files or [*sorted((REPO / "notebooks").glob("*.ipynb")), *sorted((REPO / "solutions").glob("*/*.ipynb"))]
    absent = [f for f in files if args.command != "new" and not f.is_file()]
    if absent:
        parser.error(f"no such notebook: {', '.join(map(str, absent))}")
    try:
        if args.command == "lint":
            return 0 if lint(files) else 1
        if args.command == "run":
            results = [run(f, check=args.check, timeout_s=args.timeout) for f in files]
        elif args.command == "format":
            results = [format_(f, check=args.check) for f in files]
        else:
            results = [new(f) for f in files]
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
