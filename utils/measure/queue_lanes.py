"""Two lanes of N launches on one time axis, without a profiler: when the host launched each kernel, and when the device ran it.

`lanes` measures them: each kernel stamps the device's clock at its begin and end, and the C++ loop stamps the host's clock around
each launch. The two clocks are set against each other by asking a running kernel for its time, before and after the launches.
`simulated_lanes` has the same shape from the simulated device, for machines without a GPU and for sliders.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from utils.measure.device_clock import MeasurementError
from utils.measure.simulated import SimulatedDevice, VirtualClock

Progress = Callable[[float, str], None]
N, SLOW_US, SYNCHRONISED = 3000, 20.0, 300
ROUNDS, LIMIT_NS = 64, 200_000_000
POINTS, CLOSE_UP = 240, 24
COLUMNS = ("i", "host_start_ns", "host_ns", "start_ns", "end_ns", "depth")


@dataclass(frozen=True)
class Alignment:
    """The device's clock against the host's: a host time plus `offset_ns` is the device's time, within `error_ns`."""

    host_ns: int
    offset_ns: int
    error_ns: float


def alignment(before: Sequence[int], after: Sequence[int], answers: Sequence[int]) -> Alignment:
    """From answers of the device's clock, each given between two readings of the host's: the one in the narrowest gap.

    ns throughout. Raises MeasurementError when there is no answer.
    """
    if not answers:
        raise MeasurementError("the device did not answer when it was asked for its clock")
    width, t0, t1, answer = min((t1 - t0, t0, t1, a) for t0, t1, a in zip(before, after, answers, strict=True))
    middle = t0 + width // 2  # whole numbers: the device counts from 1970, and a float of that size knows 256 ns at best
    return Alignment(middle, answer - middle, width / 2)


def on_host_clock(stamps: Sequence[int], first: Alignment, last: Alignment) -> list[int]:
    """Device stamps (ns) as host times, the drift between two alignments shared out evenly."""
    drift = (last.offset_ns - first.offset_ns) / max(1, last.host_ns - first.host_ns)
    return [t - round(drift * (t - first.host_ns)) for t in (stamp - first.offset_ns for stamp in stamps)]


# ------------------------------------------------------------------------------------------------ measured


def lanes(device: str = "cuda", progress: Progress | None = None) -> dict:
    """Lanes of 3,000 launches of an empty kernel ("fast") and of a 20 µs kernel ("slow"), and of 300 that are each waited for
    ("synchronised"); each as `describe` returns it, with "alignment" beside them (µs). Raises MeasurementError."""
    from utils.measure.stamp_kernels import Launcher

    report = progress or (lambda done, text: None)
    launcher = Launcher()
    report(0.1, "kernels compiled")
    resolution = launcher.timer_resolution_ns()
    out: dict = {}
    errors = []
    runs = {"fast": (N, 0.0, 0), "slow": (N, SLOW_US, 0), "synchronised": (SYNCHRONISED, SLOW_US, 1)}
    for done, (name, (n, kernel_us, every)) in enumerate(runs.items(), start=1):
        host, stamps, error = _run(launcher, n, kernel_us, every)
        errors.append(error)
        what = (
            f"{n:,} launches of a kernel of {kernel_us:g} µs from a C++ loop"
            if kernel_us
            else f"{n:,} launches of a kernel that only stamps the clock, from a C++ loop"
        )
        what += ", each waited for" if every == 1 else ""
        out[name] = describe(*host, *stamps, label="measured", what=what, kernel_us=kernel_us, sync_every=every)
        report(0.1 + 0.3 * done, f"{name} lanes")
    out["alignment"] = {"clock_error_us": max(errors) * 1e-3, "timer_resolution_ns": resolution, "rounds": ROUNDS}
    return out


def _run(launcher, n: int, kernel_us: float, every: int):
    """((host before, after), (device start, end), error) of n launches, all in ns on the host's clock."""
    out = launcher.poisoned(n, 2)
    kernel = launcher.kernel("stamp", out, 0, round(kernel_us * 1e3), row=1)
    warm = launcher.kernel("stamp", launcher.poisoned(200, 2), 0, 0, row=1)
    warm.stamped(200)
    first = _ask(launcher)
    before, after = kernel.stamped(n, every)
    stamps = launcher.read(out)
    last = _ask(launcher)
    starts = on_host_clock([s for s, _ in stamps], first, last)
    ends = on_host_clock([e for _, e in stamps], first, last)
    return (before, after), (starts, ends), max(first.error_ns, last.error_ns)


def _ask(launcher) -> Alignment:
    """Set the two clocks against each other, while nothing else runs on the device."""
    import ctypes

    import torch

    line = torch.zeros(64, dtype=torch.int64, pin_memory=True)
    kernel = launcher.kernel("answer", line, ROUNDS, LIMIT_NS)
    torch.cuda.synchronize()
    kernel.once()
    before, after, answers = ((ctypes.c_int64 * ROUNDS)() for _ in range(3))
    address = ctypes.addressof
    got = launcher.call["ask_clock"](line.data_ptr(), ROUNDS, LIMIT_NS, address(before), address(after), address(answers))
    torch.cuda.synchronize()
    return alignment(before[:got], after[:got], answers[:got])


# ------------------------------------------------------------------------------------------------ simulated


def simulated_lanes(
    launch_us: float = 5.0,
    kernel_us: float = 2.0,
    gap_us: float = 1.0,
    depth: int = 1024,
    n: int = N,
    sync_every: int | None = None,
) -> dict:
    """The lanes of n launches on the SIMULATED device, without real time passing; the shape of `describe`, label "simulated".

    launch_us: the host's time for one launch · kernel_us: one kernel · gap_us: the device's step from one kernel that waits to
    the next · depth: kernels that the queue holds · sync_every: the host waits for the device after every so many launches.
    Raises ValueError for a price below 0, a queue or a run without room, a wait after less than one launch.
    """
    if n < 2 or kernel_us < 0 or (sync_every is not None and sync_every < 1):
        raise ValueError(f"no lanes of {n} launches of {kernel_us} µs, waited for after every {sync_every}")
    # SimulatedDevice.launch and .synchronize, step by step (a test holds the two equal), without a method call for each launch
    # and each look at the clock: a slider redraws this at once.
    device = SimulatedDevice(launch_us=launch_us, depth=depth, gap_us=gap_us, clock=VirtualClock())
    launch, gap, kernel, sync = device.launch_us * 1e3, device.gap_us * 1e3, kernel_us * 1e3, device.sync_us * 1e3
    before, after, starts, ends = [], [], [], []
    now = busy = 0.0
    for i in range(n):
        before.append(now)
        if i >= depth and ends[i - depth] > now:  # back-pressure: the oldest kernel must end first
            now = ends[i - depth]
        now += launch
        after.append(now)
        starts.append(busy + gap if busy > now else now)
        busy = starts[-1] + kernel
        ends.append(busy)
        if sync_every and (i + 1) % sync_every == 0:
            now = max(now, busy) + sync
    what = f"{n:,} launches of a kernel of {kernel_us:g} µs, {launch_us:g} µs each, on a simulated device"
    what += f", waited for after every {sync_every}" if sync_every else ""
    return describe(before, after, starts, ends, label="simulated", what=what, kernel_us=kernel_us, sync_every=sync_every or 0)


# ------------------------------------------------------------------------------------------------ what the lanes say


def describe(
    before: Sequence[int],
    after: Sequence[int],
    starts: Sequence[int],
    ends: Sequence[int],
    *,
    label: str,
    what: str,
    kernel_us: float,
    sync_every: int,
) -> dict:
    """Lanes as plain data from four times a launch (ns, one clock): the launch call's begin and end, the kernel's begin and end.

    "numbers" are µs, counts and shares (None where there is none); "points", "begin" and "full" are columns of whole ns since the
    first launch call began: launches spread over all, the first ones, and those around the first that had to wait for room.
    Raises MeasurementError when the kernels did not run in the order of their launches.
    """
    import numpy as np

    n, zero = len(before), before[0]
    calls, returns, starts, ends = (np.rint(np.asarray(t) - zero).astype(np.int64) for t in (before, after, starts, ends))
    if (starts[1:] < ends[:-1]).any() or (ends < starts).any():
        raise MeasurementError("the kernels' stamps are not in the order of their launches: the lanes cannot be drawn")
    took, kernels, ahead = returns - calls, ends - starts, starts - returns
    depth = np.arange(n) - np.minimum(np.searchsorted(ends, calls, side="right"), np.arange(n))
    fills = None if sync_every else _fills_at(took, depth, float(ends[-1] - ends[0]) / (n - 1))
    room = took[: n if fills is None else max(1, fills)]
    settled = room[5:] if len(room) > 10 else room  # the first few calls are not like the others

    def us(ns) -> float:
        return float(ns) * 1e-3

    numbers = {
        "host_ahead_us": us(np.median(settled)),
        "host_full_us": None if fills is None else us((returns[-1] - calls[fills]) / (n - fills)),
        "fills_at": fills,
        "depth_max": int((np.arange(1, n + 1) - np.searchsorted(ends, returns, side="right")).max()),
        "kernel_us": us(np.median(kernels)),
        "gap_us": us(np.median(starts[1:] - ends[:-1])),
        "ahead_us_max": us(ahead.max()),
        "ahead_us_median": us(np.median(ahead)),
        "latency_us": us(starts[0]),
        "span_us": us(ends[-1]),
        "busy_share": float(kernels.sum() / max(1, ends[-1] - starts[0])),
    }
    table = dict(zip(COLUMNS, (np.arange(n), calls, took, starts, ends, depth), strict=True))

    def columns(chosen) -> dict:
        return {name: values[chosen].tolist() for name, values in table.items()}

    around = np.arange(
        0 if fills is None else max(0, fills - CLOSE_UP // 2), 0 if fills is None else min(n, fills + CLOSE_UP // 2)
    )
    spread = np.unique(np.rint(np.linspace(0, n - 1, min(n, POINTS))).astype(np.int64))
    return {
        "label": label,
        "what": what,
        "n": n,
        "kernel_us": float(kernel_us),
        "sync_every": sync_every,
        "numbers": numbers,
        "points": columns(spread),
        "begin": columns(np.arange(min(n, CLOSE_UP))),
        "full": columns(around),
    }


def _fills_at(took, depth, period_ns: float) -> int | None:
    """The first launch that waited for room: the queue is nearly as deep as it gets, and from here on the host goes at the
    device's pace (`period_ns` a kernel) instead of its own. None when the host is the slower one."""
    usual = float(took[:20].min())
    slow = usual + (period_ns - usual) / 2
    if period_ns < 1.15 * usual or depth.max() < 2:
        return None
    waited = (depth >= 0.9 * depth.max()) & (took > slow)
    return next((int(i) for i in waited.nonzero()[0] if took[i : i + 50].mean() > slow), None)
