"""The receipt of one `a + b` on this machine: what each stage costs, and what no stage explains.

With `--json` stdout is the receipt as JSON and nothing else; progress goes to stderr either way.
"""

from __future__ import annotations

import argparse

from utils.commands import Refused, device_or_refuse, print_json

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
    print(text(receipt, beside))
    if not receipt.complete:
        print()
        print(fallback(receipt))
    return 0


def measure(device: str, grad: bool):
    """The live Receipt, with the progress bar on stderr while it is made."""
    from utils.measure.stages import price_stages
    from utils.show import progress

    with progress.bar(f"pricing a + b on {device}") as bar:
        return price_stages(device, grad, progress=bar)


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


def text(receipt, beside=None) -> str:
    """The receipt for a terminal: stages with a bar column, then everything else that was measured, one line each."""
    from utils.show import tables

    table = tables.receipt_table(receipt, beside)
    prices = [stage.ns for stage in receipt.stages] + [receipt.stage_sum_ns, receipt.context_ns, receipt.total_ns]
    for row, ns in zip(table.rows, prices, strict=True):
        row["bar"] = bar(ns, receipt.total_ns)
    columns = {}
    for key, heading in table.columns.items():
        columns[key] = heading
        if key == "share":
            columns["bar"] = ""
    del columns["group"]
    body = tables.Table(table.rows, columns, table.caption, table.notes).text()
    return "\n".join([body, "", *more(receipt)])


def bar(ns: float | None, whole: float) -> str:
    """`ns` as a bar of at most BAR cells to the scale of `whole`, in eighths of a cell; negative prices have none."""
    if ns is None or ns <= 0 or whole <= 0:
        return ""
    eighths = min(8 * BAR, round(8 * BAR * ns / whole))
    full, rest = divmod(eighths, 8)
    return ("█" * full + " ▏▎▍▌▋▊▉"[rest].strip()) or "▏"


def more(receipt) -> list[str]:
    """One line per further thing that the receipt holds: other states, in a program, first call, the ladder, the device."""
    from utils.show.tables import format_ns

    lines = []
    if receipt.arms:
        lines.append("in other states    " + " · ".join(f"{name} {format_ns(r)}" for name, r in receipt.arms.items()))
    if receipt.in_program:
        lines.append("in a program       " + " · ".join(f"after {n} other ops {format_ns(r)}" for n, r in receipt.in_program))
    if receipt.first_call:
        lines.append("the first calls    " + " · ".join(f"{name} {format_ns(ns)}" for name, ns in receipt.first_call))
    if receipt.device_time:
        lines.append("on the device      " + " · ".join(f"{name} {format_ns(r)}" for name, r in receipt.device_time.items()))
    for group in receipt.ladder_groups:
        verdict = "agrees" if group.agrees else "DISAGREES"
        lines.append(
            f"ladder             {group.upper} − {group.lower}: {format_ns(group.difference_ns)}, "
            f"its stages alone {format_ns(group.isolates_ns)}: {verdict}"
        )
    return lines


def fallback(receipt) -> str:
    """What to say and show when stages could not be measured here: the sentence, and the recorded receipt of a CPU."""
    from utils.model import recordings

    missing = sorted({s.why_missing for s in receipt.stages if s.isolate is None and s.why_missing})
    sentence = f"Not every stage could be measured here ({'; '.join(missing) or 'no stage probe'})."
    best = recordings.best(receipt.device)
    key = receipt.device + ("_grad" if receipt.grad else "")
    if best is None or key not in best.receipts:
        return f"{sentence} There is no recording of such a receipt either: `python -m utils preflight` says what is missing."
    return f"{sentence} This one is recorded, not yours: {best.label()}.\n\n{text(best.receipts[key])}"


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
    from utils.show import theme

    return theme.label(receipt)
