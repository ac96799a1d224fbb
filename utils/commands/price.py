"""The receipt of one `a + b` on this machine: what each stage costs, and what no stage explains.

With `--json` stdout is the receipt as JSON and nothing else; progress goes to stderr either way.
"""

from __future__ import annotations

import argparse
import textwrap

from utils.commands import Refused, device_or_refuse, print_json, width

HELP = "measure the receipt of one a + b (about 20 s, the first time some minutes more for the compiler)"
BAR = 24


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the receipt as JSON instead of the table")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where a and b live (default: cpu)")
    parser.add_argument("--grad", action="store_true", help="one input requires grad, so that autograd's node is priced too")
    parser.add_argument(
        "--recorded", metavar="STEM", help="the recording shown beside, or 'none' (default: the newest recorded GPU)"
    )


def run(args: argparse.Namespace) -> int:
    device = device_or_refuse(args.device)
    beside = _beside(args.recorded, args.grad)
    receipt = measure(device, args.grad)
    if args.json:
        print_json({"receipt": receipt.to_dict(), "summary": summary(receipt), "beside": beside and _label(beside)})
        return 0
    print(text(receipt, beside, width()))
    if not receipt.complete:
        print()
        print(fallback(receipt))
    return 0


def measure(device: str, grad: bool):
    """The live Receipt, with the progress bar on stderr while it is made; Refused when nothing sound could be measured.

    It is measured in a process of its own, so that a compiled probe that crashes ends in a sentence.
    """
    from utils.measure import record
    from utils.model.readings import Receipt
    from utils.show import progress

    try:
        with progress.bar(f"pricing a + b on {device}") as bar:
            return Receipt.from_dict(record.in_child(device + "_grad" * grad, device, bar))
    except RuntimeError as error:
        hint = "; ONE_ADD_NO_COMPILER=1 leaves the compiled probe out" if "signal" in str(error) else ""
        raise Refused(f"the receipt could not be measured: {error}{hint}", code=1) from error


def summary(receipt) -> dict:
    """What a script wants from a receipt without adding it up again; prices in ns."""
    return {
        "total_ns": round(receipt.total_ns, 2),
        "stage_sum_ns": round(receipt.stage_sum_ns, 2),
        "context_ns": round(receipt.context_ns, 2),
        "coverage": round(receipt.coverage, 4),
        "share_of_addition": _kernel_share(receipt),
        "aa_error": round(receipt.aa_error, 4),
        "complete": receipt.complete,
    }


def _kernel_share(receipt) -> float | None:
    """The kernel's share of the whole (its launch's, on a GPU); None when it was not measured."""
    ns = next((stage.ns for stage in receipt.stages if stage.stage == "kernel"), None)
    return None if ns is None else round(ns / receipt.total_ns, 4)


def text(receipt, beside=None, columns: int = 120) -> str:
    """The receipt for a terminal of that many columns: stages with a bar column, then everything else that was measured."""
    from utils.show import tables

    table = tables.receipt_table(receipt, beside)
    prices = [stage.ns for stage in receipt.stages] + [receipt.stage_sum_ns, receipt.context_ns, receipt.total_ns]
    for row, ns in zip(table.rows, prices, strict=True):
        row["bar"] = bar(ns, receipt.total_ns)
    headings = {}
    for key, heading in table.columns.items():
        headings[key] = heading
        if key == "share":
            headings["bar"] = ""
    del headings["group"]
    body = tables.Table(table.rows, headings, table.caption).text()
    notes = [textwrap.fill(note, columns, subsequent_indent="    ") for note in table.notes]
    said = [
        textwrap.fill(line, columns, subsequent_indent="    ", break_on_hyphens=False)
        for line in (*legend(receipt), share(receipt))
    ]
    return "\n".join([body, *notes, "", *more(receipt, columns), "", *said])


def share(receipt) -> str:
    """The answer to the course's first question, from this receipt: what the addition itself has of the whole."""
    from utils.show import catalogue
    from utils.show.tables import format_ns, format_share

    whole, error = receipt.total_ns, receipt.aa_error * receipt.total_ns
    kernel = next((stage.ns for stage in receipt.stages if stage.stage == "kernel"), None)
    if kernel is None:
        return f"What the addition itself has of the {format_ns(whole)} could not be measured here."
    host = receipt.device == "cuda"
    of = f"Of {format_ns(whole)} of the host's time" if host else f"Of {format_ns(whole)}"
    what = "the launch of the addition" if host else "the addition itself (the kernel: a loop and its set-up)"
    if kernel <= error:
        words = f"{of} {what} takes no more than the same code differs by when it is timed twice ({format_ns(error)})"
    else:
        words = f"{of} {what} takes {format_ns(kernel)}, {format_share(kernel, whole)}"
    others = [(stage.ns, stage.stage) for stage in receipt.stages if stage.ns is not None and stage.stage != "kernel"]
    if 2 * kernel >= whole:
        words += ": more than all the rest together."
    elif others:
        ns, largest = max(others)
        words += f": the rest is what stands around it, most of all {catalogue.title(largest, receipt.device)}, {format_ns(ns)}."
    else:
        words += "."
    if host and (device := receipt.device_time.get("kernel")) is not None:
        words += f" The addition itself is on the GPU: its kernel and the step to the next one take {format_ns(device)} there."
    return words


def legend(receipt) -> list[str]:
    """What the receipt's own words mean, one line each, of those that stand in it."""
    lines = []
    if any(stage.difference_ns is not None for stage in receipt.stages):
        lines.append("by difference: the same stage once more, from a piece that holds it less the piece without it")
    if any(stage.alone_ns is not None for stage in receipt.stages):
        lines.append("in a tight loop: the same piece again and again by itself, with caches and predictors all its own")
    if "replica" in receipt.arms:
        lines.append(
            "replica: the op rebuilt from its pieces, run in the op's order; the prices of the stages are read inside it"
        )
    if receipt.ladder_groups:
        lines.append(
            "ladder: entry points from Python down to the kernel, each timed; what one adds to the next is held against the "
            "stages between them. They agree within 60 ns or 25 % of the step, whichever is more"
        )
    return lines


def bar(ns: float | None, whole: float) -> str:
    """`ns` as a bar of at most BAR cells to the scale of `whole`, in eighths of a cell; negative prices have none."""
    if ns is None or ns <= 0 or whole <= 0:
        return ""
    eighths = min(8 * BAR, round(8 * BAR * ns / whole))
    full, rest = divmod(eighths, 8)
    return ("█" * full + " ▏▎▍▌▋▊▉"[rest].strip()) or "▏"


def more(receipt, columns: int) -> list[str]:
    """What else the receipt holds, wrapped: other states, in a program, the first calls, the device, the ladder."""
    from utils.show.tables import format_ns

    def prices(pairs) -> str:
        # A name and its price stay on one line: textwrap breaks at blanks, not at these.
        return "\N{NO-BREAK SPACE}· ".join(f"{name} {_price(ns)}".replace(" ", "\N{NO-BREAK SPACE}") for name, ns in pairs)

    parts = {
        "in other states": prices((name, r.ns) for name, r in receipt.arms.items()),
        "in a program": prices((f"after {n} other ops", r.ns) for n, r in receipt.in_program),
        "the first calls": prices(receipt.first_call),
        "on the device": prices((name, r.ns) for name, r in receipt.device_time.items()),
    }
    if not receipt.ladder_groups:
        parts["rungs from Python"] = prices((r.name, r.ns) for r in receipt.ladder)
    for group in receipt.ladder_groups:
        verdict = f"{'agrees' if group.agrees else 'DISAGREES'} (allowed gap {format_ns(group.allowed_ns)})"
        step = f"{group.upper} − {group.lower}" if group.lower else group.upper
        parts[f"ladder: {group.name}"] = (
            f"{step}: {format_ns(group.difference_ns)}, its stages {format_ns(group.isolates_ns)}: {verdict}"
        )
    lines = (
        textwrap.fill(f"{name}: {said}", columns, subsequent_indent="    ", break_long_words=False)
        for name, said in parts.items()
        if said
    )
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


def _price(ns: float) -> str:
    """A price; from a millisecond on (first calls only) in ms or s."""
    from utils.show.tables import format_ns, significant

    for least, unit in ((1e9, "s"), (1e6, "ms")):
        if ns >= least:
            return f"{significant(ns / least)} {unit}"
    return format_ns(ns)


def fallback(receipt) -> str:
    """What to say and show when stages could not be measured here: the sentence, and the recorded receipt of a CPU."""
    from utils.model import recordings

    sentence = "Not every stage could be measured here (the reasons stand above)."
    best = recordings.best(receipt.device)
    key = receipt.device + ("_grad" if receipt.grad else "")
    if best is None or key not in best.receipts:
        return f"{sentence} There is no recording of such a receipt either: `python -m utils preflight` says what is missing."
    return f"{sentence} This one is recorded, not yours: {best.label()}.\n\n{text(best.receipts[key], None, width())}"


def _beside(stem: str | None, grad: bool):
    """The recorded receipt to print beside: of the asked recording, else of the best GPU; None when there is none."""
    from utils.model import recordings

    if stem == "none":
        return None
    if stem is not None and stem not in recordings.available():
        raise Refused(f"no recording is called {stem!r}; there are: {', '.join(recordings.available()) or 'none yet'}")
    found = recordings.load(stem) if stem else recordings.best("cuda")
    if found is None:
        return None
    for key in ("cuda", "cpu"):
        if (receipt := found.receipts.get(key + ("_grad" if grad else ""))) is not None:
            return receipt
    return None


def _label(receipt) -> str:
    from utils.model import recordings

    return recordings.receipt_label(receipt)
