"""One race on whichever device: the host's clock for a CPU, the device's own for CUDA; and what memory a measurement may take.

On a CPU an op is done when its call returns, so its price for the host is the time it takes. On CUDA the queue is held while the
host fills it (`stopwatch.time_device`), so a race is about the device alone.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from itertools import cycle, islice
from pathlib import Path

from utils.measure import cgroups, malloc
from utils.measure.device_clock import MeasurementError
from utils.measure.fingerprints import cores, gpu
from utils.measure.stopwatch import AGAIN, Arm, interleave, time_device, timer_overhead_ns
from utils.measure.torch_threads import one_torch_thread
from utils.model.readings import Race

Progress = Callable[[float, str], None]
MIB = 1 << 20
SYSFS = Path("/sys/devices/system/cpu/cpu0/cache")
L3_WHEN_UNKNOWN = 32 * MIB


def race(
    device: str,
    variants: Mapping[str, Callable | Sequence[Callable]],
    *,
    arms: Mapping[str, Arm] | None = None,
    control: str | None = None,
    blocks: int = 20,
    block_ms: float = 2.0,
    at_most_s: float = 5.0,
    progress: Progress | None = None,
) -> Race:
    """What one call of each variant takes (ns): all interleaved, one of them twice (the A/A pair).

    `arms` are variants that time themselves (`arm(n)` → seconds of n calls), for the CPU only. A list of callables takes turns.
    Raises MeasurementError when a variant fails or there is no such device.
    """
    if double := set(variants) & set(arms or {}):
        raise ValueError(f"two variants have one name: {', '.join(sorted(double))}")
    if device != "cpu":
        return time_device(
            variants, device=device, control=control, blocks=blocks, block_ms=block_ms, at_most_s=at_most_s, progress=progress
        )
    timed = {name: _arm((given,) if callable(given) else tuple(given)) for name, given in variants.items()} | dict(arms or {})
    control = control or next(iter(timed))
    timed[control + AGAIN] = timed[control]
    pair = (control, control + AGAIN)
    calls = {name: calls_a_block(arm, block_ms * 1e-3) for name, arm in timed.items()}
    calls[pair[1]] = calls[control]
    readings = interleave(timed, blocks=blocks, block_ms=block_ms, at_most_s=at_most_s, pair=pair, progress=progress, calls=calls)
    return Race(readings, pair, "host", "cpu", block_ms, timer_overhead_ns())


def calls_a_block(arm: Arm, block_s: float, most: int = 100_000) -> int:
    """How many calls make a block, by two calls of an arm that may be long, and more where it is short."""
    arm(1)
    took, n = arm(1), 1
    while took < block_s / 2 and n < most:
        n = min(most, max(2 * n, int(n * block_s / max(took, 1e-9))))
        took = arm(n)
    return n


def _arm(turn: Sequence[Callable]) -> Arm:
    turns = cycle(turn)

    def arm(n: int) -> float:
        todo = list(islice(turns, n))
        kept = None
        start = time.perf_counter_ns()
        for f in todo:
            kept = f()
        took = time.perf_counter_ns() - start
        del kept
        return took * 1e-9

    return arm


def within(progress: Progress | None, start: float, share: float) -> Progress | None:
    """The part of a progress bar from `start` on, `share` of it long."""
    if progress is None:
        return None
    return lambda done, text: progress(start + share * done, text)


@contextmanager
def one_thread(device: str) -> Iterator[str]:
    """On a CPU, one thread inside, so that no wait of a team is in an experiment about data; gives that in words."""
    with one_torch_thread() if device == "cpu" else nullcontext():
        yield "one thread" if device == "cpu" else "all SMs"


@contextmanager
def settled(device: str) -> Iterator[list[str]]:
    """On a CPU, inside, one thread, and malloc pinned so that no result comes fresh from the kernel; gives that in words."""
    pinned = device == "cpu" and malloc.pin()
    with one_thread(device):
        yield (
            ["malloc pinned" if pinned else "malloc could not be pinned: fresh results fault", "torch on one thread"]
            if device == "cpu"
            else []
        )


def need(device: str, what: str) -> None:
    """Raises MeasurementError, in words, when `device` is "cuda" and there is none; ValueError for another word."""
    if device not in ("cpu", "cuda"):
        raise ValueError(f"device {device!r}: it is cpu or cuda")
    if device == "cuda" and not gpu().usable:
        raise MeasurementError(f"no CUDA device here for {what}: the recordings hold a GPU's")


def machine_name(device: str) -> str:
    """What the device calls itself."""
    from utils.measure.fingerprints import cpu_model

    return (gpu().name or "GPU") if device == "cuda" else cpu_model()


def threads() -> int:
    """How many threads a loop of ours runs on: torch's own number, and never more than the cores given to this process."""
    import torch

    return max(1, min(torch.get_num_threads(), int(cores())))


def free_bytes(device: str) -> int:
    """Memory that may still be taken: of the device, or of this machine within its container's limit."""
    if device == "cuda":
        import torch

        return torch.cuda.mem_get_info()[0]
    import psutil

    memory, limit = psutil.virtual_memory(), cgroups.memory_limit()
    return min(memory.available, limit) if limit else memory.available


def caches(device: str, root: Path = SYSFS) -> dict[str, int]:
    """Bytes of each level that the device reports, one instance each: {"L1": …, "L2": …, "L3": …}; a GPU's L2 alone.

    Empty where nothing is reported. What a virtual machine reports of its L3 is the host's, which it shares.
    """
    if device == "cuda":
        import torch

        size = getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 0)
        return {"L2": int(size)} if size else {}
    found = {}
    for index in sorted(root.glob("index*")):
        try:
            level, kind, size = ((index / name).read_text().strip() for name in ("level", "type", "size"))
        except OSError:
            continue
        number = re.fullmatch(r"(\d+)([KMG]?)", size)
        if kind != "Instruction" and number:
            found[f"L{level}"] = int(number[1]) * {"": 1, "K": 1 << 10, "M": MIB, "G": 1 << 30}[number[2]]
    return found


def last_cache(device: str) -> int:
    """Bytes of the cache before memory; 32 MiB where none is reported."""
    known = caches(device)
    return max(known.values()) if known else L3_WHEN_UNKNOWN


def filled(n: int, device: str, dtype=None):
    """A vector of n random numbers (a random block, repeated: drawing them all would take longer than measuring)."""
    import torch

    out = torch.empty(n, device=device, dtype=dtype or torch.float32)
    block = torch.rand(min(n, 1 << 20), device=device).to(out.dtype)
    for start in range(0, n, block.numel()):
        piece = out[start : start + block.numel()]
        piece.copy_(block[: piece.numel()])
    return out
