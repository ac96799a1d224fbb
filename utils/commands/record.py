"""Run every instrument on this machine and write one recording (a JSON file with the samples).

With `--study` it is one lesson's own measurements instead, with `--sick` the traces of sick programs. An instrument that fails
costs its own part, not the recording: the reason is written into the file and printed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from utils.commands import Refused, device_or_refuse

HELP = "run every instrument and write one recording (--study: one lesson's measurements)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", metavar="FILE", type=Path, help="where to write (default: your own folder, under its stem)")
    parser.add_argument("--study", metavar="NAME", help="one lesson's study (dispatcher, autograd, launch, …), no receipts")
    parser.add_argument(
        "--sick", metavar="NAME", help="traces of a sick program and its healthy twin; `all` for every one of them"
    )
    parser.add_argument("--size", type=float, default=1.0, help="with --sick: scales the program's data (default 1)")
    parser.add_argument("--seed", type=int, default=0, help="with --sick: other random numbers (default 0)")
    parser.add_argument(
        "--device", choices=("auto", "cpu", "cuda"), default="auto", help="auto records the CPU, and the GPU when there is one"
    )


def run(args: argparse.Namespace) -> int:
    from utils.measure import machine, record
    from utils.show import progress

    device = machine.fingerprint()["device"] if args.device == "auto" else args.device
    device_or_refuse(device)
    if args.sick:
        return _sick(args.sick, device, args.out, args.size, args.seed)
    if args.out and args.out.is_dir():
        raise Refused(f"{args.out} is a folder; --out takes a file name")
    if args.study:
        return _study(args.study, device, args.out)
    with progress.bar("recording") as bar:
        data = record.record(device, progress=bar)
    failures = data["extras"].get("failures", {})
    for name, reason in failures.items():
        print(f"not recorded: {name}: {reason}")
    if not data["receipts"]:
        raise Refused("no receipt could be measured, so there is nothing to keep", code=1)
    out = save(data, args.out)
    held = [*data["receipts"], *(name for name in data["extras"] if name != "failures")]
    print(f"wrote {out} ({out.stat().st_size / 1000:,.0f} kB): {', '.join(held)}")
    return 0


def _study(name: str, device: str, out: Path | None) -> int:
    """Records one study; the exit code."""
    from utils import paths
    from utils.measure import study as room
    from utils.model import recordings, studies
    from utils.show import progress

    if name not in room.STUDIES:
        raise Refused(f"there is no study {name!r}; there are {', '.join(room.STUDIES)}")
    with progress.bar(f"recording {name}") as bar:
        study = room.record_study(name, device, progress=bar)
    for part, reason in study.failures.items():
        print(f"not recorded: {part}: {reason}")
    if not study.parts:
        raise Refused("no part could be measured, so there is nothing to keep", code=1)
    path = out or paths.home() / f"{name}-{study.stem}.json"
    try:
        studies.write(study, path)
    except recordings.RecordingError as error:
        raise Refused(str(error), code=1) from error
    except OSError as error:
        raise Refused(f"{path} could not be written: {error.strerror or error}", code=1) from error
    print(f"wrote {path} ({path.stat().st_size / 1000:,.0f} kB): {', '.join(study.parts)}")
    return 0


def _sick(name: str, device: str, out: Path | None, size: float, seed: int) -> int:
    """Records traces of one sick program or of all, each with its twin, into a folder; the exit code."""
    from utils import paths
    from utils.measure import sick, sick_recorder
    from utils.model import recordings, sick_traces
    from utils.show import progress

    if name != "all" and name not in sick.PROGRAMS:
        raise Refused(f"there is no sick program {name!r}; there are {', '.join(sick.PROGRAMS)}, and all")
    if not 0 < size <= 100 or seed < 0:
        raise Refused(f"--size {size:g} --seed {seed}: a size is between 0 and 100, a seed is not negative")
    if out and out.exists() and not out.is_dir():
        raise Refused(f"{out} is a file; with --sick, --out takes a folder")
    names = [n for n, p in sick.PROGRAMS.items() if device in p.devices] if name == "all" else [name]
    if name != "all" and device not in sick.PROGRAMS[name].devices:
        raise Refused(f"{name} is a program for {', '.join(sick.PROGRAMS[name].devices)}")
    folder, written = out or paths.home() / "sick", 0
    with progress.bar("recording traces") as bar:
        for which, found in sick_recorder.record_all(names, device, size=size, seed=seed, progress=bar):
            try:
                if isinstance(found, Exception):
                    raise found
                path = sick_traces.write(found, folder)
                print(f"wrote {path} ({path.stat().st_size / 1000:,.1f} kB)")
                written += 1
            except (recordings.RecordingError, OSError, RuntimeError) as reason:
                print(f"not recorded: {which}: {reason}")
    if not written:
        raise Refused("no trace could be recorded, so there is nothing to keep", code=1)
    return 0


def save(data: dict, out: Path | None) -> Path:
    """Seals and writes the recording in one step; Refused with the reason when it is unsound or cannot be written."""
    from utils import paths
    from utils.model import files, recordings

    try:
        sealed = recordings.seal({"format": recordings.FORMAT, "version": recordings.VERSION, **data})
        stem = recordings.stem_for(sealed["where"], sealed["receipts"])
        recordings.verify(sealed, stem)
    except recordings.RecordingError as error:
        raise Refused(str(error), code=1) from error
    out = out or paths.home() / f"{stem}.json"
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        files.write_atomically(out, files.to_json(sealed, compact=True))
    except OSError as error:
        raise Refused(f"{out} could not be written: {error.strerror or error}", code=1) from error
    return out
