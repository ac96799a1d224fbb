"""Memory plans: the sum, the peak, the smallest arena there is, planners on drawn traces, errors with the names of two."""

from __future__ import annotations

import itertools
import random

import pytest

from utils.model import memory_plan
from utils.model.memory_plan import PLANNERS, BadPlan, Buffer, optimum, overlap, peak, profile, total, validate


def drawn(seed: int, n: int, moments: int = 12, largest: int = 9) -> list[Buffer]:
    rng = random.Random(seed)
    return [Buffer(i, rng.randint(0, largest), s := rng.randrange(moments), s + rng.randint(1, 6)) for i in range(n)]


def painted(buffers, offsets, align) -> set:
    """Every (moment, byte) that two buffers have."""
    seen, twice = set(), set()
    for b in buffers:
        mine = set(itertools.product(range(b.start, b.end), range(offsets[b.id], offsets[b.id] + -(-b.size // align) * align)))
        twice |= seen & mine
        seen |= mine
    return twice


# ------------------------------------------------------------------------------------------------ buffers


def test_a_buffer_lives_at_some_moment_and_has_no_negative_size():
    for wrong in ((-1, 0, 1), (5, 3, 3), (5, 4, 2)):
        with pytest.raises(ValueError, match="buffer 'x'"):
            Buffer("x", *wrong)
    assert Buffer(0, 1, 0, 5).meets(Buffer(1, 1, 4, 9)) and not Buffer(0, 1, 0, 5).meets(Buffer(1, 1, 5, 9))


@pytest.mark.parametrize("seed", range(6))
def test_sum_profile_and_peak_are_what_counting_every_moment_gives(seed):
    buffers, align = drawn(seed, 20), random.Random(seed).choice([1, 4])
    sizes = {b.id: -(-b.size // align) * align for b in buffers}
    live = [sum(sizes[b.id] for b in buffers if b.start <= moment < b.end) for moment in range(20)]
    assert total(buffers, align) == sum(sizes.values())
    assert peak(buffers, align) == max(live)
    steps = dict(profile(buffers, align))
    now = 0
    for moment in range(20):
        now = steps.get(moment, now)
        assert now == live[moment]


def test_without_bytes_there_is_no_peak():
    assert peak([]) == 0 and peak([Buffer(0, 0, 0, 5)]) == 0


# ------------------------------------------------------------------------------------------------ planners


@pytest.mark.parametrize("name", PLANNERS)
def test_every_planner_gives_a_plan_between_peak_and_sum(name):
    for seed, align in itertools.product(range(8), (1, 4)):
        buffers = drawn(seed, 25)
        before = list(buffers)
        plan = PLANNERS[name](buffers, align)
        assert not painted(buffers, plan.offsets, align)
        assert validate(buffers, plan.offsets, align) == plan.size and plan.planner == name
        assert peak(buffers, align) <= plan.size <= total(buffers, align)
        assert buffers == before, "the caller's list stays as it is"
        assert all(offset % align == 0 for offset in plan.offsets.values())
    assert PLANNERS[name]([]).size == 0


def test_two_buffers_of_one_name_are_refused():
    with pytest.raises(ValueError, match="two buffers have the id 7"):
        memory_plan.by_size([Buffer(7, 1, 0, 1), Buffer(7, 1, 3, 4)])


def test_the_smallest_gap_is_taken_and_not_the_first():
    """Below, a gap of 4; above it, one of 2: what needs 2 goes into the gap of 2, so that 4 stays free for what needs 4."""
    frame = [
        Buffer("floor", 10, 0, 2),
        Buffer("low", 4, 1, 2),
        Buffer("mid", 9, 0, 9),
        Buffer("high", 2, 1, 2),
        Buffer("top", 8, 0, 9),
    ]
    plan = memory_plan.by_size(frame, 1)
    assert validate(frame, plan.offsets, 1) == peak(frame, 1) == 33
    taken = [(0, 1), (5, 6), (8, 9)]  # gaps of 4 and of 2
    gaps = memory_plan._gaps(taken)
    assert memory_plan._tightest(gaps, 2) == 6 and memory_plan._lowest(memory_plan._gaps(taken), 2) == 1
    assert memory_plan._tightest(memory_plan._gaps(taken), 5) == 9, "none holds it: behind the last"


@pytest.mark.parametrize("seed", range(10))
def test_the_optimum_is_what_all_orders_give(seed):
    buffers = drawn(seed, 6, moments=6)
    best = min(memory_plan.in_order(order, 1).size for order in itertools.permutations(buffers))
    plan = optimum(buffers, 1)
    assert plan.size == best == validate(buffers, plan.offsets, 1)


def test_some_traces_have_no_plan_as_small_as_the_peak():
    """Eight buffers, never more than 4 units alive, and no order of them gives less than 5: proven by the exhaustive search."""
    rows = [(2, 0, 1), (2, 0, 2), (1, 1, 3), (1, 2, 3), (1, 1, 4), (1, 2, 4), (2, 3, 5), (2, 4, 5)]
    buffers = [Buffer(i, *row) for i, row in enumerate(rows)]
    assert peak(buffers, 1) == 4 and optimum(buffers, 1).size == 5


def test_a_search_without_end_says_so():
    rows = [(2, 0, 1), (2, 0, 2), (1, 1, 3), (1, 2, 3), (1, 1, 4), (1, 2, 4), (2, 3, 5), (2, 4, 5)]
    with pytest.raises(RuntimeError, match="8 buffers within 5 steps"):
        optimum([Buffer(i, *row) for i, row in enumerate(rows)], 1, most=5)


# ------------------------------------------------------------------------------------------------ wrong plans


def test_a_wrong_plan_is_refused_with_the_names_of_the_two():
    a, b = Buffer("a", 100, 0, 5), Buffer("b", 50, 4, 9)
    said = r"'a' \(bytes 0 to 128, moments 0 to 5\) and 'b' \(bytes 64 to 128, moments 4 to 9\) share bytes from 64 on"
    with pytest.raises(BadPlan, match=said):
        validate([a, b], {"a": 0, "b": 64})
    assert validate([a, b], {"a": 0, "b": 128}) == 192
    for offsets, words in (
        ({"a": 0}, "'b' has no offset"),
        ({"a": 0, "b": 100}, "lies at 100, which is no multiple of 64"),
        ({"a": 0, "b": -64}, "offset -64"),
        ({"a": 0, "b": 128.0}, "offset 128.0"),
        ({"a": 0, "b": True}, "offset True"),
        ({"a": 0, "b": 128, "c": 0}, "places 'c', which is no buffer"),
    ):
        with pytest.raises(BadPlan, match=words):
            validate([a, b], offsets)
    with pytest.raises(BadPlan, match="'b' ends at 192, past the arena's 150 bytes"):
        validate([a, b], {"a": 0, "b": 128}, size=150)


def test_the_sweep_finds_an_overlap_exactly_where_painting_does():
    found = 0
    for seed in range(300):
        rng = random.Random(seed)
        buffers = drawn(seed, 7, moments=8, largest=4)
        offsets = {b.id: rng.randrange(14) for b in buffers}
        pair = overlap(buffers, offsets, 1)
        assert bool(painted(buffers, offsets, 1)) == (pair is not None)
        if pair:
            found += 1
            assert painted(pair, offsets, 1)
    assert 50 < found < 290, "both cases were met"
