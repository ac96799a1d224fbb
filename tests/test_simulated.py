"""The simulated asynchronous device: the order of events is a real queue's, on real and on virtual time."""

from __future__ import annotations

import random
import time

import pytest

from utils.measure.simulated import SimulatedDevice, VirtualClock, WallClock


def virtual(**changes) -> SimulatedDevice:
    return SimulatedDevice(clock=VirtualClock(), **changes)


def test_a_launch_returns_after_the_launch_price_and_the_kernel_runs_later():
    kernel = random.uniform(100, 900)
    dev = virtual(launch_us=5)
    dev.launch(kernel)
    assert dev.clock() == 5_000
    assert dev.queue_depth() == 1
    dev.synchronize()
    assert dev.clock() == pytest.approx((5 + kernel + dev.sync_us) * 1e3, abs=2)
    assert dev.queue_depth() == 0


def test_kernels_run_one_after_the_other_with_the_gap_between_them():
    dev = virtual(launch_us=1, gap_us=2, sync_us=0)
    kernels = [random.uniform(50, 200) for _ in range(20)]
    for k in kernels:
        dev.launch(k)
    dev.synchronize()
    assert dev.clock() == pytest.approx((1 + sum(kernels) + 2 * 19) * 1e3, abs=30)


def test_a_slow_host_leaves_gaps_that_no_kernel_fills():
    dev = virtual(launch_us=10, sync_us=0)
    for _ in range(50):
        dev.launch(3)
    dev.synchronize()
    assert dev.clock() == 50 * 10_000 + 3_000


def test_a_full_queue_makes_the_launch_wait_for_the_oldest_kernel():
    depth = random.randint(3, 30)
    dev = virtual(launch_us=1, depth=depth)
    for _ in range(depth):
        dev.launch(1000)
    assert dev.clock() == depth * 1_000
    dev.launch(1000)  # must wait until the first kernel has ended, at 1 µs + 1,000 µs
    assert dev.clock() == 1_001_000 + 1_000
    assert dev.queue_depth() == depth


def test_item_waits_for_the_queue_and_brings_the_last_value():
    dev = virtual(launch_us=1, sync_us=3, copy_us=4)
    value = random.random()
    dev.launch(100)
    dev.launch(100, value=value)
    assert dev.item() == value
    assert dev.clock() == 1_000 + 200_000 + 7_000
    assert (dev.launches, dev.syncs) == (2, 1)


def test_an_event_marks_when_the_work_before_it_is_done():
    dev = virtual(launch_us=1, mhz=500)
    before, after = dev.event(), dev.event()
    dev.spin(50_000)  # 100 µs at 500 MHz
    before.record()
    dev.launch(30)
    after.record()
    assert not after.query()
    dev.synchronize()
    assert after.query()
    assert before.elapsed_ms(after) == pytest.approx(0.030)


def test_events_and_prices_that_make_no_sense_are_refused():
    dev = virtual()
    with pytest.raises(ValueError, match="recorded"):
        dev.event().elapsed_ms(dev.event())
    with pytest.raises(ValueError, match="cannot take -1"):
        dev.launch(-1)
    with pytest.raises(ValueError, match="at least one kernel"):
        SimulatedDevice(depth=0)
    with pytest.raises(ValueError, match="backwards"):
        VirtualClock().spend(-5)


def test_two_virtual_runs_are_equal_to_the_nanosecond():
    def run(seed: int) -> int:
        rng, dev = random.Random(seed), virtual(depth=8)
        for _ in range(200):
            dev.launch(rng.uniform(1, 20))
            if rng.random() < 0.05:
                dev.item()
        dev.synchronize()
        return dev.clock()

    assert run(1) == run(1) != run(2)


def test_on_the_wall_clock_the_kernels_really_take_their_time():
    dev = SimulatedDevice(launch_us=20, clock=WallClock())
    start = time.perf_counter()
    for _ in range(5):
        dev.launch(4_000)
    issued = time.perf_counter() - start
    dev.synchronize()
    took = time.perf_counter() - start
    assert took >= 0.020  # five kernels of 4 ms, whatever the load of this machine
    assert issued < took
