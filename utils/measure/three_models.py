"""Sum, max and queue beside measured steps; and what prices are worth that were taken a minute earlier."""

from __future__ import annotations

from collections.abc import Sequence

from utils.measure import step_cases
from utils.measure.either_clock import Progress
from utils.model import cost_fit, step_model
from utils.model.cost_fit import Timed
from utils.model.readings import quantile
from utils.model.step_model import Program

MODELS = ("queue", "sum", "max", "published_sum", "published_max")
SMALL, MEDIUM, LARGE = {"cpu": 9, "cuda": 10}, {"cpu": 15, "cuda": 20}, {"cpu": 20, "cuda": 25}  # exponents of sizes
SIDE, QUARTER = {"cpu": 256, "cuda": 1024}, 4
MOST = {"cpu": 1 << 23, "cuda": 1 << 34}  # elements times ops of a step of the recording, which has half a minute


def few(device: str) -> tuple[list[Program], list[Program]]:
    """(calibration, cases) for a lesson: fp32, chains short and long over three sizes, a product, a tape, a mixture."""
    small, medium, large = (1 << e[device] for e in (SMALL, MEDIUM, LARGE))
    cases = [
        *(Program(("add",) * 2, n) for n in (small, medium, large)),
        *(Program(("add",) * 40, n) for n in (small, medium)),
        Program(("add",) * 12, large),
        Program(("mm", *("relu",) * 11), 4 * medium, side=SIDE[device]),
        Program(("relu",) * 16, medium // 4, grad=True),
        Program(("add", "relu", "mul") * 8, small),
        Program(("relu", "add") * 6, 2 * medium),
    ]
    calibration = [
        *(Program(("add",) * 6, n) for n in (small // 2, 4 * small, medium // 2, 2 * medium, large // 2, 2 * large)),
        *(Program(("relu",) * 6, n) for n in (small // 2, medium // 2, 2 * medium, large)),
        *(Program(("mul",) * 6, n) for n in (small // 2, medium)),
        *(Program(("mm", "mm"), n, side=SIDE[device]) for n in (medium // 2, 2 * medium)),
        Program(("relu",) * 6, small, grad=True),
        Program(("relu",) * 6, medium, grad=True),
        Program(("add", "relu", "mul") * 2, 2 * small),
        Program(("add",), small),
        Program(("add",) * 20, small),
    ]
    return calibration, cases


def many(device: str) -> tuple[list[Program], list[Program]]:
    """(calibration, cases) of a recording: the benchmark's, without the longest steps on a CPU."""
    both = step_cases.calibration(device), step_cases.cases(device)
    return tuple([p for p in programs if p.elements * len(p.kinds) <= MOST[device]] for programs in both)


def three_models(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """Steps measured in the same windows as the calibration, and what each model says of them without having seen them:

    "rows": [{"case", "length" (kernels), "elements", "dtype", "grad", "gemm", "measured_us", "queue_us", "sum_us", "max_us",
    "published_sum_us", "published_max_us", "spread" (p75 over p25)}]: queue, sum and max with the same prices, fitted on the
    calibration and on the cases of other folds; the published formulas with one host price, one bandwidth, a rate of FLOPs a
    dtype, one price a step. "numbers": "<model>_median" and "<model>_p90" (relative errors), "cases", "aa_error", and where it
    is not quick "stale_median" against "fresh_median" (prices from the first quarter of the windows, or from the same quarter,
    for cases of the last). "prices": the fitted ones by name. About 9 s quick, 30 s else. MeasurementError without the device.
    """
    calibration, cases = few(device) if quick else many(device)
    found = step_cases.timed(
        device,
        [*calibration, *cases],
        progress,
        windows=25 if quick else 40,
        at_most_s=6 if quick else 14,
    )
    known = [Timed(p, us) for p, us in zip(calibration, found["us"], strict=False)]
    unseen = [Timed(p, us) for p, us in zip(cases, found["us"][len(calibration) :], strict=True)]
    own = cost_fit.held_out(
        unseen, known, device, lambda train, test: step_model.three(test, device, cost_fit.fit(train, device, test))
    )
    by = {name: [one[name] for one in own] for name in ("queue", "sum", "max")} | {
        f"published_{how}": cost_fit.held_out(
            unseen, known, device, lambda train, test, how=how: cost_fit.published(how, train, test)
        )
        for how in ("sum", "max")
    }
    measured = [case.us for case in unseen]
    numbers = {"cases": float(len(cases)), "aa_error": found["aa"]}
    for name in MODELS:
        said = cost_fit.summary(cost_fit.errors(by[name], measured))
        numbers |= {f"{name}_median": said["median"], f"{name}_p90": said["p90"]}
    if not quick:
        numbers |= stale_and_fresh(found["windows"]["us"], calibration, cases, device)
    spread = found["spread"][len(calibration) :]
    rows = [
        {
            "case": case.program.name,
            "length": sum(kind != "view" for kind in case.program.kinds),
            "elements": case.program.elements,
            "dtype": case.program.dtype,
            "grad": case.program.grad,
            "gemm": "mm" in case.program.kinds,
            "measured_us": case.us,
            **{f"{name}_us": by[name][i] for name in MODELS},
            "spread": spread[i],
        }
        for i, case in enumerate(unseen)
    ]
    prices = cost_fit.fit([*known, *unseen], device)
    return {"device": device, "rows": rows, "numbers": numbers, "prices": prices, "notes": found["notes"]}


def stale_and_fresh(
    windows: Sequence[Sequence[float]], calibration: Sequence[Program], cases: Sequence[Program], device: str
) -> dict[str, float]:
    """{"stale_median", "fresh_median"}: the median error over cases of the last quarter of the windows, with prices from the
    calibration of the first quarter, or from that of the same one. `windows`: µs by program, calibration first. Empty for fewer
    than two windows a quarter."""
    many = min(len(us) for us in windows)
    size = many // QUARTER
    if size < 2:
        return {}
    out = {}
    late = [quantile(list(us[many - size : many]), 0.5) for us in windows]
    for name, part in (("stale", slice(0, size)), ("fresh", slice(many - size, many))):
        known = [Timed(p, quantile(list(us[part]), 0.5)) for p, us in zip(calibration, windows, strict=False)]
        predicted = cost_fit.predict(cases, device, cost_fit.fit(known, device, cases))
        out[f"{name}_median"] = quantile(cost_fit.errors(predicted, late[len(calibration) :]), 0.5)
    return out
