"""Lab 7's memory: every load and store of a kernel goes through here, is checked against the tensors there are, and written down.

A tensor has an address range of its own, far from any other, so that a wild offset meets nothing. A tensor on torch's "meta"
device has no data: its elements have values that follow from their place (`made_up`), and what is stored there is kept in a list.
So a kernel can be run at offsets past 2^31 on any machine.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

from utils.measure import seams

MOST_BYTES = 1 << 26  # of a tensor that is there: a graded one is small
ROOM = 44  # bits of an address within one region: 8 TiB below its base and 8 TiB above
RAW = {torch.float32: np.float32, torch.bfloat16: np.uint16, torch.float16: np.float16, torch.float64: np.float64}
_VIEWED = {torch.bfloat16: torch.int16}  # NumPy has no bf16: its bits


class NoSuchMemory(TypeError):
    """An argument of a kernel that this lab cannot give it; the message says why."""


@dataclass
class Access:
    """Elements of one region that one program touched: their places, and whether it stored to them."""

    launch: int
    region: Region
    places: np.ndarray
    stored: bool


@dataclass
class Region:
    """One piece of memory: `places` count elements from the start of the storage; `layout` (shape, strides, offset) says which
    of them are elements. `raw` is the memory itself, or None for one that is made up."""

    name: str
    number: int
    dtype: torch.dtype
    layout: tuple[tuple[int, ...], tuple[int, ...], int]
    raw: np.ndarray | None
    kept: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def base(self) -> int:
        return (self.number << ROOM) + (1 << (ROOM - 1))

    def belongs(self, places: np.ndarray) -> np.ndarray:
        """Which of the places are elements of the tensor, and no gap between its rows."""
        shape, strides, offset = self.layout
        left, fits = places.astype(np.int64) - offset, np.ones(places.shape, dtype=bool)
        if 0 in shape:
            return ~fits
        for size, stride in sorted(zip(shape, strides), key=lambda pair: -pair[1]):
            if size > 1 and stride > 0:
                fits &= (left // stride >= 0) & (left // stride < size)
                left = left % stride
        return fits & (left == 0)

    def values(self, places: np.ndarray) -> np.ndarray:
        """What lies there, as the bits of the dtype. Places must belong to it."""
        if self.raw is not None:
            return self.raw[places]
        return bits(made_up(self.name, places), self.dtype)

    def put(self, places: np.ndarray, values: np.ndarray) -> None:
        """Store the bits `values`."""
        if self.raw is not None:
            self.raw[places] = values
        else:
            self.kept.append((places, values))


def made_up(name: str, places: np.ndarray) -> np.ndarray:
    """The values of a tensor that is not there: from -3.75 to 3.75 in eighths, exact in every dtype; a place that is 2^32 or 2^31
    off has another one."""
    return (((places.astype(np.int64) * 7 + salt(name) * 13) % 61 - 30) / 8).astype(np.float32)


def salt(name: str) -> int:
    """What makes the made-up values of two tensors different."""
    return sum(map(ord, name))


def bits(values: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    """float32 values as the bits of `dtype`: to nearest, ties to even, as a GPU rounds."""
    there = torch.from_numpy(np.array(values, dtype=np.float32)).to(dtype)
    return there.view(_VIEWED.get(dtype, dtype)).numpy().view(RAW[dtype])


def numbers(raw: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    """The bits of `dtype` as float32."""
    signed = np.array(raw).view(np.int16) if dtype in _VIEWED else np.array(raw)
    return torch.from_numpy(signed).view(dtype).to(torch.float32).numpy()


class Memory:
    """All regions of one call of the learner's function, and all that its kernels did with them."""

    def __init__(self):
        self.regions: list[Region] = []
        self.accesses: list[Access] = []
        self.outside: list[str] = []
        self.launch = 0
        self.program = (0, 0, 0)
        self.trace: list[tuple] | None = (
            None  # where it is a list: (stored, program, region, places, wanted, values) of each access
        )
        self._of: dict = {}
        self._alive: list = []

    def region(self, tensor: torch.Tensor, name: str) -> Region:
        """The region of this tensor's storage; a new one under `name` where it is not known yet."""
        if tensor.dtype not in RAW:
            raise NoSuchMemory(f"{name} is of dtype {tensor.dtype}; the kernels of this lab take {', '.join(map(str, RAW))}")
        if tensor.device.type not in ("cpu", "meta"):
            raise NoSuchMemory(f"{name} lies on {tensor.device}: here the interpreter runs, on the CPU")
        if tensor.device.type == "cpu" and tensor.untyped_storage().nbytes() > MOST_BYTES:
            raise NoSuchMemory(f"{name} takes {tensor.untyped_storage().nbytes():,} bytes: was it made on x's device?")
        key = _key(tensor)
        if key not in self._of:
            raw = None if tensor.device.type == "meta" else _raw(tensor)
            layout = (tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset())
            self._of[key] = Region(name, len(self.regions) + 1, tensor.dtype, layout, raw)
            self.regions.append(self._of[key])
            self._alive.append(tensor)
        return self._of[key]

    def known(self, tensor: torch.Tensor) -> Region | None:
        """The region of this tensor's storage when some kernel or the test has named it, else None."""
        return self._of.get(_key(tensor))

    def load(self, region: Region | None, places: np.ndarray, wanted: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """The bits at `places` (any shape) where `wanted`; NaN where not, and where nothing is."""
        found = poison(places.shape, dtype)
        good = wanted & region.belongs(places) if region else np.zeros(places.shape, dtype=bool)
        self._note("reads", region, places, wanted & ~good)
        if region and good.any():
            found[good] = region.values(places[good])
            self.accesses.append(Access(self.launch, region, places[good], False))
        if self.trace is not None:
            self.trace.append((False, self.program, region, places, wanted, found))
        return found

    def store(self, region: Region | None, places: np.ndarray, values: np.ndarray, wanted: np.ndarray) -> None:
        """Put the bits `values` at `places` where `wanted` and where something is."""
        good = wanted & region.belongs(places) if region else np.zeros(places.shape, dtype=bool)
        self._note("stores to", region, places, wanted & ~good)
        if region and good.any():
            region.put(places[good], values[good])
            self.accesses.append(Access(self.launch, region, places[good], True))
        if self.trace is not None:
            self.trace.append((True, self.program, region, places, wanted, values))

    def _note(self, does: str, region: Region | None, places: np.ndarray, bad: np.ndarray) -> None:
        if bad.any():
            where = f"place {int(places[bad].flat[0]):,} of {region.name}" if region else "an address outside all tensors"
            many = f" and {int(bad.sum()) - 1} more" if bad.sum() > 1 else ""
            self.outside.append(f"program {_program(self.program)} {does} {where}{many}, where no element of it is")


def poison(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """What a lane holds that read nothing: NaN, so that it is seen where it is used."""
    return np.full(shape, 0x7FC0 if dtype == np.uint16 else np.nan if dtype.kind == "f" else 0, dtype=dtype)


def _program(index: tuple[int, int, int]) -> str:
    return str(index[0]) if index[1:] == (0, 0) else str(tuple(index))


def _key(tensor: torch.Tensor) -> tuple:
    """Equal for two tensors on one storage. Meta tensors have no address: there the tensor that a view is of stands for it."""
    if tensor.device.type == "meta" or tensor.untyped_storage().nbytes() == 0:
        return "made up", id(seams.base_of(tensor))
    return "there", tensor.untyped_storage().data_ptr()


def _raw(tensor: torch.Tensor) -> np.ndarray:
    """The tensor's whole storage as a NumPy array of its elements' bits; the memory is shared."""
    whole = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage())
    return whole.view(_VIEWED.get(tensor.dtype, tensor.dtype)).numpy().view(RAW[tensor.dtype])
