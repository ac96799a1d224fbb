"""Where autograd refuses a tensor that was made in inference_mode, and where it does not: each case is tried."""

from __future__ import annotations

from utils.measure.version_counters import Attempt, attempt

ADD, MUL, MUL_BY_PLAIN, CLONED = "t + g", "t * g", "t * 2", "t.clone() * g"
IN_PLACE, COUNTER, REQUIRE = "t.add_(1)", "t._version", "t.requires_grad_()"


def cases(device: str = "cpu") -> list[Attempt]:
    """Each use of `t`, an inference tensor, outside inference_mode; `g` is a tensor that needs a gradient."""
    import torch

    from utils.measure.seams import version

    with torch.inference_mode():
        t = torch.randn(4, device=device)
    g = torch.randn(4, device=device).requires_grad_()
    uses = {
        ADD: lambda: t + g,
        MUL: lambda: t * g,
        MUL_BY_PLAIN: lambda: t * 2,
        CLONED: lambda: t.clone() * g,
        IN_PLACE: lambda: t.add_(1),
        COUNTER: lambda: version(t),
        REQUIRE: lambda: t.requires_grad_(),
    }
    return [attempt(code, use) for code, use in uses.items()]


def views_are_tracked(device: str = "cpu") -> dict[str, bool | None]:
    """Whether a view knows its base: of an ordinary tensor, under no_grad too, and of an inference tensor."""
    import torch

    from utils.measure.seams import knows_base

    ordinary = torch.randn(4, device=device)
    found = {"a view": knows_base(ordinary[:2])}
    with torch.no_grad():
        found["a view under no_grad"] = knows_base(ordinary[:2])
    with torch.inference_mode():
        found["a view of an inference tensor"] = knows_base(torch.randn(4, device=device)[:2])
    return found


def node_of_the_add(device: str = "cpu") -> str:
    """The name of the node that the add of an inference tensor and one that needs a gradient gets."""
    import torch

    with torch.inference_mode():
        t = torch.randn(4, device=device)
    return (t + torch.randn(4, device=device).requires_grad_()).grad_fn.name()
