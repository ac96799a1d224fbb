"""The course's reference capturer: torch.cuda.CUDAGraph's interface and rules for tensors on the CPU, every op a recorded call.

Its rules are CUDA's. A capture runs nothing: what it wrote to memory from outside is put back, generators too, and its own
buffers hold NaN until the first replay. A replay reads and writes the addresses of the capture, so that an input has to be copied
in, an output is overwritten by the next replay, and what Python computed is a constant. What is refused ends the capture.
Two things are not as on a GPU: a replay saves no time, and other threads stand for other streams (what they run is not recorded).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import torch

from utils.labs import capture_rules
from utils.labs.capture_calls import NOT_PERMITTED, Call, CaptureError, Readers, Recorder, ours, rerun, same_memory
from utils.measure.seams import tensors_in

made = {"replays": 0}  # in this process; a lab's tests ask whether an answer replayed anything
_active = threading.local()  # .graph: the one that this thread captures


class Graph:
    """A graph of ops on the CPU, captured with `capture(graph)`. Methods as of torch.cuda.CUDAGraph; `calls` names the ops."""

    def __init__(self):
        self._calls: list[Call] | None = None
        self._generators: list[torch.Generator] = []

    @property
    def calls(self) -> tuple[str, ...]:
        """The recorded ops' names in their order, ("aten::add.Tensor", …)."""
        return tuple(call.func.name() for call in self._calls or ())

    def register_generator_state(self, generator: torch.Generator) -> None:
        """Let the capture draw from `generator`, and each replay go on from where it then is. The default one needs no word."""
        self._generators.append(generator)

    def replay(self) -> None:
        """Run the recorded ops again, on the tensors of the capture. CaptureError when there is none."""
        if self._calls is None:
            raise CaptureError("replay() before a capture that succeeded")
        if getattr(_active, "graph", None) is not None:
            raise CaptureError("replay() while a capture runs")
        made["replays"] += 1
        for call in self._calls:
            rerun(call)

    def reset(self) -> None:
        """Forget the capture and let go of its memory; the graph can be captured again."""
        self._calls = None


@ours
def capture(graph: Graph):
    """`with capture(graph): …` records what this thread runs inside. CaptureError, and a graph without a capture, when an op or
    a read-out cannot be recorded; whatever else is raised inside goes on. Either way memory and generators are as before."""
    return _capturing(graph)


@contextlib.contextmanager
def _capturing(graph: Graph) -> Iterator[None]:
    if graph._calls is not None:
        raise CaptureError("this graph is captured already: reset() it, or make a new one")
    if getattr(_active, "graph", None) is not None:
        raise CaptureError("a capture runs in this thread already")
    draws = [torch.default_generator, *graph._generators]
    states = [generator.get_state() for generator in draws]
    calls, memory = [], _Memory()

    def check(func, args, kwargs) -> None:
        why = capture_rules.refusal(func, args, kwargs) or _elsewhere(args, kwargs) or _unknown(kwargs.get("generator"), draws)
        if why:
            raise CaptureError(f"{NOT_PERMITTED}: {why}")
        memory.before(args, kwargs)

    def keep(call: Call) -> None:
        # Aliases are kept: whoever gives a tensor other memory afterwards, by .data, does not change what is replayed.
        calls.append(Call(call.func, _aliases(call.args), _aliases(call.kwargs), _aliases(call.out)))
        if any(t.device.type != "cpu" for t in tensors_in(call.out)):
            raise CaptureError(f"{NOT_PERMITTED}: {call.func} puts its result on another device")
        memory.after(call)

    _active.graph = graph
    try:
        with Readers(capture_rules.read_out), Recorder(check, keep):
            yield
        graph._calls = calls
    finally:
        _active.graph = None
        memory.put_back()
        for generator, state in zip(draws, states):
            generator.set_state(state)


def _aliases(thing):
    """The same nest of lists, tuples and dicts, each tensor in it as another one on the same memory."""
    if isinstance(thing, torch.Tensor):
        return thing.data
    if isinstance(thing, dict):
        return {name: _aliases(part) for name, part in thing.items()}
    return type(thing)(_aliases(part) for part in thing) if type(thing) in (list, tuple) else thing


def _elsewhere(args, kwargs) -> str:
    other = {str(t.device) for t in tensors_in((args, kwargs)) if t.device.type != "cpu"}
    return f"a tensor lies on another device ({', '.join(sorted(other))})" if other else ""


def _unknown(generator: torch.Generator | None, draws: list) -> str:
    if generator is None or any(_same(generator, known) for known in draws):
        return ""
    return "it draws from a generator that the graph does not know: register_generator_state(generator) before the capture"


def _same(one: torch.Generator, other: torch.Generator) -> bool:
    """Whether two objects stand for one generator (an op is handed a new one each time): what changes one changes the other."""
    before, other_before = one.get_state(), other.get_state()
    one.manual_seed(one.initial_seed() ^ 1)
    changed = not torch.equal(other.get_state(), other_before)
    one.set_state(before)
    return changed


class _Memory:
    """What a capture touched: memory from outside with what was in it, and the buffers that it made itself."""

    def __init__(self):
        self._outside: list[tuple[torch.Tensor, torch.Tensor]] = []  # all bytes of it, and a copy of them
        self._made: list[torch.Tensor] = []
        self._known: set[int] = set()  # addresses; whatever lies there is held above, so that none is handed out again

    def before(self, args, kwargs) -> None:
        """Keep a copy of what these arguments lie in, unless the capture made it."""
        for t in tensors_in((args, kwargs)):
            storage = t.untyped_storage()
            if storage.nbytes() and storage.data_ptr() not in self._known:
                whole = torch.empty(0, dtype=torch.uint8).set_(storage)
                self._outside.append((whole, whole.clone()))
                self._known.add(storage.data_ptr())

    def after(self, call: Call) -> None:
        """Note the buffers that this call made."""
        given = tensors_in((call.args, call.kwargs))
        for t in tensors_in(call.out):
            if t.untyped_storage().nbytes() and not any(same_memory(t, g) for g in given):
                self._made.append(t.detach())
                self._known.add(t.untyped_storage().data_ptr())

    def put_back(self) -> None:
        """The outside as it was; nothing in what was made."""
        with torch.no_grad():
            for t in self._made:
                t.data.fill_(_nothing(t.dtype))
            for whole, before in self._outside:
                if not torch.equal(whole, before):
                    whole.copy_(before)


def _nothing(dtype: torch.dtype):
    """What a buffer holds that no replay has filled: NaN, or where a dtype has none the least number."""
    if dtype.is_floating_point or dtype.is_complex:
        return float("nan")
    return False if dtype is torch.bool else torch.iinfo(dtype).min
