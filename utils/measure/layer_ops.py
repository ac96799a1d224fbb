"""The ops of one transformer layer, forward, backward and for one new token; what a token of 1 and 32 layers costs the host."""

from __future__ import annotations

from collections.abc import Callable

from utils.measure import profiled
from utils.measure.device_clock import MeasurementError
from utils.measure.either_clock import Progress, need, one_thread, within
from utils.measure.gemm_peak import torch_dtype
from utils.measure.language_model import shipped
from utils.measure.op_counts import counted
from utils.measure.placed_ops import usual_dtype
from utils.measure.spelled_layer import cache_of, spelled
from utils.measure.stopwatch import time_device, time_host

STYLES = {"shipped": shipped, "spelled": spelled}
WORDS = {
    "shipped": "torch's own layer: LayerNorm, attention and GELU are one op each",
    "spelled": "every op written out: RMSNorm, rotary positions, softmax attention, SwiGLU",
}
WIDTH, HEADS, TOKENS, BATCH = 64, 4, 16, 2  # of what is counted: the ops do not depend on the sizes
LAYERS = 32
TOKEN = {"cpu": (64, 4, 16), "cuda": (2048, 16, 512)}  # width, heads, cached tokens of what is timed
POSITIONS = 1024


def works(device: str) -> dict[str, Callable[[], object]]:
    """What is counted, by "style phase": forward and backward of a layer, and one new token behind a cache where it has one.

    In bf16, as a language model runs (fp16 on a GPU without it), so that the casts around its sums are there.
    """
    import torch

    dtype = torch_dtype("bf16" if device == "cpu" else usual_dtype(device))
    found: dict[str, Callable[[], object]] = {}
    for style, make in STYLES.items():
        layer = make(WIDTH, HEADS, device, dtype)
        x = torch.randn(BATCH, TOKENS, WIDTH, device=device).to(dtype).requires_grad_()
        result = layer(x)
        gradient = torch.randn_like(result)
        leaves = [x, *layer.parameters()]
        found[f"{style} forward"] = lambda layer=layer, x=x: layer(x)
        found[f"{style} backward"] = lambda result=result, leaves=leaves, gradient=gradient: torch.autograd.grad(
            result, leaves, gradient, retain_graph=True
        )
    found["spelled decode"] = one_token(1, WIDTH, HEADS, TOKENS, device, dtype)
    return found


def one_token(layers: int, width: int, heads: int, past: int, device: str, dtype) -> Callable[[], object]:
    """One new token through so many layers of the spelled style, behind `past` cached ones (the cache is as long each time)."""
    import torch

    stack = [spelled(width, heads, device, dtype, POSITIONS) for _ in range(layers)]
    caches = [cache_of(1, heads, past, width // heads, device, dtype) for _ in range(layers)]
    new = torch.randn(1, 1, width, device=device).to(dtype)

    def run():
        with torch.no_grad():  # in inference mode a watcher would see "linear", and not what it is made of
            x = new
            for layer, cache in zip(stack, caches, strict=True):
                x = layer(x, dict(cache))
            return x

    return run


def layer_ops(
    device: str = "cpu", progress: Progress | None = None, *, quick: bool = False, events: Callable = profiled.events
) -> dict:
    """Counts, and the price of a token:

    "rows": [{"style", "phase": "forward" | "backward" | "decode" (one new token), "calls" (ops and views), "ops" (that compute),
    "views", "kernels" | None (a GPU's, by the profiler, not quick)}], "words" by style, "token": [{"layers", "ops", "host_ns"
    (issuing), "device_ns" | None, "words"}] for 1 and 32 layers, "numbers": "<style>_<phase>_calls", "_ops", "_views",
    "_kernels", "layer_ns" and "token_ns" (host, 1 and 32 layers), "op_ns" (layer_ns over its ops), "layer_device_ns" on a GPU. On
    a CPU a token is priced at a small width and on one thread, so that its time is mostly the ops' fixed price. About 3 s quick.
    MeasurementError without the device.
    """
    need(device, "the ops of a layer")
    notes = ["priced on one thread"] if device == "cpu" else []
    found = {}
    for name, work in works(device).items():
        work()
        found[name] = counted(work)
    kernels: dict[str, int] = {}
    if device == "cuda" and quick:
        notes.append("kernels are not counted here: that takes a profiled process of its own, and the recordings have them")
    elif device == "cuda":
        try:
            kernels = profiled.kernels(events("layers", within(progress, 0.0, 0.5)), found)
        except MeasurementError as error:
            notes.append(f"kernels not counted: {error}")
    rows = [row(name, ops.computing, ops.views, kernels.get(name)) for name, ops in found.items()]
    with one_thread(device):
        token = _token(device, quick, within(progress, 0.5, 0.5))
    numbers = {f"{r['style']}_{r['phase']}_{key}": float(r[key]) for r in rows for key in ("calls", "ops", "views")}
    numbers |= {f"{r['style']}_{r['phase']}_kernels": float(r["kernels"]) for r in rows if r["kernels"] is not None}
    numbers |= {"layer_ns": token[0]["host_ns"], "token_ns": token[1]["host_ns"], "op_ns": token[0]["host_ns"] / token[0]["ops"]}
    if token[0]["device_ns"] is not None:
        numbers["layer_device_ns"] = token[0]["device_ns"]
    return {"device": device, "rows": rows, "words": WORDS, "token": token, "numbers": numbers, "notes": notes}


def row(name: str, computing: list[str], views: list[str], kernels: int | None) -> dict:
    """One line of the table, from "style phase" and the ops."""
    style, phase = name.split()
    return {
        "style": style,
        "phase": phase,
        "calls": len(computing) + len(views),
        "ops": len(computing),
        "views": len(views),
        "kernels": kernels,
    }


def _token(device: str, quick: bool, progress: Progress | None) -> list[dict]:
    width, heads, past = TOKEN[device]
    dtype = usual_dtype(device)
    runs = {f"{n} layers": one_token(n, width, heads, past, device, torch_dtype(dtype)) for n in (1, LAYERS)}
    ops = {name: len(counted(run).computing) for name, run in runs.items()}
    how = {"device": device, "blocks": 12 if quick else 25, "at_most_s": 2 if quick else 4}
    host = time_host(runs, progress=progress, **how)
    one = "1 layers"
    there = time_device({one: runs[one]}, **how) if device == "cuda" else None
    return [
        {
            "layers": n,
            "ops": ops[name],
            "host_ns": host[name].ns,
            "device_ns": there[name].ns if there and name == one else None,
            "words": f"one token behind {past} cached ones, {n} layers of {width:,}, {dtype}",
        }
        for n, name in zip((1, LAYERS), runs, strict=True)
    ]
