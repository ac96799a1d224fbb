"""Plausible parts of the study "scoreboard", as a CPU or a GPU would give them, with every order that may turn round."""

from __future__ import annotations

from collections.abc import Mapping

from tests.ridges import HERE, THERE, both
from utils.measure import known_models, three_losses
from utils.measure.block_board import _ratios

__all__ = ["HERE", "THERE", "both"]

ACTIVATION = 4 << 20
TITLES = {key: way for way, key in three_losses.KEYS.items()}
OPS = ["mm", "add", "gelu", "bernoulli_", "div_", "mul", "add"]
GENERATED = ["randint", "addmm", "cpp_fused_add_gelu_native_dropout_0"]
# by way: kernels, launches by the host, activations moved, activations held, activations that a step takes, requests
WAYS = {
    "eager": (7, 7, 15.0, 0.0, 3.0, 6),
    "planned": (7, 7, 15.0, 3.0, 0.0, 0),
    "captured": (7, 1, 15.0, 7.0, 0.0, 0),
    "fused": (2, 2, 5.0, 2.0, 0.0, 0),
    "both": (2, 1, 5.0, 3.0, 0.0, 0),
    "compiled": (3, 3, 5.0, 0.0, 2.0, 2),
}
NAMES = ("kernels", "launches", "moved", "held", "step", "requests")


def board(device: str = "cpu", *, without: tuple[str, ...] = (), products: float = 1.0, rest: float = 10.0, least: float = 2.0,
          **ways: Mapping[str, float]) -> dict:  # fmt: skip
    """The block counted; `ways` replaces numbers of a way (NAMES), `without` takes ways away, `rest` are compiled FLOPs an
    element beside 9 of eager's."""
    rows, numbers = [], {"activation": float(ACTIVATION), "least": least}
    for key, found in WAYS.items():
        if key in without:
            continue
        one = dict(zip(NAMES, found, strict=True)) | dict(ways.get(key, {}))
        flops = {"eager": 128.0 + 9.0, "compiled": 128.0 * products + rest}.get(key)
        rows.append(
            {"way": TITLES[key], "key": key, "kernels": one["kernels"], "launches": one["launches"]}
            | {"bytes": one["moved"] * ACTIVATION, "activations": one["moved"], "flops": flops}
            | {"product_flops": 128.0 * (products if key == "compiled" else 1.0), "step_peak": one["step"] * ACTIVATION}
            | {"held": one["held"] * ACTIVATION, "peak": (one["held"] + one["step"]) * ACTIVATION, "requests": one["requests"]}
            | {"names": GENERATED if key == "compiled" else OPS[: one["kernels"]]}
        )
        numbers |= {f"{key}_kernels": float(one["kernels"]), f"{key}_launches": float(one["launches"])}
        numbers |= {f"{key}_traffic": one["moved"], f"{key}_peak": one["held"] + one["step"]}
        numbers[f"{key}_requests"] = float(one["requests"])
    numbers |= _ratios({row["key"]: row for row in rows})
    missing = {TITLES[key]: "no compiler today" for key in without}
    return {"device": device, "rows": rows, "missing": missing, "shape": [16384, 64], "numbers": numbers, "notes": ["made up"]}


SMALL = {"eager": 60e3, "planned": 50e3, "captured": 28e3, "fused": 5e3, "both": 3e3, "compiled": 180e3}
WIDE = {"eager": 18e6, "planned": 17.5e6, "captured": 17e6, "fused": 4.2e6, "both": 4e6, "compiled": 19e6}
DRAWLESS = {"eager": 4.6e6, "planned": 4.6e6, "captured": 4.5e6, "fused": 3.4e6, "both": 3.3e6}


def losses(device: str = "cpu", *, without: tuple[str, ...] = (), wrong: float = 0.0, wide: Mapping[str, float] | None = None,
           drawless: Mapping[str, float] | None = None, **small: float) -> dict:  # fmt: skip
    """ns of each way by program; `small` replaces some of the small block, `without` takes ways away."""
    programs = {"small": SMALL | small, "wide": WIDE | (wide or {}), "wide_drawless": DRAWLESS | (drawless or {})}
    rows, numbers = [], {}
    for program, took in programs.items():
        took = {key: ns for key, ns in took.items() if key not in without}
        for key, ns in took.items():
            saves = took["eager"] - ns
            rows.append({"program": program, "way": TITLES[key], "key": key, "ns": ns, "saves": saves, "seen": abs(saves) > 1e3})
        found = three_losses._numbers({TITLES[key]: ns for key, ns in took.items()})
        numbers |= {f"{program}_{name}": value for name, value in found.items()}
    numbers |= three_losses._draw(numbers) | {"wrong": wrong, "aa_error": 0.02}
    missing = {TITLES[key]: "no compiler today" for key in without}
    missing |= {f"{TITLES[key]}, small": "no compiler today" for key in without}
    return {
        "device": device,
        "rows": rows,
        "races": {},
        "shapes": {},
        "missing": missing,
        "numbers": numbers,
        "notes": ["made up"],
    }


def models(device: str = "cpu", *, profiled: int | None = 47, cures: tuple = (("fuse", 4.1e6),)) -> dict:
    """One small transformer on the board."""
    row = {
        "name": known_models.SMALL,
        "device": device,
        "launches": 47,
        "ops": 47,
        "bytes": 6.8e6,
        "flops": 6.1e7,
        "peak": 180224,
    }
    row |= {"step_ns": 4.9e6, "verdict": "off the roof", "reason": "made up", "profiled": profiled}
    row |= {"cures": [{"name": name, "best_ns": ns} for name, ns in cures]}
    return {"device": device, "rows": [row], "missing": {}, "numbers": known_models._numbers([row]), "notes": ["made up"]}


def study(**wrong: dict) -> dict:
    """Every part, as measured here."""
    return {"board": both(board()), "losses": both(losses()), "models": both(models())} | {k: both(v) for k, v in wrong.items()}
