"""Runs the parts of one lesson's study on this machine: what `python -m utils record --study NAME` writes.

Each lesson's instrument module has `PARTS`, a dict of `Part`; the lesson's cells call the same functions. Here every part runs
in a process of its own, and one that fails leaves its reason while the others go on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from typing import Any

from utils.measure import children, machine
from utils.measure.children import Progress
from utils.measure.record import Instrument, each, in_words
from utils.model.studies import Study, plain, revived

# Study → the module that has its PARTS; the names are the lessons' stems.
STUDIES = {
    "dispatcher": "utils.measure.dispatcher",
    "autograd": "utils.measure.autograd",
    "launch": "utils.measure.launch",
    "ridge_point": "utils.measure.ridge_point",
    "two_ceilings": "utils.measure.two_ceilings",
    "batch_and_scale": "utils.measure.batch_and_scale",
    "fuse": "utils.measure.fuse",
    "reach_the_roof": "utils.measure.reach_the_roof",
    "capture": "utils.measure.capture",
    "memory_plan": "utils.measure.planned_memory",
    "scoreboard": "utils.measure.on_the_board",
}


@dataclass(frozen=True)
class Part:
    """One measurement of a study: `measure(device, progress)` gives a Race or plain data. `devices` are those it can run on;
    `weight` is its share of the time."""

    measure: Callable[[str, Progress], Any]
    devices: tuple[str, ...] = ("cpu", "cuda")
    weight: float = 1.0


def parts_of(name: str) -> dict[str, Part]:
    """The parts of one study. Raises KeyError for a study that there is not."""
    return import_module(STUDIES[name]).PARTS


def record_study(
    name: str, device: str = "cpu", *, progress: Progress | None = None, run: list[Instrument] | None = None
) -> Study:
    """Measure every part of the study that fits the device, each in a fresh process (`run` replaces the list in tests)."""
    todo = instruments(name, device) if run is None else run
    parts, failures = {}, {}
    for one, measured in each(todo, progress or (lambda done, text: None)):
        if isinstance(measured, Exception):
            failures[one.name] = in_words(measured)
        else:
            parts[one.name] = revived(measured)
    return Study(
        name=name,
        device=device,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        where=machine.fingerprint(),
        parts=parts,
        failures=failures,
        command=f"python -m utils record --study {name} --device {device}",
        source="live",
    )


def instruments(name: str, device: str) -> list[Instrument]:
    """What is run for one study on one device, in the order of its PARTS."""
    return [
        Instrument(part_name, "parts", partial(_in_child, name, part_name, device), part.weight)
        for part_name, part in parts_of(name).items()
        if device in part.devices
    ]


def _in_child(name: str, part: str, device: str, progress: Progress) -> dict:
    return children.in_child("utils.measure.study", (name, part, device), progress)


def _child(name: str, part: str, device: str) -> None:
    """The other end: one part, as JSON."""
    children.serve(lambda progress: plain(parts_of(name)[part].measure(device, progress)))


if __name__ == "__main__":
    _child(*sys.argv[1:4])
