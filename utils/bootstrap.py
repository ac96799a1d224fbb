"""Makes a borrowed Python (Colab, say) ready for a lesson: installs what is missing, and never touches torch, numpy or CUDA.

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
import tempfile
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"
GIVEN = ("torch", "numpy")  # a machine's own builds: replacing one breaks what was compiled against it
WITH_TORCH = ("triton",)  # comes with torch's own builds or not at all; what needs it does without, in words
# Packages with names like these stay as they are, whatever a new one asks for: torch, what it was built against, CUDA.
HELD = re.compile(r"torch|numpy|triton|nvidia|cuda|cupy", re.IGNORECASE)
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
    """Install what is missing with pip. Raises NotReady when torch or numpy is absent, when pip fails (offline), and when the
    kernel has to be restarted: pip replaced a package that it has already loaded, or what pip installed cannot be imported."""
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
    before = versions()
    install([wanted[name] for name in lacking])
    importlib.invalidate_caches()
    still = missing(lacking)
    if still:
        raise NotReady(
            f"pip reports success, but {', '.join(still)} still cannot be imported: restart the kernel and run this again."
        )
    stale = replaced_in_use(before)
    if stale:
        raise NotReady(
            f"All is installed, but pip had to replace {', '.join(stale)}, which this kernel has already loaded: restart the "
            "kernel and run this again."
        )


def versions() -> dict[str, str]:
    """{package: version} of what is installed here; of a package that is there twice, the one that is imported."""
    found: dict[str, str] = {}
    for dist in importlib.metadata.distributions():
        if dist.name and dist.version:
            found.setdefault(dist.name, dist.version)
    return found


def replaced_in_use(before: dict[str, str]) -> list[str]:
    """The packages whose version is no longer that of `before` while a module of theirs is loaded in this process."""
    now = versions()
    changed = {name for name, version in before.items() if now.get(name) != version}
    if not changed:
        return []
    modules = importlib.metadata.packages_distributions()
    return sorted(changed & {name for module in sys.modules if "." not in module for name in modules.get(module, ())})


def install(lines: list[str]) -> None:
    """`pip install` these requirements beside what is HELD here. Raises NotReady with pip's last lines."""
    held = sorted(f"{name}=={version}" for name, version in versions().items() if HELD.match(name))
    with tempfile.TemporaryDirectory(prefix="one-add-") as folder:
        pins = Path(folder) / "held.txt"
        pins.write_text("\n".join(held), encoding="utf-8")
        pip = subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", str(pins), *lines],
            capture_output=True,
            text=True,
        )
    if pip.returncode:
        said = "\n".join((pip.stderr or pip.stdout).strip().splitlines()[-4:])
        raise NotReady(f"pip could not install {', '.join(lines)} (is this machine offline?). It said:\n{said}")
