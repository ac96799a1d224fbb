"""The two lanes of one small `a + b` on a GPU: what the host pays, what the device takes, how long it waits, and captured.

CUDA only. All prices come as Readings (ns) in a dict, so that they go into `Receipt.device_time` and into recordings.
"""

from __future__ import annotations

from collections.abc import Callable

from utils.measure.cuda_queue import CudaQueue
from utils.measure.stopwatch import QUEUE_CALLS, calibrate, interleave, time_device, time_host
from utils.model.readings import Reading

SHORT, LONG = 100, 1000  # nodes of the two graphs whose difference is the price of a node
Progress = Callable[[float, str], None]


def lanes(device: str = "cuda", *, blocks: int = 40, progress: Progress | None = None) -> dict[str, Reading]:
    """Prices of one-element float32 `a + b`, ns:

    "host"              the host, a call (empty loop taken off), the queue kept short
    "kernel"            the device, a call, when the queue never runs dry: the kernel and the step to the next one
    "period"            the device, a call, in a loop that launches as fast as the host can
    "gap"               period minus kernel: how long the device waits for the host in such a loop (0 when it never does)
    "captured per node" a node more in a graph of dependent adds (1,000 nodes minus 100, over 900)
    "captured of 100"   the device, a node, when a graph of 100 is replayed: the graph's fixed part is in it
    "replay host"       the host, for one replay of a graph of 100 nodes

    Raises MeasurementError without CUDA or when a variant fails. About 10 s on a GPU.
    """
    import torch

    queue = CudaQueue(device)  # first of all, so that a machine without CUDA is told so
    report = progress or (lambda done, text: None)
    with queue.active():
        a, b = (torch.randn(1, device=device) for _ in range(2))
        report(0.0, "host lane")
        host = time_host({"host": lambda: a + b}, device=device, blocks=blocks, remove_loop=True)["host"]
        report(0.3, "device lane")
        kernel = time_device({"kernel": lambda: a + b}, device=device, blocks=blocks)["kernel"]
        period = _period(lambda: a + b, queue, blocks)
        report(0.5, "capturing")
        (short, _kept_short), (long, _kept_long) = _chain(a, b, SHORT), _chain(a, b, LONG)
        report(0.6, "captured")
        race = time_device({"short": short.replay, "long": long.replay}, device=device, blocks=blocks)
        replay = time_host({"replay host": short.replay}, device=device, blocks=blocks, remove_loop=True)["replay host"]
    report(1.0, "lanes measured")
    return {
        "host": host,
        "kernel": kernel,
        "period": period,
        "gap": Reading("gap", tuple(max(0.0, s - kernel.ns) for s in period.samples)),
        "captured per node": node_price(race["short"], SHORT, race["long"], LONG),
        "captured of 100": Reading(
            "captured of 100", race["short"].scaled(1 / SHORT).samples, race["short"].calls_per_block * SHORT
        ),
        "replay host": replay,
    }


def node_price(short: Reading, few: int, long: Reading, many: int) -> Reading:
    """The slope: what one node more costs, block by block, from a graph of `few` nodes and one of `many` (ns).

    The fixed part of a replay is in both and cancels. ValueError unless many > few and the block counts agree.
    """
    if many <= few or len(short.samples) != len(long.samples):
        raise ValueError(f"no slope from {few} and {many} nodes with {len(short.samples)} and {len(long.samples)} blocks")
    slopes = ((high - low) / (many - few) for low, high in zip(short.samples, long.samples, strict=True))
    return Reading("captured per node", tuple(slopes), long.calls_per_block * (many - few))


def _period(f: Callable, queue: CudaQueue, blocks: int) -> Reading:
    """Device time a call with nothing holding the queue: the events see the host's pace where the host is the slower one."""

    def arm(n: int) -> float:
        start, stop = queue.event(), queue.event()
        kept = None
        queue.synchronize()
        f()  # so that the first event does not sit in an idle queue
        start.record()
        for _ in range(n):
            kept = f()
        stop.record()
        queue.synchronize()
        del kept
        return start.elapsed_ms(stop) * 1e-3

    calls = {"period": calibrate("period", arm, 2e-3, QUEUE_CALLS)}
    return interleave({"period": arm}, blocks=blocks, calls=calls, stretches=1)["period"]


def _chain(a, b, nodes: int):
    """(graph, result) of `nodes` adds, each waiting for the one before. The result must be kept as long as it is replayed."""
    import torch

    def chain():
        c = a + b
        for _ in range(nodes - 1):
            c = c + b
        return c

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        chain()  # whatever happens only once must not happen under capture
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = chain()
    torch.cuda.synchronize()
    return graph, result
