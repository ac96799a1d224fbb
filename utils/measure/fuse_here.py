"""A part of the study "fuse" for the lesson: measured here, or else as a CPU was recorded; and beside it a GPU's recording."""

from __future__ import annotations

from utils.measure.launch_here import Found
from utils.measure.study_here import Both, Progress, both, recorded

STUDY = "fuse"


def part(name: str, device: str = "cpu", progress: Progress | None = None) -> Both:
    """The part on `device` now, beside the best recording of a GPU.

    A machine without a compiler gets the recording of a CPU in place of its own numbers, not `live`, with the reason among its
    notes; or the reason alone where there is none.
    """
    found = both(STUDY, name, device, progress)
    if found.here.value is not None or device != "cpu":
        return found
    kept = recorded(STUDY, name, "cpu")
    if kept.value is None:
        return found
    value = kept.value | {"notes": [*kept.value["notes"], found.here.why]}
    return Both(Found(value, kept.label, found.here.why), found.there)
