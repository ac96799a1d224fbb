"""The way in to the same kernels as CUDA C++: compiled by NVRTC through torch, for a GPU that Triton does not serve."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from utils.kernels import cuda_text
from utils.kernels.data import Data
from utils.kernels.forms import Form, P, scale
from utils.kernels.triton_door import bound
from utils.measure.device_clock import MeasurementError
from utils.measure.gpu_loops import compiled

MOST_GRID = 65_535


@dataclass(frozen=True)
class Tuning:
    """How the kernel of rows is cut: elements a thread and row, threads a block, rows loaded ahead, streaming loads and stores,
    and how many row groups run at once (0: all; else blocks walk down the rest). As it stands: the best of a sweep on an H200."""

    vector: int = 4
    threads: int = 128
    batch: int = 8
    cache: bool = False
    groups: int = 0


def launch(form: Form, data: Data, tuning: Tuning | None = None) -> Callable[[], None]:
    """A call that runs the form on the data. MeasurementError, in words, where the kernel cannot be compiled or the data is on
    no CUDA device."""
    if not data.x.is_cuda:
        raise MeasurementError("no CUDA device here, so a kernel for one cannot run: the recordings hold a GPU's numbers")
    tuning = tuning or Tuning(vector=8 if form.flat else 4)
    vector = _vector(tuning.vector, data, data.x.numel() if form.flat else data.cols)
    kernel = compiled(
        *cuda_text.source(form, data.dtype, vector=vector, threads=tuning.threads, batch=tuning.batch, cache=tuning.cache)
    )
    rows, cols = data.rows, data.cols
    if max(rows, cols) >= 2**31:
        raise MeasurementError("more than 2^31 rows or columns: such a kernel takes its shape in 32 bits")
    seed = (_signed(data.seed & 0xFFFFFFFF), _signed(data.seed >> 32 & 0xFFFFFFFF))
    limit, by = _signed(bound(form.draw)), scale(form.draw)
    if form.flat:
        block = tuning.threads
        grid = (-(-rows * cols // (vector * block)), 1, 1)
    else:
        groups = -(-rows // cuda_text.rows_of(form))
        block = tuning.threads
        grid = (-(-cols // (vector * block)), min(groups, tuning.groups or MOST_GRID, MOST_GRID), 1)
    arguments = [data.x, data.bias, data.residual, data.out, rows, cols, *seed, limit, P, by]
    return lambda: kernel(grid=grid, block=(block, 1, 1), args=arguments)


def _vector(most: int, data: Data, whole: int) -> int:
    """The widest load that every buffer allows and that divides `whole`, in elements."""
    item = data.x.element_size()
    vector = min(most, 16 // item)
    places = [t.data_ptr() for t in (data.x, data.bias, data.residual, data.out)]
    while vector > 1 and (whole % vector or any(place % (vector * item) for place in places)):
        vector //= 2
    return vector


def _signed(word: int) -> int:
    """A word of 32 bits as the int that torch passes on."""
    return word - (1 << 32) if word >= 1 << 31 else word
