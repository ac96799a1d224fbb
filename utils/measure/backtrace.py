"""Who called the kernel: gdb stops a child process of its own making inside it and lists the frames.

gdb starts the child; it never attaches to the process that asks (a notebook's kernel would stand still).
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from utils.measure import statements, tools

Progress = Callable[[float, str], None]
LIMIT_S = 120.0
# Where the arithmetic of an op begins on CPU, by the op that reaches the backend.
KERNELS = {
    "aten::add.Tensor": "at::native::structured_ufunc_add_CPU::impl",
    "aten::mm": "at::native::structured_mm_out_cpu::impl",
}


@dataclass(frozen=True)
class Frame:
    """One frame: 0 is the innermost. `library` is the shared object, or the C file where gdb knows it."""

    index: int
    function: str
    library: str


@dataclass(frozen=True)
class Backtrace:
    """The frames at the first call of `stop`; `why` says in words why they are not live (or not there at all)."""

    expression: str
    stop: str
    frames: tuple[Frame, ...]
    source: str
    where: dict
    date: str
    why: str = ""

    def label(self) -> str:
        """One line that says whose frames these are."""
        return f"{self.source}: {self.expression} stopped in {self.stop}, torch {self.where.get('torch')}, {self.date[:10]}"

    def to_dict(self) -> dict:
        return {
            "expression": self.expression,
            "stop": self.stop,
            "frames": [[f.function, f.library] for f in self.frames],
        }

    @classmethod
    def from_dict(cls, data: dict, *, where: dict, date: str, source: str, why: str = "") -> Backtrace:
        frames = tuple(Frame(i, function, library) for i, (function, library) in enumerate(data["frames"]))
        return cls(data["expression"], data["stop"], frames, source, dict(where), date, why)


class BacktraceError(RuntimeError):
    """No frames could be had; the message is the reason in words."""


def missing() -> str:
    """Why gdb cannot be used here, in words; empty when it can be tried."""
    gdb = tools.gdb()
    return "" if gdb.works else f"gdb: {gdb.why}"


def frames_of(expression: str, stop: str, progress: Progress | None = None) -> tuple[Frame, ...]:
    """Run the expression in a child under gdb, stop at the first call of the C++ function `stop`, and list the frames.

    About 5 s. Raises BacktraceError in words: no gdb, no right to trace, a function that is not reached.
    """
    if why := missing():
        raise BacktraceError(why)
    if progress:
        progress(0.1, "a child is started under gdb")
    lines = ["import torch", "import torch.nn.functional as F", statements.setup(expression, False), expression]
    with tempfile.TemporaryDirectory(prefix="one-add-gdb-") as folder:
        program = Path(folder) / "program.py"
        program.write_text("\n".join(lines) + "\n", encoding="utf-8")
        settings = ["set pagination off", "set breakpoint pending on", "set print frame-arguments none", "set width 0"]
        commands = [*settings, f"break {stop}", "run", "backtrace", "kill"]
        gdb = shutil.which("gdb") or "gdb"
        arguments = [part for command in commands for part in ("-ex", command)]
        ok, said = tools.run([gdb, "-nx", "-batch", *arguments, "--args", sys.executable, str(program)], seconds=LIMIT_S)
    frames = parse(said)
    if not frames:
        raise BacktraceError(f"gdb reached no {stop}" if ok else f"gdb: {said.strip().splitlines()[-1][:160]}")
    if progress:
        progress(1.0, "stopped in the kernel")
    return frames


def parse(said: str) -> tuple[Frame, ...]:
    """gdb's `backtrace` as frames. Addresses, arguments and folders are left out: they differ from machine to machine."""
    out = []
    for line in said.splitlines():
        found = re.match(r"#(\d+)\s+(?:0x[0-9a-f]+ in )?(.+?)(?: \(\.{0,3}\))?(?: (?:from|at) (\S+))?$", line.strip())
        if found:
            library = Path(found[3].split(":")[0]).name if found[3] else ""
            function = re.sub(r" \((?:\w+=\.\.\.(?:, )?)+\)$", "", found[2].strip())
            out.append(Frame(int(found[1]), re.sub(r"@plt$", "", function), library))
    return tuple(out)
