"""What one more input costs a compiled function at every call, and how much of that is guards (claim C03).

Three lines over the number of inputs: the sum of k tensors as torch.compile makes it; a graph that does nothing with its inputs,
so that guards and the handing over of arguments are all there is; and that one again with its guards left out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from utils.measure.chains_of_adds import total
from utils.measure.device_clock import MeasurementError
from utils.measure.either_clock import Progress, need, one_thread, within
from utils.measure.record import in_words
from utils.measure.stopwatch import time_host
from utils.model.line import Line, through
from utils.model.readings import Race

INPUTS, QUICK = (2, 5, 10, 20, 35, 50), (2, 10, 25, 50)
QUICK_COMPILED = (2, 50)  # a generated kernel takes seconds to compile, an empty graph does not
REAL, NOTHING, UNGUARDED = "{} inputs, compiled", "{} inputs, an empty graph", "{} inputs, no guards"


def guards(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """ "rows": [{"inputs", "us" (a call of the compiled sum), "nothing_us" (an empty graph of so many inputs), "unguarded_us"
    (that with its guards left out), "guards" (how many there are)}], "race" (ns, the host), "missing" {line: why}, "numbers":
    "per_input", "per_input_lo", "per_input_hi" (ns, 95 %), "fixed", "nothing_per_input", "unguarded_per_input",
    "guard_per_input" (their difference), "guard_share" (of per_input), "guards_an_input" (guards that one more input adds,
    counted), "guards_least" (with two), "least_us", "most_us", "aa_error". What cannot be had is None in rows, missing in
    numbers, and told. A few seconds, and what compiling takes. MeasurementError where nothing can be compiled, not even an empty
    graph."""
    need(device, "guards")
    import torch

    counts = QUICK if quick else INPUTS
    missing: dict[str, str] = {}
    variants: dict[str, Callable] = {}
    counted: dict[int, int] = {}
    with one_thread(device) as alone, torch.no_grad():
        for at, k in enumerate(counts):
            if progress:
                progress(0.5 * at / len(counts), f"compiling for {k} inputs")
            given = [torch.randn(1, device=device) for _ in range(k)]
            made = {
                NOTHING: lambda k=k: torch.compile(total(k, "_nothing"), backend=_nothing, dynamic=False),
                UNGUARDED: lambda k=k: _without(total(k, "_unguarded"), counted, k),
                REAL: lambda k=k: torch.compile(total(k), dynamic=False),
            }
            for name, make in made.items():
                if name in missing or (quick and name == REAL and k not in QUICK_COMPILED):
                    continue
                try:
                    f = make()
                    f(*given)
                except Exception as error:  # no compiler, no way to leave guards out: each in its own way
                    missing[name] = f"{type(error).__name__}: {in_words(error)}"
                    continue
                variants[name.format(k)] = partial(f, *given)
        kept = {name: f for name, f in variants.items() if not any(name == lost.format(k) for lost in missing for k in counts)}
        if not kept:
            raise MeasurementError(f"nothing can be compiled here: {next(iter(missing.values()))}")
        found = time_host(
            kept,
            device=device,
            blocks=20 if quick else 60,
            at_most_s=3.0 if quick else 15.0,
            progress=within(progress, 0.5, 0.5),
        )
    sampled = {
        kind: {k: found[kind.format(k)].samples for k in counts if kind.format(k) in kept} for kind in (REAL, NOTHING, UNGUARDED)
    }
    lines = {kind: through(samples) for kind, samples in sampled.items() if samples}
    rows = [
        {
            "inputs": k,
            "us": _us(found, REAL.format(k)),
            "nothing_us": _us(found, NOTHING.format(k)),
            "unguarded_us": _us(found, UNGUARDED.format(k)),
            "guards": counted.get(k),
        }
        for k in counts
    ]
    told = {kind.format("k"): why for kind, why in missing.items()}
    return {
        "device": device,
        "rows": rows,
        "race": found,
        "missing": told,
        "numbers": _numbers(lines, rows) | _counted(counted) | {"aa_error": found.aa_error, "error": found.error},
        "notes": [alone, *(f"{kind}: {why}" for kind, why in told.items())],
    }


def _nothing(module, inputs) -> Callable:
    """A backend whose compiled graph gives its first input back."""
    return lambda *given: (given[0],)


def _without(f: Callable, counted: dict[int, int], k: int) -> Callable:
    """f compiled to an empty graph whose guards are all left out; how many there would have been goes into `counted`."""
    import torch

    def none_of(guards) -> list[bool]:
        counted[k] = len(guards)
        return [False] * len(guards)

    return torch.compile(f, backend=_nothing, dynamic=False, options={"guard_filter_fn": none_of})


def _us(found: Race, name: str) -> float | None:
    return found[name].ns * 1e-3 if name in found.readings else None


def _counted(guards: dict[int, int]) -> dict[str, float]:
    if len(guards) < 2:
        return {}
    few, many = min(guards), max(guards)
    return {"guards_an_input": (guards[many] - guards[few]) / (many - few), "guards_least": float(guards[few])}


def _numbers(lines: dict[str, Line], rows: list[dict]) -> dict[str, float]:
    out: dict[str, float] = {}
    if REAL in lines:
        line = lines[REAL]
        out |= {"per_input": line.each, "per_input_lo": line.each_band[0], "per_input_hi": line.each_band[1], "fixed": line.fixed}
        out |= {"least_us": rows[0]["us"], "most_us": rows[-1]["us"]}
    if NOTHING in lines:
        out |= {"nothing_per_input": lines[NOTHING].each, "nothing_fixed": lines[NOTHING].fixed}
    if NOTHING in lines and UNGUARDED in lines:
        out["unguarded_per_input"] = lines[UNGUARDED].each
        out["guard_per_input"] = lines[NOTHING].each - lines[UNGUARDED].each
        if REAL in lines:
            out["guard_share"] = out["guard_per_input"] / lines[REAL].each
    return out
