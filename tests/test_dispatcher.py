"""The dispatcher's instruments on this torch: sets and chains, witnesses that change nothing, layers that compose, counts."""

from __future__ import annotations

import ast
import warnings

import pytest
import torch

from tests.broken import broken
from utils.measure import callgrind, dispatcher, key_sets, layers, other_layers, seams, witness
from utils.measure.callgrind import CallgrindError, Statement
from utils.measure.dispatcher import OP_OF, STATES
from utils.model import expected, studies
from utils.model.readings import Race
from utils.show import lesson02

ADD = "aten::add.Tensor"


def table_text(op: str = ADD) -> str:
    return seams.dispatch_table(op)


# ------------------------------------------------------------------------------------------------ key sets and tables


def test_sets_are_read_by_priority_and_a_key_that_falls_through_is_taken_off():
    keys = key_sets.read(ADD, {"a": torch.rand(1), "b": torch.rand(1)})
    assert keys.highest == keys.final[-1] == "AutogradCPU"
    for held in (keys.union, keys.with_thread, keys.final):
        assert list(held) == sorted(held, key=keys.priority.index)
    assert set(keys.with_thread) - set(keys.masked) == set(keys.final)
    assert key_sets.read("aten::no_such_op", {"a": torch.rand(1)}) is None
    assert key_sets.read(ADD, {}) is None


def test_a_context_changes_the_threads_sets_and_puts_them_back():
    tensors = {"a": torch.rand(1), "b": torch.rand(1)}
    for name in STATES[1:]:
        before, inside, after = dispatcher.around(name, tensors)
        assert [before.when, inside.when, after.when] == ["before", "inside", "after"]
        assert (before.included, before.excluded, before.first) == (after.included, after.excluded, after.first)
        changed = (before.included, before.excluded) != (inside.included, inside.excluded)
        assert changed is (name != "no_grad")
    _, inside, _ = dispatcher.around("autocast", tensors)
    assert "AutocastCPU" not in inside.excluded and inside.first == "AutogradCPU"
    _, inside, _ = dispatcher.around("inference_mode", tensors)
    assert inside.first == "CPU"


def test_registrations_name_the_aliases_that_fill_the_table():
    found = key_sets.registrations(ADD)
    assert "Autograd" in {one.key for one in found if one.alias}
    assert {"CPU"} <= {one.key for one in found if not one.alias and one.active}
    rows = {row.key: row for row in key_sets.table(ADD)}
    alias = next(one for one in found if one.key == "Autograd")
    assert rows["AutogradCPU"].registered_at == alias.registered_at, "the alias fills this row"
    assert all("/" not in one.registered_at for one in found)
    assert key_sets.registrations("aten::no_such_op") == () and key_sets.table("aten::no_such_op") == ()


def test_registrations_are_empty_where_torch_does_not_tell(monkeypatch):
    monkeypatch.delattr("torch._C._dispatch_dump")
    assert key_sets.registrations(ADD) == ()


def test_dtype_and_strides_change_no_set_and_other_things_do():
    held = dispatcher.sample_keys()
    same = {name for name, keys in held.items() if keys == held["float32"]}
    assert {"float32", "bfloat16", "int64", "transposed", "requires grad", "subclass without code"} == same
    assert "SparseCPU" in held["sparse"] and "Meta" in held["meta"]
    assert "Python" in held["subclass with __torch_dispatch__"] and "AutogradCPU" not in held["made in inference_mode"]


# ------------------------------------------------------------------------------------------------ witnesses


def test_witnesses_see_who_is_reached_and_change_nothing():
    a, b = torch.rand(3, requires_grad=True), torch.rand(3)
    plain, before = a + b, table_text()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with witness.witness(ADD, ("CPU", "AutogradCPU")) as seen:
            watched = a + b
            assert table_text() != before
    assert [one.key for one in seen] == ["AutogradCPU", "CPU"] and seen[0].tensors == ("float32", "float32")
    assert torch.equal(watched, plain) and watched.grad_fn.name() == plain.grad_fn.name()
    watched.sum().backward()
    assert torch.equal(a.grad, torch.ones(3))
    assert table_text() == before
    a + b
    assert len(seen) == 2


def test_witnesses_are_taken_back_whatever_happens():
    before = table_text()
    with pytest.raises(ZeroDivisionError), witness.witness(ADD, ("CPU",)):
        1 / 0  # noqa: B018
    with pytest.raises(ValueError, match="no row NoSuchKey"), witness.witness(ADD, ("CPU", "NoSuchKey")):
        pass
    with pytest.raises(ValueError, match="knows no op"), witness.witness("aten::no_such_op", ("CPU",)):
        pass
    assert table_text() == before
    with witness.witness(ADD, ("CPU",)) as first:
        torch.rand(1) + torch.rand(1)
    assert len(first) == 1 and table_text() == before


def test_a_witness_that_cannot_be_registered_is_no_half_witness(monkeypatch):
    """The second key fails: what stood at the first is taken back."""
    before, real, count = table_text(), torch.library.Library.impl, []

    def breaks(self, *arguments, **options):
        count.append(1)
        if len(count) == 2:
            raise RuntimeError("no second one")
        return real(self, *arguments, **options)

    monkeypatch.setattr(torch.library.Library, "impl", breaks)
    with pytest.raises(RuntimeError, match="no second one"), witness.witness(ADD, ("CPU", "AutogradCPU")):
        pass
    assert table_text() == before


def test_without_the_private_calls_nothing_is_watched_and_the_reason_is_said(monkeypatch):
    monkeypatch.setattr(seams, "has_witness", lambda: False)
    assert dispatcher.without_fall_through() == {} and dispatcher.one_kernel_for_dtypes() == {}
    one = dispatcher.lookup()
    assert "no witness" in one.missing and one.ran == () and one.derived == ("AutogradCPU", "CPU")
    with pytest.raises(RuntimeError, match="no witness"), witness.witness(ADD, ("CPU",)):
        pass
    assert "no witness" in layers.stacked().missing
    monkeypatch.setattr(seams, "dispatcher_missing", lambda: ("_dispatch_keys",))
    blind = dispatcher.lookup()
    assert blind.keys is None and blind.derived == () and blind.unmasked == "" and "_dispatch_keys" in blind.missing
    assert dispatcher.sample_keys() == {} and dispatcher.around("no_grad", {"a": torch.rand(1)}) == ()


# ------------------------------------------------------------------------------------------------ chains


@pytest.mark.parametrize("expression", OP_OF)
def test_the_derived_chain_is_the_one_that_runs_in_every_state(expression):
    before = table_text(OP_OF[expression])
    for name, one in dispatcher.lookups(expression).items():
        assert one.ran and one.ran == one.derived, name
        assert one.ran[0] == one.keys.highest
    assert table_text(OP_OF[expression]) == before


def test_the_mask_decides_under_autocast_and_in_inference_mode():
    looked = dispatcher.lookups()
    assert {name for name, one in looked.items() if one.unmasked != one.keys.highest} == {"autocast", "inference_mode"}
    assert looked["no_grad"].ran == looked["plain"].ran and len(looked["inference_mode"].ran) == 1
    assert dispatcher.lookup("a.add_(b)", "inference_mode").ran[0] == "ADInplaceOrView"
    assert dispatcher.lookup("x @ w", "autocast").ran[0] == "AutocastCPU"


def test_taking_the_fall_through_away_makes_autocast_see_the_add_and_only_under_autocast():
    assert dispatcher.without_fall_through() == {"plain": 0, "autocast": 1}


def test_all_dtypes_arrive_at_one_function():
    hits = dispatcher.one_kernel_for_dtypes()
    assert set(hits) == {"float32", "bfloat16", "int64", "transposed"} and set(hits.values()) == {1}


def test_the_explorers_sets_unite_arguments_that_differ():
    read = dispatcher.reader()
    plain, wrapped = (read("a + b", "plain", dispatcher.SECOND[at]) for at in (0, 2))
    assert set(wrapped.union) > set(plain.union) and wrapped.arguments["a"] == plain.arguments["a"]
    made = read("a + b", "plain", "made in inference_mode")
    assert made.arguments["b"] != made.arguments["a"] and made.union == made.arguments["a"]


def test_names_that_are_not_there_are_refused_in_words():
    with pytest.raises(ValueError, match="there is no state 'eval'"):
        dispatcher.state("eval")
    with pytest.raises(ValueError, match="'a - b' is not among"):
        dispatcher.lookup("a - b")


# ------------------------------------------------------------------------------------------------ layers


def test_four_layers_see_the_add_in_the_order_of_the_keys_however_they_were_entered():
    one, other = layers.stacked(), layers.stacked(entered=(layers.MODE, "autocast"))
    assert one.order == other.order == ("AutogradCPU", layers.MODE, layers.SUBCLASS, "CPU")
    assert one.result == other.result and one.result.kind == "Tagged" and one.result.same
    assert one.result.node == "AddBackward0" and one.result.dtype == "float32"
    assert one.sights[-1].tensors == ("float32", "float32") and one.sights[0].tensors == ("Tagged float32", "float32")
    product = layers.stacked("x @ w")
    assert product.order[0] == "AutocastCPU" and product.result.dtype == "bfloat16" and product.result.same
    assert layers.two_modes() == ("inner", "outer")


def test_own_kernels_leave_out_what_falls_through_or_is_made_of_other_ops():
    assert layers.own_kernels(ADD) == ("CPU", "AutogradCPU")
    assert layers.own_kernels("aten::matmul") == ("AutocastCPU",)
    assert layers.own_kernels("aten::mm") == ("CPU", "AutogradCPU", "AutocastCPU")


def test_compiled_the_layers_are_met_while_tracing_and_the_values_are_the_same():
    found, why = layers.try_compiled()
    assert why == "" and all(one.same and one.kind == "Tagged" and "Compiled" in one.node for one in found.results)
    assert [one.dtype for one in found.results] == ["float32", "bfloat16"]
    assert len(found.while_compiling) > 2 and found.per_call == ()
    assert "mm" in found.graph and "_to_copy" in found.graph
    assert {t for one in found.inside for t in one.tensors} == {"float32", "bfloat16"}, "only plain tensors are left"
    assert found.outside and list(layers.classes()[0].seen) == []


def test_a_torch_that_cannot_compile_says_why(monkeypatch):
    def refuses(ops, run):
        raise RuntimeError("no backend here\nand a long story")

    monkeypatch.setattr(layers.seams, "graph_backend", refuses)
    found, why = layers.try_compiled()
    assert found is None and "no backend here" in why and "story" not in why


def test_an_op_of_ones_own_is_asked_at_two_keys_and_can_be_made_twice():
    a, b = torch.rand(1), torch.rand(1)
    for _ in range(2):
        asked = []
        functions = other_layers.two_keys(
            lambda below, a, b, asked=asked: (asked.append("CPU"), a + b)[1],
            lambda below, a, b, asked=asked: (asked.append("AutogradCPU"), below(a, b))[1],
        )
        with other_layers.own_op(functions) as add:
            assert torch.equal(add(a, b), a + b)
            with torch.inference_mode():
                add(a, b)
        assert asked == ["AutogradCPU", "CPU", "CPU"]
        with pytest.raises(Exception, match=r".+"):
            add(a, b)
    with pytest.raises(RuntimeError), other_layers.own_op({"NoSuchKey": lambda below, a, b: a}):
        pass


def test_functionalization_writes_nothing_in_place_and_a_fake_tensor_has_no_data():
    found = other_layers.functionalized()
    assert "Functionalize" in found.keys and "add_" not in found.code.replace("add_.", "add_")
    assert found.code.splitlines()[0].startswith("add = aten.add.Tensor(") and "copy_" in found.code.splitlines()[-1]
    fake = other_layers.fake()
    assert fake.kind == "FakeTensor" and "Python" in fake.keys and fake.result == "shape (1,), float32, cpu"


def test_the_environment_variable_is_tried_in_a_process_of_its_own(monkeypatch):
    found = dispatcher.show_dispatch_trace()
    assert found["missing"] == "" and isinstance(found["printed"], list)
    monkeypatch.setattr(dispatcher.tools, "run", lambda command, seconds: (True, " [call] op=[aten::add]\nadded\n"))
    assert dispatcher.show_dispatch_trace()["printed"] == [" [call] op=[aten::add]"]
    monkeypatch.setattr(dispatcher.tools, "run", lambda command, seconds: (False, "no torch"))
    assert "no torch" in dispatcher.show_dispatch_trace()["missing"]


# ------------------------------------------------------------------------------------------------ prices


def test_every_layer_is_raced_and_the_subclass_keeps_nothing():
    race = dispatcher.price_layers("cpu", blocks=2)
    assert isinstance(race, Race) and race.control[0] == "plain" and not layers.classes()[0].seen
    assert {"no_grad", "inference_mode", "autocast", "function mode", "dispatch mode", "meta", "fake"} < set(race.readings)
    included, excluded = seams.thread_key_sets()
    assert seams.keys_among(included, ("Python",)) == (), "a mode was left behind"
    assert seams.keys_among(excluded, ("AutocastCPU",)) and torch.is_grad_enabled() and not torch.is_inference_mode_enabled()


def test_a_counted_line_enters_its_mode_and_leaves_it():
    program = callgrind.program_text(dispatcher.count_statements())
    functions = [node for node in ast.parse(program).body if isinstance(node, ast.FunctionDef)]
    assert len(functions) == len(dispatcher.count_statements())
    for statement, function in zip(dispatcher.count_statements(), functions, strict=True):
        text = ast.unparse(function)
        assert text.count("__enter__") == text.count("__exit__") == (statement.name in dispatcher.MODES)
        assert text.rfind("__exit__") > text.rfind("stop()") or statement.name not in dispatcher.MODES
    for mode in (dispatcher._function_mode()(), layers.classes()[2]()):
        with mode:  # what the child's lines enter
            assert float(torch.ones(1) + torch.ones(1)) == 2.0
    assert Statement("s", "c", "").rounds == callgrind.ROUNDS and Statement("s", "c", "", most_rounds=3).rounds == 3


def test_the_hops_own_instructions_are_told_apart_by_the_way_in():
    own = {
        "at::_ops::add_Tensor::call(at::Tensor const&)": 75.0,
        "at::_ops::add_Tensor::redispatch(c10::DispatchKeySet)": 64.0,
        "at::_ops::mm::call(at::Tensor const&)": 5.0,
        "torch::autograd::VariableType::call(at::Tensor)": 1000.0,
        "at::_ops::add_Tensor::callback(at::Tensor)": 1000.0,
    }
    assert dispatcher._hop(own) == {"call": 80.0, "redispatch": 64.0}


def test_counts_are_those_recorded_unless_live_ones_are_asked_for(monkeypatch):
    counts = {"total": {"plain": 1.0}, "hop": {}}
    study = studies.Study("dispatcher", "cpu", "2026-11-30T00:00:00+00:00", {"cpu": "A CPU", "torch": "2.13.0"}, {})
    monkeypatch.setattr(studies, "best", lambda name, device: None)
    assert dispatcher.instructions() == (None, "", "no study of the dispatcher is recorded on cpu")
    monkeypatch.setattr(studies, "best", lambda name, device: study)
    found, _, why = dispatcher.instructions()
    assert found is None and "instructions" in why
    whole = studies.Study(**{**vars(study), "parts": {"instructions": counts}})
    monkeypatch.setattr(studies, "best", lambda name, device: whole)
    found, label, why = dispatcher.instructions()
    assert found == counts and label.startswith("recorded") and why == ""
    monkeypatch.setattr(dispatcher, "count_layers", lambda device, progress: counts)
    assert dispatcher.instructions(live=True)[1].startswith("live")

    def refuses(device, progress):
        raise CallgrindError("valgrind: it is not installed")

    monkeypatch.setattr(dispatcher, "count_layers", refuses)
    found, label, why = dispatcher.instructions(live=True)
    assert found == counts and "not installed" in label and why == ""


def test_what_is_seen_can_be_recorded():
    found = studies.plain(dispatcher.seen())
    assert all(one["ran"] == one["derived"] for one in found["chains"].values()) and len(found["chains"]) == 20
    assert found["compiled"]["seen per call"] == 0 and found["two modes"] == ["inner", "outer"]


def test_every_part_of_the_study_runs_where_it_says():
    assert set(dispatcher.PARTS) == {"seen", "layers", "instructions"}
    assert dispatcher.PARTS["instructions"].devices == ("cpu",), "callgrind sees no GPU"


# ------------------------------------------------------------------------------------------------ planted faults

SET_FAULTS = {
    "fall-throughs left in": ("    for key in masked:\n        final = seams.without_key(final, key)\n", ""),
    "excludes forgotten": ("with_thread = (union | included) - excluded", "with_thread = union | included"),
    "includes forgotten": ("with_thread = (union | included) - excluded", "with_thread = union - excluded"),
    "the thread forgotten": ("with_thread = (union | included) - excluded", "with_thread = union"),
    "the lowest key first": ("everything = [row.key for row in rows]", "everything = [row.key for row in rows][::-1]"),
}


def derived_as_run() -> expected.Judgement:
    runs = [one for expression in OP_OF for one in dispatcher.lookups(expression).values()]
    return expected.judge("keys.as_derived", lesson02.looked({}, {}, {}, {}, runs, "cpu"))


def test_the_check_of_the_chains_is_green_without_a_fault():
    assert derived_as_run().holds and derived_as_run().value == 1.0


@pytest.mark.parametrize("fault", SET_FAULTS)
def test_the_check_of_the_chains_goes_red_on(fault, tmp_path, monkeypatch):
    monkeypatch.setattr(dispatcher, "key_sets", broken(key_sets, *SET_FAULTS[fault], tmp_path))
    assert not derived_as_run().holds
