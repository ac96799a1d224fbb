"""A node of a CUDA graph by where its element lies: the same in-place adds at many addresses, their prices side by side.

The add reads and writes one element, and each add waits for the one before, so nothing but the address differs. On an H200 it was
worth an eighth of the price, the same in every process: a GPU's cache is in slices all over the chip, and to some of them the way
from the multiprocessor that runs the node is longer. That it is the way is our reading; that it is the address was measured.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable

from utils.measure.device_clock import MeasurementError
from utils.measure.either_clock import Progress, need, within
from utils.measure.graph_by_hand import Graph
from utils.measure.lanes import LONG, SHORT, node_price
from utils.measure.stopwatch import time_device
from utils.model.readings import Race

SPREAD = 64 << 20  # bytes, over which the places are drawn
STEP = 512  # bytes: where torch's allocator begins a tensor, so that the same kernel runs at every place
MANY, FEW = 16, 6


def places(device: str = "cuda", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """Graphs of 100 and of 1,000 dependent `x.add_(b)` of one element, x at 16 addresses of 64 MiB (6 quick) and in a tensor of
    its own:

    "rows": [{"at_mib" (None: a tensor of its own), "node_ns" (one node more), "right"}], the cheapest first, "race" (ns a
    replay), "numbers": "near", "middle", "far" (ns a node: the least, the median, the most), "spread" (far over near), "wrong",
    "aa_error". About 8 s. MeasurementError without a GPU.
    """
    need(device, "nodes at many addresses")
    if device == "cpu":
        raise MeasurementError("a node's address matters on a GPU, whose cache is in slices: a CPU has no nodes")
    import torch

    b = torch.ones(1, device=device)
    buffer = torch.zeros(SPREAD // 4, device=device)
    at = [STEP // 4 * n for n in random.Random(11).sample(range(SPREAD // STEP), FEW if quick else MANY)]
    where = {"own": torch.zeros(1, device=device)} | {str(4 * i): buffer[i : i + 1] for i in at}
    graphs, right = {}, {}
    for number, (name, x) in enumerate(where.items()):
        if progress:
            progress(0.5 * number / len(where), "capturing")
        graphs[name], right[name] = _made(x, b)
    arms = {f"{name}, {n}": graph.replay for name, pair in graphs.items() for n, graph in pair.items()}
    found = time_device(
        arms, device=device, blocks=15 if quick else 30, at_most_s=4 if quick else 15, progress=within(progress, 0.5, 0.5)
    )
    return {"device": device, **_told(found, right), "race": found, "notes": list(found.notes)}


def _told(found: Race, right: dict[str, bool]) -> dict:
    """ "rows" and "numbers" of a race whose arms are "PLACE, NODES"; a place is "own" or bytes into the buffer."""
    each = {name: node_price(found[f"{name}, {SHORT}"], SHORT, found[f"{name}, {LONG}"], LONG).ns for name in right}
    rows = [
        {"at_mib": None if name == "own" else int(name) / 2**20, "node_ns": each[name], "right": right[name]}
        for name in sorted(each, key=each.get)
    ]
    near, far = min(each.values()), max(each.values())
    return {
        "rows": rows,
        "numbers": {
            "near": near,
            "middle": statistics.median(each.values()),
            "far": far,
            "spread": far / near,
            "wrong": float(sum(not good for good in right.values())),
            "aa_error": found.aa_error,
        },
    }


def _made(x, b) -> tuple[dict[int, Graph], bool]:
    """({nodes: graph}, whether replays gave the sums of as many adds), in whole numbers, so that it is exact."""
    graphs, right = {}, True
    for n in (SHORT, LONG):
        graph, run = Graph("cuda"), _adds(n, x, b)
        with graph.warm_up():
            run()
        with graph.capture():
            run()
        x.zero_()
        for _ in range(3):
            graph.replay()
        right &= float(x) == 3.0 * n
        graphs[n] = graph
    return graphs, right


def _adds(n: int, x, b) -> Callable[[], None]:
    def run() -> None:
        for _ in range(n):
            x.add_(b)

    return run
