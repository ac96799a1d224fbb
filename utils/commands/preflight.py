"""What is on this machine, what it can show, and what each missing piece costs.

The table is for people; `--json` has the same rows, the fingerprint and what the machine can do.
"""

from __future__ import annotations

import argparse

from utils.commands import print_json, width

HELP = "what this machine is and what it can and cannot show"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")


def run(args: argparse.Namespace) -> int:
    from utils.measure import machine

    found = machine.preflight()
    if args.json:
        print_json(found.to_dict())
    else:
        print(text(found, width()))
    return 0


def _called(ability: str) -> str:
    """An ability as the summary calls it: Triton's interpreter needs no GPU, and is not what may be missing."""
    return "triton on a GPU" if ability == "triton" else ability


def text(found, columns: int) -> str:
    """The table of a Machine, wrapped to that many columns, and one line that sums it up."""
    from tabulate import tabulate

    shares = (0.12, 0.32, 0.34, 0.22)
    widths = [max(8, int((columns - 6) * share)) for share in shares]
    table = tabulate(found.rows(), headers="keys", maxcolwidths=widths, disable_numparse=True)
    yes = ", ".join(_called(what) for what, can in found.abilities.items() if can) or "nothing"
    no = ", ".join(_called(what) for what, can in found.abilities.items() if not can) or "nothing"
    return f"{table}\n\nclass {found.device_class} · {found.tier} · works here: {yes} · missing: {no}"
