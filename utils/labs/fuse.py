"""What lab 7 is graded with: `watch` runs a learner's function and its kernel and tells what they did, `Seen` says it in words.

A kernel is written once, for Triton or in C++, and launched by an ordinary function `host(kernel, *tensors)`. Whatever form it
has, it runs program by program on the CPU on the lab's own memory (utils/labs/fuse_memory.py): each place that it reads or stores
is known, so that "the kernel computed this" is a fact and no guess from the values. Nothing here is timed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from utils.labs import fuse_cpp, fuse_replay, fuse_triton
from utils.labs.fuse_memory import Memory, NoSuchMemory, Region, made_up, numbers
from utils.measure import seams

MOST_PROGRAMS = 20_000  # in the interpreter, a program takes about a millisecond
FAR_PROGRAMS = 3  # of a grid on tensors that are not there
# Ops that make a tensor without writing to it, or look at one in another way: a function that launches a kernel needs them.
NO_WORK = {
    *("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "view", "_unsafe_view", "as_strided", "expand"),
    *("detach", "alias", "t", "transpose", "permute", "select", "slice", "unsqueeze", "squeeze", "_reshape_alias", "unfold"),
}
GET = "on Linux x86-64, pip install triton gets it; for macOS and Windows there is none"
FACTORIES = {"empty", "empty_strided", "zeros", "ones", "full", "rand", "randn", "arange"}  # ops that are told a device
try:
    import triton.language as tl
except Exception:  # not installed, or broken: `forms()` says so

    class _NoTriton:
        """Stands in for triton.language, so that kernels can be defined (and C++ ones used) where Triton is missing."""

        constexpr = int

        def __getattr__(self, name):
            raise fuse_cpp.NotBuilt(f"tl.{name}: {fuse_triton.missing()}. Write the C++ form of this kernel instead.")

    tl = _NoTriton()


@dataclass(frozen=True)
class Op:
    """One op of a chain: the names of the tensors that it reads, the name of the one that it writes, and the floating-point
    operations that it does for an element."""

    name: str
    reads: tuple[str, ...]
    writes: str
    flops: int = 1


class Jit:
    """A Triton kernel of the lab, as source: for the interpreter here, and with `compiled()` for a GPU."""

    def __init__(self, function: Callable):
        self.function, self.__doc__, self.__name__ = function, function.__doc__, function.__name__

    def written(self) -> bool:
        """Whether the body is more than the stub."""
        return "NotImplementedError" not in self.function.__code__.co_names

    def __call__(self, *args, **kwargs):
        """As a device function, from within a kernel."""
        return fuse_triton.call(self.function, *args, **kwargs)

    def compiled(self):
        """The same source under Triton's own decorator."""
        import triton

        return triton.jit(fuse_triton.apart(self.function, lambda value: value.compiled() if isinstance(value, Jit) else value))


def jit(function: Callable) -> Jit:
    """The lab's `@triton.jit`: it keeps the function, so that the interpreter can have it wherever Triton installs."""
    return Jit(function)


def forms() -> str:
    """Which forms of a kernel this machine can run, in one sentence; it never raises."""
    triton, cpp = fuse_triton.missing(), fuse_cpp.missing()
    if not triton:
        other = f"cannot be built here ({cpp})" if cpp else "would run as well"
        return f"Kernels run here in Triton's interpreter, on the CPU. The C++ form {other}."
    if not cpp:
        return f"{triton}; {GET}. Or write the C++ form of each kernel: the same tests, the same points."
    return (
        f"{triton}, and there is no C++ compiler ({cpp}). Exercises 1 and 2 and the written answer need neither: 14 points. For "
        f"the other 29, install one of the two ({GET}), or open the lab on Colab, where Triton is there."
    )


class KernelFailed(RuntimeError):
    """A kernel raised, or could not be launched as it was; the message says why."""


@dataclass
class Seen:
    """What one call did. The texts are empty when nothing is wrong; `out` is what the function returned.

    launches, programs: of kernels. outside: the first place that was touched and holds no element. torch_ops: what else ran, or
    wrote. changed: an input that is no longer what it was.
    """

    out: object
    launches: int
    programs: int
    outside: str
    torch_ops: str
    changed: str
    _memory: Memory
    _inputs: dict[str, torch.Tensor]

    @cached_property
    def read(self) -> dict[str, int]:
        """Bytes read, by tensor's name. An element that one launch reads several times counts once: the cache has it."""
        return _bytes(self._memory, stored=False)

    @cached_property
    def written(self) -> dict[str, int]:
        """Bytes stored, by tensor's name; every store counts."""
        return _bytes(self._memory, stored=True)

    @property
    def moved(self) -> int:
        """All bytes, read and written."""
        return sum(self.read.values()) + sum(self.written.values())

    @property
    def by_the_kernel(self) -> str:
        """Why the result is not the work of the kernel in this call, or ""."""
        no_launch = "" if self.launches else "no kernel was launched"
        return no_launch or _unwritten(self._memory, self.out) or self.torch_ops or self.changed

    def far(self, wanted: Callable[..., np.ndarray]) -> str:
        """For tensors that are not there: "" when what was stored is wanted(*inputs, as float64) at its place, else where not."""
        region = self._memory.known(self.out) if type(self.out) is torch.Tensor else None
        if region is None or region.raw is not None or not region.kept:
            return "no kernel stored anything to the tensor that came back"
        places = np.concatenate([places for places, _ in region.kept])
        got = np.concatenate([numbers(raw, region.dtype) for _, raw in region.kept]).astype(np.float64)
        right = wanted(*(_at(t, name, places, self.out.shape) for name, t in self._inputs.items()))
        with np.errstate(invalid="ignore"):
            wrong = ~(np.abs(got - right) <= 1e-5)
        if wrong.any():
            i = int(np.flatnonzero(wrong)[0])
            return (
                f"element {places[i]:,} is {got[i]:g}; wanted: {right[i]:g} ({int(wrong.sum()):,} of {len(places):,} are wrong)"
            )
        ends = {0, self.out.numel() - 1} - set(places.tolist())
        return f"element {min(ends):,} is stored by none of the programs that ran (first, last, some between)" if ends else ""


def watch(host: Callable, form: tuple[Jit, Callable[[], str]], **tensors: torch.Tensor) -> Seen:
    """What `host(kernel, *tensors)` does with a kernel: the Triton one of `form` where it is written and runs here, else the C++.

    Tensors on the device "meta" are not there: of a grid on them, the first programs, the last and some between are run.
    Raises NotImplementedError when neither form is written, KernelFailed with what went wrong in the kernel.
    """
    memory, ops = Memory(), Counter()
    launcher = Launcher(memory, form)
    for name, tensor in tensors.items():
        memory.region(tensor, name)
    before = {name: _bits(tensor) for name, tensor in tensors.items()}

    not_there = any(tensor.device.type == "meta" for tensor in tensors.values())

    def each(op, run, args, kwargs):
        name = op.removeprefix("aten::").partition(".")[0]
        if not launcher.busy and not_there and name in FACTORIES and torch.device(kwargs.get("device") or "cpu").type != "meta":
            raise KernelFailed("a tensor is made on the CPU, and x is elsewhere: make it on x's device (device=x.device)")
        if not launcher.busy and name not in NO_WORK:
            ops[name] += 1
        return run()

    with torch.no_grad(), seams.watching_calls(each):
        out = host(launcher, *tensors.values())
    changed = [name for name, tensor in tensors.items() if not np.array_equal(before[name], _bits(tensor))]
    region = memory.known(out) if type(out) is torch.Tensor else None
    after = (
        "" if launcher.left.get(region and region.number) == _hash(region) else "the result was written to after the last kernel"
    )
    return Seen(
        out=out,
        launches=memory.launch,
        programs=launcher.programs,
        outside=memory.outside[0] if memory.outside else "",
        torch_ops=f"torch ran {', '.join(ops)} as well" if ops else after if memory.launch and region else "",
        changed=f"the input {changed[0]} is not what it was" if changed else "",
        _memory=memory,
        _inputs=tensors,
    )


class Launcher:
    """What the learner's function gets for its kernel: `kernel[grid](…)`, as in Triton."""

    def __init__(self, memory: Memory, form: tuple[Jit, Callable[[], str]]):
        self._memory, self._triton, self._cpp = memory, *form
        self.busy, self.programs, self.left = False, 0, {}

    def __getitem__(self, grid):
        return lambda *args, **kwargs: self._launch(grid, args, kwargs)

    def __call__(self, *_, **__):
        raise KernelFailed("a kernel is launched with a grid: kernel[(programs,)](…)")

    def _launch(self, grid, args: Sequence, kwargs: dict) -> None:
        self.busy = True
        try:
            self._memory.launch += 1
            self._run(_whole(grid(kwargs) if callable(grid) else grid), args, kwargs)
            self.left = {region.number: _hash(region) for region in self._memory.regions}
        except (NotImplementedError, KernelFailed):
            raise
        except Exception as error:
            raise KernelFailed(f"the kernel failed: {type(error).__name__}: {error}") from error
        finally:
            self.busy = False

    def _run(self, grid: tuple[int, int, int], args: Sequence, kwargs: dict) -> None:
        made = any(isinstance(a, torch.Tensor) and a.device.type == "meta" for a in args)
        total = math.prod(grid)
        self.programs += total
        if total > MOST_PROGRAMS and not made:
            raise KernelFailed(f"a grid of {total:,} programs: give each more elements")
        which = [_index(i, grid) for i in (_some(total) if made else range(total))]
        if self._in_triton():
            self._in_the_interpreter(grid, which, args, kwargs)
            return
        source = self._cpp()
        if type(source) is not str or not source.strip():
            raise KernelFailed("the C++ form returns its source as a text")
        names = fuse_cpp.parameters(source)[1:]
        given = [self._pair(a, name) for a, (_, name) in zip(args, [*names, *[("", "an argument")] * len(args)])]
        fuse_cpp.run(source, self._memory, which, given, {name: self._pair(a, name) for name, a in kwargs.items()})

    def _in_triton(self) -> bool:
        """Whether the Triton form is what counts: it is written and can run here; where neither is written, it says so."""
        why = fuse_triton.missing()
        if self._triton.written() and not why:
            return True
        try:
            self._cpp()
        except NotImplementedError:
            if self._triton.written():
                raise KernelFailed(f"{why}, and the C++ form of this kernel is not written") from None
            raise
        if cannot := fuse_cpp.missing():
            raise KernelFailed(
                forms() if why else f"the Triton form is not written, and the C++ one cannot be built here: {cannot}"
            )
        return False

    def _in_the_interpreter(self, grid, which, args, kwargs) -> None:
        function, names = self._triton.function, list(self._triton.function.__code__.co_varnames)
        pairs = [self._pair(a, n) for a, n in zip(args, [*names, *["an argument"] * len(args)])]
        named = {name: self._pair(a, name) for name, a in kwargs.items()}
        regions = [value[0] for value in (*pairs, *named.values()) if isinstance(value, tuple)]
        key = fuse_replay.key_of(function, grid, which, pairs, named, {"function": _plain, "modules": (tl,)})
        if not which or fuse_replay.replayed(key, self._memory, regions):
            return
        self._memory.trace = []
        given = [fuse_triton.Pointer(*v) if isinstance(v, tuple) else v for v in pairs]
        by_name = {name: fuse_triton.Pointer(*v) if isinstance(v, tuple) else v for name, v in named.items()}
        fuse_triton.run(function, self._memory, grid, which, given, by_name)
        fuse_replay.keep(key, self._memory, regions)

    def _pair(self, value, name: str):
        """A tensor as (region, place of its first element); an int as it is."""
        if isinstance(value, torch.Tensor):
            return self._memory.region(value, name), value.storage_offset()
        if isinstance(value, (bool, float)) or not isinstance(value, int):
            raise NoSuchMemory(f"{name} is a {type(value).__name__}: a kernel of this lab takes tensors and ints")
        return value


# ------------------------------------------------------------------------------------------------ tests' tensors, and comparing


def numbers_like(seed: int, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Random numbers around 0, another draw for each seed."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def far(shape: Sequence[int], stride: Sequence[int] | None = None, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A tensor that is not there, for offsets that no memory here would hold."""
    if stride is None:
        return torch.empty(*shape, dtype=dtype, device="meta")
    return torch.empty_strided(tuple(shape), tuple(stride), dtype=dtype, device="meta")


def differs(got, wanted: torch.Tensor, dtype: torch.dtype = torch.float32) -> str:
    """ "" when `got` is a tensor of this dtype that holds the fp64 tensor `wanted`, rounded once; else what is wrong first.

    fp32 may be off by 2e-6 (a few roundings on numbers around 1); bf16 by what one rounding of `wanted` allows. A NaN is a NaN.
    """
    if type(got) is not torch.Tensor:
        return f"a {type(got).__name__} came back, not a tensor"
    if got.dtype != dtype or tuple(got.shape) != tuple(wanted.shape):
        return f"came back: {got.dtype}, shape {tuple(got.shape)}; wanted: {dtype}, shape {tuple(wanted.shape)}"
    exact, given = wanted.double(), got.double()
    allowed = (exact.float().to(dtype).double() - exact).abs() * 1.02 + 2e-6 * (1 + exact.abs())
    right = torch.where(exact.isfinite(), (given - exact).abs() <= allowed, (given == exact) | (given.isnan() & exact.isnan()))
    if bool(right.all()):
        return ""
    place = tuple(int(i) for i in (~right).nonzero()[0])
    found = f"element {list(place)} is {float(given[place]):.7g}; wanted: {float(exact[place]):.7g}"
    return f"{found} ({int((~right).sum()):,} of {got.numel():,} differ)"


# ------------------------------------------------------------------------------------------------ looking


def _plain(value) -> Callable | None:
    """The plain function of a kernel of the lab; None for anything else."""
    return value.function if isinstance(value, Jit) else None


def _whole(grid) -> tuple[int, int, int]:
    if not isinstance(grid, (tuple, list)) or not 1 <= len(grid) <= 3 or not all(type(n) is int and n >= 0 for n in grid):
        raise KernelFailed(f"a grid is a tuple of one to three whole numbers, such as (8,); this one is {grid!r}")
    return (*grid, 1, 1)[:3]


def _index(i: int, grid: tuple[int, int, int]) -> tuple[int, int, int]:
    return i % grid[0], i // grid[0] % grid[1], i // (grid[0] * grid[1])


def _some(total: int) -> list[int]:
    """The first program, the last and some between."""
    return sorted({i * (total - 1) // (FAR_PROGRAMS - 1) for i in range(FAR_PROGRAMS)} if total else ())


def _bits(tensor: torch.Tensor) -> np.ndarray:
    """A tensor's elements, to be compared bit by bit; nothing for one that is not there."""
    if tensor.device.type == "meta":
        return np.empty(0)
    whole = tensor.detach().clone(memory_format=torch.contiguous_format).view(-1)
    return whole.view(torch.uint8).numpy() if tensor.numel() else np.empty(0)


def _hash(region: Region | None) -> int | None:
    return None if region is None or region.raw is None else hash(region.raw.tobytes())


def _bytes(memory: Memory, stored: bool) -> dict[str, int]:
    """Bytes by tensor: an element that one launch reads twice counts once, one that it stores twice counts twice."""
    places: dict = {}
    for access in memory.accesses:
        if access.stored is stored:
            places.setdefault((access.region.name, access.region.itemsize, access.launch), []).append(access.places.ravel())
    total: Counter = Counter()
    for (name, itemsize, _), found in places.items():
        whole = np.concatenate(found)
        total[name] += itemsize * int(whole.size if stored else np.unique(whole).size)
    return dict(total)


def _unwritten(memory: Memory, out) -> str:
    """Which elements of the result no kernel stored, in words, or ""."""
    if type(out) is not torch.Tensor:
        return f"a {type(out).__name__} came back, not a tensor"
    if out.numel() == 0 or out.device.type == "meta":
        return ""
    if (region := memory.known(out)) is None:
        return "no kernel has seen the tensor that came back"
    where = np.arange(1)
    for size, stride in zip(out.shape, out.stride()):
        where = (where[:, None] + np.arange(size) * stride).ravel()
    stored = [access.places.ravel() for access in memory.accesses if access.stored and access.region is region]
    left = np.setdiff1d(where + out.storage_offset(), np.concatenate(stored) if stored else [])
    return f"{left.size:,} of {out.numel():,} elements of the result were stored by no kernel" if left.size else ""


def _at(tensor: torch.Tensor, name: str, places: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """The values of an input that is not there at the elements `places` of a contiguous result of `shape`, broadcast to it."""
    left, offset = places.astype(np.int64), np.full(places.shape, tensor.storage_offset(), dtype=np.int64)
    for dim in range(1, len(shape) + 1):
        index = left % shape[-dim]
        left = left // shape[-dim]
        if dim <= tensor.dim() and tensor.shape[-dim] > 1:
            offset += index * tensor.stride(-dim)
    return made_up(name, offset).astype(np.float64)
