"""Runs every instrument of the course once and puts what they measured into one recording.

A recording is a plain dict (JSON): format, version, date, where (fingerprint), command, receipts, extras, failures. An
instrument that fails leaves its reason in `failures` and the rest goes on. Samples are rounded so that a file stays small.
"""

from __future__ import annotations

import json
import math
import os
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from utils.measure import machine

FORMAT, VERSION = "one-add-priced/recording", 1
Progress = Callable[[float, str], None]


@dataclass(frozen=True)
class Instrument:
    """One thing to run: `measure(progress)` gives plain data for `part` ("receipts", "extras"); `weight` is its share of time."""

    name: str
    part: str
    measure: Callable[[Progress], object]
    weight: float = 1.0


def instruments(device: str) -> list[Instrument]:
    """What is run for this device: the CPU's receipts always, the GPU's and its lanes for "cuda", then the five traps."""
    out = [
        Instrument("cpu", "receipts", lambda p: _receipt("cpu", False, p), 3),
        Instrument("cpu_grad", "receipts", lambda p: _receipt("cpu", True, p), 3),
    ]
    if device == "cuda":
        out += [
            Instrument("cuda", "receipts", lambda p: _receipt("cuda", False, p), 4),
            Instrument("cuda_grad", "receipts", lambda p: _receipt("cuda", True, p), 4),
            Instrument("lanes", "extras", _lanes, 2),
        ]
    return [*out, Instrument("traps", "extras", lambda p: _traps(device, p), 2)]


def record(device: str = "cpu", *, progress: Progress | None = None, run: list[Instrument] | None = None) -> dict:
    """Runs the instruments (`run` replaces the list in tests) and returns the recording as plain JSON data."""
    report = progress or (lambda done, text: None)
    todo = instruments(device) if run is None else run
    out: dict = {
        "format": FORMAT,
        "version": VERSION,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "where": machine.fingerprint(),
        "command": f"python -m utils record --device {device}",
        "receipts": {},
        "extras": {},
        "failures": {},
    }
    whole, done = sum(i.weight for i in todo), 0.0
    for one in todo:

        def within(part: float, text: str, one=one, done=done) -> None:
            report((done + one.weight * min(1.0, max(0.0, part))) / whole * 0.999, f"{one.name}: {text}" if text else one.name)

        within(0.0, "")
        try:
            out[one.part][one.name] = rounded(one.measure(within))
        except Exception as error:  # one instrument must not cost the others
            out["failures"][one.name] = _in_words(error)
        done += one.weight
    report(1.0, "done")
    return out


def write(path: Path, data: dict) -> None:
    """Writes the recording so that `path` holds the old file or the whole new one, whatever happens in between."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"), indent=None)
    text = _one_line_per_series(text)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, spare = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(spare, 0o644)  # mkstemp makes private files, and a recording is meant to be shared
        os.replace(spare, path)
    except BaseException:
        Path(spare).unlink(missing_ok=True)
        raise


def stem(where: dict, device: str) -> str:
    """The recording's file name without .json: "cpu-2core-torch2.13", "h200-torch2.11"."""
    torch = "torch" + ".".join(str(where.get("torch") or "0.0").split(".")[:2])
    if device != "cuda":
        return f"cpu-{where.get('cores', 0):g}core-{torch}"
    kind = machine.device_class(where, "cuda")
    if kind == "unknown":
        kind = re.sub(r"[^a-z0-9]+", "-", str(where.get("gpu") or "gpu").lower()).strip("-")
    return f"{kind}-{torch}"


def rounded(data):
    """`data` with every float cut to four significant digits, at least to the unit: a block's ns are never known better."""
    if isinstance(data, dict):
        return {str(k): rounded(v) for k, v in data.items()}
    if isinstance(data, (list, tuple)):
        return [rounded(v) for v in data]
    if isinstance(data, float):
        if not math.isfinite(data):
            return None
        if data == 0:
            return 0.0
        return round(data, max(0, 3 - math.floor(math.log10(abs(data)))))
    return data


def _one_line_per_series(text: str) -> str:
    """A line break after each reading: a diff of two recordings then shows which readings changed."""
    return text.replace("},", "},\n") + "\n"


def _in_words(error: Exception) -> str:
    """The reason an instrument failed, without the folders of this machine."""
    said = re.sub(r"/[^\s:'\"]*/", "", " ".join(str(error).split()))[:300]
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _receipt(device: str, grad: bool, progress: Progress) -> dict:
    from utils.measure.stages import price_stages

    receipt = price_stages(device, grad, progress=progress)
    return {**receipt.to_dict(), "source": "recorded"}


def _lanes(progress: Progress) -> object:
    from utils.measure import lanes

    return lanes.measure(progress=progress)


def _traps(device: str, progress: Progress) -> object:
    from utils.measure import traps

    return traps.measure(device, progress=progress)
