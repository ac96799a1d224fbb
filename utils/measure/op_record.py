"""Records the ops of a piece of code on a CPU, with every tensor that they read and write: the list that stands in for a graph.

As under a CUDA graph's capture, no result is there afterwards (results are filled with NaN), what was written to in place is put
back, random numbers have not moved on, and what would have to be read in order to go on is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from utils.measure import seams

# Ops whose result Python reads, or whose size depends on data: while a stream is captured there is no data yet.
REFUSED = ("_local_scalar_dense", "equal", "allclose", "is_nonzero", "item", "nonzero", "masked_select", "_unique2", "unique_dim",
           "_linalg_check_errors")  # fmt: skip
NOTHING = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")  # make memory and put nothing into it


class CaptureRefused(RuntimeError):
    """Something was done that cannot be recorded; the message says what."""


@dataclass(frozen=True)
class Call:
    """One recorded op. `name` is "aten::add.Tensor"; `results` are the static tensors that it fills (none where it writes into
    one of its arguments)."""

    name: str
    args: tuple
    kwargs: dict[str, Any]
    results: tuple

    @property
    def short(self) -> str:
        """The op without namespace and overload: "add"."""
        return self.name.partition("::")[2].partition(".")[0]

    @property
    def written(self) -> list:
        """The arguments that it writes to in place."""
        names, written = _arguments(self.name)
        if not written:
            return []
        given = dict(zip(names, self.args, strict=False)) | self.kwargs
        return [t for name in written for t in seams.tensors_in(given.get(name))]


@dataclass
class Record:
    """What was recorded: the calls that compute, in order, how many only looked at memory that was there, and all tensors."""

    calls: list[Call] = field(default_factory=list)
    views: int = 0
    kept: list = field(default_factory=list)  # every tensor met: the addresses of the calls stay theirs as long as this lives


@contextmanager
def recording() -> Iterator[Record]:
    """Inside, every op is recorded as it runs, without a tape. Raises CaptureRefused, out of the op, for what cannot be."""
    import torch

    record = Record()
    made: dict[int, Any] = {}  # storages that came into being inside
    before: dict[int, tuple] = {}  # address of a storage from outside → (the tensor written to, what it held)

    def each(op: str, run, args: tuple, kwargs: dict):
        short = op.partition("::")[2].partition(".")[0]
        if short in REFUSED or _by_mask(short, args):
            raise CaptureRefused(f"operation not permitted while capturing: {op} needs data that are not there yet")
        given = seams.tensors_in((args, kwargs))
        call = Call(op, tuple(args), dict(kwargs), ())
        written = call.written
        for tensor in written:
            key = _place(tensor)
            if key not in made and key not in before:
                before[key] = tensor, tensor.clone()
        out = run()
        record.kept += [*given, *seams.tensors_in(out)]
        if op.startswith(("prim::", "profiler::")):
            return out
        if written:
            record.calls.append(call)
            return out
        results = tuple(seams.tensors_in(out))
        there = {_place(t) for t in given if t.numel()}  # without elements there is no address to share
        if results and all(_place(t) in there for t in results):
            record.views += 1
            return out
        made.update((_place(t), t) for t in results)
        if short not in NOTHING:
            record.calls.append(Call(op, tuple(args), dict(kwargs), results))
        return out

    random = torch.random.get_rng_state()
    try:
        with torch.no_grad(), seams.watching_calls(each):
            yield record
    finally:
        torch.random.set_rng_state(random)
        for tensor, held in before.values():
            tensor.copy_(held)
        for tensor in made.values():
            if tensor.is_floating_point():
                tensor.fill_(float("nan"))


@cache
def _arguments(name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of an op's arguments, and of those that it writes to."""
    overload = seams.overload_named(name)
    return seams.argument_names(overload), seams.written_arguments(overload)


def ready() -> None:
    """Does what happens at the first recording of a process only: torch's modes import its compiler, which takes seconds."""
    import torch

    with recording():
        torch.zeros(1) + 1


def _place(tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _by_mask(short: str, args: tuple) -> bool:
    """Whether an indexing picks by a mask: the size of what it gives depends on data."""
    import torch

    masks = (torch.bool, torch.uint8)
    return short == "index" and any(t is not None and t.dtype in masks for t in args[1])
