"""The world that lab 1 is graded on: a simulated machine whose time is virtual, so that no verdict depends on who runs it.

`Machine` is a computer with an asynchronous device (`utils.measure.simulated`), `Track` a race course whose weather is planted,
`Cache` a memory in front of which a small cache stands. All of it is deterministic: the same seed, the same nanoseconds.
`RealMachine` has the same two methods on the computer that runs the notebook; nothing is graded on it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping

from utils.measure.simulated import SimulatedDevice, VirtualClock


class Machine:
    """A simulated computer with an asynchronous device. Looking at its clock takes `reading_ns`, a launch `launch_us`.

    A learner's stopwatch may use two methods: `now()`, the host's clock in ns, and `synchronize()`, which waits until
    everything launched so far is done.
    """

    def __init__(self, *, launch_us: float = 5.0, sync_us: float = 5.0, reading_ns: int = 0, depth: int = 1024):
        self.device = SimulatedDevice(launch_us=launch_us, sync_us=sync_us, depth=depth, clock=VirtualClock())
        self.reading_ns = reading_ns

    def now(self) -> int:
        """The host's clock, ns."""
        self.device.wall.spend(self.reading_ns)  # here, because a launch of the simulated device looks at its clock as well
        return self.device.clock()

    def synchronize(self) -> None:
        """Wait until the device has done everything that was launched."""
        self.device.synchronize()

    def call(self, kernel_us: float, *, first_us: float = 0.0) -> Call:
        """A call without arguments that launches a kernel of `kernel_us`; its first run takes `first_us` more on the host."""
        return Call(self.device, kernel_us, first_us)

    def runner(self, kernel_us: float, *, first_us: float = 0.0) -> Runner:
        """A finished stopwatch for `kernel_us`: a function of n that returns the ns which n calls took together."""
        return Runner(self, self.call(kernel_us, first_us=first_us))


class Call:
    """One operation on a machine. `depths` holds how many kernels still waited when each of its runs began."""

    def __init__(self, device: SimulatedDevice, kernel_us: float, first_us: float):
        self._device, self._kernel_us, self._first_us = device, kernel_us, first_us
        self.depths: list[int] = []

    def __call__(self) -> None:
        self.depths.append(self._device.queue_depth())
        if len(self.depths) == 1:
            self._device.wall.spend(self._first_us * 1e3)
        self._device.launch(self._kernel_us)


class Runner:
    """A stopwatch that is right, for the exercises after the first: `runner(n)` is the ns of n calls; `asked` keeps every n.

    Raises RuntimeError after `MOST` calls: who needs as many to find a number never finishes on a real machine.
    """

    MOST = 200_000

    def __init__(self, machine: Machine, call: Call):
        self._machine, self._call = machine, call
        self.asked: list[int] = []

    def __call__(self, n: int) -> float:
        if type(n) is not int or n < 1:
            raise ValueError(f"a block has at least one call, in whole numbers; this one was asked for {n!r}")
        self.asked.append(n)
        if sum(self.asked) > self.MOST:
            raise RuntimeError(
                f"{len(self.asked):,} runs and {sum(self.asked):,} calls so far, and no end in sight: grow n faster"
            )
        self._machine.synchronize()
        start = self._machine.now()
        for _ in range(n):
            self._call()
        self._machine.synchronize()
        return float(self._machine.now() - start)


class Track:
    """Arms for a race: each `arms[name]()` runs one block and returns its ns a call. `ran` keeps who ran, in order.

    `prices` are the true prices. Planted weather: `drift` makes each block dearer than the last by that fraction of the price;
    `after` maps an arm to what the block behind it pays on top, as a fraction; `noise` adds a random fraction, never less.
    """

    def __init__(
        self,
        prices: Mapping[str, float],
        seed: int,
        *,
        drift: float = 0.0,
        after: Mapping[str, float] | None = None,
        noise: float = 0.0,
    ):
        self._rng, self._drift, self._after, self._noise = random.Random(seed), drift, dict(after or {}), noise
        self._prices = dict(prices)
        self.ran: list[str] = []
        self.told: dict[str, list[float]] = {name: [] for name in prices}
        self.arms: dict[str, Callable[[], float]] = {name: self._arm(name) for name in prices}

    def _arm(self, name: str) -> Callable[[], float]:
        def block() -> float:
            factor = 1.0 + self._drift * len(self.ran)
            factor += self._after.get(self.ran[-1], 0.0) if self.ran else 0.0
            factor += self._noise * self._rng.expovariate(1.0)
            self.ran.append(name)
            self.told[name].append(self._prices[name] * factor)
            return self.told[name][-1]

        return block


class Cache:
    """A memory of which the last `cache_bytes` used are near: `use(buffer)` returns its ns, and what it computed in `made`.

    Buffers are numbers of `buffer_bytes` each; what was used longest ago leaves the cache first.
    """

    NEAR_NS, FAR_NS = 10_000.0, 80_000.0

    def __init__(self, buffer_bytes: int, cache_bytes: int):
        self.buffer_bytes, self.cache_bytes = buffer_bytes, cache_bytes
        self.near: list[int] = []
        self.used: list[int] = []
        self.ns: list[float] = []

    def use(self, buffer: int) -> tuple[str, int, int]:
        """Work on `buffer`. Returns the result, which is another one each time."""
        self.ns.append(self.NEAR_NS if buffer in self.near else self.FAR_NS)
        self.near = [b for b in self.near if b != buffer] + [buffer]
        while len(self.near) * self.buffer_bytes > self.cache_bytes:
            self.near.pop(0)
        self.used.append(buffer)
        return "result", buffer, len(self.used)

    @property
    def from_memory(self) -> float:
        """The share of the uses, 0..1, that had to go to the memory."""
        return sum(ns == self.FAR_NS for ns in self.ns) / max(1, len(self.ns))


class RealMachine:
    """This computer, with a Machine's two methods; `add()` is one `a + b` of `n` random numbers, on a GPU where there is one."""

    def __init__(self, n: int = 1024):
        import torch  # here: no point of the lab needs it, and it takes seconds

        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self._wait = torch.cuda.synchronize if self.device == "cuda" else (lambda: None)
        self._a, self._b, self._out = (torch.rand(n, device=self.device) for _ in range(3))
        self._add = torch.add

    def now(self) -> int:
        return time.perf_counter_ns()

    def synchronize(self) -> None:
        self._wait()

    def add(self):
        """One a + b into a new tensor."""
        return self._a + self._b

    def add_into(self):
        """The same sum, into a tensor that is there already."""
        return self._add(self._a, self._b, out=self._out)
