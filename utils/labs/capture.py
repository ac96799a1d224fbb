"""Lab 8's door: one graph and one capture for either device, what warms a step up, and the world that the tests need."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import torch

from utils.labs import capture_graph
from utils.labs.capture_calls import NOT_PERMITTED, Call, CaptureError, Tape, TorchDispatchMode, own, right, same_memory
from utils.labs.other_thread import in_another_thread as elsewhere  # a second stream, where there is no GPU
from utils.measure.seams import foreach as on_lists

__all__ = [
    "Call", "CaptureError", "Counted", "Tape", "TorchDispatchMode", "alike", "capture", "captured_once", "elsewhere", "left_on",
    "mode_is_gone", "new_graph", "numbers", "on_lists", "own", "recorded", "replays", "right", "same_memory", "warm_up",
]  # fmt: skip


# ------------------------------------------------------------------------------------------------ either device


def new_graph(device="cpu"):
    """An empty graph for tensors on `device`: a torch.cuda.CUDAGraph, or on the CPU the course's own (capture_graph.Graph)."""
    return torch.cuda.CUDAGraph() if torch.device(device).type == "cuda" else capture_graph.Graph()


def capture(graph):
    """`with capture(graph): …` records what runs inside and computes nothing. CaptureError when it cannot be recorded: the graph
    is empty again then. Any other error of the code inside goes on as it is."""
    return capture_graph.capture(graph) if isinstance(graph, capture_graph.Graph) else _on_cuda(graph)


@contextlib.contextmanager
def _on_cuda(graph) -> Iterator[None]:
    stream = torch.cuda.current_stream()
    try:
        with torch.cuda.graph(graph):
            yield
    except BaseException as error:
        _let_go(graph, stream)
        words = str(error)
        if not isinstance(error, RuntimeError) or isinstance(error, NotImplementedError) or "captur" not in words.lower():
            raise
        raise CaptureError(f"{NOT_PERMITTED}: {words.splitlines()[0]}") from error


def _let_go(graph, stream) -> None:
    """After a capture that failed: torch leaves its stream the current one, and its pool with the graph."""
    torch.cuda.set_stream(stream)
    for step in (graph.reset, torch.cuda.synchronize):
        with contextlib.suppress(RuntimeError):
            step()


def warm_up(step: Callable, *inputs) -> None:
    """Call `step(*inputs)` before it is captured, so that what libraries set up at their first call is not in the graph. On a GPU
    on a stream of its own, waited for both ways; on the CPU there is nothing to set up, and nothing is called."""
    if not any(x.is_cuda for x in inputs):
        return
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step(*inputs)
    torch.cuda.current_stream().wait_stream(side)


# ------------------------------------------------------------------------------------------------ the world of the tests


def numbers(seed: int, *shape: int, dtype=torch.float32) -> torch.Tensor:
    """Normal numbers of that shape, the same for the same seed."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


class Counted:
    """A step that counts its calls: `.calls`."""

    def __init__(self, step: Callable):
        self._step, self.calls = step, 0

    def __call__(self, *inputs):
        self.calls += 1
        return self._step(*inputs)


def alike(got, wanted: torch.Tensor, within: float = 0.0) -> str:
    """How the tensor `got` differs from `wanted` in kind or in numbers, "" when it does not; a NaN is like a NaN."""
    if type(got) is not torch.Tensor:
        return f"a {type(got).__name__}, not a tensor"
    if (got.shape, got.dtype) != (wanted.shape, wanted.dtype):
        return f"shape {tuple(got.shape)} of {got.dtype}; wanted: {tuple(wanted.shape)} of {wanted.dtype}"
    got, wanted = got.detach(), wanted.detach()
    same = torch.isclose(got, wanted, rtol=within, atol=within, equal_nan=True)
    if bool(same.all()):
        return ""
    where = (~same).nonzero()[0].tolist()
    return f"{got[tuple(where)].item()!r} at {where}; wanted: {wanted[tuple(where)].item()!r}"


def captured_once(step: Callable, *inputs) -> Callable:
    """`step` captured with the course's capturer: a function of new inputs that copies them in, replays, and returns clones.

    It keeps `step` alive: a graph knows addresses and keeps nothing, and what the step writes to or reads (tensors of its closure)
    would else be given to others while replays still use it."""
    static, graph = tuple(x.clone() for x in inputs), new_graph(inputs[0].device)
    warm_up(step, *static)
    with capture(graph):
        out = step(*static)

    def run(*new):
        for buffer, x in zip(static, new):
            buffer.copy_(x)
        graph.replay()
        return out.clone()

    run.step = step
    return run


def replays() -> int:
    """How many replays of the course's graphs there were in this process."""
    return capture_graph.made["replays"]


def recorded(record: Callable, step: Callable, inputs: tuple, *, refusal=right.refusal, read_out=right.read_out) -> Tape:
    """What a learner's `record` makes of a step, alone, in a thread of its own: modes that it leaves on end with it."""
    with own("record"):
        return elsewhere(lambda: record(step, inputs, refusal, read_out))


def left_on(record: Callable, step: Callable, inputs: tuple, error: type | None = None) -> str:
    """What is wrong, in words, "" for nothing: a learner's `record` leaves no mode on in its thread, returns a Tape with calls
    or raises an `error` where one is given."""

    def run() -> str:
        try:
            tape = record(step, inputs, right.refusal, right.read_out)
            came = "" if isinstance(tape, Tape) and (tape.calls or error) else f"it returned a {type(tape).__name__}, no calls"
        except NotImplementedError:
            raise
        except Exception as raised:
            came = "" if error and isinstance(raised, error) else f"it raised {type(raised).__name__}: {raised}"
        return came or mode_is_gone()

    with own("record"):
        return elsewhere(run)


def mode_is_gone() -> str:
    """ "" when no mode of a capture is left on in this thread, else what is still refused or seen."""
    x = torch.ones(2)
    try:
        x.sum().item(), x.tolist()
    except Exception as error:
        return f"ops are still watched after the capture: {error}"
    return "" if type(x + x) is torch.Tensor else "results are no plain tensors any more"
