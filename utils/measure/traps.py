"""Five ways to be wrong about time, each measured beside the honest way in one run: what lesson 00 shows and recordings keep.

Each function returns a dict: `device` ("cpu", "cuda", or "simulated" where an asynchronous device is needed and there is no
CUDA), `wrong` and `honest` (ns), `aa_error` (relative), `race` (both and more, as a Race) and what else the trap shows.
Without CUDA the traps of a queue (no_sync, item_in_loop) run on a simulated asynchronous device that takes real time; the
other three happen on a CPU as they are. `run_all` makes them plain for a recording, `restore` undoes that.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable

from utils.measure.device_clock import MeasurementError
from utils.measure.simulated import SimulatedDevice
from utils.measure.stopwatch import AGAIN, interleave, time_device, time_host, timer_overhead_ns
from utils.measure.torch_threads import one_torch_thread
from utils.model.readings import Race, Reading, quantile

NAMES = ("no_sync", "no_warmup", "cache_resident", "item_in_loop", "profiler_cost")
Progress = Callable[[float, str], None]


def run_all(device: str = "cpu", *, progress: Progress | None = None) -> dict[str, dict]:
    """All five traps as plain JSON data, by name. About 15 s on two CPU cores. `device` is "cpu" or "cuda".

    A trap that fails leaves its reason under "failures" and does not cost the others.
    """
    out: dict[str, dict] = {}
    for i, name in enumerate(NAMES):
        if progress:
            progress(i / len(NAMES), name)
        try:
            out[name] = plain(globals()[name](device))
        except Exception as error:
            out.setdefault("failures", {})[name] = f"{type(error).__name__}: {error}"
    return out


def plain(trap: dict) -> dict:
    """A trap as JSON data."""
    return {**trap, "race": trap["race"].to_dict()}


def restore(trap: dict) -> dict:
    """A trap from a recording as its function returned it."""
    return {**trap, "race": Race.from_dict(trap["race"])}


# ------------------------------------------------------------------------------------------------ 1: no wait


def no_sync(device: str = "cpu") -> dict:
    """Stop the clock when the call returns, or when the device is done. `by_calls`: the wrong price in longer and longer loops.

    On CUDA the work is a half-precision product of two 4096² matrices; on the simulated device a kernel of 400 µs. `by_calls` is
    [[calls, ns a call], …] for kernels of 100 µs: once the queue is full the wrong stopwatch shows the device's pace.
    """
    work = _work(device)
    readings = _timed(
        {"stopped when the call returns": (work.product, False), "stopped when the device is done": (work.product, True)},
        work,
        calls=8,
        blocks=40,
    )
    by_calls = []
    for n in (1, 4, 16, 64, 256, 1024, 2048) if device == "cuda" else (1, 4, 16, 64, 128, 256):
        took = min(_once(lambda: work.launch(100.0), n, work, False) for _ in range(2))
        by_calls.append([n, took * 1e9 / n])
    return _trap(work, readings, "stopped when the call returns", "stopped when the device is done", by_calls=by_calls)


# ------------------------------------------------------------------------------------------------ 2: no warm-up

FIRST_CALLS = """
import json, sys, time, torch
device, n = sys.argv[1], 64 if sys.argv[1] == "cpu" else 1024
torch.set_num_threads(1)
wait = torch.cuda.synchronize if device == "cuda" else (lambda: None)
x, w = torch.randn(n, n, device=device), torch.randn(n, n, device=device)
wait()
took = []
for _ in range(81):
    start = time.perf_counter_ns()
    y = x @ w
    wait()
    took.append(time.perf_counter_ns() - start)
print(json.dumps(took))
"""


def no_warmup(device: str = "cpu") -> dict:
    """The first matrix product of a fresh Python process, and the ones after it. `calls_ns`: the first twenty, one by one.

    A process of its own, because a first call happens once: in this one it may be over. Raises MeasurementError when that
    process fails, with its last line.
    """
    device = "cuda" if device == "cuda" else "cpu"
    child = subprocess.run(
        [sys.executable, "-c", FIRST_CALLS, device], capture_output=True, text=True, timeout=300, env={**os.environ}
    )
    if child.returncode:
        said = (child.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise MeasurementError(f"the process that was to make the first call failed: {said}")
    took = [float(ns) for ns in json.loads(child.stdout.splitlines()[-1])]
    warm = took[1:]
    readings = {
        "the first call": Reading("the first call", (took[0],)),
        "mean of the first 10": Reading("mean of the first 10", (sum(took[:10]) / 10,)),
        "a warm call": Reading("a warm call", tuple(warm[::2])),
        "a warm call" + AGAIN: Reading("a warm call" + AGAIN, tuple(warm[1::2])),
    }
    race = Race(readings, ("a warm call", "a warm call" + AGAIN), device=device, timer_ns=timer_overhead_ns())
    return _with(race, "the first call", "a warm call", calls_ns=took[:20])


# ------------------------------------------------------------------------------------------------ 3: data in the cache


def cache_resident(device: str = "cpu") -> dict:
    """`torch.add(a, b, out=c)` on one small buffer again and again, or on other data every time. `bytes`: what one call moves.

    CPU, one thread: tensors of 128 KiB, rotated through 384 MiB. CUDA: tensors of a sixth of the L2, rotated through six times
    the L2 (at least 96 MiB), on the device's clock.
    """
    import torch

    cuda = device == "cuda"
    l2 = getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 0) or (32 << 20) if cuda else 0
    size, whole = (l2 // 6 // 4, max(6 * l2, 96 << 20)) if cuda else (128 * 1024 // 4, 384 << 20)
    sets = max(2, whole // (3 * 4 * size))
    a, b, out = (torch.rand(sets, size, device="cuda" if cuda else "cpu") for _ in range(3))
    adds = [lambda x=x, y=y, z=z: torch.add(x, y, out=z) for x, y, z in zip(a, b, out, strict=True)]
    variants = {"other data every time": adds, "one buffer again and again": adds[0]}
    if cuda:
        race = time_device(variants, blocks=40)
    else:
        with one_torch_thread():  # two threads on two busy cores wait for each other, and that would be the price
            race = time_host(variants, blocks=50)
    return _with(race, "one buffer again and again", "other data every time", bytes=3 * 4 * size)


# ------------------------------------------------------------------------------------------------ 4: .item() in the loop

LAUNCHES = 10  # a step


def item_in_loop(device: str = "cpu") -> dict:
    """A loop of steps that reads a value once at the end, in every step, or after every launch (ns a step).

    A step is ten launches: nine of tiny kernels, then one that keeps the device as long as the host needs for all ten. While
    it runs, a host that need not wait launches the next step: this is when overlap is worth most.
    `by_balance` is [[device time / host time, price with .item() in every step / price without], …]: where one of the two does
    nearly all of the work there is no overlap to lose.
    """
    work = _work(device)
    host_us = LAUNCHES * _host_us(work)

    def step(kernel_us: float, reads: int) -> Callable[[], None]:
        def one() -> None:
            for _ in range(LAUNCHES - 1):
                work.launch(1.0)
                if reads == LAUNCHES:
                    work.item()
            work.launch(kernel_us)
            if reads:
                work.item()

        return one

    names = {"read once, at the end": 0, "read in every step": 1, "read after every launch": LAUNCHES}
    readings = _timed(
        {name: (step(host_us, reads), True) for name, reads in names.items()},
        work,
        calls=10,
        blocks=64,
        control="read once, at the end",
    )
    by_balance = []
    for balance in (0.03, 0.3, 1.0, 3.0, 10.0):
        pair = {str(reads): (step(host_us * balance, reads), True) for reads in (0, 1)}
        raced = _timed(pair, work, calls=8, blocks=10)
        by_balance.append([balance, raced["1"].ns / raced["0"].ns])
    return _trap(
        work,
        readings,
        "read in every step",
        "read once, at the end",
        host_us=host_us,
        every_launch=readings["read after every launch"].ns,
        by_balance=by_balance,
    )


def _host_us(work) -> float:
    """What the host needs for one launch, µs: the least of 8 short runs."""
    took = []
    for _ in range(8):
        work.synchronize()
        start = work.clock()
        for _ in range(LAUNCHES):
            work.launch(1.0)
        took.append((work.clock() - start) * 1e-3 / LAUNCHES)
    work.synchronize()
    return min(took)


# ------------------------------------------------------------------------------------------------ 5: the profiler


def profiler_cost(device: str = "cpu") -> dict:
    """`a + b` (one element) alone, and under torch.profiler. `shown_ns`: the time that the profile itself prints for the add.

    Host time on both devices. Starting and stopping the profiler is not counted, only the calls in between.
    """
    import torch
    from torch.profiler import ProfilerActivity, profile

    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # else torch 2.13 writes two lines to stderr for every start
    cuda = device == "cuda"
    a, b = (torch.randn(1, device="cuda" if cuda else "cpu") for _ in range(2))
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda else [])]
    wait = torch.cuda.synchronize if cuda else (lambda: None)
    shown = []

    def alone(n: int) -> float:
        return _loop(lambda: a + b, n, wait)

    def profiled(n: int) -> float:
        with profile(activities=activities) as profiler:
            took = _loop(lambda: a + b, n, wait)
        row = next(e for e in profiler.key_averages() if e.key == "aten::add")
        shown.append(row.self_cpu_time_total * 1e3 / row.count)
        return took

    arms = {"alone": alone, "alone" + AGAIN: alone, "under the profiler": profiled}
    calls = dict.fromkeys(arms, 200 if cuda else 500)
    readings = interleave(arms, blocks=24, calls=calls, stretches=1, pair=("alone", "alone" + AGAIN))
    race = Race(readings, ("alone", "alone" + AGAIN), device="cuda" if cuda else "cpu", timer_ns=timer_overhead_ns())
    return _with(race, "under the profiler", "alone", shown_ns=quantile(shown, 0.25))


def _loop(f: Callable, n: int, wait: Callable) -> float:
    kept = None
    wait()
    start = time.perf_counter_ns()
    for _ in range(n):
        kept = f()
    took = time.perf_counter_ns() - start
    wait()
    del kept
    return took * 1e-9


# ------------------------------------------------------------------------------------------------ what they share


class _Simulated(SimulatedDevice):
    """The simulated device of this lesson: launches of 20 µs (Python needs some of that itself), a queue of 64 kernels."""

    def __init__(self):
        super().__init__(launch_us=20.0, depth=64, sync_us=10.0, copy_us=10.0)

    def product(self) -> None:
        self.launch(400.0)


class _Cuda:
    """The same few calls on a CUDA device: kernels of a known length are spins, a product is a real one."""

    name = "cuda"

    def __init__(self):
        import torch

        from utils.measure.cuda_queue import CudaQueue

        self._queue = CudaQueue("cuda")
        self._a, self._b = (torch.randn(4096, 4096, device="cuda", dtype=torch.float16) for _ in range(2))
        self._value = torch.rand((), device="cuda")
        self.synchronize, self.clock = self._queue.synchronize, self._queue.clock
        self._cycles_per_us = 1000.0
        self.product()
        self._cycles_per_us = self._measured_clock()

    def _measured_clock(self) -> float:
        """Cycles a microsecond (MHz): a spin of known cycles between two events, behind another that lets the host run ahead."""
        before, after = self._queue.event(), self._queue.event()
        self.synchronize()
        self._queue.spin(1_000_000)
        before.record()
        self._queue.spin(1_000_000)
        after.record()
        self.synchronize()
        return 1_000_000 / (before.elapsed_ms(after) * 1e3)

    def launch(self, kernel_us: float) -> None:
        self._queue.spin(round(kernel_us * self._cycles_per_us))

    def product(self) -> None:
        self._product = self._a @ self._b

    def item(self) -> float:
        return self._value.item()


def _work(device: str):
    if device not in ("cpu", "simulated", "cuda"):
        raise ValueError(f"device {device!r}: the traps know cpu, simulated and cuda")
    return _Cuda() if device == "cuda" else _Simulated()


def _once(f: Callable, n: int, work, waits: bool) -> float:
    """Seconds of n calls; the clock stops after the device is done (`waits`) or as soon as the last call has returned."""
    work.synchronize()
    start = work.clock()
    for _ in range(n):
        f()
    if waits:
        work.synchronize()
    took = work.clock() - start
    work.synchronize()
    return took * 1e-9


def _timed(
    ways: dict[str, tuple[Callable, bool]], work, *, calls: int, blocks: int, control: str | None = None
) -> dict[str, Reading]:
    """One race of ways to time: {name: (callable, waits)}; the control (default: the last) runs twice."""
    control = control or list(ways)[-1]
    arms = {
        name: (lambda n, f=f, waits=waits: _once(f, n, work, waits))
        for name, (f, waits) in {**ways, control + AGAIN: ways[control]}.items()
    }
    calls_of = dict.fromkeys(arms, calls)
    return interleave(arms, blocks=blocks, calls=calls_of, stretches=1, pair=(control, control + AGAIN), at_most_s=6.0)


def _trap(work, readings: dict[str, Reading], wrong: str, honest: str, **more) -> dict:
    control = next(name for name in readings if name + AGAIN in readings)
    race = Race(readings, (control, control + AGAIN), device=work.name, timer_ns=timer_overhead_ns())
    return _with(race, wrong, honest, **more)


def _with(race: Race, wrong: str, honest: str, **more) -> dict:
    return {
        "device": race.device,
        "wrong": race[wrong].ns,
        "honest": race[honest].ns,
        "aa_error": race.error,
        "race": race,
        "names": {"wrong": wrong, "honest": honest},
        **more,
    }
