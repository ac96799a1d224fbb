"""Committed measurements of real machines: found, verified, loaded, and always labelled as what they are.

A recording is `utils/recordings/<stem>.json`: raw samples, the fingerprint, the command that made it, the sums that the
samples give, and a digest of all that. One that was changed, or that lies under another machine's name, is refused.
What is loaded has `source == "recorded"`, so that it can never pass for a measurement of this machine.
"""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from utils import paths
from utils.model import files, schemas
from utils.model.readings import Receipt

FORMAT = "one-add-priced/recording"
VERSION = 1
KEYS = ("cpu", "cpu_grad", "cuda", "cuda_grad")
# The machines that the course speaks of. One that a reader adds is in the gallery, and changes nothing that a lesson says.
REFERENCE = {"cuda": "h200-", "cpu": "cpu-2core-"}
SAME = ("cpu", "gpu", "torch", "python")  # a receipt and its recording must agree on these


class RecordingError(ValueError):
    """A recording cannot be used; the message says which and why."""


@dataclass(frozen=True)
class Recording:
    """One recording. `receipts` by "cpu", "cpu_grad", "cuda", "cuda_grad" (those it has); `extras` are other instruments'."""

    stem: str
    date: str
    where: dict
    receipts: dict[str, Receipt]
    extras: dict[str, dict] = field(default_factory=dict)
    command: str = ""

    @property
    def device(self) -> str:
        """ "cuda" when it has a receipt of a GPU, else "cpu"."""
        return "cuda" if any(k.startswith("cuda") for k in self.receipts) else "cpu"

    def label(self, device: str | None = None) -> str:
        """What must stand beside every number of it: recorded · device · driver · torch · date."""
        return label(self.where, self.date, device or self.device)

    def receipt(self, device: str | None = None, grad: bool = False) -> Receipt | None:
        """The receipt of a device (default: the GPU where there is one), or None."""
        return self.receipts.get((device or self.device) + ("_grad" if grad else ""))


def label(where: Mapping[str, Any], date: str, device: str) -> str:
    """ "recorded · NVIDIA H200 · driver 570.86 · torch 2.11.0+cu130 · 2026-11-29"."""
    if device == "cuda":
        parts = [where.get("gpu") or "a GPU", f"driver {where['driver']}" if where.get("driver") else ""]
    else:
        cores = where.get("cores")
        parts = [(where.get("cpu") or "a CPU") + (f", {cores:g} cores" if isinstance(cores, int | float) else "")]
    return " · ".join(p for p in ["recorded", *parts, f"torch {where.get('torch')}", date[:10]] if p)


def receipt_label(receipt: Receipt) -> str:
    """The label of a receipt: "live · …" or "recorded · …"; for tables and figures that hold both."""
    text = label(receipt.where, receipt.date, receipt.device)
    return text if receipt.source == "recorded" else "live" + text.removeprefix("recorded")


def available(folder: Path | None = None) -> list[str]:
    """The stems of all recordings there are, in alphabetical order, whether they can be used or not."""
    return sorted(p.stem for p in (folder or paths.RECORDINGS).glob("*.json"))


def load(stem: str, folder: Path | None = None) -> Recording:
    """The verified recording of this stem. Raises RecordingError when it is missing, damaged, changed, foreign or newer."""
    path = (folder or paths.RECORDINGS) / f"{stem}.json"
    if not path.is_file():
        known = ", ".join(available(folder)) or "none"
        raise RecordingError(f"there is no recording {stem!r} (there are: {known}): not measured")
    stat = path.stat()
    return _load(path, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=16)
def _load(path: Path, mtime_ns: int, size: int) -> Recording:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, ValueError) as error:
        raise RecordingError(f"{path.name} is damaged: {error}") from None
    verify(data, path.stem)
    return Recording(
        stem=path.stem,
        date=data["date"],
        where=data["where"],
        receipts={k: replace(Receipt.from_dict(d), source="recorded") for k, d in data["receipts"].items()},
        extras=data["extras"],
        command=data["command"],
    )


def best(device: str = "cuda", folder: Path | None = None) -> Recording | None:
    """The newest usable recording that has a receipt of this device ("cuda" or "cpu"), or None: then say "not measured".

    One of the course's own machines (REFERENCE) goes before all others. For "cpu" one without a GPU is preferred: the CPU of a
    GPU server is not what a reader without a GPU sits at. A recording that cannot be used is passed over with a warning that
    says why.
    """
    found = []
    for stem in available(folder):
        try:
            recording = load(stem, folder)
        except RecordingError as reason:
            warnings.warn(str(reason), stacklevel=2)
            continue
        if recording.receipt(device) or recording.receipt(device, grad=True):
            found.append(recording)
    return max(found, key=lambda r: (r.device == device, is_reference(r.stem, device), r.date), default=None)


def is_reference(stem: str, device: str) -> bool:
    """Whether files of this name are of the machine that the course speaks of when it says "recorded"."""
    return stem.startswith(REFERENCE[device])


# ---- making one ---------------------------------------------------------------------------------------------------------


def stem_for(where: Mapping[str, Any], receipts: Mapping[str, Any]) -> str:
    """The name a recording must have: "h200-torch2.11", "cpu-2core-torch2.13"."""
    torch = re.match(r"\d+\.\d+", str(where.get("torch")))
    if not torch:
        raise RecordingError(f"the fingerprint's torch is {where.get('torch')!r}")
    if any(k.startswith("cuda") for k in receipts):
        return f"{_gpu_class(where)}-torch{torch[0]}"
    return f"cpu-{float(where.get('cores') or 0):g}core-torch{torch[0]}"


def seal(data: Mapping[str, Any]) -> dict:
    """The same content with the sums that its samples give and a digest over all: what `verify` compares."""
    sealed = {k: v for k, v in data.items() if k not in ("sums", "digest")}
    sealed["sums"] = {k: _sums(d) for k, d in data["receipts"].items()}
    sealed["digest"] = digest(sealed)
    return sealed


def write(data: Mapping[str, Any], stem: str | None = None, folder: Path | None = None) -> Path:
    """Seal, verify and write one recording, atomically. `data` has format, version, date, where, receipts, extras, command;
    receipts may be Receipt objects. Raises RecordingError when it would not be accepted by `load`."""
    receipts = {k: r.to_dict() if isinstance(r, Receipt) else r for k, r in data["receipts"].items()}
    sealed = seal(json.loads(files.to_json({"format": FORMAT, "version": VERSION, "extras": {}, **data, "receipts": receipts})))
    stem = stem or stem_for(sealed["where"], receipts)
    verify(sealed, stem)
    path = (folder or paths.RECORDINGS) / f"{stem}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_atomically(path, files.to_json(sealed, compact=True))
    return path


# ---- verifying one ------------------------------------------------------------------------------------------------------


def verify(data: Any, stem: str) -> None:
    """Raise RecordingError, with the reason, unless `data` is an intact recording of the machine that its name says."""
    name = f"{stem}.json"
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise RecordingError(f"{name} is not a recording of this course")
    if isinstance(data.get("version"), int) and data["version"] > VERSION:
        raise RecordingError(f"{name} is of version {data['version']}, written by a newer course (this one knows {VERSION})")
    try:
        schemas.validate("recording", data)
    except schemas.SchemaError as error:
        raise RecordingError(f"{name} is damaged: {error}") from None
    _verify_receipts(name, data)
    if "sums" not in data or "digest" not in data:
        raise RecordingError(f"{name} was never sealed: it has no sums or no digest")
    for key, stored in data["sums"].items():
        found = _sums(data["receipts"][key]) if key in data["receipts"] else {}
        if stored != found:
            raise RecordingError(f"{name}: {key}: the samples give {found}, the file says {stored}: it was changed")
    if data["digest"] != digest(data):
        raise RecordingError(f"{name} was changed after it was recorded: its digest does not fit its content")
    wanted = stem_for(data["where"], data["receipts"])
    if stem != wanted:
        raise RecordingError(f"{name} holds the wrong device's recording: its content is that of {wanted}")


def _verify_receipts(name: str, data: dict) -> None:
    for key, d in data["receipts"].items():
        if key != d["device"] + ("_grad" if d["grad"] else ""):
            raise RecordingError(f"{name}: {key} holds a receipt of {d['device']}, grad {d['grad']}")
        if d["device"] == "cuda" and not d["where"].get("gpu"):
            raise RecordingError(f"{name}: {key}: the wrong device's recording: its fingerprint names no GPU")
        other = [k for k in SAME if d["where"].get(k) != data["where"].get(k)]
        if other:
            pairs = ", ".join(f"{k} {d['where'].get(k)!r} against {data['where'].get(k)!r}" for k in other)
            raise RecordingError(f"{name}: {key}: the wrong device's recording: {pairs}")


def digest(data: Mapping[str, Any]) -> str:
    """sha256 over everything but the digest itself, independent of blanks and key order."""
    body = {k: v for k, v in data.items() if k != "digest"}
    text = json.dumps(body, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def is_committed(receipt: Receipt) -> bool:
    """True when exactly this receipt, sample by sample, is in one of the committed recordings."""
    for stem in available():
        try:
            known = load(stem).receipts.values()
        except RecordingError:
            continue
        if any(receipt == other for other in known):
            return True
    return False


def _sums(receipt: dict) -> dict[str, float]:
    r = Receipt.from_dict(receipt)
    return {
        "end_to_end_ns": round(r.total_ns, 2),
        "stage_sum_ns": round(r.stage_sum_ns, 2),
        "coverage": round(r.coverage, 4),
    }


def _gpu_class(where: Mapping[str, Any]) -> str:
    from utils.measure.machine import device_class  # imports no torch

    return device_class(dict(where), "cuda")
