"""Made-up but plausible parts of the study "batch_and_scale", as a CPU or a GPU would give them."""

from __future__ import annotations

from tests.ridges import HERE, THERE, both, part

__all__ = ["HERE", "THERE", "both"]

BATCHES = (1, 2, 4, 8, 16, 32)
OPS = {"training": 148, "inference": 49, "wide": 148, "weights": 49}


def null(
    device: str = "cpu",
    *,
    training: float = 1.05,
    wide: float = 1.9,
    weights: float = 1.02,
    fixed: float = 0.8,
    wide_fixed: float = 0.05,
    weights_fixed: float = 0.1,
    ops_ratio: float = 1.0,
    extra: tuple[float, float] = (0.98, 1.04),
    seen: tuple[bool, bool] = (True, True),
    error: float = 0.005,
    host: float = 1.2e6,
    busy: float = 0.3e6,
) -> dict:
    """A sweep: each kind's step grows by its ratio with each doubling; `host` and `busy` (kernels, ns) are a GPU's totals of the
    training step at its smallest batch; a wide step's kernels take ten times the host's, a step of weights twice."""
    gpu = device == "cuda"
    ratios = {"training": training, "inference": training, "wide": wide, "weights": weights}
    firsts = {"training": 2e6, "inference": 6e5, "wide": 2e7, "weights": 5e6}
    busies = {"training": busy, "inference": busy / 3, "wide": 10 * host, "weights": 2 * host}
    rows, numbers = [], {}
    for kind, ratio in ratios.items():
        steps = [firsts[kind] * ratio**k for k in range(len(BATCHES))]
        for batch, step in zip(BATCHES, steps, strict=True):
            ops = round(OPS[kind] * (ops_ratio if batch > 1 else 1.0))
            rows.append(
                {
                    "kind": kind,
                    "words": f"2 layers of 64 ({kind})",
                    "batch": batch,
                    "tokens": 16,
                    "ops": ops,
                    "views": 60,
                    "kernels": ops - 9 if gpu else None,
                    "step_ns": step,
                    "host_ns": host if gpu else None,
                    "device_ns": busies[kind] * batch if gpu else None,
                }
            )
        numbers |= {f"{kind}_double": steps[1] / steps[0], f"{kind}_last_double": ratio, f"{kind}_largest": steps[-1] / steps[0]}
        numbers |= {f"{kind}_ops_ratio": ops_ratio}
        if gpu:
            numbers |= {f"{kind}_host": host, f"{kind}_device": busies[kind], f"{kind}_device_over_host": busies[kind] / host}
    numbers |= {"training_ops": 148.0, "training_fixed_share": fixed, "inference_fixed_share": fixed}
    numbers |= {"wide_fixed_share": wide_fixed, "weights_fixed_share": weights_fixed}
    numbers |= {"extra_training": extra[0], "extra_wide": extra[1]}
    added = [
        {
            "kind": kind,
            "batch": 1,
            "adds": 4000,
            "alone_ns": 4e6,
            "step_ns": firsts[kind],
            "with_ns": firsts[kind] + 4e6 * share,
            "error_ns": error * firsts[kind],
            "seen": one,
        }
        for kind, share, one in zip(("training", "wide"), extra, seen, strict=True)
    ]
    return part(numbers, device, rows=rows, extra={"rows": added})


def layer(device: str = "cpu", calls: int = 49, views: int = 26) -> dict:
    rows, numbers = [], {}
    for style, phase, times in (
        ("shipped", "forward", 1),
        ("shipped", "backward", 2),
        ("spelled", "forward", 2),
        ("spelled", "backward", 4),
        ("spelled", "decode", 3),
    ):
        counted = {"calls": times * calls, "ops": times * (calls - views), "views": times * views}
        counted |= {"kernels": times * 23 if device == "cuda" else None}
        rows.append({"style": style, "phase": phase, **counted})
        numbers |= {f"{style}_{phase}_{name}": float(n) for name, n in counted.items() if n is not None}
    return part(numbers | {"layer_ns": 4e5, "token_ns": 1.3e7, "op_ns": 5e3}, device, rows=rows, token=[])


def step(device: str = "cpu", fake: int = 3000, real: int = 2900, apart: int = 0) -> dict:
    def counted(ops: int) -> list[dict]:
        return [
            {"style": style, "phase": phase, "calls": 2 * n, "ops": n, "views": n}
            for style in ("shipped", "spelled")
            for phase, n in (("forward", ops // 3), ("backward", 2 * ops // 3), ("optimizer", 20))
        ]

    numbers = {"check_difference": float(apart)}
    for style in ("shipped", "spelled"):
        numbers |= {f"fake_{style}_ops": float(fake), f"fake_{style}_calls": 2.0 * fake, f"real_{style}_ops": float(real)}
        numbers |= {f"fake_{style}_forward_ops": fake / 3, f"real_{style}_calls": 2.0 * real, f"step_{style}": 2.5e7}
        numbers |= {f"estimate_{style}": 2.7e7, f"one_by_one_{style}_ops": 5000.0}
        numbers |= {f"real_{style}_kernels": real - 100.0} if device == "cuda" else {}
    fakes = {"label": "counted on fake CPU tensors: nothing ran", "words": "32 layers of 4,096", "rows": counted(fake)}
    return part(numbers, device, fake=fakes, real={"words": "32 layers of 64", "rows": counted(real), "kernels": None})


def kernels(device: str = "cuda", half: float = 1.0, long: float = 0.5) -> dict:
    rows = [{"kernel_us": us, "host_us": 8.0, "step_ns": 8000.0} for us in (1.5, 3, 6, 12, 24)]
    numbers = {"half_ratio": half, "long_ratio": long, "step_3": 8000.0, "step_1_5": 8000.0 * half}
    return part(numbers, device, rows=rows, label="simulated" if device == "cpu" else "measured")


def waves(one_more: float = 1.97, half: float = 1.01, dip: float | None = 0.4) -> dict:
    full = {"spin": 132 * 8, "work": 132}
    rows = [
        {"kernel": kernel, "blocks": blocks, "ns": 1e5 * (one_more if blocks > places else 1.0)}
        for kernel, places in full.items()
        for blocks in (places // 2, places, places + 1, 2 * places)
    ]
    numbers = {"spin_one_more": one_more, "work_one_more": 1.94, "work_later": 1.24, "spin_later": 1.02, "work_half": half}
    numbers |= {"gemm_dip": dip} if dip else {}
    return part(numbers, "cuda", rows=rows, sms=132, fits=8, gemm=[])


def host(device: str = "cpu", small: float = 1.0, wide: float = 0.97, slowed: float = 4.0, shared: bool = True) -> dict:
    rows = [
        {"kind": kind, "slow_us": us, "calls": 148, "step_ns": 2e6 + 148e3 * us, "predicted_ns": 2e6 + 150e3 * us}
        for kind in ("small", "wide")
        for us in (0, 10, 20)
    ]
    numbers = {"slope_small": small, "slope_wide": wide, "slowed_small": slowed, "slowed_wide": 1.2}
    numbers |= {"shared_small": 1.9, "shared_wide": 1.3} if shared else {}
    return part(numbers, device, slowed=rows, shared=[])


def clocks(idle: float = 1980.0, products: float = 1500.0) -> dict:
    rows = [{"state": "after idling", "mhz": idle, "what": ""}, {"state": "products", "mhz": products, "what": ""}]
    return part({"idle_mhz": idle, "products_mhz": products, "idle_over_products": idle / products}, "cuda", rows=rows)


def cost(device: str = "cpu", first: float = 1e6, slope: float = 1e5) -> dict:
    """A step of `first` ns, plus `slope` for each sample."""
    rows = [
        {"batch": 1 << k, "step_ns": first + slope * (1 << k), "per_s": 1e9 * (1 << k) / (first + slope * (1 << k))}
        for k in range(7)
    ]
    work = [{"batch": 1, "flops": 2e8, "bytes": 14e6}, {"batch": 64, "flops": 128e8, "bytes": 27e6}]
    gain = rows[-1]["per_s"] / rows[0]["per_s"]
    numbers = {"gain": gain, "first_per_s": rows[0]["per_s"], "best_per_s": rows[-1]["per_s"], "first_ns": rows[0]["step_ns"]}
    return part(numbers, device, rows=rows, work=work, ops=60, words="2 layers of 64", dtype="fp32")


def study(**wrong: dict) -> dict:
    """All parts as a lesson has them on a CPU; `wrong` replaces some."""
    parts = {
        "null_experiment": null(),
        "layer_ops": layer(),
        "step32": step(),
        "two_kernels": kernels("cpu"),
        "host": host(),
        "cost": cost(),
    }
    found = {name: both(value) for name, value in (parts | wrong).items()}
    return {"waves": both(None, waves()), "clocks": both(None, clocks()), **found}
