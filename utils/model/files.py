"""Writing a file so that a crash, a full disk or a second writer never costs what was there before."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

TEMPORARY = ".tmp"


def to_json(data: Any, *, compact: bool = False) -> str:
    """`data` as JSON text that ends in a newline. Raises ValueError for NaN and infinity, which are not JSON."""
    if compact:
        return json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"
    return json.dumps(data, ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def write_atomically(path: Path, content: str | bytes) -> None:
    """Replace `path` by `content` in one step: readers see the old file or the new one, never a part.

    It is written to a temporary file beside it and flushed to the disk before it takes the name. Raises OSError (a
    full disk, a read-only folder) with the old file intact and the temporary one removed.
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}{TEMPORARY}")
    try:
        with open(temporary, "wb") as file:
            file.write(content.encode("utf-8") if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _flush_folder(path.parent)


def _flush_folder(folder: Path) -> None:
    """Make the new name survive a power cut too, where the system lets a folder be flushed (Windows does not)."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass  # some network file systems refuse; the file itself is already on the disk
    finally:
        os.close(handle)


def remove_leftovers(path: Path) -> None:
    """Remove the temporary files of writers that were killed. Call it only while holding `locked(path)`."""
    for leftover in path.parent.glob(f"{path.name}.*{TEMPORARY}"):
        leftover.unlink(missing_ok=True)


def set_aside(path: Path, word: str) -> Path:
    """Rename `path` to `<stem>.<word>-<n>.json` with the first free n; never overwrites, never deletes. Returns the new path."""
    n = 1
    while (target := path.with_name(f"{path.stem}.{word}-{n}{path.suffix}")).exists():
        n += 1
    os.rename(path, target)
    return target


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of `path` (a file `<name>.lock` beside it): one writer at a time, in whichever process.

    It is the system's own lock (flock), which ends with the process that held it, so that no stale lock is ever left by a
    crash. Where the system has none (Windows, some network folders) writers go on without: each write is still atomic.
    """
    try:
        handle = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o644)
    except OSError:
        yield  # a folder that cannot be written: there will be no write to protect either
        return
    try:
        if fcntl is not None:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
            except OSError:
                pass
        yield
    finally:
        os.close(handle)
