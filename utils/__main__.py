"""The one terminal entry: python -m utils preflight | price | trace | record | verify | figures | results |
selfcheck | ledger | diagnose.

Each command lives in its own file under `utils/commands`. Exit codes: 0 done, 1 something is wrong with what was measured
or read (or a check failed), 2 the command cannot be carried out as asked, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module

from utils.commands import COMMANDS, Refused


class Parser(argparse.ArgumentParser):
    """argparse, but a wrong command line costs the reader one line instead of the whole usage."""

    def error(self, message: str):
        self.exit(2, f"error: {message} (see {self.prog} --help)\n")


def parser() -> argparse.ArgumentParser:
    """The command line; building it imports neither torch nor matplotlib."""
    top = Parser(prog="python -m utils", description="One add, priced: what a PyTorch op costs, measured here.")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in COMMANDS:
        module = import_module(f"utils.commands.{name}")
        one = commands.add_parser(name, help=module.HELP, description=module.__doc__.strip().splitlines()[0])
        module.add_arguments(one)
        one.set_defaults(run=module.run)
    return top


def main(argv: list[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    args = parser().parse_args(argv)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without µ or █ must not end a measurement
    try:
        code = args.run(args)
        sys.stdout.flush()
        return code
    except Refused as refusal:
        print(f"error: {refusal}", file=sys.stderr)
        return refusal.code
    except ModuleNotFoundError as missing:
        if str(missing.name).split(".")[0] == "utils":
            raise  # a fault of the course, not a package that could be installed
        print(f"error: the package {missing.name!r} is missing; `make lab` installs what the course needs", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader of a pipe went away (`… | head`): stop quietly, and keep Python from flushing into it on exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
