"""A capturer in three steps: record the ops of a step as calls on static buffers, run one call again, replay them all.

`right` holds the finished steps, which the tests of later exercises hand in; `own` locks one while a learner's is asked.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch.overrides import TorchFunctionMode

from utils.labs import capture_rules
from utils.measure import seams
from utils.measure.seams import tensors_in

TorchDispatchMode: type = seams.dispatch_mode()
NOT_PERMITTED = "operation not permitted while capturing"  # CUDA's words


class CaptureError(RuntimeError):
    """What a step does cannot be captured; the message says why."""


class Borrowed(AssertionError):
    """A learner's function called the very part of the course's that it was to be."""


@dataclass
class Call:
    """One op as it was recorded: `func(*args, **kwargs)` gave `out`. All tensors are held, so no address is handed out again."""

    func: Callable
    args: tuple
    kwargs: dict
    out: object


@dataclass
class Tape:
    """What a capture leaves: the static `inputs` (a tuple of tensors), the `calls` in their order, and `outputs`, what the step
    returned, as it returned it."""

    inputs: tuple
    calls: list[Call]
    outputs: object


# ------------------------------------------------------------------------------------------------ whose part it is

_locked: set[str] = set()


@contextlib.contextmanager
def own(part: str) -> Iterator[None]:
    """While open, the course's own `part`, and its whole capturer, raise Borrowed: a learner's answer stands alone."""
    names = {part, "capture"} - _locked
    _locked.update(names)
    try:
        yield
    finally:
        _locked.difference_update(names)


def ours(function):
    """A part of the course's that can be locked, by its name."""

    @functools.wraps(function)
    def asked(*args, **kwargs):
        if function.__name__ in _locked:
            raise Borrowed(f"{function.__name__} of the course was called; yours is asked for")
        return function(*args, **kwargs)

    return asked


# ------------------------------------------------------------------------------------------------ the steps


class Recorder(TorchDispatchMode):
    """Runs every op of this thread, below autograd, and hands it on: before as `check(func, args, kwargs)`, after as a Call."""

    def __init__(self, check: Callable, keep: Callable):
        super().__init__()
        self._check, self._keep = check, keep

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        self._check(func, args, kwargs)
        out = func(*args, **kwargs)
        self._keep(Call(func, args, kwargs, out))
        return out


class Readers(TorchFunctionMode):
    """Refuses read-outs that are no op, by `read_out(func)`."""

    def __init__(self, read_out: Callable):
        super().__init__()
        self._read_out = read_out

    def __torch_function__(self, func, types, args=(), kwargs=None):
        why = self._read_out(func)
        if why:
            raise CaptureError(f"{NOT_PERMITTED}: {why}")
        return func(*args, **(kwargs or {}))


def _refuse(refusal: Callable) -> Callable:
    def check(func, args, kwargs) -> None:
        why = refusal(func, args)
        if why:
            raise CaptureError(f"{NOT_PERMITTED}: {why}")

    return check


@ours
def record(step: Callable, inputs: tuple, refusal: Callable, read_out: Callable) -> Tape:
    """`step(*inputs)` run once on static copies of the inputs, each op recorded. CaptureError with what a rule says."""
    static = tuple(x.detach().clone().requires_grad_(x.requires_grad) for x in inputs)
    calls: list[Call] = []
    with Readers(read_out), Recorder(_refuse(refusal), calls.append):
        outputs = step(*static)
    return Tape(static, calls, outputs)


@ours
def rerun(call: Call) -> None:
    """The op once more on the tensors it was recorded with; its numbers go into the recorded results. To copy a view of an
    argument onto itself changes nothing."""
    with torch.no_grad():
        new = call.func(*call.args, **call.kwargs)
        for buffer, value in zip(tensors_in(call.out), tensors_in(new)):
            buffer.copy_(value)


@ours
def replay(tape: Tape, inputs: tuple, rerun: Callable):
    """Copy `inputs` into the static ones, run the calls again, return the outputs, the same tensors every time. ValueError,
    with nothing changed, when number, shape, dtype or device of the inputs differ from those of the capture."""
    kinds = [[(x.shape, x.dtype, x.device) for x in some] for some in (inputs, tape.inputs)]
    if kinds[0] != kinds[1]:
        raise ValueError(f"captured for {kinds[1]}, called with {kinds[0]}")
    with torch.no_grad():
        for static, x in zip(tape.inputs, inputs):
            static.copy_(x)
    for call in tape.calls:
        rerun(call)
    return tape.outputs


def same_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether the memory behind two tensors is the same or overlaps; views share it, and so do arrays that NumPy lent."""
    (one, one_end), (other, other_end) = _memory(a), _memory(b)
    return one < other_end and other < one_end


def _memory(t: torch.Tensor) -> tuple[int, int]:
    storage = t.untyped_storage()
    return storage.data_ptr(), storage.data_ptr() + storage.nbytes()


@dataclass(frozen=True)
class Parts:
    """The finished functions of part two, each as its exercise says."""

    refusal: Callable
    read_out: Callable
    record: Callable
    rerun: Callable
    replay: Callable


right = Parts(ours(capture_rules.refusal), ours(capture_rules.read_out), record, rerun, replay)
