"""The only file that touches private torch API: each seam with its version range, a probe, a fallback and a test."""

from __future__ import annotations

# ------------------------------------------------------------------ stopwatch: a kernel that spins for a number of cycles
# torch.cuda._sleep: torch 1.0 to 2.13 at least. Probe: `has_cuda_spin()`. Fallback: none; without it device_clock cannot hold
# the queue, and its caller is told so.


def has_cuda_spin() -> bool:
    """Whether this torch still has the spinning kernel (its name, not a device to run it on)."""
    import torch

    return callable(getattr(torch.cuda, "_sleep", None))


def cuda_spin(cycles: int) -> None:
    """Enqueue a kernel on the current stream that spins for `cycles` of the SM clock. RuntimeError where torch lost it."""
    import torch

    if not has_cuda_spin():
        raise RuntimeError(f"torch {torch.__version__} has no torch.cuda._sleep any more: device time cannot be gated here")
    torch.cuda._sleep(int(cycles))


# ------------------------------------------------------------------ lesson 05: a pybind11 call that does next to nothing
# torch._C._is_cow_tensor: seen in torch 2.13. It takes one tensor and reads one flag, so that its price is a lower bound
# for a pybind11 call with two. Probe: `pybind_call()`. Fallback: None; the lesson then shows no price for pybind11.


def pybind_call():
    """torch's own pybind11 function of one tensor that reads a flag, or None where torch lost it or binds it otherwise."""
    import torch

    function = getattr(torch._C, "_is_cow_tensor", None)
    return function if "pybind11" in repr(type(getattr(function, "__self__", None))) or _in_capsule(function) else None


def _in_capsule(function) -> bool:
    """pybind11 before 3.0 keeps its record of a function in a PyCapsule."""
    return type(getattr(function, "__self__", None)).__name__ == "PyCapsule"


# ------------------------------------------------------------------ stages: the TensorImpl behind a Python tensor
# Tensor._cdata: the address of the TensorImpl, torch 0.4 to 2.13 at least. Probe: `has_impl_address()`. Fallback: none; the
# probe's C++ stages are then reported as missing, since a handle passed the ordinary way would take a reference and change
# what is measured.


def has_impl_address() -> bool:
    """Whether this torch still gives out the address of a tensor's TensorImpl."""
    import torch

    return isinstance(getattr(torch.ones(1), "_cdata", None), int)


def impl_address(tensor) -> int:
    """The address of the TensorImpl behind `tensor`, without taking a reference to it. RuntimeError where torch lost it."""
    if not has_impl_address():
        import torch

        raise RuntimeError(f"torch {torch.__version__} has no Tensor._cdata any more: the C++ stages cannot borrow their inputs")
    return tensor._cdata


# ------------------------------------------------------------------ trace: counting instructions under valgrind
# torch._C._valgrind_toggle, _valgrind_toggle_and_dump_stats: client requests that torch's own benchmark tools use, torch 1.7 to
# 2.13 at least (Linux and macOS builds). Probe: `has_valgrind_toggle()`. Fallback: none; the committed call trees are shown.


def has_valgrind_toggle() -> bool:
    """Whether this build of torch carries callgrind's client requests."""
    import torch

    names = ("_valgrind_toggle", "_valgrind_toggle_and_dump_stats")
    return all(callable(getattr(torch._C, name, None)) for name in names)


def valgrind_toggle() -> None:
    """Start collecting when it is off, stop when it is on; nothing outside valgrind."""
    import torch

    torch._C._valgrind_toggle()


def valgrind_dump() -> None:
    """Stop collecting and write what was collected as the next numbered file; nothing outside valgrind."""
    import torch

    torch._C._valgrind_toggle_and_dump_stats()


# ------------------------------------------------------------------ trace: the dispatcher's key sets and tables
# torch._C._dispatch_keys, _dispatch_tls_local_include_set, _dispatch_tls_local_exclude_set, _dispatch_dump_table,
# _dispatch_keyset_full_after, DispatchKey: torch 1.13 to 2.13 at least. Probe: `has_dispatcher()`. Fallback: none; the trace
# names what is gone (`dispatcher_missing`) and leaves those rows out. Key sets are combined by `|`, `&` and `-` only: their
# printed form leaves out the per-backend keys of a functionality (inference mode's exclusion of AutogradCPU).

_DISPATCHER = (
    "_dispatch_keys",
    "_dispatch_tls_local_include_set",
    "_dispatch_tls_local_exclude_set",
    "_dispatch_dump_table",
    "_dispatch_keyset_full_after",
    "DispatchKey",
)


def dispatcher_missing() -> tuple[str, ...]:
    """The names this torch has lost, of those that a dispatch is read with."""
    import torch

    return tuple(name for name in _DISPATCHER if not hasattr(torch._C, name))


def has_dispatcher() -> bool:
    """Whether this torch has all of them."""
    return not dispatcher_missing()


def key_set(tensor):
    """The dispatch key set of a tensor."""
    import torch

    return torch._C._dispatch_keys(tensor)


def thread_key_sets() -> tuple:
    """(keys that this thread includes, keys that it excludes) in every call."""
    import torch

    return torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set()


def dispatch_table(op: str) -> str:
    """The op's table as text, a row per key; `op` is "aten::add.Tensor". RuntimeError for an op that the dispatcher lacks."""
    import torch

    return torch._C._dispatch_dump_table(op)


def keys_among(keys, names) -> tuple[str, ...]:
    """Those of `names` that the key set holds, in their order. Names without a key in this torch are left out."""
    import torch

    known = ((name, getattr(torch._C.DispatchKey, name, None)) for name in names)
    return tuple(name for name, key in known if key is not None and name != "Undefined" and keys.has(key))


def without_key(keys, name: str):
    """The key set without one key."""
    import torch

    return keys.remove(getattr(torch._C.DispatchKey, name))


def keys_below(keys, name: str):
    """What is left of a key set for the re-dispatch that the kernel of key `name` does."""
    import torch

    return keys & torch._C._dispatch_keyset_full_after(getattr(torch._C.DispatchKey, name))


# ------------------------------------------------------------------ trace: the schema of an overload
# OpOverload._schema: torch 1.12 to 2.13 at least. Probe: `has_schema()`. Fallback: the overload's own name, "aten.add.Tensor".


def has_schema() -> bool:
    """Whether an overload tells its schema."""
    import torch

    return hasattr(torch.ops.aten.add.Tensor, "_schema")


def schema_of(overload) -> str:
    """The schema of `torch.ops.aten.add.Tensor` and the like as text, "aten::add.Tensor(Tensor self, …) -> Tensor"."""
    return str(getattr(overload, "_schema", overload))
