"""Times a candidate so that the usual cheats show, and gives lab 7's bandwidth badge on a GPU: worth 0 points, and honest.

Each repeat draws new inputs, into one of two sets of buffers in no order that can be foreseen; only then is the candidate called,
once, and only then are the next ones drawn. So an output kept from before, work put off for a later batch, and an input of
another repeat give wrong numbers. The result is compared on the stream that was timed, with no other wait, and what the device
still does after that is timed as well: work on another stream shows in one of the two.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from utils.labs import fuse_triton
from utils.labs.fuse import Jit
from utils.measure import seams
from utils.show.tables import Table

REPEATS = 15
LATE = 0.25  # of the time: more than that after the stop is work that went on elsewhere
LATE_US = 60.0  # what a wait for an idle device may take


class Caught(AssertionError):
    """The candidate's time is not the time of its work; the message says what was seen."""


class StillBusy(Caught):
    """The device went on after the stop: with the candidate's work on another stream, or with another process's."""


class HostTimer:
    """Times work that is done when the call returns."""

    def time(self, call: Callable[[], object]) -> tuple[object, float]:
        """What call() returns, and its µs."""
        begin = time.perf_counter_ns()
        out = call()
        return out, (time.perf_counter_ns() - begin) / 1e3

    def leftover_us(self) -> float:
        """µs until nothing runs any more."""
        return 0.0


class CudaTimer:
    """Times what a call does on the current stream, by events; the call is enqueued while the device is held, so that the host's
    own time is not in it."""

    HOLD = 2_000_000  # cycles, about a ms: longer than a launch from Python

    def time(self, call: Callable[[], object]) -> tuple[object, float]:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        if seams.has_cuda_spin():
            seams.cuda_spin(self.HOLD)
        begin.record()
        out = call()
        end.record()
        end.synchronize()
        return out, begin.elapsed_time(end) * 1e3

    def leftover_us(self) -> float:
        begin = time.perf_counter_ns()
        torch.cuda.synchronize()
        return (time.perf_counter_ns() - begin) / 1e3


@dataclass(frozen=True)
class Source:
    """Fresh inputs: `draw(buffers, seed)` fills one of the sets of buffers with random numbers."""

    sets: Sequence[tuple[torch.Tensor, ...]]
    draw: Callable[[tuple[torch.Tensor, ...], int], None]


def referee(candidate: Callable, right: Callable[..., str], source: Source, timer, repeats: int = REPEATS) -> list[float]:
    """µs of each of `repeats` calls candidate(*inputs). right(out, *inputs) says in words what is wrong with a result, or "".

    Raises Caught with what was seen: a wrong result (right after its call, or looked at again after all calls), inputs that
    changed, work that went on after the stop.
    """
    order, times = random.SystemRandom(), []
    for number in range(repeats + 2):  # the first two warm up and compile, and are judged like the others
        buffers = source.sets[order.randrange(len(source.sets))]
        source.draw(buffers, order.getrandbits(48))
        sums = [_sum(b) for b in buffers]
        out, us = timer.time(lambda: candidate(*buffers))  # noqa: B023  (called at once)
        why = right(out, *buffers)  # on the same stream: whatever runs elsewhere is not waited for
        late = timer.leftover_us()
        if why:
            raise Caught(f"repeat {number}: {why}. Its inputs were drawn right before the call")
        if late > max(LATE_US, LATE * us):
            raise StillBusy(
                f"repeat {number}: the device went on for {late:,.0f} µs after a call that took {us:,.0f} µs by its stream"
            )
        if why := right(out, *buffers):
            raise Caught(f"repeat {number}: looked at again, {why}")
        if [_sum(b) for b in buffers] != sums:
            raise Caught(f"repeat {number}: the inputs are not what they were")
        times.append(us)
    return times[2:]


def _sum(tensor: torch.Tensor) -> int:
    """All bits of a tensor in one number."""
    bits = tensor.view(torch.int16 if tensor.element_size() == 2 else torch.int32)
    return int(bits.sum(dtype=torch.int64))


# ------------------------------------------------------------------------------------------------ cheats, to try it out


def cheats() -> dict[str, Callable]:
    """Functions that look fast at x + y and do not do the work each time, by what they do. Each call gives new ones."""
    kept, put_off = {}, []

    def cached(x, y):
        key = x.data_ptr(), y.data_ptr()
        if key not in kept:
            kept[key] = x + y
        return kept[key]

    def batched(x, y):
        out = torch.empty_like(x)
        put_off.append((x, y, out))
        if len(put_off) == 4:
            for a, b, result in put_off:
                torch.add(a, b, out=result)
            put_off.clear()
        return out

    def first_inputs(x, y, first=[]):  # noqa: B006  (the cheat is to keep them)
        if not first:
            first.extend((x.clone(), y.clone()))
        return first[0] + first[1]

    def half(x, y):
        out = torch.zeros_like(x)
        middle = x.shape[0] // 2
        torch.add(x[:middle], y[:middle], out=out[:middle])
        return out

    def in_place(x, y):
        return x.add_(y)

    return {
        "keeps the result for these buffers": cached,
        "puts the work off and does four at once": batched,
        "computes with the inputs of the first call": first_inputs,
        "does the first half": half,
        "writes over its input": in_place,
        "does the work": lambda x, y: x + y,
    }


def caught() -> Table:
    """What the referee says of each of `cheats()`, live, on this machine's CPU; no time is judged."""
    rows = []
    for what, candidate in cheats().items():
        try:
            referee(candidate, _sums, _adds(1 << 14, "cpu"), HostTimer(), repeats=6)
            said = "nothing to object to"
        except Caught as why:
            said = str(why)
        rows.append({"a function that": what, "the referee": said})
    return Table(rows, caption="Five cheats and an honest function, timed by the referee on your CPU")


def _adds(elements: int, device: str) -> Source:
    sets = [tuple(torch.empty(elements, device=device) for _ in range(2)) for _ in range(2)]
    return Source(sets, _filled)


def _filled(buffers: tuple[torch.Tensor, ...], seed: int) -> None:
    generator = torch.Generator(device=buffers[0].device).manual_seed(seed)
    for buffer in buffers:
        buffer.normal_(generator=generator)


def _sums(out, x, y) -> str:
    return "" if type(out) is torch.Tensor and torch.equal(out, x + y) else "the result is not the sum of its inputs"


# ------------------------------------------------------------------------------------------------ the badge


def no_badge() -> str:
    """Why there is no badge to be had here, or ""."""
    if not torch.cuda.is_available():
        return "there is no CUDA GPU here"
    if torch.cuda.get_device_capability() < (8, 0):
        return "Triton compiles for capability 8.0 and later, this GPU is older; the graded tests need no GPU"
    return fuse_triton.missing()


def badge(host: Callable, kernel: Jit, mib: int = 256) -> Table | str:
    """The learner's chain on a GPU, relu(x + bias) + residual in bf16 with `mib` MiB a tensor, beside a torch.add that moves the
    same bytes; a sentence where there is no such GPU. Worth 0 points."""
    if why := no_badge():
        return f"No badge here, and no points lost: {why}."
    if not kernel.written():
        raise NotImplementedError
    cols = 4096
    rows = min(mib, int(torch.cuda.mem_get_info()[0] / 2**20 / 16)) * 2**20 // (2 * cols)
    compiled = kernel.compiled()
    try:  # the honest add first: what it is blamed for is another process's
        plain = referee(lambda x, bias, residual: x + residual, _plain, _rows(rows, cols), CudaTimer())
    except StillBusy as why:
        return f"No badge now, and no points lost: something else uses this GPU. For a plain torch.add, {why}. Try again later."
    times = {
        "your chain": referee(lambda *given: host(compiled, *given), _chain, _rows(rows, cols), CudaTimer()),
        "torch.add": plain,
    }
    us = {name: statistics.quantiles(found, n=4)[0] for name, found in times.items()}
    nbytes = 3 * 2 * rows * cols
    table = [
        {"kernel": name, "µs (lower quartile)": f"{us[name]:,.1f}", "GB/s": f"{nbytes / us[name] / 1e3:,.0f}"} for name in times
    ]
    share = us["torch.add"] / us["your chain"]
    note = (
        f"Your chain reaches {share:.0%} of the add's bandwidth. Fresh inputs each repeat, every result checked after its time."
    )
    return Table(table, caption=f"Badge: {rows:,} × {cols:,} bf16 on {torch.cuda.get_device_name()}", notes=[note])


def _rows(rows: int, cols: int) -> Source:
    sets = [
        tuple(torch.empty(*shape, dtype=torch.bfloat16, device="cuda") for shape in ((rows, cols), (cols,), (rows, cols)))
        for _ in range(2)
    ]
    return Source(sets, _filled)


def _chain(out, x, bias, residual) -> str:
    wanted = (torch.relu(x.float() + bias.float()) + residual.float()).to(torch.bfloat16)
    return _near(out, wanted)


def _plain(out, x, bias, residual) -> str:
    return _near(out, x + residual)


def _near(out, wanted: torch.Tensor) -> str:
    if type(out) is not torch.Tensor or out.shape != wanted.shape or out.dtype != wanted.dtype:
        return "the result has another type or shape"
    return "" if bool((out.float() - wanted.float()).abs().max() <= 1e-6) else "the result is not the chain of its inputs"
