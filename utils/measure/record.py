"""Runs every instrument of the course once and puts what they measured into one recording.

A recording is a plain dict (JSON): date, where (fingerprint), command, receipts, extras. An instrument that fails leaves
its reason in extras["failures"], and the rest goes on. Numbers are rounded so that a file stays small; sealing, naming and
writing are `utils.model.recordings`' business.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from utils.measure import children, machine
from utils.measure.children import Progress


@dataclass(frozen=True)
class Instrument:
    """One thing to run: `measure(progress)` gives plain data for `part` ("receipts", "extras"); `weight` is its share of time."""

    name: str
    part: str
    measure: Callable[[Progress], object]
    weight: float = 1.0


def instruments(device: str) -> list[Instrument]:
    """What is run for this device: the CPU's receipts always, the GPU's (with its lanes) for "cuda", then the contrast of
    cold code with cold data, then the five traps. Each runs in a process of its own."""
    weights = {"cpu": 3.0, "cpu_grad": 3.0, "cuda": 5.0, "cuda_grad": 4.0, "code_or_data": 1.0, "traps": 2.0}
    names = [name for name in MEASURES if device == "cuda" or not name.startswith("cuda")]
    return [Instrument(name, MEASURES[name][0], partial(in_child, name, device), weights[name]) for name in names]


def record(device: str = "cpu", *, progress: Progress | None = None, run: list[Instrument] | None = None) -> dict:
    """Runs the instruments (`run` replaces the list in tests) and returns the recording as plain JSON data."""
    report = progress or (lambda done, text: None)
    todo = instruments(device) if run is None else run
    out: dict = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "where": machine.fingerprint(),
        "command": f"python -m utils record --device {device}",
        "receipts": {},
        "extras": {},
    }
    for one, measured in each(todo, report):
        if isinstance(measured, Exception):
            out["extras"].setdefault("failures", {})[one.name] = in_words(measured)
        else:
            out[one.part][one.name] = measured
    return out


def each(todo: Iterable[Instrument], report: Progress) -> Iterator[tuple[Instrument, object]]:
    """(instrument, what it measured, rounded) one after the other; the exception in its place for one that fails, so that it
    does not cost the others."""
    todo = list(todo)
    whole, done = sum(i.weight for i in todo), 0.0
    for one in todo:

        def within(part: float, text: str, one=one, done=done) -> None:
            # Short of 1: a bar closes itself there, and the next instrument still has to run.
            report(0.999 * (done + one.weight * min(1.0, max(0.0, part))) / whole, f"{one.name}: {text}" if text else one.name)

        within(0.0, "")
        try:
            measured = rounded(one.measure(within))
        except Exception as error:
            measured = error
        yield one, measured
        done += one.weight
    report(1.0, "done")


def rounded(data):
    """`data` as plain JSON with every float cut to four significant digits (two decimals at most are ever meant)."""
    if isinstance(data, dict):
        return {str(k): rounded(v) for k, v in data.items()}
    if isinstance(data, (list, tuple)):
        return [rounded(v) for v in data]
    if isinstance(data, float):
        if not math.isfinite(data):
            raise ValueError("a number that is not finite is no measurement")
        return round(data, 3 - math.floor(math.log10(abs(data)))) if data else 0.0
    return data


def in_words(error: Exception) -> str:
    """The reason an instrument failed, without the folders of this machine."""
    said = re.sub(r"/[^\s:'\"]*/", "", " ".join(str(error).split()))[:300]
    return said or type(error).__name__


# ---- an instrument in a process of its own ------------------------------------------------------------------------------


def in_child(name: str, device: str, progress: Progress) -> dict:
    """What MEASURES[name] measures, in a fresh process; RuntimeError with the reason when that process fails or dies."""
    return children.in_child("utils.measure.record", (name, device), progress)


def _child(name: str, device: str) -> None:
    """The other end of `in_child`."""
    children.serve(lambda progress: MEASURES[name][1](device, progress))


def _receipt(on: str, grad: bool, device: str, progress: Progress) -> dict:
    from utils.measure.stages import price_stages

    return price_stages(on, grad, progress=progress).to_dict()


def _code_or_data(device: str, progress: Progress) -> dict:
    from utils.measure.programs import code_or_data

    return code_or_data(device, progress=progress).to_dict()


def _traps(device: str, progress: Progress) -> dict:
    from utils.measure import traps

    return traps.run_all(device, progress=progress)


# Instrument → (its part of the recording, what measures it), in the order in which they run.
MEASURES: dict[str, tuple[str, Callable[[str, Progress], dict]]] = {
    "cpu": ("receipts", partial(_receipt, "cpu", False)),
    "cpu_grad": ("receipts", partial(_receipt, "cpu", True)),
    "cuda": ("receipts", partial(_receipt, "cuda", False)),
    "cuda_grad": ("receipts", partial(_receipt, "cuda", True)),
    "code_or_data": ("extras", _code_or_data),
    "traps": ("extras", _traps),
}

if __name__ == "__main__":
    _child(*sys.argv[1:3])
