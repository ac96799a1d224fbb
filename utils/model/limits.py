"""What limits a program, from what was counted and timed of it, and what each cure could save at most. No torch, no clock.

A program is asked in turn: does the host stand still in a read-out while the device runs dry? Does the device stand still
otherwise? And where the device is busy: is it bytes or FLOPs that keep it busy, or neither? The answer's name is the usual one:
synchronising, launch bound, bandwidth bound, compute bound; "off the roof" where the device is busy and neither the bytes nor the
FLOPs that were counted explain its time.

A cure's worth is a bound: the step as short as it could become if the cure took away all that it can take away. Whether it does
is for a measurement to say.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

SYNCHRONISING, LAUNCH, BANDWIDTH, COMPUTE, OFF = (
    "synchronising",
    "launch bound",
    "bandwidth bound",
    "compute bound",
    "off the roof",
)
IDLE = 0.2  # a device that stands still for less than this share of the step is called busy
OFTEN = 4  # waits a step; fewer are not a habit
ON_THE_ROOF = 0.4  # of the busy time, the share that the larger floor must explain before the roof gets its name


@dataclass(frozen=True)
class Roofs:
    """What the device can do at best: GB/s, and 1e12 FLOP/s of products in the program's dtype and of everything else."""

    gbps: float
    products: float
    vector: float | None = None

    def __post_init__(self):
        if not (self.gbps > 0 and self.products > 0 and (self.vector is None or self.vector > 0)):
            raise ValueError(f"a roof is a positive number: {self}")


@dataclass(frozen=True)
class Facts:
    """One step of a program. Times in ns: the whole step on the wall clock, what the host needs to issue it without its waits,
    what the device is busy, what the host waits inside the step. Counts: launches (kernels on a GPU, ops that compute on a CPU),
    products among them, bytes moved op by op, bytes that one kernel for it all would move, FLOPs, those of products, and bytes of
    the widest element that is moved.

    Where one thread is host and device, as on a CPU, `serial` is true: the step is then the sum of the two, not the longer one.
    Raises ValueError for a negative number, and for a device that is busy for longer than the step by more than a tenth.
    """

    step_ns: float
    host_ns: float
    device_ns: float
    launches: int
    products: int
    bytes: float
    least_bytes: float
    flops: float
    product_flops: float
    wait_ns: float = 0.0
    waits: int = 0
    element: int = 4
    serial: bool = False

    def __post_init__(self):
        negative = [name for name, value in vars(self).items() if not isinstance(value, bool) and value < 0]
        if negative or self.step_ns == 0:
            raise ValueError(f"a step of no time, or a negative number: {', '.join(negative) or 'step_ns'}")
        if self.device_ns > 1.1 * self.step_ns:
            raise ValueError(f"the device is busy for {self.device_ns:,.0f} ns of a step of {self.step_ns:,.0f} ns")

    @property
    def idle(self) -> float:
        """Share of the step in which the device does none of the program's work."""
        return max(0.0, 1 - self.device_ns / self.step_ns)


@dataclass(frozen=True)
class Floors:
    """The least ns that the device could take: for the bytes op by op, for those of one kernel, for the FLOPs."""

    bytes_ns: float
    least_bytes_ns: float
    flops_ns: float

    @property
    def largest(self) -> float:
        return max(self.bytes_ns, self.flops_ns)


@dataclass(frozen=True)
class Cure:
    """Something that could be done: its name, what it takes away, and the step (ns) that it leaves at best."""

    name: str
    words: str
    best_ns: float


@dataclass(frozen=True)
class Verdict:
    """What limits the program, why, and the cures, the one that could save most first."""

    kind: str
    reason: str
    cures: tuple[Cure, ...]

    @property
    def cure(self) -> Cure | None:
        """The cure with the most leverage; None where none could save a twentieth of the step."""
        return next(iter(self.cures), None)


def floors(facts: Facts, roofs: Roofs) -> Floors:
    """What the roofs say of the counted work: a GB/s is a byte a ns, 1e12 FLOP/s are 1,000 FLOP a ns."""
    rest = facts.flops - facts.product_flops
    flops_ns = facts.product_flops / (roofs.products * 1e3)
    if roofs.vector:
        flops_ns += rest / (roofs.vector * 1e3)
    return Floors(facts.bytes / roofs.gbps, facts.least_bytes / roofs.gbps, flops_ns)


def in_lockstep(waits: float, kernels: float) -> bool:
    """Whether a GPU's host waits behind every kernel or two of a step. No launch overlaps with a kernel then, and the host finds
    little left to wait for: the time inside the waits does not tell their price."""
    return waits >= max(OFTEN, kernels / 2)


def judge(facts: Facts, roofs: Roofs) -> Verdict:
    """The verdict on one step (see the top of this file); cures that could not save a twentieth of it are left out."""
    found = floors(facts, roofs)
    kind, reason = _kind(facts, found)
    worth = [cure for cure in _cures(facts, found) if cure.best_ns < 0.95 * facts.step_ns]
    return Verdict(kind, reason, tuple(sorted(worth, key=lambda cure: cure.best_ns)))


def _kind(facts: Facts, found: Floors) -> tuple[str, str]:
    step = facts.step_ns
    idle = f"the device stands still for {facts.idle:.0%} of the step"
    lockstep = not facts.serial and in_lockstep(facts.waits, facts.launches)
    if facts.waits and facts.idle > IDLE and (lockstep or facts.wait_ns > IDLE * step):
        return SYNCHRONISING, (
            f"the host waits in {facts.waits} {_plural('read-out', facts.waits)} for {facts.wait_ns / step:.0%} of the step, "
            f"and {idle}"
        )
    if facts.serial and facts.host_ns > 0.5 * step:
        each = facts.host_ns / max(1, facts.launches)
        return LAUNCH, (
            f"issuing {facts.launches:,} {_plural('op', facts.launches)} at {each * 1e-3:.1f} µs each is "
            f"{facts.host_ns / step:.0%} of the step"
        )
    if not facts.serial and facts.idle > IDLE:
        return (
            LAUNCH,
            f"{idle}: issuing {facts.launches:,} {_plural('kernel', facts.launches)} takes the host longer than they run",
        )
    busy = max(facts.device_ns, 1e-9)
    reach = found.largest / busy
    if reach < ON_THE_ROOF:
        return OFF, (
            f"the device is busy, but its bytes explain {found.bytes_ns / busy:.0%} of that and its FLOPs "
            f"{found.flops_ns / busy:.0%}: small kernels, a layout that wastes lines, or instructions that are neither"
        )
    if found.bytes_ns >= found.flops_ns:
        return BANDWIDTH, f"moving the counted bytes takes {reach:.0%} of the busy time at the bandwidth of this device"
    return COMPUTE, f"the counted FLOPs take {reach:.0%} of the busy time at the peak of this device"


def _cures(facts: Facts, found: Floors) -> Iterable[Cure]:
    def step(host: float, device: float, apart: bool = facts.serial or facts.waits > 0) -> float:
        """One after the other where host and device are one thread, or where the host waits inside the step; else at once."""
        return host + device if apart else max(host, device)

    groups = max(1, 2 * facts.products + 1)  # between products, one fused kernel each
    host = facts.host_ns * min(1.0, groups / facts.launches) if facts.launches else facts.host_ns
    # What fusing saves of the traffic it saves at the bandwidth at best; the work that stays has its floors.
    saved = max(0.0, found.bytes_ns - found.least_bytes_ns)
    device = min(facts.device_ns, max(facts.device_ns - saved, found.least_bytes_ns, found.flops_ns))
    if facts.waits:
        later = step(facts.host_ns, facts.device_ns, apart=facts.serial)
        yield Cure("read out later", "no read-out inside the step: the host runs ahead", later)
    else:  # a graph cannot hold a read-out
        yield Cure("capture", "one call replays the whole step: the host's part goes, the bytes stay", facts.device_ns)
    yield Cure("fuse", "one kernel between products: fewer launches, and intermediates that never see memory", step(host, device))
    if not facts.waits:
        yield Cure("fuse and capture", "both", device)
    if facts.element > 2 and (found.bytes_ns >= found.flops_ns or not facts.serial):
        # A CPU computes two-byte numbers no faster than four-byte ones, so there only the traffic is halved.
        half = max(facts.device_ns - found.largest / 2, 0.0)
        yield Cure(
            "half the bytes an element", "a two-byte dtype: half the traffic, and a GPU's faster units", step(facts.host_ns, half)
        )


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"
