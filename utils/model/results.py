"""What this reader measured and predicted: one file, `results.json` in the reader's folder, rows of all machines.

Every row carries its machine (a hash of the fingerprint), its torch and its date; a lesson reads only rows of this machine
and this torch. A file that cannot be read is refused with the reason and set aside under another name, never overwritten;
an older one is migrated (the old file kept beside it), a newer one left alone: the session then lives in memory, and
`notes()` says so. Writes are atomic, one writer at a time; what could not be written is kept and written when it can be.
"""

from __future__ import annotations

import errno
import hashlib
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from utils import paths
from utils.model import files, schemas
from utils.model.readings import Receipt

FORMAT = "one-add-priced/results"
VERSION = 1
KEEP = 100  # rows of one kind, machine and torch; the oldest leave first, so that the file stays below some 20 MB
MACHINE_KEYS = ("cpu", "machine", "cores", "gpu", "capability", "os")  # what makes it another machine; torch is its own column


class ResultsError(ValueError):
    """A results file cannot be used; the message says why, in words."""


class NewerFile(ResultsError):
    """The file was written by a newer course than this one."""


def machine_id(where: Mapping[str, Any]) -> str:
    """Twelve hex digits that name a machine: the hash of its CPU, cores, GPU and system (not of torch, Python or driver)."""
    text = json.dumps({k: where.get(k) for k in MACHINE_KEYS}, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


class Results:
    """One results file. The functions below use the reader's own; tests and imports make others."""

    def __init__(self, path: Path):
        self.path = path
        self.notes: list[str] = []
        self._waiting: list[tuple[str, dict]] = []  # (list in the file, entry) that could not be written yet
        self._in_memory = False  # True when the file on disk must not be touched

    # ---- reading --------------------------------------------------------------------------------------------------------

    def rows(self, kind: str | None = None, *, machine: str | None = None, torch: str | None = None) -> list[dict]:
        """Rows in the order in which they were recorded, of one kind, machine or torch where given."""
        wanted = {"kind": kind, "machine": machine, "torch": torch}
        return [r for r in self._all("rows") if all(v is None or r[k] == v for k, v in wanted.items())]

    def predictions(self, prediction_id: str | None = None) -> list[dict]:
        """Predictions in the order in which they were made, all or those of one id."""
        return [p for p in self._all("predictions") if prediction_id in (None, p["id"])]

    def _all(self, part: str) -> list[dict]:
        with files.locked(self.path):
            data = self._read()
        return data[part] + [entry for where, entry in self._waiting if where == part]

    def _read(self) -> dict:
        """The file's content, or an empty one. Sets a bad file aside and notes why; call it while holding the lock."""
        if self._in_memory or not self.path.exists():
            return _empty()
        try:
            data, old_version = _parse(self.path)
        except NewerFile as reason:
            self._note(f"{self.path.name} {reason}; it stays as it is, and this session keeps its measurements in memory")
            self._in_memory = True
            return _empty()
        except ResultsError as reason:
            self._set_aside("refused", f"{self.path.name} cannot be used: {reason}")
            return _empty()
        except OSError as error:
            self._note(f"{self.path.name} cannot be read ({error.strerror}): this session keeps its measurements in memory")
            self._in_memory = True
            return _empty()
        if old_version is not None:
            if self._set_aside(f"version-{old_version}", f"{self.path.name} was of version {old_version} and has been migrated"):
                self._write(data)
        return data

    def _set_aside(self, word: str, why: str) -> bool:
        try:
            kept = files.set_aside(self.path, word)
        except OSError as error:
            self._note(f"{why}; it could not be renamed ({error.strerror}), so this session keeps its measurements in memory")
            self._in_memory = True
            return False
        self._note(f"{why}; the file is kept as {kept.name}")
        return True

    # ---- writing --------------------------------------------------------------------------------------------------------

    def add(self, part: str, entry: dict) -> None:
        """Append one entry to "rows" or "predictions", on disk when possible, else in memory with a note saying why.

        Raises ResultsError when the entry itself is wrong (a NaN, a missing field): that is the caller's mistake.
        """
        checked = _empty()
        checked[part].append(entry)
        try:
            json.loads(files.to_json(checked))
            schemas.validate("results", checked)
        except (TypeError, ValueError) as reason:
            raise ResultsError(f"this entry cannot be kept: {reason}") from None
        self._waiting.append((part, entry))
        self._save()

    def _save(self) -> None:
        with files.locked(self.path):
            data = self._read()
            if self._in_memory:
                return
            for part, entry in self._waiting:
                data[part].append(entry)
            if self._write(_pruned(data)):
                self._waiting.clear()

    def _write(self, data: dict) -> bool:
        try:
            files.remove_leftovers(self.path)
            files.write_atomically(self.path, files.to_json(data, compact=True))
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
            reason = "the disk is full" if full else error.strerror or str(error)
            self._note(
                f"{self.path.name} could not be written ({reason}): nothing in it is lost, and what was measured since is "
                "kept in memory and written with the next measurement that can be"
            )
            return False
        return True

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    # ---- copies (Colab: download or Drive) ------------------------------------------------------------------------------

    def export(self, path: Path | str) -> Path:
        """Write everything, also what waits in memory, to a file of its own and return its path.

        Raises ResultsError when `path` holds something else than such an export: that is never overwritten.
        """
        target = Path(path).expanduser()
        if target.exists():
            try:
                _parse(target)
            except ResultsError as error:
                raise ResultsError(f"{target} is there already and is kept: {error}") from None
        data = {**_empty(), "rows": self.rows(), "predictions": self.predictions()}
        files.write_atomically(target, files.to_json(data, compact=True))
        return target

    def import_(self, path: Path | str) -> int:
        """Add what an exported file has and this one has not; returns how many entries that were.

        Raises ResultsError, and changes nothing, when that file is missing, damaged, foreign or newer.
        """
        source = Path(path).expanduser()
        if not source.is_file():
            raise ResultsError(f"there is no file {source}")
        try:
            data, _ = _parse(source)
        except ResultsError as error:
            raise ResultsError(f"{source} cannot be imported: {error}") from None
        new = 0
        for part in ("rows", "predictions"):
            known = {_identity(entry) for entry in self._all(part)}
            for entry in data[part]:
                if _identity(entry) not in known:
                    self._waiting.append((part, entry))
                    new += 1
        if new:
            self._save()
        return new


# ---- the reader's own file ------------------------------------------------------------------------------------------------


@cache
def _open(path: Path) -> Results:
    return Results(path)


def load() -> Results:
    """The reader's results (the same object for the whole session, so that what waits in memory is not forgotten)."""
    return _open(paths.home() / "results.json")


def record(kind: str, payload: Any, *, where: Mapping[str, Any] | None = None) -> dict:
    """Keep what was measured on this machine; returns the row. `payload` is a dict or has `to_dict` (Receipt, Race).

    `where` is the fingerprint; left out, the payload's own or this machine's. Recordings are refused: they are not the
    reader's. Never raises because of the disk: see `notes()`.
    """
    if isinstance(payload, Receipt) and payload.source != "live":
        raise ResultsError("a recorded receipt is not a measurement of this reader")
    body = payload.to_dict() if hasattr(payload, "to_dict") else dict(payload)
    where = dict(where or body.get("where") or _fingerprint())
    row = {
        "kind": kind,
        "machine": machine_id(where),
        "torch": str(where.get("torch")),
        "date": _now(),
        "where": where,
        "payload": body,
    }
    load().add("rows", row)
    return row


def latest(kind: str, *, where: Mapping[str, Any] | None = None) -> dict | None:
    """The newest payload of this kind that was measured on this machine with this torch, or None."""
    where = where or _fingerprint()
    found = load().rows(kind, machine=machine_id(where), torch=str(where.get("torch")))
    return found[-1]["payload"] if found else None


def receipt_kind(device: str, grad: bool) -> str:
    """The kind under which a receipt is kept: "receipt_cpu", "receipt_cuda_grad"."""
    return f"receipt_{device}" + ("_grad" if grad else "")


def record_receipt(receipt: Receipt) -> dict:
    """Keep a receipt under the kind of its device and grad."""
    return record(receipt_kind(receipt.device, receipt.grad), receipt)


def latest_receipt(device: str = "cpu", grad: bool = False, *, where: Mapping[str, Any] | None = None) -> Receipt | None:
    """The newest receipt of this machine and torch, or None."""
    found = latest(receipt_kind(device, grad), where=where)
    return Receipt.from_dict(found) if found else None


def predict(
    prediction_id: str,
    answer: float | str | bool | None,
    *,
    skipped: bool = False,
    unit: str | None = None,
    extra: dict | None = None,
) -> dict:
    """Keep a prediction (or that it was skipped); returns the entry."""
    entry = {"id": prediction_id, "date": _now(), "skipped": skipped, "answer": answer, "unit": unit, "extra": extra or {}}
    load().add("predictions", entry)
    return entry


def predictions(prediction_id: str | None = None) -> list[dict]:
    """The reader's predictions, oldest first: {id, date, skipped, answer, unit, extra}."""
    return load().predictions(prediction_id)


def last_prediction(prediction_id: str) -> dict | None:
    """The newest prediction of this id that was answered, else the newest skipped one, else None."""
    found = predictions(prediction_id)
    answered = [p for p in found if not p["skipped"]]
    return (answered or found or [None])[-1]


def export(path: Path | str) -> Path:
    """Write a copy of everything to `path` (to download it, or to keep it on Drive)."""
    return load().export(path)


def import_(path: Path | str) -> int:
    """Add the entries of an exported file; returns how many were new. Raises ResultsError when that file cannot be used."""
    return load().import_(path)


def notes() -> list[str]:
    """What the reader must be told about the file: moved, set aside, migrated, not written. Empty when all is well."""
    return [note for note in [paths.home_note(), *load().notes] if note]


# ---- helpers ----------------------------------------------------------------------------------------------------------------


def _empty() -> dict:
    return {"format": FORMAT, "version": VERSION, "rows": [], "predictions": []}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")


def _fingerprint() -> dict:
    from utils.measure.machine import fingerprint  # asks torch: only when the caller has no fingerprint

    return fingerprint()


def _identity(entry: dict) -> tuple:
    return entry.get("kind"), entry.get("id"), entry.get("machine"), entry.get("torch"), entry["date"]


def _pruned(data: dict) -> dict:
    """The newest KEEP rows of each kind, machine and torch; predictions are small and all kept."""
    seen: dict[tuple, int] = {}
    kept = []
    for row in reversed(data["rows"]):
        key = (row["kind"], row["machine"], row["torch"])
        seen[key] = seen.get(key, 0) + 1
        if seen[key] <= KEEP:
            kept.append(row)
    return {**data, "rows": kept[::-1]}


def _parse(path: Path) -> tuple[dict, int | None]:
    """(content in today's form, the version it had when that was an older one else None). ResultsError when unusable."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, ValueError) as error:
        raise ResultsError(f"it is damaged ({error})") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ResultsError("it is not a results file of this course")
    version = data.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 0:
        raise ResultsError(f"its version is {version!r}")
    if version > VERSION:
        raise NewerFile(f"is of version {version}, written by a newer course (this one knows version {VERSION})")
    old = version if version < VERSION else None
    try:
        while data["version"] < VERSION:
            data = MIGRATIONS[data["version"]](data)
        schemas.validate("results", data)
    except (KeyError, TypeError, AttributeError, schemas.SchemaError) as error:
        raise ResultsError(f"it is damaged ({error})") from None
    return data, old


def _from_0(data: dict) -> dict:
    """Version 0 kept rows by kind, without the machine's hash, and one prediction per id."""
    rows = [
        {
            "kind": kind,
            "machine": machine_id(row["where"]),
            "torch": str(row["where"].get("torch")),
            "date": row["date"],
            "where": row["where"],
            "payload": row["payload"],
        }
        for kind, of_kind in data["rows"].items()
        for row in of_kind
    ]
    rows.sort(key=lambda row: row["date"])
    kept = [
        {"id": i, "date": p["date"], "skipped": p["answer"] is None, "answer": p["answer"], "unit": p.get("unit"), "extra": {}}
        for i, p in data["predictions"].items()
    ]
    return {"format": FORMAT, "version": 1, "rows": rows, "predictions": kept}


MIGRATIONS: dict[int, Callable[[dict], dict]] = {0: _from_0}
