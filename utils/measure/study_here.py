"""One part of a lesson's study, for the lesson: measured now on this device, and beside it the best recording of another one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from utils.measure import machine
from utils.measure.device_clock import MeasurementError
from utils.measure.launch_here import Found
from utils.measure.study import STUDIES
from utils.model import studies
from utils.model.quantities import NotMeasured

Progress = Callable[[float, str], None]
NOT_YET = {"cuda": "this study has not been measured on an H200 yet", "cpu": "no CPU has been recorded yet"}


@dataclass(frozen=True)
class Both:
    """A part as measured `here` (or why not) and as recorded `there`, on a GPU (or in words that none has been recorded)."""

    here: Found
    there: Found

    @property
    def first(self) -> Found:
        """What an answer is taken from: what was measured here, else the recording."""
        return self.here if self.here.value is not None else self.there


def both(study: str, name: str, device: str = "cpu", progress: Progress | None = None, *, record: str = "cuda", **how) -> Both:
    """The part `name` of `study` on `device` now, with `how` handed to its measurement, and the best recording of `record`.

    The study's module has IN_LESSON: the parts as a lesson measures them. Never raises because something cannot be measured:
    that is a reason, in words. Raises KeyError for an unknown study or part.
    """
    measure = import_module(STUDIES[study]).IN_LESSON[name]
    try:
        value = measure(device, progress or (lambda done, text: None), **how)
        here = Found(value, studies.live(study, device, machine.fingerprint(), {}).label(), live=True)
    except (MeasurementError, NotMeasured, OSError, RuntimeError) as error:
        here = Found(None, why=str(error) or "it could not be measured here")
    return Both(here, recorded(study, name, record))


def recorded(study: str, name: str, device: str = "cuda") -> Found:
    """The part as the best recording of this device has it, or why there is none."""
    best = studies.best(study, device)
    if best is None:
        return Found(None, why=NOT_YET[device])
    try:
        return Found(best.part(name), best.label())
    except NotMeasured as error:
        return Found(None, why=str(error))
