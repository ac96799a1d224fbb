"""Runs every instrument of the course once and puts what they measured into one recording.

A recording is a plain dict (JSON): date, where (fingerprint), command, receipts, extras. An instrument that fails leaves
its reason in extras["failures"], and the rest goes on. Numbers are rounded so that a file stays small; sealing, naming and
writing are `utils.model.recordings`' business.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from utils.measure import machine

Progress = Callable[[float, str], None]


@dataclass(frozen=True)
class Instrument:
    """One thing to run: `measure(progress)` gives plain data for `part` ("receipts", "extras"); `weight` is its share of time."""

    name: str
    part: str
    measure: Callable[[Progress], object]
    weight: float = 1.0


def instruments(device: str) -> list[Instrument]:
    """What is run for this device: the CPU's receipts always, the GPU's (with its lanes) for "cuda", then the contrast of
    cold code with cold data, then the five traps."""
    out = [
        Instrument("cpu", "receipts", lambda p: _receipt("cpu", False, p), 3),
        Instrument("cpu_grad", "receipts", lambda p: _receipt("cpu", True, p), 3),
    ]
    if device == "cuda":
        out += [
            Instrument("cuda", "receipts", lambda p: _receipt("cuda", False, p), 4),
            Instrument("cuda_grad", "receipts", lambda p: _receipt("cuda", True, p), 4),
        ]
    out.append(Instrument("code_or_data", "extras", lambda p: _code_or_data(device, p)))
    return [*out, Instrument("traps", "extras", lambda p: _traps(device, p), 2)]


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
    whole, done = sum(i.weight for i in todo), 0.0
    for one in todo:

        def within(part: float, text: str, one=one, done=done) -> None:
            # Short of 1: a bar closes itself there, and the next instrument still has to run.
            report(0.999 * (done + one.weight * min(1.0, max(0.0, part))) / whole, f"{one.name}: {text}" if text else one.name)

        within(0.0, "")
        try:
            out[one.part][one.name] = rounded(one.measure(within))
        except Exception as error:  # one instrument must not cost the others
            out["extras"].setdefault("failures", {})[one.name] = _in_words(error)
        done += one.weight
    report(1.0, "done")
    return out


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


def _in_words(error: Exception) -> str:
    """The reason an instrument failed, without the folders of this machine."""
    said = re.sub(r"/[^\s:'\"]*/", "", " ".join(str(error).split()))[:300]
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _receipt(device: str, grad: bool, progress: Progress) -> dict:
    from utils.measure.stages import price_stages

    return price_stages(device, grad, progress=progress).to_dict()


def _code_or_data(device: str, progress: Progress) -> dict:
    from utils.measure.programs import code_or_data

    return code_or_data(device, progress=progress).to_dict()


def _traps(device: str, progress: Progress) -> dict:
    from utils.measure import traps

    return traps.run_all(device, progress=progress)
