"""The graph that AOTAutograd traces of an expression and its backward together, and the tape that is then no longer built."""

from __future__ import annotations

from utils.measure import seams
from utils.measure.compiled_region import EXPRESSION, compiled_region, expression
from utils.measure.either_clock import Progress, need
from utils.measure.record import in_words


def joint(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """ "expression", "joint", "forward", "backward" (ops, in order), "code" (the joint graph's text), "eager_tape",
    "compiled_tape" (nodes behind the result, accumulators left out), "rows": [{"graph", "ops", "built" (when)}], "numbers":
    "eager_nodes", "compiled_nodes", "joint_ops", "forward_ops", "backward_ops", "saved" (tensors that forward keeps for
    backward), "same" (1.0: equal gradients). Without the joint graph "joint" is empty and a note says so. About a second; no
    compiler is needed."""
    need(device, "a traced graph")
    import torch

    notes, code, ops = [], "", []
    region = compiled_region(device)
    try:
        leaves = [torch.randn(8, 8, device=device).requires_grad_() for _ in range(3)]
        module = seams.joint_graph(expression, leaves)
        code = module.code.strip()
        ops = [str(n.target).removeprefix("aten.") for n in module.graph.nodes if n.op == "call_function"]
    except Exception as error:  # an export that refuses, in whichever way: the halves are shown all the same
        notes.append(f"no joint graph: {in_words(error)}")
    rows = [
        {"graph": "the tape, eager", "ops": len(region.eager.inner), "built": "at every step"},
        {"graph": "the tape, compiled", "ops": len(region.compiled.inner), "built": "at every step"},
        {"graph": "joint graph", "ops": len(ops), "built": "once, ahead"},
        {"graph": "its forward half", "ops": len(region.forward_ops), "built": "once, ahead"},
        {"graph": "its backward half", "ops": len(region.backward_ops), "built": "once, ahead"},
    ]
    return {
        "device": device,
        "expression": EXPRESSION,
        "joint": ops,
        "forward": list(region.forward_ops),
        "backward": list(region.backward_ops),
        "code": code,
        "eager_tape": [node.name for node in region.eager.inner],
        "compiled_tape": [node.name for node in region.compiled.inner],
        "rows": rows,
        "numbers": {
            "eager_nodes": float(len(region.eager.inner)),
            "compiled_nodes": float(len(region.compiled.inner)),
            "joint_ops": float(len(ops)),
            "forward_ops": float(len(region.forward_ops)),
            "backward_ops": float(len(region.backward_ops)),
            "saved": float(region.saved),
            "same": float(region.same),
        },
        "notes": notes,
    }
