"""How many C++ handles an op's node holds on its inputs and on its result: reference counts before and after, op by op."""

from __future__ import annotations

ADD, MUL, MUL_FIRST = "a + b", "a * b", "a * b, only a needs a gradient"


def handles(device: str = "cpu") -> dict[str, dict[str, int]] | None:
    """By op: how many handles more "a" and "b" have while the result lives, and after backward has freed the graph ("after …").

    None where torch does not tell the count.
    """
    import torch

    from utils.measure.seams import has_use_count, use_count

    if not has_use_count():
        return None
    found = {}
    for name, f, needs in ((ADD, torch.add, (True, True)), (MUL, torch.mul, (True, True)), (MUL_FIRST, torch.mul, (True, False))):
        a, b = (torch.rand(4, device=device).requires_grad_(grad) for grad in needs)
        before = use_count(a), use_count(b)
        result = f(a, b)
        during = use_count(a), use_count(b)
        result.sum().backward()
        a.grad = b.grad = None
        after = use_count(a), use_count(b)
        found[name] = {
            "a": during[0] - before[0],
            "b": during[1] - before[1],
            "after a": after[0] - before[0],
            "after b": after[1] - before[1],
        }
    return found
