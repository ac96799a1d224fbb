"""Studies: what the instruments of one lesson measured on one machine, committed, verified, loaded and always labelled.

A study is a set of parts by name; a part is a Race or plain data (a dict, in which Races may stand at any depth). A file of
`utils/recordings/studies/<study>/<stem>.json` is sealed by a digest: one that was changed, or that lies under another
machine's or study's name, is refused. What is loaded has `source == "recorded"`.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from utils import paths
from utils.model import files, recordings, schemas
from utils.model.quantities import NotMeasured
from utils.model.readings import Race
from utils.model.recordings import RecordingError

FORMAT, VERSION = "one-add-priced/study", 1
IN_FOLDER = "studies"


@dataclass(frozen=True)
class Study:
    """The parts of one study on one device ("cpu" or "cuda"); `failures` says in words why a part is missing."""

    name: str
    device: str
    date: str
    where: dict
    parts: dict[str, Race | dict]
    failures: dict[str, str] = field(default_factory=dict)
    command: str = ""
    source: str = "recorded"

    @property
    def stem(self) -> str:
        """The name of its file without the ending: "h200-torch2.11"."""
        return recordings.stem_for(self.where, {self.device: None})

    def part(self, name: str) -> Race | dict:
        """One part. Raises NotMeasured, with the reason where one was recorded, when this study lacks it."""
        if name in self.parts:
            return self.parts[name]
        raise NotMeasured(f"{name}: {self.failures.get(name, f'not measured when {self.label()} was taken')}")

    def label(self) -> str:
        """What must stand beside every number of it: "recorded · device · driver · torch · date"."""
        text = recordings.label(self.where, self.date, self.device)
        return text if self.source == "recorded" else "live" + text.removeprefix("recorded")

    def to_dict(self) -> dict:
        return {
            "format": FORMAT,
            "version": VERSION,
            "study": self.name,
            "device": self.device,
            "date": self.date,
            "where": dict(self.where),
            "command": self.command,
            "parts": plain(self.parts),
            "failures": dict(self.failures),
        }


def plain(thing: Any) -> Any:
    """`thing` as JSON data: Races and everything else with `to_dict` are written out, tuples become lists."""
    if hasattr(thing, "to_dict"):
        return plain(thing.to_dict())
    if isinstance(thing, Mapping):
        return {str(key): plain(value) for key, value in thing.items()}
    if isinstance(thing, list | tuple):
        return [plain(value) for value in thing]
    return thing


def revived(thing: Any) -> Any:
    """The other way: every dict that is a written Race becomes one again, at any depth."""
    if isinstance(thing, dict):
        if {"readings", "control", "clock", "loop_removed"} <= set(thing):
            return Race.from_dict(thing)
        return {key: revived(value) for key, value in thing.items()}
    if isinstance(thing, list):
        return [revived(value) for value in thing]
    return thing


# ---- reading them back -----------------------------------------------------------------------------------------------------


def folder_of(name: str, folder: Path | None = None) -> Path:
    """Where the committed files of one study lie."""
    return (folder or paths.RECORDINGS / IN_FOLDER) / name


def available(name: str, folder: Path | None = None) -> list[str]:
    """The stems of the machines that one study was recorded on, whether the files can be used or not."""
    return sorted(p.stem for p in folder_of(name, folder).glob("*.json"))


def load(name: str, stem: str, folder: Path | None = None) -> Study:
    """The verified study of this machine. Raises RecordingError when it is missing, damaged, changed, foreign or newer."""
    path = folder_of(name, folder) / f"{stem}.json"
    if not path.is_file():
        known = ", ".join(available(name, folder)) or "none"
        raise RecordingError(f"there is no recording {stem!r} of the study {name!r} (there are: {known}): not measured")
    stat = path.stat()
    return _load(path, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=16)
def _load(path: Path, mtime_ns: int, size: int) -> Study:
    data = _json(path)
    verify(data, path.parent.name, path.stem)
    return from_dict(data)


def read(path: Path) -> Study | None:
    """The verified study in a file of any name, such as a reader's own; None where the file holds something else.

    Raises RecordingError when it is damaged, changed or newer.
    """
    data = _json(path)
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        return None
    verify(data, str(data.get("study")), recordings.stem_for(data.get("where") or {}, {data.get("device"): None}))
    return from_dict(data)


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise RecordingError(f"{path.name} is damaged: {error}") from None


def from_dict(data: Mapping[str, Any], source: str = "recorded") -> Study:
    """The Study of a file's content, unverified."""
    return Study(
        name=data["study"],
        device=data["device"],
        date=data["date"],
        where=data["where"],
        parts=revived(data["parts"]),
        failures=dict(data["failures"]),
        command=data["command"],
        source=source,
    )


def best(name: str, device: str = "cuda", folder: Path | None = None) -> Study | None:
    """The newest usable study of this name on "cuda" or "cpu", of the course's own machine (recordings.REFERENCE) where there is
    one; or None: then say "not measured". A file that cannot be used is passed over with a warning that says why."""
    found = []
    for stem in available(name, folder):
        try:
            study = load(name, stem, folder)
        except RecordingError as reason:
            warnings.warn(str(reason), stacklevel=2)
            continue
        if study.device == device:
            found.append(study)
    return max(found, key=lambda s: (recordings.is_reference(s.stem, device), s.date), default=None)


def live(name: str, device: str, where: dict, parts: Mapping[str, Race | dict]) -> Study:
    """What a lesson measured in this run, as a study that is never committed: for tables that hold it beside a recorded one."""
    return Study(name, device, "", where, dict(parts), source="live")


# ---- making and verifying one ----------------------------------------------------------------------------------------------


def seal(study: Study) -> dict:
    """The file's content with a digest over all of it. Raises RecordingError when it would not be accepted by `load`."""
    data = json.loads(files.to_json(study.to_dict()))
    data["digest"] = recordings.digest(data)
    verify(data, study.name, study.stem)
    return data


def write(study: Study, path: Path | None = None) -> Path:
    """Seal and write one study, atomically, by default under its own name among the committed ones. Returns the path."""
    sealed = seal(study)
    path = path or folder_of(study.name) / f"{study.stem}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_atomically(path, files.to_json(sealed, compact=True))
    return path


def verify(data: Any, name: str, stem: str) -> None:
    """Raise RecordingError, with the reason, unless `data` is an intact study `name` of the machine that `stem` says."""
    file = f"{name}/{stem}.json"
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise RecordingError(f"{file} is not a study of this course")
    if isinstance(data.get("version"), int) and data["version"] > VERSION:
        raise RecordingError(f"{file} is of version {data['version']}, written by a newer course (this one knows {VERSION})")
    try:
        schemas.validate("study", data)
    except schemas.SchemaError as error:
        raise RecordingError(f"{file} is damaged: {error}") from None
    if data["digest"] != recordings.digest(data):
        raise RecordingError(f"{file} was changed after it was recorded: its digest does not fit its content")
    if data["study"] != name:
        raise RecordingError(f"{file} holds another study: {data['study']}")
    if data["device"] == "cuda" and not data["where"].get("gpu"):
        raise RecordingError(f"{file}: the wrong device's study: its fingerprint names no GPU")
    wanted = recordings.stem_for(data["where"], {data["device"]: None})
    if stem != wanted:
        raise RecordingError(f"{file} holds the wrong device's study: its content is that of {wanted}")
