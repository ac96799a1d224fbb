"""Layers that most programs meet without knowing: functionalization, fake tensors, and an operator of one's own on two keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count

from utils.measure import dispatch_trace, key_sets, seams, statements
from utils.measure.layers import BACKENDS

NAMESPACE = "one_add_priced"
_numbers = count()


@dataclass(frozen=True)
class Seen:
    """A tensor as it looked inside a layer: its class, its keys (lowest priority first), what the add of it gave ("shape (1,),
    float32, cpu"), and, for functionalization, the program that was left, as code."""

    layer: str
    kind: str
    keys: tuple[str, ...]
    result: str
    code: str = ""


def functionalized(device: str = "cpu") -> Seen:
    """`a.add_(b)` traced below functionalization: what writes in place becomes an op that does not, and one copy at the end."""
    import torch
    from torch.fx.experimental.proxy_tensor import make_fx

    met: list[tuple[str, ...]] = []

    def in_place(a, b):
        met.append(_keys(a))
        a.add_(b)
        return a * b

    values = tuple(statements.tensors("a + b", False, device).values())
    code = make_fx(torch.func.functionalize(in_place))(*values).code
    result = in_place(*values)
    return Seen("functionalization", type(values[0]).__name__, met[0], dispatch_trace.looks(result), _ops_of(code))


def _ops_of(code: str) -> str:
    """The lines of a traced program that run an op, without what fx adds for its own bookkeeping."""
    lines = [line.strip().partition(";")[0] for line in code.splitlines() if "torch.ops." in line]
    return "\n".join(line.replace("torch.ops.", "") for line in lines)


def fake(device: str = "cpu") -> Seen:
    """The add of two tensors that have shape, dtype and device, and no data."""
    mode = seams.fake_mode()
    a, b = (mode.from_tensor(value) for value in statements.tensors("a + b", False, device).values())
    return Seen("fake tensor", type(a).__name__, _keys(a), dispatch_trace.looks(a + b))


def _keys(tensor) -> tuple[str, ...]:
    if seams.dispatcher_missing():
        return ()
    return seams.keys_among(seams.key_set(tensor), [row.key for row in key_sets.table("aten::add.Tensor")])


def two_keys(backend: Callable, autograd: Callable, device: str = "cpu") -> dict[str, Callable]:
    """What `own_op` takes: one function for the device's own key, one for its Autograd key."""
    name = BACKENDS[device]
    return {name: backend, f"Autograd{name}": autograd}


@contextmanager
def own_op(functions: Mapping[str, Callable]) -> Iterator[Callable]:
    """An operator of one's own of two tensors, registered at a key for each of `functions`, and taken back at the end.

        with own_op({"CPU": lambda below, a, b: a + b, "AutogradCPU": lambda below, a, b: below(a, b)}) as add:
            add(a, b)

    A function is called with `below`, which calls the operator again at the keys below, and the arguments. Each use makes an
    operator under a new name, so that a cell may run twice. Raises RuntimeError for a key that torch does not know.
    """
    import torch

    name = f"add_{next(_numbers)}"
    library = torch.library.Library(NAMESPACE, "FRAGMENT")
    try:
        library.define(f"{name}(Tensor a, Tensor b) -> Tensor")
        overload = getattr(getattr(torch.ops, NAMESPACE), name).default
        for key, function in functions.items():
            library.impl(name, _at(key, function, overload), key, with_keyset=True)
        yield overload
    finally:
        seams.take_back(library)


def _at(key: str, function: Callable, overload) -> Callable:
    def stand(keys, *arguments):
        return function(lambda *again: seams.redispatch(overload, seams.keys_below(keys, key), *again), *arguments)

    return stand
