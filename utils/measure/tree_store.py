"""Where call trees are kept: committed ones by torch version (`utils/recordings/trees`), counted ones in the cache."""

from __future__ import annotations

import hashlib
import json
import platform
from dataclasses import replace
from functools import cache
from pathlib import Path

from utils import paths
from utils.measure import tools
from utils.measure.backtrace import Backtrace
from utils.measure.fold_tree import CallTree
from utils.model import files

FORMAT, VERSION = "one-add-priced/trees", 1
FOLDER = paths.RECORDINGS / "trees"
COMMAND = "python -m utils trace --record"
LEAST = 0.02  # functions and edges under this many instructions per op are left out of a committed file


def recorded(torch_version: str, folder: Path | None = None) -> dict:
    """The committed file (as JSON data) of this torch's minor version, else that of the newest; {} when there is none."""
    return _read(folder or FOLDER, _minor(torch_version))


@cache
def _read(folder: Path, minor: str) -> dict:
    found = {path.stem.removeprefix("torch").split("-")[0]: path for path in sorted(folder.glob("torch*.json"))}
    if not found:
        return {}
    newest = max(found, key=lambda v: tuple(int(n) for n in v.split(".")))
    return json.loads(found.get(minor, found[newest]).read_text(encoding="utf-8"))


def trees_of(data: dict) -> dict[str, CallTree]:
    """The call trees of a committed file, by statement."""
    return {
        name: CallTree.from_dict(tree, where=data["where"], date=data["date"], source="recorded")
        for name, tree in data.get("trees", {}).items()
    }


def backtraces_of(data: dict) -> dict[str, Backtrace]:
    """The backtraces of a committed file, by expression."""
    return {
        name: Backtrace.from_dict(found, where=data["where"], date=data["date"], source="recorded")
        for name, found in data.get("backtraces", {}).items()
    }


def write(trees: dict[str, CallTree], backtraces: dict[str, Backtrace], folder: Path | None = None) -> Path:
    """Write one committed file, named by its torch; raises SchemaError when it would not have the written shape."""
    from utils.model import schemas

    first = next(iter(trees.values()))
    data = {
        "format": FORMAT,
        "version": VERSION,
        "date": first.date,
        "where": first.where,
        "command": COMMAND,
        "trees": {name: trimmed(tree).to_dict() for name, tree in trees.items()},
        "backtraces": {name: found.to_dict() for name, found in backtraces.items()},
    }
    data = json.loads(files.to_json(data))
    schemas.validate("trees", data)
    path = (folder or FOLDER) / f"torch{_minor(first.where['torch'])}-{first.where['machine']}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_atomically(path, files.to_json(data, compact=True))
    return path


def trimmed(tree: CallTree, least: float = LEAST) -> CallTree:
    """The tree without functions and edges of under `least` instructions per op: what ran once at the begin, mostly."""
    keep = {f for f, own in tree.self_cost.items() if own >= least or tree.inclusive(f) >= least}
    return replace(
        tree,
        self_cost={f: own for f, own in tree.self_cost.items() if f in keep},
        edges={(a, b): cost for (a, b), cost in tree.edges.items() if cost >= least and a in keep and b in keep},
        libraries={f: library for f, library in tree.libraries.items() if f in keep},
    )


# ------------------------------------------------------------------------------------------------ the cache


def cached(name: str, program: str) -> CallTree | None:
    """The tree that an earlier live run counted with this program on this machine and these versions, or None."""
    try:
        data = json.loads(_place(name, program).read_text(encoding="utf-8"))
        return CallTree.from_dict(data["tree"], where=data["where"], date=data["date"], source="live")
    except (OSError, ValueError, KeyError, IndexError, TypeError):
        return None  # never counted, or a damaged file: count


def keep(name: str, program: str, tree: CallTree) -> None:
    """Put a live tree into the cache; a cache that cannot be written costs the next run its time, no more."""
    place = _place(name, program)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        text = files.to_json({"tree": tree.to_dict(), "where": tree.where, "date": tree.date}, compact=True)
        files.write_atomically(place, text)
    except OSError:
        pass


def _place(name: str, program: str) -> Path:
    """Counts depend on torch, Python, glibc, valgrind, the CPU capability and the program's form."""
    import torch

    parts = [torch.__version__, platform.python_version(), *platform.libc_ver(), tools.valgrind().found]
    parts += [torch.backends.cpu.get_cpu_capability(), platform.machine(), name, program]
    return paths.cache() / "trees" / f"{hashlib.sha256(chr(10).join(parts).encode()).hexdigest()[:20]}.json"


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])
