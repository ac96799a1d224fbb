"""Lab 6's world: the same for the same name, a story that holds for every name, peers that agree, nothing for a constant."""

from __future__ import annotations

import ast
import copy
import statistics

import pytest

from grading import course, fast
from grading.rebuild import rebuilt
from grading.score import total
from tests.lab_answers import solved
from utils.labs import cells, cost_model
from utils.labs.cost_model import CASES, KINDS, Prices, bench, on_the_device, priced, random_ops
from utils.model import costmodel

LAB = "lab06_cost_model"
NAMES = [f"reader {i}" for i in range(12)]
HOST_BOUND = ("small ops", "large ones, then small ones")


def solution() -> dict:
    return solved(LAB)


def fitted(who: str) -> Prices:
    here = bench(who)
    return solution()["fit"](here.chains, solution()["line"], here.small, here.large)


def errors(here, prices: Prices) -> dict[str, dict[str, float]]:
    """The median signed error of each model for each kind."""
    found: dict = {}
    for case in here.cases:
        ops = priced(case.works, prices)
        said = {
            "sum": solution()["by_sum"](ops),
            "max": solution()["by_max"](ops),
            "queue": solution()["by_queue"](ops, 0.0, here.depth)[-1][2],
        }
        for model, us in said.items():
            found.setdefault(model, {}).setdefault(case.kind, []).append(us / case.wall_us - 1)
    return {model: {kind: statistics.median(off) for kind, off in kinds.items()} for model, kinds in found.items()}


# ------------------------------------------------------------------------------------------------ a machine for every name


def test_the_same_name_gives_the_same_machine_and_another_name_another():
    bench.cache_clear()
    ada = bench("Ada")
    bench.cache_clear()
    assert bench("Ada") == ada == bench("  ada ") != bench("Grace")
    assert ada.label.startswith("SIMULATED") and len({bench(name).label for name in NAMES[:8]}) > 2


def test_every_program_is_timed_three_times_and_cases_come_in_all_kinds():
    here = bench("Ada")
    programs = [(c.ops, c.nbytes) for c in here.chains]
    assert {programs.count(program) for program in programs} <= {3, 6} and len(set(programs)) > 20
    assert [case.kind for case in here.cases] == [kind for kind in KINDS for _ in range(CASES)]
    assert any(here.small < c.nbytes < here.large for c in here.chains), "chains around break-even are there, to be left out"
    assert any(c.nbytes == here.small for c in here.chains) is False and any(c.nbytes == here.large for c in here.chains)
    assert here.depth < max(len(case.works) for case in here.cases), "some case meets a full queue"


@pytest.mark.parametrize("who", NAMES)
def test_the_lab_tells_the_same_story_to_every_name(who):
    """The queue holds everywhere; the maximum fails where order, syncs or a full queue matter; the sum where things overlap."""
    prices = fitted(who)
    assert 5 < prices.host_us < 11.5 and 0.8 < prices.floor_us < 4.5 and 400 < prices.gbps < 8000
    off = errors(bench(who), prices)
    assert all(abs(error) < 0.10 for error in off["queue"].values()), off["queue"]
    assert abs(statistics.median(off["queue"].values())) < 0.04
    for kind in ("small ones, then large ones", "a read-back after every 4th", "a huge one, then more than the queue holds"):
        assert off["max"][kind] < -0.10, kind
    assert all(abs(off["max"][kind]) < 0.10 for kind in (*HOST_BOUND, "large ops", "around break-even"))
    assert off["sum"]["around break-even"] > 0.5 and off["sum"]["small ones, then large ones"] > 0.1


@pytest.mark.parametrize("who", NAMES)
def test_some_hours_later_only_what_the_host_bounds_is_off(who):
    """What the written answer is about, and what its card says in words."""
    prices, later = fitted(who), bench(who, later=True)
    off = errors(later, prices)
    for kind in HOST_BOUND:
        assert -0.32 < off["queue"][kind] < -0.16 and -0.32 < off["max"][kind] < -0.16
    assert abs(off["queue"]["large ops"]) < 0.03 and abs(off["sum"]["small ops"]) < 0.15 < off["sum"]["around break-even"]
    assert [case.works for case in later.cases] == [case.works for case in bench(who).cases], "the same programs"
    assert (later.large, later.depth, later.replay_us) == (bench(who).large, bench(who).depth, bench(who).replay_us)


# ------------------------------------------------------------------------------------------------ peers and random ops


@pytest.mark.parametrize("seed", range(20))
def test_the_device_the_model_and_the_solution_agree(seed):
    ops, gap, depth = random_ops(seed, syncs=seed % 2 == 1), float(seed % 4), (1, 2, 5, 100)[seed % 4]
    played = costmodel.queue([costmodel.Op(0.0, o.host_us, o.device_us, o.sync) for o in ops], depth=depth, gap_us=gap)
    times = [(slot.issued, slot.started, slot.ended) for slot in played.slots]
    assert on_the_device(ops, gap, depth) == times == solution()["by_queue"](ops, gap, depth)


def test_random_ops_meet_both_sides_of_every_rule():
    """Hidden tests on ops of which none ever waits, or each, would prove nothing."""
    both = 0
    for seed in range(40):
        times = on_the_device(random_ops(seed), 0.0, 100)
        waited = [issued < started for issued, started, _ in times]
        both += any(waited) and not all(waited[1:])
        assert any(waited) and on_the_device(random_ops(seed), 0.0, 2) != times, "a short queue fills"
    assert both > 30
    assert any(op.sync for seed in range(8) for op in random_ops(seed, syncs=True))
    assert len(random_ops(1, many=7)) == 7 and random_ops(1) == random_ops(1) != random_ops(2)


def test_prices_are_put_on_bytes():
    (op,) = priced([cost_model.Work(3_000_000, sync=True)], Prices(8.0, 2.0, 1_000.0))
    assert (op.host_us, op.device_us, op.sync) == (8.0, 5.0, True)


# ------------------------------------------------------------------------------------------------ the notebook


def test_no_test_calls_another_exercises_function():
    source, mine, names = cells.known(cells.read(course.source(LAB))), set(), {}
    for cell in source:
        if cell.solution and not cell.by_hand:
            mine = {node.name for node in ast.parse(cell.source).body if isinstance(node, ast.FunctionDef)}
            names[cell.id] = mine
        elif cell.test:
            others = set().union(*names.values()) - mine
            read = {node.id for node in ast.walk(ast.parse(cell.source)) if isinstance(node, ast.Name)}
            assert not read & others and read & mine, (cell.id, read & others)


CONSTANTS = [
    "0.0", "1", "None", "True", "[]", "{}", "()", "''", "[0.0, 0.0]", "(0.0, 0.0)", "(0.1, 0.1)", "([], [])", "63.0", "43.0",
    "[(10.0, 10.0, 35.0)] * 3", "{'launches': 5, 'bytes': 352e6, 'launch_us': 50.0, 'memory_us': 352 / 3.3}", "['fuse']",
    "{'max': ['sync'], 'sum': ['small']}", "(3.0, 10.0)", "Prices(8.0, 3.0, 1_000.0)", "Step(30, 10)", "(40.0, 15.0)",
    "{'launches': 0, 'bytes': 0, 'launch_us': 0.0, 'memory_us': 0.0}", "8e6 / 12", "['capture', 'fuse']", "(7.0, 15.0)",
]  # fmt: skip


YES = """
class Yes(float):
    __eq__ = __gt__ = __ge__ = __contains__ = lambda self, *other: True
    __hash__ = float.__hash__
    __mul__ = __rmul__ = __truediv__ = __getitem__ = __getattr__ = lambda self, *other: self
    __iter__ = lambda self: iter([self])
    __len__ = lambda self: 1
"""
YESES = ["Yes()", "[Yes()]", "(Yes(), Yes())", "[(Yes(), Yes(), Yes())] * 3", "([Yes()], [Yes()])"]
YESES += ["dict.fromkeys(('launches', 'bytes', 'launch_us', 'memory_us', 'max', 'sum'), Yes())", "Prices(Yes(), Yes(), Yes())"]


@pytest.mark.parametrize("value", CONSTANTS + YESES)
def test_a_function_that_returns_a_constant_earns_nothing(value):
    """Whether it is the answer to some visible test, nothing at all, or an object that says yes to everything."""
    spoilt = copy.deepcopy(cells.read(course.source(LAB)))
    for cell in spoilt["cells"]:
        known = next(iter(cells.known({"cells": [cell]})), None)
        if known and known.solution and not known.by_hand:
            made = [node for node in ast.parse(known.source).body if isinstance(node, ast.FunctionDef)]
            cell["source"] = YES + "\n".join(f"def {f.name}(*a, **k):\n    return {value}" for f in made)
    scores = fast.grade(rebuilt(spoilt, cells.read(course.source(LAB))))
    assert total(scores) == 0, [score.id for score in scores if score.points]
