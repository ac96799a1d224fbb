"""Store or recompute: the peak memory and the time of a stack of equal layers, by how many layers lie between two stored
inputs.

In activations: a layer keeps `saved` of them for its backward. When everything is stored, all layers' lie there when backward
begins. When only the input of every k-th layer is, backward makes the k layers of one group again at a time. No torch, nothing
measured.
"""

from __future__ import annotations

from math import ceil, sqrt


def peak(layers: int, every: int, saved: float) -> float:
    """Activations at the peak of a step. every 0: all is stored, and the first gradient comes on top. ValueError for counts
    below 1.
    """
    if layers < 1 or every < 0:
        raise ValueError(f"{layers} layers, one stored input in {every}: neither can be below 1")
    if not every:
        return saved * layers + 1
    return ceil(layers / every) + saved * min(every, layers)


def least(layers: int, saved: float) -> tuple[int, float]:
    """(the k with the smallest peak, that peak); near the square root of layers over saved."""
    best = min(range(1, layers + 1), key=lambda every: peak(layers, every, saved))
    return best, peak(layers, best, saved)


def square_root(layers: int, saved: float) -> float:
    """Where the derivative of layers / k + saved k is zero."""
    return sqrt(layers / saved)


def time(every: int, forward_share: float) -> float:
    """A step over the step that stores everything: one more forward, which is `forward_share` of that step (0 to 1)."""
    return 1 + forward_share if every else 1.0
