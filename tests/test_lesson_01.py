"""Lesson 01: sentences that stay true on another torch, on a GPU, and where something is missing. (What all lessons keep is in
test_lesson_structure.py.)

What the lesson says is in `utils/show/lesson01.py`. `check_sentences(module)` holds every sentence against the trace, tree or
timeline it was made from, on ones where the usual order is turned round; the planted faults are that module with one piece of
its logic broken, and the same check must go red on each.
"""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.broken import broken
from tests.lesson_pages import code_cells, notebook, outside
from tests.traces import GEMM, RULES, WHERE, batch, blind, hops, key_sets, looked, op_run, product, timeline_of, traced, tree
from utils.measure import dispatch_trace as tracing
from utils.measure import trace, two_lanes
from utils.measure.backtrace import Backtrace, Frame
from utils.measure.fold_tree import Rules
from utils.measure.fold_tree import fold as fold_tree
from utils.measure.timeline import TimelineError
from utils.model import expected, ledger
from utils.show import instructions, lesson01
from utils.show.tables import Table

NOTEBOOK = Path(__file__).resolve().parent.parent / "notebooks" / "01_one_add.ipynb"
ANSWERS = ("NUMBER_ANSWERS", "PROMOTER_ANSWERS", "NO_GRAD_ANSWERS", "START_ANSWERS", "TAX_ANSWERS")
RNG = random.Random(11)


@pytest.fixture(scope="module")
def nb():
    return notebook(1)


# ------------------------------------------------------------------------------------------------ structure


def test_a_prediction_of_each_kind_has_its_reason(nb):
    text = "\n".join(c.source for c in code_cells(nb))
    assert set(re.findall(r'^\w+ = predict\("([\w.]+)"', text, re.MULTILINE)) == set(lesson01.WHY)


def test_committed_outputs_name_no_autograd_key_outside_a_closed_fold(nb):
    for cell in code_cells(nb):
        for output in cell.outputs:
            assert "AutogradC" not in outside(output.get("data", {}).get("text/html", "")), cell.id


def test_a_live_tree_and_a_debugger_are_asked_for_and_never_by_themselves(nb):
    text = "\n".join(c.source for c in code_cells(nb))
    assert re.search(r"^live = False", text, re.MULTILINE) and "live=live" in text
    assert re.search(r"^ask = False", text, re.MULTILINE) and "live=ask" in text
    assert not re.search(r"live=True", text)


def test_every_claim_of_the_lesson_is_settled_and_in_its_table():
    claims = {c.id: c for c in ledger.claims("one_add")}
    assert set(claims) == {"A25", "A40", "B47"}
    assert not [c for c in claims.values() if c.verdict == "open" or not c.sentence]
    table = lesson01.verdicts(traced(), product(), batch(), ("PyNumber_Add", "slot_nb_add"), "method_descriptor")
    assert [row["id"] for row in table.rows] == list(claims)
    assert all(row["seen"] for row in table.rows)


# ------------------------------------------------------------------------------------------------ the sentences


def check_sentences(m) -> None:
    """Hold every sentence of `m` (lesson01, or a broken copy of it) against what it was made from. Raises AssertionError."""
    check_overloads(m)
    check_promoter(m)
    check_keys(m)
    check_tree(m)
    check_numbers(m)
    check_lanes(m)
    check_product(m)
    check_missing(m)
    check_end(m)


def check_overloads(m) -> None:
    for one, key in (
        (traced("a + 1.0", ops=(op_run("add.Tensor"), op_run("to.dtype", 1))), "tensor"),
        (traced("a + 1.0", "add.Scalar"), "scalar"),
        (traced("a + 1.0", ops=(), op=""), "python"),
    ):
        right, said = m.number({"a + b": traced(), "a + 1.0": one})
        assert right == m.NUMBER_ANSWERS[key][1]
        assert (key == "tensor") == ("as a + b does" in str(said))
    assert "1 more ops ran: to.dtype" in str(
        m.number({"a + b": traced(), "a + 1.0": traced(ops=(op_run("x"), op_run("to.dtype", 1)))})[1]
    )
    assert "add.Scalar" in str(m.number({"a + b": traced(), "a + 1.0": traced("a + 1.0")})[1])
    table = m.overload_table(traced())
    assert [row["chosen"] for row in table.rows] == ["the only one it names", "chosen", "passed over: a number"]


def check_promoter(m) -> None:
    mixed = traced("i + b", dtypes=("int64", "float32"), ops=(op_run("add.Tensor"), op_run("to.dtype", 1)))
    right, said = m.promoter(traced(), mixed, product())
    assert right == m.PROMOTER_ANSWERS["op"][1]
    assert "i is int64 and b is float32" in str(said) and "that is the conversion" in str(said) and "refuses" in str(said)
    silent = replace(mixed, ops=(op_run("add.Tensor"),))
    assert "No conversion ran" in str(m.promoter(traced(), silent)[1])
    by_key = replace(mixed, hops=hops("AutogradCPU", "MixedCPU"))
    assert m.promoter(traced(), by_key)[0] == m.PROMOTER_ANSWERS["dispatcher"][1]
    by_parser = replace(mixed, op="aten::add.Mixed")
    right, said = m.promoter(traced(), by_parser)
    assert right == m.PROMOTER_ANSWERS["parser"][1] and "nobody before the op" not in str(said)


def check_keys(m) -> None:
    right, said = m.no_grad(looked())
    assert right == m.NO_GRAD_ANSWERS["same"][1] and "runs either way" in str(said) and "1 instead of 2" in str(said)
    skipped = traced(keys=key_sets("CPU"), hops=hops("CPU"))
    right, said = m.no_grad(looked(no_grad=skipped))
    assert right == m.NO_GRAD_ANSWERS["backend"][1] and "runs either way" not in str(said)
    assert m.no_grad(looked(no_grad=traced(keys=key_sets("NoGradMode"))))[0] == m.NO_GRAD_ANSWERS["other"][1]
    table = m.keys_table(looked())
    first = next(row for row in table.rows if row["step"] == "the first key")
    assert first["plain"] == "AutogradCPU" and first["inference_mode"] == "CPU"
    kernel_there = replace(
        product(), keys=key_sets("AutocastCPU", with_thread=("CPU", "AutocastCPU"), masked=()), result_dtype="bfloat16"
    )
    told = str(m.autocast(looked()["autocast"], kernel_there))
    assert "add.Tensor falls through there" in told and "matmul has a kernel at AutocastCPU" in told
    assert told.index("falls through") < told.index("has a kernel") and "casts first" in told and "bfloat16" in told
    told = str(m.autocast(looked()["autocast"], replace(kernel_there, result_dtype="float32")))
    assert "finds nothing to cast" in told, "autocast leaves float64, and what is in the lower precision already"
    assert "no Autocast key" in str(m.autocast(traced(), kernel_there))


def check_tree(m) -> None:
    small = tree()
    assert small.total == 1000
    folded = fold_tree(small, RULES)
    said = str(m.kernel_share(folded, small))
    assert "50 of 1,000 instructions: 5.0 %" in said and "“interpreter” with 300" in said and "recorded" in said
    assert "“GIL” with 900" in str(m.kernel_share(fold_tree(tree(take_gil=900.0), RULES), small))
    said = str(m.depth(small, RULES))
    assert "interpreter (python)" in said
    assert "it is 2 calls" in said and "20 of 1,000 instructions, 2.0 %" in said
    said = str(m.result_share(folded, small, RULES))
    assert "450 of 1,000 instructions: 45 %" in said and "650: 65 %" in said
    assert m.promotion_cost(small) is None
    assert "40 of 1,040" in str(m.promotion_cost(tree(**{"at::TensorIteratorBase::compute_types(int)": 40.0})))
    assert any("another torch" in note for note in m.tree_view(small, RULES, "another torch").notes)
    grad = fold_tree(tree(make_node=80.0, take_gil=50.0), RULES)
    said = str(m.with_grad(folded, grad))
    assert "70 instructions less" in said and "“autograd node” with 80" in said and "“GIL” takes fewer: 50 against 200" in said
    assert "lesson 05" in said and "lesson 05" not in str(m.with_grad(folded, fold_tree(tree(make_node=80.0), RULES)))


def check_numbers(m) -> None:
    small = tree()
    counted = m.counted(fold_tree(small, RULES), small)
    assert (counted["total"], counted["explained"], counted["kernel"], counted["result"]) == (1000, 1000, 50, 450)
    part = fold_tree(small, Rules(RULES.rows[1:]))
    assert m.counted(part, small)["explained"] < 800, "what no rule explains is not explained"
    mixed = traced("i + b", hops=hops("AutogradCPU", "MixedCPU", "CPU"))
    ran = m.ran({"a + b": traced(), "a + 1.0": traced("a + 1.0", "add.Scalar")}, mixed, looked())
    assert (ran["overloads"], ran["hops"], ran["no_grad"], ran["inference_mode"], ran["two dtypes"]) == (2, 2, 2, 1, 3)


def check_lanes(m) -> None:
    right, said = m.starts(timeline_of(12.0))
    assert right == m.START_ANSWERS["after"][1] and "4.00 µs after" in str(said) and "2.00 µs" in str(said)
    right, said = m.starts(timeline_of(6.5))
    assert right == m.START_ANSWERS["before"][1] and "1.50 µs before" in str(said)
    assert "NVIDIA H200" in str(said) and "20 %" in str(said)  # 2 of 10 µs
    right, said = m.starts(None, "no timeline of a GPU is recorded yet")
    assert right is None and "no timeline of a GPU is recorded yet" in str(said)
    assert m.starts(replace(timeline_of(), segments={}))[0] is None
    (picture,) = m.lanes(timeline_of(12.0))
    lanes = [(row["lane"], row["what"], row["start"], row["lasts"]) for row in picture.table.rows]
    assert lanes == [
        ("host", "aten::add", "1.00 µs", "3.00 µs"),
        ("host", "launch #7", "4.00 µs", "4.00 µs"),
        ("host", "aten::add", "8.00 µs", "2.00 µs"),
        ("device", "no kernel to run (waiting)", "0 ns", "12.0 µs"),
        ("device", "kernel #7", "12.0 µs", "2.00 µs"),
    ]
    assert "NVIDIA H200" in picture.alt and "<svg" in picture.svg
    (many,) = m.lanes(timeline_of(12.0, launches=3))
    assert [row["what"] for row in many.table.rows].count("kernel") == 3, "one colour for all kernels of a chain"
    assert m.lanes(None) == [] and m.lanes(replace(timeline_of(), segments={})) == []


def check_product(m) -> None:
    said = str(m.ops(traced(), product(), batch()))
    assert "a + b (1 and 1): once" in said and "x @ w (8 × 8 and 8 × 8): 2 times" in said and "5 times" in said
    assert "aten::reshape" in said and "aten::mm" not in said.split("adds")[1]
    assert said.endswith("which only change how the same memory is read.")
    computing = replace(batch(), ops=(*batch().ops, op_run("bmm", 1)))
    assert str(m.ops(traced(), product(), computing)).endswith("aten::bmm."), "not every op that is added is a view"
    rows = m.ops_table(product(), batch()).rows
    assert [row["op"] for row in rows][:2] == ["aten::matmul", "· aten::mm"] and len(rows) == 7
    assert rows[1]["hops"] == "CPU"
    add, gemm = tree(), tree("x @ w", **GEMM)
    a, x = fold_tree(add, RULES), fold_tree(gemm, RULES)
    assert (m.outside(a), m.outside(x)) == (950, 950)
    right, said = m.tax(a, x)
    assert right == m.TAX_ANSWERS["same"][1] and "950 instructions and x @ w 950: 1.0 times" in str(said)
    assert "Inside, 50 and 340" in str(said) and "differ more" not in str(said)
    moved = fold_tree(tree("x @ w", **{**GEMM, "alloc_cpu": 60.0, "take_gil": 290.0}), RULES)
    assert "“GIL” takes 90 more, “allocator” 40 fewer" in str(m.tax(a, moved)[1])
    for python, key in ((1500.0, "more"), (0.0, "same"), (-200.0, "less")):
        other = fold_tree(tree("x @ w", python=300.0 + python, **GEMM), RULES)
        if key == "less":
            other = replace(other, total=other.total - 400.0)
        assert m.tax(a, other)[0] == m.TAX_ANSWERS[key][1], key
    said = str(m.library(gemm, RULES, "another CPU"))
    assert (
        "SGEMM is the library's door" in said and "200 instructions, 140 of them in mkl_kernel" in said and "The other 60" in said
    )
    driven = tree("x @ w", **{**GEMM, "SGEMM": 120.0, "mkl_kernel": 80.0})
    assert "80 of them in mkl_kernel" in str(m.library(driven, RULES, "")), "what drives costs more here, and multiplies nothing"
    assert "No library" in str(m.library(add, RULES, ""))
    trap = {"device": "cpu", "wrong": 400_000.0, "honest": 10_000.0}
    assert "40 times as much" in str(m.first_product(trap))
    kept = ({"wrong": 8e7, "honest": 2e4}, "recorded · NVIDIA H200")
    rows = m.two_phenomena(trap, kept, gemm, RULES).rows
    assert (
        "390 µs" in rows[0]["how much"]
        and "80.0 ms" in rows[1]["how much"]
        and "NVIDIA H200" in rows[1]["how much"]
        and "60 instructions" in rows[2]["how much"]
    )
    assert [row["paid"] for row in rows] == ["once a process", "once a process", "in every call"]
    assert "not counted" in m.two_phenomena(trap, None, add, RULES).rows[1]["how much"]
    numbers = m.traced_product(product(), batch(), a, x)
    assert (numbers["ops"], numbers["ops in three dimensions"], numbers["add tax"], numbers["product tax"]) == (2, 5, 950, 950)


def check_missing(m) -> None:
    """On a torch that tells less, or without a tree, every sentence says so and no check turns red."""
    lines = {"a + b": blind(), "a + 1.0": blind("a + 1.0")}
    states = {name: blind() for name in looked()}
    for right, said in (m.number(lines), m.promoter(blind(), blind("i + b")), m.no_grad(states)):
        assert right is None and "no longer has the dispatcher's table" in str(said)
    assert "no longer" in m.keys_table(states).text() and "no longer" in m.overload_table(blind()).text()
    for said in (m.kernel_share(None, None), m.depth(None, RULES), m.result_share(None, None, RULES), m.tax(None, None)[1]):
        assert "No call tree" in str(said)
    assert m.tax(None, None)[0] is None and m.rows_view(None, None) is None and m.strip_view(None, None) is None
    assert "none is recorded" in str(m.tree_view(None, RULES, "none is recorded")) and m.tax_view(None, None, None) is None
    gone = [m.counted(None, None), m.ran(lines, blind(), states), m.traced_product(blind(), blind(), None, None)]
    for metric in expected.metrics("one_add"):
        for thing in gone:
            if set(re.findall(r"[\w ]+", metric["measure"].replace(" / ", "|"))) <= set(thing):
                assert (
                    expected.judge(metric["id"], thing).holds and "not measured here" in expected.judge(metric["id"], thing).note
                )


def check_end(m) -> None:
    assert "Nothing traced yet" in str(m.transfer(None, None))
    own = traced("F.linear(x, w)", "linear", ops=(op_run("linear"), op_run("matmul", 1)))
    assert "First your count" in str(m.transfer(own, None))
    assert "not the op of this exercise" in str(m.transfer(traced(), 1))
    assert "as you expected" in m.transfer(own, 2).caption and "you expected 5" in m.transfer(own, 5).caption
    frames = tuple(
        Frame(i, f, "") for i, f in enumerate(("at::native::impl(int)", "PyNumber_Add", "_PyEval_EvalFrameDefault", "main"))
    )
    found = Backtrace("a + b", "impl", frames, "recorded", WHERE, "2026-11-29T00:00:00+00:00", "gdb: it is not installed")
    table = m.frames_table(found)
    assert [row["function"] for row in table.rows] == ["native::impl", "PyNumber_Add", "_PyEval_EvalFrameDefault"]
    assert any("gdb: it is not installed" in note for note in table.notes)
    assert "No backtrace" in str(m.frames_table(None))


def test_every_sentence_is_true_on_data_that_surprises():
    check_sentences(lesson01)


# ------------------------------------------------------------------------------------------------ what is here, live


def test_the_lessons_checks_hold_on_this_torch_whatever_its_version():
    """The same calls as the lesson's, on this torch: what is looked up holds, or says why it cannot be seen."""
    import torch

    values = {name: torch.rand(1) for name in ("a", "b")}
    lines = {line: trace.dispatch_trace(line, arguments=values) for line in ("a + b", "a + 1.0", "1.0 + a")}
    mixed = trace.dispatch_trace("i + b", arguments={**values, "i": torch.randint(1, 9, (1,))})
    states = {}
    for name, mode in (("plain", torch.enable_grad), ("no_grad", torch.no_grad), ("inference_mode", torch.inference_mode)):
        with mode():
            states[name] = trace.dispatch_trace("a + b", arguments=values)
    ran = lesson01.ran(lines, mixed, states)
    square, cube = trace.dispatch_trace("x @ w"), trace.dispatch_trace("x3 @ w")
    add, gemm = trace.recorded_trees()["a + b"], trace.recorded_trees()["x @ w"]
    counted = lesson01.counted(trace.fold(add), add)
    product_there = lesson01.traced_product(square, cube, trace.fold(add), trace.fold(gemm))
    for metric in ("one_overload", "dtype_hops", "no_grad_hops", "inference_hops"):
        assert expected.judge(f"trace.{metric}", ran).holds, metric
    for metric in ("explained", "kernel_share", "result_share"):
        assert expected.judge(f"trace.{metric}", counted).holds, metric
    for metric in ("ops", "same_tax"):
        assert expected.judge(f"product.{metric}", product_there).holds, metric


def test_the_committed_trees_show_what_the_verdicts_say():
    """A40: slot, wrapper, THPVariable_add, in this order; A25: the types are worked out below the backend's hop."""
    add = trace.recorded_trees()["a + b"]
    path = instructions.path_to_loop(add, trace.load_rules(add.where["torch"]))
    order = [
        next(i for i, f in enumerate(path) if name in f)
        for name in ("slot_nb_add", "TypeError_to_NotImplemented", "THPVariable_add(")
    ]
    assert order == sorted(order)
    below = [f for f in add.self_cost if "compute_types(" in f]
    assert below and all("TensorIteratorBase" in caller for f in below for caller in add.callers(f))
    assert not any("Parser" in caller for f in below for caller in add.callers(f))


def test_a_timeline_is_live_on_a_gpu_recorded_elsewhere_and_words_where_there_is_none(monkeypatch):
    kept = timeline_of()
    monkeypatch.setattr(two_lanes.rooms, "timeline", lambda: (kept, ""))
    assert two_lanes.two_lanes("cpu") == (kept, "there is no GPU here")
    live = timeline_of(6.0)
    monkeypatch.setattr(two_lanes.rooms, "record_timeline", lambda path, progress: live)
    assert two_lanes.two_lanes("cuda") == (live, "")

    def fails(path, progress):
        raise TimelineError("CUPTI could not start")

    monkeypatch.setattr(two_lanes.rooms, "record_timeline", fails)
    found, why = two_lanes.two_lanes("cuda")
    assert found is kept and "CUPTI could not start" in why
    monkeypatch.setattr(two_lanes.rooms, "timeline", lambda: (None, "no timeline of a GPU is recorded yet"))
    assert two_lanes.two_lanes("cpu") == (None, "no timeline of a GPU is recorded yet")


def test_a_timeline_appears_in_the_lesson_as_soon_as_its_file_exists(tmp_path, monkeypatch):
    monkeypatch.setattr(two_lanes.rooms, "FOLDER", tmp_path)
    assert two_lanes.two_lanes("cpu")[0] is None
    (tmp_path / "made-up.json").write_text(json.dumps(timeline_of(6.5).to_dict()), encoding="utf-8")
    found, why = two_lanes.two_lanes("cpu")
    right, said = lesson01.starts(found, why)
    assert right == lesson01.START_ANSWERS["before"][1] and "there is no GPU here" in str(said)
    assert len(lesson01.lanes(found)) == 1 and "recorded" in lesson01.lanes(found)[0].caption


# ------------------------------------------------------------------------------------------------ the room of figures


def test_names_are_short_and_say_whose_they_are():
    pairs = {
        "at::native::structured_ufunc_add_CPU::impl(at::Tensor const&, at::Tensor const&)": "structured_ufunc_add_CPU::impl",
        "torch::autograd::VariableType::(anonymous namespace)::add_Tensor(c10::DispatchKeySet, int)": "VariableType::add_Tensor",
        "at::_ops::add_Tensor::call(at::Tensor const&)": "_ops::add_Tensor::call",
        "c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reset_not_null_(c10::TensorImpl*)": (
            "intrusive_ptr<TensorImpl>::reset_not_null_"
        ),
        "_object* torch::autograd::TypeError_to_NotImplemented_<&torch::autograd::THPVariable_add>(_object*)": (
            "autograd::TypeError_to_NotImplemented_"
        ),
        "pthread_mutex_lock@@GLIBC_2.2.5": "pthread_mutex_lock",
        "torch::PythonArgs::tensor(int) [clone .constprop.0]": "PythonArgs::tensor",
        "slot_nb_add": "slot_nb_add",
        "at::native::(anonymous namespace)::add_kernel(int&)::{lambda()#1}::operator()() const [clone .isra.0]": (
            "add_kernel::{lambda}"
        ),
        "void c10::function_ref<void (char**, long)>::callback_fn<at::native::AVX2::VectorizedLoop2d<at::x> >(long, char**)": (
            "AVX2::VectorizedLoop2d"
        ),
    }
    assert {name: instructions.short(name) for name in pairs} == pairs


def test_the_tree_as_a_table_keeps_the_order_the_costs_and_every_root_of_a_row():
    small = tree(**GEMM)
    table = instructions.tree_table(small, RULES, 0.01)
    named = [row["function"].replace("· ", "") for row in table.rows]
    assert named[0] == "python" and table.rows[0]["share"] == "100 %"
    assert {"alloc_cpu", "subtype_dealloc", "take_gil", "SGEMM"} <= set(named)
    depths = [row["function"].count("· ") for row in table.rows]
    assert depths[0] == 0 and all(b <= a + 1 for a, b in zip(depths, depths[1:], strict=False))
    bars = [row["bar"] for row in table.rows]
    assert len(bars[0]) == instructions.BAR_CELLS and all(bars)
    for row, line in zip(table.rows, instructions.tree_lines(small, RULES, 0.01), strict=True):
        assert row["instructions"] == f"{small.inclusive(line.function):,.0f}"


def test_a_function_that_several_call_follows_once_for_all_of_them():
    small = tree()
    shared = {**small.edges, ("subtype_dealloc", "take_gil"): 100.0, ("python", "take_gil"): 100.0, ("take_gil", "lock"): 120.0}
    several = replace(small, self_cost={**small.self_cost, "take_gil": 80.0, "lock": 120.0}, edges=shared)
    table = instructions.tree_table(several, RULES, 0.01)
    named = [row["function"] for row in table.rows]
    assert named.count("take_gil, all its callers") == 1 and sum("take_gil" in name for name in named) == 3
    assert table.rows[-2]["instructions"] == "200" and table.rows[-2]["stage"] == "handle copies and GIL"
    assert any("all its callers" in note for note in table.notes)
    assert not any("all its callers" in note for note in instructions.tree_table(small, RULES, 0.01).notes)


def test_a_function_that_only_passes_the_call_on_is_left_out_and_counted():
    small = tree()
    through = {**small.self_cost, "passes": 1.0}
    edges = {edge: cost for edge, cost in small.edges.items() if edge[1] != "subtype_dealloc"}
    edges |= {("python", "passes"): 351.0, ("passes", "subtype_dealloc"): 350.0}
    longer = replace(small, self_cost=through, edges=edges)
    lines = instructions.tree_lines(longer, RULES, 0.01)
    assert "passes" not in [line.function for line in lines]
    assert sum(line.passed for line in lines) == 1
    dear = replace(longer, self_cost={**through, "passes": 100.0})
    assert "passes" in [line.function for line in instructions.tree_lines(dear, RULES, 0.01)]


def test_figures_carry_every_row_in_words_and_in_their_table():
    real = trace.recorded_trees()
    a, x = trace.fold(real["a + b"]), trace.fold(real["x @ w"])
    label = real["a + b"].label()
    rows = instructions.rows_figure(a, label)
    lane = instructions.strip(a, label, lit=("output",))
    pair = instructions.compare_rows({"a + b": a, "x @ w": x}, label, title="Two ops")
    for picture in (rows, lane, pair):
        assert "<svg" in picture.svg and "torch 2.1" in picture.alt and "torch 2.1" in picture.caption
        for row in a.rows:
            if round(row.instructions):
                assert f"{row.instructions:,.0f}" in picture.alt and f"{row.instructions:,.0f}" in picture.table.text()
    total = sum(int(row["instructions"].replace(",", "")) for row in rows.table.rows)
    assert abs(total - a.total) <= len(a.rows)
    assert isinstance(rows.table, Table)


# ------------------------------------------------------------------------------------------------ planted faults

FAULTS = {
    "every line is told to run add.Tensor": ('"tensor" if one.op == both.op else "scalar"', '"tensor"'),
    "the parser acquitted whatever it chose": ('"parser" if same.op != mixed.op else ', ""),
    "the dispatcher acquitted whatever the hops": ('"dispatcher" if _places(same) != _places(mixed) else "op"', '"op"'),
    "no_grad told to change nothing, unseen": (
        '"same" if without.keys.highest == plain.keys.highest else',
        '"same" if True else',
    ),
    "a key that falls through told as a kernel": ("elif key in one.keys.masked:", "elif False:"),
    "the result without what frees it": ('("allocator", "output_tensor", "wrap_free")', '("allocator", "output_tensor")'),
    "the locks forgotten": ('LOCKS = ("gil", "handle_copies")', "LOCKS = ()"),
    "the total for what the rows explain": ('"explained": sum(row.instructions for row in fold.rows)', '"explained": tree.total'),
    "hops of one state for all": ("else len(one.hops)", "else len(plain.hops)"),
    "a wait told as a head start": ('"before" if first.wait_us < 0 else "after"', '"before" if first.wait_us > 0 else "after"'),
    "the wait counted as work": ('device.append((1e3 * free, 1e3 * start, "no kernel to run", "wait"))', "pass"),
    "the library counted as tax": ('INSIDE = ("kernel", "library", "inner_hops")', 'INSIDE = ("kernel",)'),
    "the tax is the same whatever the trees": ('"more" if b >= 2 * a else "less" if b <= 0.5 * a else "same"', '"same"'),
    "every op that is added told as a view": ("if VIEWS.issuperset(new) else", "if True else"),
    "every product under autocast told as cast": ("if kept else", "if False else"),
    "whatever costs most told as multiplying": ("micro = path[-1]", "micro = max(mine, key=tree.self_cost.__getitem__)"),
    "choosing the code told as multiplying": ("count(whole - own)} find", "count(own)} find"),
    "the warm call counted into the first": ("format_time(trap['wrong'] - trap['honest'])", "format_time(trap['wrong'])"),
    "any expression counts as the transfer op": ('if "aten::linear" not in', "if None in"),
    "a missing tree passes as zero": ('why = NotMeasured("no call tree is at hand")', "why = 0.0"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_in_the_lessons_logic_go_red(fault, tmp_path):
    wrong = broken(lesson01, *FAULTS[fault], tmp_path)
    with pytest.raises((AssertionError, pytest.fail.Exception, ValueError, KeyError, IndexError)):
        check_sentences(wrong)


def test_the_trace_of_a_torch_that_tells_nothing_still_makes_a_lesson(monkeypatch):
    """A private call that is gone costs its part: the rest of the trace is there, and says what is missing."""
    monkeypatch.setattr(tracing.seams, "dispatcher_missing", lambda: ("the table of an op",))
    found = trace.dispatch_trace("a + b")
    assert found.keys is None and found.missing and found.op == "aten::add.Tensor"
    assert "the table of an op" in str(lesson01.no_grad({"plain": found, "no_grad": found})[1])
