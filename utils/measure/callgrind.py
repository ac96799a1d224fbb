"""Counting instructions with callgrind: several statements in one child process, instrumented after torch is imported.

`torch.utils.benchmark`'s collect_callgrind starts a process per statement and instruments the import of torch too: about a
minute each. Here valgrind starts with instrumentation off (`--instr-atstart=no`), the child imports torch, asks for
`callgrind_control -i on`, and then brackets each statement with the two client requests that torch's own library carries.
The statements run in functions (local names) under PYTHONHASHSEED=0: with names in a module, their hashes alone made two
processes differ by 0.9 %.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from utils.measure import tools
from utils.measure.fold_tree import CallTree

Progress = Callable[[float, str], None]
# Statements a round (so that the loop's own instructions hardly count), and rounds. Every 1,500 adds or so glibc's malloc
# consolidates the small remainders that posix_memalign leaves, for about 200,000 instructions at once: in 10,000 adds one such
# burst more or less is 0.2 %, in 500 it was 6 %.
UNROLLED, WARM_ROUNDS, ROUNDS = 20, 25, 500
ROUNDS_WITH_PLANTS = 25  # there the bursts are switched off, so that the same heap is compared with itself
LIMIT_S = 600.0
IMPORT_S = 15.0  # what importing torch under valgrind took on a 2-core machine: only the progress bar believes it
NO_SYMBOL = "(no name)"


class CallgrindError(RuntimeError):
    """No counts could be had; the message says why in words fit for a table."""


@dataclass(frozen=True)
class Statement:
    """One line of Python that is counted, `code` ("c = a + b"), after `setup` lines run once in the same function.

    With `plants`, pairs of a planting library's function and the instructions it shall spin, it is counted once for each, one
    after the other with the same tensors. `teardown` lines run at the end (a mode that `setup` entered is left there);
    `most_rounds` is for a line so long that the usual rounds would take minutes.
    """

    name: str
    code: str
    setup: str
    plants: tuple[tuple[str, int], ...] = ()
    teardown: str = ""
    most_rounds: int | None = None

    @property
    def counted(self) -> tuple[str, ...]:
        """The names of its counts, in their order."""
        return tuple(f"{self.name} | {function} | {n}" for function, n in self.plants) or (self.name,)

    @property
    def rounds(self) -> int:
        usual = ROUNDS_WITH_PLANTS if self.plants else ROUNDS
        return min(usual, self.most_rounds or usual)


def missing() -> str:
    """Why nothing can be counted here, in words; empty when it can be tried."""
    if sys.platform != "linux":
        return f"callgrind is run on Linux here, and this is {sys.platform}"
    valgrind = tools.valgrind()
    if not valgrind.works:
        return f"valgrind: {valgrind.why}"
    if not shutil.which("callgrind_control"):
        return "callgrind_control, which comes with valgrind, is not on the PATH"
    from utils.measure import seams

    return "" if seams.has_valgrind_toggle() else "this build of torch has no client requests for valgrind"


def count(statements: list[Statement], progress: Progress | None = None, *, library: Path | None = None) -> dict[str, CallTree]:
    """The call tree of each statement, per execution, by name; 20 to 40 s for one statement or for several.

    `library` is loaded before torch, its symbols first (a planted cost). Raises CallgrindError with the reason in words.
    """
    if why := missing():
        raise CallgrindError(why)
    report = progress or (lambda done, text: None)
    with tempfile.TemporaryDirectory(prefix="one-add-callgrind-") as folder:
        program = Path(folder) / "program.py"
        program.write_text(program_text(statements, library), encoding="utf-8")
        facts = _run(program, report)
        trees = {}
        names = [(name, statement.rounds) for statement in statements for name in statement.counted]
        for number, (name, rounds) in enumerate(names, start=1):
            dump = Path(folder) / f"counts.{number}"
            if not dump.exists():
                raise CallgrindError(f"callgrind left no counts of {name!r}")
            trees[name] = _tree(name, dump.read_text(encoding="utf-8", errors="replace"), UNROLLED * rounds, facts)
    report(1.0, "counted")
    return trees


def program_text(statements: list[Statement], library: Path | None = None) -> str:
    """The child's program. Each statement is a function of its own, so that its names are local, and runs warm first."""
    lines = ["import ctypes, json, os, platform, sys"]
    if library:
        lines.append(f"planted = ctypes.CDLL({str(library)!r}, mode=ctypes.RTLD_GLOBAL)")
        lines.append("ctypes.CDLL(None).mallopt(1, 0)")  # M_MXFAST: no fastbins, so nothing to consolidate
    lines += ["import torch", "import torch.nn.functional as F"]
    lines += [f"sys.path.insert(0, {str(Path(__file__).resolve().parents[2])!r})"]
    lines += ["from utils.measure.seams import valgrind_dump, valgrind_toggle", "torch.set_num_threads(1)", ""]
    for number, statement in enumerate(statements, start=1):
        plants = ", ".join(f"(planted.{function}, {n})" for function, n in statement.plants) or "(int, 0)"
        lines += [f"def statement_{number}():", *(f"    {line}" for line in statement.setup.splitlines())]
        lines += [f"    for plant, instructions in ({plants},):", "        plant(instructions)"]
        warm = min(WARM_ROUNDS, statement.rounds)
        rounds = f"({warm}, int, int), ({statement.rounds}, valgrind_toggle, valgrind_dump)"
        lines += [f"        for rounds, start, stop in ({rounds}):", "            start()"]
        lines += ["            for _ in range(rounds):", *[f"                {statement.code}"] * UNROLLED]
        lines += ["            stop()"]  # before the function lets go of its tensors
        lines += ["        plant(0)", *(f"    {line}" for line in statement.teardown.splitlines())]
        lines += [f"    print('counted', {number}, flush=True)", ""]
    lines += [
        "print('ready', json.dumps({'libc': ' '.join(platform.libc_ver()),"
        " 'cpu_capability_traced': torch.backends.cpu.get_cpu_capability()}), flush=True)",
        "sys.stdin.readline()",  # until instrumentation is on
    ]
    lines += [f"statement_{number}()" for number in range(1, len(statements) + 1)]
    lines.append("os._exit(0)")  # an ordinary exit under valgrind takes longer than the statements
    return "\n".join(lines) + "\n"


def environment() -> dict[str, str]:
    """The child's environment: a fixed hash seed, one thread, and this very Python first on the PATH (valgrind's wrapper
    and torch look for `python` there)."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    one = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {**os.environ, **one, "PATH": path, "PYTHONHASHSEED": "0", "DEBUGINFOD_URLS": "", "LC_ALL": "C"}


def _run(program: Path, report: Progress) -> dict:
    """Run the program under callgrind until all is counted; what the child said of itself."""
    counts = program.parent / "counts"
    command = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--collect-atstart=no", f"--callgrind-out-file={counts}"]
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        child = subprocess.Popen(
            [*command, sys.executable, str(program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=program.parent,
            env=environment(),
        )
        watchdog = threading.Timer(LIMIT_S, child.kill)
        watchdog.start()
        waiting = _Waiting(report)
        try:
            facts: dict = {}
            done = 0
            for line in child.stdout or ():
                word, _, rest = line.strip().partition(" ")
                if word == "ready":
                    waiting.stop()
                    facts = json.loads(rest)
                    report(0.75, "switching the counting on")
                    _switch_on(child)
                elif word == "counted":
                    done = int(rest)
                    report(min(0.99, 0.75 + 0.05 * done), f"{done} counted")
            child.wait()
        finally:
            waiting.stop()
            watchdog.cancel()
            if child.poll() is None:
                child.kill()
            child.wait()
        if child.returncode != 0 or not facts:
            errors.seek(0)
            said = [re.sub(r"^==\d+== ?", "", line).strip() for line in errors.readlines()]
            last = next((line for line in reversed(said) if line), "it said nothing")
            raise CallgrindError(f"the child under valgrind ended with {child.returncode}: {re.sub(r'/[^ ]*/', '', last)[:200]}")
    return facts


def _switch_on(child: subprocess.Popen) -> None:
    """Turn instrumentation on in the waiting child, and let it go on."""
    ok, said = tools.run(["callgrind_control", "-i", "on", str(child.pid)], seconds=60)
    if not ok or "OK" not in said:
        raise CallgrindError(f"callgrind_control could not reach the child: {said.strip().splitlines()[-1:] or 'no answer'}")
    assert child.stdin is not None
    child.stdin.write("\n")
    child.stdin.flush()


class _Waiting:
    """Moves the bar while the child imports torch, of which nothing is heard until it is done."""

    def __init__(self, report: Progress):
        self._stopped = threading.Event()
        self._report = report
        self._thread = threading.Thread(target=self._go, daemon=True)
        self._thread.start()

    def _go(self) -> None:
        start = time.monotonic()
        while not self._stopped.wait(0.5):
            gone = (time.monotonic() - start) / IMPORT_S
            self._report(0.7 * gone / (1 + gone), "torch is imported under valgrind")

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()


def _tree(name: str, text: str, runs: int, facts: dict) -> CallTree:
    own, edges, libraries = parse(text)
    return CallTree(
        statement=name,
        self_cost={f: cost / runs for f, cost in own.items()},
        edges={edge: cost / runs for edge, cost in edges.items()},
        libraries=libraries,
        where=where(facts),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        source="live",
    )


def where(facts: dict) -> dict:
    """The machine's fingerprint, and what else decides the counts: glibc, valgrind, the CPU capability seen under it."""
    from utils.measure.fingerprints import fingerprint

    return {
        **fingerprint(),
        "glibc": facts["libc"].removeprefix("glibc").strip(),
        "valgrind": tools.valgrind().found,
        "cpu_capability_traced": facts["cpu_capability_traced"],
    }


# ------------------------------------------------------------------------------------------------ callgrind's own format


def parse(text: str) -> tuple[dict[str, int], dict[tuple[str, str], int], dict[str, str]]:
    """(own instructions by function, instructions by (caller, callee), library by function) of one callgrind dump.

    Names are written once and then meant by number. Levels of recursion (`f'2`) are one function. The numbers of calls are
    not read: callgrind goes on counting calls while collection is off, so that warm-up is in them. Functions without a name
    are one per library: their addresses differ from run to run.
    """
    own: dict[str, int] = {}
    edges: dict[tuple[str, str], int] = {}
    libraries: dict[str, str] = {}
    names: dict[str, str] = {}
    objects: dict[str, str] = {}
    library = callee_library = function = callee = ""
    is_call = False

    def name(raw: str, table: dict[str, str]) -> str:
        found = re.match(r"\((\d+)\)(?: (.*))?$", raw)
        if not found:
            return raw
        if found[2] is not None:
            table[found[1]] = found[2]
        return table[found[1]]

    def tidy(raw: str, where: str) -> str:
        short = re.sub(r"'\d+$", "", raw)
        if short.startswith("0x"):
            short = f"{NO_SYMBOL} in {where}" if where and where != "???" else NO_SYMBOL
        libraries.setdefault(short, where)
        return short

    for line in text.splitlines():
        key, is_assignment, value = line.partition("=")
        if line[:1] in "+-*0123456789" and line[:1]:
            cost = int(line.split()[-1])
            if is_call:
                is_call = False
                if callee != function:
                    edges[function, callee] = edges.get((function, callee), 0) + cost
            else:
                own[function] = own.get(function, 0) + cost
        elif not is_assignment:
            continue
        elif key == "ob":
            library = Path(name(value, objects)).name
        elif key == "cob":
            callee_library = Path(name(value, objects)).name
        elif key == "fn":
            function, callee_library = tidy(name(value, names), library), ""
        elif key == "cfn":
            callee = tidy(name(value, names), callee_library or library)
            callee_library = ""
        elif key == "calls":
            is_call = True
    for edge in edges:
        for function in edge:
            own.setdefault(function, 0)
    return own, edges, libraries
