"""The timeline that a lesson shows: of the GPU that is here, profiled in a child process, else the committed one."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from utils.measure import timeline as rooms
from utils.measure.timeline import Timeline, TimelineError

Progress = Callable[[float, str], None]


def two_lanes(device: str = "cpu", progress: Progress | None = None) -> tuple[Timeline | None, str]:
    """(a timeline, words): live on "cuda" (about 20 s), else the committed one with the reason; None where there is neither.

    Never raises because something is missing: a profiler that cannot start is a reason in words.
    """
    if device != "cuda":
        found, why = rooms.timeline()
        return found, why or "there is no GPU here"
    try:
        with tempfile.TemporaryDirectory(prefix="one-add-lanes-") as folder:
            return rooms.record_timeline(Path(folder) / "timeline.json", progress), ""
    except TimelineError as error:
        found, why = rooms.timeline()
        return found, "; ".join(part for part in (f"no timeline could be taken here: {error}", why) if part)
