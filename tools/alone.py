"""`python -m tools.alone [FILE…]`: notebooks as a stranger runs them, each alone in an empty folder, where it fetches the rest.

This working tree is published under an address with a tag (git is told that it lies on this machine), each notebook names that
address, and nothing else of the course can be found. All lessons and solved labs when none is named. Exit 1 when one fails.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from nbclient.exceptions import CellControlSignal, CellExecutionError, DeadKernelError
from nbformat import NotebookNode

from tools import canonical, gates
from tools.execute import execute
from tools.notebooks import with_standard_cells
from utils.address import Address

REPO = Path(__file__).resolve().parent.parent
WHERE = Address("someone/one-add-priced", "term-2027-1")


def published(scratch: Path) -> Path:
    """This working tree as a git repository in `scratch`, its one commit tagged; also where the tree itself is under no git."""
    if not (REPO / ".git").exists():
        ours = shutil.ignore_patterns(".venv*", ".whl", "shared", "__pycache__")
        shutil.copytree(REPO, scratch / "tree", ignore=ours, dirs_exist_ok=True)
    bare = gates.published(scratch)
    subprocess.run(["git", "tag", WHERE.ref], cwd=bare, check=True)
    return bare


def redirected(bare: Path) -> dict[str, str]:
    """What a kernel's environment needs so that git finds `bare` at the address WHERE."""
    return {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": f"url.{bare}.insteadOf", "GIT_CONFIG_VALUE_0": WHERE.git}


def notebook(path: Path) -> NotebookNode:
    """The notebook at `path` as it is when the course is published at WHERE."""
    return with_standard_cells(canonical.loads(path.read_text(encoding="utf-8")), path, WHERE)


def session(nb: NotebookNode, name: str, scratch: Path, env: dict[str, str], python: str = sys.executable) -> NotebookNode:
    """Run `nb` as the file `name` in the empty folder `scratch`/content, with `env` on top of this environment's own."""
    folder, home = scratch / "content", scratch / "home"
    for path in (folder, home):
        path.mkdir(parents=True)
    (folder / name).write_text(canonical.dumps(nb), encoding="utf-8")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("ONE_ADD_", "XDG_", "JUPYTER", "IPYTHON"))}
    kept = [part for part in clean.pop("PYTHONPATH", "").split(os.pathsep) if part and Path(part).resolve() != REPO]
    paths = {"PYTHONPATH": os.pathsep.join(kept)} if kept else {}
    return execute(nb, folder, python=python, env={**clean, **paths, "ONE_ADD_HOME": str(home), **env})


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.alone", description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    files = parser.parse_args(argv).files or [*sorted(REPO.glob("notebooks/*.ipynb")), *sorted(REPO.glob("solutions/*/*.ipynb"))]
    failed = 0
    with tempfile.TemporaryDirectory(prefix="alone-", ignore_cleanup_errors=True) as scratch:
        env = redirected(published(Path(scratch)))
        for number, path in enumerate(files):
            began = time.perf_counter()
            try:
                session(notebook(path.resolve()), path.name, Path(scratch) / str(number), env)
                said = "ran"
            except (CellControlSignal, CellExecutionError, DeadKernelError, TimeoutError) as error:
                said, failed = f"FAILED\n{error}", failed + 1
            print(f"{path.name}: {time.perf_counter() - began:.0f} s, {said}", flush=True)
    print(f"{len(files)} notebooks alone, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
