"""`python -m grading.release [LAB …]`: the student editions, generated from solutions/ into labs/ by nbgrader.

Beside each lab stands `handed_out.json`, its graded cells as released: `check_my_lab()` compares with it, because a learner may
well work in the lab's own file. Such a file is never overwritten unseen: answers found in it are kept in work/answers/ first.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from grading import course
from utils.labs import cells


class NotReleased(RuntimeError):
    """nbgrader could not make the student edition; the message says why."""


def release(lab: str, out: Path) -> list[Path]:
    """Generate `lab` into the folder `out` (made anew). Returns the files. Raises NotReleased with nbgrader's reason."""
    with tempfile.TemporaryDirectory(prefix="one-add-release-", ignore_cleanup_errors=True) as root:
        course.copy_source(lab, Path(root))
        generate(lab, Path(root), gradebook=False)
        made = Path(root) / "labs" / lab
        sheet = cells.handed_out(cells.known(cells.read(made / f"{lab}.ipynb")))
        (made / cells.HANDED_OUT).write_text(sheet, encoding="utf-8")
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(made, out)
    return sorted(path for path in out.rglob("*") if path.is_file())


def generate(lab: str, root: Path, *, gradebook: bool) -> None:
    """Let nbgrader make the student edition inside the course folder `root`, and note its cells in the gradebook there."""
    done = course.nbgrader(root, gradebook=gradebook).generate_assignment(lab, force=True, create=True)
    if not done["success"]:
        raise NotReleased(f"nbgrader could not generate {lab}:\n{done.get('error') or done.get('log')}")


def keep_answers(lab: str) -> Path | None:
    """When somebody answered in labs/ itself: a copy of that file under work/answers/, and where it is. Else None."""
    path = course.LABS / lab / f"{lab}.ipynb"
    if not path.exists():
        return None
    try:
        stubs = {cell.id: cell.source for cell in cells.released(lab) if cell.solution}
        answered = [
            c.id for c in cells.known(cells.read(path)) if c.solution and c.source.rstrip() != stubs.get(c.id, "").rstrip()
        ]
    except cells.NoNotebook:
        answered = ["unreadable"]
    if not answered:
        return None
    kept = course.WORK / "answers" / f"{lab}-{time.strftime('%Y%m%d-%H%M%S')}.ipynb"
    kept.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(path, kept)
    return kept


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m grading.release", description=__doc__.splitlines()[0])
    parser.add_argument("labs", nargs="*", metavar="LAB", help="which (all)")
    parser.add_argument("--out", type=Path, help="another folder than labs/")
    args = parser.parse_args(argv)
    unknown = sorted(set(args.labs) - set(course.labs()))
    if unknown:
        parser.error(f"no such lab: {', '.join(unknown)}; there are: {', '.join(course.labs()) or 'none'}")
    for lab in args.labs or course.labs():
        kept = None if args.out else keep_answers(lab)
        if kept:
            print(f"labs/{lab}/{lab}.ipynb holds answers: kept as {kept.relative_to(course.REPO)}")
        try:
            files = release(lab, (args.out or course.LABS) / lab)
        except NotReleased as error:
            print(error, file=sys.stderr)
            return 1
        print(f"{lab}: {len(files)} files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
