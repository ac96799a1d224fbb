"""Run every instrument on this machine and write one recording (a JSON file with the samples).

An instrument that fails costs its own part, not the recording: the reason is written into the file and printed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from utils.commands import Refused, device_or_refuse

HELP = "run every instrument and write one recording"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", metavar="FILE", type=Path, help="where to write (default: your results folder)")
    parser.add_argument(
        "--device", choices=("auto", "cpu", "cuda"), default="auto", help="auto records the CPU, and the GPU when there is one"
    )


def run(args: argparse.Namespace) -> int:
    from utils import paths
    from utils.measure import machine, record
    from utils.show import progress

    device = args.device
    if device == "auto":
        device = machine.fingerprint()["device"]
    device_or_refuse(device)
    out = args.out or paths.home() / f"{record.stem(machine.fingerprint(), device)}.json"
    if out.is_dir():
        raise Refused(f"{out} is a folder; --out takes a file name")
    with progress.bar("recording") as bar:
        data = record.record(device, progress=bar)
    try:
        record.write(out, data)
    except OSError as error:
        raise Refused(f"{out} could not be written: {error.strerror or error}", code=1) from error
    print(f"wrote {out} ({out.stat().st_size / 1000:,.0f} kB): {', '.join(data['receipts'])}; {', '.join(data['extras'])}")
    for name, reason in data["failures"].items():
        print(f"not recorded: {name}: {reason}")
    return 0 if data["receipts"] else 1
