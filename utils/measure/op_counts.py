"""Counts the ops of forward and of backward, as the dispatcher sees them below autograd; views apart from ops that compute."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

NO_OPS = ("prim::", "profiler::")


@dataclass
class Ops:
    """The ops of one pass, in their order: those that compute, and those that only look at memory that was there."""

    computing: list[str] = field(default_factory=list)
    views: list[str] = field(default_factory=list)

    def note(self, op: str, given: list, results: list) -> None:
        """An op whose every result lies in memory that it was given, and is none of its arguments, computed nothing.

        Memory is told by its storage, not by its address: tensors that have none (fake ones, on meta) are counted as well. What a
        fake tensor is asked about itself ("prim::device") and the profiler's marks are no ops.
        """
        if op.startswith(NO_OPS):
            return
        kept = [t.untyped_storage() for t in given]
        places = {id(storage) for storage in kept if storage.nbytes()}
        looks = bool(results) and all(
            id(r.untyped_storage()) in places and not any(r is argument for argument in given) for r in results
        )
        (self.views if looks else self.computing).append(op.removeprefix("aten::"))

    def to_dict(self) -> dict:
        return {"computing": list(self.computing), "views": list(self.views)}


def counted(f: Callable[[], object]) -> Ops:
    """The ops of f(). Raises RuntimeError from seams."""
    from utils.measure.seams import watching_ops

    ops = Ops()
    with watching_ops(ops.note):
        f()
    return ops


@dataclass(frozen=True)
class Passes:
    """The ops of forward and of backward of one piece of code."""

    name: str
    forward: Ops
    backward: Ops

    @property
    def ratio(self) -> float:
        """Ops of backward that compute, over those of forward."""
        return len(self.backward.computing) / len(self.forward.computing)

    def to_dict(self) -> dict:
        return {"name": self.name, "forward": self.forward.to_dict(), "backward": self.backward.to_dict(), "ratio": self.ratio}


def count(name: str, f: Callable, leaves: Iterable) -> Passes:
    """The ops of f(), and of the backward from its result down to `leaves`. Raises RuntimeError from seams.

    The gradient of the result is given and those of the leaves are handed out, so that only the nodes' own work is counted: no
    op that makes a first gradient, none that adds one into .grad.
    """
    import torch

    from utils.measure.seams import watching_ops

    forward, backward = Ops(), Ops()
    with watching_ops(forward.note):
        result = f()
    gradient = torch.randn_like(result)
    with watching_ops(backward.note):
        torch.autograd.grad(result, list(leaves), gradient)
    return Passes(name, forward, backward)


def cases(device: str = "cpu") -> list[Passes]:
    """add, mul, relu, gelu, matmul, an MLP and a transformer block, with every input or parameter needing a gradient."""
    import torch
    import torch.nn.functional as F

    from utils.measure import small_models

    a, b = (torch.randn(8, 8, device=device).requires_grad_() for _ in range(2))
    pairs = {"a + b": torch.add, "a * b": torch.mul, "a @ b": torch.matmul}
    found = [count(name, partial(f, a, b), (a, b)) for name, f in pairs.items()]
    found += [count(name, partial(f, a), (a,)) for name, f in {"relu(a)": F.relu, "gelu(a)": F.gelu}.items()]
    for name in (small_models.MLP, small_models.BLOCK):
        model = small_models.make(name, device)
        found.append(count(name, partial(model, small_models.batch(name, 4, device)), model.parameters()))
    return found
