"""The peak of matrix products per dtype: square products of random numbers in a given output, a few sizes, the best one counts.

fp32 is without TF32 on a GPU; "tf32" is the same product with it. Numbers are drawn from a normal distribution: a product of
zeros draws less power and runs faster than anything a model does.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from utils.measure.either_clock import Progress, free_bytes, machine_name, need, race, within
from utils.measure.fingerprints import gpu
from utils.model import devices

SIZES = {"cpu": (256, 512, 1024, 1536, 2048), "cuda": (2048, 4096, 8192, 16384)}
QUICK = {"cpu": (256, 1024, 1536), "cuda": (4096, 8192, 16384)}
LONGEST_S = {"cpu": (0.1, 0.6), "cuda": (0.2, 0.5)}  # of one product, quick or not: a larger size is left out
LONG_S = 0.5  # a call of which one is enough to know that the next size is too long
DTYPES = {"cpu": ("fp32", "bf16", "fp16"), "cuda": ("fp32", "tf32", "fp16", "bf16")}


def torch_dtype(name: str):
    """torch's dtype for "fp32", "tf32", "fp16" or "bf16"."""
    import torch

    return {"fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[name]


def lacks(device: str, dtype: str) -> str:
    """Why this device has no products of this dtype worth measuring, or ""."""
    if device != "cuda" or dtype in ("fp32", "fp16"):
        return ""
    capability = tuple(int(x) for x in str(gpu().capability or "0.0").split("."))
    return "" if capability >= (8, 0) else f"capability {gpu().capability} has no {dtype} units (8.0 and later have)"


def flops(m: int, n: int, k: int) -> int:
    """Of a product of (m, k) by (k, n): a multiplication and an addition for each of its terms."""
    return 2 * m * n * k


def product(device: str, dtype: str, m: int, n: int | None = None, k: int | None = None) -> Callable:
    """A callable that multiplies (m, k) by (k, n) into a given output; TF32 is on for "tf32" alone, and set by each call."""
    import torch

    n, k = n or m, k or m
    kind = torch_dtype(dtype)
    a = torch.randn(m, k, device=device).to(kind)
    b = torch.randn(k, n, device=device).to(kind)
    out = torch.empty(m, n, device=device, dtype=kind)
    if device != "cuda" or kind != torch.float32:
        return lambda: torch.mm(a, b, out=out)
    precision = "high" if dtype == "tf32" else "highest"

    def with_precision():
        torch.set_float32_matmul_precision(precision)
        return torch.mm(a, b, out=out)

    return with_precision


def shapes(sizes: tuple[int, ...]) -> list[tuple[int, int, int]]:
    """Squares (m, n, k) of these sides, smallest work first."""
    return [(n, n, n) for n in sorted(sizes)]


def gemm(
    device: str = "cpu",
    progress: Progress | None = None,
    *,
    quick: bool = False,
    sizes: tuple[int, ...] | None = None,
    dtypes: tuple[str, ...] | None = None,
) -> dict:
    """Square products of every dtype in one race:

    "rows": [{"dtype", "m", "n", "k", "shape" (in words), "ns", "tflops"}], "best": {dtype: the best of its rows}, "missing":
    {dtype: why}, "race", "numbers": "gemm_<dtype>" in TFLOP/s, "share_gemm_<dtype>" of the datasheet where there is one. A
    product that would take too long is left out, and the dtype says so in "notes". About 3 s quick. MeasurementError without the
    device.
    """
    import torch

    need(device, "the peak of products")
    todo = shapes(sizes or (QUICK if quick else SIZES)[device])
    missing, notes = {}, []
    variants: dict[tuple[str, tuple[int, int, int]], Callable] = {}
    precision = torch.get_float32_matmul_precision()
    try:
        for dtype in dtypes or DTYPES[device]:
            if why := lacks(device, dtype):
                missing[dtype] = why
                continue
            try:
                longest = LONGEST_S[device][not quick]
                if (device, dtype) == (
                    "cpu",
                    "fp32",
                ):  # waits of a team on a busy machine must not hide the one peak that all need
                    longest = max(longest, LONG_S)
                _add_shapes(variants, notes, device, dtype, todo, longest)
            except (RuntimeError, MemoryError) as error:  # no such kernel on this CPU, or no room
                missing[dtype] = f"the product failed: {' '.join(str(error).split())[:120]}"
        first = max(variants, key=lambda key: (key[0] == "fp32", -flops(*key[1])))
        found = race(
            device,
            {_name(*key): f for key, f in variants.items()},
            control=_name(*first),
            blocks=15 if quick else 30,
            at_most_s=2 if quick else 12,
            progress=within(progress, 0.2, 0.8),
        )
    finally:
        torch.set_float32_matmul_precision(precision)
    rows = []
    for dtype, (m, n, k) in variants:
        ns = found[_name(dtype, (m, n, k))].ns
        row = {"dtype": dtype, "m": m, "n": n, "k": k, "shape": _words(m, n, k), "ns": ns, "tflops": flops(m, n, k) / ns * 1e-3}
        rows.append(row)
    best = {row["dtype"]: row for row in sorted(rows, key=lambda row: row["tflops"])}
    numbers = {f"gemm_{dtype}": top["tflops"] for dtype, top in best.items()}
    if sheet := devices.find(machine_name("cuda")) if device == "cuda" else None:
        numbers |= {f"share_gemm_{d}": top["tflops"] / sheet.tflops[d].value for d, top in best.items() if d in sheet.tflops}
    return {"device": device, "rows": rows, "best": best, "missing": missing, "race": found, "numbers": numbers, "notes": notes}


def _words(m: int, n: int, k: int) -> str:
    return f"{m:,}³" if m == n == k else f"{m:,} × {k:,} by {k:,} × {n:,}"


def _name(dtype: str, shape: tuple[int, int, int]) -> str:
    return f"{dtype} {_words(*shape)}"


def _add_shapes(variants: dict, notes: list[str], device: str, dtype: str, todo: list, longest: float) -> None:
    """The products of one dtype, smallest first, until the next one would take longer than `longest` seconds."""
    took, before = 0.0, 0
    for shape in todo:
        m, n, k = shape
        expected = took * flops(*shape) / before if before else 0.0
        if expected > longest:
            notes.append(f"{dtype}: {_words(*shape)} and larger left out, one product would take {expected:.1f} s")
            return
        if (m * k + k * n + m * n) * 6 > free_bytes(device) // 4:  # drawn in fp32, then kept in the dtype
            notes.append(f"{dtype}: {_words(*shape)} and larger left out, too little memory is free")
            return
        variants[dtype, shape] = f = product(device, dtype, m, n, k)
        took, before = _once(device, f), flops(*shape)


def _once(device: str, f: Callable) -> float:
    """Seconds of one call, the least of three after one to warm up (a disturbed one must not decide what is left out)."""
    import torch

    wait = torch.cuda.synchronize if device == "cuda" else (lambda: None)
    took = []
    for _ in range(4):
        start = time.perf_counter()
        f()
        wait()
        took.append(time.perf_counter() - start)
        if took[-1] > LONG_S:
            break
    return min(took)
