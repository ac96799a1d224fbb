"""What AOTAutograd leaves of a graph at run time: the same code eager and compiled, with the nodes of both and the traced ops."""

from __future__ import annotations

from dataclasses import dataclass

from utils.measure.grad_graph import Graph, graph
from utils.measure.seams import aot_backend


@dataclass(frozen=True)
class Region:
    """The graph behind the result, eager and compiled, and the ops of the two graphs that were traced ahead (empty when torch
    does not show them). `same` says whether both gave the same gradients."""

    eager: Graph
    compiled: Graph
    forward_ops: tuple[str, ...]
    backward_ops: tuple[str, ...]
    same: bool
    saved: int = 0  # tensors that the forward graph hands to the backward one

    def to_dict(self) -> dict:
        return {
            "eager": self.eager.to_dict(),
            "compiled": self.compiled.to_dict(),
            "eager_nodes": len(self.eager.inner),
            "compiled_nodes": len(self.compiled.inner),
            "forward_ops": list(self.forward_ops),
            "backward_ops": list(self.backward_ops),
            "same": self.same,
        }


EXPRESSION = "(torch.relu(x @ w) * x + b).sum()"


def expression(x, w, b):
    """EXPRESSION, as a function."""
    import torch

    return (torch.relu(x @ w) * x + b).sum()


def compiled_region(device: str = "cpu") -> Region:
    """EXPRESSION on random 8 x 8 tensors, eager and through torch.compile without a code generator; about a second."""
    import torch

    graphs: dict = {}
    torch.compiler.reset()  # a function compiled by an earlier call would show no graphs again
    compiled = torch.compile(expression, backend=aot_backend(graphs))
    leaves = {name: torch.randn(8, 8, device=device).requires_grad_() for name in ("x", "w", "b")}
    found, gradients = [], []
    for one in (expression, compiled):
        result = one(*leaves.values())
        found.append(graph(result, leaves, EXPRESSION))
        gradients.append(torch.autograd.grad(result, list(leaves.values())))
    same = all(torch.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in zip(*gradients, strict=True))
    backward = graphs.get("backward")
    given = 0 if backward is None else sum(node.op == "placeholder" for node in backward.graph.nodes)
    saved = max(0, given - 1)  # the gradient of the one result comes in as well
    return Region(*found, _ops(graphs.get("forward")), _ops(backward), same, saved)


def _ops(module) -> tuple[str, ...]:
    if module is None:
        return ()
    return tuple(str(node.target).removeprefix("aten.") for node in module.graph.nodes if node.op == "call_function")
