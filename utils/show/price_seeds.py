"""Whose prices the cost profiler starts from: the texts', this machine's, the reader's receipt, every recorded machine's.

A seed is a machine's `Prices` with the label that must stand beside them. What cannot be had (no recording, no receipt kept) is
no seed; the texts' own settings always are.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

from utils.measure import two_ceilings
from utils.measure.launch_here import Found
from utils.model import recordings, results, studies
from utils.model.costmodel import Prices
from utils.model.quantities import NotMeasured
from utils.model.readings import Receipt
from utils.model.recordings import RecordingError, receipt_label

STUDY = "two_ceilings"
BANDWIDTHS = ((STUDY, "calibration"), ("ridge_point", "peaks"))  # where a machine's GB/s may stand, the first one first
STOCK = "the texts' settings"
NOW = "this machine, measured now"
RECEIPT = "this machine, its receipt of lesson 05"


@dataclass(frozen=True)
class Seed:
    """One machine's prices; `device` is "cpu" where host and kernel are one thread, `label` says whose, when, measured how."""

    prices: Prices
    device: str
    label: str


def seeds(calibration: Found | None = None, device: str = "cpu") -> dict[str, Seed]:
    """By the name that the reader chooses: the texts', then what was measured here (`calibration`, on `device`), the reader's
    kept receipt with that bandwidth, then every usable recording."""
    out = {STOCK: Seed(Prices(), "cuda", "the texts' round figures: nobody's measurement")}
    if calibration is not None and calibration.value is not None:
        now = two_ceilings.prices(calibration.value)
        out[NOW] = Seed(now, calibration.value["device"], calibration.label)
        kept = results.latest_receipt(device)
        if kept is not None and kept.device == calibration.value["device"]:
            out[RECEIPT] = Seed(of_receipt(kept, now), device, f"{receipt_label(kept)} · bandwidth measured now")
    return out | _recorded_studies() | _recorded_receipts()


def of_receipt(receipt: Receipt, rest: Prices) -> Prices:
    """A receipt's host price of one op, hot, with everything else from `rest`. On a GPU the last stage is the launch."""
    total = 1e-3 * receipt.total_ns
    try:
        launch = 1e-3 * (receipt.stage("kernel").ns or 0.0) if receipt.device == "cuda" else 0.0
    except KeyError:
        launch = 0.0
    launch = min(launch, total)
    return replace(rest, dispatch_us=total - launch, launch_us=launch)


def _recorded_studies() -> dict[str, Seed]:
    out = {}
    for stem in studies.available(STUDY):
        study = _usable(studies.load, STUDY, stem)
        if study is not None and "calibration" in study.parts:
            found = study.parts["calibration"]
            out[f"{_short(study.where, study.device)}, {stem}"] = Seed(two_ceilings.prices(found), study.device, study.label())
    return out


def _recorded_receipts() -> dict[str, Seed]:
    out = {}
    for stem in recordings.available():
        recording = _usable(recordings.load, stem)
        receipt = recording and recording.receipt()
        gbps = recording and _bandwidth(stem)
        if receipt and gbps:
            prices = of_receipt(receipt, Prices(launch_us=0.0, gbps=gbps))
            label = f"{recording.label()} · bandwidth of the same machine's study"
            out[f"{_short(recording.where, recording.device)}, receipt of {stem}"] = Seed(prices, recording.device, label)
    return out


def _bandwidth(stem: str) -> float | None:
    """GB/s of the machine of this stem, from the first study that has it."""
    for name, part in BANDWIDTHS:
        study = _usable(studies.load, name, stem) if stem in studies.available(name) else None
        try:
            if study is not None:
                return study.part(part)["numbers"]["gbps"]
        except (NotMeasured, KeyError):
            continue
    return None


def _usable(load, *which):
    """What `load` gives, or None, with a warning that says why, for a file that cannot be used."""
    try:
        return load(*which)
    except RecordingError as reason:
        warnings.warn(str(reason), stacklevel=3)
        return None


def _short(where: dict, device: str) -> str:
    return "recorded " + str(where.get("gpu") if device == "cuda" else where.get("cpu") or "CPU")
