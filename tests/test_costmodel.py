"""The cost model: the texts' two worked figures, bounds between the three models, the simulated device op by op."""

from __future__ import annotations

import random

import pytest

from utils.measure.simulated import SimulatedDevice, VirtualClock
from utils.model import costmodel
from utils.model.costmodel import Op, Prices, Profile, captured, per_step, queue, total_device, total_host, total_max, total_sum


def step(seed: int, *, syncs: bool = True, views: bool = True) -> list[Op]:
    rng = random.Random(seed)
    return [
        Op(
            dispatch_us=rng.randint(0, 8),
            launch_us=rng.randint(0, 6),
            device_us=None if views and rng.random() < 0.15 else rng.choice([rng.randint(0, 4), rng.randint(5, 60)]),
            sync=syncs and rng.random() < 0.1,
        )
        for _ in range(rng.randint(1, 60))
    ]


# ------------------------------------------------------------------------------------------------ the texts' figures


def test_the_stock_profile_is_the_texts_first_figure():
    """Claim B31: 16e6 elements, 4 ops, bf16, 3.3 TB/s: (3 + 4·2) · 32 MB = 352 MB, 107 µs."""
    stock = Profile()
    assert stock.activation_bytes == 32e6 and stock.nbytes == (3 + 4 * 2) * 32e6 == 352e6
    assert stock.memory_us == pytest.approx(352e6 / 3.3e12 * 1e6) and round(stock.memory_us) == 107
    assert stock.launches == 5 and stock.bottleneck == "memory"


def test_the_small_regime_is_the_texts_second_figure():
    """Claim B32: (4 + 6) µs · 5 launches = 50 µs, whatever the size; so small that memory is 0.2 % of it."""
    small = Profile(small=True)
    assert small.launch_us == Profile().launch_us == 50.0 == (4 + 6) * 5
    assert small.memory_us == pytest.approx(Profile().memory_us / 1000) and small.memory_us < 0.003 * small.launch_us
    assert small.bottleneck == "launch"
    assert small.launches == Profile().launches, "the same list of ops (claim B51)"


@pytest.mark.parametrize("small", [False, True])
def test_each_switch_shrinks_its_own_bar(small):
    eager, graph, one, both = (Profile(small=small, capture=c, fuse=f) for c, f in ((0, 0), (1, 0), (0, 1), (1, 1)))
    assert graph.memory_us == eager.memory_us and graph.launch_us == eager.prices.launch_us == 6.0
    assert (graph.kernels, graph.launches) == (5, 1), "a graph launches once, and runs as many kernels"
    assert one.nbytes == 5 * one.activation_bytes and one.launch_us == 20.0 and one.launches == 2
    assert (both.launch_us, both.nbytes) == (graph.launch_us, one.nbytes)


def test_a_replay_has_its_own_price_where_one_is_given():
    assert Profile(capture=True, prices=Prices(replay_us=2.5)).launch_us == 2.5


@pytest.mark.parametrize("seed", range(10))
def test_a_profile_is_its_bars(seed):
    rng = random.Random(seed)
    prices = Prices(rng.uniform(1, 9), rng.uniform(1, 9), rng.uniform(100, 5000))
    here = Profile(rng.randint(1, 10**8), rng.randint(1, 64), rng.choice([1, 2, 4, 8]), prices, small=rng.random() < 0.5)
    assert here.nbytes == pytest.approx((3 + 2 * here.ops) * here.activation_bytes)
    totals = here.totals()
    assert totals["sum"] == pytest.approx(here.launch_us + here.memory_us)
    assert totals["max"] == pytest.approx(max(here.launch_us, here.memory_us))
    assert totals["max"] <= totals["queue"] * (1 + 1e-12) <= totals["sum"] * (1 + 1e-9)
    without = Profile(here.elements, here.ops, here.bytes_each, prices, here.small, matmul=False)
    assert without.launches == here.launches - 1 and without.nbytes == pytest.approx(2 * here.ops * here.activation_bytes)


def test_no_ops_are_one_matmul_and_nothing_at_all_is_refused():
    assert Profile(ops=0).launches == Profile(ops=0, fuse=True).launches == 1
    for wrong in ({"ops": 0, "matmul": False}, {"elements": 0}, {"ops": -1}, {"bytes_each": 0}):
        with pytest.raises(ValueError):
            Profile(**wrong)


# ------------------------------------------------------------------------------------------------ the queue


@pytest.mark.parametrize("seed", range(40))
def test_a_queue_lies_between_max_and_sum(seed):
    """A host waits only while a kernel runs, so no moment counts in neither; gaps and syncs come on top."""
    rng = random.Random(1000 + seed)
    ops, depth = step(seed), rng.choice([1, 2, 5, 1024])
    assert total_max(ops) <= queue(ops, depth=depth).wall_us <= total_sum(ops)
    gap, sync = rng.uniform(0, 3), rng.uniform(0, 9)
    played = queue(ops, depth=depth, gap_us=gap, sync_us=sync)
    allowed = gap * len(ops) + sync * sum(op.sync for op in ops)
    assert total_max(ops) <= played.wall_us <= total_sum(ops) + allowed + 1e-9


@pytest.mark.parametrize("seed", range(20))
def test_a_deeper_queue_is_never_slower_and_a_gap_never_faster(seed):
    ops = step(seed)
    walls = [queue(ops, depth=depth).wall_us for depth in (1, 2, 3, 8, 1024)]
    assert walls == sorted(walls, reverse=True)
    assert queue(ops, gap_us=0.0).wall_us <= queue(ops, gap_us=2.0).wall_us


@pytest.mark.parametrize("seed", range(20))
def test_where_nothing_overlaps_the_sum_is_exact(seed):
    ops = [Op(op.dispatch_us, op.launch_us, op.device_us, sync=True) for op in step(seed)]
    assert queue(ops).wall_us == total_sum(ops)
    launched = [Op(0, op.host_us, op.device_us or 0) for op in ops]
    assert queue(launched, depth=1).wall_us == total_sum(launched), "one place: each launch waits for the kernel before it"


@pytest.mark.parametrize("host, device, gap", [(10, 3, 0.5), (3, 10, 0.5), (7, 7, 0), (4, 0, 1)])
def test_a_deep_queue_with_equal_ops_has_a_closed_form(host, device, gap):
    n = random.randint(2, 200)
    wall = queue([Op(1, host - 1, device)] * n, gap_us=gap).wall_us
    assert wall == pytest.approx(n * host + device if host >= device else host + n * device + (n - 1) * gap)
    per = per_step([Op(1, host - 1, device)] * n, gap_us=gap)
    assert per == pytest.approx(n * host if host >= device + gap else n * (device + gap))


def test_a_shallow_queue_makes_the_host_wait_and_the_step_of_a_long_chain_no_longer():
    ops = [Op(1, 2, 10)] * 50
    deep, shallow = queue(ops), queue(ops, depth=4)
    assert deep.full_us == 0 < shallow.full_us and shallow.host_us > deep.host_us == 150
    assert deep.bound == shallow.bound == "device" and shallow.wall_us == deep.wall_us
    assert queue([Op(4, 6, 2)] * 50).bound == "host"


def test_a_queue_shorter_than_a_step_slows_every_step():
    """A long kernel and many short ones: with room for all, the host works ahead while the long one runs; with room for 5 it
    cannot, and most of the launches come after it, at the host's pace."""
    ops = [Op(0, 4, 100), *[Op(0, 4, 1)] * 20]
    assert per_step(ops) == pytest.approx(120)
    assert per_step(ops, depth=5) == pytest.approx(queue(ops * 40, depth=5).wall_us / 40, rel=0.02)
    assert per_step(ops, depth=5) > 160


def test_the_last_op_of_a_step_may_have_no_kernel_or_a_sync():
    assert per_step([Op(1, 1, 10), Op(1)]) == pytest.approx(10)
    assert per_step([Op(1, 1, 10), Op(1, 1, 3, sync=True)], sync_us=5.0) == pytest.approx(2 + 10 + 3 + 5)
    assert per_step([Op(3), Op(2)]) == pytest.approx(5)


def test_waiting_for_places_counts_as_waiting_for_the_device():
    played = queue([*[Op(1, 1, 50)] * 4, Op(30, 0, 1), Op(30, 0, 1)], depth=1)
    assert played.full_us > played.idle_us > played.wall_us - played.host_us and played.bound == "device"


def test_a_machine_plays_with_its_own_gap_depth_and_sync():
    ops = [Op(1, 1, 9), *[Op(1, 1, 5)] * 9, Op(1, 1, 2, sync=True)]
    for changed in ({"gap_us": 1.5}, {"depth": 2}, {"sync_us": 4.0}):
        assert Prices(**changed).play(ops) == queue(ops, **changed) != queue(ops)


def test_an_op_takes_its_bytes_or_the_time_that_is_given():
    prices = Prices(3, 2, gbps=1_000, start_us=1.5)
    assert prices.op(4e6, "add", sync=True) == Op(3, 2, 5.5, True, "add")
    assert prices.op(4e6, device_us=80.0).device_us == 80.0


def test_a_sync_in_the_middle_costs_what_had_been_hidden():
    chain = [Op(4, 6, 9)] * 40
    every = [Op(4, 6, 9, sync=True)] * 40
    assert queue(chain).wall_us == 40 * 10 + 9 and queue(every).wall_us == 40 * 19
    assert queue(every, sync_us=5.0).sync_us == pytest.approx(40 * (9 + 5))


def test_views_cost_the_host_alone():
    played = queue([Op(1, 2, 5), Op(3, 0, None), Op(1, 2, 5)])
    assert [slot.started for slot in played.slots] == [3, None, 9] and played.slots[1].ended is None
    assert total_host([Op(3)]) == 3 and total_device([Op(3)]) == 0 and played.idle_us == 1


@pytest.mark.parametrize("seed", range(40))
def test_the_simulated_device_agrees_op_by_op(seed):
    """The same rules twice, written apart: each launch returns and each kernel ends at the same moment, on virtual time."""
    rng = random.Random(2000 + seed)
    depth, gap, sync, launch = rng.choice([1, 2, 3, 7, 1024]), rng.randint(0, 3), rng.randint(0, 9), rng.randint(0, 6)
    ops = [Op(op.dispatch_us, launch if op.device_us is not None else 0, op.device_us, op.sync) for op in step(seed)]
    clock = VirtualClock()
    device = SimulatedDevice(launch_us=launch, depth=depth, sync_us=sync, gap_us=gap, clock=clock)
    played = queue(ops, depth=depth, gap_us=gap, sync_us=sync)
    for slot in played.slots:
        assert device.clock() == slot.begun * 1e3
        clock.spend(slot.op.dispatch_us * 1e3)
        if slot.op.device_us is not None:
            device.launch(slot.op.device_us)
            assert device.busy_until == slot.ended * 1e3
        assert device.clock() == slot.issued * 1e3
        if slot.op.sync:
            device.synchronize()
    assert max(device.clock(), device.busy_until) == played.wall_us * 1e3 and device.clock() == played.host_us * 1e3


def test_nothing_takes_no_time():
    assert queue([]).wall_us == total_sum([]) == total_max([]) == 0 == per_step([])


def test_what_cannot_be_is_refused():
    for wrong in ({"depth": 0}, {"gap_us": -1}, {"sync_us": -1}):
        with pytest.raises(ValueError):
            queue([Op(1)], **wrong)
    with pytest.raises(ValueError):
        Op(-1.0)
    with pytest.raises(ValueError):
        Prices(gbps=0)
    with pytest.raises(ValueError):
        per_step([Op(1)], steps=0)
    with pytest.raises(ValueError):
        per_step([Op(1)], warm=0)
    with pytest.raises(ValueError, match="captured"):
        captured([Op(1, 1, 1, sync=True), Op(1, 1, 1)], 3.0)


def test_a_captured_step_keeps_its_last_sync_and_drops_what_has_no_kernel():
    ops = captured([Op(4, 6, 3), Op(2), Op(4, 6, 5, sync=True)], 7.0)
    assert [op.host_us for op in ops] == [7.0, 0.0] and [op.sync for op in ops] == [False, True]
    assert queue(ops, gap_us=0.5).wall_us == 7.0 + 3 + 0.5 + 5


# ------------------------------------------------------------------------------------------------ break-even


@pytest.mark.parametrize("seed", range(10))
def test_at_break_even_both_sides_take_equally_long(seed):
    rng = random.Random(seed)
    prices = Prices(rng.uniform(2, 9), rng.uniform(2, 9), rng.uniform(100, 5000), rng.uniform(0, 2), rng.uniform(0, 1))
    elements = costmodel.break_even_elements(prices, 12)
    at = prices.op(elements * 12)
    assert at.device_us + prices.gap_us == pytest.approx(prices.host_us)
    below, above = (per_step([prices.op(elements * 12 * f)] * 16, gap_us=prices.gap_us) / 16 for f in (0.5, 2.0))
    assert below == pytest.approx(prices.host_us) and above > prices.host_us * 1.2


def test_a_fast_host_has_no_break_even_and_an_element_has_bytes():
    assert costmodel.break_even_bytes(Prices(1, 0, start_us=2)) == 0.0
    assert costmodel.break_even_elements(Prices(), 12) == pytest.approx(2.75e6), "by the texts' prices, an fp32 add"
    with pytest.raises(ValueError):
        costmodel.break_even_elements(Prices(), 0)
