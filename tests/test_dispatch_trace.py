"""What is looked up for an expression: schema, overloads, promotion, key sets by set arithmetic, table rows, ops that ran."""

from __future__ import annotations

import pytest
import torch

from utils.measure import dispatch_trace as room
from utils.measure import seams
from utils.measure.dispatch_trace import dispatch_trace


def test_an_add_chooses_its_schema_and_passes_the_others_over():
    found = dispatch_trace("a + b")
    assert found.op == "aten::add.Tensor" and found.schema.startswith("aten::add.Tensor(Tensor self, Tensor other")
    assert [o.name for o in found.overloads if o.chosen] == ["add.Tensor"]
    passed = {o.name: o.why for o in found.overloads if not o.chosen}
    assert "out=" in passed["add.out"] and "number" in passed["add.Scalar"]
    assert found.type_error.startswith("add() received an invalid combination")
    assert found.signatures and all("Tensor other" in s for s in found.signatures)


def test_a_number_reaches_the_same_schema_as_a_tensor():
    """A claim says otherwise: Python wraps the number, and the op converts it inside."""
    found = dispatch_trace("a + 1.0")
    assert found.op == "aten::add.Tensor" and len(found.top_ops) == 1 < len(found.ops)


@pytest.mark.parametrize(
    ("expression", "promotes"),
    [("a + b", True), ("a + 1.5", True), ("x @ w", False), ("torch.relu(a)", False), ("x3 @ w", False)],
)
def test_who_promotes_is_found_by_trying(expression, promotes):
    found = dispatch_trace(expression)
    assert (found.promoted == "float32") is promotes and (found.promoted == "") is not promotes
    assert ("promotes" in found.promotion) is promotes
    assert found.result_dtype == "float32"


def test_an_integer_and_a_float_give_the_promoted_dtype():
    found = dispatch_trace("a + b", arguments={"a": torch.randint(9, (3,)), "b": torch.rand(3)})
    assert [arg.dtype for arg in found.arguments] == ["int64", "float32"]
    assert found.result_dtype == found.promoted == "float32"


def test_the_plain_key_set():
    keys = dispatch_trace("a + b").keys
    assert keys.arguments["a"] == keys.arguments["b"] == keys.union
    assert set(keys.union) == {"CPU", "ADInplaceOrView", "AutogradCPU", "AutocastCPU"}
    assert {"BackendSelect", "ADInplaceOrView"} == set(keys.included) and "AutocastCPU" in keys.excluded
    assert set(keys.masked) == {"BackendSelect", "ADInplaceOrView"}
    assert keys.final == ("CPU", "AutogradCPU") and keys.highest == "AutogradCPU"


def test_inference_mode_skips_autograd_and_no_grad_does_not():
    with torch.inference_mode():
        assert dispatch_trace("a + b").keys.highest == "CPU"
        tensors = {"a": torch.rand(1), "b": torch.rand(1)}
    plain = {"a": torch.rand(1), "b": torch.rand(1)}
    with torch.no_grad():
        assert dispatch_trace("a + b", arguments=plain).keys.highest == "AutogradCPU"
    with torch.inference_mode():
        # Their own sets hold AutogradCPU; the thread's exclusion of it shows in no printed set.
        inside = dispatch_trace("a + b", arguments=plain).keys
    assert "AutogradCPU" in inside.union and "AutogradCPU" not in inside.with_thread and inside.highest == "CPU"
    assert "AutogradCPU" not in dispatch_trace("a + b", arguments=tensors).keys.arguments["a"]


def test_autocast_is_seen_by_the_product_and_not_by_the_add():
    with torch.autocast("cpu"):
        add, product = dispatch_trace("a + b").keys, dispatch_trace("x @ w").keys
    assert add.highest == "AutogradCPU" and "AutocastCPU" in add.masked
    assert product.highest == "AutocastCPU"


@pytest.mark.filterwarnings("ignore:Warning only once for all operators")
def test_what_the_trace_says_is_what_runs():
    """A kernel put at the key that the trace names for the last hop is the one that an add reaches."""
    key = dispatch_trace("a + b").hops[-1].key
    hits = []
    library = torch.library.Library("aten", "IMPL")
    try:
        library.impl(
            "add.Tensor", lambda a, b, *, alpha=1: hits.append(1) or torch.sub(a, b, alpha=-alpha), key, allow_override=True
        )
        a, b = torch.rand(3), torch.rand(3)
        assert torch.allclose(a + b, a - (-b)) and hits
    finally:
        library._destroy()


def test_the_hops_of_an_add_and_of_a_composite_op():
    assert [(h.key, h.kind) for h in dispatch_trace("a + b").hops] == [("AutogradCPU", "autograd kernel"), ("CPU", "kernel")]
    product = [(h.op, h.key, h.kind) for h in dispatch_trace("x @ w").hops]
    assert product[0] == ("aten::matmul", "AutogradCPU", "math kernel")
    assert ("aten::mm", "AutogradCPU", "autograd kernel") in product and ("aten::mm", "CPU", "kernel") in product
    row = dispatch_trace("a + b").row("CPU")
    assert row.kind == "kernel" and row.registered_at.startswith("RegisterCPU") and not row.fallthrough
    with pytest.raises(KeyError, match="no row"):
        dispatch_trace("a + b").row("Abacus")


def test_a_three_dimensional_product_is_several_ops():
    found = dispatch_trace("x3 @ w", grad=True)
    inside = [op.name for op in found.ops if op.depth == 1]
    assert [op.name for op in found.top_ops] == ["aten::matmul"]
    assert "aten::mm" in inside and "aten::_unsafe_view" in inside and len(inside) >= 3
    assert found.grad and all(arg.requires_grad for arg in found.arguments)


@pytest.mark.parametrize("expression", ["torch.add(a, b)", "torch.ops.aten.add(a, b)", "1 + 1", "F.linear(x, w)", "a.add(b)"])
def test_only_the_parser_that_reads_the_call_is_quoted(expression):
    """The function's signatures for a function, the method's for a method, and none where no parser of torch's is called."""
    signatures = dispatch_trace(expression).signatures
    wanted = {"torch.add(a, b)": "(Tensor input, Tensor other,", "a.add(b)": "(Tensor other,"}.get(expression)
    assert len(signatures) == bool(wanted) and all(one.startswith(wanted) for one in signatures)


@pytest.mark.parametrize("expression", ["", "a +", "q + a", "a @ x3 @ x3", "import os"])
def test_what_cannot_be_evaluated_is_told_in_words(expression):
    with pytest.raises(ValueError, match=r"there is no expression|no Python expression|not known here|cannot be evaluated"):
        dispatch_trace(expression)


def test_the_observer_leaves_the_screen_and_the_next_trace_alone(capfd):
    first, second = dispatch_trace("a + b"), dispatch_trace("a + b")
    assert first.ops == second.ops and capfd.readouterr() == ("", "")


def test_an_observer_that_changed_costs_the_ops_only(monkeypatch):
    monkeypatch.setattr(room, "_from_nodes", lambda nodes: nodes["gone"])
    found = dispatch_trace("a + b")
    assert found.ops == () and found.op == "" and found.keys is None
    assert any("cannot be observed" in said for said in found.missing) and found.signatures


def test_a_dispatcher_that_lost_a_name_is_told(monkeypatch):
    monkeypatch.setattr(seams, "dispatcher_missing", lambda: ("_dispatch_keys",))
    found = dispatch_trace("a + b")
    assert found.keys is None and found.table == () and found.hops == () and found.op == "aten::add.Tensor"
    assert any("no longer has _dispatch_keys" in said for said in found.missing)


def test_nodes_are_ordered_by_their_call_and_nested_by_their_parents():
    def node(number, parent, schema):
        return {"id": number, "ctrl_deps": parent, "name": "n", "attrs": [{"name": "op_schema", "value": schema}]}

    nodes = [
        node(9, 4, "aten::mm(Tensor a) -> Tensor"),
        node(4, 2, "aten::matmul(Tensor a) -> Tensor"),
        node(2, 1, ""),
        node(1, 1, ""),
    ]
    assert [(op.name, op.depth) for op in room._from_nodes(nodes)] == [("aten::matmul", 0), ("aten::mm", 1)]
