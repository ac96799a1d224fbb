"""The memory of the toy block, add(x, dropout(gelu(bias(x @ w)))): every buffer it takes, forward and with backward, by a trace.

The trace is held against a second count that knows nothing of it: on a CPU the storages that a dispatch mode sees, on CUDA the
allocator's own totals of requested bytes. What a library keeps for itself on CUDA is named.
"""

from __future__ import annotations

from collections.abc import Callable

from utils.measure import seams
from utils.measure.alloc_trace import trace
from utils.measure.either_clock import Progress, filled, need, settled
from utils.measure.gemm_peak import torch_dtype
from utils.measure.live_storages import storages
from utils.measure.placed_ops import usual_dtype
from utils.measure.toy_block import DROPPED

# rows, side of the square weight: the activation is rows x side. 4 MiB of fp32 on a CPU, 256 MiB of two-byte numbers on a GPU.
SHAPE = {"cpu": (4096, 256), "cuda": (32_768, 4096)}
QUICK = {"cpu": (1024, 256), "cuda": (32_768, 4096)}
SCALARS = 64  # bytes: a block under it is a number that an op made for itself
FORWARD, KEEPING, TRAINING = "forward, no_grad", "forward, with grad", "forward and backward"


class Toy:
    """The block on random data of `shape`, with leaves that need gradients. `cases` are what is traced, by name."""

    def __init__(self, device: str, shape: tuple[int, int] | None = None, dtype: str = ""):
        import torch

        rows, side = shape or SHAPE[device]
        self.device, self.dtype = device, dtype or usual_dtype(device)
        kind = torch_dtype(self.dtype)
        self.x = filled(rows * side, device, kind).view(rows, side).requires_grad_()
        self.w = (torch.randn(side, side, device=device) / side**0.5).to(kind).requires_grad_()
        self.b = torch.randn(side, device=device).to(kind).requires_grad_()
        self.onward = filled(rows * side, device, kind).view(rows, side)  # the gradient that comes back to the result
        self.activation = self.x.nbytes

    def block(self):
        import torch.nn.functional as F

        return self.x + F.dropout(F.gelu(self.x @ self.w + self.b), DROPPED, training=True)

    def forward(self):
        import torch

        with torch.no_grad():
            return self.block()

    def training(self):
        """A step; its gradients are handed out, so that nothing from before it is given back in it."""
        import torch

        y = self.block()
        return y, torch.autograd.grad(y, (self.x, self.w, self.b), self.onward)

    @property
    def cases(self) -> dict[str, Callable]:
        return {FORWARD: self.forward, KEEPING: self.block, TRAINING: self.training}


def liveness(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """The buffers of the block in its three cases:

    "traces": {case: a `Trace` as plain data, an op's scalars left out}, "rows": [{"case", "buffers", "sum", "peak", "kept" (at
    the end), "largest", "scalars" (how many blocks were left out), "counted_sum", "counted_peak" (by the second count),
    "requests"}] (bytes), "workspaces": [{"what", "bytes"}] (CUDA), "numbers": "activation" (bytes), and by case ("forward",
    "keeping", "training") "…_buffers", "…_sum", "…_peak", "…_kept" (in activations), "…_share" (peak over sum), "…_off" (bytes
    that the trace and the second count differ by, of sum and peak the larger); "again_off" (bytes that a second trace differs
    by). About 4 s. MeasurementError without the device.
    """
    need(device, "the block's memory")
    with settled(device) as notes:
        workspaces = library_memory(device)
        toy = Toy(device, (QUICK if quick else SHAPE)[device])
        rows, traces, numbers = [], {}, {"activation": toy.activation}
        for at, (case, f) in enumerate(toy.cases.items()):
            if progress:
                progress(at / 3, case)
            f()
            whole = trace(f, device)
            found = whole.at_least(SCALARS)
            counted_sum, counted_peak = second_count(f, device)
            traces[case] = found.to_dict()
            rows.append(
                {
                    "case": case,
                    "buffers": len(found.blocks),
                    "sum": found.sum,
                    "peak": found.peak,
                    "kept": found.kept,
                    "largest": max(block.size for block in found.blocks),
                    "scalars": len(whole.blocks) - len(found.blocks),
                    "counted_sum": counted_sum,
                    "counted_peak": counted_peak,
                    "requests": len(whole.blocks),
                }
            )
            numbers |= _numbers(SHORT[case], rows[-1], toy.activation)
        again = trace(toy.forward, device).at_least(SCALARS)
        numbers["again_off"] = float(abs(again.sum - rows[0]["sum"]) + abs(again.peak - rows[0]["peak"]))
        notes = [*notes, f"{toy.dtype}, activation of {toy.activation >> 20:,} MiB", f"seen by {whole.source}"]
    return {
        "device": device,
        "rows": rows,
        "traces": traces,
        "workspaces": workspaces,
        "numbers": numbers,
        "notes": notes,
    }


SHORT = {FORWARD: "forward", KEEPING: "keeping", TRAINING: "training"}


def _numbers(short: str, row: dict, activation: int) -> dict[str, float]:
    off = max(abs(row["sum"] - row["counted_sum"]), abs(row["peak"] - row["counted_peak"]))
    in_activations = {f"{short}_{name}": row[name] / activation for name in ("sum", "peak", "kept")}
    counts = {f"{short}_buffers": float(row["buffers"]), f"{short}_requests": float(row["requests"])}
    return in_activations | counts | {f"{short}_share": row["peak"] / row["sum"], f"{short}_off": float(off)}


def second_count(f: Callable, device: str) -> tuple[int, int]:
    """(bytes taken in all, at most at one time) while `f` runs, by a count that is not the trace's.

    On a CPU what ops returned, by a dispatch mode; on CUDA the allocator's totals of requested bytes.
    """
    if device != "cuda":
        with storages() as counted:
            kept = f()
        del kept
        return counted.made, counted.peak
    import torch

    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_stats()
    kept = f()
    torch.cuda.synchronize()
    after = torch.cuda.memory_stats()
    del kept
    taken = after["requested_bytes.all.allocated"] - before["requested_bytes.all.allocated"]
    return taken, after["requested_bytes.all.peak"] - before["requested_bytes.all.current"]


def library_memory(device: str) -> list[dict]:
    """What stays taken on CUDA by a first matrix product whose result is given: {"what", "bytes"}; found by giving it back."""
    if device != "cuda":
        return []
    import torch

    a, b, c = (torch.randn(256, 256, device="cuda") for _ in range(3))

    def taken() -> int:
        torch.cuda.synchronize()
        return torch.cuda.memory_stats()["requested_bytes.all.current"]

    seams.clear_blas_workspaces()
    before = taken()
    torch.mm(a, b, out=c)
    during = taken()
    cleared = seams.clear_blas_workspaces()
    after = taken()
    if during == before:
        return []
    named = "cuBLAS's workspace" if cleared and after < during else "taken by the first product, and not given back"
    return [{"what": named, "bytes": during - before}]
