"""The instruments of lesson 03: what they read, count and time, each against what can be worked out by hand or seen elsewhere."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest
import torch
from torch import nn

from tests import grads
from utils.measure import (
    autograd,
    callgrind,
    compiled_region,
    grad_graph,
    grad_prices,
    handle_counts,
    inference_tensors,
    memory_of_modes,
    op_counts,
    saved_tensors,
    seams,
    small_models,
    version_counters,
)
from utils.measure.live_storages import storages
from utils.measure.study import parts_of
from utils.model.readings import Race, Reading
from utils.model.studies import plain, revived


def leaf(*shape):
    return torch.randn(shape).requires_grad_()


# ------------------------------------------------------------------------------------------------ the graph


def test_a_graph_has_a_node_for_each_op_and_an_accumulator_for_each_leaf():
    x, w, b = leaf(4, 4), leaf(4, 4), leaf(4)
    found = grad_graph.graph(torch.relu(x @ w + b) * x, {"x": x, "w": w, "b": b}, "relu(x @ w + b) * x")
    assert Counter(n.name for n in found.inner) == Counter(["MulBackward0", "ReluBackward0", "AddBackward0", "MmBackward0"])
    assert sorted(n.leaf for n in found.accumulators) == ["b", "w", "x"]
    (of_x,) = [n.number for n in found.accumulators if n.leaf == "x"]
    assert sum(edge[0] == of_x for n in found.nodes for edge in n.edges) == 2, "x is used twice, and has one accumulator"
    depths = found.depths()
    assert depths[0] == 0 and depths[of_x] == 4, "the longest way: mul, relu, add, mm, x"
    saved = {n.name: n.saved_tensors for n in found.nodes}
    assert saved["AddBackward0"] == () and saved["ReluBackward0"] == ("result",) and len(saved["MulBackward0"]) == 2


def test_edges_keep_the_order_of_inputs_and_say_who_needs_nothing():
    x = leaf(4)
    found = grad_graph.graph(torch.randn(4) - x, {"x": x})
    assert found.nodes[0].edges == (None, (1, 0)) and found.nodes[1].leaf == "x"
    unnamed = grad_graph.graph(x.exp())
    assert unnamed.nodes[1].leaf == "a tensor without a name"
    second = torch.unbind(leaf(2, 3))[1]
    assert grad_graph.graph(second.exp()).nodes[0].edges == ((1, 1),), "the gradient of the second result goes to input 1"


def test_a_result_without_a_graph_is_told_in_words():
    with torch.no_grad():
        result = leaf(2) * 2
    with pytest.raises(ValueError, match="no grad_fn"):
        grad_graph.graph(result)


# ------------------------------------------------------------------------------------------------ what is kept


def test_what_ops_keep_is_what_their_gradients_need():
    found = {(c.op, c.needs): c for c in saved_tensors.cases()}
    x, w = 4 * saved_tensors.ROWS * saved_tensors.INNER, 4 * saved_tensors.INNER * saved_tensors.COLUMNS
    both, first, second = saved_tensors.BOTH, saved_tensors.FIRST, saved_tensors.SECOND
    assert {needs: found["x @ w", needs].whose for needs in (both, first, second)} == {
        both: ("w", "x"),
        first: ("w",),
        second: ("x",),
    }
    assert [found["x @ w", needs].bytes for needs in (both, first, second)] == [x + w, w, x]
    assert all(found["x + y", needs].kept == () for needs in (both, first, second))
    assert [found["x * y", needs].whose for needs in (both, first, second)] == [("x", "y"), ("y",), ("x",)]
    assert found["relu(x)", first].whose == ("result",) and found["gelu(x)", first].whose == ("x",)


def test_memory_that_several_nodes_keep_is_counted_once_and_views_have_the_size_of_their_base():
    x, y = leaf(100), leaf(100)
    _, saved = saved_tensors.kept(lambda: torch.sigmoid(x) * y, {"x": x, "y": y})
    assert [one.what for one in saved].count("y") == 1 and len(saved) == 3
    assert saved_tensors.memory(saved) == 800 and saved_tensors.memory(saved, ["y"]) == 400
    base = leaf(100)
    _, saved = saved_tensors.kept(lambda: base[:10].exp() * base[5:15], {"base": base})
    of_base = [one for one in saved if one.what == "base"]
    assert of_base and all(one.bytes == 40 and one.storage_bytes == 400 for one in of_base)


def test_the_hooks_are_gone_afterwards():
    x = leaf(4)
    _, saved = saved_tensors.kept(lambda: x * x, {"x": x})
    x.exp()
    assert len(saved) == 2


def test_relus_result_is_kept_in_its_memory_but_not_as_its_object():
    assert saved_tensors.same_memory() == {"object": False, "memory": True}


# ------------------------------------------------------------------------------------------------ bytes that live


def test_live_bytes_are_those_of_new_memory_only():
    a = torch.randn(1000)
    with storages() as counted:
        b = a + 1  # 4,000 bytes of its own
        c = b.view(10, 100).t()  # the same memory
        a.add_(1)  # there before
        assert counted.live() == 4000 and counted.peak == 4000
        d = c.contiguous()
        assert counted.live() == 8000
        del b, c
        assert counted.live() == 4000 and counted.peak == 8000
        e = torch.cat([d.view(-1), a])
    assert counted.live() == 4000 + 8000 and counted.made == 4000 + 4000 + 8000
    del d, e
    assert counted.live() == 0


def test_a_temporary_inside_an_expression_is_let_go_and_counts_at_its_height():
    a = torch.randn(1000)
    with storages() as counted:
        result = ((a + 1) * 2).sum()
    assert counted.live() == result.nbytes and counted.peak == 8000


def test_what_forward_leaves_can_be_worked_out_by_hand():
    """An MLP of linear and relu: each relu's result is kept, once for relu and for the next layer, and the last result lives."""
    batch, hidden, width = 7, small_models.HIDDEN, small_models.WIDTH
    found = memory_of_modes.activations("cpu", (batch,))[small_models.MLP]
    one = found["batches"][str(batch)]
    assert one == {"held": 4 * batch * (2 * hidden + width), "saved": 4 * batch * 2 * hidden, "result": 4 * batch * width}
    assert found["parameters"] == 4 * (width * hidden + hidden + hidden * hidden + hidden + hidden * width + width)


def test_two_witnesses_agree_on_the_block_to_the_byte():
    (one,) = memory_of_modes.activations("cpu", (3,))[small_models.BLOCK]["batches"].values()
    assert one["held"] == one["saved"] + one["result"] and one["saved"] > 0


def test_the_peak_is_the_profilers(tmp_path):
    """torch's profiler sees each allocation of the CPU; its running total peaks where ours does."""
    model, x = small_models.make(small_models.MLP), small_models.batch(small_models.MLP, 5)
    with torch.no_grad():
        model(x)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as watched:
            result = model(x)
        with storages() as counted:
            result = model(x)
    del result
    file = tmp_path / "trace.json"
    watched.export_chrome_trace(str(file))
    events = [e for e in json.loads(file.read_text())["traceEvents"] if e.get("name") == "[memory]"]
    live = peak = 0
    for event in sorted(events, key=lambda e: e["ts"]):
        live += event["args"]["Bytes"]
        peak = max(peak, live)
    assert events and peak == counted.peak


def test_peaks_by_mode_are_those_of_the_layers_that_live():
    found = memory_of_modes.peaks("cpu", (6,))
    row = 4 * small_models.HIDDEN
    assert {mode: one["tensors"] for mode, one in found["peaks"]["batch 6"].items()} == {
        "grad": 6 * 3 * row,  # both relus' results, and the product before the second
        "no_grad": 6 * 2 * row,
        "inference_mode": 6 * 2 * row,
    }
    assert {one["tensors"] for one in found["peaks"]["a + b"].values()} == {4096}


# ------------------------------------------------------------------------------------------------ ops of both passes


def test_ops_of_forward_and_backward_and_views_apart():
    found = {one.name: one for one in op_counts.cases()}
    counts = {name: (len(one.forward.computing), len(one.backward.computing)) for name, one in found.items()}
    assert counts["a + b"] == (1, 0) and counts["a * b"] == (1, 2) and counts["a @ b"] == (1, 2)
    assert counts["relu(a)"] == (1, 1) and counts["gelu(a)"] == (1, 1)
    assert counts[small_models.MLP] == (5, 10), "2 products a layer but the first, whose input needs none; 3 sums; 2 relus"
    assert "t" in found["a @ b"].backward.views and "mm" in found["a @ b"].backward.computing
    assert 1.5 < found[small_models.BLOCK].ratio < 3


def test_an_op_in_place_computes_and_a_view_does_not():
    a = torch.randn(4)
    ops = op_counts.Ops()
    with seams.watching_ops(ops.note):
        a.add_(1)
        a.view(2, 2)
        torch.split(a, 2)
        torch.add(a, a, out=torch.empty(4))
    assert ops.views == ["view", "split.Tensor"] and {"add_.Tensor", "add.out"} <= set(ops.computing)


def test_counting_leaves_no_gradient_behind():
    a = leaf(3)
    op_counts.count("exp", lambda: a.exp(), (a,))
    assert a.grad is None


# ------------------------------------------------------------------------------------------------ counters, inference tensors


def test_what_raises_a_version_counter():
    by = {one.line: one.by for one in version_counters.bumps()}
    assert by == grads.rules()["bumps"]
    written = {one.line for one in version_counters.bumps() if one.written}
    assert written == set(by) - {version_counters.PLAIN}, "a line that should write did not"


def test_backward_refuses_only_what_was_kept_and_changed_in_sight():
    refused = {one.code: one.refused for one in version_counters.changed_before_backward()}
    assert list(refused) == list(grads.rules()["changed"])
    assert [bool(text) for text in refused.values()] == [True, False, False, False]
    assert re.search(r"output 0 of Exp(Backward0)?, is at version 1; expected version 0", refused[grads.EXP])
    assert version_counters.silently_wrong() == pytest.approx(1.0, rel=1e-3)


def test_an_attempt_catches_refusals_and_nothing_else():
    with pytest.raises(ZeroDivisionError):
        version_counters.attempt("1 / 0", lambda: 1 / 0)


def test_where_an_inference_tensor_is_refused():
    refused = {one.code: bool(one.refused) for one in inference_tensors.cases()}
    assert [code for code, no in refused.items() if no] == ["t * g", "t.add_(1)", "t._version", "t.requires_grad_()"]
    assert inference_tensors.node_of_the_add() == "AddBackward0"
    assert inference_tensors.views_are_tracked() == grads.rules()["views_tracked"]


def test_a_product_adds_handles_and_backward_takes_them_away(monkeypatch):
    found = handle_counts.handles()
    assert found == grads.kept()["handles"] | {handle_counts.MUL_FIRST: {"a": 1, "b": 1, "after a": 1, "after b": 0}}
    monkeypatch.setattr(seams, "has_use_count", lambda: False)
    assert handle_counts.handles() is None


# ------------------------------------------------------------------------------------------------ a compiled region


def test_a_compiled_region_leaves_one_node_and_the_same_gradients():
    region = compiled_region.compiled_region()
    assert [n.name for n in region.compiled.inner] == ["CompiledFunctionBackward"] and len(region.eager.inner) == 5
    assert sorted(n.leaf for n in region.compiled.accumulators) == ["b", "w", "x"] and region.same
    assert "mm.default" in region.forward_ops and region.backward_ops.count("mm.default") == 2
    assert set(grads.compiled()) == set(region.to_dict())


def test_without_the_graphs_the_node_is_still_one(monkeypatch):
    monkeypatch.setattr(compiled_region, "aot_backend", lambda graphs: "aot_eager")
    region = compiled_region.compiled_region()
    assert len(region.compiled.inner) == 1 and region.same and region.backward_ops == ()


# ------------------------------------------------------------------------------------------------ prices


def chain(few: float, many: float, again: float) -> Race:
    """A chain race whose arms took so many ns at FEW and MANY ops, every op and pass alike."""
    readings = {}
    for op in grad_prices.OPS:
        for which in grad_prices.PASSES:
            for n, ns in ((grad_prices.FEW, few), (grad_prices.MANY, many)):
                name = grad_prices.arm(op, which, n)
                readings[name] = Reading(name, (ns, ns + 1.0, ns + 2.0), 10)
    control = grad_prices.arm("add", grad_prices.FORWARD, grad_prices.MANY)
    readings[f"{control} (again)"] = Reading(f"{control} (again)", (again, again + 1.0, again + 2.0), 10)
    return Race(readings, (control, f"{control} (again)"))


def test_one_op_more_is_the_slope_and_the_start_is_what_is_left():
    few, many = 5000.0 + 100.0 * grad_prices.FEW, 5000.0 + 100.0 * grad_prices.MANY
    race = chain(few, many, many + 50.0)
    per_op = grad_prices.per_op(race)
    assert all(per_op[f"{op}, {which}"].ns == pytest.approx(100.0) for op in grad_prices.OPS for which in grad_prices.PASSES)
    assert per_op[per_op.control[1]].ns == pytest.approx(101.0), "the pair that ran twice keeps its disagreement"
    assert grad_prices.start_of_backward(race) == pytest.approx(5000.0, abs=2.0)


def test_a_mode_saves_a_share_and_nothing_inside_the_error():
    race = grads.steps(small=0.25)["MLP, batch 1"]
    assert grad_prices.saved_share(race) == pytest.approx(0.25, abs=0.01)
    assert grad_prices.saved_share(race, "no_grad") == pytest.approx(0.25, abs=0.01)
    assert grad_prices.saved_share(grads.steps(small=0.001)["MLP, batch 1"]) == 0.0


def test_each_arm_of_the_race_of_modes_runs_in_its_mode(monkeypatch):
    seen = {}

    def instead(variants, *, inside, **how):
        for name, f in variants.items():
            with inside.get(name, torch.enable_grad)():
                seen[name] = (f().requires_grad, torch.is_inference_mode_enabled())
        return grads.steps()["MLP, batch 1"]

    monkeypatch.setattr(grad_prices, "time_host", instead)
    found = grad_prices.mode_races("cpu", progress=lambda done, text: None)
    assert {race.device for race in found.values()} == {"cpu"}
    assert list(found) == [f"{model}, batch {size}" for model, size in grad_prices.STEPS["cpu"]]
    assert seen == {"grad": (True, False), "no_grad": (False, False), "inference_mode": (False, True)}


def test_the_chains_compute_what_their_names_say(monkeypatch):
    seen = {}

    def instead(variants, *, inside, control, **how):
        assert control in variants
        for name, f in variants.items():
            with inside.get(name, torch.enable_grad)():
                seen[name] = f()
        return "race"

    monkeypatch.setattr(grad_prices, "time_host", instead)
    grad_prices.chain_race("cpu")
    (gradient,) = seen["add, backward, 60"]
    assert gradient.shape == (1,)
    for op, node in (("add", "AddBackward0"), ("mul", "MulBackward0")):
        for n in (grad_prices.FEW, grad_prices.MANY):
            assert not seen[grad_prices.arm(op, grad_prices.PLAIN, n)].requires_grad
            names = [one.name for one in grad_graph.graph(seen[grad_prices.arm(op, grad_prices.FORWARD, n)]).inner]
            assert names == [node] * n


def test_a_dropped_result_takes_the_accumulators_along_unless_another_holds_them():
    assert grad_prices.accumulator_lives() == grads.rules()["accumulator_lives"]


def test_the_race_of_results_keeps_drops_and_holds(monkeypatch):
    seen = {}

    def instead(variants, **how):
        seen.update({name: f() for name, f in variants.items()})
        return "race"

    monkeypatch.setattr(grad_prices, "time_host", instead)
    grad_prices.result_race()
    assert seen[grad_prices.KEPT].grad_fn is not None and seen[grad_prices.DROPPED] is None and seen[grad_prices.HELD] is None


@pytest.fixture
def one_small_step(monkeypatch):
    """The study's steps cut to the quickest, where it is not the time that is tested."""
    monkeypatch.setitem(grad_prices.STEPS, "cpu", ((small_models.MLP, 2),))


def test_pages_are_counted_for_each_step_and_mode(one_small_step):
    found = grad_prices.page_faults("cpu", steps=2)
    assert set(found) == {"MLP, batch 2"}
    assert all(count >= 0 for one in found.values() for count in one.values())


def test_the_counted_statements_run_in_their_modes_and_leave_them(monkeypatch):
    asked = {}

    def instead(statements, progress):
        for one in statements:
            scope = {"torch": torch}
            exec(one.setup, scope)  # noqa: S102  (our own lines)
            exec(one.code, scope)  # noqa: S102
            result = scope.get("c", scope.get("y"))
            asked[one.name] = (None if result is None else result.requires_grad, torch.is_inference_mode_enabled())
            exec(one.teardown, scope)  # noqa: S102
            assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
        return {one.name: type("Tree", (), {"total": float(at)}) for at, one in enumerate(statements)}

    monkeypatch.setattr(callgrind, "count", instead)
    found = autograd.instructions("cpu")
    assert asked["a + b, grad"] == (True, False) and asked["a * b, no_grad"] == (False, False)
    assert asked["MLP, batch 16, inference_mode"] == (False, True) and asked[f"a + b, {grad_prices.DROPPED}"] == (None, False)
    assert list(found.values()) == [float(n) for n in range(len(found))]


def test_what_saving_takes_is_a_difference_of_differences():
    assert grad_prices.saving_two(grads.counted()) == pytest.approx(910.0)


# ------------------------------------------------------------------------------------------------ the study


def test_the_quick_parts_of_the_study_are_plain_data_of_the_shape_that_the_lesson_words(one_small_step):
    """Those without a race; the made-up parts that the sentences are tested on have the same keys."""
    made = grads.parts()
    for name in ("kept", "memory", "rules", "ops"):
        part = revived(plain(parts_of("autograd")[name].measure("cpu", None)))
        json.dumps(part)
        assert set(made[name]) <= set(part), name
    assert parts_of("autograd")["instructions"].devices == ("cpu",)


def test_the_timed_parts_are_races(monkeypatch):
    monkeypatch.setattr(grad_prices, "mode_races", lambda device, progress: grads.steps())
    monkeypatch.setattr(grad_prices, "chain_race", lambda device, progress: chain(2000.0, 7000.0, 7001.0))
    parts = parts_of("autograd")
    assert set(parts["steps"].measure("cpu", None)) == set(grads.steps())
    assert set(parts["chains"].measure("cpu", None)["per_op"].readings) == set(grads.chains()["per_op"].readings)


# ------------------------------------------------------------------------------------------------ seams

# As text: these names are taken away here, and used in seams.py only.
MODE, VERSION, USE_COUNT = "torch.utils._python_dispatch.TorchDispatchMode", "torch.Tensor._version", "torch.Tensor._use_count"
AOT = "torch._dynamo.backends.common.aot_autograd"


def test_the_dispatch_mode_sees_backward_and_is_missed_in_words(monkeypatch):
    ops = []
    with seams.watching_ops(lambda op, given, results: ops.append(op)):
        leaf(2).exp().sum().backward()
    assert "aten::exp" in ops and "aten::mul.Tensor" in ops
    monkeypatch.setattr(MODE, object)
    assert not seams.has_dispatch_mode()
    with pytest.raises(RuntimeError, match="cannot be watched"):
        seams.watching_ops(lambda op, given, results: None)


def test_a_watched_op_shows_tensors_in_lists_and_keywords():
    seen = []
    a = torch.randn(2)
    with seams.watching_ops(lambda op, given, results: seen.append((len(given), len(results)))):
        torch.cat([a, a])
        torch.unbind(a)
        torch.add(a, other=a)
    assert seen == [(2, 1), (1, 2), (2, 1)]


def test_saved_attributes_are_read_and_an_error_is_their_text():
    assert seams.has_saved_attributes()
    x = leaf(3)
    y = x * x
    assert torch.equal(seams.saved_attributes(y.grad_fn)["other"], x)
    y.sum().backward()
    assert "freed" in seams.saved_attributes(y.grad_fn)["other"]
    assert seams.saved_attributes(object()) == {}


def test_versions_and_counts_are_read_or_missed_in_words(monkeypatch):
    assert seams.has_version() and seams.has_use_count()
    t = torch.randn(2)
    assert seams.version(t.add_(1)) == 1 and seams.use_count(t) == 1
    monkeypatch.setattr(VERSION, None)
    assert not seams.has_version()
    with pytest.raises(RuntimeError, match="cannot be read"):
        seams.version(t)
    monkeypatch.setattr(USE_COUNT, None)
    assert not seams.has_use_count() and seams.use_count(t) is None


def test_a_view_knows_its_base_or_nothing_is_told(monkeypatch):
    t = torch.randn(4)
    assert seams.has_base() and seams.knows_base(t[:2]) is True and seams.knows_base(t) is False
    assert seams.knows_base(object()) is None
    monkeypatch.setattr(seams, "knows_base", lambda tensor: None)
    assert not seams.has_base()


def test_without_aotautograds_front_door_the_backend_is_a_name(monkeypatch):
    assert seams.has_aot_backend()
    monkeypatch.setattr(AOT, None)
    assert not seams.has_aot_backend() and seams.aot_backend({}) == "aot_eager"


def test_models_are_small_and_known_by_name():
    assert isinstance(small_models.make(small_models.BLOCK), nn.TransformerEncoderLayer)
    assert small_models.batch(small_models.BLOCK, 2).dim() == 3 and small_models.batch(small_models.WIDE, 2).dim() == 2
    with pytest.raises(ValueError, match="no model"):
        small_models.make("large")
