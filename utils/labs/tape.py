"""Lab 4's world: tensors, version counters, nodes and gradients by PyTorch's names, with nothing in them that records or walks.

What reads and fills them is the learner's. The graphs here are for the walk alone: a node multiplies by numbers that were chosen
with it and keeps a list of what ran, so that the gradients wanted are known without a walk, by going through the nodes forwards.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable

import numpy as np

RUNS_AT_MOST = 50  # times the nodes of a graph; a walk that follows every path would never end on some graphs


class VersionCounter:
    """Counts the in-place changes of one piece of memory. Tensors that share the memory share the counter."""

    def __init__(self):
        self.current_version = 0

    def bump(self) -> None:
        """One change more."""
        self.current_version += 1


class Tensor:
    """An array of float64 with what autograd keeps beside it: `data` is the NumPy array itself, never a copy of it.

    requires_grad, grad_fn (a Node, or None), grad (an array, or None), grad_accumulator (an AccumulateGrad, or None),
    version_counter, and `_base`, the tensor that a view is a view of (None when it is none).
    """

    def __init__(self, data, requires_grad: bool = False, version_counter: VersionCounter | None = None, base=None):
        self.data = np.asarray(data, dtype=np.float64)
        self.requires_grad = requires_grad
        self.grad_fn = None
        self.grad = None
        self.grad_accumulator = None
        self.version_counter = VersionCounter() if version_counter is None else version_counter
        self._base = base

    @property
    def is_leaf(self) -> bool:
        """True when no recorded op computed it."""
        return self.grad_fn is None

    @property
    def _version(self) -> int:
        return self.version_counter.current_version

    def __repr__(self) -> str:
        return f"Tensor({self.data.tolist()}, requires_grad={self.requires_grad}, version {self._version})"


class Grad:
    """A gradient on its way: all that a walk may do with one is add another. `a + b` is a new one; `a += b` changes `a`."""

    def __init__(self, value):
        self.value = value

    def __add__(self, other: Grad) -> Grad:
        return Grad(self.value + _grad(other).value)

    def __iadd__(self, other: Grad) -> Grad:
        self.value = self.value + _grad(other).value
        return self

    def __repr__(self) -> str:
        return f"Grad({self.value!r})"


class Node:
    """One recorded op. `next_functions` are its edges: for each input a pair (node, 0), or (None, 0) when it needs no gradient.

    The 0 says which output of that node; the ops here have one each. `apply(grad)` takes the Grad of the op's result and returns
    a tuple with one Grad for each edge, None where the edge leads nowhere.
    """

    def __init__(self, name: str, next_functions: tuple = ()):
        self.name = name
        self.next_functions = next_functions
        self.formula: Callable[[Grad], tuple] | None = None

    def apply(self, grad: Grad) -> tuple:
        """Run the node. Raises TypeError unless `grad` is one Grad."""
        if self.formula is None:
            raise RuntimeError(f"{self.name} was made without a formula: it can be looked at and not run")
        return self.formula(_grad(grad))

    def __repr__(self) -> str:
        return f"<{self.name}>"


class AccumulateGrad(Node):
    """Where a gradient ends: the node of the leaf `variable`. Its `apply` adds to what the leaf has and returns ()."""

    def __init__(self, variable: Tensor):
        super().__init__("AccumulateGrad")
        self.variable = variable


class GradMode:
    """Whether ops are recorded: `enabled` is True or False. PyTorch has one for each thread."""

    def __init__(self, enabled: bool = True):
        self.enabled = enabled


def _grad(value) -> Grad:
    if type(value) is not Grad:
        raise TypeError(f"a gradient here is a Grad, not a {type(value).__name__}")
    return value


def numbers(got):
    """An array as nested lists, so that `strict` compares its numbers. Whatever is no plain NumPy array comes back as it is."""
    return got.tolist() if type(got) is np.ndarray else got


def tensors(*shapes: tuple[int, int], seed: int, needs: tuple[bool, ...] | None = None) -> tuple[Tensor, ...]:
    """Tensors of random whole numbers from -9 to 9, 0 left out, of the given shapes. `needs` are their requires_grad."""
    rng = np.random.default_rng(seed)
    needs = (False,) * len(shapes) if needs is None else needs
    arrays = (rng.integers(1, 10, shape) * rng.choice([-1.0, 1.0], shape) for shape in shapes)
    return tuple(Tensor(array, need) for array, need in zip(arrays, needs))


def nested(call: Callable[[], object]) -> int:
    """How many calls of Python functions were open at once, at most, while `call()` ran. What it raises goes on.

    A walk by recursion opens one for each node on its way down, whatever limit it has set for itself.
    """
    now = most = 0

    def watch(_frame, event: str, _argument) -> None:
        nonlocal now, most
        now += {"call": 1, "return": -1}.get(event, 0)
        most = max(most, now)

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(before)
    return most


# ------------------------------------------------------------------------------------------------ graphs to walk


class Graph:
    """A graph built by hand or by `random_graph`: nodes with known derivatives, and a list of what ran.

        g = Graph()
        x = g.leaf("x")
        square = g.node("MulBackward0", (x, 3.0), (x, 3.0))

    `node(name, (input, derivative), …)`; None stands for an input that needs no gradient. A derivative of 1.0 hands the very
    gradient that came in on to that input, as the node of an add does in PyTorch.
    """

    def __init__(self):
        self.nodes: list[Node] = []  # inputs before what uses them
        self.ran: list[Node] = []
        self._derivatives: dict[Node, tuple] = {}
        self._arrived: dict[Node, float] = {}

    def leaf(self, name: str) -> AccumulateGrad:
        """The node of a new leaf; `grads()` tells its gradient by `name`."""
        node = AccumulateGrad(Tensor(0.0, requires_grad=True))
        node.name = name
        node.formula = lambda grad: self._arrive(node, grad)
        self.nodes.append(node)
        return node

    def node(self, name: str, *inputs: tuple[Node, float] | None) -> Node:
        """A new node with an edge for each of `inputs`."""
        derivatives = tuple(None if one is None else float(one[1]) for one in inputs)
        node = Node(name, tuple((None, 0) if one is None else (one[0], 0) for one in inputs))
        node.formula = lambda grad: self._run(node, grad)
        self._derivatives[node] = derivatives
        self.nodes.append(node)
        return node

    @property
    def root(self) -> Node:
        """The node made last."""
        return self.nodes[-1]

    def grads(self) -> dict[str, float | None]:
        """By leaf, the sum of what arrived there; None where nothing did."""
        return {node.name: self._arrived.get(node) for node in self.nodes if type(node) is AccumulateGrad}

    def wanted(self, seed: float = 1.0) -> dict[str, float | None]:
        """By leaf, the gradient of the root, by pushing the leaf's own change forwards through all nodes."""
        reached = self._reached()
        leaves = [node for node in self.nodes if type(node) is AccumulateGrad]
        return {leaf.name: seed * self._forwards(leaf) if leaf in reached else None for leaf in leaves}

    def runs(self) -> dict[str, int]:
        """By name, how often nodes of that name ran that the root reaches."""
        ran, out = Counter(self.ran), Counter()
        for node in self._reached():
            out[node.name] += ran[node]
        return dict(out)

    def once(self) -> dict[str, int]:
        """What `runs()` is when each of them ran once."""
        return dict(Counter(node.name for node in self._reached()))

    def too_early(self) -> list[str]:
        """Names of nodes that ran before a node which uses them had, or that never ran."""
        first = {node: i for i, node in reversed(list(enumerate(self.ran)))}
        early = {node.name for node in self._reached() if node not in first}
        for node in first:
            early |= {n.name for n, _ in node.next_functions if n in first and first[n] < first[node]}
        return sorted(early)

    def _reached(self) -> set[Node]:
        found = {self.root}
        for node in reversed(self.nodes):
            if node in found:
                found.update(n for n, _ in node.next_functions if n is not None)
        return found

    def _forwards(self, leaf: Node) -> float:
        change = {leaf: 1.0}
        for node in self.nodes:
            if node is not leaf:
                edges = zip(node.next_functions, self._derivatives.get(node, ()))
                change[node] = sum((change[n] * d for (n, _), d in edges if n is not None), 0.0)
        return change[self.root]

    def _run(self, node: Node, grad: Grad) -> tuple:
        self._count(node)
        return tuple(None if d is None else grad if d == 1.0 else Grad(grad.value * d) for d in self._derivatives[node])

    def _arrive(self, leaf: Node, grad: Grad) -> tuple:
        self._count(leaf)
        self._arrived[leaf] = self._arrived.get(leaf, 0.0) + grad.value
        return ()

    def _count(self, node: Node) -> None:
        self.ran.append(node)
        if len(self.ran) > RUNS_AT_MOST * len(self.nodes):
            raise AssertionError(f"{len(self.nodes)} nodes ran {len(self.ran):,} times, and no end: is every path walked anew?")


def random_graph(seed: int, nodes: int = 12, *, tree: bool = False) -> Graph:
    """A graph of 4 leaves and `nodes` further nodes, its derivatives 2, 3 and 5.

    In a tree no node is used twice; else a node may be, and may be twice by the same node.
    """
    rng = random.Random(f"lab 4 {seed}")
    graph = Graph()
    unused: list[Node] = [graph.leaf(name) for name in "wxyz"]
    for i in range(nodes):
        inputs = [_taken(rng, unused)]
        if unused and (rng.random() < 0.7 or i == nodes - 1):
            inputs.append(_taken(rng, unused))
        if not tree:
            inputs += rng.sample(graph.nodes, rng.choice([0, 0, 1]))
            inputs += inputs[:1] if rng.random() < 0.2 else []
        edges = [(node, rng.choice([2.0, 3.0, 5.0])) for node in inputs]
        edges += [None] * rng.choice([0, 0, 1])
        rng.shuffle(edges)
        made = graph.node(f"node {i}", *edges)
        unused.append(made)
        if not unused[:-1] and tree and i < nodes - 1:
            unused.append(graph.leaf(f"leaf {i}"))
    return graph


def _taken(rng: random.Random, unused: list[Node]) -> Node:
    return unused.pop(rng.randrange(len(unused)))


def chain(length: int) -> Graph:
    """A leaf and `length` nodes above it, one on the other."""
    graph = Graph()
    node = graph.leaf("x")
    for _ in range(length):
        node = graph.node("MulBackward0", (node, -1.0))
    return graph


def ladder(rungs: int) -> Graph:
    """A leaf and `rungs` nodes above it, each of which uses the one below twice: 2 to the power of `rungs` paths."""
    graph = Graph()
    node = graph.leaf("x")
    for i in range(rungs):
        node = graph.node(f"rung {i}", (node, 2.0), (node, -3.0))
    return graph
