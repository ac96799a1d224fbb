"""Random but plausible parts of the study "two_ceilings", as a CPU or a GPU would give them; each the same for the same seed."""

from __future__ import annotations

import random

from tests.ridges import HERE, THERE, both

__all__ = ["HERE", "THERE", "both"]
PRICES = {
    "cpu": {"dispatch": 1100.0, "launch": 0.0, "start": 0.0, "gap": 0.0, "sync": 0.0, "depth": 1024.0, "gbps": 11.0},
    "cuda": {
        "dispatch": 3100.0,
        "launch": 4200.0,
        "start": 1500.0,
        "gap": 700.0,
        "sync": 9000.0,
        "depth": 1022.0,
        "gbps": 4370.0,
    },
}


def part(numbers: dict, device: str = "cpu", **more) -> dict:
    return {"device": device, "numbers": numbers, "notes": ["one thread"], **more}


def calibration(device: str = "cpu", **numbers: float) -> dict:
    found = PRICES[device] | numbers
    found["hot"] = found["dispatch"] + found["launch"]
    kinds = [
        {"kind": kind, "host_us": 1e-3 * found["hot"] * f, "grad_us": 2e-3 * found["hot"]}
        for kind, f in (("add", 1), ("gelu", 1.4))
    ]
    bandwidth = [{"elements": 1 << 24, "bytes": 12 << 24, "us": (12 << 24) / found["gbps"] * 1e-3, "gbps": found["gbps"]}]
    return part({"in_program": 2.4 * found["hot"], **found}, device, kinds=kinds, bandwidth=bandwidth)


def sweep(device: str = "cpu", break_even: float | None = 9_000.0, fixed: float = 1200.0) -> dict:
    rows = []
    for power in range(8, 25, 2):
        host, kernel = 1e-3 * fixed, 1e-3 * fixed * (1 << power) / (break_even or 1e12)
        step = host + kernel if device == "cpu" else max(host, kernel)
        rows.append({"elements": 1 << power, "bytes": 12 << power, "host_us": host, "device_us": kernel, "step_us": step,
                     "bound": "host" if host > kernel else "device"})  # fmt: skip
    numbers = {"fixed": fixed} | ({} if break_even is None else {"break_even": break_even, "break_even_bytes": 12 * break_even})
    return part(numbers, device, rows=rows)


def models(device: str = "cpu", *, off: dict[str, float] | None = None, long_off: dict[str, float] | None = None) -> dict:
    """Cases in which each model is off by the factor it is given; `long_off` for chains of 16 ops and more."""
    rng = random.Random(7)
    rows = []
    for length in (1, 4, 16, 64):
        for elements in (1 << 10, 1 << 16, 1 << 22):
            measured = rng.uniform(50, 5000)
            factors = {"sum": 1.0, "max": 1.0, "queue": 1.0} | (off or {}) | ((long_off or {}) if length >= 16 else {})
            rows.append({"case": f"{length} ops on {elements:,}", "length": length, "elements": elements, "measured_us": measured,
                         "spread": 1.05, **{f"{name}_us": factor * measured for name, factor in factors.items()}})  # fmt: skip
    return part({"sum_median": 0.02, "max_median": 0.3, "queue_median": 0.02}, device, rows=rows, fitted={"host_us": 1.2})


def flip(device: str = "cpu", *, ratio: float = 400.0, sizes: float = 1000.0, ops: tuple[int, int] = (5, 5),
         ends: tuple[str, str] = ("host", "device")) -> dict:  # fmt: skip
    small = {
        "elements": 16_000,
        "flops": 5e6,
        "bytes": 3e5,
        "host_us": 9.0,
        "device_us": 2.0,
        "step_us": 20.0,
        "bottleneck": ends[0],
    }
    large = {"elements": round(16_000 * sizes), "flops": 5e6 * sizes, "bytes": 3e5 * sizes, "host_us": 9.0,
             "device_us": 20.0 * ratio, "step_us": 20.0 * ratio, "bottleneck": ends[1]}  # fmt: skip
    numbers = {
        "flops_ratio": sizes,
        "ops_small": ops[0],
        "ops_large": ops[1],
        "host_share_small": 0.8,
        "host_share_large": 0.001,
        "flips": float(ends[0] != ends[1]),
    }
    return part(numbers, device, rows=[small, large])


def flop_only(device: str = "cpu", factors: tuple[float, ...] = (3.0, 40.0, 900.0)) -> dict:
    rows = [
        {"case": f"case {k}", "flops": 1e6 * k, "flop_us": 2.0 * k, "measured_us": 2.0 * k * f, "times_too_fast": f}
        for k, f in enumerate(factors, 1)
    ]
    ordered = sorted(factors)
    numbers = {"least": ordered[0], "median": ordered[len(ordered) // 2], "most": ordered[-1]}
    return part(numbers, device, rows=rows)


def drift(device: str = "cpu", later: float = 1.5) -> dict:
    """Six seconds: the price is 1,000 ns in the first, and `later` times that in the fourth."""
    points = [{"s": 0.05 * i, "ns": 1000.0 * (later if 60 <= i < 80 else 1.0) + i % 3} for i in range(120)]
    low, high = sorted((1001.0, 1000.0 * later + 1))
    return part({"low": low, "high": high, "ratio": high / low, "seconds": 6.0, "twins": 1.02}, device, points=points)


def toy_block(device: str = "cpu", launches: float = 5.0) -> dict:
    rows = [
        {"op": op, "launches": 1, "bytes": 3e7, "us": us, "paper_us": 9.0, "gbps": 8.0}
        for op, us in (("matmul", 900.0), ("bias", 100.0), ("gelu", 200.0), ("dropout", 300.0), ("add", 150.0))
    ]
    numbers = {
        "launches": launches,
        "tail": 750e3,
        "tail_bytes": 1.2e8,
        "paper_tail": 36e3,
        "tax": 21e3,
        "activation_bytes": float(16 << 20),
    }
    return part(numbers, device, rows=rows)


def thousand(device: str = "cpu", ns: float = 1.3e6, mixed: float | None = 2.9e6) -> dict:
    return part({"thousand": ns, "per_op": ns / 1000} | ({} if mixed is None else {"thousand_kinds": mixed}), device)


def study() -> dict:
    """Every part that the lesson judges, as a sound machine gives it."""
    made = {"calibration": calibration(), "three_models": models(off={"max": 0.6}), "sweep": sweep(), "flip": flip()}
    made |= {"flop_only": flop_only(), "drift": drift(), "toy_block": toy_block(), "thousand": thousand()}
    return {name: both(value) for name, value in made.items()}
