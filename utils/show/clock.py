"""A clock beside a question: counts down where there is an event loop to tick it, and measures the time everywhere.

Nothing happens when the time is over but that the clock says so: an answer that comes late is late, and is not lost.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

TICK_S = 1.0


class Clock:
    """`start(seconds)` begins; `tell(text)` is called with what the clock shows, every second; `stop()` returns seconds taken."""

    def __init__(self, tell: Callable[[str], None], *, now: Callable[[], float] = time.monotonic):
        self.tell, self._now = tell, now
        self._began: float | None = None
        self.limit = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def taken(self) -> float:
        """Seconds since the start; 0 when it does not run."""
        return 0.0 if self._began is None else self._now() - self._began

    @property
    def late(self) -> bool:
        return self.taken > self.limit

    def start(self, seconds: float) -> None:
        self.stop()
        self._began, self.limit = self._now(), seconds
        self._tick()

    def stop(self) -> float:
        """Stop, and return the seconds that were taken. A clock that does not run gives 0."""
        taken = self.taken
        self._began = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        return taken

    def _tick(self) -> None:
        if self._began is None:
            return
        left = self.limit - self.taken
        self.tell(f"{max(0, round(left))} s left" if left > 0 else "the time is over: finish your sentence")
        if left <= 0:
            self._timer = None
            return
        try:
            self._timer = asyncio.get_running_loop().call_later(TICK_S, self._tick)
        except RuntimeError:  # no kernel, no page: nobody looks
            self._timer = None
