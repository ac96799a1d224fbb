"""The probe's cache and its gaps: keys, damaged objects, lost units and lost seams; and what a live receipt says of itself."""

from __future__ import annotations

import ctypes
import inspect
import random
import re
import shutil
from collections import Counter

import pytest
import torch

from tests.conftest import require
from utils import paths
from utils.measure import plants, probe, replica, seams, stages
from utils.measure.probe import ProbeError, Unit
from utils.model import schemas
from utils.model.expected import ExpectationError, expect, structure
from utils.model.readings import Reading, Receipt

IDS = [s["id"] for s in schemas.load("stages")["stages"]]
CSRC = probe.SOURCES
ADDRESS = "torch.Tensor._cdata"  # as text: the name is taken away here, and used in seams.py only


def price(grad: bool = False) -> Receipt:
    return stages.price_stages("cpu", grad, blocks=12, in_program=False, first_call=False, seed=3)


@pytest.fixture(scope="module", params=[False, True], ids=["no grad", "grad"])
def receipt(request) -> Receipt:
    require("compiler")
    return price(request.param)


@pytest.fixture(scope="module")
def objects() -> list:
    """The compiled units in the cache that all runs share."""
    require("compiler")
    assert stages.build_probe("cpu").cached
    return [probe._object(unit) for unit in probe.units("cpu")]


@pytest.fixture
def copied(objects, tmp_path, monkeypatch):
    """(folder of sources, folder of the cache) for a test to spoil: sources copied, each unit there by a symbolic link."""
    sources, kept = tmp_path / "csrc", tmp_path / "cache" / "probe"
    shutil.copytree(CSRC, sources)
    kept.mkdir(parents=True)
    for path in objects:
        (kept / path.name).symlink_to(path)
    monkeypatch.setattr(probe, "SOURCES", sources)
    monkeypatch.setenv("ONE_ADD_CACHE", str(kept.parent))
    paths._folder.cache_clear()
    yield sources, kept
    paths._folder.cache_clear()


@pytest.fixture
def compiled(monkeypatch) -> list[str]:
    """The names of the units that were really compiled, as they are."""
    real, names = probe._compile, []
    monkeypatch.setattr(probe, "_compile", lambda unit: (names.append(unit.name), real(unit)))
    return names


def missing(receipt: Receipt) -> dict[str, str]:
    return {s.stage: s.why_missing for s in receipt.stages if s.isolate is None}


# ------------------------------------------------------------------------------------------------ plans


def steps_of(keys) -> list[str]:
    return [step for key in keys for step in key.split("/")[-1].removeprefix("alone: ").split("+")]


def test_each_step_of_the_replica_is_in_exactly_one_price():
    """The sum of all prices is one pass; only the handle copies are taken off in another place than they are counted."""
    owners, net = Counter(), Counter()
    for piece in stages.PIECES:
        owners.update(steps_of(piece.of))
        net.update(steps_of(piece.of))
        net.subtract(steps_of(piece.less))
    assert set(owners.values()) == {1}
    one_pass = {"autograd_checks" if s == "autograd_real" else s for s in (*replica.WHOLE, "outside")}
    off = {"copies": 1, "copies_held": -1, "node": 1, "free_memory": -1}
    assert {s: n for s, n in net.items() if n} == {**dict.fromkeys(one_pass, 1), **off}


def test_a_plan_is_the_whole_with_pieces_replaced():
    assert replica._plan() == tuple((piece,) for piece in replica.WHOLE)
    assert ("hops", "copies_held") in replica._plan(autograd_real="hops+copies_held")
    assert replica._plan(memory="", wrapped_output="output nothing")[-2:] == (("output",), ("nothing",))


def test_laps_and_what_is_outside_them_are_the_whole_pass(objects):
    made = replica.Replica("cpu", torch.rand(1), torch.rand(1))
    assert made.why == {}
    for name, plan in replica.PLANS.items():
        if "node" in {step for lap in plan for step in lap}:
            continue
        made.keep(-1)
        whole = made._with_laps(name, plan, 300)
        seconds, laps, n = made._best[name]
        assert seconds == whole and n == 300 and list(laps) == ["+".join(lap) for lap in plan], name
        assert all(s > 0 for s in laps.values()) and sum(laps.values()) < whole, name


def test_of_the_stretches_of_a_block_the_least_disturbed_one_is_kept_and_the_warm_up_is_not(objects, monkeypatch):
    made = replica.Replica("cpu", torch.rand(1), torch.rand(1))
    runs = iter(
        [(9.0, {"parse": 8.0}), (3.0, {"parse": 2.0}), (2.0, {"parse": 1.5}), (4.0, {"parse": 1.0}), (5.0, {"parse": 4.0})]
    )
    monkeypatch.setattr(made, "_run", lambda plan, n, timed: next(runs))
    made._with_laps("whole", (("parse",),), 1)
    made.keep(-1)
    for _ in range(3):
        made._with_laps("whole", (("parse",),), 1)
    made.keep(0)
    made._with_laps("whole", (("parse",),), 1)
    made.keep(1)
    assert made._kept["whole"] == [(2.0, {"parse": 1.5}, 1), (5.0, {"parse": 4.0}, 1)]


def test_what_reading_the_clock_and_running_a_step_add_comes_off_every_lap(objects):
    made = replica.Replica("cpu", torch.rand(1), torch.rand(1))
    made._kept["whole"] = [(2000e-9, {step: 100e-9 for step in replica.WHOLE}, 1)] * 8
    plain = {
        name: Reading(name, (ns,) * 8) for name, ns in [("laps: whole", 2000.0), ("replica", 1910.0), ("padded replica", 1934.0)]
    }
    laps = made.readings(plain, loop_ns=6.0)
    assert made.clock_ns(plain) == pytest.approx(10.0)
    assert {name: r.ns for name, r in laps.items()} == pytest.approx(
        {**{f"whole/{step}": 100 - 10 - 3 for step in replica.WHOLE}, "whole/outside": 2000 - 800 - 6 - 10 - 3}
    )


# ------------------------------------------------------------------------------------------------ linking and loading


@pytest.fixture
def small(tmp_path, monkeypatch):
    """An empty cache and own sources: `small({"name": "C++ text", …})` builds them and returns their units."""
    require("compiler")
    monkeypatch.setenv("ONE_ADD_CACHE", str(tmp_path / "cache"))
    sources = tmp_path / "csrc"
    sources.mkdir()
    monkeypatch.setattr(probe, "SOURCES", sources)
    paths._folder.cache_clear()

    def build(texts: dict[str, str]) -> tuple[Unit, ...]:
        for name, text in texts.items():
            (sources / f"{name}.cpp").write_text(text)
        units = tuple(Unit(name) for name in texts)
        monkeypatch.setattr(probe, "units", lambda device: units)
        probe.build_probe("cpu")
        return units

    yield build
    paths._folder.cache_clear()


def answering(name: str, n: int) -> str:
    return f'extern "C" int {name}() {{ return {n}; }}\n'


def test_a_unit_that_wants_a_symbol_which_this_torch_lacks_is_left_out_and_no_other(small):
    units = small(
        {"good": answering("good", 7), "bad": 'int gone_from_torch(); extern "C" int bad() { return gone_from_torch(); }\n'}
    )
    made = probe.Probe(units)
    assert list(made.why) == ["bad"] and "gone_from_torch" in made.why["bad"] and made.why["bad"].startswith("does not load: ")
    assert made.function("good", "good", ctypes.c_int, ())() == 7
    with pytest.raises(ProbeError, match="gone_from_torch"):
        made.function("bad", "bad")


def test_a_damaged_linked_object_is_linked_anew(small):
    units = small({"good": answering("good", 8)})
    path = probe._link_once(list(units))
    path.write_bytes(b"")
    assert probe.Probe(units).function("good", "good", ctypes.c_int, ())() == 8


def test_a_name_that_a_unit_does_not_export_is_told(small):
    made = probe.Probe(small({"good": answering("good", 9)}))
    with pytest.raises(ProbeError, match="good exports no better"):
        made.function("good", "better")


def test_without_any_unit_that_links_there_is_no_probe_and_a_reason(small):
    units = small({"one": 'int gone(); extern "C" int one() { return gone(); }\n'})
    with pytest.raises(ProbeError, match="undefined symbol"):
        probe.Probe(units)


# ------------------------------------------------------------------------------------------------ a live receipt


def test_the_stages_are_those_of_the_list_in_its_order(receipt):
    assert [s.stage for s in receipt.stages] == [s for s in IDS if receipt.grad or s != "autograd_node"]
    assert not missing(receipt) and not any(s.why_missing for s in receipt.stages)
    assert structure(receipt) == []


def test_the_ladder_goes_down_from_python_to_the_kernel(receipt):
    assert [r.name for r in receipt.ladder] == [
        "Python: c = a + b",
        "PyNumber_Add",
        "THPVariable_add",
        "_ops::add_Tensor::call",
        "call below Autograd",
        "at::cpu::add",
    ]
    assert receipt.ladder[0].samples == receipt.end_to_end.samples
    assert all(r.ns > 0 for r in receipt.ladder) and receipt.ladder[0].ns > receipt.ladder[-1].ns


def test_every_group_is_between_rungs_and_the_sum_of_its_parts(receipt):
    rungs = {r.name.split(": ")[0] for r in receipt.ladder} | {"making the output"}
    prices = {s.stage: s.ns for s in receipt.stages}
    for group in receipt.ladder_groups:
        assert group.upper in rungs and group.lower in {*rungs, ""}, group.name
        assert sum(ns for _, ns in group.parts) == pytest.approx(group.isolates_ns)
        assert tuple(stage for stage, _ in group.parts) == group.stages and set(group.stages) <= set(prices)
    assert ("autograd_node" in next(g for g in receipt.ladder_groups if g.name == "dispatch and autograd").stages) is receipt.grad


def test_the_arms_are_the_same_op_in_other_states_and_calls_that_do_nothing(receipt):
    wanted = {"view alive", "result dropped", "python call", "torch.add(a, b)", "a.add(b)", "replica"}
    wanted |= {"without grad"} if receipt.grad else {"torch.add(a, b, out=c)"}
    assert set(receipt.arms) - {"pybind11 no-op call"} == wanted
    assert all(len(r.samples) >= 10 and r.ns > 0 for r in receipt.arms.values())


def test_the_state_is_told_in_words_and_says_whether_grad_is_needed(receipt):
    state = "; ".join(receipt.state)
    for words in ("one element, float32, on cpu", "held by Python only", "result kept", "one thread"):
        assert words in state
    assert ("both inputs need a gradient" in state) is receipt.grad
    assert ("no input needs a gradient" in state) is not receipt.grad


def test_the_sum_is_of_the_size_of_the_whole(receipt):
    assert 0.3 < receipt.coverage < 2.0  # wide: whether it adds up is benchmarks/stage_sum.py's question
    assert receipt.context_ns == pytest.approx(receipt.total_ns - sum(s.ns for s in receipt.stages))


@pytest.mark.parametrize("stage", IDS)
def test_a_stage_left_out_or_scaled_is_red(receipt, stage):
    if stage == "autograd_node" and not receipt.grad:
        assert stage not in [s.stage for s in receipt.stages]
        return
    with pytest.raises(ExpectationError, match=f"stage {stage} is missing"):
        expect("stages.sum", receipt.without(stage))
    for metric in ("stages.sum", f"stages.{stage}"):
        with pytest.raises(ExpectationError, match=rf"the groups count [\d,-]+ ns of {stage}"):
            expect(metric, receipt.scaled_stage(stage, 10.0))


@pytest.mark.parametrize("stage", plants.STAGE.values())
def test_a_planted_cost_is_in_its_row_of_the_receipt(objects, stage):
    before = price()
    with plants.planted(stage, 5_000):
        during = price()
    rose = {s.stage: during.stage(s.stage).ns - s.ns for s in before.stages}
    assert max(rose, key=rose.get) == stage and rose[stage] > 2_500
    assert during.total_ns - before.total_ns > 2_500
    assert max(ns for name, ns in rose.items() if name != stage) < rose[stage] / 2


# ------------------------------------------------------------------------------------------------ the cache


def test_what_is_in_the_cache_is_not_compiled_again_whatever_folder_the_sources_are_in(copied, compiled):
    status = probe.build_probe("cpu")
    assert compiled == [] and status.cached and len(status.built) == len(probe.units("cpu"))


def test_the_cache_starts_empty_and_serves_the_second_build(copied, compiled):
    driver = Unit("driver")
    probe._object(driver).unlink()
    assert not probe.probe_status("cpu").cached
    with pytest.raises(ProbeError, match="not compiled yet"):
        probe.Probe((driver,))
    told = []
    for _ in range(2):
        assert probe.build_probe("cpu", lambda done, text: told.append((done, text)), only=(driver,)).cached
    assert compiled == ["driver"] and told == [(1.0, "compiling the probe, once: 1 of 1")]
    assert probe.Probe((driver,)).function("driver", "plan_new")
    objects = [p for p in copied[1].iterdir() if p.suffix == ".o"]
    assert len(objects) == len(probe.units("cpu")) and {p.suffix for p in copied[1].iterdir()} == {
        ".o",
        ".so",
    }  # nothing half-made


def test_a_source_changes_its_own_key_and_a_header_those_of_all_that_include_it(tmp_path):
    units = probe.units("cpu")

    def changed(name: str) -> set[str]:
        sources = tmp_path / name.replace(".", "_")
        shutil.copytree(CSRC, sources)
        (sources / name).write_text((sources / name).read_text() + "\n// one line more\n")
        return {u.name for u in units if probe._key(u, sources) != probe._key(u, CSRC)}

    assert changed("kernel.cpp") == {"kernel"}
    assert changed("structured.h") == {u.name for u in units if "structured.h" in (CSRC / f"{u.source}.cpp").read_text()}
    assert changed("step.h") == {u.name for u in units}  # directly or through another header


@pytest.mark.parametrize("what", ["flags", "compiler", "torch"])
def test_other_flags_another_compiler_or_another_torch_make_another_key(monkeypatch, what):
    unit, key = Unit("driver"), probe._key.__wrapped__
    before = key(unit, CSRC)
    assert before == key(unit, CSRC)
    if what == "flags":
        command = probe._command(unit)
        monkeypatch.setattr(probe, "_command", lambda unit: [*command, "-O3"])
    elif what == "compiler":
        monkeypatch.setattr(probe, "_compiler_version", lambda: "c++ 99.1")
    else:
        monkeypatch.setattr(torch, "__version__", "9.9.0")
    assert key(unit, CSRC) != before


def test_one_source_on_two_devices_is_two_units():
    assert {u.name for u in probe.units("cpu")}.isdisjoint(u.name for u in probe.units("cuda") if u.device == "cuda")
    assert len({u.name for u in (*probe.units("cpu"), *probe.units("cuda"))}) == len(probe.SHARED) + 2 * len(probe.PER_DEVICE)
    with pytest.raises(ValueError, match="knows cpu and cuda, not 'tpu'"):
        probe.units("tpu")


# ------------------------------------------------------------------------------------------------ what can be missing


@pytest.mark.parametrize("content", [b"", bytes(random.Random(2).randbytes(4096))], ids=["empty", "random bytes"])
def test_a_damaged_object_costs_its_own_stage_and_is_told(copied, content):
    damaged = probe._object(Unit("kernel"))
    damaged.unlink()  # the link, not the object that all runs share
    damaged.write_bytes(content)
    a, b = torch.rand(1), torch.rand(1)
    made = replica.Replica("cpu", a, b)
    assert list(made.why) == ["kernel"] and made.why["kernel"].startswith(
        ("does not link: ", "the unit kernel exports no compute")
    )
    arms = made.arms(grad=False)
    assert "alone: compute" not in arms and {"alone: iterator", "laps: whole", "replica"} <= set(arms)
    made._with_laps("whole", replica.PLANS["whole"], 50)
    assert "compute" not in made._best["whole"][1] and made._best["whole"][1]["iterator"] > 0


def test_a_header_that_moved_costs_its_own_stage_and_names_it(copied, compiled):
    source = copied[0] / "kernel.cpp"
    source.write_text("#include <ATen/a_header_that_moved.h>\n" + source.read_text())
    found = price()
    assert compiled == ["kernel"]
    assert list(missing(found)) == ["kernel"]
    why = missing(found)["kernel"]
    assert why.startswith("kernel: does not compile: ") and "a_header_that_moved.h" in why
    assert str(copied[0]) not in why
    assert any(note.startswith("kernel is missing: ") for note in found.notes)
    assert not found.complete and found.stage_sum_ns == pytest.approx(sum(s.ns for s in found.stages if s.ns is not None))
    assert "kernel" not in {stage for g in found.ladder_groups for stage in g.stages}
    assert structure(found) == []
    status = probe.build_probe("cpu")  # remembered: not tried again until the source changes
    assert compiled == ["kernel"] and status.cached and status.why == "did not compile: kernel"


@pytest.mark.parametrize(
    ("compiler", "remembered"),
    [
        ("echo 'kernel.cpp:1: error: no such header' >&2; exit 1", True),
        ("kill -9 $$", False),
        ("echo 'c++: fatal error: Killed signal terminated program cc1plus' >&2; exit 1", False),
    ],
    ids=["says no", "was killed", "its child was killed"],
)
def test_a_compiler_that_was_stopped_is_asked_again(monkeypatch, tmp_path, compiler, remembered):
    """An interrupted cell took a stage away for good, and its lesson's check was red from then on."""
    monkeypatch.setattr(probe, "_folder", lambda: tmp_path)
    monkeypatch.setattr(probe, "_object", lambda unit: tmp_path / "unit.o")
    monkeypatch.setattr(probe, "_failure", lambda unit: tmp_path / "unit.failed")
    monkeypatch.setattr(probe, "_command", lambda unit: ["sh", "-c", compiler])
    probe._compile(Unit("kernel"))
    assert [path.name for path in tmp_path.iterdir()] == (["unit.failed"] if remembered else [])


def test_a_syntax_error_in_the_driver_leaves_python_and_says_so_in_each_row(copied, compiled):
    source = copied[0] / "driver.cpp"
    source.write_text(source.read_text() + "\nint broken( {\n")
    found = price()
    assert compiled == ["driver"]
    assert list(missing(found)) == [s for s in IDS if s != "autograd_node"]
    assert all("does not compile: driver.cpp" in why for why in missing(found).values())
    assert [r.name for r in found.ladder] == ["Python: c = a + b"] and found.total_ns > 0


def test_without_a_compiler_nothing_is_built_and_what_is_cached_is_not_used(copied, compiled, monkeypatch):
    monkeypatch.setenv("ONE_ADD_NO_COMPILER", "1")
    status = stages.build_probe("cpu")
    assert compiled == [] and not status.available and not status.cached and status.built == ()
    assert "ONE_ADD_NO_COMPILER=1" in status.why
    with pytest.raises(ProbeError, match="ONE_ADD_NO_COMPILER=1"):
        probe.Probe((Unit("driver"),))
    found = price(grad=True)
    assert list(missing(found)) == IDS and all(why.strip() for why in missing(found).values())
    assert {"view alive", "result dropped", "python call", "without grad"} <= set(found.arms)
    assert structure(found) == []


# ------------------------------------------------------------------------------------------------ seams


def blocks_of_seams() -> list[str]:
    """The file's blocks, each from its ruler to the next."""
    return re.split(r"^# -{10,} ", inspect.getsource(seams), flags=re.MULTILINE)[1:]


def test_every_seam_names_its_versions_its_probe_and_its_fallback():
    assert len(blocks_of_seams()) >= 3
    probes = set()
    for block in blocks_of_seams():
        comment = " ".join(line.lstrip("# ") for line in block.splitlines() if line.startswith("#"))
        assert re.search(r"torch \d+\.\d+( to \d+\.\d+)?", comment), block.splitlines()[0]
        named = re.search(r"Probe: `(\w+)\(\)`", comment)
        assert named and callable(getattr(seams, named[1])), block.splitlines()[0]
        assert f"def {named[1]}(" in block
        assert re.search(r"Fallback: \w+", comment), block.splitlines()[0]
        probes.add(named[1])
    assert len(probes) == len(blocks_of_seams())
    assert all(getattr(seams, name)() for name in probes), "a seam does not work with the torch that is installed here"


def test_a_torch_without_addresses_loses_the_stages_in_words(objects, monkeypatch):
    def gone(self):
        raise AttributeError("_cdata")

    monkeypatch.setattr(ADDRESS, property(gone), raising=False)
    found = price()
    assert len(missing(found)) == len(IDS) - 1
    assert all("does not give out the address of a tensor" in why for why in missing(found).values())
    assert found.total_ns > 0 and "view alive" in found.arms


def test_a_torch_without_the_pybind_call_has_one_arm_less(monkeypatch):
    monkeypatch.setenv("ONE_ADD_NO_COMPILER", "1")
    monkeypatch.delattr("torch._C._is_cow_tensor", raising=False)
    assert seams.pybind_call() is None
    assert "pybind11 no-op call" not in price().arms
