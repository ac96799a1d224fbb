"""Add your machine: measure the receipt and the lessons' studies, check them, leave out what is personal, say how to send them.

What is done stays: run it again after an interruption and it goes on. In a notebook (Colab), after any lesson's first cell:
`from utils.__main__ import main; main(["add-machine"])`.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from utils.commands import Refused, device_or_refuse

HELP = "record this machine for the course's gallery: measures, validates, says how to send it"
RECEIPT = "receipt"
# What each takes on a quiet machine; the C++ of the first run comes on top.
RECEIPT_MINUTES, STUDY_MINUTES, COMPILER_MINUTES = {"cpu": 2.0, "cuda": 4.0}, 1.5, 3.0
LETTER = "HOW_TO_SEND.md"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--study", metavar="NAME", action="append", help="only this lesson's study (again for more; default: all)"
    )
    parser.add_argument("--receipt-only", action="store_true", help="only the receipt and the five traps")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="auto: the GPU when there is one")
    parser.add_argument("--out", metavar="FOLDER", type=Path, help="where to collect it (default: in your own folder)")
    parser.add_argument("--plan", action="store_true", help="say what would be measured and how long it takes, and stop")
    parser.add_argument("--again", action="store_true", help="measure what is already in the folder once more")


@dataclass(frozen=True)
class Machine:
    """This machine as the gallery will know it."""

    device: str
    device_class: str
    stem: str
    label: str


def run(args: argparse.Namespace) -> int:
    here = machine(args.device)
    todo = list(plan(here, args.study, args.receipt_only))
    print("\n".join(words(here, todo)))
    if args.plan:
        return 0
    folder = args.out or default_folder(here)
    failed = {name: why for name in todo if (why := measured(name, here, folder, args.again))}
    kept = [path for name in [RECEIPT, *studies_here(here)] if (path := place(name, here, folder)).is_file()]
    if not kept:
        raise Refused("nothing could be measured, so there is nothing to send", code=1)
    wrong = sum(checked(path) for path in kept)
    send(here, folder, kept, failed, wrong)
    return 1 if failed or wrong else 0


# ---- what is to be done ----------------------------------------------------------------------------------------------------


def machine(asked: str) -> Machine:
    """This machine; Refused for one that does not say who it is."""
    from utils.measure import fingerprints
    from utils.model import recordings

    where = fingerprints.fingerprint()
    if where["overrides"]:
        raise Refused(f"this session pretends to be another machine ({', '.join(where['overrides'])}): unset that first")
    device = device_or_refuse(where["device"] if asked == "auto" else asked)
    try:
        stem = recordings.stem_for(where, {device: None})
    except recordings.RecordingError as error:
        raise Refused(str(error), code=1) from error
    label = recordings.label(where, "", device).removeprefix("recorded · ")
    return Machine(device, fingerprints.device_class(where, device), stem, label)


def studies_here(here: Machine) -> list[str]:
    """The studies that have something to measure on this device, in the order of the lessons."""
    from utils.measure import study

    return [name for name in study.STUDIES if study.instruments(name, here.device)]


def plan(here: Machine, asked: list[str] | None, receipt_only: bool) -> Iterator[str]:
    """The names of what is measured: "receipt", then studies. Refused for a study that there is not."""
    known = studies_here(here)
    for name in asked or ():
        if name not in known:
            raise Refused(f"there is no study {name!r} for {here.device}; there are {', '.join(known)}")
    if asked:
        yield from (name for name in known if name in asked)
        return
    yield RECEIPT
    if not receipt_only:
        yield from known


def minutes(here: Machine, todo: list[str]) -> float:
    """How long the plan takes on a quiet machine, in minutes, without the C++ of a first run."""
    return sum(RECEIPT_MINUTES[here.device] if name == RECEIPT else STUDY_MINUTES for name in todo)


def words(here: Machine, todo: list[str]) -> Iterator[str]:
    """What is about to happen, as lines."""
    from utils.model import gallery, recordings

    yield f"{here.label}: class {here.device_class}, files are called {here.stem}.json"
    if here.device_class == gallery.FIRST_WANTED and not gallery.has(here.device_class):
        yield "Nobody has recorded a T4 yet. Yours would be the first: please send it."
    elif here.device == "cuda" and here.device_class == "unknown":
        yield "The course does not know this GPU yet (utils/data/devices.yml): send it all the same, it will be given a class."
    elif here.device == "cuda" and not gallery.has(here.device_class):
        yield f"Nobody has recorded a {here.device_class.upper()} yet: yours would be the first."
    elif here.stem in gallery.stems():
        kept = recordings.load(here.stem).label() if here.stem in recordings.available() else "studies"
        yield f"A machine of this name is in the gallery already ({kept}). A second one would take its place: say why it should."
    yield (
        f"To be measured: {', '.join(todo)}. About {minutes(here, todo):.0f} minutes on a machine that does nothing else, the "
        f"first time some {COMPILER_MINUTES:.0f} more for the compiler. Interrupt it at any time; the same command goes on."
    )


# ---- doing it --------------------------------------------------------------------------------------------------------------


def default_folder(here: Machine) -> Path:
    from utils import paths

    return paths.home() / "add-machine" / here.stem


def place(name: str, here: Machine, folder: Path) -> Path:
    """Where a part lies: in the repository's own layout, so that the folder can be laid over it."""
    kept = folder / "utils" / "recordings"
    return (kept if name == RECEIPT else kept / "studies" / name) / f"{here.stem}.json"


def measured(name: str, here: Machine, folder: Path, again: bool) -> str:
    """Measures and writes one part; "" when it is there, else the reason in words."""
    from utils.model.recordings import RecordingError
    from utils.show import progress

    path = place(name, here, folder)
    if path.is_file() and not again and not checked(path, quiet=True):
        print(f"{name}: there already")
        return ""
    with progress.bar(name) as bar:
        try:
            data, failures = _receipt(here, bar) if name == RECEIPT else _study(name, here, bar)
            _write(data, path)
        except (RecordingError, OSError) as error:
            print(f"{name}: not recorded: {error}")
            return str(error)
    for part, why in failures.items():
        print(f"{name}: {part} not measured: {why}")
    print(f"{name}: written", flush=True)
    return ""


def _receipt(here: Machine, bar) -> tuple[dict, dict]:
    """(the sealed recording, its failures)."""
    from utils.measure import record
    from utils.model import personal, recordings

    data = personal.cleaned(record.record(here.device, progress=bar))
    if not data["receipts"]:
        raise recordings.RecordingError(f"no receipt could be measured: {data['extras'].get('failures')}")
    sealed = recordings.seal({"format": recordings.FORMAT, "version": recordings.VERSION, **data})
    recordings.verify(sealed, here.stem)
    return sealed, data["extras"].get("failures", {})


def _study(name: str, here: Machine, bar) -> tuple[dict, dict]:
    """(the sealed study, its failures)."""
    from utils.measure import study
    from utils.model import personal, recordings, studies

    found = study.record_study(name, here.device, progress=bar)
    if not found.parts:
        raise recordings.RecordingError(f"no part of {name} could be measured: {found.failures}")
    clean = studies.from_dict(personal.cleaned(found.to_dict()), source="live")
    sealed = studies.seal(clean)
    if clean.stem != here.stem:
        raise recordings.RecordingError(f"{name} was measured on another machine: {clean.stem}")
    return sealed, clean.failures


def _write(data: dict, path: Path) -> None:
    from utils.model import files

    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_atomically(path, files.to_json(data, compact=True))


# ---- checking and sending --------------------------------------------------------------------------------------------------


def checked(path: Path, quiet: bool = False) -> int:
    """How many checks of a written file do not hold (`python -m utils verify FILE` shows all); prints those that do not."""
    import json

    from utils.commands import verify

    try:
        lines, wrong = verify.check(json.loads(path.read_text(encoding="utf-8")), path)
    except ValueError as error:
        lines, wrong = [f"✘ {path.name} is no JSON: {error}"], 1
    if not quiet:
        for line in lines:
            if line.startswith("✘"):
                print(f"{path.parent.name}/{path.name}: {line}")
    return wrong


def send(here: Machine, folder: Path, kept: list[Path], failed: dict[str, str], wrong: int) -> None:
    """Writes the letter and the archive, and says what to do with them."""
    import json

    from utils.model import personal

    names = personal.own_names()
    for path in kept:
        for spot in personal.named(json.loads(path.read_text(encoding="utf-8")), names):
            print(f"look before you send: {path.relative_to(folder)}: {spot} stands there")
    inside = [path.relative_to(folder).as_posix() for path in kept]
    (folder / LETTER).write_text(letter(here, inside, failed, wrong), encoding="utf-8")
    archive = shutil.make_archive(str(folder.parent / f"{folder.name}-recording"), "zip", folder)
    print(f"\n{len(kept)} files in {folder}" + (f", {len(failed)} parts failed" if failed else ""))
    print(f"All of it in one file: {archive}")
    print(letter(here, inside, failed, wrong))
    if "google.colab" in sys.modules:
        print(f"On Colab, before the session ends: from google.colab import files; files.download({archive!r})")


def letter(here: Machine, inside: list[str], failed: dict[str, str], wrong: int) -> str:
    """How to send it, with the text of the pull request."""
    files = "\n".join(f"    {name}" for name in inside)
    missing = "".join(f"\n    not recorded: {name}: {why}" for name, why in failed.items())
    doubts = f"\n    {wrong} checks of `python -m utils verify` do not hold; see below." if wrong else ""
    return f"""How to send it
1. In a clone of the course, on a branch of its own, put these files in their places (the archive has the same folders):
{files}
2. `make verify && make figures && .venv/bin/python -m utils ledger`: files whole, figure and ledger drawn again. A claim
   that your machine contradicts is news: say so, and do not change its verdict.
3. Open a pull request:
    Recording: {here.label}
    Made by `python -m utils add-machine`, on a machine that did nothing else: yes / no
    Cloud or own, power limit or other settings that a reader should know: …{missing}{doubts}
Without git: open an issue of the course with the same text and attach the archive.
"""
