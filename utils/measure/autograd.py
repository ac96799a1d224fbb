"""The instrument of lesson 03, autograd: its rooms under one roof, and the parts of the study that is recorded with them.

What is read: the graph behind a result (`grad_graph`), what ops keep (`saved_tensors`), version counters, inference tensors, what
a compiled region leaves, reference counts. What is counted: bytes (`memory_of_modes`), ops of both passes (`op_counts`),
instructions. What is timed: `grad_prices`. The lesson's cells call the same functions that `record --study autograd` runs.
"""

from __future__ import annotations

from collections.abc import Callable

from utils.measure import (
    compiled_region,
    grad_graph,
    grad_prices,
    handle_counts,
    inference_tensors,
    memory_of_modes,
    op_counts,
    saved_tensors,
    version_counters,
)
from utils.measure.study import Part
from utils.model.readings import Race

Progress = Callable[[float, str], None]


def steps(device: str, progress: Progress | None = None) -> dict[str, Race]:
    """Races of the three modes, a Race a step ("MLP, batch 1")."""
    return grad_prices.mode_races(device, progress=progress)


def chains(device: str, progress: Progress | None = None) -> dict:
    """ "per_op": a Race of one add and one mul more, forward and backward; "start": ns of a backward before its first node."""
    race = grad_prices.chain_race(device, progress=progress)
    return {"per_op": grad_prices.per_op(race), "start": grad_prices.start_of_backward(race)}


def results(device: str, progress: Progress | None = None) -> Race:
    """A Race of the add with its result kept, dropped, and dropped while an older one is kept."""
    return grad_prices.result_race(device, progress=progress)


def memory(device: str, progress: Progress | None = None) -> dict:
    """ "activations" by model and batch, "peaks" by batch and mode, in bytes; "page_faults" by step and mode (the host's)."""
    found = {"activations": memory_of_modes.activations(device), "peaks": memory_of_modes.peaks(device)}
    return {**found, "page_faults": grad_prices.page_faults(device)}


def kept(device: str, progress: Progress | None = None) -> dict:
    """What ops save, by op and by who needs a gradient ("x @ w, both"), and whether relu's is its result."""
    found = {f"{one.op}, {one.needs}": one.to_dict() for one in saved_tensors.cases(device)}
    return {"cases": found, "same_memory": saved_tensors.same_memory(device), "handles": handle_counts.handles(device)}


def rules(device: str, progress: Progress | None = None) -> dict:
    """What raises a version counter, what backward refuses after a change, and where an inference tensor is refused."""
    return {
        "bumps": {one.line: one.by for one in version_counters.bumps(device)},
        "changed": {one.code: one.refused for one in version_counters.changed_before_backward(device)},
        "silently_wrong": version_counters.silently_wrong(device),
        "inference": {one.code: one.refused for one in inference_tensors.cases(device)},
        "inference_node": inference_tensors.node_of_the_add(device),
        "views_tracked": inference_tensors.views_are_tracked(device),
        "accumulator_lives": grad_prices.accumulator_lives(device),
    }


def ops(device: str, progress: Progress | None = None) -> dict:
    """The ops of forward and of backward that compute, and their ratio, by name ("a + b")."""
    found = {}
    for one in op_counts.cases(device):
        forward, backward = len(one.forward.computing), len(one.backward.computing)
        found[one.name] = {"forward": forward, "backward": backward, "ratio": one.ratio, "ops": one.to_dict()}
    return found


def compiled(device: str, progress: Progress | None = None) -> dict:
    """The nodes behind one expression, eager and compiled, with the ops of the graphs that were traced ahead."""
    return compiled_region.compiled_region(device).to_dict()


def instructions(device: str, progress: Progress | None = None) -> dict[str, float]:
    """Instructions of one execution, by statement and mode (this CPU, valgrind)."""
    return grad_prices.instructions(progress)


def saved_by(f: Callable, device: str, numbers: int = 1000) -> dict:
    """What a reader's own function of `x` and `y` keeps, both of `numbers` float32 and needing a gradient: "rows" of (number,
    whose, bytes, place), "bytes" of memory counted once, and the "nodes" behind its result."""
    import torch

    x, y = (torch.randn(numbers, device=device).requires_grad_() for _ in range(2))
    result, saved = saved_tensors.kept(lambda: f(x, y), {"x": x, "y": y})
    places = list(dict.fromkeys(one.place for one in saved))
    rows = [(at, one.what, one.bytes, 1 + places.index(one.place)) for at, one in enumerate(saved, start=1)]
    nodes = [] if result.grad_fn is None else [node.name for node in grad_graph.graph(result, {"x": x, "y": y}).nodes]
    return {"rows": rows, "bytes": saved_tensors.memory(saved), "nodes": nodes}


PARTS = {
    "steps": Part(steps, weight=3.0),
    "chains": Part(chains, weight=1.5),
    "results": Part(results),
    "memory": Part(memory),
    "kept": Part(kept, weight=0.5),
    "rules": Part(rules, weight=0.5),
    "ops": Part(ops, weight=0.5),
    "compiled": Part(compiled),
    "instructions": Part(instructions, devices=("cpu",), weight=6.0),
}
