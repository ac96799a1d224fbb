"""Freed is not idle: the caching allocator hands a block out again while the kernel that reads it may not even have begun.

On one stream that is right: whoever writes next stands behind the reader. On two streams it is right only if the allocator was
told (`record_stream`), or if one stream waits for the other. Without CUDA the same four cases are played through in virtual
time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from utils.measure import seams
from utils.measure.either_clock import MIB, Progress, need

OLD, NEW = 1.0, 2.0  # what stands in the block that is freed, and what its next owner writes
SPIN_CYCLES = 100_000_000  # about 50 ms at 2 GHz: far longer than the host needs for all that follows
NBYTES = 64 * MIB
SAME, UNTOLD, RECORDED, WAITED = "one stream", "two streams, nothing said", "two streams, record_stream", "two streams, a wait"
CASES = (SAME, UNTOLD, RECORDED, WAITED)


def reuse(device: str = "cuda", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """A reader is queued behind a long kernel; its input is freed, a block of the same size is taken and written:

    "rows": [{"case", "handed_out" (the very block), "busy" (whether the device still had the reader to do when it was), "read"
    (what the reader saw, mean), "right"}], "numbers": by case ("same", "untold", "recorded", "waited") "…_handed_out",
    "…_busy" and "…_right" (1.0/0.0), and "pool_apart" (1.0: a block freed in a private pool is not handed out elsewhere),
    "pool_again" (1.0: it is within that pool); "label" says whether it was simulated. A second. MeasurementError without the
    device.
    """
    need(device, "reuse across streams")
    if device == "cpu":
        return simulated()
    rows, notes = [], []
    for at, case in enumerate(CASES):
        if progress:
            progress(at / 5, case)
        rows.append(_on_cuda(case))
    numbers = _numbers(rows)
    try:
        numbers |= _pools()
    except Exception as error:  # an older torch has no pools to use by name; the four cases stand without them
        notes.append(f"private pools were not tried: {type(error).__name__}: {error}")
    return {"device": "cuda", "rows": rows, "numbers": numbers, "notes": notes, "label": "measured"}


def _numbers(rows: list[dict]) -> dict[str, float]:
    names = dict(zip(CASES, ("same", "untold", "recorded", "waited"), strict=True))
    return {f"{names[row['case']]}_{what}": float(row[what]) for row in rows for what in ("handed_out", "busy", "right")}


# ------------------------------------------------------------------------------------------------ on CUDA


def _on_cuda(case: str) -> dict:
    import torch

    main = torch.cuda.current_stream()
    side = main if case == SAME else torch.cuda.Stream()
    n = NBYTES // 4
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    block, seen = torch.full((n,), OLD, device="cuda"), torch.empty(n, device="cuda")
    if case == RECORDED:  # the block will not be there: another is kept ready, so that no cudaMalloc comes in between. Only here:
        spare = torch.empty(n, device="cuda")  # of two blocks that fit, the allocator takes the one at the lower address
        del spare
    torch.cuda.synchronize()
    address = block.data_ptr()
    with torch.cuda.stream(side):
        seams.cuda_spin(SPIN_CYCLES)
        seen.copy_(block)
        done = torch.cuda.Event()
        done.record()
    if case == RECORDED:
        block.record_stream(side)
    if case == WAITED:
        main.wait_stream(side)
    del block
    taken = torch.empty(n, device="cuda")
    busy = not done.query()
    handed_out = taken.data_ptr() == address
    taken.fill_(NEW)
    torch.cuda.synchronize()
    read = float(seen.double().mean())
    del taken, seen
    return {"case": case, "handed_out": handed_out, "busy": busy, "read": read, "right": read == OLD}


def _pools() -> dict[str, float]:
    """A block freed in a private pool: is it handed out elsewhere, and within the pool?"""
    import torch

    def take():
        return torch.empty(NBYTES, dtype=torch.uint8, device="cuda")

    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        inside = take()
    address = inside.data_ptr()
    del inside
    outside = take()
    apart = outside.data_ptr() != address
    with torch.cuda.use_mem_pool(pool):
        again = take()
    back = again.data_ptr() == address
    del outside, again
    return {"pool_apart": float(apart), "pool_again": float(back)}


# ------------------------------------------------------------------------------------------------ in virtual time


@dataclass
class Streams:
    """Two queues over one memory: work begins when its stream is free, and acts on the memory when it ends."""

    memory: dict[int, float] = field(default_factory=dict)
    free_at: dict[str, float] = field(default_factory=dict)
    work: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)

    def launch(self, stream: str, us: float, act: Callable[[], None]) -> float:
        """Queue `act` for `us` on the stream; when it will have ended."""
        end = self.free_at.get(stream, 0.0) + us
        self.free_at[stream] = end
        self.work.append((end, len(self.work), act))
        return end

    def wait(self, stream: str, for_stream: str) -> None:
        self.free_at[stream] = max(self.free_at.get(stream, 0.0), self.free_at.get(for_stream, 0.0))

    def run(self) -> None:
        for _, _, act in sorted(self.work, key=lambda one: one[:2]):
            act()


def simulated() -> dict:
    """The four cases in virtual time: the host takes none, the long kernel 1,000 µs, reading and writing 10 µs each."""
    rows = []
    for case in CASES:
        streams, seen = Streams(memory={0: OLD}), []
        side = "main" if case == SAME else "side"
        streams.launch(side, 1000.0, lambda: None)
        read_at = streams.launch(side, 10.0, lambda streams=streams, seen=seen: seen.append(streams.memory[0]))
        if case == WAITED:
            streams.wait("main", side)
        address = 1 if case == RECORDED else 0  # told of the other stream, the allocator keeps the block until that has passed
        streams.launch("main", 10.0, lambda streams=streams, address=address: streams.memory.update({address: NEW}))
        streams.run()
        rows.append({"case": case, "handed_out": address == 0, "busy": read_at > 0, "read": seen[0], "right": seen[0] == OLD})
    return {
        "device": "cpu",
        "rows": rows,
        "numbers": _numbers(rows),
        "notes": ["two queues over one memory, in virtual time"],
        "label": "simulated",
    }
