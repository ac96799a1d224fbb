"""When capturing or compiling has paid: the seconds spent once over what each step saves, for a row of adds and for the block."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext

from utils.measure import seams
from utils.measure.captured_block import CAPTURED, COMPILED, EAGER, REDUCED, SMALL, Inputs, as_module, block
from utils.measure.chains_of_adds import chain, own_code
from utils.measure.either_clock import Progress, need, race, settled, within
from utils.measure.graph_by_hand import WARM_UPS, captured
from utils.measure.record import in_words
from utils.measure.toy_block import steady
from utils.model import payback

ADDS = 100
COLD, WARM = f"{COMPILED}, nothing cached", f"{COMPILED}, code on disk"
KEYS = {CAPTURED: "captured", COLD: "compiled", WARM: "cached", REDUCED: "reduced"}
PREFIX = {f"{ADDS} adds": "", "small block": "block_"}


def pays_back(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """ "rows": [{"program" ("100 adds", "small block"), "way", "key", "once_s", "eager_us", "step_us", "saving_us", "steps"
    (until it is paid back, None for never)}], "races" {program: ns} (CPU), "missing" {way: why}, "numbers" of the adds:
    "captured_s", "captured_steps", "compiled_s", "compiled_steps", "cached_s", "cached_steps" (and "reduced_…"), "eager" (ns a
    step), "captured_step", "compiled_step"; of the block the same after "block_". "…_steps" is missing where it never pays. New
    inputs are copied in by captured ways, inside the step. Quick compiles the adds alone; about 3 s and what compiling takes.
    """
    need(device, "what capturing saves")
    import torch

    rows, numbers, missing, races = [], {}, {}, {}
    with settled(device) as notes, torch.no_grad():
        for at, (program, prefix) in enumerate(PREFIX.items()):
            bar = within(progress, 0.5 * at, 0.5)
            compiling = not (quick and prefix)
            once, steps, lost = _ways(program, device, compiling, bar)
            missing |= {f"{way}, {program}": why for way, why in lost.items()}
            budget = 1.5 if quick else 5.0
            if device == "cpu":
                found = race(device, steps, control=EAGER, blocks=15, at_most_s=budget, progress=within(bar, 0.6, 0.4))
                races[program] = found
                took = {way: found[way].ns for way in steps}
            else:
                readings = steady(device, steps, at_most_s=budget, progress=within(bar, 0.6, 0.4))
                took = {way: readings[way].ns for way in steps}
            numbers[f"{prefix}eager"] = took[EAGER]
            for way, once_s in once.items():
                after = took[COMPILED if way in (COLD, WARM) else way]
                needed = payback.steps(once_s, took[EAGER], after)
                rows.append(
                    {
                        "program": program,
                        "way": way,
                        "key": KEYS[way],
                        "once_s": once_s,
                        "eager_us": took[EAGER] * 1e-3,
                        "step_us": after * 1e-3,
                        "saving_us": (took[EAGER] - after) * 1e-3,
                        "steps": needed,
                    }
                )
                numbers |= {f"{prefix}{KEYS[way]}_s": once_s, f"{prefix}{KEYS[way]}_step": after}
                if needed is not None:
                    numbers[f"{prefix}{KEYS[way]}_steps"] = float(needed)
    notes += [f"{way}: {why}" for way, why in missing.items()]
    return {"device": device, "rows": rows, "races": races, "missing": missing, "numbers": numbers, "notes": notes}


def _ways(program: str, device: str, compiling: bool, progress: Progress | None) -> tuple[dict, dict, dict]:
    """(way → seconds paid once, way → a step, way → why it cannot be had). The two ways to compile share their steps."""
    import torch

    if PREFIX[program]:
        inputs = Inputs(device, SMALL[device])
        f, x, rest = block, inputs.x, (inputs.w, inputs.b)
        fresh, given = lambda: as_module(inputs), (x,)
    else:
        f, x, rest = chain(ADDS), torch.randn(1, device=device), (torch.randn(1, device=device),)
        fresh, given = lambda: own_code(f), (x, *rest)
    made = captured(lambda x: f(x, *rest), x)
    once = {CAPTURED: made.seconds}
    steps: dict[str, Callable] = {EAGER: lambda: f(x, *rest), CAPTURED: lambda: made(x)}
    missing: dict[str, str] = {}
    if not compiling:
        return once, steps, missing
    if progress:
        progress(0.1, f"compiling {program}, as if for the first time")
    try:
        once[COLD] = _compiled(fresh(), given, device, seams.nothing_cached)[0]
        _compiled(fresh(), given, device)  # so that its code is on disk
        once[WARM], steps[COMPILED] = _compiled(fresh(), given, device)
    except Exception as error:  # no compiler, no Triton: each in its own way
        missing[COMPILED] = f"{type(error).__name__}: {in_words(error)}"
        once = {way: s for way, s in once.items() if way not in (COLD, WARM)}
    if device == "cuda" and COMPILED in steps:
        try:
            once[REDUCED], steps[REDUCED] = _compiled(fresh(), given, device, mode="reduce-overhead")
        except Exception as error:
            missing[REDUCED] = f"{type(error).__name__}: {in_words(error)}"
    return once, steps, missing


def _compiled(f: Callable, given: tuple, device: str, cache: Callable = nullcontext, *, mode: str = ""):
    """(seconds of compiling and the first calls, a step of the compiled function)."""
    import torch

    with cache():
        start = time.perf_counter()
        made = torch.compile(f, dynamic=False, **({"mode": mode} if mode else {}))
        for _ in range(WARM_UPS):
            made(*given)
        if device == "cuda":
            torch.cuda.synchronize()
        took = time.perf_counter() - start
    return took, lambda: made(*given)
