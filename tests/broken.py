"""A module with one piece of its logic exchanged: what the planted faults of the lessons are tried on."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def broken(module: ModuleType, old: str, new: str, folder: Path) -> ModuleType:
    """A copy of `module`, kept in `folder`, in which `old` reads `new`.

    LookupError when the source lacks `old`: an AssertionError would pass for the red check that the fault is meant to cause.
    """
    source = Path(module.__file__).read_text(encoding="utf-8")
    if old not in source:
        raise LookupError("the planted fault no longer fits the code: plant it anew")
    file = folder / f"broken_{module.__name__.rsplit('.', 1)[-1]}.py"
    file.write_text(source.replace(old, new), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    copy = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = copy  # a dataclass looks its module up while it is made
    try:
        spec.loader.exec_module(copy)
    finally:
        del sys.modules[file.stem]
    return copy
