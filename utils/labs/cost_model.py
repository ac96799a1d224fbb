"""The world that lab 6 is graded on: ops with two prices, chains that were timed, cases to predict. No torch and no clock in it.

`bench(who)` is a SIMULATED machine for every name: the bandwidth of a GPU from devices.yml less a share that none reaches, a host
that needs some microseconds an op, a queue that is short, so that a full one is met in a short case. Its readings are simulated
as well, with noise, and now and then a disturbed one. What the machine charges is not in what `bench` returns: finding that is
the lab.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from utils.labs.learner import seed_of
from utils.measure.simulated import SimulatedDevice, VirtualClock
from utils.model import costmodel, devices

LAB = 6
KINDS = (
    "small ops",
    "large ops",
    "around break-even",
    "small ones, then large ones",
    "large ones, then small ones",
    "a read-back after every 4th",
    "a huge one, then more than the queue holds",
)
CASES = 4  # of each kind


@dataclass(frozen=True)
class Op:
    """One op with its two prices, µs: the host's, to issue it, and the device's, to run its kernel. With `sync` the host waits,
    after it has issued it, until the device has nothing left to do (as .item() does)."""

    host_us: float
    device_us: float
    sync: bool = False


@dataclass(frozen=True)
class Work:
    """One op without prices: the bytes that its kernel moves, and whether the host waits for it."""

    nbytes: int
    sync: bool = False


@dataclass(frozen=True)
class Step:
    """One elementwise op of a chain, in bytes: what it reads (the result before it included) and what it writes."""

    read: int
    written: int


@dataclass(frozen=True)
class Chain:
    """One reading: `ops` equal ops, one after the other, each moving `nbytes`, took `wall_us` in all, one wait at the end."""

    ops: int
    nbytes: int
    wall_us: float


@dataclass(frozen=True)
class Prices:
    """What a machine charges: the host's time for one op, µs; what a kernel in a row of kernels costs beyond its bytes, µs (its
    start, and the gap in front of it); the bandwidth, GB/s (1e9 byte/s)."""

    host_us: float
    floor_us: float
    gbps: float


@dataclass(frozen=True)
class Case:
    """A program to be predicted: its kind, its ops in order, and what it took, µs."""

    kind: str
    works: tuple[Work, ...]
    wall_us: float


@dataclass(frozen=True)
class Bench:
    """The readings of one machine. Chains of at most `small` bytes an op are surely the host's, of at least `large` bytes surely
    the device's. `depth` kernels fit into the queue; launching a captured graph takes the host `replay_us`."""

    label: str
    chains: tuple[Chain, ...]
    cases: tuple[Case, ...]
    small: int
    large: int
    depth: int
    replay_us: float


@lru_cache(maxsize=4)
def bench(who: str, *, later: bool = False) -> Bench:
    """The machine of this name and its readings: the same name gives the same. `later` are the same programs some hours later:
    the same machine, and something has changed."""
    machine = random.Random(seed_of(who, LAB))
    device = machine.choice([d for d in devices.load() if d.gbps.checked and d.gbps.value >= 500])
    prices = costmodel.Prices(
        dispatch_us=machine.uniform(4.0, 8.0),
        launch_us=machine.uniform(1.5, 3.0),
        gbps=round(device.gbps.value * machine.uniform(0.84, 0.93), 1),
        start_us=machine.uniform(1.0, 1.8),
        gap_us=machine.uniform(0.4, 0.9),
        depth=machine.choice([48, 64, 96, 128]),
        sync_us=machine.uniform(1.0, 3.0),
    )
    replay_us = round(machine.uniform(5.0, 12.0), 1)
    programs, works = list(_programs(prices, machine)), list(_works(prices, machine))
    large, drift = _large(prices), machine.uniform(1.25, 1.4)
    if later:
        prices = replace(prices, dispatch_us=prices.host_us * drift - prices.launch_us)
    noise = random.Random(f"{seed_of(who, LAB)}/{'later' if later else 'readings'}")
    chains = [
        Chain(ops, nbytes, round(_disturbed(_took(prices, [Work(nbytes)] * ops), noise), 2))
        for ops, nbytes in [program for program in programs for _ in range(3)]
    ]
    noise.shuffle(chains)
    cases = [Case(kind, w, round(_took(prices, w) * noise.gauss(1.0, 0.007), 2)) for kind, w in works]
    return Bench(
        label=f"SIMULATED: a device with most of the bandwidth of {device.name}" + (", some hours later" if later else ""),
        chains=tuple(chains),
        cases=tuple(cases),
        small=64_000,
        large=large,
        depth=prices.depth,
        replay_us=replay_us,
    )


def priced(works: Sequence[Work], prices: Prices) -> list[Op]:
    """The ops of a program with the prices of a machine on them. The gap is in `floor_us` already."""
    return [Op(prices.host_us, prices.floor_us + work.nbytes / (prices.gbps * 1e3), work.sync) for work in works]


def on_the_device(ops: Sequence[Op], gap_us: float, depth: int) -> list[tuple[float, float, float]]:
    """(issued, started, ended) of every op, µs, on lesson 00's simulated device in virtual time: what hidden tests compare with.

    Prices in whole µs, please: its clock shows whole nanoseconds.
    """
    device = SimulatedDevice(depth=depth, gap_us=gap_us, sync_us=0.0, clock=VirtualClock())
    times = []
    for op in ops:
        device.launch_us = op.host_us
        device.launch(op.device_us)
        times.append((device.clock() / 1e3, device.busy_until / 1e3 - op.device_us, device.busy_until / 1e3))
        if op.sync:
            device.synchronize()
    return times


def random_ops(seed: int, *, syncs: bool = False, many: int = 24) -> list[Op]:
    """Ops with random prices in whole µs: stretches in which the device falls behind, and stretches in which it waits."""
    rng = random.Random(seed)
    ops, slow_device = [], rng.random() < 0.5
    while len(ops) < many:
        host, device = ((3, 11), (12, 40)) if slow_device else ((20, 50), (1, 4))
        for _ in range(rng.randint(2, 5)):
            ops.append(Op(float(rng.randint(*host)), float(rng.randint(*device)), syncs and rng.random() < 0.2))
        slow_device = not slow_device
    return ops[:many]


# ------------------------------------------------------------------------------------------------ how the readings come about


def _large(prices: costmodel.Prices) -> int:
    """Bytes from which on a chain is surely the device's: three times break-even, in whole MB."""
    return int(3 * costmodel.break_even_bytes(prices) / 1e6 + 1) * 1_000_000


def _took(prices: costmodel.Prices, works: Sequence[Work]) -> float:
    """A program's wall time, µs, with the one wait at its end that every stopwatch needs."""
    ops = [prices.op(work.nbytes, sync=work.sync) for work in works]
    ops[-1] = replace(ops[-1], sync=True)
    return prices.play(ops).wall_us


def _disturbed(us: float, noise: random.Random) -> float:
    """A reading of `us`: a little off, and one in eight much too long."""
    return us * noise.gauss(1.0, 0.006) * (noise.uniform(1.2, 2.5) if noise.random() < 0.125 else 1.0)


def _programs(prices: costmodel.Prices, rng: random.Random) -> Iterator[tuple[int, int]]:
    """(ops, bytes an op) of the chains that are timed: small ones, large ones, some in between, where neither side is alone."""
    for ops in (16, 32, 64, 128):
        for kb in (4, 16, 60):
            yield ops, kb * 1000
    for times in (1, 1.5, 2, 3, 4.5, 6, 9, 12):
        yield rng.choice((48, 64)), int(_large(prices) * times)
    even = costmodel.break_even_bytes(prices)
    for times in (0.25, 0.6, 0.9, 1.1, 1.5, 2.0):
        yield 64, int(even * times)


def _works(prices: costmodel.Prices, rng: random.Random) -> Iterator[tuple[str, tuple[Work, ...]]]:
    """The cases to predict, CASES of each kind."""
    even = costmodel.break_even_bytes(prices)

    def some(many: int, low: float, high: float, every: int = 0) -> list[Work]:
        return [Work(int(even * rng.uniform(low, high)), bool(every) and (i + 1) % every == 0) for i in range(many)]

    make: dict[str, Callable[[], list[Work]]] = {
        KINDS[0]: lambda: some(rng.randint(40, 120), 0.0002, 0.05),
        KINDS[1]: lambda: some(rng.randint(24, 60), 2.5, 12.0),
        KINDS[2]: lambda: some(rng.randint(40, 120), 0.8, 1.25),
        KINDS[3]: lambda: _split_evenly(some, rng),
        KINDS[4]: lambda: _split_evenly(some, rng)[::-1],
        KINDS[5]: lambda: some(4 * rng.randint(8, 20), 0.8, 1.6, every=4),
        KINDS[6]: lambda: [Work(int(even * prices.depth * rng.uniform(2.0, 2.6))), *some(prices.depth * 3, 0.0002, 0.01)],
    }
    for kind in KINDS:
        for _ in range(CASES):
            yield kind, tuple(make[kind]())


def _split_evenly(some: Callable[..., list[Work]], rng: random.Random) -> list[Work]:
    """Small ops and then large ones, so many that the host's time for the small is about the device's for the large."""
    large = rng.randint(10, 20)
    return [*some(large * 4, 0.001, 0.05), *some(large, 3.0, 5.0)]
