"""Lab 4's yardsticks: gradients of single ops and of random expressions, each by a way that is no tape, and by torch.autograd.

The first way is the complex step: f(x + ih) has h times the derivative of f in its imaginary part, exact to the last digit and
with no formula for any derivative. torch is imported where it is asked and not before: most of the lab is graded without it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from utils.labs.tape import AccumulateGrad, Grad, Node, Tensor

STEP = 1e-30  # of the complex step; its square is lost beside 1.0
SIDE = 3  # rows and columns of every array in an expression

OPS: dict[str, Callable] = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "mm": lambda a, b: a @ b,
    "relu": lambda a: np.where(a.real > 0, a, 0.0),
    "tanh": lambda a: np.tanh(a),
}
NODES = {op: f"{op.capitalize()}Backward0" for op in OPS}


def gradient(op: str, arrays: tuple[np.ndarray, ...], grad: np.ndarray, which: int) -> np.ndarray:
    """The gradient of input `which` of `op`, when `grad` is that of its result, by one complex step for each element."""
    return _complex_step(lambda *given: OPS[op](*given), arrays, grad, which)


def _complex_step(function: Callable, arrays: tuple[np.ndarray, ...], grad: np.ndarray, which: int) -> np.ndarray:
    out = np.empty(arrays[which].shape)
    for at in np.ndindex(*out.shape):
        moved = [array.astype(complex) for array in arrays]
        moved[which][at] += 1j * STEP
        out[at] = np.sum(grad * function(*moved).imag) / STEP
    return out


def apart(got: dict, wanted: dict) -> float:
    """How far two gradients by name are apart: the largest difference of two elements, relative to the largest element wanted.

    Infinite when a name or a shape differs, or when one is there and the other is not.
    """
    if got.keys() != wanted.keys():
        return float("inf")
    far = [0.0]
    for name, array in wanted.items():
        if (got[name] is None) != (array is None) or (array is not None and np.shape(got[name]) != array.shape):
            return float("inf")
        if array is not None:
            far.append(float(np.max(np.abs(got[name] - array)) / (np.max(np.abs(array)) or 1.0)))
    return max(far) if all(map(math.isfinite, far)) else float("inf")


# ------------------------------------------------------------------------------------------------ expressions


@dataclass(frozen=True)
class Recorded:
    """What a tape made of an expression: gradients by name, how many nodes it had, how many tensors it kept for backward."""

    grads: dict[str, np.ndarray | None]
    nodes: int
    kept: int


@dataclass(frozen=True)
class Expression:
    """A random expression: arrays by name, which of them need a gradient, steps (op, inputs by place), a gradient for its end.

    Places 0, 1, … are the arrays in their order, then the results of the steps in theirs.
    """

    seed: int
    arrays: tuple[np.ndarray, ...]
    needs: tuple[bool, ...]
    steps: tuple[tuple[str, tuple[int, ...]], ...]
    grad: np.ndarray

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"array {i}" for i in range(len(self.arrays)))

    def places(self, arrays) -> list[np.ndarray]:
        """What stands at each place when the expression starts from `arrays` (real or complex)."""
        places = list(arrays)
        for op, inputs in self.steps:
            places.append(OPS[op](*(places[i] for i in inputs)))
        return places

    def by_complex_step(self) -> dict[str, np.ndarray | None]:
        """Gradients by the arrays' names, by moving every element of every array a little; None for those that need none."""
        needed = zip(self.names, self.needs)
        return {
            name: _complex_step(lambda *given: self.places(given)[-1], self.arrays, self.grad, i) if need else None
            for i, (name, need) in enumerate(needed)
        }

    def by_torch(self) -> Recorded:
        """The same by torch.autograd, with the number of nodes that it made and of tensors that it kept."""
        import torch

        kept = []
        leaves = [torch.tensor(array, device="cpu", requires_grad=need) for array, need in zip(self.arrays, self.needs)]
        places = list(leaves)
        with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(None) or t, lambda t: t):
            for op, inputs in self.steps:
                places.append(getattr(torch, op)(*(places[i] for i in inputs)))
        nodes = count(places[-1].grad_fn)
        places[-1].backward(torch.tensor(self.grad, device="cpu"))
        grads = (None if leaf.grad is None else leaf.grad.numpy() for leaf in leaves)
        return Recorded(dict(zip(self.names, grads)), nodes, len(kept))

    def by_walk(self, backward: Callable[[Node, Grad], object]) -> dict[str, np.ndarray | None]:
        """The same by the walk `backward` over a graph whose nodes know their gradients by complex steps."""
        arrived: dict[int, np.ndarray] = {}
        places = self.places(self.arrays)
        nodes: list[Node | None] = [self._leaf(i, arrived) if need else None for i, need in enumerate(self.needs)]
        for op, inputs in self.steps:
            nodes.append(_node(op, [nodes[i] for i in inputs], tuple(places[i] for i in inputs)))
        backward(nodes[-1], Grad(self.grad.copy()))
        return {name: arrived.get(i) for i, name in enumerate(self.names)}

    def _leaf(self, i: int, arrived: dict[int, np.ndarray]) -> AccumulateGrad:
        node = AccumulateGrad(Tensor(self.arrays[i], requires_grad=True))

        def formula(grad: Grad) -> tuple:
            arrived[i] = arrived.get(i, 0.0) + grad.value
            return ()

        node.formula = formula
        return node


def _node(op: str, inputs: list[Node | None], arrays: tuple[np.ndarray, ...]) -> Node | None:
    if not any(inputs):
        return None
    node = Node(NODES[op], tuple((n, 0) for n in inputs))
    node.formula = lambda grad: tuple(
        None if n is None else Grad(gradient(op, arrays, grad.value, i)) for i, n in enumerate(inputs)
    )
    return node


def count(root) -> int:
    """How many nodes a graph has, the leaves' too; torch's or the room's."""
    found, waiting = {root}, [root]
    while waiting:
        new = {n for n, _ in waiting.pop().next_functions if n is not None} - found
        found |= new
        waiting += new
    return len(found)


def expression(seed: int, steps: int = 12) -> Expression:
    """A random expression: results are used again, some of them twice by one op; some arrays need no gradient, the end does.

    Numbers stay small: only the arrays, which lie between 1 and 2 in size, divide, and tanh stands before a matrix product.
    """
    rng, numbers = random.Random(f"lab 4 {seed}"), np.random.default_rng(seed)
    arrays = tuple(numbers.uniform(1.0, 2.0, (SIDE, SIDE)) * numbers.choice([-1.0, 1.0], (SIDE, SIDE)) for _ in range(4))
    needs = (True, rng.random() < 0.5, True, False)
    made: list[tuple[str, tuple[int, ...]]] = [("mul", (0, 1)), ("add", (4, 2))]
    while len(made) < steps:
        last, any_place = 3 + len(made), rng.randrange(4 + len(made))
        op = rng.choice(list(OPS))
        if op == "mm":
            made.append(("tanh", (last,)))
            made.append(("mm", rng.choice([(last + 1, rng.randrange(4)), (rng.randrange(4), last + 1), (last + 1, last + 1)])))
        elif op == "mul":
            made.append(("tanh", (last,)))
            made.append(("mul", rng.choice([(last + 1, any_place), (any_place, last + 1), (last + 1, last + 1)])))
        elif op == "div":
            made.append(("div", (last, rng.randrange(4))))
        elif op == "add":
            made.append(("add", rng.choice([(last, any_place), (any_place, last), (last, last)])))
        else:
            made.append((op, (last,)))
            made.append(("add", (last + 1, any_place)))
    return Expression(seed, arrays, needs, tuple(made), numbers.uniform(-1.0, 1.0, (SIDE, SIDE)))
