"""`python -m tools.lint`: every rule of the repository that ruff does not know, over the files that git tracks.

Prints each broken rule as `file: rule: what`; exit 1 when there is one. The rules: lessons (tools/lint_notebooks.py), labs
(tools/lint_labs.py), code (tools/lint_code.py), links (tools/lint_links.py), sizes, machine paths, the README's tables.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tools import canonical, lint_code, lint_labs, lint_links, lint_notebooks

REPO = Path(__file__).resolve().parent.parent
MAX_BYTES = 2_000_000
PAGES = ("README.md", "CONTRIBUTING.md", "INSTRUCTOR.md")
# A path that only one machine has. Split, so that this line does not find itself.
_OWN_PATH = re.compile(r"(?<![\w.~-])/(?:" + "root|home|Users|work" + r")/[\w.-]+")
_TEXT = {".py", ".md", ".yml", ".yaml", ".toml", ".json", ".ipynb", ".cpp", ".cu", ".h", ".sh", ".svg", ".cfg", ".txt", ""}


def tracked(repo: Path = REPO) -> list[Path]:
    """The files that git tracks or would (new and not ignored), as paths relative to `repo`."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=repo,
        capture_output=True,
        text=True,
        check=True,
    )
    return sorted({Path(name) for name in listed.stdout.split("\0") if name and (repo / name).is_file()})


def lint_repository(repo: Path = REPO) -> list[str]:
    """Every problem of the repository, as lines."""
    return [f"{path}: {rule}: {what}" for path, rule, what in problems(repo, tracked(repo))]


def lint_notebook(path: Path) -> list[str]:
    """Every problem of one notebook, as lines."""
    return [
        f"{path}: {rule}: {'cell ' + cell + ': ' if cell else ''}{what}"
        for rule, cell, what in lint_notebooks.lint_file(path, _rules(path))
    ]


def _rules(path: Path):
    """A lab's source has rules of its own; every other notebook is a lesson."""
    return lint_labs.lint if path.resolve().parent.parent.name == "solutions" else lint_notebooks.lint


def problems(repo: Path, files: list[Path]) -> Iterator[tuple[Path, str, str]]:
    for path in files:
        full = repo / path
        if full.stat().st_size > MAX_BYTES:
            yield path, "size", f"{full.stat().st_size:,} bytes; at most {MAX_BYTES:,}"
        if path.suffix not in _TEXT:
            continue
        text = full.read_text(encoding="utf-8", errors="replace")
        for found in sorted(set(_OWN_PATH.findall(text))):
            yield path, "machine", f"{found!r} is a path of one machine"
        if path.suffix == ".py":
            yield from code(path, text)
        elif path.suffix == ".ipynb" and path.parts[0] in ("notebooks", "solutions"):
            yield from notebook(path, full, text, repo)
        elif str(path) in PAGES:
            for what in lint_links.dead(full, text, repo):
                yield path, "link", what
    if (repo / "README.md").is_file():
        for what in lesson_table(repo):
            yield Path("README.md"), "lessons", what
        for what in lab_table(repo):
            yield Path("README.md"), "labs", what


def code(path: Path, text: str) -> Iterator[tuple[Path, str, str]]:
    if lint_code.first_line_missing(text):
        yield path, "docstring", "the module does not open with a line that says what it is for"
    if path.as_posix() != lint_code.SEAMS:
        for line, what in lint_code.private_torch(text):
            yield path, "private-torch", f"line {line}: {what} belongs in {lint_code.SEAMS}"


def notebook(path: Path, full: Path, text: str, repo: Path) -> Iterator[tuple[Path, str, str]]:
    for rule, cell, what in lint_notebooks.lint_file(full, _rules(full)):
        yield path, rule, f"{'cell ' + cell + ': ' if cell else ''}{what}"
    try:
        nb = canonical.loads(text)
    except ValueError:
        return
    for what in lint_links.dead(full, lint_links.notebook_text(nb), repo):
        yield path, "link", what
    for cell in nb.cells:
        if cell.cell_type == "code":
            for _, what in lint_code.private_torch(cell.source):
                yield path, "private-torch", f"cell {cell.get('id')}: {what} belongs in {lint_code.SEAMS}"


def lesson_table(repo: Path) -> Iterator[str]:
    """The README's table against notebooks/: every lesson linked once, every link a lesson, the rest marked as planned."""
    readme = (repo / "README.md").read_text(encoding="utf-8")
    there = {path.name for path in (repo / "notebooks").glob("*.ipynb")}
    rows = re.findall(r"^\| (\d\d) \| (.*?) \|(.*)\|$", readme, flags=re.MULTILINE)
    linked = {name for _, first, _ in rows for name in re.findall(r"\(notebooks/([^)]+)\)", first)}
    for name in sorted(there - linked):
        yield f"{name} is not linked in the table of lessons"
    for name in sorted(linked - there):
        yield f"{name} is linked, and there is no such lesson"
    for number, first, rest in rows:
        if "](" not in first and "planned" not in rest:
            yield f"lesson {number} is neither linked nor marked as planned"
        if "](" in first and "planned" in rest:
            yield f"lesson {number} is there and still marked as planned"


def lab_table(repo: Path) -> Iterator[str]:
    """The README's table of labs against solutions/ and labs/: every lab generated and linked once, every link a lab."""
    readme = (repo / "README.md").read_text(encoding="utf-8")
    linked = re.findall(r"^\| lab \d+ \| \[.*?\]\(labs/([^)]+)\)", readme, flags=re.MULTILINE)
    sources = {path.relative_to(repo / "solutions").as_posix() for path in (repo / "solutions").glob("*/*.ipynb")}
    released = {path.relative_to(repo / "labs").as_posix() for path in (repo / "labs").glob("*/*.ipynb")}
    for name in sorted(sources ^ released):
        yield f"{name} is only in one of solutions/ and labs/: make labs"
    for name in sorted(sources | set(linked)):
        if linked.count(name) != 1:
            yield f"{name} is linked {linked.count(name)} times in the table of labs"
        elif name not in sources:
            yield f"{name} is linked, and there is no such lab"


def main() -> int:
    found = lint_repository()
    for line in found:
        print(line, file=sys.stderr)
    print(f"{len(tracked())} files, {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
