"""Check a recording; or, without a file, measure the claims of the ledger again and say which verdict changed.

With a FILE: is it whole, does it agree with itself, and do its prices lie where such a machine's prices lie? Without: every
number that a claim hangs on is measured on this machine (minutes), beside the nearest committed recording, stage by stage.
Exit code 0 when every check and every verdict holds, 1 when one does not.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

from utils.commands import Refused, device_or_refuse

HELP = "check a recording's schema, sums and ranges; without a file measure the claims again"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, nargs="?", help="a recording, as `record` writes it")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="without FILE: what to measure")
    parser.add_argument("--lesson", metavar="NAME", help="without FILE: only the claims of one lesson (price_each_stage, …)")


def run(args: argparse.Namespace) -> int:
    if args.file is None:
        return _again(args)
    data = _read(args.file)
    lines, wrong = check(data, args.file)
    print("\n".join(lines))
    print(f"{args.file.name}: " + (f"{wrong} of {len(lines)} checks do NOT hold" if wrong else f"all {len(lines)} checks hold"))
    return 1 if wrong else 0


def _again(args: argparse.Namespace) -> int:
    """Measures the claims again; the exit code."""
    from utils.measure import machine, remeasure
    from utils.model import drift, schemas
    from utils.show import drift_tables, progress

    if args.lesson and args.lesson not in schemas.LESSONS:
        raise Refused(f"there is no lesson {args.lesson!r}; there are {', '.join(schemas.LESSONS)}")
    device = device_or_refuse(machine.fingerprint()["device"] if args.device == "auto" else args.device)
    plan = remeasure.todo(device, args.lesson)
    if not plan:
        raise Refused(f"no claim of {args.lesson or 'the ledger'} has a number that is measured on {device}")
    with progress.bar("measuring the claims") as bar:
        now, failures = remeasure.remeasure(device, run=plan, progress=bar)
    before = drift.nearest(device)
    rows = drift.judged(before, now)
    print(drift_tables.claims(rows, before.recording))
    if moved := drift.stages(before.recording, now.recording):
        print(drift_tables.stages(moved))
    for name, reason in failures.items():
        print(f"not measured: {name}: {reason}")
    changed = [row for row in rows if row.changed]
    said = ", ".join(row.claim.id for row in changed)
    print(f"{len(rows)} claims measured: " + (f"{len(changed)} verdicts changed: {said}" if changed else "no verdict changed"))
    if not rows:
        raise Refused("no claim could be measured", code=1)
    return 1 if changed else 0


def check(data: object, file: Path) -> tuple[list[str], int]:
    """(one line per check, how many do not hold). A committed recording must also bear the name of its machine."""
    from utils import paths
    from utils.model import recordings, studies

    if isinstance(data, dict) and data.get("format") == studies.FORMAT:
        return _check_study(data, file)
    try:
        committed = file.resolve().parent == paths.RECORDINGS.resolve()
        where, receipts = (data.get("where"), data.get("receipts")) if isinstance(data, dict) else (None, None)
        named = committed or not isinstance(where, dict) or not isinstance(receipts, dict)
        recordings.verify(data, file.stem if named else recordings.stem_for(where, receipts))
    except recordings.RecordingError as error:
        return [f"✘ whole and unchanged: {error}"], 1
    lines, wrong = ["✔ whole and unchanged (schema, sums, digest)"], 0
    for key, raw in data["receipts"].items():
        for holds, line in _judge(key, raw):
            lines.append(line)
            wrong += not holds
    for name, reason in data["extras"].get("failures", {}).items():
        lines.append(f"– not recorded: {name}: {reason}")
    return lines, wrong


def _check_study(data: dict, file: Path) -> tuple[list[str], int]:
    """The same for a lesson's study; what its numbers mean is judged by the claims and by the lesson's own checks."""
    from utils import paths
    from utils.model import recordings, studies

    folder = file.resolve().parent
    committed = folder.parent == (paths.RECORDINGS / studies.IN_FOLDER).resolve()
    try:
        name = folder.name if committed else str(data.get("study"))
        stem = file.stem if committed else recordings.stem_for(data.get("where") or {}, {data.get("device"): None})
        studies.verify(data, name, stem)
    except (recordings.RecordingError, TypeError, AttributeError) as error:
        return [f"✘ whole and unchanged: {error}"], 1
    lines = ["✔ whole and unchanged (schema, digest)"]
    return lines + [f"– not recorded: {name}: {reason}" for name, reason in data["failures"].items()], 0


def _judge(key: str, raw: dict):
    """(holds, line) for every metric that is about such a receipt."""
    from utils.model import expected
    from utils.model.readings import Receipt

    # Judged as if it were just measured: a receipt that calls itself recorded would have to be a committed one.
    receipt = replace(Receipt.from_dict(raw), source="live")
    for metric in expected.metrics():
        about = metric.get("devices", ("cpu", "cuda"))
        if "receipt" not in metric["takes"] or receipt.device not in about or metric.get("grad", receipt.grad) != receipt.grad:
            continue
        found = expected.judge(metric["id"], receipt)
        value = f" ({found.value:.3g}{expected.SHOWN.get(found.unit, '')})" if found.value is not None else ""
        note = f" ({found.note})" if found.note else ""
        yield (
            found.holds,
            f"{'✔' if found.holds else '✘'} {key}: {metric['id']}{value}{note}"
            + "".join(f"\n    {problem}" for problem in found.problems),
        )


def _read(file: Path) -> object:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, ValueError) as error:
        raise Refused(f"{file} is damaged: it is no JSON ({error})", code=1) from error
    except OSError as error:
        raise Refused(f"{file} cannot be read: {error.strerror or error}") from error
