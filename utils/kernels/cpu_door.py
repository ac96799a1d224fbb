"""The way in to the chain as C++ on a CPU (`csrc/fused_tail.cpp`): vectors, threads, and stores past the caches; fp32.

Compiled on first use. It draws as the GPU's kernels do with eight halves a call: the same seed gives the same mask.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from utils.kernels import gelu
from utils.kernels.data import Data
from utils.kernels.forms import SHIFT, Form, scale, threshold
from utils.measure import either_clock
from utils.measure.device_clock import MeasurementError
from utils.measure.probe import Probe, ProbeError, Unit, build_probe

UNIT = Unit("fused_tail")
TERMS = gelu.DEGREE_FP32 + 1  # as in csrc/fused_tail.cpp
_POINTER, _INT64, _INT32, _FLOAT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32, ctypes.c_float


class Job(ctypes.Structure):
    """`Job` of csrc/fused_tail.cpp."""

    _fields_ = [
        ("x", _POINTER),
        ("bias", _POINTER),
        ("residual", _POINTER),
        ("out", _POINTER),
        ("rows", _INT64),
        ("cols", _INT64),
        ("adds", _INT64),
        ("shift", _FLOAT),
        ("scale", _FLOAT),
        ("reach", _FLOAT),
        ("gelu", _INT32),
        ("p", _FLOAT * TERMS),
        ("seed", ctypes.c_uint64),
        ("threshold", ctypes.c_uint32),
        ("drop", _INT32),
        ("streaming", _INT32),
        ("threads", _INT32),
    ]


@cache
def _run() -> Callable:
    return _function("tail_run", ctypes.c_double, _POINTER, _INT64)


def _function(name: str, result, *arguments) -> Callable:
    try:
        build_probe("cpu", only=(UNIT,))
        return Probe((UNIT,)).function(UNIT.source, name, result, arguments)
    except ProbeError as error:
        raise MeasurementError(f"the C++ chain could not be built here: {error}") from None


def why_not() -> str:
    """Why there is no C++ chain on this machine, in words; "" where there is one (it is compiled then, some ten seconds once)."""
    try:
        _run()
    except MeasurementError as error:
        return str(error)
    return ""


def words(first: int, seed: int):
    """The chain's own words for some counters from `first` on, [4, some] of uint32: what `philox.words` must give as well."""
    import numpy as np

    out = (ctypes.c_uint32 * 64)()
    function = _function("tail_words", ctypes.c_int, ctypes.c_uint64, ctypes.c_uint64, _POINTER)
    lanes = function(first, seed, ctypes.addressof(out))
    return np.array(out[: 4 * lanes], dtype=np.uint32).reshape(4, lanes)


@dataclass(frozen=True)
class Chain:
    """A form on one set of buffers: `chain()` runs it once; `chain(n)` gives the seconds of n passes, as an arm of a race."""

    job: Job
    kept: tuple

    def __call__(self, times: int = 1) -> float:
        seconds = _run()(ctypes.addressof(self.job), times)
        if seconds < 0:
            raise MeasurementError("the C++ chain cannot run this job")
        return seconds

    def entry(self) -> tuple[int, int, object]:
        """(address of the C function, address of its job, what must live as long as they are called): for a list in C++."""
        return ctypes.cast(_run(), _POINTER).value, ctypes.addressof(self.job), self


def launch(form: Form, data: Data, *, streaming: bool = True, threads: int = 0) -> Chain:
    """The form on the data, ready to run: `streaming` stores past the caches (where rows are whole lines), `threads` 0 takes
    torch's number. A drawing form draws eight halves a call, however it says to draw, and GELU is the cheap exact one.

    MeasurementError, in words, without a compiler, for another dtype than fp32 or tensors that are not contiguous on the CPU.
    """
    _run()
    used = [t for t in (*data.parts(form), data.out) if t is not None]
    if data.dtype != "fp32" or any(t.is_cuda or not t.is_contiguous() for t in used):
        raise MeasurementError("the C++ chain takes contiguous fp32 tensors on the CPU")
    degree, reach = gelu.for_dtype("fp32")
    x, bias, residual = (None if t is None else t.data_ptr() for t in data.parts(form))
    job = Job(
        x=x,
        bias=bias,
        residual=residual,
        out=data.out.data_ptr(),
        rows=data.rows,
        cols=data.cols,
        adds=form.adds,
        shift=SHIFT,
        scale=scale("eight") if form.draw else 1.0,
        reach=reach,
        gelu=bool(form.gelu),
        p=(_FLOAT * TERMS)(*gelu.coefficients(degree, reach)),
        seed=data.seed,
        threshold=threshold("eight") if form.draw else 0,
        drop=bool(form.draw),
        streaming=streaming,
        threads=threads or either_clock.threads(),
    )
    return Chain(job, tuple(used))
