"""Measures the claims again on this machine: of every instrument and study only what some claim's number comes from."""

from __future__ import annotations

from datetime import UTC, datetime

from utils.measure import machine, record, study
from utils.measure.children import Progress
from utils.measure.record import Instrument, each, in_words
from utils.model import ledger, recordings
from utils.model.drift import Measured
from utils.model.readings import Receipt
from utils.model.recordings import Recording
from utils.model.studies import Study, revived


def todo(device: str, lesson: str | None = None) -> dict[str, list[Instrument]]:
    """Study → the parts that some claim's number comes from on this device; under "" the receipts and the extras.

    lesson: only what the claims of that lesson need.
    """
    metrics = [c.metric for c in ledger.claims(lesson) if c.metric and c.metric.get("device", device) == device]
    found: dict[str, list[Instrument]] = {}
    names = {m["extra"] for m in metrics if "extra" in m}
    names |= {f"{device}_grad" if m.get("grad") else device for m in metrics if "study" not in m and "extra" not in m}
    if receipts := [one for one in record.instruments(device) if one.name in names]:
        found[""] = receipts
    for name in dict.fromkeys(m["study"] for m in metrics if "study" in m):
        parts = {m["part"] for m in metrics if m.get("study") == name}
        if wanted := [one for one in study.instruments(name, device) if one.name in parts]:
            found[name] = wanted
    return found


def remeasure(
    device: str, lesson: str | None = None, *, progress: Progress | None = None, run: dict[str, list[Instrument]] | None = None
) -> tuple[Measured, dict[str, str]]:
    """(what was measured, why an instrument failed, by its name); each in a process of its own (`run` replaces it in tests).

    On two CPU cores about five minutes.
    """
    plan = todo(device, lesson) if run is None else run
    owner = {id(one): name for name, ones in plan.items() for one in ones}
    date, where = datetime.now(UTC).isoformat(timespec="seconds"), machine.fingerprint()
    receipts: dict[str, Receipt] = {}
    extras: dict[str, dict] = {}
    parts: dict[str, dict] = {}
    failures: dict[str, str] = {}
    for one, measured in each([one for ones in plan.values() for one in ones], progress or (lambda done, text: None)):
        name = owner[id(one)]
        if isinstance(measured, Exception):
            failures[f"{name}: {one.name}" if name else one.name] = in_words(measured)
        elif name:
            parts.setdefault(name, {})[one.name] = revived(measured)
        elif one.part == "receipts":
            receipts[one.name] = Receipt.from_dict(measured)
        else:
            extras[one.name] = measured
    recording = None
    if receipts or extras:
        stem = recordings.stem_for(where, receipts)
        recording = Recording(
            stem=stem, date=date, where=where, receipts=receipts, extras=extras, command="python -m utils verify"
        )
    found = {name: Study(name, device, date, where, those, source="live") for name, those in parts.items()}
    return Measured(recording, found), failures
