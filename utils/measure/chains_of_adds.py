"""Programs for compilers: n dependent adds and sums of k tensors, as straight code; and functions with a code object of their
own.

torch.compile keeps what it compiled by code object: functions that share one are looked through one after the other at every
call."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from functools import cache
from itertools import count
from types import FunctionType

_copies = count()


@cache
def chain(n: int) -> Callable:
    """f(x, b) = x + b + … + b, n adds that each wait for the one before; a code object of its own for every n."""
    body = "\n".join(["    x = x + b"] * n)
    return _defined(f"adds_{n}", f"def adds_{n}(x, b):\n{body}\n    return x\n")


@cache
def total(k: int, copy: str = "") -> Callable:
    """f(t0, …) = the sum of k tensors, of so many inputs and k - 1 adds; another `copy` is another code object."""
    names, name = [f"t{i}" for i in range(k)], f"total_{k}{copy}"
    return _defined(name, f"def {name}({', '.join(names)}):\n    return {' + '.join(names)}\n")


def _defined(name: str, text: str) -> Callable:
    """The function `name` of this text of our own, with its lines where Python looks for them. A function whose file cannot be
    found is compiled inside a wrapper of torch's (seen in 2.11): all of them then share that wrapper's code object."""
    space: dict = {}
    file = f"<{name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), space)  # noqa: S102  (our own text)
    return space[name]


def own_code(f: Callable) -> Callable:
    """The same function with a code object that no other function has."""
    code = f.__code__.replace(co_name=f"{f.__name__}_{next(_copies)}")
    return FunctionType(code, f.__globals__, code.co_name, f.__defaults__, f.__closure__)
