"""A graph captured by hand: a CUDA graph on a GPU, and on a CPU a recorded list of ops under the very same rules.

    graph = Graph(device)
    with graph.warm_up():
        f(x)
    with graph.capture():
        y = f(x)
    x.copy_(new)
    graph.replay()

The rules: addresses are static (x stays where it is, new values are copied in) and a graph keeps nothing alive there, a replay
overwrites y, shapes stay, nothing that the host must read is allowed inside, and no tape is written. y holds nothing before the
first replay.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from utils.measure import op_record, op_replay, seams
from utils.measure.device_clock import MeasurementError
from utils.measure.either_clock import need

CUDA, BAKED, PYTHON = "CUDA graph", "baked kernels, C++", "recorded calls, Python"
WARM_UPS = 3


class Graph:
    """What one capture made, on `device` ("cpu" or "cuda").

    `by` says what it is (CUDA, BAKED, PYTHON), `why` what stood in the way of better, `nodes` how many ops (on CUDA: nodes) a
    replay runs, None where that is not told; `calls` the names of recorded ops and `baked` how many of them are baked (CPU);
    `capture_s` the seconds that capturing took. by=PYTHON replays from Python although there is a compiler (CPU).
    MeasurementError for "cuda" without a GPU.
    """

    def __init__(self, device: str = "cpu", by: str = ""):
        need(device, "a graph")
        if by not in ("", PYTHON, BAKED):
            raise ValueError(f"by is {PYTHON!r}, {BAKED!r} or empty, not {by!r}")
        self.device, self.by, self.why = device, "", ""
        self.nodes: int | None = None
        self.calls: tuple[str, ...] = ()
        self.baked: int | None = None
        self.capture_s, self.replays = 0.0, 0
        self.record: op_record.Record | None = None  # CPU: what was recorded
        self.handle: Any = None  # CUDA: torch's own graph
        self._replay, self._began = None, False
        if device == "cpu":  # asked here, so that what is compiled once is in no capture's seconds
            self.why = "asked for" if by == PYTHON else op_replay.why_not()
            if by == BAKED and self.why:
                raise MeasurementError(self.why)
            op_record.ready()

    @contextmanager
    def warm_up(self) -> Iterator[None]:
        """Inside, code runs as it will be captured: on CUDA on a stream at the side, which waits for the current one and is
        waited for. Whatever happens only once (workspaces, lazy loading, tuning) must have happened before a capture."""
        import torch

        with torch.no_grad():
            if self.device == "cpu":
                yield
                return
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                yield
            torch.cuda.current_stream().wait_stream(side)
            torch.cuda.synchronize()

    @contextmanager
    def capture(self) -> Iterator[None]:
        """Inside, ops are recorded, not run for their values. An error inside leaves this graph of no use, and is raised.

        RuntimeError for a second capture."""
        if self._began:
            raise RuntimeError("this graph was captured before: make a new Graph")
        self._began = True
        start = time.perf_counter()
        with self._on_cuda() if self.device == "cuda" else self._on_cpu():
            yield
        self.capture_s = time.perf_counter() - start

    @contextmanager
    def _on_cpu(self) -> Iterator[None]:
        with op_record.recording() as record:
            yield
        self.record = record
        self.nodes, self.calls = len(record.calls), tuple(call.short for call in record.calls)
        self.by = PYTHON if self.why else BAKED
        self._replay = (op_replay.PythonReplay if self.why else op_replay.Replay)(record.calls)
        self.baked = self._replay.ways.count(op_replay.BAKED)

    @contextmanager
    def _on_cuda(self) -> Iterator[None]:
        import torch

        self.handle = seams.cuda_graph()
        try:
            with torch.no_grad(), torch.cuda.graph(self.handle):
                yield
        except BaseException:
            self._leave()
            raise
        self.by, self._replay = CUDA, self.handle.replay
        self.nodes = seams.cuda_graph_nodes(self.handle)

    def _leave(self) -> None:
        """After a failed capture: the graph is let go, and what CUDA still holds against the stream is read and dropped."""
        import torch

        for clean in (self.handle.reset, torch.cuda.synchronize):
            try:
                clean()
            except RuntimeError:
                pass  # the error that matters is the one that ended the capture

    def replay(self) -> None:
        """Runs everything that was captured, on what lies at the static addresses now. RuntimeError without a capture."""
        if self._replay is None:
            raise RuntimeError("nothing was captured: there is no graph to replay")
        self.replays += 1
        self._replay()


class Captured:
    """A function captured with its inputs: call it with new ones, which are copied in, and it gives the static outputs.

    `graph` is the Graph, `inputs` the static inputs, `outputs` what the function gave, `seconds` warm-up and capture together,
    `function` the function: a graph knows addresses and keeps nothing alive, so the tensors that f brings along must be kept.
    """

    def __init__(self, graph: Graph, inputs: tuple, outputs: Any, seconds: float, function: Callable | None = None):
        self.graph, self.inputs, self.outputs, self.seconds, self.function = graph, inputs, outputs, seconds, function

    def replay(self) -> None:
        self.graph.replay()

    def __call__(self, *new) -> Any:
        """Raises ValueError for inputs of another number, shape or dtype: what was captured fits no other."""
        if len(new) != len(self.inputs):
            raise ValueError(f"captured with {len(self.inputs)} inputs, called with {len(new)}")
        for static, given in zip(self.inputs, new, strict=True):
            if static.shape != given.shape or static.dtype != given.dtype:
                raise ValueError(
                    f"captured for {tuple(static.shape)} {static.dtype}, called with {tuple(given.shape)} {given.dtype}"
                )
            static.copy_(given)
        self.graph.replay()
        return self.outputs


def captured(f: Callable, *inputs, by: str = "") -> Captured:
    """f captured on clones of the inputs (tensors of one device), after three warm-up runs. As `Graph` for `by` and errors."""
    graph = Graph(inputs[0].device.type, by)
    start = time.perf_counter()
    static = tuple(t.detach().clone() for t in inputs)
    with graph.warm_up():
        for _ in range(WARM_UPS):
            f(*static)
    with graph.capture():
        outputs = f(*static)
    return Captured(graph, static, outputs, time.perf_counter() - start, f)
