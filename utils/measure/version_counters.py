"""Which ways of writing to a tensor raise its version counter, and the error of a backward that meets a changed tensor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Bump:
    """One way to treat a tensor `t`: whether its memory was written, and by how much its version counter rose."""

    line: str
    written: bool
    by: int

    def to_dict(self) -> dict:
        return {"line": self.line, "written": self.written, "by": self.by}


PLAIN, IN_PLACE, OUT, NO_GRAD, DETACHED, DATA, VIEW = (
    "t + 1",
    "t.add_(1)",
    "torch.add(t, 1, out=t)",
    "t.add_(1) under no_grad",
    "t.detach().add_(1)",
    "t.data.add_(1)",
    "t[:2].add_(1)",
)


def bumps(device: str = "cpu") -> list[Bump]:
    """Each way on a fresh tensor of random numbers that needs no gradient."""
    import torch

    ways: dict[str, Callable] = {
        PLAIN: lambda t: t + 1,
        IN_PLACE: lambda t: t.add_(1),
        OUT: lambda t: torch.add(t, 1, out=t),
        NO_GRAD: _under_no_grad,
        VIEW: lambda t: t[:2].add_(1),
        DETACHED: lambda t: t.detach().add_(1),
        DATA: lambda t: t.data.add_(1),
    }
    return [_bump(line, way, torch.randn(4, device=device)) for line, way in ways.items()]


def _under_no_grad(t) -> None:
    import torch

    with torch.no_grad():
        t.add_(1)


def _bump(line: str, way: Callable, t) -> Bump:
    from utils.measure.seams import version

    before, values = version(t), t.clone()
    way(t)
    return Bump(line, not bool((t == values).all()), version(t) - before)


@dataclass(frozen=True)
class Attempt:
    """What one piece of code came to: refused with these words, or let through ("" then)."""

    code: str
    refused: str

    def to_dict(self) -> dict:
        return {"code": self.code, "refused": self.refused}


def attempt(code: str, f: Callable) -> Attempt:
    """Run f and catch the RuntimeError by which autograd refuses; other errors are raised."""
    try:
        f()
    except RuntimeError as error:
        return Attempt(code, " ".join(str(error).split()))
    return Attempt(code, "")


def changed_before_backward(device: str = "cpu") -> list[Attempt]:
    """A result is changed in place before backward: exp kept it and refuses; sin kept its input, an add nothing, and both go
    through; through .data the counter is passed round, and exp computes a wrong gradient without a word."""
    import torch

    def change(f: Callable, by: Callable) -> Callable:
        def run() -> None:
            x = torch.randn(4, device=device).requires_grad_()
            y = f(x)
            by(y)
            y.sum().backward()

        return run

    def directly(y):
        y.add_(1)

    def through_data(y):
        y.data.add_(1)

    return [
        attempt("y = x.exp(); y.add_(1)", change(torch.exp, directly)),
        attempt("y = x.sin(); y.add_(1)", change(torch.sin, directly)),
        attempt("y = x + 2; y.add_(1)", change(lambda x: x + 2, directly)),
        attempt("y = x.exp(); y.data.add_(1)", change(torch.exp, through_data)),
    ]


def silently_wrong(device: str = "cpu") -> float:
    """By how much the gradient of exp(x).sum() is off when the result grew by 1 through .data (the largest error)."""
    import torch

    x = torch.randn(4, device=device).requires_grad_()
    y = x.exp()
    y.data.add_(1)
    y.sum().backward()
    return float((x.grad - x.detach().exp()).abs().max())
