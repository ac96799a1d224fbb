"""The study "scoreboard": the toy block and models that nobody here wrote, on one board; its PARTS, each measured by its own "
"room.

Every part gives plain data with "device", "rows", "numbers" (by name; times in ns, the rest counts, ratios and activations) and
"notes", and raises MeasurementError, in words, where it cannot be measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from utils.measure.block_board import board
from utils.measure.known_models import models
from utils.measure.study import Part
from utils.measure.three_losses import losses

__all__ = ["IN_LESSON", "PARTS", "judged"]


def judged(part: Mapping[str, Any]) -> dict[str, Any]:
    """What `expect` takes of a part: its numbers by name, with its device."""
    return {**part["numbers"], "device": part["device"]}


_ROOMS: dict[str, tuple[Callable[..., Any], float]] = {"board": (board, 2.0), "losses": (losses, 4.0), "models": (models, 3.0)}
PARTS: dict[str, Part] = {name: Part(measure, weight=weight) for name, (measure, weight) in _ROOMS.items()}

# The same parts as a lesson measures them within half a minute on two cores.
IN_LESSON: dict[str, Callable[..., Any]] = {name: partial(measure, quick=True) for name, (measure, _) in _ROOMS.items()}
