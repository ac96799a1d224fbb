"""How long a step takes, from its ops: as a sum, as a maximum, and by playing host, queue and device through. No torch, no clock.

An `Op` says what one op costs each side, in microseconds (µs). Three models make a step's time of them:

    total_sum    the host's time and then the device's: nothing overlaps                      (claim B12)
    total_max    the slower of the two, as if the other hid behind it entirely                (claim A19)
    queue        the host issues in order, the device drains in order, the queue is finite, kernels have a gap between them,
                 a sync makes the host wait: what overlaps and what does not comes out, instead of being assumed

`Profile` is the eager cost profiler of the texts around these: a matrix product and elementwise ops on one activation, with the
prices of a machine and the switches *capture* and *fuse*. Bytes are counted as the texts count them; 1 MB = 1e6 bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

# The texts' small-model regime has no size. Here it is a thousandth of the activation: its bytes then take a thousandth of the
# time, about 0.1 µs at the stock settings, so that the launches are all that is left (claim B32).
SMALL = 1_000
MATMUL_TENSORS = 3  # reads two operands, writes its result; the weight is counted as large as the activation (claim B31)
ELEMENTWISE_TENSORS = 2  # reads one, writes one: a second operand, as add has it, is not in the texts' count


@dataclass(frozen=True)
class Op:
    """One op of a step, all times in µs.

    dispatch_us: the host's work before the launch · launch_us: the host's time in the launch itself · device_us: the kernel's own
    time, None for an op without a kernel (a view) · sync: after it the host waits until the device has nothing left (.item()).
    """

    dispatch_us: float
    launch_us: float = 0.0
    device_us: float | None = None
    sync: bool = False
    name: str = ""

    def __post_init__(self):
        if min(self.dispatch_us, self.launch_us, self.device_us or 0.0) < 0:
            raise ValueError(f"no price is below 0: {self}")

    @property
    def host_us(self) -> float:
        return self.dispatch_us + self.launch_us


# ------------------------------------------------------------------------------------------------ three models


def total_host(ops: Iterable[Op]) -> float:
    """The host's time for all ops, µs, without any waiting."""
    return sum(op.host_us for op in ops)


def total_device(ops: Iterable[Op]) -> float:
    """The kernels' time of all ops, µs, without gaps."""
    return sum(op.device_us or 0.0 for op in ops)


def total_sum(ops: Sequence[Op]) -> float:
    """The sum model, µs: Σ(dispatch + launch) + Σ device. Right where nothing overlaps: on a CPU, with a sync after each op."""
    return total_host(ops) + total_device(ops)


def total_max(ops: Sequence[Op]) -> float:
    """The max model, µs: max(Σ host, Σ device). A floor of every step; right for a long one dominated by one side throughout."""
    return max(total_host(ops), total_device(ops))


@dataclass(frozen=True)
class Slot:
    """When one op was worked on, µs from the step's start: by the host from `begun` to `issued` (waiting for a place in the queue
    included), by the device from `started` to `ended` (both None without a kernel)."""

    op: Op
    begun: float
    issued: float
    started: float | None
    ended: float | None


@dataclass(frozen=True)
class Played:
    """A step played through. `wall_us` is the time until the host has issued everything and the device has drained; `host_us`
    until the host was done; `full_us` is how long it waited for places in the queue, `sync_us` for syncs (their own price
    included); `idle_us` is the time between the first kernel's start and the last one's end in which none ran, gaps too."""

    slots: tuple[Slot, ...]
    wall_us: float
    host_us: float
    full_us: float
    sync_us: float
    idle_us: float

    @property
    def bound(self) -> str:
        """Who waited less: "device" where it was idle for less time than the host waited for it, else "host"."""
        waited = self.full_us + self.sync_us + self.wall_us - self.host_us
        return "device" if self.idle_us < waited else "host"


def queue(ops: Sequence[Op], *, depth: int = 1024, gap_us: float = 0.0, sync_us: float = 0.0) -> Played:
    """Play a step through, op by op.

    depth: kernels that may be launched and not yet ended; a launch into a full queue waits until the oldest has ended.
    gap_us: the device's time between the end of a kernel and the start of one that was waiting behind it, µs. A kernel that finds
    the device idle starts at once. sync_us: the host's time for a sync beyond the waiting, µs.
    The same rules as utils.measure.simulated.SimulatedDevice, without a clock. Raises ValueError for a queue that holds nothing.
    """
    if depth < 1 or min(gap_us, sync_us) < 0:
        raise ValueError("the queue holds at least one kernel, and no price is below 0")
    now = busy_until = full = synced = idle = 0.0
    ends: list[float] = []
    slots = []
    for op in ops:
        begun, started, ended = now, None, None
        now += op.dispatch_us
        if op.device_us is not None:
            if len(ends) >= depth and ends[-depth] > now:  # ends only ever grow: the depth-th last one frees the place
                full += ends[-depth] - now
                now = ends[-depth]
            now += op.launch_us
            started = busy_until + gap_us if busy_until > now else now
            idle += started - busy_until if ends else 0.0
            busy_until = ended = started + op.device_us
            ends.append(ended)
        else:
            now += op.launch_us
        slots.append(Slot(op, begun, now, started, ended))
        if op.sync:
            after = max(now, busy_until) + sync_us
            synced += after - now
            now = after
    return Played(tuple(slots), max(now, busy_until), now, full, synced, idle)


def per_step(
    ops: Sequence[Op], *, depth: int = 1024, gap_us: float = 0.0, sync_us: float = 0.0, warm: int = 32, steps: int = 8
) -> float:
    """What one more step adds, µs, where the same step is repeated: the mean of `steps` steps behind `warm` others, from one
    end to another. A step has ended when all of it is issued and its kernels have run.

    In a chain of steps the first start-up is paid once; what is left is, mostly, the slower side's time for a step.
    """
    if warm < 1 or steps < 1:
        raise ValueError("at least one step is measured, behind at least one other")
    if not ops:
        return 0.0
    slots = queue([*ops] * (warm + steps), depth=depth, gap_us=gap_us, sync_us=sync_us).slots

    def end(step: int) -> float:
        return max(max(slot.issued, slot.ended or 0.0) for slot in slots[: step * len(ops)])

    return (end(warm + steps) - end(warm)) / steps


# ------------------------------------------------------------------------------------------------ ops from bytes


@dataclass(frozen=True)
class Prices:
    """What a machine charges. The stock ones are the texts' (claims B31, B32).

    dispatch_us, launch_us: the host's time for one op and its launch, µs · gbps: bandwidth, 1e9 byte/s · start_us: what a kernel
    takes that moves nothing, µs; its bytes come on top · gap_us, depth, sync_us: see `queue` · replay_us: the host's time to
    launch a captured graph, µs (None: one launch).
    """

    dispatch_us: float = 4.0
    launch_us: float = 6.0
    gbps: float = 3300.0
    start_us: float = 0.0
    gap_us: float = 0.0
    depth: int = 1024
    sync_us: float = 0.0
    replay_us: float | None = None

    def __post_init__(self):
        if self.gbps <= 0:
            raise ValueError(f"a bandwidth is above 0, not {self.gbps} GB/s")

    @property
    def host_us(self) -> float:
        return self.dispatch_us + self.launch_us

    def memory_us(self, nbytes: float) -> float:
        """The time of so many bytes at full bandwidth, µs (1 GB/s is 1e3 bytes a µs)."""
        return nbytes / (self.gbps * 1e3)

    def kernel_us(self, nbytes: float) -> float:
        """The time of a kernel that moves so many bytes, µs."""
        return self.start_us + self.memory_us(nbytes)

    def op(self, nbytes: float, name: str = "", *, sync: bool = False, device_us: float | None = None) -> Op:
        """An eager op on this machine. Its kernel moves `nbytes`, or takes `device_us` where that is given (a matrix product)."""
        return Op(self.dispatch_us, self.launch_us, self.kernel_us(nbytes) if device_us is None else device_us, sync, name)

    def play(self, ops: Sequence[Op]) -> Played:
        """`queue` with this machine's gap, depth and sync."""
        return queue(ops, depth=self.depth, gap_us=self.gap_us, sync_us=self.sync_us)


def captured(ops: Sequence[Op], replay_us: float) -> list[Op]:
    """The same kernels as one captured graph: the host pays `replay_us` once, with the first op, and nothing for the others.

    Raises ValueError for a sync in the middle: a graph cannot wait for the host.
    """
    if any(op.sync for op in ops[:-1]):
        raise ValueError("a step with a sync in it cannot be captured")
    kept = [op for op in ops if op.device_us is not None]
    sync = bool(ops) and ops[-1].sync
    return [
        replace(op, dispatch_us=0.0, launch_us=0.0 if i else replay_us, sync=sync and i == len(kept) - 1)
        for i, op in enumerate(kept)
    ]


def break_even_bytes(prices: Prices) -> float:
    """The bytes of an op at which its kernel takes as long as the host needs to issue the next one: below, the host is the
    ceiling of a long chain of such ops, above, the memory. 0.0 where a kernel that moves nothing takes as long already."""
    return max(0.0, prices.host_us - prices.start_us - prices.gap_us) * prices.gbps * 1e3


def break_even_elements(prices: Prices, bytes_an_element: float) -> float:
    """`break_even_bytes` in elements of which the op moves `bytes_an_element` each: 12 for an fp32 add, 4 for a bf16 relu."""
    if bytes_an_element <= 0:
        raise ValueError("an element has bytes")
    return break_even_bytes(prices) / bytes_an_element


# ------------------------------------------------------------------------------------------------ the profiler of the texts


@dataclass(frozen=True)
class Profile:
    """The eager cost profiler: a matrix product, then `ops` elementwise ops, on an activation of `elements`.

    elements: of the activation · ops: elementwise ops · bytes_each: of an element (2 for bf16, 4 for fp32) · prices: the
    machine's · small: the small-model regime, the activation's elements divided by SMALL · capture: the whole step is launched as
    one graph · fuse: the elementwise ops are one kernel · matmul: whether there is a product in front (its FLOPs have no price,
    as in the texts).
    The stock settings give 352 MB and 107 µs of memory against 50 µs of launches.
    """

    elements: float = 16e6
    ops: int = 4
    bytes_each: int = 2
    prices: Prices = Prices()
    small: bool = False
    capture: bool = False
    fuse: bool = False
    matmul: bool = True

    def __post_init__(self):
        if self.elements <= 0 or self.ops < 0 or self.bytes_each <= 0 or self.ops + self.matmul < 1:
            raise ValueError("a profile has at least one op, on at least one element")

    @property
    def activation_bytes(self) -> float:
        return self.elements / (SMALL if self.small else 1) * self.bytes_each

    def moved(self) -> list[tuple[str, float]]:
        """(name, bytes) of each kernel, in order."""
        first = [("matmul", MATMUL_TENSORS * self.activation_bytes)] if self.matmul else []
        if self.fuse and self.ops:  # one read and one write are left, whatever stood between
            return [*first, ("fused", ELEMENTWISE_TENSORS * self.activation_bytes)]
        return [*first, *((f"elementwise {i + 1}", ELEMENTWISE_TENSORS * self.activation_bytes) for i in range(self.ops))]

    def step(self) -> list[Op]:
        """The step as ops, priced, for the three models."""
        ops = [self.prices.op(nbytes, name) for name, nbytes in self.moved()]
        replay = self.prices.launch_us if self.prices.replay_us is None else self.prices.replay_us
        return captured(ops, replay) if self.capture else ops

    @property
    def kernels(self) -> int:
        return len(self.moved())

    @property
    def launches(self) -> int:
        """Launches by the host: one for each kernel, one for a whole graph."""
        return 1 if self.capture else self.kernels

    @property
    def nbytes(self) -> float:
        return sum(nbytes for _, nbytes in self.moved())

    @property
    def launch_us(self) -> float:
        """The launch bar, µs: the host's time for all launches."""
        return total_host(self.step())

    @property
    def memory_us(self) -> float:
        """The memory bar, µs: all bytes at full bandwidth."""
        return self.prices.memory_us(self.nbytes)

    @property
    def bottleneck(self) -> str:
        """The longer bar: "launch" or "memory"."""
        return "launch" if self.launch_us > self.memory_us else "memory"

    def totals(self) -> dict[str, float]:
        """The step by each model, µs: "sum", "max", "queue"."""
        ops = self.step()
        return {"sum": total_sum(ops), "max": total_max(ops), "queue": self.prices.play(ops).wall_us}
