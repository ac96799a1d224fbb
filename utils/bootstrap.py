"""Makes a borrowed Python (Colab, say) ready for a lesson: installs what is missing, and never torch, numpy or triton.

The first cell of each lesson calls `ready()` once it has found the repository. Where nothing is missing, as after
`make lab`, it prints nothing and takes a few milliseconds.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"
GIVEN = ("torch", "numpy")  # a machine's own builds: replacing one breaks what was compiled against it
WITH_TORCH = ("triton",)  # comes with torch's own builds or not at all; what needs it does without, in words
APPLICATIONS = ("jupyterlab",)  # the notebook is open already, in whatever shows it
IMPORT_NAMES = {"pyyaml": "yaml"}  # where a package is imported by another name than it is installed by


class NotReady(RuntimeError):
    """This Python lacks something the lessons need; the message says what and how to get it."""


def requirements() -> dict[str, str]:
    """{package: requirement} of pyproject's one list, less what is given, what torch brings and what only shows notebooks."""
    listed = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]["dependencies"]
    named = {re.match(r"[\w.-]+", line)[0].lower(): line for line in listed}
    return {name: line for name, line in named.items() if name not in GIVEN + WITH_TORCH + APPLICATIONS}


def missing(names) -> list[str]:
    """Those of the packages `names` that cannot be imported here, whatever their version."""
    return [name for name in names if importlib.util.find_spec(IMPORT_NAMES.get(name, name)) is None]


def ready() -> None:
    """Install what is missing with pip. Raises NotReady when torch or numpy is absent, or when pip fails (offline)."""
    absent = missing(GIVEN)
    if absent:
        raise NotReady(
            f"{' and '.join(absent)} cannot be imported by {sys.executable}. The course never installs them into a Python that "
            "is not its own: use `make lab`, or a machine that has them (Colab does)."
        )
    wanted = requirements()
    lacking = missing(wanted)
    if not lacking:
        return
    print(f"Installing {', '.join(lacking)} …", flush=True)
    install([wanted[name] for name in lacking])
    importlib.invalidate_caches()
    still = missing(lacking)
    if still:
        raise NotReady(
            f"pip reports success, but {', '.join(still)} still cannot be imported: restart the kernel and run this again."
        )


def install(lines: list[str]) -> None:
    """`pip install` these requirements beside the torch and numpy that are here. Raises NotReady with pip's last lines."""
    pinned = [f"{name}=={importlib.metadata.version(name)}" for name in GIVEN]
    pip = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *lines, *pinned],
        capture_output=True,
        text=True,
    )
    if pip.returncode:
        said = "\n".join((pip.stderr or pip.stdout).strip().splitlines()[-4:])
        raise NotReady(f"pip could not install {', '.join(lines)} (is this machine offline?). It said:\n{said}")
