"""One part of the ridge-point study for lesson 06: measured now on this device, and beside it the best recording of a GPU."""

from __future__ import annotations

from functools import partial

from utils.measure import study_here
from utils.measure.study_here import Both as Both

STUDY = "ridge_point"
both = partial(study_here.both, STUDY)
recorded = partial(study_here.recorded, STUDY)
