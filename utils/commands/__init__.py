"""The commands of `python -m utils`: each module has HELP, add_arguments(parser) and run(args) -> exit code."""

from __future__ import annotations

import json
import shutil

COMMANDS = ("preflight", "price", "trace", "record", "verify", "figures", "results", "selfcheck", "ledger", "diagnose")


class Refused(Exception):
    """The command cannot be carried out; told in one line. `code` is the exit code: 2 as asked, 1 for what was found."""

    def __init__(self, message: str, code: int = 2):
        super().__init__(message)
        self.code = code


def print_json(data) -> None:
    """`data` as JSON on stdout and nothing else; NaN is refused because no other reader of JSON takes it."""
    print(json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False))


def width() -> int:
    """Columns of the terminal; 120 where there is none (a pipe, a CI log)."""
    return max(60, shutil.get_terminal_size(fallback=(120, 24)).columns)


def device_or_refuse(device: str) -> str:
    """`device` when it can be measured here, else Refused with the reason in words."""
    if device == "cuda":
        from utils.measure.fingerprints import gpu

        card = gpu()
        if not card.usable:
            raise Refused(f"no CUDA here ({card.problem or 'no GPU'}); the recordings show one: price --device cpu has it beside")
    return device
