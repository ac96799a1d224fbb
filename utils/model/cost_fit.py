"""Fitting the step model on some programs and judging it on others; the published formulas beside it. No torch, no clock.

Least squares on the relative error, over the logarithms of the prices, so that none can be negative and a step of 10 µs weighs
as much as one of 10 ms. Every case is predicted by a fit that saw the calibration programs and the cases of the other folds:
`held_out` refuses a case whose own time is among what it was fitted on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from utils.model import step_model
from utils.model.readings import quantile
from utils.model.step_model import Layout, Program

FOLDS, SEED = 8, 7
ROUNDS = 40
LOOSE = 1.5  # a price may be e^1.5 = 4.5 times its order of magnitude at a cost of one error of `NOISE`
NOISE = 0.03
HUBER = 2.0  # errors beyond so many times NOISE count as their size and no longer as its square


class Leak(ValueError):
    """A prediction would know the answer."""


@dataclass(frozen=True)
class Timed:
    """A program and the time of one step of it, µs."""

    program: Program
    us: float


def fit(timed: Sequence[Timed], device: str, names_of: Sequence[Program] = ()) -> dict[str, float]:
    """The prices (by name) under which the model's steps are closest to the measured ones, relative to their size.

    Levenberg's method with numerical derivatives; each price is held near its order of magnitude by one weak term, so that one
    which these programs say nothing about keeps it. `names_of` are further programs whose prices are wanted.
    """
    programs = [t.program for t in timed]
    layout = Layout([*programs, *names_of], device)
    rows = len(programs)
    measured = np.log([t.us for t in timed])
    start = np.log([step_model.usual(name, device) for name in layout.names])
    at = start.copy()

    def residuals(x: np.ndarray) -> np.ndarray:
        return (np.log(step_model.step_us(layout, np.exp(x))[:rows]) - measured) / NOISE

    def weighted(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        r = residuals(x)
        return r, np.minimum(1.0, HUBER / np.maximum(np.abs(r), 1e-12))

    def cost(x: np.ndarray) -> float:
        r = np.abs(residuals(x))
        return float(np.where(r < HUBER, r**2, 2 * HUBER * r - HUBER**2).sum() + (((x - start) / LOOSE) ** 2).sum())

    damping, now = 1.0, cost(at)
    for _ in range(ROUNDS):
        r, w = weighted(at)
        jacobian = np.empty((rows, len(at)))
        for i in range(len(at)):
            moved = at.copy()
            moved[i] += 1e-4
            jacobian[:, i] = (residuals(moved) - r) / 1e-4
        normal = jacobian.T @ (jacobian * w[:, None]) + np.eye(len(at)) / LOOSE**2
        slope = jacobian.T @ (w * r) + (at - start) / LOOSE**2
        for _ in range(12):
            tried = at - np.clip(np.linalg.solve(normal + damping * np.diag(np.diag(normal)), slope), -1.0, 1.0)
            if (then := cost(tried)) < now:
                break
            damping *= 4
        else:
            break
        settled = now - then < 1e-5 * now
        at, now, damping = tried, then, max(damping / 4, 1e-6)
        if settled:
            break
    return dict(zip(layout.names, np.exp(at).tolist(), strict=True))


def predict(programs: Sequence[Program], device: str, prices: Mapping[str, float]) -> list[float]:
    """The steps of these programs, µs, by prices of `fit`. KeyError for a price that was not fitted."""
    layout = Layout(programs, device)
    return step_model.step_us(layout, np.array([prices[name] for name in layout.names])).tolist()


def folds(count: int, many: int = FOLDS, seed: int = SEED) -> list[list[int]]:
    """Which of `count` cases are held out together: each in exactly one fold."""
    order = np.random.default_rng(seed).permutation(count).tolist()
    return [sorted(order[k::many]) for k in range(min(many, count))]


def held_out(
    cases: Sequence[Timed],
    calibration: Sequence[Timed],
    device: str,
    model: Callable[[list[Timed], list[Program]], list] | None = None,
) -> list:
    """Each case's step (µs) as predicted by a fit that saw the calibration and the cases of the other folds.

    `model(train, test)` replaces this room's own fit and prediction; what it returns for a program stands in the answer. Raises
    Leak when a program that is to be predicted is among those that were trained on, whatever its time there.
    """
    model = model or (lambda train, test: predict(test, device, fit(train, device, test)))
    out: list = [0.0] * len(cases)
    for fold in folds(len(cases)):
        train = [*calibration, *(case for i, case in enumerate(cases) if i not in fold)]
        test = [cases[i].program for i in fold]
        if known := {t.program for t in train} & set(test):
            raise Leak(f"its own time would predict {next(iter(known)).name}")
        for i, us in zip(fold, model(train, test), strict=True):
            out[i] = us
    return out


# ------------------------------------------------------------------------------------------------ the published formulas


TEXTBOOK = {"dispatch_us": 4.0, "launch_us": 6.0}  # the source texts' own (claims B31, B32)


def textbook(program: Program, gbps: float) -> float:
    """Σ(dispatch + launch) + Σ bytes / bandwidth, µs, with the texts' host prices and a peak bandwidth in GB/s (claim B12)."""
    kernels = sum(kind != "view" for kind in program.kinds)
    return kernels * sum(TEXTBOOK.values()) + program.nbytes / (gbps * 1e3)


def published(how: str, train: Sequence[Timed], test: Sequence[Program]) -> list[float]:
    """The texts' two formulas with their prices fitted: N · t + bytes / bandwidth ("sum"), or the larger of the two ("max").

    One host price an op and one bandwidth: what the formulas have. Beyond them, so that they lose by what they say and not by
    what they leave out: a rate of FLOPs for the products of each dtype, and one price a step, since here a step ends with a wait.
    Fitted by a search on the relative error.
    """
    join = {"sum": lambda a, b: a + b, "max": np.maximum}[how]

    dtypes = sorted({p.dtype for p in [*test, *(t.program for t in train)]})

    def columns(programs: Sequence[Program]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        host = np.array([sum(kind != "view" for kind in p.kinds) for p in programs], float)
        moved = np.array([p.nbytes for p in programs], float) * 1e-3
        flops = np.array([[p.flops * 1e-3 if "mm" in p.kinds and p.dtype == d else 0.0 for d in dtypes] for p in programs])
        return host, moved, flops

    def steps(of: tuple[np.ndarray, np.ndarray, np.ndarray], x: np.ndarray) -> np.ndarray:
        host, moved, flops = of
        return np.exp(x[0]) + join(host * np.exp(x[1]), moved * np.exp(x[2]) + flops @ np.exp(x[3:]))

    measured = np.array([t.us for t in train])
    trained = columns([t.program for t in train])

    def cost(x: np.ndarray) -> float:
        return float(np.abs(np.log(steps(trained, x) / measured)).sum())

    best = np.log([1.0, 5.0, 0.1, *[0.01] * len(dtypes)])
    now = cost(best)
    for width in (1.5, 0.5, 0.15, 0.05, 0.015):
        moved = True
        while moved:
            moved = False
            for i in range(len(best)):
                for sign in (-1, 1):
                    tried = best.copy()
                    tried[i] += sign * width
                    if (then := cost(tried)) < now:
                        best, now, moved = tried, then, True
    return steps(columns(test), best).tolist()


# ------------------------------------------------------------------------------------------------ errors


def errors(predicted: Sequence[float], measured: Sequence[float]) -> list[float]:
    """|predicted / measured − 1| of each."""
    return [abs(p / m - 1) for p, m in zip(predicted, measured, strict=True)]


def summary(errs: Sequence[float]) -> dict[str, float]:
    """{"median", "p90", "worst"} of relative errors."""
    return {"median": quantile(list(errs), 0.5), "p90": quantile(list(errs), 0.9), "worst": max(errs)}
