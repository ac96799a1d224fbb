"""A cheap exact GELU: max(x, 0) - t 2^p(t) with t = min(|x|, reach) and p a short polynomial; how it is fitted and checked.

gelu(x) = x Phi(x) = max(x, 0) - |x| Q(|x|), where Q(t) = erfc(t / sqrt 2) / 2 is the upper tail of the normal distribution.
log2 Q is so smooth that a polynomial of degree four follows it to a thousandth over the whole reach, and 2^p keeps the *relative*
error small where Q itself has fallen to a millionth: that is what erf in one dtype cannot do. On a GPU this is eight instructions
(a min, four multiply-adds, one ex2, a max, one multiply-add), against some twenty-five of erff.
"""

from __future__ import annotations

from functools import cache

import numpy as np

DEGREE, REACH = 4, 5.75  # two-byte activations: within one bf16 ulp
DEGREE_FP32, REACH_FP32 = 9, 6.5  # four-byte activations: within 1e-6 of the largest value near it
BIG = 1e-6  # |gelu| above which ulps are counted; below it the absolute error is
_POINTS, _ROUNDS = 600, 80


@cache
def coefficients(degree: int = DEGREE, reach: float = REACH) -> tuple[float, ...]:
    """p's coefficients, lowest first, as fp32 numbers: the minimax fit of log2 Q on [0, reach], by Lawson's reweighted least
    squares (the absolute error of log2 Q is the relative error of Q, but for a factor)."""
    t = (1 - np.cos(np.linspace(0, np.pi, _POINTS))) * reach / 2
    wanted, powers = np.log2(upper_tail(t)), np.vander(t / reach, degree + 1, increasing=True)
    weight = np.ones_like(t)
    for _ in range(_ROUNDS):
        root = np.sqrt(weight)
        found = np.linalg.lstsq(powers * root[:, None], wanted * root, rcond=None)[0]
        weight *= np.abs(powers @ found - wanted) + 1e-12
        weight /= weight.mean()
    return tuple(float(np.float32(c / reach**k)) for k, c in enumerate(found))


def upper_tail(t):
    """Q(t) in float64."""
    import torch

    return torch.special.erfc(torch.as_tensor(np.asarray(t, dtype=np.float64) / 2**0.5)).numpy() / 2


def for_dtype(dtype: str) -> tuple[int, float]:
    """(degree, reach) of a kernel whose activation is of this dtype."""
    return (DEGREE_FP32, REACH_FP32) if dtype == "fp32" else (DEGREE, REACH)


def exact(x):
    """gelu in float64 of an array; 0 where the tail underflows."""
    x = np.asarray(x, dtype=np.float64)
    return x * upper_tail(-np.clip(x, -38.0, 38.0))


def cheap(x, degree: int = DEGREE, reach: float = REACH):
    """What a kernel computes, step by step in fp32, each multiply-add rounded once: the emulation of the exhaustive test."""
    x = np.asarray(x, dtype=np.float32)
    c = coefficients(degree, reach)
    t = np.minimum(np.abs(x), np.float32(reach))
    p = np.full_like(t, np.float32(c[-1]))
    for k in reversed(c[:-1]):
        p = _fma(p, t, np.float32(k))
    q = np.exp2(p.astype(np.float64)).astype(np.float32)
    return _fma(-t, q, np.maximum(x, np.float32(0)))


def _fma(a, b, c):
    """a b + c rounded once (to within double rounding, a part in 2^29)."""
    return (a.astype(np.float64) * b + c).astype(np.float32)


def all_bf16():
    """Every finite bf16 number, as fp32: 65,280 of them."""
    x = (np.arange(65_536, dtype=np.uint32) << 16).view(np.float32)
    return x[np.isfinite(x)]


def to_bf16(x):
    """fp32 rounded to the nearest bf16 (ties to even), as fp32."""
    bits = np.asarray(x, dtype=np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def errors(x, got) -> dict:
    """How far `got` (as fp32) lies from the truth: {"ulp": the most bf16 steps between the two, each rounded to bf16, where
    |gelu| > 1e-6, "at": the x of it, "absolute": the largest error elsewhere, "off": how many inputs miss the nearest bf16}."""
    x, got = np.asarray(x, dtype=np.float32), np.asarray(got, dtype=np.float32)
    truth = exact(x)
    big = np.abs(truth) > BIG
    steps = np.abs(_place(to_bf16(got[big])) - _place(to_bf16(truth[big].astype(np.float32))))
    worst = int(steps.argmax())
    return {
        "ulp": int(steps[worst]),
        "at": float(x[big][worst]),
        "absolute": float(np.max(np.abs(got[~big].astype(np.float64) - truth[~big]), initial=0.0)),
        "off": int((steps > 0).sum()),
    }


def _place(x):
    """The number of a bf16 value in the order of all of them, -0 and 0 the same; NaN far from everything."""
    bits = x.view(np.int32) >> 16
    place = np.where(bits < 0, -(bits & 0x7FFF), bits).astype(np.int64)
    return np.where(np.isnan(x), 1 << 20, place)
