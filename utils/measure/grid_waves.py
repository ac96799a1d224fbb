"""Waves seen on the device: the time of a grid by its number of blocks, where each block waits so long or does so much work.

The two grids step at different sizes. Blocks that wait share an SM without slowing each other, so a new wave begins when all
places are taken; blocks that keep an SM busy share its arithmetic, so the time steps where the SMs run out. A product stands
beside them.
"""

from __future__ import annotations

from utils.measure.device_clock import MeasurementError
from utils.measure.either_clock import Progress, need, race, within
from utils.measure.gemm_peak import torch_dtype
from utils.measure.placed_ops import usual_dtype
from utils.model.waves import Waves

THREADS, SPIN_NS, ROUNDS, TIMES = 512, 50_000, 2500, 7
TILE, SIDE = 128, 4096  # rows of a product grow by one tile


def grids(sms: int, places: int) -> dict[str, list[int]]:
    """Blocks to try for each kernel: below, at and just above whole waves of `places` (waiting) and of `sms` (working)."""
    waiting = {1, sms // 2, sms} | {b for k in range(1, 5) for b in (k * places - places // 2, k * places, k * places + 1)}
    working = {1, sms // 4, sms // 2} | {b for k in range(1, 7) for b in (k * sms - sms // 2, k * sms, k * sms + 1)}
    return {"spin": sorted(b for b in waiting if b > 0), "work": sorted(b for b in working if b > 0)}


def waves(device: str = "cuda", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """Grids and their times, from the first block's begin to the last one's end by the device's own clock:

    "sms", "fits" (blocks of "spin" that an SM holds), "rows": [{"kernel": "spin" | "work", "blocks", "ns", "waves" (of the model:
    places for "spin", SMs for "work"), "lost" (by the model), "model_ns"}], "gemm": [{"m", "n", "k", "dtype", "ns", "tflops"}]
    by its rows, "numbers": see `numbers`. About 6 s. MeasurementError without a GPU, a compiler or torch's run-time compiler.
    """
    import torch

    from utils.measure.stamp_kernels import Launcher

    need(device, "a grid's waves")
    launcher = Launcher()
    sms = torch.cuda.get_device_properties(torch.device(device)).multi_processor_count
    fits = launcher.blocks_that_fit("residents", THREADS)
    if fits < 1:
        raise MeasurementError(f"an SM of this device holds no block of {THREADS} threads")
    sink = torch.zeros(1, device=device)
    times: dict[str, dict[int, float]] = {}
    for kernel, sizes in grids(sms, sms * fits).items():
        times[kernel] = {}
        for done, blocks in enumerate(sizes):
            if progress:
                progress(0.3 * done / len(sizes) + 0.3 * (kernel == "work"), f"{kernel}: {blocks:,} blocks")
            times[kernel][blocks] = _span(launcher, kernel, blocks, sink)
    products = _products(device, quick, within(progress, 0.6, 0.4))
    rows = rows_of(times, sms, fits)
    return {
        "device": device,
        "sms": sms,
        "fits": fits,
        "rows": rows,
        "gemm": products,
        "numbers": numbers(rows, sms, fits) | gemm_numbers(products),
        "notes": [f"blocks of {THREADS} threads"],
    }


def rows_of(times: dict[str, dict[int, float]], sms: int, fits: int) -> list[dict]:
    """Times (ns) by kernel and blocks as rows, with what the model says beside: waves times the time of a first full one."""
    rows = []
    for kernel, of in times.items():
        per_sm = fits if kernel == "spin" else 1
        one = of[sms * per_sm]
        for blocks, ns in sorted(of.items()):
            model = Waves(blocks, sms, per_sm)
            rows.append(
                {
                    "kernel": kernel,
                    "blocks": blocks,
                    "ns": ns,
                    "waves": model.count,
                    "lost": model.lost,
                    "idle_sms": model.idle_sms,
                    "model_ns": model.count * one,
                }
            )
    return rows


def numbers(rows: list[dict], sms: int, fits: int) -> dict[str, float]:
    """For each kernel: "_one_more" (one block more than a full wave, over the full wave), "_half" (half the SMs over all of them:
    1 where the idle half gains nothing), "_later" (one block more than four full waves, over those), "_model_error" (the largest
    relative distance of the model from a time)."""
    out = {}
    for kernel, places in (("spin", sms * fits), ("work", sms)):
        at = {row["blocks"]: row["ns"] for row in rows if row["kernel"] == kernel}
        out |= {
            f"{kernel}_one_more": at[places + 1] / at[places],
            f"{kernel}_later": at[4 * places + 1] / at[4 * places],
            f"{kernel}_half": at[sms // 2] / at[sms],
            f"{kernel}_model_error": max(abs(row["model_ns"] / row["ns"] - 1) for row in rows if row["kernel"] == kernel),
        }
    return out


def gemm_numbers(products: list[dict]) -> dict[str, float]:
    """ "gemm_dip": the largest fall in FLOP/s from one size to the next larger one, as a share."""
    pairs = zip(products, products[1:], strict=False)
    return {"gemm_dip": max((1 - b["tflops"] / a["tflops"] for a, b in pairs), default=0.0)}


def _span(launcher, kernel: str, blocks: int, sink) -> float:
    """ns from the first begin to the last end of a grid: the shortest of some launches, since noise only lengthens one."""
    columns = 3 if kernel == "spin" else 2
    stamps = launcher.poisoned(blocks, columns)
    arguments = (stamps, SPIN_NS) if kernel == "spin" else (stamps, ROUNDS, sink)
    name = "residents" if kernel == "spin" else "fixed_work"
    launch = launcher.kernel(name, *arguments, blocks=blocks, threads=THREADS)
    spans = []
    for _ in range(TIMES + 1):  # the first launch of a kernel loads it
        stamps.fill_(-1)
        launch.once()
        seen = launcher.read(stamps)
        spans.append(max(s[-1] for s in seen) - min(s[-2] for s in seen))
    return float(min(spans[1:]))


def _products(device: str, quick: bool, progress: Progress | None) -> list[dict]:
    """Products of m × 4096 × 4096 for m that grows by one tile."""
    import torch

    dtype = usual_dtype(device)
    right = torch.randn(SIDE, SIDE, device=device).to(torch_dtype(dtype))
    sizes = range(4 * TILE, (18 if quick else 34) * TILE, TILE)
    calls = {}
    for m in sizes:
        left = torch.randn(m, SIDE, device=device).to(right.dtype)
        out = torch.empty(m, SIDE, device=device, dtype=right.dtype)
        calls[f"{m} rows"] = lambda left=left, out=out: torch.mm(left, right, out=out)
    found = race(device, calls, blocks=10, at_most_s=4, progress=progress)
    return [
        {
            "m": m,
            "n": SIDE,
            "k": SIDE,
            "dtype": dtype,
            "ns": found[f"{m} rows"].ns,
            "tflops": 2.0 * m * SIDE * SIDE / found[f"{m} rows"].ns * 1e-3,
        }
        for m in sizes
    ]
