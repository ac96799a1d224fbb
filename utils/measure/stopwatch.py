"""The stopwatch: what a call costs, in short blocks of all variants mixed at random, with the same code twice among them.

`time_host` prices what the CPU pays for a call (on CUDA: until the launch has returned), `time_device` what the GPU takes
for it. Both are built on `interleave`, which knows nothing of torch and may be used with any loop that times itself.

Why so: noise on a shared machine only ever adds and comes in bursts, so variants that ran one after the other are compared
under different weather, and a mean or median moves with the bursts. Here every round runs one block of about 2 ms of each
variant, cut into eight stretches that take turns at random with those of the others; a block's price is its least disturbed
stretch, and the price is the lower quartile of the blocks. One variant runs twice under two names (the A/A pair): what that
pair disagrees by is the error below which no difference is claimed.

Stretches were chosen by experiment (60 A/A races on 2 cores that others were using too; median and p95 of the error): blocks
in one piece 1.2 and 4.1 %, with one more neighbour 1.3 and 4.7 %; least disturbed of four 0.16 and 6.7 %, 0.09 and 4.7 %; of
eight 0.07 and 3.3 %, 0.06 and 0.8 %. A race whose A/A pair still scatters goes on for a while: with that, p95 fell from 6.0 to
0.5 % in an hour when others kept both cores busy.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import cycle, islice, repeat

from utils.measure.device_clock import DeviceClock, MeasurementError, Queue
from utils.model.readings import Race, Reading, ratio_error

Arm = Callable[[int], float]  # runs n calls, returns the seconds they took
Progress = Callable[[float, str], None]

AGAIN = " (again)"
EMPTY = "(empty loop)"
MOST_CALLS = 10_000_000
STRETCHES = 8  # of a block: see above
TRIES = 8  # of a block, at most, to set how many calls it holds
AGREE = 1.25  # two tries agree when one takes at most so many times the other
LONGER, SETTLED = 3, 0.01  # how much longer a race may get on a noisy machine, and the standard error at which it stops
QUEUE_CALLS = 200  # a CUDA queue takes about 1,024 launches before a launch waits for the GPU: stay far below


def _no_time(name: str) -> MeasurementError:
    return MeasurementError(f"{name!r} reports that its calls take no time at all, so it cannot be priced: is the clock running?")


# ------------------------------------------------------------------------------------------------ the engine


def interleave(
    arms: Mapping[str, Arm],
    *,
    blocks: int = 80,
    block_ms: float = 2.0,
    seed: int | None = None,
    progress: Progress | None = None,
    calls: Mapping[str, int] | None = None,
    most_calls: int = MOST_CALLS,
    at_most_s: float | None = 60.0,
    stretches: int = STRETCHES,
    pair: tuple[str, str] | None = None,
    after_round: Callable[[int], None] | None = None,
) -> dict[str, Reading]:
    """Time all `arms` in one loop of `blocks` rounds, each round one block of every arm, in a new random order.

    An arm is called as `arm(n)`, runs n calls and returns the seconds they took. The calls of a block are calibrated so that
    a block takes about `block_ms` (never more than `most_calls`); `calls` sets them by name instead. A block runs in up to
    `stretches` calls of the arm, which take turns with those of the other arms; the cheapest is the block's price. Calibration
    and one unrecorded round are the warm-up. The garbage collector is off inside. When the loop would take longer than
    `at_most_s` seconds, fewer blocks are run (never fewer than 10). `seed` repeats an order. `pair` names two arms of the same
    code: after `blocks` rounds the loop goes on, to three times as many at most, until the standard error of their ratio is
    below 1 %. (The rule looks at the scatter, never at the difference itself, which would flatter the A/A error.)
    `after_round` is called after each recorded round with its number, and with -1 after the warm-up, for arms that keep more
    of a block than its seconds.
    Returns one `Reading` (ns a call, block by block) for each arm.

    Raises ValueError without arms or blocks or for an unknown pair, MeasurementError when an arm raises (it names the arm)
    or reports no time.
    """
    if not arms:
        raise ValueError("nothing to time: no variants were given")
    if blocks < 1 or block_ms <= 0:
        raise ValueError(f"blocks must be at least 1 and block_ms above 0, not {blocks} and {block_ms}")
    if pair is not None and not set(pair) <= set(arms):
        raise ValueError(f"pair {pair} names an arm that is not there; there are {list(arms)}")
    calls = dict(calls or {})
    with _no_garbage_collection():
        for i, (name, arm) in enumerate(arms.items()):
            if progress:
                progress(0.1 * i / len(arms), f"warming up {name}")
            if name not in calls:
                calls[name] = calibrate(name, arm, block_ms * 1e-3, most_calls)
        share = {name: max(1, round(calls[name] / stretches)) for name in arms}  # calls of one stretch
        times = {name: max(1, round(calls[name] / share[name])) for name in arms}  # stretches of one block
        one_round = 0.0
        for name, arm in arms.items():  # on a device an arm's time leaves out the spin before it, or the wait behind it
            begin = time.perf_counter()
            took = _run(name, arm, share[name])
            one_round += max(took, time.perf_counter() - begin) * times[name]
        in_time = MOST_CALLS if at_most_s is None else max(10, int(at_most_s / max(one_round, 1e-9)))
        blocks, most_blocks = min(blocks, in_time), min(LONGER * blocks, in_time)
        if after_round:
            after_round(-1)
        samples: dict[str, list[float]] = {name: [] for name in arms}
        for i, order in enumerate(_schedule(times, most_blocks, random.Random(seed))):
            if i >= blocks and (pair is None or (i % 10 == 0 and ratio_error(*(samples[n] for n in pair)) < SETTLED)):
                break
            if progress and i % max(1, blocks // 20) == 0:
                progress(min(0.99, 0.1 + 0.9 * i / blocks), "measuring" if i < blocks else "measuring on: a noisy machine")
            block: dict[str, float] = {}
            for name in order:
                took = _run(name, arms[name], share[name])
                block[name] = min(took, block.get(name, took))
            for name, took in block.items():
                samples[name].append(took * 1e9 / share[name])
            if after_round:
                after_round(i)
    if progress:
        progress(1.0, "measured")
    return {name: Reading(name, tuple(s), share[name] * times[name]) for name, s in samples.items()}


def _schedule(times: Mapping[str, int], blocks: int, rng: random.Random) -> Iterator[list[str]]:
    """The order of each round: every arm as often as `times` says, freshly shuffled."""
    one_round = [name for name, k in times.items() for _ in range(k)]
    for _ in range(blocks):
        yield rng.sample(one_round, len(one_round))


def calibrate(name: str, arm: Arm, block_s: float, most: int = MOST_CALLS) -> int:
    """How many calls make a block of about `block_s` seconds (1 for a call that is longer than a block)."""
    n = 1
    _run(name, arm, n)  # the first call of anything is not like the others
    while (took := _run(name, arm, n)) < block_s / 2 and n < most:
        grow = block_s / took if took > 0 else 10.0
        n = min(most, max(n + 1, int(n * min(10.0, grow))))
    while True:  # preempted tries must not set the count: the two quickest must agree, and a size that was far off is tried again
        tries = sorted([took, _run(name, arm, n)])
        while len(tries) < TRIES and tries[1] > AGREE * tries[0]:
            tries = sorted([*tries, _run(name, arm, n)])
        if tries[0] <= 0:
            raise _no_time(name)
        calls = max(1, min(most, round(n * block_s / tries[0])))
        if calls <= 2 * n:
            return calls
        n, took = calls, _run(name, arm, calls)


def _run(name: str, arm: Arm, n: int) -> float:
    try:
        return arm(n)
    except MeasurementError:
        raise
    except Exception as error:
        raise MeasurementError(f"the variant {name!r} raised {type(error).__name__}: {error}") from error


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Collect now, then keep the collector off: its pauses land in whichever block happens to allocate the last object."""
    was_on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def timer_overhead_ns(clock: Callable[[], int] = time.perf_counter_ns) -> float:
    """What one reading of the clock costs, in ns: the median distance of 1,000 readings taken back to back."""
    ticks = [clock() for _ in range(1001)]
    return float(sorted(b - a for a, b in zip(ticks, ticks[1:], strict=False))[500])


def one_by_one(f: Callable, calls: int = 2000, clock: Callable[[], int] = time.perf_counter_ns) -> Reading:
    """Every call of `f` between two readings of the clock (ns, the reading included): how NOT to price a short call."""
    took, kept = [], None
    for _ in range(calls):
        start = clock()
        kept = f()
        took.append(float(clock() - start))
    del kept
    return Reading("call by call", tuple(took))


# ------------------------------------------------------------------------------------------------ what the host pays


def time_host(
    variants: Mapping[str, Callable | Sequence[Callable]],
    *,
    device: str | Queue = "cpu",
    blocks: int = 80,
    block_ms: float = 2.0,
    control: str | None = None,
    between: Callable[[], object] | None = None,
    inside: Mapping[str, Callable[[], AbstractContextManager]] | None = None,
    seed: int | None = None,
    progress: Progress | None = None,
    remove_loop: bool = False,
    at_most_s: float | None = 60.0,
) -> Race:
    """What the CPU pays for one call of each variant (ns), all in one interleaved loop.

    `variants` maps a name to a callable without arguments, or to a list of them that takes turns (rotation: the same work on
    other inputs). The result of a call stays alive until the next call has returned, as in a program that says `c = f()`.
    On CUDA this is the price until the launch has returned: the device is synchronised before and after every block, outside
    the clock, and a block is kept so short that the queue never pushes back.

    `control` names the variant that runs twice (default: the first); the disagreement of the two is the error of the race.
    `between` runs before every timed call, outside the clock: the price of the call in a program, after other work. Each call
    is then timed alone, so a reading holds one clock reading as well; the empty loop does too.
    `inside` maps names of variants to what makes a context (`torch.no_grad`, say): their blocks run inside a fresh one, which is
    entered and left outside the clock.
    The empty loop (a call of a function that does nothing) is measured beside the variants: `Race.loop_ns`; `remove_loop`
    takes it off every reading.
    `device` is "cpu", "cuda" (or "cuda:1"), or an object with the methods of `device_clock.Queue`, such as a simulated device.

    Raises ValueError (no variants, unknown control or device, a context for no variant), TypeError (a variant is not callable),
    MeasurementError (a variant raises, or there is no such CUDA device).
    """
    fns = _checked(variants)
    control = _control(fns, control)
    contexts = _contexts(fns, control, inside or {})
    queue = _queue(device)
    synchronise = queue.synchronize if queue else None
    clock = queue.clock if queue else time.perf_counter_ns
    arms: dict[str, Arm] = {}
    for name, turn in {**fns, control + AGAIN: fns[control], EMPTY: (_nothing,)}.items():
        if between is None:
            arms[name] = _host_arm(turn, synchronise, clock)
        else:
            arms[name] = _single_arm(turn, between, synchronise, clock)
        if name in contexts:
            arms[name] = _arm_inside(arms[name], contexts[name])
    with queue.active() if queue else nullcontext():
        if between is not None:
            calls = dict.fromkeys(arms, _calls_between(arms[control], control, block_ms, clock))
        else:
            count = calibrate if synchronise is None else _short_of_back_pressure
            calls = {name: count(name, arm, block_ms * 1e-3) for name, arm in arms.items() if name != EMPTY}
            calls[EMPTY] = max(calls.values())
        calls[control + AGAIN] = calls[control]  # the A/A pair runs the same code, so the same number of calls
        readings = interleave(
            arms,
            blocks=blocks,
            block_ms=block_ms,
            seed=seed,
            progress=progress,
            calls=calls,
            at_most_s=at_most_s,
            pair=(control, control + AGAIN),
            stretches=1 if queue else STRETCHES,  # on a device a stretch begins with an empty queue: short ones would price that
        )
    empty, timer = readings.pop(EMPTY).ns, timer_overhead_ns(clock)
    between_readings = 1 if between else max(1, readings[control].calls_per_block // (1 if queue else STRETCHES))
    overheads = _overheads(timer, empty, remove_loop, between_readings)
    if remove_loop:
        readings = {name: r.minus(empty) for name, r in readings.items()}
    return Race(
        readings=readings,
        control=(control, control + AGAIN),
        clock="host",
        device=queue.name if queue else "cpu",
        block_ms=block_ms,
        timer_ns=timer,
        loop_ns=empty,
        loop_removed=remove_loop,
        notes=(*_notes(readings[control], blocks, between is not None), overheads),
    )


def _nothing() -> None:
    """The empty call."""


def _host_arm(turn: Sequence[Callable], synchronise: Callable | None, clock: Callable[[], int]) -> Arm:
    turns = cycle(turn)  # goes on from block to block, so that no input is met more often than the others

    def arm(n: int) -> float:
        todo = repeat(turn[0], n) if len(turn) == 1 else islice(turns, n)
        kept = None
        if synchronise:
            synchronise()
        start = clock()
        for f in todo:
            kept = f()
        took = clock() - start
        if synchronise:
            synchronise()
        del kept
        return took * 1e-9

    return arm


def _single_arm(turn: Sequence[Callable], between: Callable, synchronise: Callable | None, clock: Callable[[], int]) -> Arm:
    turns = cycle(turn)

    def arm(n: int) -> float:
        todo = repeat(turn[0], n) if len(turn) == 1 else islice(turns, n)
        kept, took = None, 0
        for f in todo:
            if synchronise:
                synchronise()  # so that the queue holds only what `between` has put there
            between()
            start = clock()
            kept = f()
            took += clock() - start
        del kept
        return took * 1e-9

    return arm


def _arm_inside(arm: Arm, context: Callable[[], AbstractContextManager]) -> Arm:
    def inside(n: int) -> float:
        with context():
            return arm(n)

    return inside


def _contexts(fns: Mapping, control: str, inside: Mapping[str, Callable]) -> dict[str, Callable[[], AbstractContextManager]]:
    """The contexts by arm; the control's twin runs in the control's."""
    if unknown := [name for name in inside if name not in fns]:
        raise ValueError(f"a context was given for {', '.join(unknown)}, which is none of the variants {list(fns)}")
    return {**inside, **({control + AGAIN: inside[control]} if control in inside else {})}


def _calls_between(arm: Arm, name: str, block_ms: float, clock: Callable[[], int]) -> int:
    """Calls a block when other work runs between them: by the time of both, at least 8 so that a block averages."""
    _run(name, arm, 3)
    start = clock()
    _run(name, arm, 5)
    return max(8, min(MOST_CALLS, round(block_ms * 1e6 * 5 / max(clock() - start, 1))))


def _short_of_back_pressure(name: str, arm: Arm, block_s: float) -> int:
    """Calls a block on an asynchronous device: halved while a quarter of the block is clearly cheaper a call than the whole.

    A call that puts many kernels into the queue fills it after few calls; from then on the host waits for the device and the
    block no longer prices the host.
    """
    n = calibrate(name, arm, block_s, QUEUE_CALLS)
    while n >= 8:
        whole = min(_run(name, arm, n) / n for _ in range(3))
        part = min(_run(name, arm, n // 4) / (n // 4) for _ in range(3))
        if whole <= 1.3 * part:
            break
        n //= 2
    return n


# ------------------------------------------------------------------------------------------------ what the device takes


def time_device(
    variants: Mapping[str, Callable | Sequence[Callable]],
    *,
    device: str | Queue = "cuda",
    blocks: int = 40,
    block_ms: float = 2.0,
    control: str | None = None,
    cold: bool = False,
    seed: int | None = None,
    progress: Progress | None = None,
    at_most_s: float | None = 60.0,
) -> Race:
    """What the GPU takes for one call of each variant (ns), by events around batches, all in one interleaved loop.

    A spinning kernel holds the queue while the host fills it, so that a batch runs back to back however slow the host is
    (without it a small kernel would be priced at the host's launch rate); `Race.notes` names a variant for which the queue ran
    dry all the same. `cold=True` reads a buffer of twice the L2 before every call, outside the events: each call then has its
    own pair of events, whose empty price is `Race.loop_ns`. A variant may also be a list of callables on different inputs,
    which take turns (rotation). The SM clock is read from the spin of every block; blocks below 75 % of the fastest clock seen
    are counted in `Race.throttled_blocks`.

    Raises as `time_host` does, and MeasurementError when there is no CUDA device.
    """
    fns = _checked(variants)
    control = _control(fns, control)
    queue = _queue(device)
    if queue is None:
        raise ValueError(f"device {device!r}: only an asynchronous device has a time of its own; time_host prices the CPU")
    clock = DeviceClock(queue, cold=cold)
    most = 16 if cold else QUEUE_CALLS
    turns = {**fns, control + AGAIN: fns[control], EMPTY: (_nothing,)}
    arms = {name: clock.arm(name, turn, most) for name, turn in turns.items()}
    with queue.active():
        calls = {n: most if n == EMPTY else calibrate(n, arm, block_ms * 1e-3, most) for n, arm in arms.items()}
        calls[control + AGAIN] = calls[control]
        clock.forget()
        readings = interleave(
            arms,
            blocks=blocks,
            block_ms=block_ms,
            seed=seed,
            progress=progress,
            calls=calls,
            at_most_s=at_most_s,
            pair=(control, control + AGAIN),
            stretches=1,  # one stretch, one spin
        )
    empty = readings.pop(EMPTY).ns
    return Race(
        readings=readings,
        control=(control, control + AGAIN),
        clock="device",
        device=queue.name,
        block_ms=block_ms,
        loop_ns=empty,
        throttled_blocks=clock.throttled,
        notes=_notes(readings[control], blocks, False) + clock.notes(),
    )


# ------------------------------------------------------------------------------------------------ what a race says


def verdict(race: Race, a: str, b: str) -> str:
    """One sentence about b against a: the difference with its error, or "no difference seen"; a noisy machine is named."""
    d = race.difference(a, b)
    said = str(d) if not d.seen else f"{d} (error {d.error_ns:,.0f} ns)"
    return f"noisy machine: {said}" if race.noisy else said


def rows(race: Race) -> list[dict]:
    """The race as table rows: name, price, band (p25–p75), calls a block, and the difference to the control."""
    control, again = race.control
    out = []
    for name, r in race.readings.items():
        if name == control:
            against = "control"
        elif name == again:
            against = f"same code, {race.aa_error:.1%} apart"
        else:
            against = verdict(race, control, name)
        out.append(
            {
                "variant": name,
                "ns a call": r.ns,
                "p25–p75 ns": f"{r.ns:,.0f}–{r.p75:,.0f}",
                "calls a block": r.calls_per_block,
                "against": against,
            }
        )
    return out


# ------------------------------------------------------------------------------------------------ what both need


def _checked(variants: Mapping[str, Callable | Sequence[Callable]]) -> dict[str, tuple[Callable, ...]]:
    if not variants:
        raise ValueError("nothing to time: no variants were given")
    out = {}
    for name, given in variants.items():
        turn = (given,) if callable(given) else tuple(given) if isinstance(given, Sequence) else ()
        if not turn or not all(callable(f) for f in turn):
            raise TypeError(f"the variant {name!r} is {type(given).__name__}, not a callable or a list of callables")
        if name == EMPTY or name.endswith(AGAIN):
            raise ValueError(f"the name {name!r} is taken by the stopwatch itself: choose another")
        out[name] = turn
    return out


def _control(fns: Mapping[str, object], control: str | None) -> str:
    control = next(iter(fns)) if control is None else control
    if control not in fns:
        raise ValueError(f"control {control!r} is none of the variants {list(fns)}")
    return control


def _queue(device: str | Queue) -> Queue | None:
    """The queue behind a device: None for the CPU, which is done when a call returns."""
    if not isinstance(device, str):
        missing = [m for m in ("name", "synchronize", "clock", "event", "spin", "flush", "active") if not hasattr(device, m)]
        if missing:
            raise TypeError(f"{type(device).__name__} is no asynchronous device: it lacks {', '.join(missing)}")
        return device
    kind = device.split(":")[0]
    if kind == "cpu":
        return None
    if kind != "cuda":
        raise ValueError(f"device {device!r}: the stopwatch knows cpu, cuda and objects like utils.measure.simulated's device")
    from utils.measure.cuda_queue import CudaQueue

    return CudaQueue(device)


def _notes(control: Reading, blocks: int, singly: bool) -> tuple[str, ...]:
    out = []
    if len(control.samples) < blocks:
        out.append(f"{len(control.samples)} blocks instead of {blocks}: the calls are long")
    if singly:
        out.append("each call timed alone, after other work outside the clock: one clock reading is in the price")
    return tuple(out)


def _overheads(timer_ns: float, empty_ns: float, removed: bool, calls: int) -> str:
    """What of a price is the measuring itself, in words; the clock is read once for every `calls` calls."""
    loop = "taken off" if removed else "in every price"
    clock = f"one reading of the clock takes {timer_ns:,.0f} ns, {timer_ns / calls:.2f} ns a call"
    return f"{clock}; the empty loop takes {empty_ns:,.0f} ns a call, {loop}"
