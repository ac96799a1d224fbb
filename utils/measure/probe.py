"""The compiled probe: one C++ unit of `csrc/` a stage, each compiled by itself, linked together, and loaded by ctypes.

A unit that does not compile or load (a header moved, a symbol gone) loses its own stage and nothing else: what went wrong is
kept beside the cached objects and told in words. Nothing here measures; `utils.measure.stages` says what is run and why.

Cache: `paths.cache()/probe/UNIT-KEY.o`, where KEY hashes the unit's source and the local headers it includes, the flags, and
the versions of torch, Python and the compiler. Files are made under another name and moved into place, so that two processes
may build at once.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from utils import paths
from utils.measure import tools

Progress = Callable[[float, str], None]
SOURCES = Path(__file__).resolve().parent / "csrc"
COMPILE_S = 300  # a unit takes 2 to 20 s; a machine ten times slower still gets there
# Heaviest first, so that the last one to finish is a short one. These know nothing of the device:
SHARED = ("arg_parser", "autograd_node", "autograd_key", "dispatcher_hop", "handle_copies_gil", "python_boundary", "driver")
PER_DEVICE = ("output_tensor", "wrap_free", "tensor_iterator", "kernel", "ladder", "allocator")
DEVICES = ("cpu", "cuda")


@dataclass(frozen=True)
class Unit:
    """One C++ source built for one device; `name` is what messages and the cache call it."""

    source: str
    device: str = "cpu"

    @property
    def name(self) -> str:
        return self.source if self.device == "cpu" else f"{self.source}_{self.device}"


@dataclass(frozen=True)
class ProbeStatus:
    """Whether the probe can be had on this machine: `why` says what is missing, `built` names the units in the cache.

    `cached` is True when every unit of the device is built (or known not to build), so that no time goes into compiling.
    """

    available: bool
    why: str
    built: tuple[str, ...]
    cached: bool


def units(device: str) -> tuple[Unit, ...]:
    """All units that price an add on `device` ("cpu" or "cuda"). Raises ValueError for another device."""
    if device not in DEVICES:
        raise ValueError(f"the probe knows {' and '.join(DEVICES)}, not {device!r}")
    return tuple(Unit(s) for s in SHARED) + tuple(Unit(s, device) for s in PER_DEVICE)


def probe_status(device: str = "cpu") -> ProbeStatus:
    """What is there, without compiling anything."""
    if why := _no_compiler():
        return ProbeStatus(False, why, (), False)
    wanted = units(device)
    if why := _no_headers(device):
        wanted = tuple(u for u in wanted if u.device != device)
    built = tuple(u.name for u in wanted if _object(u).exists())
    settled = all(_object(u).exists() or _failure(u).exists() for u in wanted)
    failed = [u.name for u in wanted if not _object(u).exists() and _failure(u).exists()]
    if failed:
        why = "; ".join(filter(None, [why, f"did not compile: {', '.join(failed)}"]))
    return ProbeStatus(True, why, built, settled)


def build_probe(device: str = "cpu", progress: Progress | None = None, *, only: tuple[Unit, ...] | None = None) -> ProbeStatus:
    """Compile what is not in the cache, as many units at a time as there are cores; about a minute on two, once.

    `only` builds these units instead of all of the device's. A unit that fails is remembered with the compiler's message
    (until its source, torch or the compiler changes) and does not stop the others. Without a compiler nothing happens.
    """
    if _no_compiler():
        return probe_status(device)
    wanted = units(device) if only is None else only
    todo = [u for u in wanted if not _object(u).exists() and not _failure(u).exists() and not _no_headers(u.device)]
    if todo:
        _folder().mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(max_workers=min(len(todo), os.cpu_count() or 1)) as pool:
            jobs = {pool.submit(_compile, u): u for u in todo}
            for done, job in enumerate(as_completed(jobs), start=1):
                job.result()
                if progress:
                    progress(done / len(todo), f"compiling the probe, once: {done} of {len(todo)}")
    return probe_status(device)


class ProbeError(RuntimeError):
    """A part of the probe is not there; the message is the reason, in words fit for a table."""


class Probe:
    """The loaded probe of a device: one shared object, linked of the units that compiled. `why` says what is missing.

    One object and not one a unit: pieces that lie scattered over a dozen libraries cost a pass of the replica 4 % more than
    the op that they copy. Raises ProbeError when there is nothing to load.
    """

    def __init__(self, wanted: tuple[Unit, ...]):
        if why := _no_compiler() or next(filter(None, (_no_headers(u.device) for u in wanted)), ""):
            raise ProbeError(why)
        self.why = {u.source: _why_missing(u) for u in wanted if not _object(u).exists()}
        there = [u for u in wanted if _object(u).exists()]
        self.library = None
        while there and self.library is None:
            self.library, bad = _loaded(there)
            self.why |= bad
            there = [u for u in there if u.source not in bad]
        if self.library is None:
            raise ProbeError(next(iter(self.why.values()), "not compiled yet"))

    def function(self, source: str, name: str, result=ctypes.c_double, arguments=(ctypes.c_void_p, ctypes.c_int64)):
        """The C function `name` of unit `source`, to be called with the GIL held. Raises ProbeError saying why there is none."""
        if source in self.why:
            raise ProbeError(self.why[source])
        try:
            found = getattr(self.library, name)
        except AttributeError:
            raise ProbeError(f"the unit {source} exports no {name}") from None
        found.restype, found.argtypes = result, list(arguments)
        return found


def _loaded(there: list[Unit]) -> tuple[ctypes.PyDLL | None, dict[str, str]]:
    """(the linked units, {}), or (None, which of them stand in the way and why): never neither."""
    for fresh in (False, True):
        try:
            path = _link_once(there, fresh)
            return _load(str(path)), {}
        except subprocess.CalledProcessError as error:
            bad = {u.source: f"does not link: {why}" for u in there if (why := _links_alone(u))}
            return None, bad or {u.source: f"does not link: {_said(error.stderr)}" for u in there}
        except OSError as error:
            said = str(error).split(": ", 1)[-1].strip()
        if symbol := re.search(r"undefined symbol: (\w+)", said):  # this torch lacks it: go on without the units that want it
            bad = {u.source: f"does not load: {said}" for u in there if symbol[1].encode() in _object(u).read_bytes()}
            if bad:
                return None, bad
    return None, {u.source: f"does not load: {said}" for u in there}


@cache
def _load(path: str) -> ctypes.PyDLL:
    import torch  # noqa: F401  (its libraries must be in the process before the probe's references to them)

    return ctypes.PyDLL(path)


def _links_alone(unit: Unit) -> str:
    """What the linker says of this unit alone; "" when it has nothing to say."""
    try:
        _link_once([unit])
    except subprocess.CalledProcessError as error:
        return _said(error.stderr)
    return ""


def _link_once(there: list[Unit], fresh: bool = False) -> Path:
    """The shared object of these units, linked where it is not in the cache (`fresh`: anew). Raises CalledProcessError."""
    objects = [_object(u) for u in there]
    device = "cuda" if any(u.device == "cuda" for u in there) else "cpu"
    command = [*_cxx().split(), "-shared", *map(str, objects), *_link(device)]
    digest = hashlib.sha256("\n".join([*(o.name for o in objects), *_link(device)]).encode()).hexdigest()[:16]
    path = _folder() / f"probe-{digest}.so"
    if fresh or not path.exists():
        with tempfile.TemporaryDirectory(dir=_folder()) as scratch:
            out = Path(scratch) / "probe.so"
            subprocess.run([*command, "-o", str(out)], capture_output=True, text=True, timeout=COMPILE_S, check=True)
            os.replace(out, path)
    return path


# ------------------------------------------------------------------------------------------------ compiling


def _compile(unit: Unit) -> None:
    """Compile one unit into its place in the cache, or leave the compiler's message there.

    A compiler that was stopped from outside (an interrupted cell, a kernel that ended, no memory) says nothing about the source:
    nothing is left, and the next call tries again.
    """
    with tempfile.TemporaryDirectory(dir=_folder()) as scratch:
        out = Path(scratch) / "unit.o"
        try:
            run = subprocess.run(
                [*_command(unit), "-c", str(SOURCES / f"{unit.source}.cpp"), "-o", str(out)],
                capture_output=True,
                text=True,
                timeout=COMPILE_S,
            )
            failed, message = run.returncode != 0, run.stderr or run.stdout
            if run.returncode < 0 or "signal terminated program" in message:
                return
        except (OSError, subprocess.TimeoutExpired) as error:
            failed, message = True, f"error: {error}"
        if failed:
            note = Path(scratch) / "failed"
            note.write_text(message)
            os.replace(note, _failure(unit))
        else:
            os.replace(out, _object(unit))


def _command(unit: Unit) -> list[str]:
    """Compiler and flags. Warnings are off: torch's headers would fill the reader's screen."""
    import torch
    from torch.utils import cpp_extension

    include = [*cpp_extension.include_paths(), sysconfig.get_paths()["include"]]
    if unit.device == "cuda":
        include += [str(p) for p in _cuda_include()]
    # As torch's release wheels are built, as far as code inlined from its headers depends on it: without NDEBUG each handle and
    # each dispatch checks itself, which made the two hops look 70 ns dear instead of 42. No PLT: one jump to torch, not two.
    flags = ["-std=c++20", "-O2", "-DNDEBUG", "-fPIC", "-fvisibility-inlines-hidden", "-fno-plt", "-w"]
    flags.append(f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}")
    if unit.device == "cuda":
        flags.append("-DONE_ADD_CUDA")
    return [*_cxx().split(), *flags, *(f"-I{p}" for p in include)]


def _link(device: str) -> list[str]:
    from torch.utils import cpp_extension

    folders = cpp_extension.library_paths()
    libraries = ["c10", "torch_cpu", "torch", "torch_python", *(["c10_cuda", "torch_cuda"] if device == "cuda" else [])]
    # Weak references do not count as a need, so that a linker which drops unneeded libraries would leave them null.
    extra = ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else ["-Wl,--no-as-needed"]
    return [*extra, *(f"-L{f}" for f in folders), *(f"-l{n}" for n in libraries), *(f"-Wl,-rpath,{f}" for f in folders)]


def _cxx() -> str:
    """The compiler that `tools.compiler` tried."""
    return os.environ.get("CXX") or next((n for n in ("c++", "g++", "clang++") if shutil.which(n)), "c++")


def _no_compiler() -> str:
    """Why nothing can be compiled here, else the empty string."""
    if sys.platform == "win32":
        return "the probe is written for Linux and macOS"
    compiler = tools.check(("compiler",))["compiler"]
    return "" if compiler.works else compiler.why


@cache
def _cuda_include() -> tuple[Path, ...]:
    """Folders that hold CUDA's runtime header: the toolkit's, else the one that came with torch's own packages."""
    from torch.utils import cpp_extension

    home = cpp_extension.CUDA_HOME or "/usr/local/cuda"
    bundled = sorted(Path(sysconfig.get_paths()["purelib"]).glob("nvidia/*/include"))
    return tuple(p for p in [Path(home) / "include", *bundled] if (p / "cuda_runtime_api.h").exists())


def _no_headers(device: str) -> str:
    """Why the units of a device cannot be compiled here, else the empty string."""
    if device != "cuda":
        return ""
    import torch

    if not torch.cuda.is_available():
        return "no CUDA device that torch can use"
    return "" if _cuda_include() else "CUDA's headers are missing: install the CUDA toolkit (nvcc)"


def _why_missing(unit: Unit) -> str:
    return f"does not compile: {_said(_failure(unit).read_text())}" if _failure(unit).exists() else "not compiled yet"


def _said(message: str) -> str:
    """The first line in which a compiler or linker names an error, without folders."""
    lines = [line for line in message.splitlines() if "error" in line] or message.splitlines() or ["the compiler said nothing"]
    return re.sub(r"(/[^\s:]*/)([^/\s:]+)", r"\2", lines[0]).strip()[:200]


# ------------------------------------------------------------------------------------------------ the cache


def _folder() -> Path:
    return paths.cache() / "probe"


def _object(unit: Unit) -> Path:
    return _folder() / f"{unit.name}-{_key(unit, SOURCES)}.o"


def _failure(unit: Unit) -> Path:
    return _folder() / f"{unit.name}-{_key(unit, SOURCES)}.failed"


@cache
def _key(unit: Unit, sources: Path) -> str:
    import torch

    digest = hashlib.sha256()
    for text in _with_headers(sources / f"{unit.source}.cpp"):
        digest.update(text.encode())
    cuda = torch.version.cuda if unit.device == "cuda" else ""
    abi = sysconfig.get_config_var("EXT_SUFFIX")
    digest.update("\n".join([*_command(unit), torch.__version__, str(cuda), str(abi), _compiler_version()]).encode())
    return digest.hexdigest()[:16]


@cache
def _compiler_version() -> str:
    try:
        return subprocess.run([*_cxx().split(), "--version"], capture_output=True, text=True, timeout=30).stdout.splitlines()[0]
    except (OSError, IndexError, subprocess.TimeoutExpired):
        return "unknown"


def _with_headers(source: Path) -> list[str]:
    """The text of a source and of every local header that it includes, directly or not."""
    text = source.read_text()
    out = [text]
    for header in re.findall(r'#include "([^"]+)"', text):
        out += _with_headers(source.parent / header)
    return out
