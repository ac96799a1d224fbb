"""A straight line through timed sizes: T(n) = F + n·c, with what the scatter of the rounds leaves open."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from utils.model.readings import quantile

RESAMPLES, SEED = 200, 11


@dataclass(frozen=True)
class Line:
    """T(n) = `fixed` + n · `each`, with 95 % intervals of both; `worst` is the largest |fit / measured − 1| over the sizes."""

    fixed: float
    each: float
    fixed_band: tuple[float, float]
    each_band: tuple[float, float]
    worst: float

    def at(self, n: float) -> float:
        return self.fixed + n * self.each


def through(samples: Mapping[int, Sequence[float]]) -> Line:
    """The line through {n: what each round measured}, rounds of all n interleaved; sizes count by relative deviation.

    The intervals are those of 200 draws of whole rounds, with replacement: rounds, because a round's weather is in all its sizes.
    Raises ValueError for fewer than two sizes.
    """
    if len(samples) < 2:
        raise ValueError(f"no line through {len(samples)} size(s)")
    rounds = min(len(s) for s in samples.values())
    fixed, each = _fit(samples, range(rounds))
    draw = random.Random(SEED)
    drawn = [_fit(samples, draw.choices(range(rounds), k=rounds)) for _ in range(RESAMPLES)]
    worst = max(abs((fixed + n * each) / quantile(list(s), 0.25) - 1) for n, s in samples.items())
    return Line(fixed, each, _band([f for f, _ in drawn]), _band([e for _, e in drawn]), worst)


def _band(values: list[float]) -> tuple[float, float]:
    return quantile(values, 0.025), quantile(values, 0.975)


def _fit(samples: Mapping[int, Sequence[float]], rounds: Sequence[int]) -> tuple[float, float]:
    """(F, c) of the least squares of relative deviations from the lower quartiles of these rounds."""
    points = [(n, quantile([s[i] for i in rounds], 0.25)) for n, s in samples.items()]
    weights = [1 / t**2 for _, t in points]
    total = sum(weights)
    mean_n = sum(w * n for w, (n, _) in zip(weights, points, strict=True)) / total
    mean_t = sum(w * t for w, (_, t) in zip(weights, points, strict=True)) / total
    up = sum(w * (n - mean_n) * (t - mean_t) for w, (n, t) in zip(weights, points, strict=True))
    each = up / sum(w * (n - mean_n) ** 2 for w, (n, _) in zip(weights, points, strict=True))
    return mean_t - each * mean_n, each
