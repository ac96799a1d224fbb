"""The stopwatch, on simulated clocks (deterministic) and on real calls (what it says, never how fast they are)."""

from __future__ import annotations

import gc
import itertools
import random
import time
from contextlib import contextmanager
from dataclasses import replace

import pytest

from utils.measure import device_clock, stopwatch
from utils.measure.simulated import SimulatedDevice, VirtualClock
from utils.measure.stopwatch import MeasurementError, interleave, rows, time_device, time_host, verdict
from utils.model.readings import Race, Reading


def noisy_arm(price_ns: float, rng: random.Random, busy: float = 0.0, clock: VirtualClock | None = None):
    """An arm of `price_ns` a call; a share `busy` of its blocks is preempted and takes 2 to 4 times as long."""

    def arm(n: int) -> float:
        took = n * price_ns * rng.uniform(1.0, 1.01) * (rng.uniform(2, 4) if rng.random() < busy else 1.0)
        if clock:
            clock.spend(took)
        return took * 1e-9

    return arm


def device(**changes) -> SimulatedDevice:
    return SimulatedDevice(clock=VirtualClock(), **changes)


# ---------------------------------------------------------------- the engine


def test_prices_come_back_in_ns_a_call_whatever_the_length_of_a_call():
    rng = random.Random(1)
    prices = {f"{p:g}": p for p in (12.0, 900.0, 7_000.0, 3e6, 5e7)}
    got = interleave({name: noisy_arm(p, rng) for name, p in prices.items()}, blocks=20)
    for name, p in prices.items():
        assert got[name].ns == pytest.approx(p, rel=0.02)
        assert len(got[name].samples) == 20
        assert got[name].calls_per_block == pytest.approx(max(1, 2e6 / p), rel=0.05)


def order_of(seed: int) -> list[str]:
    ran = []
    arms = {name: (lambda n, name=name: ran.append((name, n)) or n * 1e-6) for name in "abcde"}
    interleave(arms, blocks=30, calls={**dict.fromkeys("abcd", 40), "e": 1}, seed=seed, stretches=4)
    return ran[5:]  # the first round is the warm-up


def test_every_round_has_a_block_of_every_arm_and_the_orders_differ():
    ran = order_of(4)
    rounds = [tuple(ran[i : i + 17]) for i in range(0, len(ran), 17)]
    assert len(rounds) == 30
    block = [("a", 10)] * 4 + [("b", 10)] * 4 + [("c", 10)] * 4 + [("d", 10)] * 4 + [("e", 1)]
    assert all(sorted(r) == block for r in rounds)
    assert len(set(rounds)) == 30
    assert order_of(4) == ran != order_of(5)


def test_a_block_is_priced_by_its_least_disturbed_stretch():
    turn = itertools.count()

    def arm(n: int) -> float:
        return n * (1e-6 if next(turn) % 8 == 5 else 3e-6)

    got = interleave({"a": arm}, blocks=20, calls={"a": 400})
    assert got["a"].samples == pytest.approx([1000.0] * 20) and got["a"].calls_per_block == 400


def test_a_race_whose_pair_scatters_goes_on_and_a_calm_one_stops():
    rng = random.Random(9)

    def blocks_of(busy: float) -> int:
        arms = {name: noisy_arm(1000, rng, busy) for name in ("a", "again", "b")}
        got = interleave(arms, blocks=40, calls=dict.fromkeys(arms, 1), pair=("a", "again"))
        assert len({len(r.samples) for r in got.values()}) == 1
        return len(got["a"].samples)

    assert blocks_of(0.0) == 40
    assert blocks_of(0.7) == 120  # one stretch a block here: most blocks are disturbed, and the quartile jumps about
    arms = {name: noisy_arm(1000, rng, 0.7) for name in ("a", "again")}
    assert len(interleave(arms, blocks=40, calls=dict.fromkeys(arms, 1))["a"].samples) == 40


def test_the_garbage_collector_is_off_inside_and_as_before_afterwards():
    seen = []
    for before in (True, False):
        (gc.enable if before else gc.disable)()
        try:
            interleave({"a": lambda n: seen.append(gc.isenabled()) or n * 1e-6}, blocks=3)
            assert gc.isenabled() is before
            with pytest.raises(MeasurementError):
                interleave({"a": lambda n: 1 / 0}, blocks=3)
            assert gc.isenabled() is before
        finally:
            gc.enable()
    assert seen and not any(seen)


def test_an_arm_that_is_preempted_in_every_early_try_still_gets_its_calls():
    """Seen on a loaded machine: every try of a few calls took milliseconds, and blocks of 48 calls held mostly the clock."""
    preempted = iter([4e-3, 1.5e-3, 7e-3, 2.5e-3, 1.1e-3, 9e-3])

    def arm(n):
        return n * 1.5e-6 + next(preempted, 0.0)

    assert stopwatch.calibrate("add", arm, 2e-3) == pytest.approx(2e-3 / 1.5e-6, rel=0.01)
    assert next(preempted, None) is None


def test_at_most_counts_what_an_arm_leaves_out_of_its_time():
    """A device's arm reports the device's time: the spin before it and the wait behind it are the reader's time all the same."""

    def arm(n: int) -> float:
        time.sleep(0.005)
        return 1e-6 * n

    found = interleave({"held": arm}, blocks=400, calls={"held": 1}, at_most_s=0.1, stretches=1)
    assert 10 <= len(found["held"].samples) <= 20


def test_long_calls_get_fewer_blocks_and_the_race_says_so():
    dev = device(launch_us=0, sync_us=0)
    race = time_host({"sleepy": lambda: dev.wall.spend(3e8)}, device=dev, blocks=80, at_most_s=9)
    assert 10 <= len(race["sleepy"].samples) < 80
    assert any("instead of 80" in note for note in race.notes)


def test_progress_runs_from_0_to_1_and_is_not_called_for_every_block():
    said = []
    interleave({"a": lambda n: n * 1e-6}, blocks=400, progress=lambda done, text: said.append(done))
    assert said == sorted(said) and said[0] == 0 and said[-1] == 1
    assert len(said) < 30


# ---------------------------------------------------------------- errors


def test_errors_name_what_is_wrong():
    with pytest.raises(ValueError, match="no variants"):
        interleave({})
    with pytest.raises(ValueError, match="an arm that is not there"):
        interleave({"a": int}, pair=("a", "b"))
    for call in (time_host, time_device):
        with pytest.raises(ValueError, match="no variants"):
            call({})
        with pytest.raises(TypeError, match="'a' is int"):
            call({"a": 3})
        with pytest.raises(TypeError, match="'a' is list"):
            call({"a": []})
        with pytest.raises(ValueError, match="control 'b'"):
            call({"a": int}, control="b")
        with pytest.raises(ValueError, match="taken by the stopwatch"):
            call({"a (again)": int})
    with pytest.raises(ValueError, match="device 'tpu'"):
        time_host({"a": int}, device="tpu")
    with pytest.raises(ValueError, match="time_host prices the CPU"):
        time_device({"a": int}, device="cpu")
    with pytest.raises(TypeError, match="lacks synchronize"):
        time_host({"a": int}, device=Reading("x", (1.0,)))
    with pytest.raises(ValueError, match="blocks"):
        time_host({"a": int}, blocks=0)


def test_a_variant_that_raises_is_named_with_its_own_error():
    def broken():
        raise KeyError("weights")

    with pytest.raises(MeasurementError, match="'second' raised KeyError: 'weights'") as caught:
        time_host({"first": int, "second": broken}, blocks=2)
    assert isinstance(caught.value.__cause__, KeyError)


def test_an_arm_for_which_no_time_passes_is_refused():
    with pytest.raises(MeasurementError, match="no time at all"):
        interleave({"frozen": lambda n: 0.0}, most_calls=1000)


def test_without_cuda_the_message_says_what_to_do_instead():
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    for call in (time_host, time_device):
        with pytest.raises(MeasurementError, match="no CUDA device here.*recordings"):
            call({"a": int}, device="cuda")


# ---------------------------------------------------------------- the host's price


def test_the_price_of_a_real_call_is_repeatable_and_ordered():
    data = [random.random() for _ in range(2000)]
    race = time_host({"short": lambda: sum(data[:20]), "long": lambda: sum(data)}, blocks=20, control="long")
    assert race.control == ("long", "long (again)")
    assert race["short"].ns < race["long"].ns
    assert race.device == "cpu" and race.clock == "host"
    assert 0 < race.loop_ns < race["short"].ns
    assert race.timer_ns > 0
    assert f"one reading of the clock takes {race.timer_ns:,.0f} ns" in race.notes[-1] and "in every price" in race.notes[-1]
    assert race["long"].samples != race["long (again)"].samples  # measured twice, not copied


def test_remove_loop_takes_off_what_the_empty_loop_cost():
    dev = device()
    race = time_host({"work": lambda: dev.wall.spend(1000)}, device=dev, remove_loop=True, blocks=12)
    assert race.loop_removed and "taken off" in race.notes[-1]
    assert race["work"].ns + race.loop_ns == pytest.approx(1000, rel=0.01)


def test_every_call_really_happens_and_its_result_outlives_the_next_call():
    alive, most, calls = set(), [0], itertools.count()

    class Result:
        def __init__(self):
            alive.add(id(self))
            most[0] = max(most[0], len(alive))
            self.number = next(calls)

        def __del__(self):
            alive.discard(id(self))

    race = time_host({"make": Result}, blocks=12, block_ms=0.2)
    made = next(calls)
    recorded = sum(r.calls_per_block * len(r.samples) for r in race.readings.values())
    assert made > recorded  # the recorded calls and the warm-up: nothing was answered from memory
    assert most[0] == 2 and not alive


def test_rotation_gives_every_input_its_turn():
    used = []
    dev = device()
    inputs = [lambda i=i: (used.append(i), dev.wall.spend(1e5)) for i in range(5)]
    time_host({"rotated": inputs}, device=dev, blocks=10)
    counts = [used.count(i) for i in range(5)]
    assert min(counts) > 0.8 * max(counts)


def test_between_runs_before_every_call_and_outside_the_clock():
    dev = device(sync_us=0)
    order = []

    def other():
        order.append("other")
        dev.wall.spend(50_000)

    def op():
        order.append("op")
        dev.wall.spend(2_000)

    race = time_host({"op": op}, device=dev, between=other, blocks=10)
    assert race["op"].ns == pytest.approx(2_000)
    assert race.loop_ns < 100
    ops = [i for i, what in enumerate(order) if what == "op"]
    assert all(order[i - 1] == "other" for i in ops)
    assert any("alone" in note for note in race.notes)


def test_a_context_holds_during_its_variants_blocks_alone_and_outside_the_clock():
    dev = device(sync_us=0)
    depth, seen = [0], {"in": set(), "out": set()}

    @contextmanager
    def context():
        depth[0] += 1
        dev.wall.spend(1e6)
        yield
        depth[0] -= 1

    def call(where):
        seen[where].add(depth[0])
        dev.wall.spend(2_000)

    variants = {"in": lambda: call("in"), "out": lambda: call("out")}
    race = time_host(variants, device=dev, blocks=10, inside={"in": context}, seed=3)
    assert seen == {"in": {1}, "out": {0}} and depth == [0]
    assert [race[name].ns for name in ("in", "in (again)", "out")] == pytest.approx([2_000] * 3)
    with pytest.raises(ValueError, match="a context was given for none"):
        time_host({"a": int}, inside={"none": context})


def test_host_price_on_a_device_is_the_launch_and_not_the_kernel():
    for kernel_us in (1.0, 80.0, 900.0):
        dev = device(launch_us=6.0)
        race = time_host({"op": lambda: dev.launch(kernel_us)}, device=dev, blocks=20)  # noqa: B023
        assert race["op"].ns == pytest.approx(6_000, rel=0.01)
        assert race.device == "simulated"


def test_host_price_stays_short_of_back_pressure_for_calls_of_many_kernels():
    dev = device(launch_us=2.0, depth=256)

    def step():
        for _ in range(40):
            dev.launch(50.0)

    race = time_host({"step": step}, device=dev, blocks=20)
    assert race["step"].ns == pytest.approx(80_000, rel=0.02)
    assert race["step"].calls_per_block * 40 <= 256


# ---------------------------------------------------------------- the device's price


def test_device_price_is_the_kernel_however_slow_the_host():
    for launch_us, kernel_us in ((5.0, 1.0), (50.0, 1.0), (1.0, 300.0)):
        dev = device(launch_us=launch_us, gap_us=0.0)
        race = time_device({"op": lambda: dev.launch(kernel_us)}, device=dev, blocks=12)  # noqa: B023
        assert race["op"].ns == pytest.approx(kernel_us * 1e3, rel=0.01)
        assert race.clock == "device"


def test_device_price_of_calls_that_overfill_the_queue_is_taken_in_smaller_batches():
    dev = device(launch_us=3.0, depth=100)

    def step():
        for _ in range(30):
            dev.launch(2.0)

    race = time_device({"step": step}, device=dev, blocks=10)
    assert race["step"].ns == pytest.approx(60_000, rel=0.01)
    assert not any("waits for the device" in note for note in race.notes)


def test_a_call_that_waits_for_the_device_is_named():
    dev = device(launch_us=3.0)
    race = time_device({"loss": lambda: (dev.launch(2.0), dev.item())}, device=dev, blocks=10)
    assert any("'loss' waits for the device itself" in note for note in race.notes)


def test_cold_flushes_before_every_call_and_outside_the_events():
    dev = device(launch_us=2.0)
    flushes = []
    dev.flush = lambda: (flushes.append(1), dev.launch(500.0))
    calls = []
    race = time_device({"op": lambda: (calls.append(1), dev.launch(40.0))}, device=dev, cold=True, blocks=10)
    assert race["op"].ns == pytest.approx(40_000, rel=0.01)
    assert len(flushes) >= len(calls) > 100


def test_throttled_blocks_are_counted():
    dev = device()
    blocks = itertools.count()

    def op():
        if next(blocks) % 7 == 0:
            dev.mhz = 600.0 if dev.mhz == 1000.0 else 1000.0
        dev.launch(2000.0)

    race = time_device({"op": op}, device=dev, blocks=40)
    assert race.throttled_blocks > 5
    assert any("throttled" in note for note in race.notes)
    assert any("600–1,000 MHz" in note for note in race.notes)


# ---------------------------------------------------------------- what a race says


def race_of(prices: dict[str, float], noise: float, rng: random.Random, busy: float = 0.0) -> Race:
    """A race of 80 blocks as a machine would give it: one-sided noise, and a share `busy` of the blocks preempted."""

    def reading(price: float) -> Reading:
        arm = noisy_arm(price, rng, busy)
        return Reading("x", tuple(arm(1) * 1e9 * rng.uniform(1, 1 + noise) for _ in range(80)))

    first = next(iter(prices))
    return Race({n: reading(p) for n, p in {**prices, first + " (again)": prices[first]}.items()}, (first, first + " (again)"))


def test_identical_code_is_rarely_called_different_and_a_real_difference_always():
    rng = random.Random(7)
    wrong = lucky = missed = 0
    for _ in range(400):
        race = race_of({"a": 1000.0, "same": 1000.0, "dearer": 1300.0}, 0.10, rng, busy=0.3)
        wrong += race.difference("a", "same").seen
        missed += not race.difference("a", "dearer").seen
        lucky += abs(race["same"].ns / race["a"].ns - 1) > max(race.aa_error, 0.005)
    assert wrong <= 0.05 * 400 and missed <= 0.01 * 400
    assert lucky > 0.2 * 400  # what one A/A pair alone would have called different


def test_the_words_of_a_verdict():
    rng = random.Random(3)
    calm = race_of({"a": 1000.0, "same": 1000.0, "dearer": 1300.0}, 0.01, rng)
    assert verdict(calm, "a", "same") == "no difference seen between a and same"
    assert "dearer costs 3" in verdict(calm, "a", "dearer") and "error" in verdict(calm, "a", "dearer")
    wild = race_of({"a": 1000.0, "same": 1000.0}, 0.9, rng)
    assert wild.noisy and verdict(wild, "a", "same").startswith("noisy machine: ")
    table = rows(calm)
    assert [r["variant"] for r in table] == ["a", "same", "dearer", "a (again)"]
    assert table[0]["against"] == "control" and table[-1]["against"].startswith("same code")


def test_a_race_survives_json():
    race = time_host({"a": lambda: sum(range(50))}, blocks=5, block_ms=0.1)
    again = Race.from_dict(race.to_dict())
    assert again.control == race.control and again["a"].ns == pytest.approx(race["a"].ns, abs=0.01)


# ---------------------------------------------------------------- planted faults: each check below must go red


def honest_on_a_drifting_machine() -> None:
    """Two arms of the same price while the machine gets steadily slower: no more than 2 % apart."""
    clock, rng = VirtualClock(), random.Random(11)

    def arm(n: int) -> float:
        start = clock.now()
        clock.spend(n * 1000 * (1 + clock.now() / 3e8) * rng.uniform(1, 1.01))
        return (clock.now() - start) * 1e-9

    got = stopwatch.interleave({"a": arm, "b": arm}, blocks=80, calls={"a": 1000, "b": 1000})
    assert abs(got["b"].ns / got["a"].ns - 1) < 0.02


def honest_under_a_neighbour() -> None:
    """Fifteen stretches of sixteen preempted: the price is still the undisturbed one within 3 %."""
    got = interleave({"a": noisy_arm(1000, random.Random(5), busy=15 / 16)}, blocks=80)
    assert got["a"].ns == pytest.approx(1000, rel=0.03)


def honest_about_the_launch() -> None:
    dev = device(launch_us=5.0, depth=300)
    race = time_host({"op": lambda: dev.launch(400.0)}, device=dev, blocks=30)
    assert race["op"].ns == pytest.approx(5_000, rel=0.02)


def honest_about_the_kernel() -> None:
    dev = device(launch_us=8.0)
    race = time_device({"op": lambda: dev.launch(2.0)}, device=dev, blocks=12)
    assert race["op"].ns == pytest.approx(2_000, rel=0.02)


def honest_about_warm_up() -> None:
    """The first call takes 500 times as long: no recorded block holds it."""
    calls = itertools.count()
    dev = device(sync_us=0)
    race = time_host({"op": lambda: dev.wall.spend(1e6 if next(calls) else 5e8)}, device=dev, blocks=20)
    assert max(race["op"].samples) < 1.5e6


def honest_work() -> None:
    done = itertools.count()
    race = time_host({"op": lambda: next(done)}, blocks=10, block_ms=0.1)
    assert next(done) >= sum(r.calls_per_block * len(r.samples) for r in race.readings.values())


def honest_control() -> None:
    race = time_host({"op": lambda: sum(range(30))}, blocks=20, block_ms=0.1)
    a, b = race.control
    assert race[a].samples != race[b].samples


def honest_units() -> None:
    dev = device(sync_us=0)
    race = time_host({"op": lambda: dev.wall.spend(1234)}, device=dev, blocks=10)
    assert race["op"].ns == pytest.approx(1234, rel=0.01)


def honest_about_other_work() -> None:
    dev = device(sync_us=0)
    race = time_host({"op": lambda: dev.wall.spend(2_000)}, device=dev, between=lambda: dev.wall.spend(90_000), blocks=10)
    assert race["op"].ns == pytest.approx(2_000, rel=0.02)


def honest_about_the_flush() -> None:
    dev = device()
    dev.flush = lambda: dev.launch(300.0)
    race = time_device({"op": lambda: dev.launch(20.0)}, device=dev, cold=True, blocks=10)
    assert race["op"].ns == pytest.approx(20_000, rel=0.02)


CHECKS = (
    honest_on_a_drifting_machine,
    honest_under_a_neighbour,
    honest_about_the_launch,
    honest_about_the_kernel,
    honest_about_warm_up,
    honest_work,
    honest_control,
    honest_units,
    honest_about_other_work,
    honest_about_the_flush,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda f: f.__name__)
def test_the_stopwatch_is(check):
    check()


def plant_sequential(m):
    real = stopwatch.interleave
    m.setattr(stopwatch, "interleave", lambda arms, **how: {name: real({name: arm}, **how)[name] for name, arm in arms.items()})


def plant_median(m):
    m.setattr(Reading, "ns", property(lambda self: self.median))


def plant_no_sync(m):
    m.setattr(SimulatedDevice, "synchronize", lambda self: None)


def plant_no_spin(m):
    m.setattr(SimulatedDevice, "spin", lambda self, cycles: self.launch(1e-3))


def plant_no_warm_up(m):
    m.setattr(stopwatch, "calibrate", lambda name, arm, block_s, most=1: 1)
    m.setattr(stopwatch, "_short_of_back_pressure", lambda name, arm, block_s: 1)

    def at_once(arms, *, blocks, calls, **_):
        return {n: Reading(n, tuple(arm(calls[n]) * 1e9 / calls[n] for _ in range(blocks)), calls[n]) for n, arm in arms.items()}

    m.setattr(stopwatch, "interleave", at_once)


def plant_cached_result(m):
    def arm_of(turn, synchronise, clock):
        answers = {}

        def arm(n):
            start = clock()
            for _ in range(n):
                answers.get(0) or answers.setdefault(0, (turn[0](),))
            return (clock() - start) * 1e-9

        return arm

    m.setattr(stopwatch, "_host_arm", arm_of)


def plant_copied_control(m):
    real = stopwatch.interleave

    def copied(arms, **how):
        got = real(arms, **how)
        first = next(iter(got))
        got[first + stopwatch.AGAIN] = got[first]
        return got

    m.setattr(stopwatch, "interleave", copied)


def plant_microseconds(m):
    real = stopwatch._run
    m.setattr(stopwatch, "_run", lambda name, arm, n: real(name, arm, n) * 1e-3)


def plant_clock_around_other_work(m):
    def arm_of(turn, between, synchronise, clock):
        def arm(n):
            start = clock()
            for _ in range(n):
                between()
                turn[0]()
            return (clock() - start) * 1e-9

        return arm

    m.setattr(stopwatch, "_single_arm", arm_of)


def plant_flush_inside_the_events(m):
    real = device_clock.DeviceClock.arm

    def arm(self, name, turn, most):
        self.cold = False
        return real(self, name, [lambda f=f: (self.queue.flush(), f()) for f in turn], most)

    m.setattr(device_clock.DeviceClock, "arm", arm)


PLANTED = (
    (plant_sequential, honest_on_a_drifting_machine),
    (plant_median, honest_under_a_neighbour),
    (plant_no_sync, honest_about_the_launch),
    (plant_no_spin, honest_about_the_kernel),
    (plant_no_warm_up, honest_about_warm_up),
    (plant_cached_result, honest_work),
    (plant_copied_control, honest_control),
    (plant_microseconds, honest_units),
    (plant_clock_around_other_work, honest_about_other_work),
    (plant_flush_inside_the_events, honest_about_the_flush),
)


@pytest.mark.parametrize("plant, check", PLANTED, ids=lambda f: f.__name__)
def test_a_planted_fault_turns_its_check_red(plant, check, monkeypatch):
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        check()


# ---------------------------------------------------------------- lanes and traps


def test_the_price_of_a_graphs_node_is_the_slope_and_the_fixed_part_cancels():
    from utils.measure.lanes import node_price

    rng = random.Random(2)
    fixed, node = rng.uniform(3_000, 9_000), rng.uniform(800, 1_500)
    short = Reading("short", tuple(fixed + 100 * node + rng.uniform(0, 50) for _ in range(40)))
    long = Reading("long", tuple(fixed + 1000 * node + rng.uniform(0, 50) for _ in range(40)))
    assert node_price(short, 100, long, 1000).ns == pytest.approx(node, rel=0.001)
    assert long.ns / 1000 > node_price(short, 100, long, 1000).ns
    assert node_price(short, 100, replace(long, calls_per_block=2), 1000).calls_per_block == 1800
    with pytest.raises(ValueError, match="no slope"):
        node_price(short, 100, short, 100)


def test_lanes_without_cuda_say_so():
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    from utils.measure.lanes import lanes

    with pytest.raises(MeasurementError, match="no CUDA device here"):
        lanes("cuda")
