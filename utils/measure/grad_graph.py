"""Walks the graph behind a result by `grad_fn` and `next_functions`: its nodes, what each holds, and where gradients go.

Nothing is run and nothing is changed: the graph stands when forward has returned, and this room reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

ACCUMULATOR = "AccumulateGrad"


@dataclass(frozen=True)
class GraphNode:
    """One node. `edges` are (number of the node that gets a gradient, the number of that node's input), None for an input that
    needs none; `saved` what it keeps, as (name, words); `leaf` the tensor an accumulator adds into, "" for others."""

    number: int
    name: str
    edges: tuple[tuple[int, int] | None, ...]
    saved: tuple[tuple[str, str], ...]
    leaf: str = ""

    @property
    def is_accumulator(self) -> bool:
        return self.name.endswith(ACCUMULATOR)

    @property
    def saved_tensors(self) -> tuple[str, ...]:
        """The names under which it keeps tensors."""
        return tuple(name for name, what in self.saved if what.startswith("tensor"))

    def to_dict(self) -> dict:
        edges = [None if edge is None else list(edge) for edge in self.edges]
        return {"number": self.number, "name": self.name, "leaf": self.leaf, "edges": edges, "saved": dict(self.saved)}


@dataclass(frozen=True)
class Graph:
    """The nodes from a result down to the leaves, the result's own node first, each after a node that leads to it."""

    expression: str
    nodes: tuple[GraphNode, ...]

    def depths(self) -> dict[int, int]:
        """How many edges the longest way from the result's node to each node has: the row that a drawing puts it in."""
        found = {node.number: 0 for node in self.nodes}
        for _ in self.nodes:  # a path visits no node twice, so this many rounds settle it
            for node in self.nodes:
                for edge in node.edges:
                    if edge is not None:
                        found[edge[0]] = max(found[edge[0]], found[node.number] + 1)
        return found

    @property
    def accumulators(self) -> tuple[GraphNode, ...]:
        return tuple(node for node in self.nodes if node.is_accumulator)

    @property
    def inner(self) -> tuple[GraphNode, ...]:
        """The nodes that stand for ops."""
        return tuple(node for node in self.nodes if not node.is_accumulator)

    def to_dict(self) -> dict:
        return {"expression": self.expression, "nodes": [node.to_dict() for node in self.nodes]}


def graph(result, leaves: Mapping[str, object] | None = None, expression: str = "") -> Graph:
    """The graph behind `result`; `leaves` names the tensors at its ends. Raises ValueError for a result without a graph."""
    if result.grad_fn is None:
        raise ValueError("this tensor has no grad_fn: no input of its op needed a gradient, or recording was off")
    found, numbers, waiting = [], {result.grad_fn: 0}, [result.grad_fn]
    while waiting:
        node = waiting.pop(0)
        edges = []
        for after, which in node.next_functions:
            if after is None:
                edges.append(None)
                continue
            if after not in numbers:
                numbers[after] = len(numbers)
                waiting.append(after)
            edges.append((numbers[after], which))
        found.append(
            GraphNode(numbers[node], node.name().rpartition("::")[2], tuple(edges), _saved(node), _leaf(node, leaves or {}))
        )
    return Graph(expression, tuple(found))


def _leaf(node, leaves: Mapping[str, object]) -> str:
    variable = getattr(node, "variable", None)
    if variable is None:
        return ""
    return next((name for name, tensor in leaves.items() if tensor is variable), "a tensor without a name")


def _saved(node) -> tuple[tuple[str, str], ...]:
    from utils.measure.seams import saved_attributes

    return tuple((name, _words(value)) for name, value in saved_attributes(node).items())


def _words(value) -> str:
    import torch

    if isinstance(value, torch.Tensor):
        return f"tensor {'×'.join(map(str, value.shape)) or 'of one number'}"
    return "nothing" if value is None else str(value)
