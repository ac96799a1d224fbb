"""Plausible parts of the study "reach_the_roof", as a CPU or a GPU would give them, with every order that may turn round."""

from __future__ import annotations

from collections.abc import Mapping

from tests.factories import make_race
from tests.ridges import HERE, THERE, both
from utils.kernels.forms import ABLATIONS
from utils.kernels.ladder import rungs
from utils.measure import chain_on_cpu, tail_races
from utils.measure.honest_tail import NAMES, WRONG_WAYS
from utils.measure.tail_instructions import ALONE, FIRST

__all__ = ["HERE", "THERE", "both"]
ADD = 187e3
LAST_RUNG = rungs()[-1].name
UNITS = {"issue": 32.0, "vector_fp32": 64.0}
NBYTES = 6 * 134_217_728 + 2 * 4096
# ns by name: a GPU whose first try loses most to the draw
NS = {
    FIRST: 580e3,
    "bias by mask": 590e3,
    "without the draw": 226e3,
    "without erf": 445e3,
    "with neither": 188e3,
    "with neither, bias by mask": 188e3,
    "the add alone": 190e3,
    "rows, no %": 560e3,
    "cheap gelu": 458e3,
    "four words": 200e3,
    "eight halves": 195e3,
    LAST_RUNG: 188e3,
    "eager": 899e3,
    "torch.compile": 589e3,
}
TOTALS = dict.fromkeys((*ABLATIONS, *(r.name for r in rungs()), ALONE), 60.0) | {
    FIRST: 107.5,
    "bias by mask": 95.0,
    "without the draw": 50.0,
    "without erf": 85.0,
    "with neither": 25.0,
    ALONE: 64.0,
}


def tails(device: str = "cuda", *, add: float = ADD, units: Mapping = UNITS, **ns: float) -> dict:
    """The race; `ns` replaces times by name with spaces written "_" (None takes an arm away)."""
    found = NS | {name.replace("_", " "): value for name, value in ns.items()}
    found = {name: value for name, value in found.items() if value is not None}
    kinds = {"eager": "peer", "torch.compile": "peer"} | dict.fromkeys(ABLATIONS, "ablation")
    rows = [{"name": n, "kind": kinds.get(n, "rung"), "ns": v, "share": add / v} for n, v in found.items()]
    race = make_race(prices={"torch.add": add, **found})
    numbers = tail_races.numbers_of(found, add, NBYTES, units)
    return {"device": device, "by": "Triton", "elements": 134_217_728, "bytes": NBYTES, "race": race, "rows": rows,
            "missing": {}, "numbers": numbers, "notes": ["kernels by Triton"]}  # fmt: skip


def counts(device: str = "cpu", *, flops: float = 25.0, only: tuple[str, ...] | None = None, times: float = 1.0,
           **totals: float) -> dict:  # fmt: skip
    """Instructions an element; `times` scales them all, `totals` replaces some, by name with spaces written "_"."""
    known = TOTALS | {name.replace("_", " "): total for name, total in totals.items()}
    rows = [
        {"name": name, "total": times * total, "kinds": {"random and integer": 0.7 * total, "arithmetic": 0.3 * total}}
        | {"flops": flops, "bytes": 6, "per_byte": times * total / 6, "flops_per_byte": flops / 6}
        for name, total in known.items()
        if only is None or name in only
    ]
    numbers = {"first": times * TOTALS[FIRST], "flops_per_byte": flops / 6, "draw": times * 57.5}
    return {"device": device, "rows": rows, "triton": "3.9", "arch": 90, "numbers": numbers, "notes": ["made up"]}


def honest(device: str = "cpu", *, ulps: Mapping[str, int] | None = None, missed: tuple[str, ...] = (), loudest: str = "down",
           agrees: bool | None = True) -> dict:  # fmt: skip
    """Masks of which all but `missed` fail, the word used four times most in `loudest`; GELUs with these steps off."""
    quiet = dict.fromkeys(NAMES, 0.5)
    masks = [{"name": "the kernel's own", "sigmas": quiet, "fails": []}]
    masks += [
        {"name": name, "sigmas": quiet if name in missed else quiet | {loudest: 500.0},
         "fails": [] if name in missed else [loudest]}
        for name in WRONG_WAYS
    ]  # fmt: skip
    steps = {"cheap, degree 4": 1, "formula with erf": 8, "torch, bf16": 9, "tanh": 13_000} | dict(ulps or {})
    gelus = [{"name": n, "ulp": u, "at": -5.0, "absolute": 2.6e-8, "off": 950, "inputs": 65_280} for n, u in steps.items()]
    numbers = {"worst_sigma": 0.5, "kept": 0.9, "scale": 1 / 0.9, "scale_off_ppm": 0.0, "ways": 4.0, "absolute": 2.6e-8}
    numbers |= {"caught": 4.0 - len(missed), "ulp": float(steps["cheap, degree 4"])}
    if agrees is not None:
        numbers["kernel_agrees"] = float(agrees)
    kernel = {"by": "the C++ chain", "agrees": agrees, "said": "the C++ chain and the recomputed mask agree"}
    return {"device": device, "masks": masks, "gelus": gelus, "kernel": kernel, "numbers": numbers, "notes": []}


def chain(device: str = "cpu", cached: float = 4.0, memory: float = 1.3) -> dict:
    rows = [
        {"where": where, "form": form, "ns": add * f, "gbps": 20.0, "times": f, "elements": 1 << 15}
        for where, most, add in (("in a cache", cached, 0.1), ("from memory", memory, 0.4))
        for form, f in zip(chain_on_cpu.FORMS, (1.0, (1 + most) / 2, (1 + most) / 2, most), strict=True)
    ]
    numbers = {"cached_times": cached, "memory_times": memory, "cached_gelu": (1 + cached) / 2, "cached_draw": (1 + cached) / 2}
    numbers |= chain_on_cpu.hidden(rows)
    return {"device": device, "rows": rows, "numbers": numbers, "notes": ["one thread, fp32"]}


def cuts(device: str = "cuda") -> dict:
    rows = [{"lane": a, "ahead": b, "ns": 187e3 + 1e3 * a - 500 * b, "share": 0.9} for a in (4, 8) for b in (2, 8)]
    return {"device": device, "by": "Triton", "rows": rows, "missing": {}, "notes": [],
            "numbers": {"add": ADD, "best": 187e3, "worst": 194e3, "spread": 194 / 187}}  # fmt: skip


def sideways(device: str = "cpu", *, large: tuple[float, float, float] = (10e6, 11e6, 2e6)) -> dict:
    small = {"loop": (4.1e6, 1000), "foreach": (2.3e6, 210), "fused": (0.65e6, 2)}
    rows = [{"case": "small", "parameters": 100, "elements": 16, "kind": k, "ns": ns, "ops": n} for k, (ns, n) in small.items()]
    rows += [
        {"case": "large", "parameters": 8, "elements": 1 << 20, "kind": k, "ns": ns, "ops": n}
        for (k, n), ns in zip((("loop", 80), ("foreach", 18), ("fused", 2)), large, strict=True)
    ]
    loops = {"small": small["loop"][0], "large": large[0]}
    rows = [row | {"gain": loops[row["case"]] / row["ns"]} for row in rows]
    numbers = {k: ns for k, (ns, _) in small.items()} | {f"ops_{k}": float(n) for k, (_, n) in small.items()}
    numbers |= {"small_loop_over_foreach": 1.8, "small_loop_over_fused": 6.3}
    return {"device": device, "rows": rows, "numbers": numbers, "notes": ["one thread"]}


def study() -> dict:
    """Every part that the lesson judges, as a sound CPU gives it, and the GPU's race as recorded."""
    made = {"instructions": counts(), "honest": honest(), "chain": chain(), "sideways": sideways()}
    return {"tails": both(None, tails())} | {name: both(value) for name, value in made.items()}
