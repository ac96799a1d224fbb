"""n dependent adds, and sums of k tensors, as functions of straight code: each is a code object of its own to a compiler."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache


@cache
def chain(n: int) -> Callable:
    """f(x, b) = x + b + … + b, n adds that each wait for the one before; a code object of its own for every n."""
    body = "\n".join(["    x = x + b"] * n)
    space: dict = {}
    exec(f"def adds_{n}(x, b):\n{body}\n    return x\n", space)  # noqa: S102  (our own text: a loop would be one code object for all n)
    return space[f"adds_{n}"]


@cache
def total(k: int, copy: str = "") -> Callable:
    """f(t0, …) = the sum of k tensors, of so many inputs and k - 1 adds; another `copy` is another code object."""
    names = [f"t{i}" for i in range(k)]
    space: dict = {}
    exec(f"def total_{k}{copy}({', '.join(names)}):\n    return {' + '.join(names)}\n", space)  # noqa: S102  (our own text)
    return space[f"total_{k}{copy}"]
