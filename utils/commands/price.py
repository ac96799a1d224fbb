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
        "aa_error": round(receipt.aa_error, 4),
        "complete": receipt.complete,
    }


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
    return "\n".join([body, *notes, "", *more(receipt, columns)])


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
        verdict = "agrees" if group.agrees else f"DISAGREES (allowed {format_ns(group.allowed_ns)})"
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
