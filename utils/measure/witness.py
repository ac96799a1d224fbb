"""A witness at keys of an op: Python functions that write down who was reached, then call the kernel that stood there.

    with witness("aten::add.Tensor", ("CPU", "AutogradCPU")) as seen:
        a + b
    [one.key for one in seen]        # ["AutogradCPU", "CPU"]

What the op computes stays the same. At a key where the op falls through there is no kernel to call: a witness there takes the
fall-through away, and passes the call on to the keys below.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from utils.measure import key_sets, seams

OVERRIDING = "Warning only once for all operators"  # torch's word for just this, printed once: here it is meant


@dataclass(frozen=True)
class Sight:
    """One arrival: at which key, for which op, and what came as its tensors ("float32", or with the class: "Tagged float32")."""

    key: str
    op: str
    tensors: tuple[str, ...]


def missing() -> tuple[str, ...]:
    """What this torch lacks for a witness, in words; empty when there can be one."""
    import torch

    gone = tuple(f"torch {torch.__version__} no longer has {name}" for name in seams.dispatcher_missing())
    return gone if gone or seams.has_witness() else (f"torch {torch.__version__} lets no witness stand at a key",)


@contextmanager
def witness(op: str, keys: Sequence[str], seen: list | None = None) -> Iterator[list[Sight]]:
    """Stand at `keys` of `op` ("aten::add.Tensor") and give the list of what arrives; `seen` adds to a list that is there.

    Everything is put back at the end, whatever happens inside. While it stands each call costs microseconds more. Raises
    ValueError for an unknown op or key, RuntimeError where this torch allows no witness.
    """
    import torch

    if why := missing():
        raise RuntimeError("; ".join(why))
    rows = {row.key: row for row in key_sets.table(op)}
    if unknown := [key for key in keys if key not in rows]:
        raise ValueError(f"{op} has no row {', '.join(unknown)}" if rows else f"the dispatcher knows no op {op!r}")
    seen = [] if seen is None else seen
    namespace, _, name = op.partition("::")
    functions = {key: _function(op, key, rows[key].fallthrough, seen) for key in keys}  # each before any override stands
    library = torch.library.Library(namespace, "IMPL")
    with ExitStack() as stack:
        stack.callback(seams.take_back, library)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=OVERRIDING)
            for key, function in functions.items():
                library.impl(name, function, key, with_keyset=True, allow_override=True)
        yield seen


def _function(op: str, key: str, falls_through: bool, seen: list[Sight]):
    """What stands at one key: it writes down, then runs what stood there, or (nothing stood there) goes to what is below."""
    overload = _overload(op)
    kernel = None if falls_through else seams.kernel_at(op, key)

    def stand(keys, *arguments, **options):
        seen.append(Sight(key, op.removeprefix("aten::"), kinds(arguments)))
        if kernel is None:
            return seams.redispatch(overload, seams.keys_below(keys, key), *arguments, **options)
        return kernel(keys, *arguments, **options)

    return stand


def _overload(op: str):
    import torch

    namespace, _, full = op.partition("::")
    name, _, overload = full.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), name), overload or "default")


def kinds(arguments) -> tuple[str, ...]:
    """The tensors among the arguments, each by its dtype, with the class in front where that is not torch.Tensor."""
    import torch

    out = []
    for value in arguments:
        if isinstance(value, torch.Tensor):
            dtype = str(value.dtype).removeprefix("torch.")
            out.append(dtype if type(value) is torch.Tensor else f"{type(value).__name__} {dtype}")
    return tuple(out)
