"""Philox4x32-10 in numpy, and which element takes which bits: every kernel's dropout mask, recomputed from the seed.

A call maps a counter of 128 bits and a key of 64 (the seed) to four words of 32 bits (Salmon et al. 2011, the generator of
Random123, CUDA and Triton). Nothing is stored: a backward pass makes the mask again.
"""

from __future__ import annotations

import numpy as np

from utils.kernels.forms import P, threshold

ROUND_A, ROUND_B = 0xD2511F53, 0xCD9E8D57
KEY_A, KEY_B = 0x9E3779B9, 0xBB67AE85
ROUNDS = 10
GROUP = {"rand": 1, "one": 1, "four": 4, "eight": 8}  # rows that share the calls of one row group
_LOW = np.uint64(0xFFFFFFFF)


def words(counter, seed: int, rounds: int = ROUNDS) -> np.ndarray:
    """The four words of each call, [4, ...] of uint32; `counter` is the low 64 bits, the high ones are 0."""
    counter = np.asarray(counter, dtype=np.uint64)
    c = [counter & _LOW, counter >> np.uint64(32), np.zeros_like(counter), np.zeros_like(counter)]
    k0, k1 = seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF
    for _ in range(rounds):
        a, b = c[0] * np.uint64(ROUND_A), c[2] * np.uint64(ROUND_B)
        c = [(b >> np.uint64(32)) ^ c[1] ^ np.uint64(k0), b & _LOW, (a >> np.uint64(32)) ^ c[3] ^ np.uint64(k1), a & _LOW]
        k0, k1 = (k0 + KEY_A) & 0xFFFFFFFF, (k1 + KEY_B) & 0xFFFFFFFF
    return np.stack(c).astype(np.uint32)


def draws(draw: str, rows: int, cols: int, seed: int, *, first: int = 0) -> np.ndarray:
    """The number that decides about each element of the rows from `first` to `rows`: 16 bits for `eight`, 32 for the others.

    Element (r, c) belongs to the call with counter (r // group) cols + c, where a group is as many rows as a call has numbers:
    r % group says which. So a thread that walks down a column spends every bit that it has drawn. In `eight`, row 2j of a group
    takes the low half of word j, row 2j + 1 the high half.
    """
    group = GROUP[draw]
    start, groups = first // group, -(-rows // group)
    four = words(np.arange(start * cols, groups * cols, dtype=np.uint64).reshape(-1, cols), seed)
    if group == 1:
        return four[0]
    if group == 8:
        four = np.stack([half for word in four for half in (word & np.uint32(0xFFFF), word >> np.uint32(16))])
    return four.transpose(1, 0, 2).reshape(-1, cols)[first - start * group : rows - start * group]


def keep(draw: str, rows: int, cols: int, seed: int, p: float = P, *, first: int = 0) -> np.ndarray:
    """Dropout's mask of the rows from `first` to `rows`: True where an element is kept."""
    drawn = draws(draw, rows, cols, seed, first=first)
    if draw == "rand":  # as Triton's tl.rand makes a float of a word
        signed = drawn.view(np.int32)
        folded = np.where(signed < 0, -(signed + 1), signed)
        return folded.astype(np.float32) * np.float32(4.6566127342e-10) > np.float32(p)
    return drawn >= threshold(draw, p)
