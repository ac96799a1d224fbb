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
# _dispatch_keyset_full_after, DispatchKey, _dispatch_dump (registrations, aliases among them): torch 1.13 to 2.13 at least.
# Probe: `has_dispatcher()`. Fallback: none; the trace names what is gone (`dispatcher_missing`) and leaves those rows out. Key
# sets are combined by `|`, `&` and `-` only: their printed form leaves out the per-backend keys of a functionality (inference
# mode's exclusion of AutogradCPU).

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


def registrations(op: str) -> str:
    """What was registered for the op, as text, an entry a line; "" where this torch lost the call. RuntimeError as above."""
    import torch

    dump = getattr(torch._C, "_dispatch_dump", None)
    return dump(op) if dump else ""


def highest_key(keys) -> str:
    """The name of the key of the highest priority in a set; "Undefined" for an empty one."""
    return keys.highestPriorityTypeId().name


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


# ------------------------------------------------------------------ lesson 02: a witness at a key of an op that is there
# torch.library.Library._destroy (takes back what a Library registered), OpOverload.redispatch, `with_keyset=True` and
# `allow_override=True` of Library.impl: torch 2.4 (redispatch 2.1) to 2.13 at least.
# _dispatch_get_computed_kernel_for_dispatch_key with `call_boxed` (the kernel that stood there, callable while an override
# stands): torch 2.8 to 2.13 at least.
# Probe: `has_witness()`. Fallback: none; what ran is then told by torch's own observer, without the keys.


def has_witness() -> bool:
    """Whether a Python function can stand at a key of an op, call the kernel that it stands before, and be taken back."""
    import torch

    return (
        callable(getattr(torch.library.Library, "_destroy", None))
        and callable(getattr(torch._C, "_dispatch_get_computed_kernel_for_dispatch_key", None))
        and callable(getattr(torch._ops.OpOverload, "redispatch", None))
    )


def kernel_at(op: str, key: str):
    """What stands at a key of an op now: called as kernel(keys, *arguments), it is run with that key set."""
    import torch

    return torch._C._dispatch_get_computed_kernel_for_dispatch_key(op, key).call_boxed


def redispatch(overload, keys, *arguments, **options):
    """Call an overload again with what is left of a key set."""
    return overload.redispatch(keys, *arguments, **options)


def take_back(library) -> None:
    """Undo everything that a torch.library.Library registered."""
    library._destroy()


# ------------------------------------------------------------------ lesson 02: layers
# torch._C._disabled_torch_function_impl: what torch's documentation gives a subclass that hooks in below __torch_function__,
# torch 1.13 to 2.13 at least. torch._dynamo.backends.common.aot_autograd and functorch.compile.make_boxed_func: what it gives
# for a backend of one's own, torch 2.0 to 2.13 at least. Probe: `has_layers()`. Fallback: none for the backend, and the cell says
# that it cannot compile; for the first, what every subclass inherits, which costs a detour.


def has_layers() -> bool:
    """Whether this torch still has both: the marker that a subclass takes, and what a backend of one's own is built of."""
    import torch

    try:
        from functorch.compile import make_boxed_func
        from torch._dynamo.backends.common import aot_autograd
    except ImportError:
        return False
    return hasattr(torch._C, "_disabled_torch_function_impl") and callable(make_boxed_func) and callable(aot_autograd)


def no_torch_function():
    """What a subclass sets as __torch_function__ to be met by the dispatcher first."""
    import torch

    found = getattr(torch._C, "_disabled_torch_function_impl", None)
    return found or vars(torch.Tensor)["__torch_function__"]


def dispatch_mode() -> type:
    """TorchDispatchMode, which torch documents and keeps in a module with an underscore (1.13 to 2.13 at least)."""
    from torch.utils._python_dispatch import TorchDispatchMode

    return TorchDispatchMode


def fake_mode():
    """A FakeTensorMode: tensors that have all but data (torch 2.0 to 2.13 at least)."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    return FakeTensorMode()


def wrapper_around(kind: type, inner):
    """A tensor of the subclass `kind` that looks like `inner` and has no memory of its own (torch 1.11 to 2.13 at least)."""
    import torch

    return torch.Tensor._make_wrapper_subclass(kind, inner.shape, strides=inner.stride(), dtype=inner.dtype, device=inner.device)


def over_all(function, nested):
    """`function` of everything in nested tuples, lists and dicts (torch.utils._pytree, torch 1.8 to 2.13 at least)."""
    from torch.utils._pytree import tree_map

    return tree_map(function, nested)


def graph_backend(ops: list[str], run):
    """A backend for torch.compile: forward graphs are written down into `ops` and run as `run(module, *arguments)`, by Python.

    RuntimeError where torch lost what it is built of.
    """
    import torch

    try:
        from functorch.compile import make_boxed_func
        from torch._dynamo.backends.common import aot_autograd
    except ImportError as error:
        raise RuntimeError(f"torch {torch.__version__} lets no backend be made as before: {error}") from error

    def forward(module, inputs):
        ops[:] = [
            str(n.target).removeprefix("aten.").removesuffix(".default") for n in module.graph.nodes if n.op == "call_function"
        ]
        return make_boxed_func(lambda *arguments: run(module, *arguments))

    return aot_autograd(fw_compiler=forward, bw_compiler=lambda module, inputs: make_boxed_func(module.forward))


# ------------------------------------------------------------------ trace: the schema of an overload
# OpOverload._schema: torch 1.12 to 2.13 at least. Probe: `has_schema()`. Fallback: the overload's own name, "aten.add.Tensor".


def has_schema() -> bool:
    """Whether an overload tells its schema."""
    import torch

    return hasattr(torch.ops.aten.add.Tensor, "_schema")


def schema_of(overload) -> str:
    """The schema of `torch.ops.aten.add.Tensor` and the like as text, "aten::add.Tensor(Tensor self, …) -> Tensor"."""
    return str(getattr(overload, "_schema", overload))


# ------------------------------------------------------------------ autograd: every op that runs, below autograd
# torch.utils._python_dispatch.TorchDispatchMode: torch 1.13 to 2.13 at least. Probe: `has_dispatch_mode()`. Fallback: none; what
# counts with it raises RuntimeError and says which name is gone.


def has_dispatch_mode() -> bool:
    """Whether this torch still has modes that see every op."""
    try:
        from torch.utils._python_dispatch import TorchDispatchMode
    except ImportError:
        return False
    return hasattr(TorchDispatchMode, "__torch_dispatch__")


def watching_calls(each):
    """A context manager; inside, every op below autograd runs as `each(op, run, args, kwargs)`, whose result it gives back.

    `op` is the op's name ("aten::add.Tensor"), `run()` runs it, `args` and `kwargs` are what it was called with. Backward is
    seen as well, on a GPU's backward thread too (the mode is part of the thread state that autograd hands on). RuntimeError
    where torch lost the mode.
    """
    if not has_dispatch_mode():
        import torch

        raise RuntimeError(f"torch {torch.__version__} has no TorchDispatchMode any more: ops cannot be watched here")
    from torch.utils._python_dispatch import TorchDispatchMode

    class Calls(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            return each(func.name(), lambda: func(*args, **kwargs), args, kwargs)

    return Calls()


def watching_ops(each):
    """As `watching_calls`; `each(op, given, results)` is called after every op, with lists of tensors."""

    def after(op, run, args, kwargs):
        out = run()
        each(op, tensors_in((args, kwargs)), tensors_in(out))
        return out

    return watching_calls(after)


def tensors_in(thing) -> list:
    """The tensors in arguments or results, which may stand in lists, tuples and dicts."""
    import torch

    if isinstance(thing, torch.Tensor):
        return [thing]
    if isinstance(thing, dict):
        thing = thing.values()
    elif not isinstance(thing, (list, tuple)):
        return []
    return [t for part in thing for t in tensors_in(part)]


# ------------------------------------------------------------------ autograd: what a node saved
# The attributes of a node that begin with `_saved_` (named in torch's notes on autograd, and still private): torch 1.9 to 2.13 at
# least. Probe: `has_saved_attributes()`. Fallback: an empty dict; the graph is then shown without them.

_SAVED = "_saved_"


def has_saved_attributes() -> bool:
    """Whether a node tells what it saved."""
    import torch

    return "alpha" in saved_attributes((torch.ones(1, requires_grad=True) + torch.ones(1)).grad_fn)


def saved_attributes(node) -> dict:
    """What a node saved, by name: {"other": a tensor} for a product, {"alpha": 1} for an add. Tensors are unpacked anew.

    One that can no longer be unpacked (changed, or freed by a backward) stands as the text of the error.
    """
    found = {}
    for name in dir(node):
        if name.startswith(_SAVED):
            try:
                found[name.removeprefix(_SAVED)] = getattr(node, name)
            except RuntimeError as error:
                found[name.removeprefix(_SAVED)] = str(error).partition("\n")[0]
    return found


# ------------------------------------------------------------------ autograd: the version counter of a tensor
# Tensor._version: torch 0.4 to 2.13 at least. Probe: `has_version()`. Fallback: none; version() raises RuntimeError.


def has_version() -> bool:
    """Whether a tensor still tells its version counter."""
    import torch

    return isinstance(getattr(torch.ones(1), "_version", None), int)


def version(tensor) -> int:
    """How often the tensor's memory was written in place. RuntimeError for an inference tensor, which does not count."""
    if not has_version():
        import torch

        raise RuntimeError(f"torch {torch.__version__} has no Tensor._version any more: version counters cannot be read")
    return tensor._version


# ------------------------------------------------------------------ autograd: how many handles refer to a tensor
# Tensor._use_count: seen in torch 2.11 and 2.13. Probe: `has_use_count()`. Fallback: None; what compares counts says so.


def has_use_count() -> bool:
    """Whether a tensor tells how many C++ handles refer to it."""
    import torch

    return use_count(torch.ones(1)) is not None


def use_count(tensor) -> int | None:
    """How many C++ handles refer to this tensor, or None where torch does not tell."""
    count = getattr(tensor, "_use_count", None)
    return count() if callable(count) else None


# ------------------------------------------------------------------ autograd: whose view a tensor is
# Tensor._base: torch 0.4 to 2.13 at least. Probe: `has_base()`. Fallback: None; the lesson then leaves view tracking
# out, and lab 7 takes a view of a tensor without memory for a tensor of its own.


def has_base() -> bool:
    """Whether a view still tells its base."""
    import torch

    return knows_base(torch.ones(2)[:1]) is True


def knows_base(tensor) -> bool | None:
    """Whether the tensor is known to be a view of another; None where torch does not tell."""
    missing = object()
    base = getattr(tensor, "_base", missing)
    return None if base is missing else base is not None


def base_of(tensor):
    """The tensor that this one is a view of; the tensor itself where it is none, or where torch does not tell."""
    base = getattr(tensor, "_base", None)
    return tensor if base is None else base


# ------------------------------------------------------------------ autograd: a torch.compile backend that shows both graphs
# torch._dynamo.backends.common.aot_autograd: torch 2.0 to 2.13 at least. Probe: `has_aot_backend()`. Fallback: the backend
# "aot_eager", which compiles the same graphs and shows none.


def has_aot_backend() -> bool:
    """Whether AOTAutograd can be asked for the graphs that it makes."""
    try:
        from torch._dynamo.backends.common import aot_autograd
    except Exception:  # importing the compiler may fail in many ways, and none of them is ours
        return False
    return callable(aot_autograd)


def aot_backend(graphs: dict):
    """A backend for torch.compile that runs the traced graphs as they are, and puts them into `graphs` by pass."""
    if not has_aot_backend():
        return "aot_eager"
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    def keeping(name):
        def compiler(module, example_inputs):
            graphs[name] = module
            return make_boxed_func(module.forward)

        return compiler

    return aot_autograd(fw_compiler=keeping("forward"), bw_compiler=keeping("backward"))


# ------------------------------------------------------------------ launch: kernels of our own, compiled at run time
# torch.cuda._compile_kernel (NVRTC) and the driver's handle that its result keeps (`.func`): torch 2.8 to 2.13 at least. Probe:
# `has_cuda_kernels()`. Fallback: none; without it the launch instruments say that nothing was stamped on the device.


def has_cuda_kernels() -> bool:
    """Whether this torch can compile a CUDA kernel from text (its name, not a device or a compiler)."""
    import torch

    return callable(getattr(torch.cuda, "_compile_kernel", None))


def cuda_kernel(source: str, name: str):
    """A callable for the kernel `name` of the CUDA text `source`: `kernel(grid=…, block=…, args=[…])`. RuntimeError, and whatever
    the compiler raises, where it cannot be made."""
    import torch

    if not has_cuda_kernels():
        raise RuntimeError(f"torch {torch.__version__} has no torch.cuda._compile_kernel: no kernel can be compiled at run time")
    return torch.cuda._compile_kernel(source, name)


def cuda_kernel_handle(kernel) -> int:
    """The driver's handle (CUfunction) of such a kernel. RuntimeError where torch keeps it elsewhere."""
    function = getattr(kernel, "func", None)
    value = getattr(function, "value", function)
    if not isinstance(value, int):
        raise RuntimeError("torch no longer keeps the driver's handle of a compiled kernel as `.func`")
    return value


# ------------------------------------------------------------------ launch: torch's own launch of a kernel that does nothing
# at::cuda::sleep(int64_t) of libtorch_cuda, the C++ function behind torch.cuda._sleep: torch 1.0 to 2.13 at least, by its Itanium
# name. Probe: `has_torch_launch()`. Fallback: None; torch's own launch is then not priced apart from the op.


def has_torch_launch() -> bool:
    """Whether a CUDA build of torch still has that function; a CPU build has no launch to lose."""
    import torch

    return torch.version.cuda is None or torch_launch() is not None


def torch_launch() -> int | None:
    """The address of a C++ function that launches a spin of so many cycles as torch launches its kernels; None without one."""
    import ctypes
    from pathlib import Path

    import torch

    library = Path(torch.__file__).parent / "lib" / "libtorch_cuda.so"
    try:
        function = ctypes.CDLL(str(library))["_ZN2at4cuda5sleepEl"]
    except (OSError, AttributeError):
        return None
    return ctypes.cast(function, ctypes.c_void_p).value


# ------------------------------------------------------------------ fuse: the text that torch.compile generates
# torch._inductor.utils.run_and_get_code: torch 2.1 to 2.13 at least. Probe: `has_generated_code()`. Fallback: none; the lesson
# says that this torch does not show what it generated.


def has_generated_code() -> bool:
    """Whether this torch still gives out the code that its compiler wrote."""
    try:
        from torch._inductor.utils import run_and_get_code
    except ImportError:
        return False
    return callable(run_and_get_code)


def generated_code(compiled, *arguments) -> list[str]:
    """The modules that torch.compile writes for a first call of `compiled` with these arguments. RuntimeError where torch lost
    the way to them, and whatever the compiler raises."""
    import torch

    if not has_generated_code():
        raise RuntimeError(f"torch {torch.__version__} no longer shows the code that it generates")
    from torch._inductor.utils import run_and_get_code

    return list(run_and_get_code(compiled, *arguments)[1])


# ------------------------------------------------------------------ scoreboard: what a compiled callable was written as
# OptimizedModule._orig_mod and function._torchdynamo_orig_callable: torch 2.1 to 2.13 at least. Probe: `has_originals()`.
# Fallback: a compiled callable is not known as one, and the scoreboard counts the ops that it runs while it is watched.


def has_originals() -> bool:
    """Whether a function that torch.compile was given can be found again from what it made (nothing is compiled here)."""
    import torch

    def f(x):
        return x

    try:
        return original_of(torch.compile(f)) is f
    except Exception:  # a Python that dynamo does not know yet
        return False


def original_of(fn):
    """The module or function that torch.compile was given for `fn`; None where `fn` is not compiled."""
    found = getattr(fn, "_orig_mod", None)
    return found if found is not None else getattr(fn, "_torchdynamo_orig_callable", None)


# ------------------------------------------------------------------ memory_plan: the CUDA allocator's own history
# torch.cuda.memory._record_memory_history (with `context`) and ._snapshot: torch 2.1 to 2.13 at least. Probe:
# `has_memory_history()`. Fallback: the profiler's memory events, whose sizes the allocator has rounded up; the trace says so.


def has_memory_history() -> bool:
    """Whether this torch still keeps a history of what its CUDA allocator gave and took back (the names, not a device)."""
    import torch

    names = ("_record_memory_history", "_snapshot")
    return all(callable(getattr(torch.cuda.memory, name, None)) for name in names)


def memory_history(on: bool) -> None:
    """Begin (with an empty history) or end the recording, without call stacks. RuntimeError where torch lost it."""
    import torch

    if not has_memory_history():
        raise RuntimeError(f"torch {torch.__version__} no longer keeps a history of its CUDA allocator")
    if on:
        torch.cuda.memory._record_memory_history(enabled=None)
        torch.cuda.memory._record_memory_history(enabled="all", context=None, max_entries=200_000)
    else:
        torch.cuda.memory._record_memory_history(enabled=None)


def allocator_events(device: int = 0) -> list[dict]:
    """What the recording holds of this device: dicts with "action" (alloc, free_requested, …), "addr" and "size" (requested)."""
    import torch

    return [dict(entry) for entry in torch.cuda.memory._snapshot()["device_traces"][device]]


# ------------------------------------------------------------------ memory_plan: the memory that cuBLAS keeps
# torch._C._cuda_clearCublasWorkspaces: torch 1.11 to 2.13 at least, in CUDA builds. Probe: `has_blas_workspaces()`. Fallback:
# False; a workspace is then named by its size alone.


def has_blas_workspaces() -> bool:
    """Whether a CUDA build of torch can give cuBLAS's memory back; a CPU build has none to give."""
    import torch

    return torch.version.cuda is None or callable(getattr(torch._C, "_cuda_clearCublasWorkspaces", None))


def clear_blas_workspaces() -> bool:
    """Give back what cuBLAS keeps, if this torch can; whether it did."""
    import torch

    clear = getattr(torch._C, "_cuda_clearCublasWorkspaces", None)
    if torch.version.cuda is None or not callable(clear):
        return False
    clear()
    return True


# ------------------------------------------------------------------ capture: the overload of an op that writes where it is told
# OpOverload._schema, its arguments (`name`, `type`, `is_out`, `alias_info`) and OpOverloadPacket.overloads(): torch 1.12 to 2.13
# at least. Probe: `has_out_overloads()`. Fallback: None; a recorded call is then replayed into a result of its own and copied.


def has_out_overloads() -> bool:
    """Whether the overloads of an op still tell which of them takes its output."""
    import torch

    found = out_overload(torch.ops.aten.add.Tensor)
    return found is not None and found[1] == ("out",)


def overload_named(name: str):
    """The overload behind a name as `watching_calls` gives it: "aten::add.Tensor"."""
    import torch

    space, _, rest = name.partition("::")
    packet, _, overload = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, space), packet), overload or "default")


def out_overload(overload):
    """(the sibling of `overload` that takes the same arguments and its outputs, the names of these), or None without one."""
    schema = getattr(overload, "_schema", None)
    packet = getattr(overload, "overloadpacket", None)
    if schema is None or packet is None:
        return None
    wanted = [(a.name, str(a.type)) for a in schema.arguments]
    for name in packet.overloads():
        other = getattr(packet, name)
        outs = tuple(a.name for a in other._schema.arguments if getattr(a, "is_out", False))
        if outs and [(a.name, str(a.type)) for a in other._schema.arguments if a.name not in outs] == wanted:
            return other, outs
    return None


def written_arguments(overload) -> tuple[str, ...]:
    """The names of the arguments that this overload writes to; () where torch does not tell, or where it writes to none."""
    schema = getattr(overload, "_schema", None)
    written = (a for a in getattr(schema, "arguments", ()) if a.alias_info is not None and a.alias_info.is_write)
    return tuple(a.name for a in written)


def argument_names(overload) -> tuple[str, ...]:
    """The names of an overload's arguments, in order; () where torch does not tell."""
    return tuple(a.name for a in getattr(getattr(overload, "_schema", None), "arguments", ()))


# ------------------------------------------------------------------ capture: how many nodes a CUDA graph has
# torch.cuda.CUDAGraph(keep_graph=True), its instantiate() and raw_cuda_graph(): torch 2.8 to 2.13 at least; cuGraphGetNodes of
# the driver. Probe: `has_kept_graphs()`. Fallback: a graph without them, and None for the number of its nodes.


def has_kept_graphs() -> bool:
    """Whether this torch can keep the graph that it captured (its names, not a device)."""
    import torch

    return callable(getattr(torch.cuda.CUDAGraph, "raw_cuda_graph", None))


def cuda_graph():
    """A torch.cuda.CUDAGraph, one that keeps its graph where torch can."""
    import torch

    if has_kept_graphs():
        try:
            return torch.cuda.CUDAGraph(keep_graph=True)
        except TypeError:
            pass
    return torch.cuda.CUDAGraph()


def cuda_graph_nodes(graph) -> int | None:
    """The nodes of a captured graph by the driver, or None where torch or the driver does not tell. Instantiates it."""
    import ctypes

    if not has_kept_graphs():
        return None
    try:
        graph.instantiate()
        count = ctypes.c_size_t(0)
        driver = ctypes.CDLL("libcuda.so.1")
        failed = driver.cuGraphGetNodes(ctypes.c_void_p(graph.raw_cuda_graph()), None, ctypes.byref(count))
    except (OSError, RuntimeError, AttributeError, TypeError):
        return None
    return None if failed else count.value


# ------------------------------------------------------------------ capture: code compiled ahead of time, and empty caches
# torch._inductor.aoti_compile_and_package and aoti_load_package (in torch's own manual): torch 2.6 to 2.13 at least.
# torch._inductor.utils.fresh_cache: torch 2.8 to 2.13 at least, fresh_inductor_cache before it. Probe: `has_aot_inductor()`.
# Fallback: none for either; RuntimeError says which name is gone.


def has_aot_inductor() -> bool:
    """Whether this torch can compile an exported program ahead of time, and compile as if nothing had been compiled before."""
    try:
        import torch._inductor as inductor
    except Exception:  # importing the compiler may fail in many ways, and none of them is ours
        return False
    return callable(getattr(inductor, "aoti_compile_and_package", None)) and _fresh_cache() is not None


def _fresh_cache():
    from torch._inductor import utils

    return getattr(utils, "fresh_cache", None) or getattr(utils, "fresh_inductor_cache", None)


def compiled_ahead(exported, path: str):
    """The exported program compiled into the package `path` and loaded: called with the program's inputs."""
    import torch

    if not has_aot_inductor():
        raise RuntimeError(f"torch {torch.__version__} lacks torch._inductor.aoti_compile_and_package: nothing is compiled ahead")
    return torch._inductor.aoti_load_package(torch._inductor.aoti_compile_and_package(exported, package_path=path))


def nothing_cached():
    """A context manager; inside, torch.compile finds nothing that was compiled before, in memory or on disk."""
    import torch

    try:
        fresh = _fresh_cache()
    except ImportError:
        fresh = None
    if fresh is None:
        raise RuntimeError(f"torch {torch.__version__} lacks torch._inductor.utils.fresh_cache: its caches cannot be left out")
    return fresh()


# ------------------------------------------------------------------ capture: forward and backward traced as one graph
# torch._functorch.aot_autograd.aot_export_joint_simple: torch 2.1 to 2.13 at least. Probe: `has_joint_graph()`. Fallback: none;
# the lesson says that this torch does not show the joint graph, and shows its two halves.


def has_joint_graph() -> bool:
    """Whether AOTAutograd can still be asked for the graph of forward and backward together."""
    try:
        from torch._functorch.aot_autograd import aot_export_joint_simple
    except Exception:  # importing the compiler may fail in many ways, and none of them is ours
        return False
    return callable(aot_export_joint_simple)


def joint_graph(f, inputs):
    """The fx graph of f(*inputs) and its backward together. RuntimeError where torch lost the way to it."""
    import torch

    if not has_joint_graph():
        raise RuntimeError(f"torch {torch.__version__} has no aot_export_joint_simple any more: the joint graph is not shown")
    from torch._functorch.aot_autograd import aot_export_joint_simple

    return aot_export_joint_simple(lambda *given: (f(*given),), tuple(inputs), trace_joint=True)


# ------------------------------------------------------------------ ops on lists of tensors
# torch._foreach_<op>: what optimisers with foreach=True call, torch 1.9 to 2.13 at least. Probe: `has_foreach()`. Fallback: none;
# where they are lost the seam says so, and lab 8 has no list op to record.


def has_foreach() -> bool:
    """Whether ops on lists of tensors can still be called by these names."""
    import torch

    return all(hasattr(torch, f"_foreach_{op}") for op in ("add", "add_", "mul", "mul_", "exp"))


def foreach(op: str):
    """The op on lists of tensors: `foreach("add")([a, b], 1.0)` is [a + 1, b + 1]. RuntimeError where torch lost it."""
    import torch

    found = getattr(torch, f"_foreach_{op}", None)
    if found is None:
        raise RuntimeError(f"torch {torch.__version__} has no op {op!r} on lists of tensors")
    return found
