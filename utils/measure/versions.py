"""Is the code that runs the code that is installed? After a pip install in a live kernel it is not, until a restart."""

from __future__ import annotations

import sys
from importlib import metadata

# Module name → name of the distribution that brings it.
WATCHED = {
    "torch": "torch",
    "numpy": "numpy",
    "ipywidgets": "ipywidgets",
    "IPython": "ipython",
    "matplotlib": "matplotlib",
    "triton": "triton",
    "yaml": "PyYAML",
    "tabulate": "tabulate",
    "tqdm": "tqdm",
    "psutil": "psutil",
}
_told = False


def differing() -> list[tuple[str, str, str]]:
    """(module, version loaded, version on disk) of every loaded package whose two versions differ."""
    out = []
    for module_name, distribution in WATCHED.items():
        loaded = getattr(sys.modules.get(module_name), "__version__", None)
        installed = _installed(distribution)
        if isinstance(loaded, str) and installed and not _same(loaded, installed):
            out.append((module_name, loaded, installed))
    return out


def restart_note() -> str:
    """The sentence that asks for a restart: the first time it is true in this process, else the empty string."""
    global _told
    stale = differing()
    if not stale or _told:
        return ""
    _told = True
    return sentence(stale)


def sentence(stale: list[tuple[str, str, str]]) -> str:
    """`stale` (as `differing` gives it) in words."""
    what = ", ".join(f"{name} {loaded} is loaded but {installed} is installed" for name, loaded, installed in stale)
    return f"{what}: restart the kernel, or the numbers belong to a mixture of versions"


def _installed(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except (metadata.PackageNotFoundError, OSError, ValueError):
        return None


def _same(loaded: str, installed: str) -> bool:
    """Equal, or equal up to a build tag (+cpu, +cu130) that only one of the two carries."""
    if "+" in loaded and "+" in installed:
        return loaded == installed
    return loaded.split("+")[0] == installed.split("+")[0]
