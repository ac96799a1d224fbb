"""What happens inside one expression: schema, key sets, table rows, and the C++ call tree with its instructions.

With `--json` stdout is the trace as JSON and nothing else. The call tree is the committed one unless `--live` counts it here.
"""

from __future__ import annotations

import argparse
import textwrap

from utils.commands import Refused, print_json, width

HELP = "what happens inside one expression such as 'a + b' (--live counts its instructions, about 30 s)"
DEEP = 24  # levels of the call tree that are indented; deeper ones stay there


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("expression", nargs="?", default="a + b", help="of a, b (one element), x, w (4 x 4), x3 (2 x 4 x 4)")
    parser.add_argument("--grad", action="store_true", help="the tensors require grad")
    parser.add_argument("--live", action="store_true", help="count the instructions here, with valgrind, instead of showing ours")
    parser.add_argument("--gdb", action="store_true", help="stop a child process in the kernel and list who called it")
    parser.add_argument("--json", action="store_true", help="print the trace as JSON instead of tables")
    parser.add_argument("--record", action="store_true", help="count the course's own statements and write the committed file")


def run(args: argparse.Namespace) -> int:
    from utils.measure import trace
    from utils.measure.backtrace import BacktraceError
    from utils.measure.callgrind import CallgrindError
    from utils.show import progress

    if args.record:
        try:
            with progress.bar("recording the call trees") as bar:
                print(f"wrote {trace.record_trees(progress=bar).name}")
        except (CallgrindError, BacktraceError) as error:
            raise Refused(f"nothing was recorded: {error}", code=1) from error
        return 0
    try:
        with progress.bar(f"tracing {args.expression}") as bar:
            found = trace.trace(args.expression, grad=args.grad, live=args.live, progress=bar)
            frames = trace.backtrace(args.expression, progress=bar) if args.gdb else None
    except ValueError as error:
        raise Refused(str(error)) from error
    if args.json:
        print_json({**found.to_dict(), "backtrace": frames and frames.to_dict()})
        return 0
    print(text(found, width()))
    if args.gdb:
        print("\n" + backtrace_text(frames))
    return 0


def text(found, columns: int) -> str:
    """The whole trace for a terminal of that many columns."""
    parts = [lookup_text(found.dispatch, columns)]
    if found.tree is None:
        parts.append(textwrap.fill(found.tree_note, columns))
    else:
        notes = [found.tree.label(), *filter(None, [found.tree_note, *found.tree.notes])]
        parts += [fold_text(found.fold), tree_text(found.tree, columns)]
        parts.append("\n".join(textwrap.fill(note, columns, subsequent_indent="    ") for note in notes))
    return "\n\n".join(parts)


def lookup_text(dispatch, columns: int) -> str:
    """Signatures, overloads, promotion, key sets and hops as a list of short paragraphs."""
    none = "not seen" if dispatch.missing else "none: this expression calls no op"
    rows = [("schema chosen", dispatch.schema or none)]
    rows += [("the parser knows", signature) for signature in dispatch.signatures]
    rows += [("passed over", f"{o.schema}: {o.why.removeprefix('passed over: ')}") for o in dispatch.overloads if not o.chosen]
    rows += [("dtype", f"{dispatch.result_dtype}; {dispatch.promotion}")]
    rows += [("ops that ran", ", ".join("  " * op.depth + op.name for op in dispatch.ops) or none)]
    if dispatch.keys is not None:
        keys = dispatch.keys
        rows += [(f"keys of {name}", ", ".join(of)) for name, of in keys.arguments.items()]
        rows += [("all together", ", ".join(keys.union)), ("thread includes", ", ".join(keys.included))]
        rows += [("thread excludes", ", ".join(keys.excluded)), ("falls through at", ", ".join(keys.masked))]
        rows += [("highest of", f"{', '.join(keys.final)}: {keys.highest}")]
    rows += [("hop", f"{hop.op} at {hop.key}: {hop.kind}, {hop.registered_at}") for hop in dispatch.hops]
    rows += [("not told", said) for said in dispatch.missing]
    return "\n".join(
        textwrap.fill(f"{name + ':':18}{said}", columns, subsequent_indent=" " * 18, break_long_words=False)
        for name, said in rows
    )


def fold_text(fold) -> str:
    """The rows of the fold with their stage, instructions and share."""
    from tabulate import tabulate

    rows = [[row.title, row.stage, row.instructions, f"{row.share:.1%}"] for row in fold.rows if row.instructions >= 0.5]
    if fold.unexplained >= 0.5:
        rows.append(["no rule reaches it", "", fold.unexplained, f"{fold.unexplained / fold.total:.1%}"])
    rows.append([fold.statement, "", fold.total, "100.0%"])
    headers, sides = ["row", "stage", "instructions", "share"], ("left", "left", "right", "right")
    return tabulate(rows, headers=headers, floatfmt=",.0f", colalign=sides)


def tree_text(tree, columns: int) -> str:
    """The call tree from 1 % of the whole up: instructions with everything below, of them the function's own, its name."""
    lines = [f"{'with below':>10} {'own':>7}  function (from 1 % of the whole; … is called from several places, and shown below)"]
    for depth, name, cost, own in tree.lines():
        mark = "… " if depth and tree.merged(name) else ""
        lines.append(f"{cost:10,.0f} {own:7,.0f}  {' ' * min(depth, DEEP)}{mark}{name}"[:columns])
    return "\n".join(lines)


def backtrace_text(frames) -> str:
    """The frames, the kernel first; a sentence where there are none."""
    if frames is None:
        return "no backtrace: gdb cannot be used here and none of this expression is recorded"
    lines = [f"{frame.index:>3}  {frame.function}  [{frame.library}]" for frame in frames.frames]
    return "\n".join([*lines, frames.label(), *filter(None, [frames.why and f"not live: {frames.why}"])])
