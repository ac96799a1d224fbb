"""Read a profiler's trace (Chrome JSON, plain or gzipped) and say what its step waits for, why, and what would help.

The trace is what `torch.profiler` writes with `export_chrome_trace`. Steps that are marked (`profiler.step()`) and shapes that
are recorded (`record_shapes=True`) let it say more.
"""

from __future__ import annotations

import argparse
import textwrap
from pathlib import Path

from utils.commands import Refused, print_json, width

HELP = "what a trace of torch.profiler says: what was seen, the diagnosis, its reason and the cure"
LARGE = 20_000_000  # bytes, from which reading takes long enough to show a bar


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", nargs="?", type=Path, help="what export_chrome_trace wrote: .json or .json.gz")
    parser.add_argument("--json", action="store_true", help="print the diagnosis and all that was seen as JSON")
    parser.add_argument("--key", action="store_true", help="write the answer key of the recorded traces as a page")
    parser.add_argument("--out", metavar="PAGE", type=Path, help="with --key: where to (default: figures/diagnoses.md)")


def run(args: argparse.Namespace) -> int:
    if args.key:
        return _key(args.out)
    if args.file is None:
        raise Refused("give the file of a trace (or --key for the answer key)")
    from utils.model import traces
    from utils.model.diagnosis import diagnose
    from utils.show import progress

    if not args.file.is_file():
        raise Refused(f"{args.file} is {'a folder' if args.file.is_dir() else 'not there'}: give the file of a trace")
    size = args.file.stat().st_size
    try:
        if size < LARGE:
            events = traces.read(args.file)
            found = diagnose(events)
        else:
            with progress.bar(f"reading {size / 1e6:,.0f} MB") as bar:
                bar(0.05, "decoding JSON")
                events = traces.read(args.file)
                bar(0.8, f"{len(events):,} events")
                found = diagnose(events)
    except traces.NoTrace as error:
        raise Refused(str(error), code=1) from error
    except MemoryError:
        raise Refused(f"{args.file} ({size / 1e6:,.0f} MB) does not fit into memory: record fewer steps", code=1) from None
    if args.json:
        print_json({"file": args.file.name, "events": len(events), **found.to_dict()})
        return 0
    print(text(args.file.name, len(events), found, width()))
    return 0


def _key(out: Path | None) -> int:
    """Writes the answer key; the exit code."""
    from utils import paths
    from utils.model import files
    from utils.show import diagnosis_page

    out = out or paths.REPO / "figures" / diagnosis_page.FILE
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        files.write_atomically(out, diagnosis_page.page())
    except OSError as error:
        raise Refused(f"{out} cannot be written: {error.strerror or error}") from error
    print(f"wrote {out}")
    return 0


def text(name: str, events: int, found, columns: int) -> str:
    """The whole answer for a terminal of that many columns."""
    from utils.model.diagnosis import key
    from utils.show.trace_lanes import features_table

    entry = found.entry
    lines = [f"{name}: {events:,} events", features_table(found.features).text(), ""]
    rows = [("diagnosis", entry.name + (f" ({found.finding.share:.0%} of the step)" if found.finding else ""))]
    rows += [("because", found.reason), ("cure", found.cure), ("to be sure", found.confirm), ("what misleads", entry.misleading)]
    if found.features.device == "cpu":
        rows.append(("on a CPU", entry.on_a_cpu))
    rows += [("beside it", f"{key()[f.id].name}: {f.reason}") for f in found.also]
    rows += [("to see more", hint) for hint in hints(found.features)]
    return "\n".join([*lines, *(_paragraph(what, said, columns) for what, said in rows)])


def hints(features) -> list[str]:
    """What the trace does not hold, and how the reader gets it in."""
    out = []
    if not features.marked:
        out.append("no step is marked: call profiler.step() at the end of each, or wrap it in record_function('ProfilerStep#0')")
    if features.op_bytes is None and features.ops:
        out.append("no shapes were recorded: profile(record_shapes=True) tells small ops from short ones")
    if features.device == "cpu" and features.launches:
        out.append("the host launched kernels but none is in the trace: add ProfilerActivity.CUDA")
    return out


def _paragraph(what: str, said: str, columns: int) -> str:
    return textwrap.fill(f"{what + ':':16}{said}", columns, subsequent_indent=" " * 16, break_long_words=False)
