"""Check a recording: is it whole, does it agree with itself, and do its prices lie where such a machine's prices lie?

Exit code 0 when every check holds, 1 when one does not.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

from utils.commands import Refused

HELP = "check a recording: written schema, self-consistency, expected ranges"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="the recording, as `record` writes it")


def run(args: argparse.Namespace) -> int:
    data = _read(args.file)
    lines, wrong = check(data, args.file)
    print("\n".join(lines))
    print(f"{args.file.name}: " + (f"{wrong} of {len(lines)} checks do NOT hold" if wrong else f"all {len(lines)} checks hold"))
    return 1 if wrong else 0


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
