"""Times a candidate so that the usual cheats show, and gives lab 7's bandwidth badge on a GPU: worth 0 points, and honest.

Each repeat draws new inputs, into one of two sets of buffers in no order that can be foreseen; only then is the candidate called,
once, and only then are the next ones drawn. So an output kept from before, work put off for a later batch, and an input of
another repeat give wrong numbers. What is judged is a copy of the result, queued right behind the call on the stream that was
timed: work that another stream still does is not in it. What was done there before the clock began (while the device is held) is
in it, and shows as a time in which no memory can move the bytes.
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
OFTEN = 0.3  # of the repeats: the host of an idle GPU takes as long now and then (76 µs, seen on an H200)
CHANGED = "the inputs are not what they were before the call"
FASTEST = 0.8  # of the honest add's time: in less, the same bytes cannot have been moved


class Caught(AssertionError):
    """The candidate's time is not the time of its work; the message says what was seen."""


class StillBusy(Caught):
    """The device went on after the stop: with the candidate's work on another stream, or with another process's."""


class HostTimer:
    """Times work that is done when the call returns."""

    def time(self, call: Callable[[], object]) -> tuple[object, object, float]:
        """What call() returns, the same as it was when the clock stopped, and its µs."""
        begin = time.perf_counter_ns()
        out = call()
        us = (time.perf_counter_ns() - begin) / 1e3
        return out, _copy(out), us

    def leftover_us(self) -> float:
        """µs until nothing runs any more."""
        return 0.0


class CudaTimer:
    """Times what a call does on the current stream, by events; the call is enqueued while the device is held, so that the host's
    own time is not in it."""

    HOLD = 2_000_000  # cycles, about a ms: longer than a launch from Python

    def time(self, call: Callable[[], object]) -> tuple[object, object, float]:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        if seams.has_cuda_spin():
            seams.cuda_spin(self.HOLD)
        begin.record()
        out = call()
        end.record()
        taken = _copy(out)  # queued before anything waits: another stream's work has not got further than this one's
        end.synchronize()
        return out, taken, begin.elapsed_time(end) * 1e3

    def leftover_us(self) -> float:
        begin = time.perf_counter_ns()
        torch.cuda.synchronize()
        return (time.perf_counter_ns() - begin) / 1e3


@dataclass(frozen=True)
class Source:
    """Fresh inputs: `draw(buffers, seed)` fills one of the sets of buffers with random numbers."""

    sets: Sequence[tuple[torch.Tensor, ...]]
    draw: Callable[[tuple[torch.Tensor, ...], int], None]


def _copy(out: object) -> object:
    """A tensor's numbers as they are when the current stream gets here; anything else as it is."""
    return out.clone() if type(out) is torch.Tensor else out


def referee(
    candidate: Callable, right: Callable[..., str], source: Source, timer, repeats: int = REPEATS, least_us: float = 0.0
) -> list[float]:
    """µs of each of `repeats` calls candidate(*inputs). right(out, *inputs) says in words what is wrong with a result, or "".

    Raises Caught with what was seen: a wrong result (as it was when the clock stopped, or looked at again when the device is idle),
    inputs that changed, work that went on after the stop, half of the times or more below `least_us`, which the work needs.
    """
    order, times, went_on = random.SystemRandom(), [], []
    for number in range(repeats + 2):  # the first two warm up and compile, and are judged like the others
        buffers = source.sets[order.randrange(len(source.sets))]
        source.draw(buffers, order.getrandbits(48))
        sums = [_sum(b) for b in buffers]
        out, taken, us = timer.time(lambda: candidate(*buffers))  # noqa: B023  (called at once)
        why = right(taken, *buffers)  # on the same stream: whatever runs elsewhere is not waited for
        late = timer.leftover_us()
        if why and [_sum(b) for b in buffers] != sums:  # a sum of inputs that were written over is no sum of what was drawn
            raise Caught(f"repeat {number}: {CHANGED}")
        if why:
            raise Caught(f"repeat {number}: {why}. Its inputs were drawn right before the call")
        if late > max(LATE_US, LATE * us):
            went_on.append((late, us))
        if why := right(out, *buffers):
            raise Caught(f"repeat {number}: looked at again, {why}")
        if [_sum(b) for b in buffers] != sums:
            raise Caught(f"repeat {number}: {CHANGED}")
        times.append(us)
    if len(went_on) > OFTEN * repeats:
        late, us = statistics.median_low(went_on)
        raise StillBusy(
            f"in {len(went_on)} of {repeats + 2} repeats the device went on for {late:,.0f} µs or so after a call's {us:,.0f}"
        )
    times = times[2:]
    if (middle := statistics.median(times)) < least_us:
        raise Caught(
            f"the calls took {middle:,.1f} µs by their stream, and the bytes need at least {least_us:,.1f}: they were moved elsewhere"
        )
    return times


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


def side_streams() -> dict[str, Callable]:
    """Cheats that only a GPU can be tried with, by what they do: x + y on a stream that is not the one that is timed."""
    side = torch.cuda.Stream()

    def behind(x, y):
        out = torch.empty_like(x)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            return torch.add(x, y, out=out)

    def ahead(x, y):
        out = torch.empty_like(x)
        with torch.cuda.stream(side):  # the inputs are there, and the timed stream is still held
            return torch.add(x, y, out=out)

    return {"works on another stream": behind, "works on another stream while yours is held": ahead}


def caught() -> Table:
    """What the referee says of each of `cheats()`, live, on this machine's CPU, where no time is judged; and of `side_streams()`
    where there is a GPU that nobody else uses."""
    rows = [_tried(what, candidate, _adds(1 << 14, "cpu"), HostTimer()) for what, candidate in cheats().items()]
    where = "on your CPU"
    if not torch.cuda.is_available():
        note = "Work on another stream needs a GPU to be tried; there is none here."
    else:
        source, timer = _adds(1 << 26, "cuda"), CudaTimer()
        try:
            least = FASTEST * statistics.median(referee(lambda x, y: x + y, _sums, source, timer))
            rows += [_tried(what, candidate, source, timer, least) for what, candidate in side_streams().items()]
            where, note = "on your CPU, the last two on your GPU", ""
        except StillBusy as why:
            note = f"Work on another stream was not tried: something else uses this GPU. For an honest add, {why}."
    return Table(rows, caption=f"Cheats and an honest function, timed by the referee {where}", notes=[note] if note else [])


def _tried(what: str, candidate: Callable, source: Source, timer, least_us: float = 0.0) -> dict[str, str]:
    try:
        referee(candidate, _sums, source, timer, repeats=6, least_us=least_us)
        said = "nothing to object to"
    except Caught as why:
        said = str(why)
    return {"a function that": what, "the referee": said}


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
    least = FASTEST * statistics.median(plain)
    mine = referee(lambda *given: host(compiled, *given), _chain, _rows(rows, cols), CudaTimer(), least_us=least)
    times = {"your chain": mine, "torch.add": plain}
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
