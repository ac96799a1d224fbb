"""The C++ form of lab 7's kernels: a function for one program, compiled by the machine's compiler, run on the lab's memory.

For machines on which Triton does not install. The learner writes

    void program(int64_t pid, Tensor x, Tensor out, int64_t n, int64_t BLOCK) { … out.store(i, x.load(i)); … }

and the lab calls it once for each program of the grid. `Tensor` has load and store and nothing else: both check the place and
write it down (HEADER), so that an offset beyond the tensor is told and touches nothing.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from utils import paths
from utils.labs.fuse_memory import RAW, Memory, Region, bits, numbers, salt
from utils.measure import tools

MOST_ACCESSES = 1 << 16  # of one tensor in one program
HEADER = r"""
#include <cmath>
#include <cstdint>
#include <limits>
struct Log { int64_t used, room; int64_t* place; float* value; };
// A tensor as a kernel sees it: `at` is where its first element lies, counted in elements from the start of the memory.
struct Tensor {
  const float* values; int64_t extent; int64_t at; int64_t salt; Log* loads; Log* stores;
  float load(int64_t i) const {
    i += at;
    if (loads->used < loads->room) loads->place[loads->used] = i;
    loads->used++;
    if (values == nullptr) { int64_t r = (i * 7 + salt * 13) % 61; return float((r < 0 ? r + 61 : r) - 30) / 8; }
    return i >= 0 && i < extent ? values[i] : std::numeric_limits<float>::quiet_NaN();
  }
  void store(int64_t i, float value) const {
    if (stores->used < stores->room) { stores->place[stores->used] = i + at; stores->value[stores->used] = value; }
    stores->used++;
  }
};
#if defined(_WIN32)
#define EXPORTED extern "C" __declspec(dllexport)
#else
#define EXPORTED extern "C"
#endif
"""
SIGNATURE = re.compile(r"(?:\bextern\s+\"C\"\s+)?\bvoid\s+program\s*\(([^)]*)\)")


class NotBuilt(RuntimeError):
    """The C++ form could not be compiled or called; the message says why."""


def missing() -> str:
    """Why nothing can be compiled here, or ""."""
    compiler = tools.check(("compiler",))["compiler"]
    return "" if compiler.works else compiler.why


class _Log(ctypes.Structure):
    _fields_ = [("used", ctypes.c_int64), ("room", ctypes.c_int64), ("place", ctypes.c_void_p), ("value", ctypes.c_void_p)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("values", ctypes.c_void_p),
        ("extent", ctypes.c_int64),
        ("at", ctypes.c_int64),
        ("salt", ctypes.c_int64),
        ("loads", ctypes.POINTER(_Log)),
        ("stores", ctypes.POINTER(_Log)),
    ]


def run(source: str, memory: Memory, programs: Sequence[tuple[int, int, int]], args: Sequence, kwargs: dict) -> None:
    """Run these programs of the C++ `source`, one after the other. Arguments are (Region, offset) or ints; NotBuilt in words."""
    wanted = parameters(source)
    if len(wanted) != 1 + len(args) + len(kwargs) or set(kwargs) - {name for _, name in wanted}:
        given = ", ".join([*(f"argument {i + 1}" for i in range(len(args))), *kwargs])
        raise NotBuilt(f"program takes ({', '.join(name for _, name in wanted)}); pid comes by itself, you gave: {given}")
    bound = [*args, *(kwargs[name] for _, name in wanted[1 + len(args) :])]
    for (kind, name), value in zip(wanted[1:], bound):
        if (kind == "Tensor") is not isinstance(value, tuple):
            raise NotBuilt(f"program wants a {kind} for {name}, and was given {type(value).__name__}")
    function = _built(source)
    for memory.program in programs:
        views: dict[int, _View] = {}
        given = [_argument(value, views) for value in bound]
        function(ctypes.c_int64(memory.program[0]), *given)
        for view in views.values():
            view.told(memory)


class _View:
    """One region while one program runs: its values as float, and what the program does to it."""

    def __init__(self, region: Region):
        self.region = region
        self.values = None if region.raw is None else np.ascontiguousarray(numbers(region.raw, region.dtype))
        self.places = [np.empty(MOST_ACCESSES, dtype=np.int64) for _ in range(2)]
        self.stored = np.empty(MOST_ACCESSES, dtype=np.float32)
        self.logs = [_Log(0, MOST_ACCESSES, places.ctypes.data, self.stored.ctypes.data) for places in self.places]

    def tensor(self, at: int) -> _Tensor:
        where, extent = (None, 0) if self.values is None else (self.values.ctypes.data, self.values.size)
        return _Tensor(where, extent, at, salt(self.region.name), *map(ctypes.pointer, self.logs))

    def told(self, memory: Memory) -> None:
        """Hand what the program did to the lab's memory, which checks it and puts the stored values where they belong."""
        if max(log.used for log in self.logs) > MOST_ACCESSES:
            raise NotBuilt(f"one program touches {self.region.name} more than {MOST_ACCESSES:,} times: give it a smaller block")
        loads, stores = (places[: log.used] for places, log in zip(self.places, self.logs))
        if loads.size:
            memory.load(self.region, loads, np.ones(loads.shape, dtype=bool), np.dtype(RAW[self.region.dtype]))
        if stores.size:
            values = bits(self.stored[: stores.size], self.region.dtype)
            memory.store(self.region, stores, values, np.ones(stores.shape, dtype=bool))


def _argument(value, views: dict[int, _View]):
    if not isinstance(value, tuple):
        return ctypes.c_int64(value)
    region, at = value
    return views.setdefault(region.number, _View(region)).tensor(at)


def parameters(source: str) -> list[tuple[str, str]]:
    """(type, name) of each parameter of `void program(…)`."""
    found = SIGNATURE.search(source)
    if not found:
        raise NotBuilt("there is no `void program(int64_t pid, …)` in the C++ source")
    pairs = [tuple(" ".join(part.split()).rsplit(" ", 1)) for part in found[1].split(",")]
    if any(len(pair) != 2 or pair[0] not in ("int64_t", "Tensor") for pair in pairs):
        raise NotBuilt(f"each parameter is `int64_t name` or `Tensor name`, by value; there is: {found[1].strip()}")
    return pairs


@lru_cache(maxsize=64)
def _built(source: str):
    """The compiled function `program`; a library is kept in the course's cache under a hash of its source."""
    whole = HEADER + SIGNATURE.sub(lambda found: f"EXPORTED void program({found[1]})", source, count=1)
    return ctypes.CDLL(str(_library(whole))).program


def _library(whole: str) -> Path:
    """The library that this source gives, built where it is not there yet, by torch's own builder: it knows each system's
    compiler. Raises NotBuilt with the compiler's first error."""
    from torch.utils import cpp_extension

    name = f"fuse_{hashlib.sha256(whole.encode()).hexdigest()[:16]}"
    home = paths.cache() / "lab07" / name
    note = home / "built"  # holds the library's path, once it is whole
    if not note.exists():
        folder = home / str(os.getpid())  # its own for each process: nobody waits for a lock of one that was ended
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "program.cpp").write_text(whole, encoding="utf-8")
        flags = [] if os.name == "nt" else ["-O1", "-fwrapv", "-w"]
        try:
            cpp_extension.load(name, [str(folder / "program.cpp")], flags, build_directory=str(folder), is_python_module=False)
        except Exception as error:
            raise NotBuilt(f"the C++ form does not compile: {_said(str(error))}") from None
        library = next(path for path in folder.glob(f"{name}.*") if path.suffix in (".so", ".pyd", ".dll", ".dylib"))
        (folder / "note").write_text(str(library), encoding="utf-8")
        os.replace(folder / "note", note)
    return Path(note.read_text(encoding="utf-8"))


def _said(message: str) -> str:
    """The compiler's first error, without folders."""
    lines = [line for line in message.splitlines() if "error" in line and "FAILED" not in line and "Error building" not in line]
    return re.sub(r"(/[^\s:]*/)([^/\s:]+)", r"\2", (lines or message.splitlines() or ["nothing was said"])[0]).strip()[:200]
