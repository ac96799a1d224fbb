"""Whether a cheaper dropout and a cheaper GELU are still what they claim to be: masks tested as random, GELU over every bf16.

A mask is judged by what it must be: its share, its neighbours, its rows, its seed. Each plausible wrong way to draw stands
beside it, and fails at least one of these tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from utils.kernels import cpu_door, gelu, philox
from utils.kernels.data import SEED, Data
from utils.kernels.forms import Form, P, dropped, scale, threshold
from utils.measure.either_clock import Progress, need

ROWS, COLS = 1024, 2048  # so many draws that a threshold of eight bits shows
DRAW = "eight"
LIMIT = 5.0  # standard deviations: a sound mask passes a test in all but one of two million cases
NAMES = {
    "share": "the share that is kept",
    "across": "neighbours in a row",
    "down": "neighbours in a column",
    "group": "eight rows further down",
    "seeds": "another seed",
}
Drawn = Callable[[int], np.ndarray]  # a seed → the mask, True where kept


def honest_mask(seed: int) -> np.ndarray:
    """The finished kernel's own mask, recomputed."""
    return philox.keep(DRAW, ROWS, COLS, seed)


def tested(mask_of: Drawn, seed: int = SEED, *, kept: float | None = None) -> dict[str, float]:
    """How many standard deviations the masks lie from what independent draws would give, by test (`NAMES`).

    `mask_of(seed)` gives a mask of rows x columns. `kept` is the probability that the kernel's scale is for (default: the exact
    one of 16 bits).
    """
    kept = 1.0 - dropped(DRAW) if kept is None else kept
    mask, other = mask_of(seed), mask_of(seed + 1)
    found = {"share": (mask.mean() - kept) * (mask.size / (kept * (1 - kept))) ** 0.5}
    centred, spread = mask.astype(np.float32) - np.float32(kept), kept * (1 - kept)

    def beside(a: np.ndarray, b: np.ndarray) -> float:
        return float(np.mean(a * b, dtype=np.float64) / spread * a.size**0.5)

    found["across"] = beside(centred[:, 1:], centred[:, :-1])
    found["down"] = beside(centred[1:], centred[:-1])
    found["group"] = beside(centred[8:], centred[:-8])
    found["seeds"] = beside(centred, other.astype(np.float32) - np.float32(kept))
    return {name: float(value) for name, value in found.items()}


def fails(found: Mapping[str, float]) -> list[str]:
    """The tests that a mask does not pass."""
    return [name for name, sigmas in found.items() if abs(sigmas) > LIMIT]


def one_word_for_four_rows(seed: int) -> np.ndarray:
    """The first of a call's words decides about all four rows of its group."""
    return np.repeat(philox.keep("one", ROWS // 4, COLS, seed), 4, axis=0)


def every_group_alike(seed: int) -> np.ndarray:
    """The counter forgets the group: every eight rows draw the same."""
    return np.tile(philox.keep(DRAW, 8, COLS, seed), (ROWS // 8, 1))


def one_byte(seed: int) -> np.ndarray:
    """Bytes instead of halves: a tenth is not among their multiples."""
    return (philox.draws(DRAW, ROWS, COLS, seed) & 0xFF) >= round(P * 256)


def seed_forgotten(seed: int) -> np.ndarray:
    """The same mask whatever the seed."""
    return honest_mask(SEED)


WRONG_WAYS: dict[str, Drawn] = {
    "one word for four rows": one_word_for_four_rows,
    "every eight rows alike": every_group_alike,
    "thresholds of one byte": one_byte,
    "the seed forgotten": seed_forgotten,
}


def gelus() -> dict[str, Callable]:
    """Ways to compute GELU of an array of fp32 numbers, by name."""
    import torch

    def given(f: Callable) -> Callable:
        return lambda x: f(torch.from_numpy(x.copy())).float().numpy()

    def formula(x):
        return 0.5 * x * (1.0 + torch.erf(x * 0.7071067811865476))

    def tail(x):
        return 0.5 * x * torch.erfc(x * -0.7071067811865476)

    return {
        "cheap, degree 4": gelu.cheap,
        "cheap, degree 3": lambda x: gelu.cheap(x, 3),
        "formula with erf": given(formula),
        "formula with erfc": given(tail),
        "tail by Abramowitz and Stegun": abramowitz_stegun,
        "torch, bf16": given(lambda x: torch.nn.functional.gelu(x.bfloat16())),
        "tanh": given(lambda x: torch.nn.functional.gelu(x, approximate="tanh")),
    }


def abramowitz_stegun(x: np.ndarray) -> np.ndarray:
    """GELU by their formula 7.1.26, in fp32, with the tail taken as it stands and not as what is left of 1."""
    x = np.asarray(x, dtype=np.float32)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        z = np.abs(x) * np.float32(0.5**0.5)
        t = 1 / (1 + np.float32(0.3275911) * z)
        poly = np.zeros_like(t)
        for c in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592):
            poly = (poly + np.float32(c)) * t
        upper = poly * np.exp(-z * z) * np.float32(0.5)
        return np.where(x < 0, x * upper, x - x * upper).astype(np.float32)


def honest(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """Masks and GELUs tested, here: nothing of it is timed.

    "masks": [{"name", "sigmas" (by test), "fails"}], the first of them the finished kernel's; "gelus": [{"name", "ulp", "at",
    "absolute", "off", "inputs"}] over all finite bf16 numbers; "kernel": what ran and whether its mask is the recomputed one, or
    why none ran; "numbers": "worst_sigma", "kept", "scale", "scale_off_ppm" (of kept times scale, from 1), "caught" (wrong ways
    that fail), "ways", "ulp", "absolute" (of the cheap GELU), "kernel_agrees" (1 or 0, where one ran). About 2 s.
    """
    need(device, "a kernel's mask")
    masks = []
    for name, way in {"the kernel's own": honest_mask, **WRONG_WAYS}.items():
        found = tested(way)
        masks.append({"name": name, "sigmas": found, "fails": fails(found)})
    x = gelu.all_bf16()
    rows = []
    for name, f in gelus().items():
        rows.append({"name": name, "inputs": int(x.size), **gelu.errors(x, f(x))})
    kernel = kernels_mask(device)
    own = masks[0]["sigmas"]
    numbers = {
        "worst_sigma": max(abs(s) for s in own.values()),
        "kept": 1.0 - dropped(DRAW),
        "threshold": float(threshold(DRAW)),
        "scale": scale(DRAW),
        "scale_off_ppm": 1e6 * abs(scale(DRAW) * (1.0 - dropped(DRAW)) - 1.0),
        "caught": float(sum(bool(one["fails"]) for one in masks[1:])),
        "ways": float(len(WRONG_WAYS)),
        "ulp": float(rows[0]["ulp"]),
        "absolute": rows[0]["absolute"],
    }
    if kernel["agrees"] is not None:
        numbers["kernel_agrees"] = float(kernel["agrees"])
    return {"device": device, "masks": masks, "gelus": rows, "kernel": kernel, "numbers": numbers, "notes": [kernel["said"]]}


def kernels_mask(device: str) -> dict:
    """A kernel of this machine draws a mask, and it is compared with the recomputed one, element by element:

    {"by": what ran, "agrees": True, False or None where nothing ran, "said": in words}."""
    import torch

    form = Form(draw=DRAW)
    try:
        ones = torch.ones(64, 1024, device=device)
        buffers = Data(ones, ones[0], ones, torch.zeros_like(ones))
        if device == "cuda":
            from utils.kernels import on_gpu

            fused = on_gpu.fused(form, buffers)
            fused()
            torch.cuda.synchronize()
            by = f"the kernel by {fused.by}"
        else:
            cpu_door.launch(form, buffers)()
            by = "the C++ chain"
    except Exception as error:  # no compiler, no Triton: each fails in a kind of its own, and the rest of the part goes on
        return {"by": "", "agrees": None, "said": f"no kernel drew a mask here: {' '.join(str(error).split())[:160]}"}
    made = (buffers.out != 0).cpu().numpy()
    agrees = bool((made == philox.keep(DRAW, *made.shape, buffers.seed)).all())
    return {"by": by, "agrees": agrees, "said": f"{by} and the recomputed mask {'agree' if agrees else 'DIFFER'}"}
