"""Lab 4's end: a learner's functions put together as one tape, that computes, records and walks back, beside torch.autograd."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from utils.labs.tape import Grad, Tensor
from utils.labs.tape_expressions import NODES, OPS, Expression, Recorded, apart, count, expression
from utils.show.tables import Table

_APART = "apart: the largest difference of two elements, relative to the largest element"


@dataclass(frozen=True)
class Tape:
    """The learner's functions as one tape."""

    record: Callable
    accumulate: Callable
    keep: Callable
    gradients: Callable
    pack: Callable
    unpack: Callable
    backward: Callable

    def run(self, one: Expression) -> Recorded:
        """Compute `one` op by op, record it, walk back."""
        leaves = [Tensor(array, need) for array, need in zip(one.arrays, one.needs)]
        places, kept = list(leaves), 0
        for op, at in one.steps:
            inputs = tuple(places[i] for i in at)
            result = Tensor(OPS[op](*(t.data for t in inputs)))
            packed = {name: self.pack(t) for name, t in self.keep(op, inputs, result).items()}
            kept += len(packed)
            self.record(NODES[op], inputs, result)
            if result.grad_fn is not None:
                result.grad_fn.formula = self._formula(op, tuple(t.requires_grad for t in inputs), packed)
            places.append(result)
        for leaf in leaves:
            if leaf.grad_accumulator is not None:
                leaf.grad_accumulator.formula = self._end(leaf)
        root = places[-1].grad_fn
        if root is None:
            raise ValueError(f"the result of expression {one.seed} needs a gradient, and record gave it no grad_fn")
        nodes = count(root)
        self.backward(root, Grad(one.grad.copy()))
        return Recorded(dict(zip(one.names, (leaf.grad for leaf in leaves))), nodes, kept)

    def _formula(self, op: str, needs: tuple[bool, ...], packed: dict) -> Callable[[Grad], tuple]:
        def formula(grad: Grad) -> tuple:
            saved = {name: self.unpack(one).data for name, one in packed.items()}
            return tuple(None if g is None else Grad(g) for g in self.gradients(op, grad.value, saved, needs))

        return formula

    def _end(self, leaf: Tensor) -> Callable[[Grad], tuple]:
        def formula(grad: Grad) -> tuple:
            self.accumulate(leaf, grad.value)
            return ()

        return formula

    def beside_torch(self, seeds) -> Table:
        """The tape and torch.autograd on the same random expressions, one row each."""
        rows = []
        for seed in seeds:
            one = expression(seed)
            mine, theirs = self.run(one), one.by_torch()
            off = apart(mine.grads, theirs.grads)
            rows.append(
                {
                    "expression": seed,
                    "nodes": f"{mine.nodes} / {theirs.nodes}",
                    "tensors kept": f"{mine.kept} / {theirs.kept}",
                    "gradients": "agree" if off < 1e-9 else f"{off:.1e} apart",
                }
            )
        return Table(rows, caption="Your tape / torch.autograd", notes=[_APART])
