"""Recorded traces of sick programs and their healthy twins: found, verified, loaded, labelled with their machine. No torch.

A file of `utils/recordings/sick/<machine>/<name>.json.gz` is Chrome's JSON, which any viewer of traces opens, and one field more:
what was recorded, where, when, and a digest over all of it. One that was changed, or lies under another name, is refused.
"""

from __future__ import annotations

import gzip
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from utils import paths
from utils.model import files, recordings, schemas
from utils.model.recordings import RecordingError

FORMAT, VERSION = "one-add-priced/sick-trace", 1
OURS = "oneAddPriced"  # the field that viewers of traces pass over
FOLDER = paths.RECORDINGS / "sick"
ENDING = ".json.gz"
MOST_BYTES = 60_000
SICK, HEALTHY = "sick", "healthy"


@dataclass(frozen=True)
class Recorded:
    """One recorded trace: some steps of a program on one machine.

    `form` is "sick" or "healthy"; `variant` {"size", "seed"}; `steps` how many are in it, each marked; `facts` what the profiler
    cannot see: step_ns and twin_step_ns without the profiler (None without a twin), aa_error, cpu_share, peak_bytes, threads, and
    on a GPU utilisation (nvidia-smi's, %; None where it tells none). `events` are those of `traces.read`.
    """

    program: str
    form: str
    variant: dict
    device: str
    date: str
    where: dict
    steps: int
    facts: dict
    events: tuple[dict, ...]
    command: str = ""
    source: str = "recorded"

    @property
    def name(self) -> str:
        """Its file's name without machine and ending: "slow_loader", "slow_loader.healthy", "slow_loader.size2.seed7"."""
        return name_of(self.program, self.form, **self.variant)

    @property
    def stem(self) -> str:
        """The machine's folder: "cpu-2core-torch2.13"."""
        return recordings.stem_for(self.where, {self.device: None})

    def label(self) -> str:
        """What must stand beside every number of it."""
        text = recordings.label(self.where, self.date, self.device)
        text = text if self.source == "recorded" else "live" + text.removeprefix("recorded")
        return f"{text} · under the profiler"

    def blinded(self, name: str = "a program") -> Recorded:
        """The same trace without what gives its answer away: program, form, variant, command, and the twin's time."""
        facts = {k: v for k, v in self.facts.items() if not k.startswith("twin")}
        return replace(self, program=name, form="", variant={}, command="", facts=facts)

    def to_dict(self) -> dict:
        """As it is written: Chrome's JSON, sealed."""
        ours = {
            "format": FORMAT,
            "version": VERSION,
            **{
                k: getattr(self, k)
                for k in ("program", "form", "variant", "device", "date", "where", "command", "steps", "facts")
            },
        }
        body = {"schemaVersion": 1, "displayTimeUnit": "ms", "traceEvents": [*_names(self.events), *self.events], OURS: ours}
        ours["digest"] = recordings.digest(body)
        return body


def name_of(program: str, form: str = SICK, size: float = 1.0, seed: int = 0) -> str:
    """The name of a recording: what differs from the plain one stands in it."""
    parts = [
        program,
        form if form != SICK else "",
        f"size{size:g}".replace(".", "p") if size != 1 else "",
        f"seed{seed}" if seed else "",
    ]
    return ".".join(p for p in parts if p)


def available(device: str | None = None, folder: Path | None = None) -> tuple[str, ...]:
    """ "machine/name" of every recording there is, in alphabetical order; of one device ("cpu", "cuda") where it is given."""
    found = sorted(f"{p.parent.name}/{p.name.removesuffix(ENDING)}" for p in (folder or FOLDER).glob(f"*/*{ENDING}"))
    return tuple(n for n in found if device is None or n.startswith("cpu-") == (device == "cpu"))


def load(name: str, folder: Path | None = None) -> Recorded:
    """The verified recording "machine/name". Raises RecordingError when it is missing, damaged, changed, foreign or newer."""
    path = (folder or FOLDER) / f"{name}{ENDING}"
    if not path.is_file():
        raise RecordingError(f"there is no recorded trace {name!r}: not recorded")
    stat = path.stat()
    return _load(path, stat.st_mtime_ns, stat.st_size)


def of(
    program: str, form: str = SICK, device: str | None = None, *, size: float = 1.0, seed: int = 0, folder: Path | None = None
) -> Recorded | None:
    """The newest usable recording of a program, a GPU's first where no device is asked for; None: then say "not recorded"."""
    wanted, found = name_of(program, form, size, seed), []
    for name in available(device, folder):
        if name.split("/")[1] != wanted:
            continue
        try:
            found.append(load(name, folder))
        except RecordingError as reason:
            warnings.warn(str(reason), stacklevel=2)
    return max(found, key=lambda r: (r.device == "cuda", r.date), default=None)


def write(recorded: Recorded, folder: Path | None = None) -> Path:
    """Seals and writes one recording under its machine and name; the same recording gives the same bytes.

    Raises RecordingError when it would not be accepted by `load`, or is larger than MOST_BYTES.
    """
    data = recorded.to_dict()
    packed = packed_bytes(data)
    if len(packed) > MOST_BYTES:
        raise RecordingError(f"{recorded.name}: {len(packed):,} bytes packed; a recorded trace has at most {MOST_BYTES:,}")
    verify(json.loads(files.to_json(data)), recorded.stem, recorded.name)
    path = (folder or FOLDER) / recorded.stem / f"{recorded.name}{ENDING}"
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_atomically(path, packed)
    return path


def packed_bytes(data: Mapping[str, Any]) -> bytes:
    """JSON, compressed without a time or a name in it."""
    return gzip.compress(files.to_json(data, compact=True).encode(), compresslevel=9, mtime=0)


def verify(data: Any, stem: str, name: str) -> None:
    """Raise RecordingError, with the reason, unless `data` is an intact recording of the machine and program its place says."""
    ours = data.get(OURS) if isinstance(data, dict) else None
    if not isinstance(ours, dict) or ours.get("format") != FORMAT:
        raise RecordingError(f"{stem}/{name} is not a recorded trace of this course")
    if isinstance(ours.get("version"), int) and ours["version"] > VERSION:
        raise RecordingError(
            f"{stem}/{name} is of version {ours['version']}, written by a newer course (this one knows {VERSION})"
        )
    try:
        schemas.validate("sick_trace", data)
    except schemas.SchemaError as error:
        raise RecordingError(f"{stem}/{name} is damaged: {error}") from None
    body = {**data, OURS: {k: v for k, v in ours.items() if k != "digest"}}
    if ours["digest"] != recordings.digest(body):
        raise RecordingError(f"{stem}/{name} was changed after it was recorded: its digest does not fit its content")
    wanted = recordings.stem_for(ours["where"], {ours["device"]: None}), name_of(ours["program"], ours["form"], **ours["variant"])
    if (stem, name) != wanted:
        raise RecordingError(f"{stem}/{name} holds another recording: its content is that of {'/'.join(wanted)}")


@lru_cache(maxsize=64)
def _load(path: Path, mtime_ns: int, size: int) -> Recorded:
    try:
        data = json.loads(gzip.decompress(path.read_bytes()).decode("utf-8"))
    except (OSError, EOFError, ValueError) as error:
        raise RecordingError(f"{path.name} is damaged: {error}") from None
    verify(data, path.parent.name, path.name.removesuffix(ENDING))
    ours = {k: v for k, v in data[OURS].items() if k not in ("format", "version", "digest")}
    return Recorded(events=tuple(e for e in data["traceEvents"] if e["ph"] == "X"), **ours)


def _names(events: tuple[dict, ...]) -> list[dict]:
    """Names of the lanes, for viewers."""
    out = [{"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "host"}}]
    if any(e["pid"] == 0 for e in events):
        out.append({"ph": "M", "name": "process_name", "pid": 0, "tid": 0, "args": {"name": "device"}})
    return out
