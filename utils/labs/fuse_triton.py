"""Runs a Triton kernel in Triton's own interpreter on lab 7's memory; no GPU, and no setting that torch.compile would notice.

TRITON_INTERPRET=1 has to stand before `import triton`, and then holds for the whole process. So it is not used here: the kernel's
plain function is given to the interpreter's own class, whatever the process imported before, and Triton's jit functions that it
calls (tl.sigmoid, tl.cdiv) are interpreted for as long as it runs.

Private Triton API, triton 3.6 to 3.9: triton.runtime.interpreter (InterpretedFunction, interpreter_builder, TensorHandle,
_get_np_dtype, _patch_lang) and the __call__ of JITFunction. Probe: `missing()`. Fallback: the C++ form of the lab.
"""

from __future__ import annotations

import contextlib
import types
import weakref
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from utils.labs.fuse_memory import ROOM, Memory, Region, bits

_MADE: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
NEEDED = ("InterpretedFunction", "interpreter_builder", "TensorHandle", "_get_np_dtype", "_patch_lang")


def missing() -> str:
    """Why Triton's interpreter cannot be used here, or ""."""
    try:
        import triton
        from triton.runtime import interpreter, jit
    except Exception as error:  # a triton that is there and broken raises anything
        return f"Triton cannot be imported here ({type(error).__name__}: {str(error)[:80]})"
    gone = [name for name in NEEDED if not hasattr(interpreter, name)] + ([] if hasattr(jit, "JITFunction") else ["JITFunction"])
    return f"triton {triton.__version__} has no {', '.join(gone)} in its interpreter any more" if gone else ""


class Pointer:
    """What the interpreter takes for a tensor: an address in the lab's memory and a dtype. It copies nothing to and fro."""

    def __init__(self, region: Region, offset: int):
        self.dtype, self._address = region.dtype, region.base + offset * region.itemsize

    def data_ptr(self) -> int:
        return self._address

    def untyped_storage(self) -> Pointer:
        return self

    def cpu(self) -> Pointer:
        return self

    def new_empty(self, *_, **__) -> Pointer:
        return self

    def set_(self, *_) -> None: ...

    def copy_(self, *_) -> None: ...

    def size(self) -> tuple: ...

    def stride(self) -> tuple: ...

    def storage_offset(self) -> int: ...


def run(function: Callable, memory: Memory, grid: tuple[int, int, int], programs: Sequence[tuple[int, int, int]], args, kwargs):
    """Run these programs of the grid, one after the other. Raises what the kernel raises, without the interpreter's wrapping."""
    from triton.runtime.errors import InterpreterError

    interpreted = _interpreted(function)
    with _on(memory, grid, programs), _device_functions(), np.errstate(all="ignore"):
        try:
            interpreted[(len(programs),)](*args, **kwargs)
        except InterpreterError as error:
            cause = error
            while isinstance(cause, InterpreterError) and cause.__cause__ is not None:
                cause = cause.__cause__
            raise cause from None


def _interpreted(function: Callable):
    """The interpreter's form of a kernel; made once, since rewriting the source takes as long as some programs."""
    from triton.runtime import interpreter

    if function not in _MADE:
        _MADE[function] = interpreter.InterpretedFunction(apart(function))
    _MADE[function].fn.__globals__.update(function.__globals__)  # what was defined since
    return _MADE[function]


def apart(function: Callable, each: Callable = lambda value: value) -> Callable:
    """The function with globals of its own, what it names there passed through `each`: the interpreter adds its own names to a
    function's globals, which would hide a missing import."""
    names = dict(function.__globals__)
    names |= {name: each(names[name]) for name in set(names_in(function.__code__)) & set(names)}
    given = function.__name__, function.__defaults__, function.__closure__
    copy = types.FunctionType(function.__code__, names, *given)
    copy.__annotations__ = dict(function.__annotations__)
    return copy


def names_in(code: types.CodeType) -> Iterator[str]:
    """The names that a function's code uses, of globals and of attributes alike."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from names_in(constant)


@contextlib.contextmanager
def _on(memory: Memory, grid: tuple[int, int, int], programs: Sequence[tuple[int, int, int]]) -> Iterator[None]:
    """The interpreter's builder, for as long as this lasts, with the lab's memory and program ids."""
    import triton.language as tl
    from triton.runtime import interpreter

    builder, handle, np_dtype = interpreter.interpreter_builder, interpreter.TensorHandle, interpreter._get_np_dtype

    def set_grid_idx(x, y, z):
        memory.program = programs[x]

    def program_id(axis):
        return handle(np.array([memory.program[axis]], dtype=np.int32), tl.int32)

    def num_programs(axis):
        return handle(np.array([grid[axis]], dtype=np.int32), tl.int32)

    def load(pointers, mask, other, *_):
        dtype = np_dtype(pointers.get_element_ty())
        region, places = _found(memory, pointers.data)
        wanted = np.broadcast_to(mask.data.astype(bool), places.shape)
        got = memory.load(region, places, wanted, dtype)
        if other is not None:
            got = np.where(wanted, got, np.broadcast_to(other.data, got.shape)).astype(dtype)
        return handle(got, pointers.get_element_ty())

    def store(pointers, value, mask, *_):
        region, places = _found(memory, pointers.data)
        wanted = np.broadcast_to(mask.data.astype(bool), places.shape)
        memory.store(region, places, np.broadcast_to(value.data, places.shape), wanted)

    def narrowed(src, dst_type):
        if src.dtype.scalar == tl.float32 and dst_type.scalar == tl.bfloat16:  # the interpreter cuts bits off; a GPU rounds
            import torch

            return handle(bits(src.data, torch.bfloat16), tl.bfloat16)
        return builder.cast_impl(src, dst_type)

    def no_atomics(*_, **__):
        raise TypeError("an atomic operation: no two programs of this lab need to meet, each element is one program's own")

    ours = {
        "set_grid_idx": set_grid_idx,
        "create_get_program_id": program_id,
        "create_get_num_programs": num_programs,
        "create_masked_load": load,
        "create_masked_store": store,
        "create_fp_trunc": narrowed,
        # As the hardware: without propagate_nan, the larger of a NaN and a number is the number.
        "create_maxnumf": lambda lhs, rhs: builder.binary_op(lhs, rhs, np.fmax),
        "create_minnumf": lambda lhs, rhs: builder.binary_op(lhs, rhs, np.fmin),
        "create_atomic_cas": no_atomics,
        "create_atomic_rmw": no_atomics,
    }
    for name, member in ours.items():
        setattr(builder, name, member)
    try:
        yield
    finally:
        for name in ours:
            delattr(builder, name)


def _found(memory: Memory, addresses: np.ndarray) -> tuple[Region | None, np.ndarray]:
    """The region that the addresses lie in, and their places in it; None where it is none, or more than one."""
    lowest, highest = int(addresses.min()) >> ROOM, int(addresses.max()) >> ROOM
    if lowest != highest or not 1 <= lowest <= len(memory.regions):
        return None, addresses.astype(np.int64)
    region = memory.regions[lowest - 1]
    return region, (addresses.astype(np.int64) - region.base) // region.itemsize


@contextlib.contextmanager
def _device_functions() -> Iterator[None]:
    """Jit functions called within a kernel are interpreted, and leave triton.language as they found it."""
    from triton.runtime import interpreter, jit

    def interpreted(self, *args, **kwargs):
        return call(self.fn, *args, **kwargs)

    # The second where the process set TRITON_INTERPRET: its own call leaves triton.language patched.
    before = [(kind, kind.__call__) for kind in (jit.JITFunction, interpreter.InterpretedFunction)]
    for kind, _ in before:
        kind.__call__ = interpreted
    try:
        yield
    finally:
        for kind, its_own in before:
            kind.__call__ = its_own


def call(function: Callable, *args, **kwargs):
    """Call a device function from within a kernel that is being interpreted."""
    from triton.runtime import interpreter

    interpreted = _interpreted(function)
    scope = interpreter._patch_lang(interpreted.fn)
    try:
        return interpreted.rewrite()(*args, **kwargs)
    finally:
        if hasattr(scope, "restore"):
            scope.restore()
