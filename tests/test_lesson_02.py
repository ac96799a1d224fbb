"""Lesson 02: its claims, and sentences that stay true on another torch, on a GPU, and where something is missing.

`check_sentences(module)` holds every sentence against made-up sets, chains, stacks and prices in which the usual answer is
turned round; the planted faults are that module with one piece of its logic broken, and the same check must go red on each.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.broken import broken
from tests.factories import make_receipt
from tests.lesson_pages import code_cells, notebook
from tests.lookups import (
    BOTH,
    PRIORITY,
    REGISTERED,
    ROWS,
    blind,
    compiled,
    counts,
    four,
    inference,
    looked,
    looked_up,
    moments,
    race,
    samples,
    stack,
)
from utils.measure.key_sets import TableRow
from utils.measure.layers import MODE, SUBCLASS
from utils.measure.other_layers import Seen
from utils.model import expected, ledger
from utils.show import key_figures, lesson02

LABEL = "recorded · A CPU, 2 cores · torch 2.13.0 · 2026-11-30"


# ------------------------------------------------------------------------------------------------ the sentences


def check_sentences(m) -> None:
    """Hold every sentence of `m` (lesson02, or a broken copy of it) against what it was made from. Raises AssertionError."""
    check_carried(m)
    check_thread(m)
    check_first(m)
    check_table(m)
    check_layers(m)
    check_compiled(m)
    check_time(m)
    check_counts(m)
    check_deeper(m)
    check_numbers(m)
    check_missing(m)
    check_end(m)


def check_carried(m) -> None:
    hits = dict.fromkeys(m.DTYPES, 1)
    for changes, key in (({}, "one"), ({"transposed": ("CPU",)}, "strides"), ({"int64": ("CPU",)}, "each")):
        right, said = m.dtype_keys(samples(**changes), hits)
        assert right == m.DTYPE_ANSWERS[key][1]
        assert ("one and the same key set" in str(said)) == (key == "one")
    said = str(m.dtype_keys(samples(), hits)[1])
    assert (
        "Tensors with another set: sparse, meta, made in inference_mode." in said and "with the same set: requires grad" in said
    )
    assert "one and the same function" in said
    assert "int64 never" in str(m.dtype_keys(samples(), {**hits, "int64": 0})[1])
    rows = {row["tensor"]: row["change"] for row in m.samples_table(samples()).rows}
    assert rows["bfloat16"] == "the same" and rows["sparse"] == "+ SparseCPU, − CPU"


def check_thread(m) -> None:
    hits = {"plain": 0, "autocast": 7}
    right, said = m.autocast_key(samples(), moments(), hits)
    assert right == m.AUTOCAST_ANSWERS["carried"][1]
    assert "excluded before, let in inside, excluded after" in str(said)
    assert "without autocast never, under it 7 times" in str(said)
    right, said = m.autocast_key({name: ("CPU",) for name in samples()}, moments(), hits)
    assert right == m.AUTOCAST_ANSWERS["added"][1] and "No Autocast key" in str(said)
    table = m.thread_table({"autocast": moments(), "leaky": moments(("AutocastCPU", "CPU"), "CPU", ())})
    assert table.rows[0]["excludes"] == "AutocastCPU" and table.rows[0]["includes"] == "BackendSelect"
    assert table.rows[1]["excludes"] == "− AutocastCPU" and table.rows[1]["after"] == "as before"
    assert table.rows[2]["excludes"] == "+ CPU" and table.rows[2]["after"] == "changed"
    assert table.rows[2]["first"] == "AutogradCPU → CPU → AutogradCPU"


def check_first(m) -> None:
    right, said = m.first_key(looked())
    assert right == m.FIRST_ANSWERS["backend"][1]
    assert "alone say ADInplaceOrView" in str(said) and "in 3 of 3 runs" in str(said)
    for highest, key in (("CUDA", "backend"), ("AutogradCUDA", "autograd"), ("ADInplaceOrView", "union")):
        right, said = m.first_key({**looked(), "inference_mode": inference(highest=highest)})
        assert right == m.FIRST_ANSWERS[key][1] and highest in str(said)
    other = {**looked(), "plain": looked_up(ran=("CPU",))}
    assert "in 2 of 3 runs. Otherwise: a + b, plain (derived AutogradCPU → CPU, ran CPU)" in str(m.first_key(other)[1])
    assert not m.agrees(looked_up(ran=())) and m.agrees(looked_up())
    table = m.lookup_table(inference(), looked_up(missing="no witness"))
    assert table.rows[0]["unmasked"] == "ADInplaceOrView" and table.rows[0]["ran"] == "CPU"
    assert "no witness" in table.rows[1]["ran"] and table.rows[1]["derived"] == "AutogradCPU → CPU"
    assert any("PythonTLSSnapshot" in n for n in m.lookup_table(looked_up(final=("PythonTLSSnapshot", "CPU"))).notes)
    above = m.lookup_table(looked_up(expression="x @ w", final=("AutogradCPU",)), looked_up())
    assert "chain of x @ w ends above the backend" in above.notes[0] and not m.lookup_table(looked_up()).notes
    assert "Witnesses saw CPU" in m.first_figure(looked()).caption


def check_table(m) -> None:
    assert (
        "2 of 8 rows" in str(m.own_rows(ROWS))
        and "25 %" in str(m.own_rows(ROWS))
        and "2 rows fall through" in str(m.own_rows(ROWS))
    )
    table = m.table_by_kind("add", ROWS, REGISTERED)
    kinds = {row["entry"]: row["rows"] for row in table.rows}
    assert (
        kinds["falls through"] == "2" and kinds["from the alias Autograd"] == "1" and sum(map(int, kinds.values())) == len(ROWS)
    )
    assert any("Autograd (VariableType" in note and "CPU" not in note for note in table.notes)
    assert any("RegisterMeta_0.cpp:9 was replaced by that of _meta_registrations.py:5" in note for note in table.notes)
    beside = m.rows_beside({"add": ROWS, "mm": ROWS[:1]}, ("AutocastCPU", "CPU"))
    assert beside.rows[0]["add"].startswith("falls through") and beside.rows[0]["mm"] == "no row"


def check_layers(m) -> None:
    add, product, other = four()
    right, said = m.order(add, product, other, ("inner", "outer"))
    assert right == m.ORDER_ANSWERS["autograd"][1]
    assert "by autograd, logging mode, tensor subclass, backend kernel, in this order" in str(said)
    assert "the order is the same" in str(said) and "Autocast never sees it" in str(said)
    assert "first seen by autocast; it comes out as bfloat16" in str(said) and "the inner one saw the add first" in str(said)
    for keys, key in (((MODE, "CPU"), "mode"), ((SUBCLASS, "CPU"), "subclass"), (("AutocastCUDA", "CUDA"), "autocast")):
        right, said = m.order(stack(*keys), product, add)
        assert right == m.ORDER_ANSWERS[key][1] and "the order is the same" not in str(said)
        assert ("Autocast never sees it" in str(said)) == (key != "autocast")
    assert m.order(stack("CPU"), product, add)[0] is None
    assert "NOT equal" in str(m.order(stack("AutogradCPU", same=False), product, add)[1])
    figure = m.stack_figure(add, product)
    assert "autograd (add.Tensor (Tagged float32, float32)), then logging mode" in figure.alt


def check_compiled(m) -> None:
    right, said = m.compiled(compiled())
    assert right == m.COMPILED_ANSWERS["nothing"][1] and "reached 16 times; in a later call, never" in str(said)
    assert (
        "uncompiled (AddBackward0), and the mode saw 5 ops" in str(said)
        and "it saw 3 ops." in str(said)
        and "NOT" not in str(said)
    )
    assert m.compiled(compiled(per_call=4))[0] == m.COMPILED_ANSWERS["same"][1]
    assert m.compiled(compiled(node="AddBackward0"))[0] == m.COMPILED_ANSWERS["refused"][1]
    assert "NOT equal" in str(m.compiled(compiled(same=False))[1])
    assert "still ran; the mode saw 5" in str(m.compiled(compiled(outside="CompiledFunctionBackward"))[1])
    rows = m.compiled_table(compiled()).rows
    assert [row["times"] for row in rows] == ["16", "0", "3", "5"] and rows[0]["kinds"] == "Tagged, FakeTensor"


def check_time(m) -> None:
    said = str(m.mode_price(race()))
    assert "4.5 times as much" in said and "more than all C++ layers of the add together" in said
    assert "No difference is seen for no_grad and autocast" in said and re.search(r"\(inference_mode\): (19|20)\d ns less", said)
    assert re.search(r"autocast: (1.9|2.0)\d µs more", said) and re.search(r"(3.9|4.0)\d µs more all the same", said)
    small = str(m.mode_price(race(**{"dispatch mode": 1500.0, "inference_mode": 1000.0, "autocast": 2000.0})))
    assert "more than all" not in small and "% of the whole add" in small and "No difference is seen for no_grad." in small
    assert "(inference_mode): no difference seen" in small
    assert "No difference was seen" in str(m.mode_price(race(**{"dispatch mode": 1000.0})))
    assert "80 times the real one" in str(m.meta(race(), ROWS)) and "from Python (_meta_registrations.py:5)" in str(
        m.meta(race(), ROWS)
    )
    assert "as the real one does" in str(m.meta(race(meta=1000.0), ROWS))
    compiled_meta = (TableRow("Meta", "kernel", "RegisterMeta_0.cpp:1", False),)
    assert "from Python" not in str(m.meta(race(), compiled_meta)) and "RegisterMeta_0.cpp:1" in str(
        m.meta(race(), compiled_meta)
    )
    assert judged("price.meta", m.meta_price(race(), ROWS)) and not judged("price.meta", m.meta_price(race(meta=1500.0), ROWS))
    assert judged("price.meta", m.meta_price(race(meta=1500.0), compiled_meta)), "a C++ kernel is not judged"
    pictures = m.price_figures(race(), race(), LABEL, "")
    assert len(pictures) == 2 and LABEL not in pictures[0].svg and "A CPU, 2 cores" in pictures[1].svg
    assert "not measured (no study)" in str(m.price_figures(race(), None, "", "no study")[1])


def check_counts(m) -> None:
    said = str(m.argument(counts(), "", LABEL))
    assert "67, 73, 79 instructions for ops of 1, 2, 3 tensors" in said and ": 6 more for each tensor" in said and LABEL in said
    assert "139 of its 9,600" in said and "call and redispatch" in said
    uneven = counts(**{"torch.lerp(a, b, d)": {"call": 100.0, "redispatch": 0.0}})
    assert "6 to 27 more" in str(m.argument(uneven, "", LABEL))
    assert "That is what was counted" in str(m.layer_hops(counts())) and "inference_mode (call 75)." in str(
        m.layer_hops(counts())
    )
    both = {"call": 75.0, "redispatch": 64.0}
    for wrong in ({"inference_mode": both}, {"no_grad": {"call": 75.0, "redispatch": 0.0}}):
        assert "NOT what was counted" in str(m.layer_hops(counts(**wrong)))
    rows = {row["layer"]: row for row in m.two_prices(race(), counts(), LABEL).rows}
    assert rows["dispatch mode"]["time against"] == "4.50 ×" and rows["dispatch mode"]["instructions against"] == "3.65 ×"
    assert rows["no_grad"]["time against"] == rows["no_grad"]["instructions against"] == "no difference seen"
    assert rows["product, autocast"]["time against"] == "2.43 ×" and rows["meta"]["instructions"] is None
    assert "plain (again)" not in rows
    receipt = make_receipt()
    assert "In time, the hops of an add take" in str(m.hop_time(receipt))
    assert "not measured" in str(m.hop_time(None)) and "not measured" in str(m.hop_time(make_receipt(compiler=False)))


def check_deeper(m) -> None:
    seen = Seen(
        "functionalization", "Tensor", ("CPU", "Functionalize"), "shape (1,)", "add = aten.add(a, b)\ncopy_ = aten.copy_(a, add)"
    )
    assert m.seen_table(seen).rows[0]["keys"] == "CPU, Functionalize" and len(m.program(seen).rows) == 2
    said = str(m.own(["autograd", "backend", "backend"], 2, True))
    assert (
        "autograd and then backend; the value is that" in said
        and "In inference_mode: backend. Not asked any more: autograd." in said
    )
    assert "is NOT that" in str(m.own(["backend"], 1, False)) and "In inference_mode: nobody" in str(m.own(["backend"], 1, False))
    silent = {"printed": [], "torch": "2.13.0", "missing": ""}
    assert "printed nothing" in str(m.trace_variable(silent))
    assert "2 lines, the first: [call] op" in str(m.trace_variable({**silent, "printed": [" [call] op", "x"]}))
    assert "could not be tried here: no torch" in str(m.trace_variable({**silent, "missing": "no torch"}))


def judged(metric: str, numbers: dict) -> bool:
    return expected.judge(metric, numbers).holds


def check_numbers(m) -> None:
    hits, lifted = dict.fromkeys(m.DTYPES, 1), {"plain": 0, "autocast": 1}
    around = {"autocast": moments(), "no_grad": moments(("AutocastCPU",))}
    runs = [*looked().values(), looked_up("autocast", with_thread=BOTH, masked=("ADInplaceOrView", "AutocastCPU"))]

    def numbers(**changes):
        given = {"held": samples(), "hits": hits, "around": around, "autocast_hits": lifted, "lookups": runs, "device": "cpu"}
        return m.looked(**{**given, **changes})

    keys = ("keys.same_set", "keys.other_sets", "keys.one_kernel", "keys.put_back", "keys.as_derived", "keys.autocast_lifted")
    assert all(judged(metric, numbers()) for metric in (*keys, "keys.mask_decides"))
    assert not judged("keys.same_set", numbers(held=samples(int64=("CPU",))))
    assert not judged("keys.other_sets", numbers(held=dict.fromkeys(samples(), BOTH)))
    assert not judged("keys.one_kernel", numbers(hits={**hits, "int64": 0}))
    assert not judged("keys.put_back", numbers(around={**around, "leaky": moments(after=())}))
    assert not judged("keys.as_derived", numbers(lookups=[*runs, looked_up(ran=("CPU",))]))
    assert not judged("keys.as_derived", numbers(lookups=[*runs, looked_up(ran=())]))
    assert not judged("keys.autocast_lifted", numbers(autocast_hits={"plain": 1, "autocast": 1}))
    assert not judged("keys.mask_decides", numbers(lookups=[looked_up()]))

    add, product, other = four()
    layers = m.stacked(add, product, other, compiled(), "", "cpu")
    names = ("layers.order", "layers.product_more", "layers.equal", "layers.compiled", "layers.traced_away")
    assert all(judged(metric, layers) for metric in names)
    assert not judged("layers.order", m.stacked(add, product, stack(MODE, "AutogradCPU"), compiled(), "", "cpu"))
    assert not judged("layers.product_more", m.stacked(add, add, other, compiled(), "", "cpu"))
    wrong = replace(add, result=replace(add.result, same=False))
    assert not judged("layers.equal", m.stacked(wrong, product, other, compiled(), "", "cpu"))
    for one in (compiled(same=False), compiled(node="AddBackward0")):
        assert not judged("layers.compiled", m.stacked(add, product, other, one, "", "cpu"))
    assert not judged("layers.traced_away", m.stacked(add, product, other, compiled(per_call=2), "", "cpu"))

    prices = ("price.argument", "price.hops", "price.hop_gone", "price.flag_stays", "price.mode_instructions")
    assert all(judged(metric, m.counted(counts(), "")) for metric in prices)
    both = {"call": 75.0, "redispatch": 64.0}
    assert not judged("price.hop_gone", m.counted(counts(inference_mode=both), ""))
    assert not judged("price.flag_stays", m.counted(counts(no_grad={"call": 75.0, "redispatch": 0.0}), ""))
    assert not judged("price.argument", m.counted(counts(**{"torch.lerp(a, b, d)": {"call": 67.0, "redispatch": 0.0}}), ""))
    assert not judged("price.hops", m.counted(counts(plain={"call": 4000.0, "redispatch": 64.0}), ""))
    cheap = counts()
    cheap["total"]["dispatch mode"] = cheap["total"]["plain"]
    assert not judged("price.mode_instructions", m.counted(cheap, ""))


def check_missing(m) -> None:
    """Where this torch tells less, every sentence says so and no check turns red."""
    hidden = {"plain": blind(), "inference_mode": blind("inference_mode")}
    for right, said in (
        m.dtype_keys({}, {}),
        m.autocast_key({}, (), {}),
        m.first_key(hidden),
        m.order(stack(missing="gone"), *four()[:2]),
    ):
        assert right is None and "Not seen here" in str(said)
    assert m.first_figure(hidden) is None and m.stack_figure(stack()) is None and m.compiled_table(None) is None
    for table in (m.samples_table({}), m.thread_table({"autocast": ()}), m.table_by_kind("add", (), ())):
        assert "Not seen here" in table.text()
    assert "Not seen here" in str(m.own_rows(())) and "Nothing was compiled here: no Python" in str(
        m.compiled(None, "no Python")[1]
    )
    assert "No instructions are at hand: nothing recorded" in str(m.argument(None, "nothing recorded"))
    assert "No instructions" in str(m.layer_hops(None)) and "none are at hand" in m.two_prices(race(), None).text()
    gone = [
        m.looked({}, {}, {"autocast": ()}, {}, [blind()], "cpu"),
        m.stacked(stack(missing="gone"), stack(missing="gone"), stack(missing="gone"), None, "no compiler", "cpu"),
        m.counted(None, "nothing recorded"),
    ]
    met = 0
    for metric in expected.metrics("dispatcher"):
        for thing in gone:
            if set(re.findall(r"[a-z][\w ]*\w", metric["measure"])) <= set(thing) and metric["id"] != "layers.equal":
                found = expected.judge(metric["id"], thing)
                assert found.holds and "not measured here" in found.note, metric["id"]
                met += 1
    assert met >= 12
    assert "not measured" not in m.verdicts(gone[0], gone[1], gone[2]).caption
    assert "nothing recorded" in m.verdicts(*gone).text() and "no compiler" in m.verdicts(*gone).text()


def check_end(m) -> None:
    assert "First your key" in str(m.transfer("", None)) and "Not seen here" in str(m.transfer("CPU", blind()))
    own = looked_up("inference_mode", "ADInplaceOrView", expression="a.add_(b)", final=("CPU", "ADInplaceOrView"))
    assert "the first key is ADInplaceOrView, as you derived" in m.transfer(" adinplaceorview", own).caption
    assert "you said CPU" in m.transfer("CPU", own).caption
    numbers = m.looked(samples(), {}, {}, {"plain": 0, "autocast": 1}, list(looked().values()), "cpu")
    table = m.verdicts(numbers, m.stacked(*four(), compiled(), "", "cpu"), m.counted(counts(), ""))
    seen = {row["id"]: row["seen"] for row in table.rows}
    assert seen["A22"].startswith("3 of 3 runs") and seen["A24"].startswith("139 of 9,600") and seen["A50"].startswith("2 of 2")
    assert "add 4" in seen["A23"] and "product 5" in seen["A23"] and "without autocast: never; under it: once" in seen["A39"]


def test_every_sentence_is_true_on_findings_that_surprise():
    check_sentences(lesson02)


# ------------------------------------------------------------------------------------------------ figures and the explorer


def test_the_grid_marks_the_highest_of_each_step_and_its_table_says_the_same():
    keys = inference().keys
    figure = key_figures.grid(keys, title="steps")
    last = {row["key"]: row["− fall-throughs"] for row in figure.table.rows}
    assert last["CPU"] == key_figures.MARKS[key_figures.FIRST] and last["ADInplaceOrView"] == key_figures.MARKS[key_figures.OUT]
    assert [row["key"] for row in figure.table.rows] == sorted(last, key=PRIORITY.index, reverse=True)
    alone = key_figures.grid(keys, title="steps", upto=1)
    assert "− excludes" not in alone.table.columns and "<svg" in alone.svg and "united" in alone.alt
    assert "▲" not in "".join(row["a's keys"] for row in figure.table.rows), "an argument alone calls nobody"


def test_who_was_reached_is_drawn_in_order_and_said_in_order():
    figure = key_figures.reached({"run": [("top", "add (x)"), ("low", "add (y)")]}, ("top", "middle", "low"), title="Who")
    assert "<svg" in figure.svg and "not reached" in figure.svg
    assert [row["who"] for row in figure.table.rows] == ["top", "low"] and figure.alt.index("top") < figure.alt.index("low")


def test_the_explorer_takes_the_steps_one_by_one():
    asked = []

    def read(expression, state, last):
        asked.append((expression, state, last))
        return None if state == "blind" else inference().keys

    panel = lesson02.explorer(read, ["a + b", "x @ w"], ["plain", "blind"], ["float32", "subclass"])
    assert "− fall-throughs" not in panel.shown.table.columns, "the answer is not there before the steps are taken"
    assert "− fall-throughs" in panel.fire("steps", 4).table.columns
    assert "Not seen here" in str(panel.fire("state", "blind"))
    panel.fire("last", "subclass")
    assert asked[-1] == ("a + b", "blind", "subclass") and panel.message == ""
    panel.fire("steps", 5)
    assert "not a number from 1 to 4" in panel.message


# ------------------------------------------------------------------------------------------------ claims and the notebook


def test_every_claim_of_the_lesson_is_settled_and_names_its_recording():
    claims = {c.id: c for c in ledger.claims("dispatcher")}
    assert set(claims) == {"A22", "A23", "A24", "A39", "A50", "B46"}
    assert not [c.id for c in claims.values() if c.verdict == "open" or not c.sentence]


def test_counts_are_made_here_only_when_asked_for():
    text = "\n".join(c.source for c in code_cells(notebook(2)))
    assert re.search(r"^live = False", text, re.MULTILINE) and "live=live" in text and "live=True" not in text


def test_nothing_outside_a_fold_names_the_first_key():
    """The explorer begins with the union alone; the key that runs stands in folds."""
    for cell in code_cells(notebook(2)):
        if cell.id in ("explore", "recall", "exit"):
            continue
        for output in cell.outputs:
            assert "AutogradC" not in output.get("data", {}).get("text/plain", ""), cell.id


# ------------------------------------------------------------------------------------------------ planted faults

FAULTS = {
    "every dtype said to share a set": ('"one" if different == 1 else', '"one" if True else'),
    "strides taken for dtypes": ('"strides" if dtypes == 1 else "each"', '"each"'),
    "a key that is let in told as excluded": ('"excluded" if key in moment.excluded else "let in"', '"excluded"'),
    "what a context leaves behind unseen": (
        'if (before.included, before.excluded) == (after.included, after.excluded) else "changed"',
        'if True else "changed"',
    ),
    "every first key told as the backend's": ('"backend" if layer == "backend kernel" else "union"', '"backend"'),
    "a run without witnesses told as agreeing": (
        "return bool(one.ran) and one.ran == one.derived",
        "return one.ran == one.derived or not one.ran",
    ),
    "a chain that differs told as agreeing": ("return bool(one.ran) and one.ran == one.derived", "return bool(one.ran)"),
    "fall-throughs counted as kernels": ('return "fallthrough" if row.fallthrough else row.kind', "return row.kind"),
    "an order that changed told as the same": ("same = other.order == add.order", "same = True"),
    "autocast said to miss what it sees": ('if "autocast" not in map(layer_of, add.order):', "if True:"),
    "a wrong value told as equal": ("same = all(one.result.same for one in stacks)", "same = True"),
    "an uncompiled function told as compiled": ('"refused" if refused else', '"refused" if False else'),
    "the mode's whole price told as what it adds": ("if more.ns > whole:", "if True:"),
    "a difference inside the error told as one": ("if not more.seen:", "if False:"),
    "meta told as Python whatever its kernel": ('return ".py:" in place', "return True"),
    "a recorded race told as live": (
        'figures.compare(recorded, title="The same on the host of a GPU", source=label)',
        'figures.compare(recorded, title="The same on the host of a GPU", source="live")',
    ),
    "the prediction of hops confirmed whatever was counted": ("if hops_as_predicted(counts) else", "if True else"),
    "a small difference of instructions told as one": ("if abs(ratio - 1) <= LEAST_COUNTED else", "if False else"),
    "only one way in counted": ('"hops": sum(hop["plain"].values())', '"hops": hop["plain"]["call"]'),
    "a wrong value counted as equal": ('"equal": sum(one.result.same for one in (add, product, other))', '"equal": 3'),
    "runs that differ counted as derived": ('"as derived": sum(map(agrees, seen)) if seen', '"as derived": len(seen) if seen'),
    "what was not counted passes as zero": ('absent = NotMeasured(why or "no instructions are at hand")', "absent = 0.0"),
    "any key is the derived one": ("if mine.strip().lower() == first.lower() else", "if True else"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_in_the_lessons_logic_go_red(fault, tmp_path):
    wrong = broken(lesson02, *FAULTS[fault], tmp_path)
    with pytest.raises((AssertionError, pytest.fail.Exception, ValueError, KeyError, IndexError)):
        check_sentences(wrong)
