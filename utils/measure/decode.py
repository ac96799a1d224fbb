"""Attention of one new token a sequence over its cache: intensity by batch and by shared heads, beside a linear layer's."""

from __future__ import annotations

from utils.measure import intensity
from utils.measure.bandwidth import roof_streams
from utils.measure.either_clock import Progress, filled, free_bytes, need, race
from utils.measure.gemm_peak import torch_dtype
from utils.measure.op_table import BYTES, HEAD_DIM, attention_work
from utils.measure.placed_ops import usual_dtype

HEADS = 32
CONTEXT = {"cpu": (1024, 2048), "cuda": (8192, 8192)}
BATCHES = {"cpu": (1, 4), "cuda": (1, 8, 64)}
SHARED = (32, 8)  # heads that keep a cache of their own: all, or one for four
WIDTH = HEADS * HEAD_DIM


def decode(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """`F.scaled_dot_product_attention` of one new token for each sequence of the batch:

    "rows": [{"batch", "heads", "kv_heads", "context", "flops", "bytes", "intensity", "ns", "gbps", "linear_intensity" (of a
    (batch, 4096) × (4096, 4096) product: what batching helps)}], "dtype", "race", "numbers": "intensity" (batch 1, no sharing),
    "intensity_shared" (batch 1, one cache for four heads), "intensity_largest" (the largest batch), "linear_largest", "gbps"
    (batch 1), "roof_gbps" (the best stream of the race), "share". About 3 s. MeasurementError without the device.
    """
    import torch
    import torch.nn.functional as F

    need(device, "attention decode")
    dtype, context = usual_dtype(device), CONTEXT[device][not quick]
    kind = torch_dtype(dtype)
    calls, work, notes = {}, {}, []
    for kv_heads in SHARED:
        for batch in BATCHES[device]:
            size = 2 * batch * kv_heads * context * HEAD_DIM * BYTES[dtype]
            if size > free_bytes(device) // 6:
                notes.append(f"batch {batch} with {kv_heads} cached heads left out: too little memory is free")
                continue
            q = torch.randn(batch, HEADS, 1, HEAD_DIM, device=device).to(kind)
            k, v = (filled(size // 2 // BYTES[dtype], device, kind).view(batch, kv_heads, context, HEAD_DIM) for _ in range(2))
            calls[batch, kv_heads] = _attending(F.scaled_dot_product_attention, q, k, v, kv_heads != HEADS)
            work[batch, kv_heads] = attention_work(batch, HEADS, kv_heads, context, HEAD_DIM, dtype)
    largest = max(calls, key=lambda key: key[0] * key[1])
    streamed, own, nbytes, said = roof_streams(device, int(work[largest].bytes) // 12, reading=True)
    found = race(
        device,
        {_name(*key): f for key, f in calls.items()} | streamed,
        arms=own,
        blocks=10 if quick else 25,
        at_most_s=1.5 if quick else 8,
        progress=progress,
    )
    rows = []
    for (batch, kv_heads), w in work.items():
        ns = found[_name(batch, kv_heads)].ns
        linear = intensity.count(torch.mm, *(torch.empty(s, WIDTH, dtype=kind, device="meta") for s in (batch, WIDTH)))
        rows.append(
            {
                "batch": batch,
                "heads": HEADS,
                "kv_heads": kv_heads,
                "context": context,
                "flops": w.flops,
                "bytes": w.bytes,
                "intensity": w.intensity,
                "ns": ns,
                "gbps": w.bytes / ns,
                "linear_intensity": linear.intensity,
            }
        )
    roof = max(nbytes[name] / found[name].ns for name in nbytes)
    first = next(r for r in rows if r["batch"] == 1 and r["kv_heads"] == HEADS)
    shared = next(r for r in rows if r["batch"] == 1 and r["kv_heads"] == SHARED[1])
    last = max((r for r in rows if r["kv_heads"] == HEADS), key=lambda r: r["batch"])
    return {
        "device": device,
        "dtype": dtype,
        "rows": rows,
        "race": found,
        "numbers": {
            "intensity": first["intensity"],
            "intensity_shared": shared["intensity"],
            "intensity_largest": last["intensity"],
            "linear_first": first["linear_intensity"],
            "linear_largest": last["linear_intensity"],
            "gbps": first["gbps"],
            "largest_gbps": last["gbps"],
            "roof_gbps": roof,
            "share": first["gbps"] / roof,
            "largest_share": last["gbps"] / roof,
        },
        "notes": [*notes, *said],
    }


def _attending(attend, q, k, v, shared: bool):
    more = {"enable_gqa": True} if shared else {}
    return lambda: attend(q, k, v, **more)


def _name(batch: int, kv_heads: int) -> str:
    return f"batch {batch}, {kv_heads} cached heads"
