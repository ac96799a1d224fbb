"""The programs that the instruments lean on: compiler, nvcc, valgrind, gdb, CUPTI. Each is tried, not only looked up.

A tool that is on the PATH may still not work (no Python headers, no right to trace, a profiler library that cannot load),
so each check does the smallest real job in a child process: whatever goes wrong there cannot take this process along.
Overrides for tests and for readers: ONE_ADD_NO_COMPILER, ONE_ADD_NO_VALGRIND, ONE_ADD_NO_CUPTI (any value but 0 or empty).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from utils import paths

OVERRIDES = {"compiler": "ONE_ADD_NO_COMPILER", "valgrind": "ONE_ADD_NO_VALGRIND", "cupti": "ONE_ADD_NO_CUPTI"}


@dataclass(frozen=True)
class Tool:
    """`works` after a real try; `found` in words (version); `why` says what stopped it, empty when it works."""

    name: str
    works: bool
    found: str
    why: str = ""


def overridden(name: str) -> str:
    """'ONE_ADD_NO_COMPILER=1' when the reader or a test switched this tool off, else ''."""
    variable = OVERRIDES.get(name, "")
    value = os.environ.get(variable, "") if variable else ""
    return f"{variable}={value}" if value not in ("", "0") else ""


def check(names: tuple[str, ...], gpu: dict | None = None) -> dict[str, Tool]:
    """Tries the named tools side by side (they are child processes) and returns them by name; answers last for the process.

    `gpu` is {name, torch, driver} of a usable GPU; CUPTI is only tried when there is one.
    """
    tries = {"compiler": compiler, "nvcc": nvcc, "valgrind": valgrind, "gdb": gdb, "cupti": lambda: cupti(gpu)}
    with ThreadPoolExecutor(max_workers=len(tries)) as pool:
        pending = {name: pool.submit(tries[name]) for name in names}
        return {name: future.result() for name, future in pending.items()}


def compiler() -> Tool:
    """The C++ compiler that extensions are built with, tried on a file that includes Python.h."""
    return _once("compiler", _try_compiler)


def nvcc() -> Tool:
    """The CUDA compiler; CUDA_HOME is asked before the PATH, as torch does."""
    return _once("nvcc", _try_nvcc)


def valgrind() -> Tool:
    """valgrind, tried by counting the instructions of `true`."""
    return _once("valgrind", _try_valgrind)


def gdb() -> Tool:
    """gdb, tried by running `true` under it: many containers forbid one process to trace another."""
    return _once("gdb", _try_gdb)


def cupti(gpu: dict | None) -> Tool:
    """CUPTI, tried by profiling one add on the GPU in a child process; `gpu` is {name, torch, driver}, or None without one.

    The library can be there and still fail to start; torch then only warns and the timeline has no GPU rows. The try
    happens outside this process because CUPTI, once started, slows every later launch. Its answer is kept in the cache
    folder for this torch, driver and GPU.
    """
    return _once("cupti", lambda: _try_cupti(gpu), json.dumps(gpu, sort_keys=True))


_known: dict[tuple, Tool] = {}


def _once(name: str, attempt: Callable[[], Tool], *key: str) -> Tool:
    """The override if there is one, else what the first try of this process said; a try that raises is a tool that fails."""
    if off := overridden(name):
        return Tool(name, False, f"override {off}", f"switched off by {off}")
    known = (name, *key, *(os.environ.get(v) for v in ("PATH", "CXX", "CUDA_HOME", "CUDA_PATH")))
    if known not in _known:
        try:
            _known[known] = attempt()
        except Exception as error:  # a check must never stop the preflight
            _known[known] = Tool(name, False, "could not be tried", f"{type(error).__name__}: {error}")
    return _known[known]


def cxx() -> list[str] | None:
    """The command of the C++ compiler ($CXX, else c++, g++, clang++: the first on the PATH), or None."""
    names = [os.environ["CXX"]] if os.environ.get("CXX") else ["cl"] if sys.platform == "win32" else ["c++", "g++", "clang++"]
    return next((n.split() for n in names if shutil.which(n.split()[0])), None)


def _try_compiler() -> Tool:
    command = cxx()
    if command is None:
        return Tool("compiler", False, "none", f"no C++ compiler on the PATH ({os.environ.get('CXX') or 'c++, g++, clang++'})")
    if sys.platform == "win32":
        return Tool("compiler", True, command[0])
    _, text = run([*command, "--version"])
    version = text.splitlines()[0].strip() if text else command[0]
    include = sysconfig.get_paths()["include"]
    ok, text = run([*command, "-fsyntax-only", "-x", "c++", f"-I{include}", "-"], "#include <Python.h>\n#include <memory>\n")
    if ok:
        return Tool("compiler", True, version)
    if "Python.h" in text:
        return Tool("compiler", False, version, "the headers of Python (Python.h) are missing")
    return Tool("compiler", False, version, f"it cannot compile a small file: {_first_error(text)}")


def _try_nvcc() -> Tool:
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    path = shutil.which("nvcc", path=str(Path(home) / "bin")) if home else None
    path = path or shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    if path is None:
        return Tool("nvcc", False, "none", "no nvcc on the PATH")
    ok, text = run([path, "--version"])
    release = re.search(r"release ([0-9.]+)", text)
    if not ok or not release:
        return Tool("nvcc", False, "present", f"it does not answer --version: {_first_error(text)}")
    return Tool("nvcc", True, release.group(1))


def _try_valgrind() -> Tool:
    path, target = shutil.which("valgrind"), shutil.which("true")
    if path is None:
        return Tool("valgrind", False, "none", "no valgrind on the PATH")
    _, version = run([path, "--version"])
    ok, text = run(
        [path, "--tool=callgrind", "--callgrind-out-file=/dev/null", target or sys.executable, "--version"], seconds=30
    )
    if not ok:
        return Tool("valgrind", False, version.strip(), f"it cannot run a program here: {_first_error(text)}")
    return Tool("valgrind", True, version.strip().removeprefix("valgrind-"))


def _try_gdb() -> Tool:
    path, target = shutil.which("gdb"), shutil.which("true")
    if path is None:
        return Tool("gdb", False, "none", "no gdb on the PATH")
    _, text = run([path, "-nx", "--version"])
    version = (re.findall(r"([0-9]+\.[0-9.]+)", text.splitlines()[0]) or ["?"])[-1] if text else "?"
    _, text = run([path, "-nx", "-batch", "-ex", "run", "--args", target or sys.executable, "--version"], seconds=30)
    if "exited normally" in text:
        return Tool("gdb", True, version)
    return Tool("gdb", False, version, "it may not trace a process here (a container's ptrace rule, usually)")


PROFILE_ONE_ADD = """
import torch
from torch.profiler import ProfilerActivity, profile
a = torch.randn(8, device="cuda")
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as p:
    a + a
    torch.cuda.synchronize()
print("kernels seen:", sum(1 for e in p.events() if e.device_type == torch.autograd.DeviceType.CUDA))
"""


def _try_cupti(gpu: dict | None) -> Tool:
    if not gpu:
        return Tool("cupti", False, "not tried", "there is no GPU for it to trace")
    store = paths.cache() / "cupti.json"
    key = json.dumps(gpu, sort_keys=True)
    try:
        known = json.loads(store.read_text(encoding="utf-8"))
        if known.get("key") == key:
            return Tool("cupti", bool(known["works"]), str(known["found"]), str(known["why"]))
    except (OSError, ValueError, KeyError, AttributeError):
        pass  # not tried yet, or a damaged note: try it
    ok, text = run([sys.executable, "-c", PROFILE_ONE_ADD], seconds=120)
    seen = re.search(r"kernels seen: (\d+)", text)
    if ok and seen and int(seen.group(1)) > 0:
        tool = Tool("cupti", True, "sees kernels")
    elif ok and seen:
        tool = Tool("cupti", False, "sees no kernels", "the profiler ran but saw no kernel: CUPTI could not start")
    else:
        tool = Tool("cupti", False, "fails", f"the profiler's child process failed: {_first_error(text)}")
    try:
        store.write_text(json.dumps({"key": key, "works": tool.works, "found": tool.found, "why": tool.why}), encoding="utf-8")
    except OSError:
        pass  # tried again next time
    return tool


def run(command: list[str], text: str = "", seconds: float = 15.0) -> tuple[bool, str]:
    """(went well, all output). A command that cannot start, hangs or dies is False with the reason as its text."""
    env = {**os.environ, "DEBUGINFOD_URLS": "", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, errors="replace", timeout=seconds, env=env, check=False
        )
    except subprocess.TimeoutExpired:
        return False, f"no answer within {seconds:g} s"
    except OSError as error:
        return False, str(error)
    if done.returncode < 0:
        return False, f"killed by signal {-done.returncode}\n{done.stdout}{done.stderr}"
    return done.returncode == 0, done.stdout + done.stderr


def _first_error(text: str) -> str:
    """The line that says most: the first with 'error', else the last one; folders left out, they belong to nobody else."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    found = next((line for line in lines if "error" in line.lower()), lines[-1] if lines else "no output")
    return re.sub(r"/[^\s:'\"]*/", "", found)[:160]
