"""The machines a lesson must run on, made from this one: no compiler, one core, offline, a read-only home, Colab's widgets …

`run(lesson, gates)` executes a lesson inside any set of them at once, fires every control at the end, and returns what happened.
Each gate is checked from inside the lesson's kernel, so that a gate that does not hold here is never counted as passed.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
# What a lesson may call on a machine that has nothing: the shell, and git to fetch the course.
BARE_PROGRAMS = ("sh", "git", "uname", "env", "ldconfig")
CELL_TIMEOUT_S = 180

BARE = ("no compiler", "no valgrind", "no CUPTI", "sm_75", "one core", "read-only home", "offline", "only the .ipynb")
COLAB = ("Colab's widgets",)
GATES = (*BARE, *COLAB)


@dataclass
class Outcome:
    """What one gated run did. `ok` when the lesson ran, every gate held and every control survived."""

    gates: tuple[str, ...]
    error: str | None = None
    cell: str | None = None
    seconds: float = 0.0
    compared: dict[str, str] = field(default_factory=dict)
    fired: int = 0
    not_in_force: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return self.error is None and not self.not_in_force

    @property
    def why(self) -> str:
        """What went wrong, in words: the end of the error, the cell, the gates that do not hold here."""
        parts = [f"not in force here: {', '.join(self.not_in_force)}"] if self.not_in_force else []
        if self.error:
            parts.append(f"cell {self.cell}: {self.error if len(self.error) < 3000 else '… ' + self.error[-3000:]}")
        return "\n".join(parts)


def run(lesson: Path, gates: tuple[str, ...]) -> Outcome:
    """Execute `lesson` inside `gates` (names of GATES). ValueError for another name."""
    unknown = [g for g in gates if g not in GATES]
    if unknown:
        raise ValueError(f"no such gate: {unknown}; there are {GATES}")
    with tempfile.TemporaryDirectory(prefix="gate-", ignore_cleanup_errors=True) as scratch:
        return _run(lesson, gates, Path(scratch))


def committed(lesson: Path) -> dict[str, str]:
    """Cell id → what the compared cells of a notebook print, as committed: what an outcome's `compared` has to be."""
    from tools import canonical
    from tools.lint_notebooks import COMPARED

    return {
        cell.id: "".join(output.text for output in cell.outputs)
        for cell in canonical.loads(lesson.read_text(encoding="utf-8")).cells
        if cell.cell_type == "code" and cell.source.startswith(COMPARED)
    }


def diagnose(lesson: Path, gates: tuple[str, ...], run=run) -> str:
    """Which of `gates` alone the lesson does not pass, in words: for when it did not pass all of them together.

    "no compiler" is tried first; if the lesson passes it, it stays closed beside each other gate, which saves a compilation each.
    """
    first = ("no compiler",) if "no compiler" in gates else ()
    failed = {}
    for gate in sorted(gates, key=lambda gate: gate not in first):
        outcome = run(lesson, tuple({gate: 0, **dict.fromkeys(first)}))
        if not outcome.ok:
            failed[gate] = outcome.why
            if gate in first:
                break
    if not failed:
        return f"{lesson.name} passes each gate alone, and not together: {', '.join(gates)}"
    return "\n\n".join(f"{lesson.name} does not pass the gate {gate!r}:\n{why}" for gate, why in failed.items())


def _run(lesson: Path, gates: tuple[str, ...], scratch: Path) -> Outcome:
    folder = lesson.parent
    env = _clean_environment(scratch)
    wrap: list[str] = []
    if "only the .ipynb" in gates:
        folder = scratch / "alone"
        folder.mkdir()
        shutil.copy(lesson, folder)
        env["ONE_ADD_REPO"] = str(published(scratch))
    elif not lesson.resolve().is_relative_to(REPO):
        env["ONE_ADD_REPO"] = str(REPO)  # a test's own small lesson
    if "no compiler" in gates or "no valgrind" in gates:
        env["PATH"] = str(_bare_path(scratch))
    for gate, name, value in (
        ("no compiler", "ONE_ADD_NO_COMPILER", "1"),
        ("no valgrind", "ONE_ADD_NO_VALGRIND", "1"),
        ("no CUPTI", "ONE_ADD_NO_CUPTI", "1"),
        ("sm_75", "ONE_ADD_CAPABILITY", "7.5"),
        ("one core", "ONE_ADD_CORES", "1"),
    ):
        if gate in gates:
            env[name] = value
    if "Colab's widgets" in gates:
        env["ONE_ADD_NO_COMPILER"] = "1"
    home = scratch / "home"
    home.mkdir()
    env["HOME"] = str(home)
    if "read-only home" in gates or "offline" in gates:
        wrap, env["HOME"] = _walls(gates, home)
    guard = "offline" in gates and not wrap
    with socket.create_server(("127.0.0.1", 0)) as outside:
        job = {
            "notebook": str(lesson.resolve()),
            "folder": str(folder.resolve()),
            "python": str(_python(gates)),
            "env": env,
            "one_core": "one core" in gates and hasattr(os, "sched_setaffinity"),
            "guard": guard,
            "port": outside.getsockname()[1],
            "cell_timeout_s": CELL_TIMEOUT_S,
            "result": str(scratch / "result.json"),
        }
        (scratch / "job.json").write_text(json.dumps(job), encoding="utf-8")
        driver = {**os.environ, "JUPYTER_RUNTIME_DIR": str(scratch / "run")}
        done = subprocess.run(
            [*wrap, sys.executable, "-m", "tools.gated", str(scratch / "job.json")],
            cwd=REPO,
            env=driver,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=900,
        )
    if done.returncode or not (scratch / "result.json").is_file():
        return Outcome(gates, error=f"the run itself failed: {done.stderr[-2000:]}")
    result = json.loads((scratch / "result.json").read_text(encoding="utf-8"))
    fired = result["fired"] or {"fired": 0, "errors": []}
    error = result["error"]
    if error is None and fired["errors"]:
        error = "controls raise:\n" + "\n".join(fired["errors"])
    return Outcome(
        gates, error, result["cell"], result["seconds"], result["compared"], fired["fired"], _not_in_force(gates, result["look"])
    )


def _not_in_force(gates: tuple[str, ...], look: dict | None) -> list[str]:
    """The gates that, seen from the kernel, do not hold."""
    if look is None:
        return list(gates)
    compilers = set(look["programs"]) - {"valgrind"}
    stack = _colab()["packages"]
    holds = {
        "no compiler": not compilers and "ONE_ADD_NO_COMPILER" in look["overrides"],
        "no valgrind": "valgrind" not in look["programs"] and "ONE_ADD_NO_VALGRIND" in look["overrides"],
        "no CUPTI": "ONE_ADD_NO_CUPTI" in look["overrides"],
        "sm_75": "ONE_ADD_CAPABILITY" in look["overrides"],
        "one core": look["cores"] in (1, None) and "ONE_ADD_CORES" in look["overrides"],
        "read-only home": not look["home_writable"],
        "offline": not look["online"],
        "only the .ipynb": not look["course_here"],
        "Colab's widgets": all(
            have.startswith(stack[name]) for have, name in zip(look["stack"], ("ipywidgets", "ipython", "ipykernel"))
        ),
    }
    return [gate for gate in gates if not holds[gate]]


def _colab() -> dict:
    import yaml

    return yaml.safe_load((REPO / "utils/data/colab.yml").read_text(encoding="utf-8"))


def _python(gates: tuple[str, ...]) -> Path:
    if "Colab's widgets" not in gates:
        return Path(sys.executable)
    from tools import colab_stack

    return colab_stack.ensure()


def _clean_environment(scratch: Path) -> dict[str, str]:
    """This environment without what belongs to this machine's user, and with temporary files where they are removed."""
    env = {
        k: v for k, v in os.environ.items() if not k.startswith(("ONE_ADD_", "XDG_", "JUPYTER", "IPYTHON", "PYTHONPATH", "MPL"))
    }
    (scratch / "tmp").mkdir()
    env["TMPDIR"] = str(scratch / "tmp")
    return env


def _bare_path(scratch: Path) -> Path:
    """A PATH on which the compilers, nvcc and valgrind really are not."""
    folder = scratch / "bin"
    folder.mkdir()
    for program in BARE_PROGRAMS:
        found = shutil.which(program)
        if found:
            (folder / program).symlink_to(found)
    return folder


def copy_tree(folder: Path) -> Path:
    """A copy of this working tree, without what git ignores; returns `folder`."""
    from tools.lint import tracked

    for path in tracked():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPO / path, folder / path)
    return folder


def published(scratch: Path) -> Path:
    """The course as a git repository that can be cloned: this working tree, committed as it is. Stands in for its address."""
    tree, bare = copy_tree(scratch / "tree"), scratch / "published.git"
    git = ["git", "-c", "user.name=gate", "-c", "user.email=gate@example.org", "-c", "init.defaultBranch=main"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "as it is"]):
        subprocess.run([*git, *command], cwd=tree, check=True, capture_output=True)
    subprocess.run([*git, "clone", "-q", "--bare", str(tree), str(bare)], check=True, capture_output=True)
    return bare


@lru_cache(maxsize=1)
def can_unshare() -> tuple[str, ...]:
    """The command that makes own network and mount namespaces here, or () where the system does not allow it."""
    for command in (("unshare", "--net", "--mount"), ("unshare", "--map-root-user", "--net", "--mount")):
        try:
            tried = subprocess.run([*command, "sh", "-c", "mount -t tmpfs -o ro none /mnt"], capture_output=True)
        except OSError:
            continue
        if tried.returncode == 0:
            return command
    return ()


def _walls(gates: tuple[str, ...], home: Path) -> tuple[list[str], str]:
    """(command to put before the run, HOME) for the gates `offline` and `read-only home`.

    With namespaces both are real: no network at all, and a read-only file system mounted over the home. Without, the home is
    a folder that cannot be made (/proc takes none, even from root) and connections are refused inside the kernel.
    """
    unshare = can_unshare()
    read_only = "read-only home" in gates
    if not unshare:
        return [], "/proc/1/no-home" if read_only and Path("/proc/1").exists() else str(home)
    kept = [part for part in unshare if part != "--net" or "offline" in gates]
    mount = f"mount -t tmpfs -o ro none '{home}' && " if read_only else ""
    return [*kept, "sh", "-c", f'{mount}exec "$@"', "sh"], str(home)
