"""A trace of allocations: every block of memory that a callable took, with its bytes, its first moment and its last.

A moment is the number of an event: an allocation or a freeing, in the order in which they happened. On a CPU the events are those
of torch's profiler (its allocator keeps no statistics); on CUDA they are the allocator's own history, which has the bytes as they
were *requested* (it rounds up to 512), and the profiler only lends the names of the ops. Memory that a library takes past torch's
allocator is in neither.
"""

from __future__ import annotations

import gc
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from utils.measure import seams
from utils.measure.device_clock import MeasurementError
from utils.model import memory_plan
from utils.model.memory_plan import Buffer

# Ops that only make room for another one: the block is named by who asked for it.
MAKES_ROOM = ("empty", "empty_like", "empty_strided", "new_empty", "to", "_to_copy", "copy_", "clone", "resize_", "zeros_like")
ENGINE = "autograd::engine::evaluate_function: "
COMPILED = {"CompiledFunctionBackward": "compiled, backward", "CompiledFxGraph": "compiled code"}  # by their marks
DEVICE_TYPE = {"cpu": 0, "cuda": 1}  # as the profiler's trace numbers them
TAKEN, GIVEN_BACK = ("alloc",), ("free_requested",)  # what the CUDA allocator calls them


@dataclass(frozen=True)
class Taken:
    """One block: `size` bytes from the moment `start` until, and without, the moment `end`. `freed` is False when it outlived the
    trace. `op` is what ran when it was taken, from the outermost op to the innermost ("dropout: mul"); `address` is its place."""

    op: str
    size: int
    start: int
    end: int
    freed: bool
    address: int

    @property
    def kept(self) -> bool:
        return not self.freed


@dataclass(frozen=True)
class Trace:
    """The blocks in the order in which they were taken, and how many moments there were. `freed_before` are bytes that had been
    there before the trace and were given back in it; `source` says in words who was asked."""

    blocks: tuple[Taken, ...]
    moments: int
    source: str
    freed_before: int = 0

    @property
    def sum(self) -> int:
        """Bytes of all blocks: what they would take if none were ever given back."""
        return sum(block.size for block in self.blocks)

    @property
    def peak(self) -> int:
        """The most bytes that were taken at one moment."""
        return memory_plan.peak(self.buffers(), align=1)

    @property
    def kept(self) -> int:
        """Bytes that were still taken at the end."""
        return sum(block.size for block in self.blocks if block.kept)

    def buffers(self) -> list[Buffer]:
        """The blocks for a planner, each named by its number in the trace."""
        return [Buffer(n, block.size, block.start, block.end) for n, block in enumerate(self.blocks)]

    def at_least(self, size: int) -> Trace:
        """Without the blocks under `size` bytes (an op's scalars); the moments stay as they were."""
        return Trace(tuple(b for b in self.blocks if b.size >= size), self.moments, self.source, self.freed_before)

    def to_dict(self) -> dict:
        return {"blocks": [asdict(b) for b in self.blocks], "moments": self.moments, "source": self.source}

    @classmethod
    def from_dict(cls, data: Mapping) -> Trace:
        return cls(tuple(Taken(**b) for b in data["blocks"]), data["moments"], data["source"])


def trace(f: Callable[[], object], device: str = "cpu") -> Trace:
    """Run `f` once and trace what it takes on this device; what it returns is held until the trace has ended.

    Run it once before: a first call takes memory that later ones find (a library's workspace, compiled code). The first trace
    of a process takes up to 3 s, later ones milliseconds. MeasurementError where the profiler does not show allocations."""
    with _no_collection():
        events, source = _profiled(f, device), "torch's profiler"
        own = _history(f) if device == "cuda" else None
    if device == "cuda":
        if own is None:
            source = "torch's profiler; the allocator has rounded the sizes up"
        else:
            events, source = _named(own, events), "the CUDA allocator's history; names by torch's profiler"
    if not events:
        raise MeasurementError("the profiler of this torch shows no allocation")
    return from_events(events, source)


def from_events(events: Iterable[Mapping], source: str) -> Trace:
    """The trace of a list of events in their order, each {"address", "bytes" (below 0: given back), "op"}."""
    blocks: list[Taken] = []
    open_at: dict[int, int] = {}  # address → the place in `blocks` of what lies there now
    moment = before = 0
    for event in events:
        address, size = event["address"], event["bytes"]
        if size > 0:
            if address in open_at:
                raise MeasurementError("two blocks at one address: the trace has lost a freeing")
            open_at[address] = len(blocks)
            blocks.append(Taken(event.get("op", ""), size, moment, -1, False, address))
        elif address in open_at:
            at = open_at.pop(address)
            blocks[at] = Taken(**{**asdict(blocks[at]), "end": moment, "freed": True})
        else:
            before += abs(size)
            continue  # a block from before: not a moment of this trace
        moment += 1
    ended = tuple(b if b.freed else Taken(**{**asdict(b), "end": moment}) for b in blocks)
    return Trace(ended, moment, source, before)


# ------------------------------------------------------------------------------------------------ the profiler's events


@contextmanager
def _no_collection() -> Iterator[None]:
    """Python's collector frees nothing inside: what it found would look as if `f` had given it back."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def quiet_profiler() -> None:
    """Else torch 2.13 writes two lines to stderr for every start; it must be said before the first one."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")


def _profiled(f: Callable[[], object], device: str) -> list[dict]:
    import torch
    from torch.profiler import ProfilerActivity, profile

    quiet_profiler()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as seen:
        kept = f()
        if device == "cuda":
            torch.cuda.synchronize()
    with tempfile.TemporaryDirectory(prefix="one-add-memory-") as folder:
        file = Path(folder) / "trace.json"
        seen.export_chrome_trace(str(file))
        found = json.loads(file.read_text(encoding="utf-8"))["traceEvents"]
    del kept
    return memory_events(found, DEVICE_TYPE[device])


def memory_events(found: Iterable[Mapping], device_type: int) -> list[dict]:
    """The allocations in a chrome trace of the profiler, in order, each with the op that ran on its thread."""
    found = list(found)
    ops: dict[object, list] = {}
    for e in found:
        if e.get("ph") == "X" and e.get("cat") == "cpu_op":
            ops.setdefault(e["tid"], []).append((float(e["ts"]), float(e["ts"]) + float(e["dur"]), e["name"]))
    out = []
    for e in found:
        if e.get("name") == "[memory]" and e["args"].get("Device Type") == device_type:
            ts = float(e["ts"])
            around = sorted(op for op in ops.get(e["tid"], ()) if op[0] <= ts <= op[1])
            out.append((ts, {"address": int(e["args"]["Addr"]), "bytes": int(e["args"]["Bytes"]), "op": _name(around)}))
    return [event for _, event in sorted(out, key=lambda pair: pair[0])]


def _name(around: list[tuple]) -> str:
    """ "dropout: mul" for a multiplication inside dropout; the op alone where it is the only one."""
    whole = " ".join(name for _, _, name in around)
    for mark, words in COMPILED.items():
        if mark in whole:
            return words
    names = [name.removeprefix(ENGINE).removeprefix("aten::").removeprefix("torch::autograd::") for _, _, name in around]
    while len(names) > 1 and names[-1] in MAKES_ROOM:
        names.pop()
    if not names:
        return "Python"
    return names[0] if names[0] == names[-1] else f"{names[0]}: {names[-1]}"


# ------------------------------------------------------------------------------------------------ the CUDA allocator's


def _history(f: Callable[[], object]) -> list[dict] | None:
    """The same from the CUDA allocator, with the bytes that were requested; None where this torch keeps no history."""
    import torch

    if not seams.has_memory_history():
        return None
    torch.cuda.synchronize()
    seams.memory_history(True)
    try:
        kept = f()
        torch.cuda.synchronize()
        entries = seams.allocator_events(torch.cuda.current_device())
    finally:
        seams.memory_history(False)
    del kept
    return history_events(entries)


def history_events(entries: Iterable[Mapping]) -> list[dict]:
    """The allocations and freeings among the allocator's entries, in its order (segments and snapshots are none)."""
    out = []
    for entry in entries:
        sign = 1 if entry.get("action") in TAKEN else -1 if entry.get("action") in GIVEN_BACK else 0
        if sign and entry["size"]:
            out.append({"address": int(entry["addr"]), "bytes": sign * int(entry["size"]), "op": ""})
    return out


def _named(own: list[dict], profiled: list[dict]) -> list[dict]:
    """The allocator's events with the ops of the profiler's, where both runs took as many blocks in the same order."""
    names = [event["op"] for event in profiled if event["bytes"] > 0]
    taken = [event for event in own if event["bytes"] > 0]
    if len(names) != len(taken):
        return own
    for event, name in zip(taken, names, strict=True):
        event["op"] = name
    return own
