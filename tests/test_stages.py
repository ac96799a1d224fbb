"""The stage probe: a partition, priced live, that loses one stage when one unit fails, and that planted costs move."""

from __future__ import annotations

import importlib.util
import json
from collections import Counter

import pytest
import torch
import yaml

from tests.conftest import REPO, require
from utils import paths
from utils.measure import first_call, plants, probe, programs, python_arms, replica, stages
from utils.measure.probe import Unit
from utils.model.readings import Receipt

IDS = [s["id"] for s in yaml.safe_load((paths.DATA / "stages.yml").read_text(encoding="utf-8"))["stages"]]
# What a step holds beside or instead of its own name, where another stage prices a part of it.
HOLDS = {
    "autograd_checks": ("hops", "copies_held", "checks"),
    "wrapped_output": ("output", "free_memory", "wrapping"),
    "output": ("output", "free_memory"),
}


def price(**options) -> Receipt:
    return stages.price_stages("cpu", **{"blocks": 4, "in_program": False, "first_call": False, "seed": 1, **options})


@pytest.fixture(scope="module")
def built() -> None:
    require("compiler")
    status = stages.build_probe("cpu")
    assert status.available and status.cached and not status.why, status.why


@pytest.fixture(scope="module")
def receipts(built) -> dict[bool, Receipt]:
    return {grad: price(grad=grad) for grad in (False, True)}


@pytest.fixture(scope="module")
def bench(built):
    return replica.Replica("cpu", torch.rand(1), torch.rand(1))


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """An empty cache and a folder of sources of its own: (probe module, folder)."""
    monkeypatch.setenv("ONE_ADD_CACHE", str(tmp_path / "cache"))
    sources = tmp_path / "csrc"
    sources.mkdir()
    monkeypatch.setattr(probe, "SOURCES", sources)
    paths._folder.cache_clear()
    yield sources
    paths._folder.cache_clear()


def stage_sum():
    spec = importlib.util.spec_from_file_location("stage_sum", REPO / "benchmarks" / "stage_sum.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# ------------------------------------------------------------------------------------------------ a partition


def counted(pieces) -> Counter:
    """How often each elementary step is in the sum of the stages: what is taken off counts down."""
    total: Counter = Counter()
    for piece in pieces:
        for keys, sign in ((piece.of, 1), (piece.less, -1)):
            for step in (s for key in keys for s in key.split("/")[-1].removeprefix("alone: ").split("+")):
                for part in HOLDS.get(step, (step,)):
                    total[part] += sign
    return total


def test_every_stage_is_priced_once_in_the_order_of_the_list():
    assert [p.stage for p in stages.PIECES] == IDS


def test_nothing_is_counted_twice():
    total = counted(stages.PIECES)
    assert {part: n for part, n in total.items() if n != 1} == {"copies_held": 0, "free_memory": 0}
    assert {"outside", "parse", "gil_release", "copies", "gil_take", "hops", "checks", "node", "memory"} < set(total)


@pytest.mark.parametrize("stage", ["autograd_key", "wrap_free"])
def test_counting_a_part_that_another_stage_counts_is_seen(stage):
    from dataclasses import replace

    pieces = [replace(p, less=()) if p.stage == stage else p for p in stages.PIECES]
    assert max(counted(pieces).values()) == 2


def test_every_step_comes_from_a_unit_that_is_built_and_every_plan_knows_its_steps():
    built = {u.source for u in probe.units("cpu")}
    assert set(replica.UNIT_OF.values()) <= built
    for name, plan in {**replica.PLANS, "padded": replica.PADDED}.items():
        assert {step for lap in plan for step in lap} <= set(replica.UNIT_OF), name
    assert {u.source for u in probe.units("cuda")} == built
    assert all((probe.SOURCES / f"{source}.cpp").exists() for source in built)


def test_every_lap_that_prices_a_stage_or_a_rung_is_taken_by_some_plan():
    taken = {f"{name}/{'+'.join(lap)}" for name, plan in replica.PLANS.items() for lap in plan} | {"whole/outside"}
    needed = {key for p in stages.PIECES for key in (*p.of, *p.less, *(p.bracket or ()))} | {key for key, _ in stages.RUNGS}
    assert {key for key in needed if not key.startswith("alone: ")} <= taken
    alone = {name for p in stages.PIECES for name in p.alone} | {
        k.removeprefix("alone: ") for k in needed if k.startswith("alone: ")
    }
    assert alone <= set(replica.ALONE) | {"outside"}


# ------------------------------------------------------------------------------------------------ live


def test_an_arm_that_is_preempted_while_it_is_calibrated_still_gets_its_calls(built):
    bench = stages._Bench("cpu", grad=False)
    took = iter([5e-3] * 5 + [1.5e-4] * 20)  # five tries preempted for some milliseconds
    assert bench._calls(python_arms.WHOLE, lambda n: next(took)) == round(2e-3 * 100 / 1.5e-4)


def test_a_live_receipt_is_complete(receipts):
    for grad, receipt in receipts.items():
        assert [s.stage for s in receipt.stages] == [s for s in IDS if grad or s != "autograd_node"]
        assert receipt.complete and receipt.source == "live" and receipt.grad is grad
        assert all(s.alone_ns is not None for s in receipt.stages)
        assert {"view alive", "result dropped", "python call"} <= set(receipt.arms)
        assert len(receipt.ladder) == 6 and receipt.ladder[-1].name == "at::cpu::add"
        assert any("page faults" in note for note in receipt.notes)


def test_every_step_of_the_ladder_is_filled_by_stages(receipts):
    for receipt in receipts.values():
        assert len(receipt.ladder_groups) == 5
        for group in receipt.ladder_groups:
            assert [stage for stage, _ in group.parts] == list(group.stages)
            assert sum(ns for _, ns in group.parts) == pytest.approx(group.isolates_ns)
        covered = {stage for g in receipt.ladder_groups for stage in g.stages}
        assert covered == {s.stage for s in receipt.stages}


def test_a_receipt_survives_json(receipts):
    for receipt in receipts.values():
        once = json.loads(json.dumps(receipt.to_dict()))
        assert Receipt.from_dict(once).to_dict() == once


def test_the_process_is_as_before_after_a_race(receipts):
    tensors = [torch.rand(1) for _ in range(8)]
    assert len({t.data_ptr() for t in tensors}) == 8  # the allocator that costs nothing has four blocks
    a, b = torch.rand(3), torch.rand(3, requires_grad=True)
    assert torch.equal((a + b).detach(), torch.stack((a, b.detach())).sum(0))
    assert type((a + b).grad_fn).__name__ == "AddBackward0"


def test_another_device_is_refused():
    with pytest.raises(ValueError, match="knows cpu and cuda"):
        stages.price_stages("tpu")
    if not torch.cuda.is_available():
        with pytest.raises(RuntimeError, match="recorded receipt"):
            stages.price_stages("cuda")


# ------------------------------------------------------------------------------------------------ planted costs


@pytest.mark.parametrize(
    ("stage", "plan", "rises"),
    [("autograd_key", "checks", "autograd_checks"), ("allocator", "output", "memory")],
)
def test_a_planted_cost_is_in_its_own_lap_and_in_no_other(bench, stage, plan, rises):
    # Each lap's least of many short stretches, the two states in turn: a neighbour's burst lies on some stretches of either
    # state and lifts whatever lap it meets, so one stretch of each, however long, can name the wrong lap.
    states: dict[float, list[dict[str, float]]] = {0.0: [], 20_000.0: []}
    for _ in range(20):
        for ns, seen in states.items():
            with plants.planted(stage, ns):
                seen.append(bench._run(replica.PLANS[plan], 50, timed=True)[1])
    plain, during = ({lap: min(s[lap] for s in seen) / 50 * 1e9 for lap in seen[0]} for seen in states.values())
    rose = {lap: during[lap] - ns for lap, ns in plain.items()}
    assert rose.pop(rises) > 15_000
    assert max(rose.values()) < 5_000
    assert plain[rises] < 15_000  # gone again each time


def test_a_cost_can_only_be_planted_where_there_is_a_plant():
    with pytest.raises(ValueError, match="autograd_key or allocator"), plants.planted("kernel", 100):
        pass


@pytest.mark.parametrize("grad", [False, True])
def test_the_bars_pass_a_sound_receipt_and_fail_one_with_a_large_stage_forgotten_or_doubled(receipts, grad):
    bars = stage_sum()
    receipt = receipts[grad]
    level = receipt.coverage  # this machine's own sum, so that the bars and not the machine are tried
    band = (level - 0.07, level + 0.07)
    for stage in sorted(receipt.stages, key=lambda s: -s.ns)[:3]:
        assert not bars.adds_up(bars.without(receipt, stage.stage), band)
        assert not bars.adds_up(receipt.scaled_stage(stage.stage, 2.0), band)


# ------------------------------------------------------------------------------------------------ what can be missing


def test_without_a_compiler_the_python_arms_are_priced_and_each_stage_says_why(monkeypatch):
    monkeypatch.setenv("ONE_ADD_NO_COMPILER", "1")
    assert not stages.probe_status().available and stages.probe_status().why
    receipt = price()
    assert receipt.end_to_end.ns > 0 and "view alive" in receipt.arms and len(receipt.ladder) == 1
    assert not receipt.ladder_groups
    assert all(s.isolate is None and "ONE_ADD_NO_COMPILER" in s.why_missing for s in receipt.stages)


def test_a_unit_that_does_not_compile_costs_its_own_stage_and_no_other(built, tmp_path, monkeypatch):
    real = probe._object
    lost = tmp_path / "tensor_iterator.failed"
    lost.write_text("/usr/include/x.h:3:1: error: the header moved\n")
    monkeypatch.setattr(probe, "_object", lambda u: tmp_path / "none.o" if u.source == "tensor_iterator" else real(u))
    monkeypatch.setattr(probe, "_failure", lambda u: lost if u.source == "tensor_iterator" else tmp_path / "no")
    receipt = price()
    missing = {s.stage: s.why_missing for s in receipt.stages if s.isolate is None}
    assert list(missing) == ["tensor_iterator"]
    assert "the header moved" in missing["tensor_iterator"] and "/usr" not in missing["tensor_iterator"]
    assert "C++ kernel entry" not in [g.name for g in receipt.ladder_groups]


def test_a_failing_unit_does_not_stop_the_others_and_neither_is_compiled_twice(own_cache, monkeypatch):
    require("compiler")
    (own_cache / "good.cpp").write_text('#include "part.h"\nextern "C" double answer(void*, long) { return PART; }\n')
    (own_cache / "part.h").write_text("#define PART 42.0\n")
    (own_cache / "bad.cpp").write_text("#error no such header any more\n")
    both = (Unit("good"), Unit("bad"))
    monkeypatch.setattr(probe, "units", lambda device: both)
    told = []
    status = probe.build_probe("cpu", lambda done, text: told.append((done, text)))
    assert status.built == ("good",) and status.cached and "bad" in status.why
    assert told[-1][0] == 1.0 and len(told) == 2
    made = probe.Probe(both)
    assert made.function("good", "answer")(None, 1) == 42.0
    with pytest.raises(probe.ProbeError, match="no such header any more"):
        made.function("bad", "answer")
    monkeypatch.setattr(probe, "_compile", lambda unit: pytest.fail(f"{unit.name} was compiled again"))
    assert probe.build_probe("cpu").cached


def test_a_changed_header_or_source_is_another_object(own_cache):
    (own_cache / "unit.cpp").write_text('#include "part.h"\n')
    (own_cache / "part.h").write_text("#define PART 1\n")
    keys = []
    for text in ("#define PART 1\n", "#define PART 2\n"):
        (own_cache / "part.h").write_text(text)
        probe._key.cache_clear()
        keys.append(probe._key(Unit("unit"), own_cache))
    assert keys[0] != keys[1]


# ------------------------------------------------------------------------------------------------ programs, first calls


def test_there_are_79_different_ops_that_run_and_none_is_an_add():
    ops = programs.other_ops()
    assert len(ops) == 79
    results = [op() for op in ops]
    assert all(r is not None for r in results)
    assert len({op.__code__.co_code + repr((op.__code__.co_names, op.__code__.co_consts)).encode() for op in ops}) == 79


def test_the_curve_holds_each_n_and_more_ops_than_there_are_is_refused():
    curve = programs.in_program_curve(after=(1, 3), blocks=10, block_ms=0.2)
    assert [n for n, _ in curve] == [1, 3] and all(len(r.samples) >= 10 for _, r in curve)
    with pytest.raises(ValueError, match="79 other ops"):
        programs.in_program_curve(after=(80,))


def test_first_calls_come_in_the_order_a_process_meets_them():
    ladder = first_call.first_calls("cpu")
    names = [name for name, _ in ladder]
    assert names[0] == "import torch" and names.index("first a + b") < names.index("second a + b") < names.index("first x @ x")
    assert all(ns > 0 for _, ns in ladder)


def test_a_failing_process_of_first_calls_is_told_in_words(monkeypatch):
    monkeypatch.setattr(first_call.sys, "executable", "/bin/false")
    with pytest.raises(RuntimeError, match="first calls failed"):
        first_call.first_calls("cpu")
