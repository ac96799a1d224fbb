"""MFU: the FLOPs of a training step's products, over the time of the step and the peak of products; three sizes of model."""

from __future__ import annotations

from dataclasses import replace

from utils.measure import intensity
from utils.measure.census import group_of
from utils.measure.either_clock import Progress, free_bytes, machine_name, need, race
from utils.measure.gemm_peak import torch_dtype
from utils.measure.language_model import Size, training
from utils.measure.placed_ops import usual_dtype
from utils.measure.quick_roofs import quick_roofs
from utils.measure.wall_arms import until_idle
from utils.model import devices

SIZES = {
    "cpu": (
        Size("tiny", 32, 2, 2, 256, 1, 16),
        Size("narrow", 64, 2, 4, 256, 16, 64),
        Size("wide", 512, 2, 8, 1024, 4, 64),
    ),
    "cuda": (
        Size("tiny", 64, 2, 4, 1024, 1, 64),
        Size("narrow", 256, 4, 4, 4096, 64, 512),
        Size("wide", 4096, 2, 32, 16_384, 8, 1024),
    ),
}
LITTLE_MEMORY = Size("wide", 2048, 2, 16, 8192, 4, 512)  # in place of the widest where a GPU has less than 32 GiB free


def mfu(
    device: str = "cpu", progress: Progress | None = None, *, quick: bool = False, roofs: dict[str, float] | None = None
) -> dict:
    """Training steps of three models, wall time until the device is done:

    "rows": [{"model" (name), "words", "parameters", "tokens", "step_ns", "flops" (products and attention, counted), "six_nd" (6 ×
    parameters × tokens, the rule of thumb), "ops" (that compute), "tflops", "mfu" (of the measured peak), "mfu_datasheet" |
    None}], "dtype", "race", "peak", "numbers": "mfu_tiny", "mfu_narrow", "mfu_wide", "wide_over_tiny". About 4 s and the roofs.
    """

    need(device, "MFU")
    dtype = usual_dtype(device)
    roofs = dict(roofs or quick_roofs(device))
    peak = roofs[f"gemm_{dtype}"]
    sizes = SIZES[device]
    if device == "cuda" and free_bytes(device) < 32 << 30:
        sizes = (*sizes[:-1], LITTLE_MEMORY)
    steps = {size.name: training(size, device, torch_dtype(dtype)) for size in sizes}
    work = {}
    for name, one in steps.items():
        one.step()
        work[name] = intensity.count(one.step)
    arms = {name: until_idle(one.step, device) for name, one in steps.items()}
    found = race("cpu", {}, arms=arms, blocks=10 if quick else 25, block_ms=5.0, at_most_s=2 if quick else 10, progress=progress)
    found = replace(found, device=device)
    sheet = devices.find(machine_name("cuda")) if device == "cuda" else None
    promised = sheet.tflops.get(dtype) if sheet else None
    rows = []
    for size in sizes:
        one, w = steps[size.name], work[size.name]
        flops = sum(op.flops for op in w.computing if group_of(op.op, "") in ("product", "attention"))
        tera = flops / found[size.name].ns * 1e-3
        rows.append(
            {
                "model": size.name,
                "words": size.words,
                "parameters": one.parameters,
                "tokens": one.tokens,
                "step_ns": found[size.name].ns,
                "flops": flops,
                "six_nd": 6.0 * one.parameters * one.tokens,
                "ops": len(w.computing),
                "tflops": tera,
                "mfu": tera / peak,
                "mfu_datasheet": tera / promised.value if promised else None,
            }
        )
    numbers = {f"mfu_{row['model']}": row["mfu"] for row in rows}
    numbers |= {"wide_over_tiny": numbers["mfu_wide"] / numbers["mfu_tiny"], "aa_error": found.aa_error}
    return {"device": device, "dtype": dtype, "rows": rows, "race": found, "peak": peak, "numbers": numbers, "notes": []}
