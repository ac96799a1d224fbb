"""Is a dropout mask what it says: how often it drops, whether neighbours know of each other, whether all values come alike?

Every figure is a z-score: of the order of one for honest bits, and some tens for bits that are used twice.
"""

from __future__ import annotations

import numpy as np


def of_mask(keep, dropped: float) -> dict[str, float]:
    """z-scores of a mask [rows, cols] that should drop each element with probability `dropped`, independently:

    "share" (how many are dropped), "along" and "down" (neighbours in a row and in a column: their correlation), "next group"
    (rows eight apart), "runs" (how often the value changes from one element to the next, as Wald and Wolfowitz count)."""
    keep = np.asarray(keep, dtype=bool)
    x = np.where(keep, dropped, dropped - 1.0)  # mean 0 when the mask is honest, variance dropped (1 - dropped)
    variance, n = dropped * (1 - dropped), keep.size
    flat = keep.reshape(-1)
    gone = n - int(flat.sum())
    pairs = 2.0 * gone * (n - gone)
    runs = 1 + int((flat[1:] != flat[:-1]).sum())
    spread = (pairs * (pairs - n) / (n * n * (n - 1.0))) ** 0.5
    return {
        "share": (gone - n * dropped) / (n * variance) ** 0.5,
        "along": _pairs(x[:, 1:], x[:, :-1], variance),
        "down": _pairs(x[1:], x[:-1], variance),
        "next group": _pairs(x[8:], x[:-8], variance),
        "runs": (runs - (pairs / n + 1)) / spread if spread else float("inf"),
    }


def of_values(draws, bits: int) -> float:
    """z-score of chi squared: whether all 256 values of the draws' upper byte come equally often."""
    counts = np.bincount((np.asarray(draws).reshape(-1) >> (bits - 8)).astype(np.int64), minlength=256)
    expected = counts.sum() / 256
    chi = float(((counts - expected) ** 2).sum() / expected)
    return (chi - 255) / (2 * 255) ** 0.5


def _pairs(a, b, variance: float) -> float:
    return float((a * b).sum() / (variance * a.size**0.5)) if a.size else 0.0
