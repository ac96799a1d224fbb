"""How much of the device a kernel occupies: blocks against SMs, warps an SM, and on which SMs its blocks were seen to run.

Two sources: the profiler's own figures for some ops of torch (in a child process), and a kernel of ours whose blocks write down
the SM that they ran on, when they began and when they ended.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from utils.measure import profiled
from utils.measure.device_clock import MeasurementError
from utils.measure.hidden_syncs import short

Progress = Callable[[float, str], None]
WARP, THREADS, SPIN_NS = 32, 256, 200_000
OCCUPANCY = "est. achieved occupancy %"


def works() -> dict[str, Callable]:
    """Ops of several sizes by name, on the CUDA device; what `profiled` runs for this part."""
    import torch

    def add(n: int) -> Callable:
        a, b = (torch.randn(n, device="cuda") for _ in range(2))
        return lambda: a + b

    x, w = (torch.randn(4096, 4096, device="cuda", dtype=torch.float16) for _ in range(2))
    row = torch.randn(64, 4096, device="cuda")
    return {
        "a + b, 1 element": add(1),
        "a + b, 65,536 elements": add(1 << 16),
        "a + b, 1,048,576 elements": add(1 << 20),
        "a + b, 67,108,864 elements": add(1 << 26),
        "softmax, 64 rows of 4,096": lambda: torch.softmax(row, -1),
        "x @ w, 4,096 x 4,096 in fp16": lambda: x @ w,
    }


def occupancy(device: str = "cuda", progress: Progress | None = None, *, events: Callable = profiled.events) -> dict:
    """Who fills how much of the device, as plain data:

    "kernels": one row for each kernel of the ops, from the profiler: "what", "kernel", "grid", "block", "blocks", "threads" (of
    a block), "blocks_per_sm" and "warps_per_sm" (its blocks and warps over the SMs: what there is to share out), "occupancy" (the
    profiler's estimate of the warps resident, % of what an SM holds), "registers" (a thread), "us".
    "residency": one row for each grid of our own kernel: "name" ("one", "half" as many as SMs, one on "each", "two each", as many
    as are resident at once: "full", and "one more"), "blocks", "sms_used", "at_once" (most blocks that ran at the
    same moment), "fits" (blocks that an SM can hold, by the driver's calculation), "warps_share" (warps resident at that moment,
    over all that the device can hold), "us". "sms" and "max_warps_per_sm" are the device's; "why" says in words what is missing.
    Raises MeasurementError when both are. About 15 s.
    """
    import torch

    if not torch.cuda.is_available():
        raise MeasurementError("no CUDA device here, so nothing can occupy one: the recordings hold a GPU's occupancy")
    report = progress or (lambda done, text: None)
    device_has = torch.cuda.get_device_properties(torch.device(device))
    sms, most = device_has.multi_processor_count, device_has.max_threads_per_multi_processor // WARP
    why, residency, kernels = [], [], []
    try:
        residency = _residency(sms, most)
    except MeasurementError as error:
        why.append(f"no kernel of our own: {error}")
    try:
        found = events("shapes", lambda done, text: report(0.2 + 0.7 * done, text))
        kernels = [row for what in works() for row in rows(what, profiled.inside(found, what), sms)]
    except MeasurementError as error:
        why.append(f"nothing from the profiler: {error}")
    if not residency and not kernels:
        raise MeasurementError("; ".join(why))
    report(1.0, "measured")
    return {
        "sms": sms,
        "max_warps_per_sm": most,
        "kernels": kernels,
        "residency": residency,
        "why": why,
        "numbers": {
            f"{row['name'].replace(' ', '_')}_{key}": float(row[key])
            for row in residency
            for key in ("sms_used", "warps_share", "us")
        },
    }


def rows(what: str, segment: list[dict], sms: int) -> list[dict]:
    """The kernels of one segment of the profiler's trace as rows of the table; `sms` is the device's number of SMs."""
    out = []
    for event in segment[1:]:
        if event["cat"] != "kernel":
            continue
        args = event["args"]
        grid, block = args.get("grid") or [0], args.get("block") or [0]
        blocks, threads = prod(grid), prod(block)
        out.append(
            {
                "what": what,
                "kernel": short(event["name"]),
                "grid": list(grid),
                "block": list(block),
                "blocks": blocks,
                "threads": threads,
                "blocks_per_sm": float(args.get("blocks per SM", blocks / sms)),
                "warps_per_sm": float(args.get("warps per SM", blocks * -(-threads // WARP) / sms)),
                "occupancy": None if args.get(OCCUPANCY) is None else float(args[OCCUPANCY]),
                "registers": args.get("registers per thread"),
                "us": float(event["dur"]),
            }
        )
    return out


def _residency(sms: int, most: int) -> list[dict]:
    """Where the blocks of our own kernel ran, for grids from one block to more than the device holds at once."""
    from utils.measure.stamp_kernels import Launcher

    launcher = Launcher()
    fits = launcher.blocks_that_fit("residents", THREADS)
    out = []
    grids = {"one": 1, "half": sms // 2, "each": sms, "two each": 2 * sms, "full": sms * fits, "one more": sms * fits + 1}
    for name, blocks in grids.items():
        stamps = launcher.poisoned(blocks, 3)
        kernel = launcher.kernel("residents", stamps, SPIN_NS, blocks=blocks, threads=THREADS)
        kernel.once()
        launcher.read(stamps)
        stamps.fill_(-1)
        kernel.once()  # the first launch of a kernel loads it, and its blocks then begin late
        seen = launcher.read(stamps)
        at_once = most_at_once([(begin, end) for _, begin, end in seen])
        out.append(
            {
                "name": name,
                "blocks": blocks,
                "sms_used": len({sm for sm, _, _ in seen}),
                "at_once": at_once,
                "fits": fits,
                "warps_share": at_once * (THREADS // WARP) / (sms * most),
                "us": (max(end for _, _, end in seen) - min(begin for _, begin, _ in seen)) * 1e-3,
            }
        )
    return out


def most_at_once(spans: list[tuple[int, int]]) -> int:
    """How many of the spans (begin, end) overlap at most; one that begins as another ends does not overlap it."""
    steps = sorted([(begin, 1) for begin, _ in spans] + [(end, -1) for _, end in spans])
    running = most = 0
    for _, step in steps:
        running += step
        most = max(most, running)
    return most
