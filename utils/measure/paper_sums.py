"""Two sums that are done on paper before measuring: one activation of 256 MiB, and the host's tax beside a large product."""

from __future__ import annotations

import time
from collections.abc import Callable

from utils.measure.device_clock import MeasurementError
from utils.measure.either_clock import Progress, filled, need, one_thread, race, within
from utils.measure.gemm_peak import product, torch_dtype
from utils.measure.placed_ops import usual_dtype
from utils.measure.stopwatch import time_host

SHAPE = (8, 4096, 4096)
PAPER_GBPS = 3300.0  # the bandwidth of the claims
SIDES = {"cpu": (64, 256, 1024), "cuda": (256, 1024, 4096, 8192)}


def activation(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """One (8, 4096, 4096) activation of two-byte numbers (256 MiB), read once, and read and written:

    "race" (ns): "read and write" (torch's copy into a given tensor) and, where kernels of our own can be built, "read" (each byte
    read once, nothing written). "bytes" by reading, "numbers": "read", "read_write" (ns), "read_gbps", "read_write_gbps",
    "paper_read" and "paper_read_write" (ns, at 3.3 TB/s). About 2 s. MeasurementError without the device.
    """
    need(device, "an activation")
    n = SHAPE[0] * SHAPE[1] * SHAPE[2]
    kind = torch_dtype(usual_dtype(device) if device == "cuda" else "bf16")
    x, y = filled(n, device, kind), filled(n, device, kind)
    calls: dict[str, Callable] = {"read and write": lambda: y.copy_(x)}
    arms, notes = {}, []
    try:
        words = x.view(_float32())
        if device == "cuda":
            from utils.measure import gpu_loops

            calls["read"] = gpu_loops.stream("read", words, words, words)
        else:
            from utils.measure.cpu_loops import loops, shared_out
            from utils.measure.either_clock import threads

            run, many = loops().run, threads()
            arms["read"] = lambda times: run("read", words, n=shared_out(words.numel(), many), threads=many, times=times)
    except MeasurementError as error:
        notes.append(f"reading alone is not measured: {error}")
    found = race(device, calls, arms=arms, blocks=12 if quick else 40, at_most_s=1.5 if quick else 6, progress=progress)
    size = 2.0 * n
    counted = {"read and write": 2 * size, "read": size}
    out = {"paper_read": size / PAPER_GBPS, "paper_read_write": 2 * size / PAPER_GBPS}
    for short, name in (("read_write", "read and write"), ("read", "read")):
        if name in found.readings:
            out |= {short: found[name].ns, f"{short}_gbps": counted[name] / found[name].ns}
    return {"device": device, "race": found, "bytes": counted, "numbers": out, "notes": notes}


def _float32():
    import torch

    return torch.float32


def gemm_tax(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """What the host pays for one product until its launch has returned, beside what the product takes:

    "rows": [{"n", "dtype", "tax_ns", "ns", "share"}], "numbers": "tax" (ns, of the smallest product: it does not depend on the
    size), "share_<n>". On a CPU, where the call returns when the product is done, the tax is the price of a product of one
    element, and one thread computes: a team's waiting would be in the small ones. About 3 s. MeasurementError without the device.
    """
    import torch

    need(device, "a product's tax")
    dtype = usual_dtype(device)
    sides = SIDES[device]
    if device == "cpu":
        sides = (*sides, *(() if quick else (4096,)))
    precision = torch.get_float32_matmul_precision()
    calls = {n: product(device, dtype, n) for n in sides}
    with one_thread(device) as alone:
        try:
            least = product(device, dtype, min(sides) if device == "cuda" else 1)
            host = time_host({"product": least}, device=device, blocks=20, at_most_s=2, progress=within(progress, 0, 0.4))
            tax = host["product"].ns
            short = [n for n in sides if n <= 2048 or device == "cuda"]
            found = race(device, {str(n): calls[n] for n in short}, blocks=12, at_most_s=3, progress=within(progress, 0.4, 0.4))
            took = {n: found[str(n)].ns for n in short} | {n: _best_of_two(calls[n]) for n in sides if n not in short}
        finally:
            torch.set_float32_matmul_precision(precision)
    rows = [{"n": n, "dtype": dtype, "tax_ns": tax, "ns": took[n], "share": tax / took[n]} for n in sides]
    return {
        "device": device,
        "rows": rows,
        "numbers": {"tax": tax} | {f"share_{row['n']}": row["share"] for row in rows},
        "notes": [alone] if device == "cpu" else [],
    }


def _best_of_two(f: Callable) -> float:
    """Nanoseconds of a call of about a second, the better of two: a block of such calls would take a minute."""
    f()
    took = []
    for _ in range(2):
        start = time.perf_counter_ns()
        f()
        took.append(time.perf_counter_ns() - start)
    return float(min(took))
