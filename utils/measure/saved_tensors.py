"""What an op keeps for backward: every tensor it saves, whose it is and how many bytes, seen by hooks and not told from memory.

`torch.autograd.graph.saved_tensors_hooks` is called for each tensor that an op saves; the tensor's memory says whose it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

BOTH, FIRST, SECOND = "both", "only the first", "only the second"
ROWS, INNER, COLUMNS = 32, 64, 16  # three different sizes: no two of x, w and x @ w are equally large


@dataclass(frozen=True)
class Kept:
    """One saved tensor. `what` is the name of the tensor whose memory it is, "result", or "temporary" for memory of its own.

    `place` is the address of that memory (tensors of one place share it), `storage_bytes` its size.
    """

    what: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    place: int
    storage_bytes: int


@dataclass(frozen=True)
class Case:
    """One op with some of its inputs needing a gradient: what it kept of them, and the bytes of what it kept."""

    op: str
    needs: str
    kept: tuple[Kept, ...]
    result_bytes: int
    node: str

    @property
    def bytes(self) -> int:
        return sum(one.bytes for one in self.kept)

    @property
    def whose(self) -> tuple[str, ...]:
        return tuple(sorted(one.what for one in self.kept))

    def to_dict(self) -> dict:
        return {
            "op": self.op,
            "needs": self.needs,
            "kept": list(self.whose),
            "bytes": self.bytes,
            "result_bytes": self.result_bytes,
            "node": self.node,
        }


def kept(f: Callable, named: Mapping[str, object]) -> tuple[object, tuple[Kept, ...]]:
    """(what f() returns, what its ops kept for backward). `named` are the tensors that may be recognised among it."""
    from torch.autograd.graph import saved_tensors_hooks

    packed: list = []
    with saved_tensors_hooks(lambda tensor: packed.append(tensor) or tensor, lambda tensor: tensor):
        result = f()
    known = {**named, "result": result}
    return result, tuple(_kept(tensor, known) for tensor in packed)


def _kept(tensor, known: Mapping[str, object]) -> Kept:
    storage = tensor.untyped_storage()
    place = storage.data_ptr()
    whose = next((name for name, other in known.items() if other.untyped_storage().data_ptr() == place), "temporary")
    dtype = str(tensor.dtype).removeprefix("torch.")
    return Kept(whose, tuple(tensor.shape), dtype, tensor.nbytes, place, storage.nbytes())


def memory(saved: Iterable[Kept], leaving_out: Iterable[str] = ()) -> int:
    """The bytes that saved tensors hold, memory that several share counted once; tensors named in `leaving_out` are not."""
    left = set(leaving_out)
    return sum({one.place: one.storage_bytes for one in saved if one.what not in left}.values())


def cases(device: str = "cpu") -> list[Case]:
    """matmul, add, mul, relu and gelu, the ops of two inputs with each choice of who needs a gradient; random data."""
    import torch
    import torch.nn.functional as F

    x, w = torch.randn(ROWS, INNER, device=device), torch.randn(INNER, COLUMNS, device=device)
    y = torch.randn(ROWS, INNER, device=device)
    two = {
        "x @ w": (torch.matmul, {"x": x, "w": w}),
        "x + y": (torch.add, {"x": x, "y": y}),
        "x * y": (torch.mul, {"x": x, "y": y}),
    }
    one = {"relu(x)": (F.relu, {"x": x}), "gelu(x)": (F.gelu, {"x": x})}
    found = []
    for op, (f, inputs) in two.items():
        for needs in (BOTH, FIRST, SECOND):
            found.append(case(op, f, inputs, needs))
    return [*found, *(case(op, f, inputs, FIRST) for op, (f, inputs) in one.items())]


def case(op: str, f: Callable, inputs: Mapping[str, object], needs: str) -> Case:
    """One op on fresh copies of `inputs`, of which both, only the first or only the second need a gradient."""
    wanted = {BOTH: (True, True), FIRST: (True, False), SECOND: (False, True)}[needs]
    fresh = {name: t.detach().clone().requires_grad_(grad) for (name, t), grad in zip(inputs.items(), wanted, strict=False)}
    result, saved = kept(lambda: f(*fresh.values()), fresh)
    return Case(op, needs, saved, result.nbytes, result.grad_fn.name())


def same_memory(device: str = "cpu") -> dict[str, bool] | None:
    """Whether what relu kept is its result: the same Python object, and the same memory. None where torch does not tell."""
    import torch

    from utils.measure.seams import saved_attributes

    result = torch.relu(torch.randn(ROWS, INNER, device=device).requires_grad_())
    found = saved_attributes(result.grad_fn).get("result")
    if found is None:  # a torch that does not tell
        return None
    return {"object": found is result, "memory": found.data_ptr() == result.data_ptr()}
