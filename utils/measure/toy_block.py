"""The five ops of the texts, add(x, dropout(gelu(bias(x @ w)))): launches counted, bytes from shapes, times; small and large.

What a FLOP-only estimate says of it, and whether its bottleneck flips when nothing but the size changes.
"""

from __future__ import annotations

from collections.abc import Callable

from utils.measure import profiled
from utils.measure.device_clock import MeasurementError
from utils.measure.either_clock import Progress, filled, need, race, settled, within
from utils.measure.gemm_peak import flops as product_flops
from utils.measure.gemm_peak import product, torch_dtype
from utils.measure.placed_ops import usual_dtype
from utils.measure.stopwatch import interleave, time_host
from utils.measure.wall_arms import until_idle
from utils.model.readings import Reading, quantile
from utils.model.step_model import BYTES

OPS = ("matmul", "bias", "gelu", "dropout", "add")
TENSORS = {"bias": 2, "gelu": 2, "dropout": 2, "add": 3}  # of the activation, read and written; dropout's mask comes on top
PAPER_GBPS = 3300.0  # the bandwidth of the claims
DROPPED = 0.1
# rows, side of the square weight: the activation is rows x side. The texts' one is 256 MiB of two-byte numbers.
# A CPU's is smaller, so that it is measured in seconds.
PAPER = {"cpu": (32_768, 256), "cuda": (32_768, 4096)}
QUICK = {"cpu": (4_096, 256), "cuda": (32_768, 4096)}
SMALL, LARGE = {"cpu": (4, 64), "cuda": (16, 1024)}, {"cpu": (16_384, 64), "cuda": (32_768, 1024)}
A_ROW = {"cpu": 0.004, "cuda": 0.05}  # seconds of calls in a row, for what one more adds to it
CHAIN = 60  # calls of a row at most, so that a queue holds them


class Block:
    """The five ops on an activation of rows x side, as callables: each alone on inputs that are there, and all in a row."""

    def __init__(self, device: str, shape: tuple[int, int], dtype: str):
        import torch

        rows, side = shape
        self.rows, self.side, self.dtype = rows, side, dtype
        kind = torch_dtype(dtype)
        x = filled(rows * side, device, kind).view(rows, side)
        w = (torch.randn(side, side, device=device) / side**0.5).to(kind)
        b = torch.randn(side, device=device).to(kind)
        gelu, dropout = torch.nn.functional.gelu, torch.nn.functional.dropout
        h = filled(rows * side, device, kind).view(rows, side)
        self.alone: dict[str, Callable] = {
            "matmul": lambda: x @ w,
            "bias": lambda: h + b,
            "gelu": lambda: gelu(h),
            "dropout": lambda: dropout(h, DROPPED, training=True),
            "add": lambda: x + h,
        }

        def block():
            return x + dropout(gelu(x @ w + b), DROPPED, training=True)

        self.run = block

    @property
    def elements(self) -> int:
        return self.rows * self.side

    def moved(self, op: str) -> int:
        """Bytes of one op from shapes: each tensor once a reading and once a writing; dropout writes a mask of one byte each."""
        each = BYTES[self.dtype]
        if op == "matmul":
            return (2 * self.elements + self.side**2) * each
        extra = {"bias": self.side * each, "dropout": self.elements}.get(op, 0)
        return TENSORS[op] * self.elements * each + extra

    @property
    def nbytes(self) -> int:
        return sum(self.moved(op) for op in OPS)

    @property
    def flops(self) -> int:
        """Of the product, and one an element of each other op."""
        return product_flops(self.rows, self.side, self.side) + (len(OPS) - 1) * self.elements


def paper(device: str) -> Block:
    """The block on the texts' activation (a small product may be split up, into more kernels than one)."""
    return Block(device, PAPER[device], usual_dtype(device))


def least(device: str) -> Block:
    """The block at its small size, where its price is the host's."""
    return Block(device, SMALL[device], usual_dtype(device))


def computing(block: Block) -> dict[str, list[str]]:
    """Op → the ops below autograd that compute: on a GPU one kernel each, unless a library splits a product."""
    from utils.measure.op_counts import Ops
    from utils.measure.seams import watching_ops

    found = {}
    for name, f in block.alone.items():
        ops = Ops()
        with watching_ops(ops.note):
            f()
        found[name] = ops.computing
    return found


def steady(
    device: str, variants: dict[str, Callable], *, at_most_s: float, progress: Progress | None = None
) -> dict[str, Reading]:
    """ns that one more call adds to a row of calls, by variant: up to 60 calls and, on a GPU, one wait."""
    arms = {name: until_idle(f, device, lead=True) for name, f in variants.items()}
    took = {name: min(one(1), one(1)) for name, one in arms.items()}
    return interleave(
        arms,
        blocks=20,
        calls={name: max(2 if s < A_ROW[device] else 1, min(CHAIN, round(A_ROW[device] / s))) for name, s in took.items()},
        stretches=1,
        at_most_s=at_most_s,
        progress=progress,
    )


def toy_block(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """The block on the texts' activation of 256 MiB (on a CPU 32 MiB of fp32, quick 4 MiB):

    "rows": [{"op", "launches", "computing" (the ops below autograd), "bytes", "us", "paper_us" (its bytes at 3.3 TB/s), "gbps"}],
    "race" (ns), "dtype", "shape", "numbers": "launches" (by the profiler where there is one, else ops that compute), "tail" and
    "paper_tail" (ns, the four ops after the product, measured and at 3.3 TB/s), "tail_bytes", "tail_gbps", "block" (ns, all five
    in a row), "tax" (ns, what the host needs to issue the five), "tax_share", "activation_bytes". About 4 s quick.
    MeasurementError without the device.
    """
    need(device, "the block")
    dtype = usual_dtype(device)
    shape = (QUICK if quick else PAPER)[device]
    with settled(device) as notes, _no_grad():
        block = Block(device, shape, dtype)
        below = computing(least(device))
        launches = {op: len(ops) for op, ops in below.items()}
        counted = sum(launches.values())
        if device == "cuda" and not quick:
            try:
                counted = len([e for e in profiled.inside(profiled.events("toy"), "toy block") if e["cat"] == "kernel"])
                notes.append("launches of the whole block counted by the profiler")
            except MeasurementError as error:
                notes.append(f"launches are the ops that compute: {error}")
        found = race(
            device,
            {**block.alone, "block": block.run},
            blocks=10,
            at_most_s=2 if quick else 8,
            progress=within(progress, 0.1, 0.6),
        )
        host = time_host({"block": least(device).run}, device=device, blocks=30, at_most_s=2, progress=within(progress, 0.7, 0.3))
    rows = [
        {
            "op": op,
            "launches": launches[op],
            "computing": below[op],
            "bytes": block.moved(op),
            "us": found[op].ns * 1e-3,
            "paper_us": block.moved(op) / (PAPER_GBPS * 1e3),
            "gbps": block.moved(op) / found[op].ns,
        }
        for op in OPS
    ]
    tail = sum(row["us"] for row in rows[1:]) * 1e3
    tail_bytes = sum(row["bytes"] for row in rows[1:])
    tax = host["block"].ns
    return {
        "device": device,
        "rows": rows,
        "race": found,
        "dtype": dtype,
        "shape": list(shape),
        "numbers": {
            "launches": float(counted),
            "tail": tail,
            "paper_tail": tail_bytes / PAPER_GBPS,
            "tail_bytes": float(tail_bytes),
            "tail_gbps": tail_bytes / tail,
            "block": found["block"].ns,
            "tax": tax,
            "tax_share": tax / found["block"].ns,
            "activation_bytes": float(block.elements * BYTES[dtype]),
        },
        "notes": notes,
    }


def flop_only(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """Estimates that count FLOPs alone beside measured steps, at the best rate of products in the same run:

    "rows": [{"case", "flops", "flop_us", "measured_us", "times_too_fast"}] (what one more call adds to a row of calls),
    "numbers": "tera" (1e12 FLOP/s of the product that sets the estimate), "least", "most", "median", and each case's by name.
    About 4 s quick. MeasurementError without the device.
    """
    need(device, "steps beside their FLOPs")
    import torch

    dtype = usual_dtype(device)
    side = {"cpu": 512, "cuda": 8192}[device]
    with settled(device) as notes, _no_grad():
        small, large = Block(device, SMALL[device], dtype), Block(device, LARGE[device], dtype)
        wide = Block(device, QUICK[device], dtype)
        cases: dict[str, tuple[Callable, int]] = {
            "the block, small": (small.run, small.flops),
            "the block, large and narrow": (large.run, large.flops),
            "the block, large and wide": (wide.run, wide.flops),
            "an add, small": (small.alone["add"], small.elements),
            "an add, large": (large.alone["add"], large.elements),
            "gelu, large": (large.alone["gelu"], large.elements),
        }
        square = product(device, dtype, side)
        precision = torch.get_float32_matmul_precision()
        try:
            found = steady(
                device,
                {name: f for name, (f, _) in cases.items()} | {"product": square},
                at_most_s=4 if quick else 10,
                progress=progress,
            )
        finally:
            torch.set_float32_matmul_precision(precision)
    rate = product_flops(side, side, side) / found["product"].ns  # FLOP a ns
    rows = []
    for name, (_, count) in cases.items():
        flop_us, measured = count / rate * 1e-3, found[name].ns * 1e-3
        rows.append(
            {"case": name, "flops": count, "flop_us": flop_us, "measured_us": measured, "times_too_fast": measured / flop_us}
        )
    times = [row["times_too_fast"] for row in rows]
    return {
        "device": device,
        "dtype": dtype,
        "rows": rows,
        "numbers": {"tera": rate * 1e-3, "least": min(times), "most": max(times), "median": quantile(times, 0.5)}
        | {row["case"]: row["times_too_fast"] for row in rows},
        "notes": notes,
    }


def flip(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """The same five ops, with nothing changed but the rows of the activation:

    "rows" (small, large): [{"size" ("small", "large"), "elements", "flops", "bytes", "ops" (that compute), "host_us",
    "device_us", "step_us", "bottleneck" ("host", "device")}], "numbers": "flops_ratio", "bytes_ratio", "ops_small",
    "ops_large", "host_share_small", "host_share_large" (host over step), "flips" (1.0 where the bottleneck is the host's,
    small, and the device's, large). On a CPU, where one thread is host and device, the host's part is the fixed price: the same
    five ops on one row of a weight of 16; the device's is the rest. About 3 s. MeasurementError without the device.
    """
    need(device, "the block at two sizes")
    dtype = usual_dtype(device)
    with settled(device) as notes, _no_grad():
        sizes = {"small": Block(device, SMALL[device], dtype), "large": Block(device, LARGE[device], dtype)}
        ops = {name: sum(len(o) for o in computing(block).values()) for name, block in sizes.items()}
        runs = {name: block.run for name, block in sizes.items()}
        if device == "cuda":
            steps = steady(device, runs, at_most_s=3, progress=within(progress, 0, 0.4))
            kernels = race(device, runs, blocks=12, at_most_s=3, progress=within(progress, 0.4, 0.3))
            hosts = time_host(runs, device=device, blocks=20, at_most_s=3, progress=within(progress, 0.7, 0.3))
            host = {name: hosts[name].ns for name in runs}
            device_ns = {name: kernels[name].ns for name in runs}
        else:
            fixed = Block(device, (1, 16), dtype)
            steps = steady(device, runs | {"fixed": fixed.run}, at_most_s=4, progress=progress)
            host = dict.fromkeys(runs, steps["fixed"].ns)
            device_ns = {name: max(0.0, steps[name].ns - steps["fixed"].ns) for name in runs}
    rows = [
        {
            "size": name,
            "elements": block.elements,
            "flops": block.flops,
            "bytes": block.nbytes,
            "ops": ops[name],
            "host_us": host[name] * 1e-3,
            "device_us": device_ns[name] * 1e-3,
            "step_us": steps[name].ns * 1e-3,
            "bottleneck": "host" if host[name] >= device_ns[name] else "device",
        }
        for name, block in sizes.items()
    ]
    small, large = rows
    return {
        "device": device,
        "dtype": dtype,
        "rows": rows,
        "numbers": {
            "flops_ratio": large["flops"] / small["flops"],
            "bytes_ratio": large["bytes"] / small["bytes"],
            "ops_small": float(small["ops"]),
            "ops_large": float(large["ops"]),
            "host_share_small": small["host_us"] / small["step_us"],
            "host_share_large": large["host_us"] / large["step_us"],
            "flips": float((small["bottleneck"], large["bottleneck"]) == ("host", "device")),
        },
        "notes": notes,
    }


def _no_grad():
    import torch

    return torch.no_grad()
