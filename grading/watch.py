"""The watch over one boxed kernel: ends it when all its processes together use too much, and keeps why.

A limit of the system holds for one process; a learner's code may start many. So every quarter of a second their memory and number
are summed, with what they left in the folder of the sockets, the one place outside the box that they can write to.

The watch also knows when it could not look itself: a closed laptop, a paused machine or container. That time is nobody's.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from grading.box import MIB, Limits

EVERY_S = 0.25
STILL_S = 2.0  # a look that comes later than this was not held up by a busy machine
FILES = 64  # a kernel makes five sockets and a connection file


class Watch:
    """Use as `with Watch(sockets, limits) as watch: …`; `watch.reason` is why the kernel was ended, else ""; `watch.late`
    when it was its time; `watch.still_s` how many seconds everything stood still meanwhile."""

    def __init__(self, sockets: Path, limits: Limits) -> None:
        self.sockets, self.limits = sockets, limits
        self.reason, self.late = "", False
        self.still_s = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._over.set()
        self._thread.join()
        end_children()

    def _look(self) -> None:
        began = looked = time.monotonic()
        while not self._over.wait(EVERY_S):
            late = time.monotonic() - looked - EVERY_S
            self.still_s += late if late > STILL_S else 0.0
            self.reason = self.reason or self._too_much(time.monotonic() - began - self.still_s)
            if self.reason:
                end_children()
            looked = time.monotonic()

    def _too_much(self, seconds: float) -> str:
        """What is used up, in words; "" while nothing is."""
        if seconds > self.limits.whole_s:
            self.late = True
            return f"took longer than {self.limits.whole_s:g} s"
        family = _family()
        if len(family) > self.limits.processes:
            return f"started more than {self.limits.processes} processes"
        most = self.limits.memory_mib * MIB
        # What forked processes share counts for each of them at first; only a sum that is too large is worth the exact one.
        if _sum(family, lambda one: one.memory_info().rss) > most and _sum(family, _exact) > most:
            return f"used more than {self.limits.memory_mib} MiB of memory"
        return self._left_outside()

    def _left_outside(self) -> str:
        sizes = [_size(path) for path in self.sockets.rglob("*")] if self.sockets.is_dir() else []
        if len(sizes) > FILES or sum(sizes) > self.limits.file_mib * MIB:
            return "filled the folder of its sockets"
        return ""


def _sum(family: list[psutil.Process], memory: Callable[[psutil.Process], int]) -> int:
    total = 0
    for process in family:
        with contextlib.suppress(psutil.Error):  # it ended meanwhile
            total += memory(process)
    return total


def _exact(process: psutil.Process) -> int:
    info = process.memory_full_info()
    return getattr(info, "pss", info.uss)  # the first on Linux only


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def _family() -> list[psutil.Process]:
    try:
        return psutil.Process().children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def end_children() -> None:
    """Kill everything that this process started. When the process that made a box ends, the kernel ends all within."""
    for process in _family():
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
