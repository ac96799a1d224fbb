"""Lab 1's world: what its tests plant is there, and is there in the same way each time."""

from __future__ import annotations

import random

import pytest

from utils.labs.stopwatch import Cache, Machine, RealMachine, Track

RNG = random.Random(11)


def test_a_runner_tells_the_price_of_the_longer_lane():
    kernel = RNG.uniform(100, 900)
    run = Machine(launch_us=5.0, sync_us=0.0).runner(kernel)
    assert run(100) / 100 == pytest.approx(kernel * 1e3, rel=0.01)
    launch = RNG.uniform(4, 9)
    run = Machine(launch_us=launch, sync_us=0.0).runner(launch / 2)
    assert run(1000) / 1000 == pytest.approx(launch * 1e3, rel=0.01)


def test_the_first_call_and_the_clock_cost_what_was_said():
    first = RNG.uniform(1_000, 9_000)
    run = Machine(sync_us=0.0).runner(10.0, first_us=first)
    assert run(1) - run(1) == pytest.approx(first * 1e3, abs=5)
    machine = Machine(reading_ns=120)
    assert machine.now() - machine.now() == -120


def test_a_call_notes_what_still_waited():
    machine = Machine()
    for _ in range(3):
        machine.device.launch(1_000.0)
    call = machine.call(1.0)
    call()
    machine.synchronize()
    call()
    assert call.depths == [3, 0]


def test_a_runner_refuses_no_calls_and_endless_counting():
    run = Machine().runner(1.0)
    for wrong in (0, -1, 1.0, True, None):
        with pytest.raises(ValueError, match="at least one call"):
            run(wrong)
    with pytest.raises(RuntimeError, match="grow n faster"):
        for n in range(1, 1_000):
            run(n)


def test_a_track_repeats_and_plants_its_weather():
    def ran(seed):
        track = Track({"a": 100.0, "b": 200.0}, seed, drift=0.01, after={"b": 0.5}, noise=0.2)
        return [track.arms[name]() for name in ("a", "b", "a", "a")], track

    (first, track), (again, _), (other, _) = ran(1), ran(1), ran(2)
    assert first == again != other
    assert track.ran == ["a", "b", "a", "a"] and track.told == {"a": [first[0], first[2], first[3]], "b": [first[1]]}
    still = Track({"a": 100.0, "b": 200.0}, 3, drift=0.1, after={"b": 0.5})
    assert [still.arms[n]() for n in ("a", "b", "a", "a")] == pytest.approx([100, 220, 170, 130])


def test_noise_only_adds():
    track = Track({"a": 100.0}, RNG.randrange(1000), noise=0.3)
    assert min(track.arms["a"]() for _ in range(200)) >= 100.0


def test_a_cache_keeps_what_fits_and_drops_what_was_used_longest_ago():
    k = RNG.randint(2, 20)
    cache = Cache(buffer_bytes=100, cache_bytes=100 * k)
    for _ in range(5):
        for buffer in range(k):
            cache.use(buffer)
    assert cache.from_memory == pytest.approx(1 / 5)
    cache = Cache(buffer_bytes=100, cache_bytes=100 * k)
    for _ in range(5):
        for buffer in range(k + 1):
            cache.use(buffer)
    assert cache.from_memory == 1.0
    assert cache.use(3) != cache.use(3)


def test_the_real_machine_adds():
    real = RealMachine(64)
    before = real.now()
    made = real.add()
    real.synchronize()
    assert real.now() > before
    assert made.equal(real.add_into()) and made.abs().sum() > 0
