"""One part of the launch study for a lesson: measured now on a GPU that is here, else read from a recording, else in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from utils.measure import machine
from utils.measure.device_clock import MeasurementError
from utils.model import studies
from utils.model.quantities import NotMeasured
from utils.model.readings import Race

STUDY = "launch"
Progress = Callable[[float, str], None]


@dataclass(frozen=True)
class Found:
    """A part's `value` (a Race or plain data, or None), whose it is (`label`), and why it is not live or not there (`why`)."""

    value: Race | dict | None
    label: str = ""
    why: str = ""
    live: bool = False


def part(name: str, device: str = "cpu", progress: Progress | None = None, *, on: str = "cuda", live: bool = True) -> Found:
    """The part `name`: live where `device` is `on`, else the best recording of `on`, with the reason in words.

    `on="cpu"` is for parts that every machine can measure; `live=False` asks for the recording. Never raises because something
    cannot be measured: a GPU that refuses is a reason, and the recording takes its place. Raises KeyError for an unknown part.
    """
    from utils.measure.launch import IN_LESSON

    measure, why = IN_LESSON[name], "there is no GPU here"
    if device == on and not live:
        why = "measuring it here takes long and was not asked for"
    elif device == on:
        try:
            value = measure(device, progress or (lambda done, text: None))
            return Found(value, studies.live(STUDY, device, machine.fingerprint(), {}).label(), live=True)
        except (MeasurementError, NotMeasured, OSError, RuntimeError) as error:
            why = f"it could not be measured here: {error}"
    recorded = studies.best(STUDY, on)
    if recorded is None:
        return Found(None, why=f"{why}; no {'GPU' if on == 'cuda' else 'CPU'} has been recorded yet")
    try:
        return Found(recorded.part(name), recorded.label(), why)
    except NotMeasured as error:
        return Found(None, why=f"{why}; {error}")
