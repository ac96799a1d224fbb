"""The way in to the Triton kernels: whether Triton is there, how a form is launched with a tuning, and why not, in words."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass

from utils.kernels import gelu
from utils.kernels.cuda_text import rows_of
from utils.kernels.data import Data
from utils.kernels.forms import Form, P, scale, threshold
from utils.measure.device_clock import MeasurementError

MISSING = "Triton is not installed (it has no package for macOS and Windows): the same kernels stand as CUDA and as C++"
MOST_GRID = 65_535  # programs along the second axis of a grid


@dataclass(frozen=True)
class Tuning:
    """How the kernel of rows is cut: columns of a program, warps, rows loaded ahead, and what the caches are told."""

    block: int = 512
    warps: int = 4
    batch: int = 8
    across: bool = True
    cache: str = ""
    evict: str = ""


def installed() -> bool:
    """Whether Triton can be imported, without importing it."""
    return importlib.util.find_spec("triton") is not None


def kernels():
    """The module of the kernels. Raises MeasurementError, in words, without Triton."""
    try:
        from utils.kernels import triton_kernels
    except ImportError as error:
        raise MeasurementError(MISSING if not installed() else f"Triton cannot be imported: {error}") from None
    return triton_kernels


def bound(draw: str) -> int:
    """What a kernel compares its word with: dropout's threshold, of 32 bits."""
    return threshold(draw) << (16 if draw == "eight" else 0) if draw and draw != "rand" else 0


def constants(form: Form, dtype: str, tuning: Tuning, whole: bool) -> dict:
    """The compile-time arguments of the kernel of rows."""
    degree, reach = gelu.for_dtype(dtype)
    rows = rows_of(form)
    return {
        "C": gelu.coefficients(degree, reach),
        "REACH": reach,
        "ADDS": form.adds,
        "BIAS": form.bias,
        "GELU": form.gelu,
        "DRAW": form.draw,
        "RESIDUAL": form.residual,
        "GROUP": rows,
        "BATCH": min(tuning.batch, rows),
        "BLOCK": tuning.block,
        "WHOLE": whole,
        "ACROSS": tuning.across,
        "CACHE": tuning.cache,
        "EVICT": tuning.evict,
    }


def flat_constants(form: Form, block: int) -> dict:
    """The compile-time arguments of the flat kernel."""
    return {"BIAS": form.bias, "GELU": form.gelu, "DRAW": form.draw, "RESIDUAL": form.residual, "BLOCK": block}


def launch(form: Form, data: Data, tuning: Tuning | None = None) -> Callable[[], object]:
    """A call that runs the form on the data. MeasurementError without Triton; what Triton raises where it cannot compile comes
    with the first call."""
    found, tuning = kernels(), tuning or default(form, data.dtype, data.cols)
    x, out = data.x, data.out
    n, cols = x.numel(), data.cols
    given = [data.bias, data.residual]
    if form.flat:
        grid = (-(-n // tuning.block),)
        rest = flat_constants(form, tuning.block) | {"num_warps": tuning.warps}
        return lambda: found.flat[grid](x, *given, out, n, cols, data.seed, P, scale(form.draw), **rest)
    rows = rows_of(form)
    whole = data.rows % rows == 0 and cols % tuning.block == 0
    tiles, groups = -(-cols // tuning.block), -(-data.rows // rows)
    if groups > MOST_GRID and tuning.across:
        tuning = Tuning(tuning.block, tuning.warps, tuning.batch, False, tuning.cache, tuning.evict)
    grid = (tiles, groups) if tuning.across else (groups, tiles)
    rest = constants(form, data.dtype, tuning, whole) | {"num_warps": tuning.warps}
    limit, by = bound(form.draw), scale(form.draw)
    return lambda: found.rows_of[grid](x, *given, out, data.rows, cols, data.seed, limit, by, **rest)


def default(form: Form, dtype: str, cols: int) -> Tuning:
    """Four elements a lane and row, four warps, eight rows ahead: the best of a sweep on an H200, for each form; narrower where a
    row is short. The flat kernel has eight elements a lane."""
    if form.flat:
        return Tuning(block=1024)
    block, warps = 512, 4
    while block // 2 >= cols and block > 64:
        block, warps = block // 2, max(1, warps // 2)
    return Tuning(block, warps)
