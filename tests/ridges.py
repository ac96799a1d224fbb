"""Random but plausible parts of the ridge-point study, as a CPU or a GPU would give them; each the same for the same seed."""

from __future__ import annotations

import random

from tests.factories import make_race
from utils.measure.census import GROUPS
from utils.measure.launch_here import Found
from utils.measure.op_table import OPS
from utils.measure.placed_ops import numbers as op_numbers
from utils.measure.placed_ops import placed
from utils.measure.ridge_here import Both

HERE, THERE = "live · AMD EPYC, 2 cores · torch 2.13.0+cpu", "recorded · NVIDIA H200 · torch 2.11.0+cu130 · 2026-11-30"
ROOFS = {
    "cpu": {"gbps": 36.0, "gemm_fp32": 0.17, "vector_fp32": 0.2},
    "cuda": {"gbps": 4372.0, "gemm_bf16": 803.0, "vector_fp32": 63.6},
}
STREAMS = {"torch copy": 0.6, "torch add": 0.7, "copy": 0.65, "copy, streaming stores": 0.99, "triad, streaming stores": 1.0}


def both(here: dict | None, there: dict | None = None, why: str = "it could not be measured here: no compiler") -> Both:
    """A part as measured here and as recorded; None for what is not there."""
    live = Found(None, why=why) if here is None else Found(here, HERE, live=True)
    kept = Found(None, why="no GPU has been recorded yet") if there is None else Found(there, THERE)
    return Both(live, kept)


def part(numbers: dict, device: str = "cpu", **more) -> dict:
    return {"device": device, "numbers": numbers, "notes": [], **more}


def peaks(device: str = "cpu", **numbers: float) -> dict:
    """The ceilings; `numbers` replaces some of them, and None takes one away."""
    found = {"gbps": 36.0, "gemm_fp32": 0.17, "gemm_bf16": 0.001, "vector_fp32": 0.2, "integer": 0.19, "issue": 0.039}
    if device == "cuda":
        found = {"gbps": 4372.0, "gemm_fp32": 51.0, "gemm_tf32": 418.0, "gemm_fp16": 773.0, "gemm_bf16": 803.0}
        found |= {"vector_fp32": 63.6, "integer": 32.3, "issue": 32.3}
    found = {name: value for name, value in (found | numbers).items() if value is not None}
    found["torch_copy_gbps"] = 0.6 * found["gbps"]
    gbps = {name: share * found["gbps"] for name, share in STREAMS.items()}
    sheet = {"name": "NVIDIA H200 SXM", "gbps": 4800.0, "tflops": {"bf16": 989.0, "fp32": 67.0}} if device == "cuda" else None
    paper = None if device == "cuda" else {"ghz": 3.25, "lanes": 8, "cores": 2, "fp32_tflops": 0.208, "why": "made up"}
    moved = part({"gbps": found["gbps"], "torch_copy_gbps": found["torch_copy_gbps"]}, device)
    return part(
        found,
        device,
        machine="NVIDIA H200" if device == "cuda" else "AMD EPYC",
        bandwidth={**moved, "gbps": gbps, "best": "triad, streaming stores"},
        gemm={"missing": {}},
        engines={"missing": {}},
        datasheet=sheet,
        paper=paper,
    )


def ops(device: str = "cpu", share: dict[str, float] | None = None, **roofs: float) -> dict:
    """The op table: each op takes its floor over its `share` (default: 0.3 to 0.95 at random)."""
    rng = random.Random(6)
    known = ROOFS[device] | roofs
    dtype = "fp32" if device == "cpu" else "bf16"
    rows = []
    for key in OPS:
        size = {"gemm": 1024, "matvec": 2048, "decode": 4096}.get(key, 1 << 22)
        floor = placed(key, size, dtype, 1.0, known)["floor_ns"]
        rows.append(placed(key, size, dtype, floor / (share or {}).get(key, rng.uniform(0.3, 0.95)), known))
    return part(op_numbers(rows), device, rows=rows, dtype=dtype, roofs=known, missing={})


def warm_cold(ratio: float = 2.4, warm_gbps: float = 80.0) -> dict:
    race = make_race(prices={"warm": 1e5, "cold": 1e5 * ratio})
    return part({"ratio": ratio, "warm_gbps": warm_gbps, "cold_gbps": warm_gbps / ratio}, race=race, sets=32, elements=1 << 20)


def intermediate(late: float = 2e7, soon: float = 1.8e7, reused: float = 1.4e7) -> dict:
    race = make_race(prices={"late": late, "soon": soon, "reused": reused})
    numbers = {"soon_ratio": late / soon, "reused_ratio": late / reused, "reused_gbps": 268.0 / reused * 1e6, "roof_gbps": 23.0}
    return part(numbers, race=race, pieces=16, elements=1 << 20, bytes=268e6)


def layout(transposed: float = 7.5, both_: float = 1.02, copied: float = 4.9, sixteenth: float = 7.5) -> dict:
    race = make_race(
        prices={
            "contiguous": 3e6,
            "one transposed": 3e6 * transposed,
            "both transposed": 3e6 * both_,
            "copied first": 3e6 * copied,
        }
    )
    numbers = {
        "transposed_ratio": transposed,
        "both_ratio": both_,
        "copied_ratio": copied,
        "every_16_ratio": sixteenth,
    }
    return part(numbers, race=race)


def allocation(ratio: float = 3.5, faults: float = 16_385.0) -> dict:
    rows = [
        {"history": "fresh process", "mb": 64, "arm": arm, "ns": ns, "faults": f, "pages": 16_384.0, "gbps": 201e6 / ns}
        for arm, ns, f in (("result given", 1.5e7, 0.0), ("fresh result", 1.5e7 * ratio, faults))
    ]
    numbers = {"fresh_64_ratio": ratio, "fresh_64_faults": faults, "fresh_64_given_faults": 0.0}
    return part(numbers | {"pinned_64_ratio": 1.01, "pinned_64_faults": 0.0}, rows=rows)


def decode(one: float = 0.4995, many: float = 0.4995) -> dict:
    rows = [
        {
            "batch": n,
            "heads": 32,
            "kv_heads": k,
            "context": 1024,
            "intensity": one,
            "linear_intensity": n / 2,
            "ns": 3e6,
            "gbps": 10.0,
        }
        for n, k in ((1, 32), (4, 32), (1, 8))
    ]
    numbers = {"intensity": one, "intensity_largest": many, "intensity_shared": 4 * one, "linear_first": 0.5}
    return part(numbers | {"linear_largest": 2.0, "gbps": 10.0, "share": 0.4}, rows=rows, dtype="fp32")


def census(below: float = 0.91, product_time: float = 0.65, product_count: float = 0.077) -> dict:
    numbers = {"ops": 352.0, "below_count": below, "below_time": 0.35}
    rest = [group for group in GROUPS if group != "product"]
    for group in rest:
        numbers |= {f"{group}_count": (1 - product_count) / len(rest), f"{group}_time": (1 - product_time) / len(rest)}
    return part(numbers | {"product_count": product_count, "product_time": product_time}, model="2 layers of 256, 4 × 64 tokens")


def mfu(ratio: float = 90.0, sheet: float | None = None) -> dict:
    shares = {"tiny": 0.3 / ratio, "narrow": 0.1, "wide": 0.3}
    rows = [
        {
            "model": name,
            "words": f"{name}, in words",
            "step_ns": 3e7,
            "flops": 3e9,
            "six_nd": 3.1e9,
            "mfu": share,
            "mfu_datasheet": sheet,
        }
        for name, share in shares.items()
    ]
    return part({**{f"mfu_{n}": s for n, s in shares.items()}, "wide_over_tiny": ratio}, rows=rows, dtype="fp32")


def levels() -> dict:
    points = [
        {"kb": kb, "gbps": rate, "fits": fits}
        for kb, rate, fits in ((32, 390.0, "L1"), (512, 200.0, "L2"), (9e5, 36.0, "memory"))
    ]
    return part({"L1_gbps": 390.0, "L2_gbps": 200.0, "memory_gbps": 36.0}, points=points, caches={"L1": 65_536, "L2": 1 << 20})


def knee(**numbers: float) -> dict:
    points = {
        "fma": [{"k": k, "intensity": k / 4, "tera": min(0.2, 0.036 * k / 4)} for k in (1, 4, 16, 64)],
        "integer": [{"k": k, "intensity": k / 8, "tera": min(0.19, 0.036 * k / 8)} for k in (2, 8, 32, 128)],
    }
    found = numbers or {"ridge_fma": 5.6, "ridge_integer": 5.3, "fma": 0.2, "integer": 0.19}
    return part({**found, "gbps": 36.0}, points=points)


def activation(read: float | None = 8e6) -> dict:
    numbers = {"paper_read": 81_344.0, "paper_read_write": 162_688.0, "read_write": 2.5e7}
    return part(numbers | ({} if read is None else {"read": read}))


def gemm_tax() -> dict:
    rows = [
        {"n": n, "dtype": "fp32", "tax_ns": 2000.0, "ns": 2000.0 / share, "share": share}
        for n, share in ((64, 0.13), (1024, 7e-5))
    ]
    return part({"tax": 2000.0}, rows=rows)


def study() -> dict[str, Both]:
    """Every part that the lesson judges, as a sound machine gives it."""
    parts = {"peaks": peaks(), "ops": ops(), "warm_cold": warm_cold(), "intermediate": intermediate(), "layout": layout()}
    parts |= {"allocation": allocation(), "decode": decode(), "census": census(), "mfu": mfu()}
    return {name: both(value) for name, value in parts.items()}
