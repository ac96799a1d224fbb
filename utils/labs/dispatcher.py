"""The world that lab 3 is graded on: keys that are bits, tensors that carry key sets, operators with a table. No torch in it.

The keys are a choice of PyTorch's, in PyTorch's order. Three things are simpler here: every key is one bit (PyTorch has one bit
for "Autograd" and one for "CPU", and makes AutogradCPU of the two), a key that is read as a number is the place of its bit, and
a choice always masks off the keys at which the op falls through (PyTorch does it once, in a call: the kernel gets the set without
them, and a redispatch looks up what it is given).
`real_calls` is the one door to torch, for a cell that no point hangs on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from utils.labs.other_thread import in_another_thread as in_another_thread


class DispatchKey(IntEnum):
    """What may have a say in a call, lowest priority first; the number is the place of its bit in a key set.

    The last three are alias keys: names under which one kernel is registered for several keys. They have no bit.
    """

    CPU = 0
    CUDA = 1
    Meta = 2
    BackendSelect = 3
    Python = 4
    ADInplaceOrView = 5
    AutogradCPU = 6
    AutogradCUDA = 7
    AutogradMeta = 8
    AutocastCPU = 9
    AutocastCUDA = 10
    FuncTorchBatched = 11
    PythonDispatcher = 12
    Autograd = 64
    CompositeImplicitAutograd = 65
    CompositeExplicitAutograd = 66


RUNTIME = tuple(key for key in DispatchKey if key < 64)  # the keys that have a bit, lowest priority first
EVERY = (1 << len(RUNTIME)) - 1  # the key set of all of them
BACKEND_OF = {  # for each Autograd key the backend whose tensors bring it along
    DispatchKey.AutogradCPU: DispatchKey.CPU,
    DispatchKey.AutogradCUDA: DispatchKey.CUDA,
    DispatchKey.AutogradMeta: DispatchKey.Meta,
}


class NoKernel(RuntimeError):
    """An operator has no kernel where a call arrived."""


class _Fallthrough:
    """What stands in a table where an operator has nothing to do and the next key is to be asked."""

    def __repr__(self) -> str:
        return "FALLTHROUGH"


FALLTHROUGH = _Fallthrough()


@dataclass(frozen=True)
class Tensor:
    """A tensor of one number. `keys` is its key set; dtype, requires_grad and grad_fn are nothing that a dispatcher looks at."""

    value: float
    keys: int
    dtype: str = "float32"
    requires_grad: bool = False
    grad_fn: str = ""


class Operator:
    """A name, a number of arguments, and one table: a kernel or FALLTHROUGH by key. `fallthrough` is the set of the latter.

    A kernel is called as kernel(keys, *arguments): the key set that it was chosen from, then what the caller gave.
    """

    def __init__(self, name: str, table: Mapping[DispatchKey, object] | None = None, arguments: int = 2):
        self.name, self.arguments = name, arguments
        self.table: dict[DispatchKey, object] = dict(table or {})
        self.fallthrough: int = sum(1 << key for key, kernel in self.table.items() if kernel is FALLTHROUGH)


# ------------------------------------------------------------------------------------------------ key sets, to write and to read


def bits(*names: str) -> int:
    """The key set of the keys of these names. Raises KeyError for a name that is no key with a bit."""
    keys = 0
    for name in names:
        key = DispatchKey[name]
        if key not in RUNTIME:
            raise KeyError(f"{name} is an alias: it has no bit, and is in no key set")
        keys |= 1 << key
    return keys


def names(keys: int) -> tuple[str, ...]:
    """The names of the keys in a key set, lowest priority first. Raises TypeError for anything but an int."""
    if type(keys) is not int:
        raise TypeError(f"a key set is an int, one bit a key; this is a {type(keys).__name__}")
    if keys < 0:
        raise ValueError(f"a key set is not negative; this is {keys}: is `~` the last thing that was done to it?")
    known = {int(key): key.name for key in RUNTIME}
    return tuple(known.get(bit, f"bit {bit}") for bit in range(keys.bit_length()) if keys >> bit & 1)


def name_of(key: int | None) -> str:
    """The name of a key, which is an int or a DispatchKey; "no key" of None. Raises TypeError for anything else."""
    if key is None:
        return "no key"
    if type(key) not in (int, DispatchKey):
        raise TypeError(f"a key is a DispatchKey or its number; this is a {type(key).__name__}")
    return DispatchKey(key).name if key in list(DispatchKey) else f"no key has the number {int(key)}"


def marked(label: str) -> Callable:
    """A kernel that shows what it was called with: it returns (label, keys, arguments)."""

    def kernel(keys, *arguments):
        return label, keys, arguments

    return kernel


# ------------------------------------------------------------------------------------------------ finished parts


@dataclass(frozen=True)
class Parts:
    """The functions that a dispatcher is made of, as later exercises take them from earlier ones.

    key_set(arguments), highest(keys), effective(keys, tls), choose(op, keys), keys_below(keys, key),
    redispatch(op, keys, arguments): each as its exercise says.
    """

    key_set: Callable
    highest: Callable
    effective: Callable
    choose: Callable
    keys_below: Callable
    redispatch: Callable


def _key_set(arguments) -> int:
    keys = 0
    for argument in arguments:
        keys |= _key_set(argument) if isinstance(argument, (list, tuple)) else getattr(argument, "keys", 0)
    return keys


def _highest(keys: int) -> int | None:
    return max((bit for bit in range(keys.bit_length()) if keys >> bit & 1), default=None)


def _effective(keys: int, tls) -> int:
    return sum(1 << bit for bit in range(64) if (keys | tls.include) >> bit & 1 and not tls.exclude >> bit & 1)


def _choose(op: Operator, keys: int) -> tuple:
    wanted = [bit for bit in range(keys.bit_length()) if keys >> bit & 1 and op.table.get(bit) is not FALLTHROUGH]
    if not wanted or wanted[-1] not in op.table:
        raise NoKernel(f"{op.name} has no kernel for {name_of(wanted[-1]) if wanted else 'an empty key set'}")
    return wanted[-1], op.table[wanted[-1]]


def _keys_below(keys: int, key: int) -> int:
    return keys % (1 << key)


def _redispatch(op: Operator, keys: int, arguments):
    return _choose(op, keys)[1](keys, *arguments)


right = Parts(_key_set, _highest, _effective, _choose, _keys_below, _redispatch)  # what the tests of later exercises hand in


class Watched:
    """A boxed redispatch that goes nowhere: `seen` keeps (the op's name, the key set, a copy of the stack) of each call."""

    def __init__(self):
        self.seen: list[tuple[str, int, list]] = []

    def __call__(self, op: Operator, keys: int, stack: list) -> None:
        self.seen.append((op.name, keys, list(stack)))


def unboxed(boxed: Callable, op: Operator) -> Callable:
    """A boxed kernel or fallback as a kernel of `op`: puts the arguments on a stack of its own, and takes the results off it."""

    def kernel(keys, *arguments):
        stack = list(arguments)
        boxed(op, keys, stack)
        return stack[0] if len(stack) == 1 else tuple(stack) or None

    return kernel


# ------------------------------------------------------------------------------------------------ the same question to torch


@dataclass(frozen=True)
class RealCall:
    """One call of torch's, as this lab's parts need it. Here the number of a key is its place in `order`, torch's names.

    `op.table` holds FALLTHROUGH or the kind of kernel as a text; `choice` is the key that torch itself chose.
    """

    state: str
    expression: str
    arguments: tuple[Tensor, ...]
    include: int
    exclude: int
    op: Operator
    choice: str
    order: tuple[str, ...] = field(repr=False)

    def name(self, key: int | None) -> str:
        """torch's name of a key that one of the lab's functions returned."""
        return "no key" if key is None else self.order[key]


def real_calls() -> Iterator[RealCall]:
    """`a + b` and `torch.mm(x, w)` as torch dispatches them: plain, in inference_mode, under autocast.

    Nothing where this torch no longer tells its key sets.
    """
    import torch  # here: no point of the lab needs it, and it takes seconds

    from utils.measure.dispatch_trace import dispatch_trace

    states = {
        "plain": contextlib.nullcontext,
        "inference_mode": torch.inference_mode,
        "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    }
    values = {"a + b": ("a", "b"), "torch.mm(x, w)": ("x", "w")}
    given = {
        expression: {name: torch.rand(4, 4, requires_grad=True) for name in arguments} for expression, arguments in values.items()
    }
    for expression, arguments in given.items():
        for state, enter in states.items():
            with enter():
                trace = dispatch_trace(expression, arguments=arguments)
            if trace.keys is not None:
                yield _real_call(state, trace)


def _real_call(state: str, trace) -> RealCall:
    sets = trace.keys
    order = tuple(row.key for row in trace.table)

    def keys(among) -> int:
        return sum(1 << order.index(name) for name in set(among))

    # The set that is excluded is not listed in full (inference_mode's Autograd keys are not): what went is counted as well.
    gone = ({*sets.union} | {*sets.included}) - {*sets.with_thread}
    table = {i: FALLTHROUGH if row.fallthrough else row.kind for i, row in enumerate(trace.table)}
    return RealCall(
        state=state,
        expression=trace.expression,
        arguments=tuple(Tensor(0.0, keys(among)) for among in sets.arguments.values()),
        include=keys(sets.included),
        exclude=keys(gone | {*sets.excluded}),
        op=Operator(trace.op, table),
        choice=sets.highest,
        order=order,
    )
