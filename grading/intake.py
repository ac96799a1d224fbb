"""What was handed in: the files of a folder or a .zip, as a learning platform names them, each with its student.

Nothing is unpacked: an archive's entries are read into memory under limits, and their names are only ever words. Recognised are
Canvas (`doejane_LATE_123_456_lab1-1.ipynb`), Moodle (`Jane Doe_123_assignsubmission_file_/lab1.ipynb`, or the same in one
name) and plain folders (`jdoe/anything.ipynb`, `jdoe_lab1 (1).ipynb`).
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path, PurePosixPath

MOST_BYTES = 20 << 20  # of one notebook; those of a lab have a tenth of one MiB
MOST_FILES = 20_000
MOST_TOTAL = 4 << 30
CANVAS = re.compile(r"(?P<name>.*?)(?:_(?P<late>LATE))?_(?P<id>\d+|anon_[0-9A-Za-z]+)_(?P<file>\d+)_(?P<rest>.+)", re.DOTALL)
MOODLE = re.compile(r"(?P<name>[^/]*)_(?P<id>\d+)_assignsubmission_file(?:_/?|/)(?P<rest>.+)", re.DOTALL)
NOISE = re.compile(r"^copy of | - copy\b| copy\b|\s*\(\d+\)|\.ipynb|\.json|\.txt|(?<=\w)-\d+$", re.IGNORECASE)
SKIPPED = ("__MACOSX", ".ipynb_checkpoints", ".git")
NOTEBOOK = (".ipynb", ".ipynb.txt", ".ipynb.json", ".json")  # some browsers append to the name what they think it is


class CannotTake(ValueError):
    """The folder or archive cannot be read; the message says why."""


@dataclass(frozen=True)
class File:
    """One file as it came: its path there, its bytes (None when it was refused, and why), and when it was last changed."""

    path: str
    content: bytes | None
    refused: str = ""
    when: datetime | None = None

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name


@dataclass
class Handed:
    """What one student handed in. `id` is the platform's, or a name; `late` when the platform's own names say so."""

    id: str
    name: str
    platform: str
    late: bool = False
    files: list[File] = field(default_factory=list)


def handed_in(place: Path, lab: str, platform: str | None = None, known: set[str] | frozenset = frozenset()) -> dict[str, Handed]:
    """By student, what is in the folder or .zip `place`. Raises CannotTake.

    `platform` is "canvas" or "moodle" when it is known; `known` are the ids on a roster, looked for in plain names.
    """
    found: dict[str, Handed] = {}
    for file in _files(place):
        one = _whose(file.path, lab, platform, known)
        student = found.setdefault(one.id, one)
        student.late = student.late or one.late
        student.files.append(file)
    return found


# ------------------------------------------------------------------------------------------------ reading


def _files(place: Path) -> Iterator[File]:
    if place.is_dir():
        yield from _folder(place)
    elif place.is_file() and zipfile.is_zipfile(place):
        yield from _archive(place)
    elif place.is_file():
        raise CannotTake(f"{place}: neither a folder nor a .zip")
    else:
        raise CannotTake(f"{place}: there is nothing of this name")


def _folder(place: Path) -> Iterator[File]:
    for path in sorted(place.rglob("*")):
        relative = path.relative_to(place).as_posix()
        if _skipped(relative) or path.is_dir():
            continue
        if path.is_symlink() or not path.is_file():
            yield File(relative, None, "a link, and no file")
            continue
        size, when = path.stat().st_size, datetime.fromtimestamp(path.stat().st_mtime)
        if size > MOST_BYTES:
            yield File(relative, None, f"{size >> 20} MiB, which no notebook of a lab has", when)
        else:
            yield File(relative, path.read_bytes(), "", when)


def _archive(place: Path) -> Iterator[File]:
    try:
        with zipfile.ZipFile(place) as archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir() and not _skipped(entry.filename)]
            if len(entries) > MOST_FILES or sum(entry.file_size for entry in entries) > MOST_TOTAL:
                raise CannotTake(f"{place}: more than a class hands in ({len(entries)} files)")
            for entry in entries:
                yield _entry(archive, entry)
    except zipfile.BadZipFile as error:
        raise CannotTake(f"{place}: the archive is damaged ({error})") from error


def _entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> File:
    try:
        when = datetime(*entry.date_time)
    except ValueError:
        when = None
    if entry.file_size > MOST_BYTES:
        return File(entry.filename, None, f"{entry.file_size >> 20} MiB, which no notebook of a lab has", when)
    try:
        with archive.open(entry) as opened:  # what an entry says of its size may be a lie
            content = opened.read(MOST_BYTES + 1)
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError, OSError, EOFError) as error:
        return File(entry.filename, None, f"cannot be unpacked ({error})", when)
    except Exception as error:  # zlib.error, lzma.LZMAError and what else a damaged stream raises
        return File(entry.filename, None, f"cannot be unpacked ({type(error).__name__})", when)
    if len(content) > MOST_BYTES:
        return File(entry.filename, None, "larger than it says", when)
    return File(entry.filename, content, "", when)


def _skipped(path: str) -> bool:
    parts = PurePosixPath(path.replace("\\", "/")).parts
    return any(part in SKIPPED for part in parts) or (bool(parts) and parts[-1].startswith("."))


# ------------------------------------------------------------------------------------------------ whose it is


def _whose(path: str, lab: str, platform: str | None, known: set[str] | frozenset) -> Handed:
    moodle = MOODLE.search(path.replace("\\", "/")) if platform in (None, "moodle") else None
    if moodle:
        return Handed(moodle["id"], moodle["name"], "moodle")
    canvas = CANVAS.fullmatch(PurePosixPath(path).name) if platform in (None, "canvas") else None
    if canvas:
        return Handed(canvas["id"], canvas["name"], "canvas", bool(canvas["late"]))
    return _plain(path, lab, known)


def _plain(path: str, lab: str, known: set[str] | frozenset) -> Handed:
    """By the folder the file lies in, else by its name without the lab's and without what browsers and Colab add."""
    parts = [part for part in PurePosixPath(path.replace("\\", "/")).parts if part not in ("/", "..", ".")]
    said = parts[0] if len(parts) > 1 else _cleaned(parts[0] if parts else path)
    words = re.split(r"[\s_.\-]+", said)
    on_roster = [one for one in known if one == said or one in words]
    if len(on_roster) == 1:
        return Handed(on_roster[0], said, "plain")
    if len(parts) <= 1:
        number = re.search(r"\d+", lab)
        of_the_lab = {lab, *lab.split("_"), "lab", *([f"lab{int(number[0])}", str(int(number[0]))] if number else [])}
        rest = [word for word in words if word and word.lower() not in of_the_lab]
        said = "_".join(rest) or said
    return Handed(said, said, "plain")


def _cleaned(name: str) -> str:
    while (shorter := NOISE.sub("", name).strip()) != name:
        name = shorter
    return name
