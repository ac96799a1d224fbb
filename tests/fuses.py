"""Random but plausible parts of the study "fuse", as a CPU or a GPU would give them; what surprises is asked for by name."""

from __future__ import annotations

import random

from tests.factories import make_race
from tests.ridges import HERE, THERE, both
from utils.kernels.forms import STEPS
from utils.measure.fuse_steps import NAMES

__all__ = ["HERE", "THERE", "both"]
SHAPE = (1024, 4096)


def part(numbers: dict, device: str = "cpu", **more) -> dict:
    return {
        "device": device,
        "by": "C++" if device == "cpu" else "Triton",
        "numbers": numbers,
        "notes": ["malloc pinned"],
        **more,
    }


def steps(device: str = "cpu", *, off: float = 1.0, plain: float | None = 1.2, bias: float = 1.0, wrong: str = "",
          error: float = 0.01) -> dict:  # fmt: skip
    """The measured gain is `off` times that of the bytes; with plain stores the fused kernel takes `plain` times as long; the
    bias makes it `bias` times as long."""
    rng = random.Random(9)
    rows, fused = [], 3000.0
    for name, form in STEPS.items():
        tensors = form.eager_words(*SHAPE) / (SHAPE[0] * SHAPE[1]), form.words(*SHAPE) / (SHAPE[0] * SHAPE[1])
        took = fused * (bias if form.bias and not form.gelu else 1.0)
        eager = off * took * tensors[0] / tensors[1]
        rows.append(
            {
                "step": name,
                "ops": form.ops,
                "eager_tensors": tensors[0],
                "fused_tensors": tensors[1],
                "eager_us": eager,
                "fused_us": took,
                "plain_us": None if plain is None else plain * took,
                "eager_paper_us": 1000.0 * tensors[0] * rng.uniform(0.9, 1.1),
                "fused_paper_us": 1000.0 * tensors[1],
                "predicted": tensors[0] / tensors[1],
                "gain": eager / took,
                "eager_faults": 0,
                "fused_faults": 0,
                "wrong": wrong if name == "two ops" else "",
            }
        )
    numbers = {"aa_error": error, "error": error, "wrong": float(bool(wrong)), "bias_extra": bias, "flat": 1.0}
    for row in rows:
        numbers |= {f"{NAMES[row['step']]}_gain": row["gain"], f"{NAMES[row['step']]}_predicted": row["predicted"]}
        if plain is not None:
            numbers[f"{NAMES[row['step']]}_plain_gain"] = row["gain"] / plain
    race = make_race(prices={row["step"] + ", fused": row["fused_us"] * 1e3 for row in rows})
    return part(numbers, device, rows=rows, race=race)


def chain(device: str = "cpu", *, free: int = 16, longest: int = 64) -> dict:
    """Flat up to `free` adds, in proportion beyond; op by op eight adds take eight times one."""
    tried = [k for k in (1, 4, 8, 16, 64) if k <= longest]
    each = 8 if device == "cpu" else 4
    rows = [
        {
            "adds": k,
            "fused_us": 2000.0 * max(1.0, k / free),
            "eager_us": 2000.0 * k if k <= 8 else None,
            "fused_intensity": k / each,
            "eager_intensity": 1 / each,
        }
        for k in tried
    ]
    by = {row["adds"]: row["fused_us"] for row in rows}
    numbers = {
        "free": float(min(free, longest)),
        "intensity_free": min(free, longest) / each,
        "eager_rise": 8.0,
        "fused_rise": by[8] / by[1],
        "longest": float(longest),
        "longest_rise": by[longest] / by[1],
        "wrong": 0.0,
        "aa_error": 0.01,
    }
    return part(numbers, device, rows=rows)


def sizes(device: str = "cpu", *, small: float = 4.0, large: float = 6.0, compiled: tuple[float | None, ...] = (0.1, 0.5, 1.0),
          hand: tuple[float, ...] = (0.5, 0.8, 1.1)) -> dict:  # fmt: skip
    """Three sizes: the gain of the chain at its ends, of `a + b` compiled and by hand at each."""
    rows = []
    gains = (small, (small * large) ** 0.5, large)
    for n, eager, gain, comp, own in zip((512, 1 << 17, 1 << 23), (1.0, 50.0, 8000.0), gains, compiled, hand, strict=True):
        rows.append(
            {
                "elements": n,
                "add_eager_us": eager,
                "add_hand_us": eager / own,
                "add_fresh_us": 1.5 * eager,
                "add_compiled_us": None if comp is None else 1.5 * eager / comp,
                "chain_eager_us": 8 * eager,
                "chain_hand_us": 8 * eager / gain,
                "add_gain": own,
                "compiled_gain": comp,
                "chain_gain": gain,
            }
        )
    numbers = {"launches_ratio": 8.0, "bytes_ratio": 17 / 3, "compile_s": 4.0, "wrong": 0.0, "aa_error": 0.01, "error": 0.01}
    for name, row in (("small", rows[0]), ("large", rows[-1])):
        numbers |= {f"{name}_{key}": row[key] for key in ("add_gain", "compiled_gain", "chain_gain") if row[key] is not None}
    found = part(numbers, device, rows=rows)
    if compiled[0] is None:
        found["notes"].append("torch.compile failed: no C++ compiler")
    return found


def peer(device: str = "cpu", *, against: float = 1.3, error: float = 0.01, kernels: int = 1) -> dict:
    """torch.compile takes `against` times as long as the kernel by hand."""
    us = {"a + b of torch": 1000.0, "op by op": 6000.0, "by hand": 1100.0, "torch.compile": 1100.0 * against}
    rows = [{"who": who, "us": t, "gbps": 5e4 / t, "share": 1000.0 / t, "faults": 0, "wrong": ""} for who, t in us.items()]
    numbers = {
        "by_hand_share": 1000 / 1100,
        "compiled_share": 1000 / 1100 / against,
        "against": against,
        "kernels": float(kernels),
        "kernel_lines": 2.0,
        "compile_s": 6.2,
        "wrong": 0.0,
        "aa_error": error,
        "error": error,
    }
    language = "C++" if device == "cpu" else "Triton"
    return part(numbers, device, rows=rows, language=language, kernel="void kernel()\n{ out[i] = x[i] < 1; }")


def interpreter(wrong: str = "") -> dict:
    rows = [{"step": name, "wrong": wrong if name == "with bias" else "", "seconds": 0.4} for name in STEPS]
    return part({"steps": float(len(rows)), "wrong": float(bool(wrong)), "shapes": 2.0}, rows=rows)


def fresh_output(ratio: float = 3.8, faults: float = 16_384.0) -> dict:
    rows = [
        {"arm": "output given", "us": 9000.0, "faults": 0.0, "pages": 16_384.0},
        {"arm": "fresh output", "us": 9000.0 * ratio, "faults": faults, "pages": 16_384.0},
    ]
    return part({"ratio": ratio, "fresh_faults": faults, "given_faults": 0.0, "pages": 16_384.0}, rows=rows)


def study() -> dict:
    """Every part that the lesson judges, as a sound machine gives it."""
    made = {"steps": steps(), "chain": chain(), "sizes": sizes(), "peer": peer(), "interpreter": interpreter()}
    made |= {"fresh_output": fresh_output()}
    return {name: both(value) for name, value in made.items()}
