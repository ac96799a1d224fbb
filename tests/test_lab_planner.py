"""Lab 9's world: recorded traces agree with torch today, traps are what they say, rounds are counted, cheats earn nothing."""

from __future__ import annotations

import statistics
import sys
import threading
from functools import partial

import pytest

from grading import course
from tests.lab_answers import LIAR, answered
from utils.labs import cells, planner
from utils.labs.planner import Asked, NotYours, TooManyRounds, ask, judged, rounds, tried
from utils.model import memory_plan
from utils.model.memory_plan import Buffer

LAB = "lab09_memory_planner"


def earned(**answers: str) -> dict[str, float]:
    """Points of each test, with these sources in the answers' cells."""
    return {score.id: score.points for score in answered(LAB, answers) if score.id != "written_answer"}


# ------------------------------------------------------------------------------------------------ traces


def test_recorded_traces_are_consistent_and_planned_within_ten_percent():
    traces = planner.recorded()
    assert len(traces) == 4
    for trace in traces.values():
        makes = [e for e in trace.events if e.what != "drop"]
        assert {e.tensor for e in trace.events} == {e.tensor for e in makes} and len(makes) == len({e.tensor for e in makes})
        assert (
            memory_plan.by_size(trace.buffers).size
            <= 1.1 * memory_plan.peak(trace.buffers)
            < 1.1 * memory_plan.total(trace.buffers)
        )
    assert any(len(t.buffers) < len([e for e in t.events if e.what != "drop"]) for t in traces.values()), "there are views"
    assert any(len({e.storage for e in t.events}) < len(t.buffers) for t in traces.values()), "addresses come again"


def test_what_is_recorded_now_is_what_the_solution_reads():
    """A program of today's torch: its events give the lives that torch's own references to storages told."""
    import torch

    from utils.measure.storage_events import watched

    kept = torch.randn(8, 8)

    def program():
        a = kept @ kept
        b = a.t()
        del a
        c = b[:2].relu()
        empty = kept[:0] + 1
        c.add_(1)
        return (c * 2, empty)

    seen = watched(program)
    events = [planner.Event(*event) for event in seen.events]
    namespace: dict = {}
    for cell in cells.known(cells.read(course.source(LAB))):
        if cell.id in ("imports", "lifetimes"):
            exec(compile(cell.source, cell.id, "exec"), namespace)  # noqa: S102
    got = namespace["lifetimes"](events)
    assert [[b.size, b.start, b.end] for b in got] == [[n, s, len(events) if e < 0 else e] for n, s, e in seen.lives]
    assert [b.size for b in got] == [256, 256, 64, 0, 64], "the input, the product, relu's result, nothing, the output"


def test_the_profiler_sees_the_same_memory():
    """Another witness: what the allocator handed out while the same ops ran, by size, and the most that lived at once."""
    import torch

    from utils.measure import alloc_trace
    from utils.measure.storage_events import watched

    x = torch.randn(64, 64)

    def program():
        y = x
        for _ in range(4):
            z = y * 2
            y = z.t() + x
        return y

    program()
    try:
        seen = alloc_trace.trace(program).at_least(1_024)
    except alloc_trace.MeasurementError as error:
        pytest.skip(str(error))
    made = [Buffer(n, *life) for n, life in enumerate(_made(watched(program)))]
    assert sorted(b.size for b in seen.blocks) == sorted(b.size for b in made) == [64 * 64 * 4] * 8
    assert seen.peak == memory_plan.peak(made)


def _made(seen) -> list[tuple[int, int, int]]:
    """The lives of what the program made, inputs left out."""
    end = len(seen.events)
    return [(n, s, end if e < 0 else e) for n, s, e in seen.lives if seen.events[s][0] == "make"]


def test_drawn_events_hold_all_that_a_trace_can_hold():
    events = [event for seed in range(6) for event in planner.random_events(seed, 120)]
    assert {event.what for event in events} == {"make", "input", "drop"}
    assert {"view", "add_", "empty"} <= {event.op for event in events} and any(not e.storage for e in events)


def test_a_trap_defeats_largest_first_and_has_a_plan_as_small_as_its_peak():
    for seed in (7, 22, 23, 34, 53):
        trap, smallest = planner.full_arena(seed, 12)
        assert memory_plan.peak(trap) == smallest and memory_plan.by_size(trap).size > 1.25 * smallest
        assert memory_plan.best_of(trap).size == smallest, "some order finds it"
    for name, units in {"eight": 5, "nine": 6, "uneven": 7}.items():
        assert memory_plan.optimum(planner.beyond(name)).size == units * 64 == memory_plan.peak(planner.beyond(name)) + 64


@pytest.mark.parametrize("seeds", ["e", "h"])
def test_ten_percent_tells_largest_first_from_an_allocator(seeds):
    """With room on both sides, whatever breaks a tie: largest first stays below 1.05, an allocator's order above 1.13."""
    over: dict[str, list[float]] = {}
    for seed in range(12):
        drawn = planner.random_buffers(f"{seeds} {seed}", 100, alive=12)
        for name in ("by size", "first fit", "best fit"):
            over.setdefault(name, []).append(memory_plan.PLANNERS[name](drawn).size / memory_plan.peak(drawn))
    means = {name: statistics.mean(found) for name, found in over.items()}
    assert means["by size"] < 1.05 and min(means["first fit"], means["best fit"]) > 1.13, means


def test_a_trace_is_its_names():
    assert planner.random_buffers("ada", 9) == planner.random_buffers("ada", 9) != planner.random_buffers("grace", 9)


# ------------------------------------------------------------------------------------------------ judging


def test_what_is_no_plan_is_told_in_words():
    two = [Buffer(0, 64, 0, 5), Buffer(1, 64, 0, 5)]
    assert judged(two, {0: 0, 1: 64}) == Asked("", 128)
    for answer, words in (
        ([0, 64], "is a list"),
        ({0: 0, 1: 64.0}, "type float"),
        ({0: 0}, "no offset"),
        ({0: 0, 1: 0}, "share bytes"),
    ):
        assert words in judged(two, answer).fault


def test_a_planner_that_shrinks_its_buffers_is_judged_by_the_true_ones():
    def shrinks(buffers, align):
        for b in buffers:
            object.__setattr__(b, "size", 0)
        return {b.id: 0 for b in buffers}

    assert "share bytes" in ask(shrinks, [Buffer(0, 64, 0, 5), Buffer(1, 64, 0, 5)]).fault


def test_rounds_grow_with_loops_calls_and_comprehensions_and_stop_at_a_limit():
    def loop(n):
        for _ in range(n):
            pass

    kinds = (
        loop,
        lambda n: [x for x in range(n)],
        lambda n: sum(x for x in range(n)),
        lambda n: sorted(range(n), key=lambda x: -x),
    )
    for work in kinds:
        few, many = rounds(partial(work, 100)), rounds(partial(work, 1_000))
        assert many - few >= 900
    with pytest.raises(TooManyRounds):
        rounds(lambda: loop(10_000), most=500)

    def elsewhere():
        worker = threading.Thread(target=loop, args=(1_000,))
        worker.start()
        worker.join()

    assert rounds(elsewhere) > 1_000, "a thread's lines count as well"
    with pytest.raises(AssertionError, match="turned off"):
        rounds(lambda: sys.settrace(None))


def test_rounds_leave_a_tracer_as_it_was():
    before = sys.gettrace(), threading.gettrace()
    rounds(lambda: 1)
    assert (sys.gettrace(), threading.gettrace()) == before


def test_a_search_is_counted_and_gives_orders_of_all():
    two = [Buffer(0, 64, 0, 1), Buffer(1, 64, 0, 1)]
    got = tried(lambda buffers, bound, in_order, budget: (in_order(buffers[::-1]).offsets, True), two, 128, 5)
    assert (got.fault, got.size, got.proven, got.plans) == ("", 128, True, 1)
    with pytest.raises(ValueError, match="each buffer"):
        tried(lambda buffers, bound, in_order, budget: in_order(buffers[:1]), two, 128, 5)
    assert "returns (offsets, proven)" in tried(lambda *given: {}, two, 128, 5).fault


def test_the_courses_planners_refuse_while_an_answer_is_judged():
    two = [Buffer(0, 64, 0, 1), Buffer(1, 64, 0, 1)]
    for cheat in (memory_plan.by_size, memory_plan.best_of, memory_plan.optimum):
        with pytest.raises(NotYours):
            ask(lambda buffers, align, cheat=cheat: cheat(buffers, align).offsets, two)
        with pytest.raises(NotYours):
            tried(lambda buffers, bound, in_order, budget, cheat=cheat: (cheat(buffers).offsets, True), two, 128, 5)
    assert memory_plan.by_size(two).size == 128, "and work again afterwards"


def test_a_sketch_shows_who_lies_where_and_where_two_do():
    two = [Buffer(0, 64, 0, 2), Buffer(1, 64, 1, 3)]
    assert planner.sketch(two, {0: 0, 1: 64}, width=3, height=2).splitlines()[1:3] == [".bb", "aa."]
    assert "#" in planner.sketch(two, {0: 0, 1: 0}, width=3, height=2)
    assert planner.sketch([], {}) == "(no bytes)"


# ------------------------------------------------------------------------------------------------ cheats


def test_an_object_that_says_yes_earns_nothing():
    names = ("lifetimes", "sum_and_peak", "clashes", "place", "search", "recompute", "cheapest", "receipt")
    stubs = {name: LIAR + f"\n{name} = Liar()\n" for name in names if name != "cheapest"}
    stubs["recompute"] += "cheapest = Liar()\n"
    assert sum(earned(**stubs).values()) == 0


def test_a_constant_earns_nothing():
    for value in ("[]", "(0, 0)", "({}, True)"):
        names = ("lifetimes", "sum_and_peak", "clashes", "place", "search", "recompute", "receipt")
        stubs = {name: f"def {name}(*a):\n    return {value}\n" for name in names}
        stubs["recompute"] += f"def cheapest(*a):\n    return {value}\n"
        assert sum(earned(**stubs).values()) == 0, value


def test_a_planner_may_compare_by_numpy():
    """All pairs in compiled code are few rounds of Python: such a planner earns what the solution does."""
    source = """
def place(buffers, align):
    import numpy as np
    order = sorted(buffers, key=lambda b: (-b.size, b.start - b.end))
    rows = np.zeros((4, len(order)), dtype=np.int64)
    offsets = {}
    for n, b in enumerate(order):
        size = -(-b.size // align) * align
        meets = np.flatnonzero((rows[0, :n] < b.end) & (rows[1, :n] > b.start) & (rows[3, :n] > rows[2, :n]))
        free, best, room = 0, None, None
        for low, top in sorted(zip(rows[2, meets].tolist(), rows[3, meets].tolist())):
            if size <= low - free and (best is None or low - free < room):
                best, room = free, low - free
            free = max(free, top)
        offsets[b.id] = (free if best is None else best) if size else 0
        rows[:, n] = b.start, b.end, offsets[b.id], offsets[b.id] + size
    return offsets
"""
    points = earned(place=source)
    assert all(points[name] for name in points if name.startswith("plan_")), points
