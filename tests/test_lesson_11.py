"""Lesson 11: sentences that stay true whatever a machine gives, rules that a graph must keep, payback, and planted faults.

`check_sentences(module)` holds the lesson's module against parts made in code, in which the usual order is turned round;
`check_panel(module)` holds the controls over payback. Each planted fault is one of these modules with a piece
of its logic broken.
"""

from __future__ import annotations

import math
import random
import re

import pytest
import torch

from tests import captures as made
from tests.broken import broken
from tests.captures import HERE, THERE, both
from utils.measure import capture, graph_by_hand, study
from utils.model import expected, ledger, payback, recordings
from utils.model.quantities import NotMeasured
from utils.show import capture_figures, lesson11, payback_explorer

QUESTIONS = ("empty", "stale", "kept", "gain", "longer", "fx", "tax", "wide", "both", "pays", "inputs", "tape")


# ------------------------------------------------------------------------------------------------ the sentences


def check_sentences(m) -> None:
    check_by_hand(m)
    check_nodes(m)
    check_ways(m)
    check_blocks(m)
    check_pays(m)
    check_calls(m)
    check_judged(m)
    check_end(m)


class Made:
    """What a by-hand graph says of itself."""

    by, why, nodes, baked, capture_s, calls = "baked kernels, C++", "", 3, 2, 0.0021, ("aten::mul", "aten::add")


def check_by_hand(m) -> None:
    old, new = torch.randn(8), torch.randn(8)
    nan = torch.full((8,), math.nan)
    right, said = m.empty(nan, old, Made)
    assert right == m.EMPTY_ANSWERS["nothing"][1] and "nothing has run yet" in str(said)
    assert "baked kernels, C++, 3 nodes, 2 of them baked; capture took 2.10 ms" in str(said)
    assert m.empty(old.clone(), old, Made)[0] == m.EMPTY_ANSWERS["answer"][1]
    for output, kind in ((old, "old"), (new, "new"), (nan, "neither"), (old + 0.01, "neither")):
        assert m.stale(output, old, new)[0] == m.STALE_ANSWERS[kind][1], kind
    assert "read in the capture, and says nothing" in str(m.stale(old, old, new)[1])
    right, said = m.kept(new, old, new)
    assert right == m.KEPT_ANSWERS["second"][1] and "the output that was kept changed" in str(said) and "clones" in str(said)
    right, said = m.kept(old, old, new)
    assert right == m.KEPT_ANSWERS["first"][1] and "still holds the first result" in str(said) and "clones" not in str(said)
    assert "holds neither" in str(m.kept(nan, old, new)[1])
    assert m.by_hand("cpu", old, new, old, new) == {"device": "cpu", "stale": 1.0, "overwritten": 1.0}
    assert m.by_hand("cpu", new, new, old, new)["stale"] == 0.0, "the replay followed the name"
    assert m.by_hand("cpu", old, old, old, new)["overwritten"] == 0.0, "the kept output stayed"


def check_nodes(m) -> None:
    found = both(made.nodes(), made.nodes("cuda", fixed=4000.0, node=1000.0, eager=7000.0, host=20.0))
    said = str(m.gain(found))
    here, there = said.split(HERE)
    assert "costs 1.00 µs. A replay of 100 takes 5.30 µs: 19 times as fast" in here
    assert "F is 300 ns (270 ns to 331 ns), c 50.0 ns a node (49.0 ns to 51.0 ns): in brackets" in here
    assert "misses a reading by up to 4.0 %." in here
    assert "One thread is host and device" in here and "One thread" not in there
    assert "host pays 5.00 µs for a replay of 100 nodes, 23.0 µs for 1,000" in there and THERE in there
    assert "it bends" not in said
    assert "Beyond, it bends: 5,000 nodes take 2.7 times what the line says" in str(m.gain(both(made.nodes(bend=2.74))))
    nothing = both(made.nodes(fixed=20.0, low=-15.0))
    assert "F is not to be told from 0 (up to 23.0 ns)" in str(m.gain(nothing))
    # without a recorded study the receipt's three numbers stand in, with their label; with one they do not
    best = recordings.best("cuda")
    assert best is not None and "the host pays 3.30 µs for a replay of 100 nodes" in str(m.gain(nothing))
    assert recordings.label(best.where, best.date, "cuda") in str(m.gain(nothing))
    assert "no GPU has been recorded yet" in str(m.gain(nothing)) and "receipt" not in said
    for fixed, node, kind in ((1e7, 1.0, "same"), (4e4, 100.0, "some"), (300.0, 50.0, "ten")):
        assert m.longer(both(made.nodes(fixed=fixed, node=node)))[0] == m.LONGER_ANSWERS[kind][1], kind
    said = str(m.longer(both(made.nodes(fixed=1000.0, node=90.0)))[1])
    assert f"took {m.times(91 / 10)} as long as 100" in said and "replay F is 10 %" in said
    assert "F is 0 %" in str(m.longer(both(made.nodes(fixed=-20.0)))[1])
    one, two = m.node_views(found)
    assert HERE in one.alt and THERE in two.alt and "the host, for a replay" in two.alt and "the host" not in one.alt
    assert "F + n · c, fitted" in one.alt and one.table.rows[-1]["one by one"] is None
    assert [row["nodes"] if "nodes" in row else row["n"] for row in two.table.rows] == ["1", "10", "100", "1,000", "5,000"]


def check_ways(m) -> None:
    for ns, kind in ((3000.0, "slower"), (1000.0, "alike"), (200.0, "faster")):
        assert m.fx(both(made.ways(fx=ns)))[0] == m.FX_ANSWERS[kind][1], kind
    said = str(m.fx(both(made.ways()))[1])
    assert "eager 1.00 µs an op, the fx graph 3.00 µs, 3.0 times as much" in said
    assert "a list of torch.add(out=) 1.1 times as fast, a list of torch.ops calls 0.56 times" in said and HERE in said
    assert "It is the calls and not the graph" in str(m.fx(both(made.ways(fx_python=1040.0)))[1])
    assert "a graph takes 1.04 µs." in str(m.fx(both(made.ways(fx_python=1040.0)))[1])
    assert "the calls" not in str(m.fx(both(made.ways(fx_python=2900.0)))[1]), "the graph itself then"
    assert "the calls" not in str(m.fx(both(made.ways(fx=1000.0, fx_python=1040.0)))[1])
    largest = {"python": {"add_out": 345.0}, "result": {"out": 200.0, "eager": 3000.0}, "dispatcher": {"cpu_add_out": 100.0,
               "out": 700.0}, "setup": {"cpu_add_out": 590.0, "add_out": 595.0, "out": 598.0, "eager": 600.0}}  # fmt: skip
    for layer, ns in largest.items():
        assert m.tax(both(made.ways(**ns)))[0] == m.TAX_ANSWERS[layer][1], layer
    said = str(m.tax(both(made.ways()))[1])
    assert "An op costs 1.00 µs. Left out, one after the other: making results: 110 ns (11 %) saved; Python: 400 ns" in said
    assert "each op's set-up: 300 ns (30 %) saved. What stays is 40.0 ns" in said and "25 times as fast as eager" in said
    unseen = str(m.tax(both(made.ways(error=0.17)))[1])
    assert "making results: no difference seen" in unseen and "the dispatcher: 150 ns" in unseen
    assert m.tax(both(made.ways(error=3.0)))[0] is None
    assert "making results: 200 ns (20 %) more; Python: " in str(m.tax(both(made.ways(out=1200.0)))[1])
    right, said = m.tax(both(made.ways(without=("add_out", "cpu_add_out", "baked"))))
    assert right is None and "did not run (no C++ compiler was found)" in str(said)
    figure = m.way_figures(both(made.ways()))[0]
    assert "baked kernels 40.0 ns, 25 times as fast" in figure.alt and HERE in figure.alt
    assert len(figure.table.rows) == len(made.WAYS)
    assert m.way_figures(both(None)) == [] and m.way_figures(both(made.ways()), ops=7) == []
    graph = both(None, made.nodes("cuda", fixed=0.0, node=1000.0, eager=6500.0))
    rows = {row["way"]: row for row in m.sizes(both(made.ways()), graph)[0].rows}
    title = made.WAYS["fx"][0]
    assert rows[title] == {"way": title, "10x1": "0.33", "100x1": "0.33", "100x4096": "0.33"}
    assert rows["a CUDA graph, on another machine"] == {"way": "a CUDA graph, on another machine", "100x1": "6.5"}
    best = recordings.best("cuda")
    by_receipt, whose = m.graph_gain(both(None))
    assert by_receipt == pytest.approx(6.4, rel=0.01) and whose == recordings.label(best.where, best.date, "cuda")
    assert m.graph_gain(both(None, made.nodes("cuda")))[1] == THERE
    assert f"CUDA graph: {whose}" in m.sizes(both(made.ways()), both(None))[0].notes
    rows = {row["way"]: row for row in m.rules(both(made.ways())).rows}
    assert rows[made.WAYS["baked"][0]]["stale"] == "yes" and rows[title]["stale"] == "no"
    assert "no compiler" in str(m.rules(both(None)))
    forms = m.three_forms(torch.fx.symbolic_trace(lambda t: torch.relu(t * 2)), type("L", (), {"graph": Made}))
    assert "mul, relu" in forms.rows[0]["holds"] and "aten::mul, aten::add" in forms.rows[1]["holds"]


def check_blocks(m) -> None:
    moved = both(made.same_bytes())
    for gain, kind in ((1.02, "same"), (0.8, "same"), (1.4, "some"), (2.2, "half")):
        assert m.wide(both(made.block(wide={"captured": gain})), moved)[0] == m.WIDE_ANSWERS[kind][1], kind
    assert m.wide(both(made.block(without=("captured",))), moved)[0] is None
    said = str(m.wide(both(made.block()), both(made.same_bytes(), made.same_bytes("cuda")))[1])
    assert "op by op 20.0 ms; captured 20.0 ms, 1.0 times as fast; fused 8.00 ms, 2.5 times" in said
    assert "op by op 5 calls; a replay has 5 and moves 12,000 bytes, as against 12,000: the same" in said
    assert "op by op 5 kernels; a replay has 5: the same" in said
    drawn = made.same_bytes("cuda")
    drawn["numbers"] |= {"captured_calls": 7.0, "extra_calls": 2.0}
    said = str(m.wide(both(made.block()), both(drawn))[1])
    assert "a replay has 7: the same, and 2 more that hand the graph its random numbers." in said
    assert "moves 24,000 bytes, as against 12,000: not the same" in str(m.wide(both(None), both(made.same_bytes(times=2.0)))[1])
    for small, kind in (({}, "both"), ({"captured": 9.0}, "captured"), ({"fused": 9.0}, "fused"),
                        ({"fused": 6.5}, "fused"), ({"fused": 5.0}, "both"),
                        ({"captured": 0.9, "fused": 0.7, "both": 0.8}, "none")):  # fmt: skip
        assert m.both_cures(both(made.block(small=small)))[0] == m.BOTH_ANSWERS[kind][1], kind
    assert m.both_cures(both(made.block(without=("captured", "fused", "both"))))[0] == m.BOTH_ANSWERS["none"][1]
    said = str(m.both_cures(both(made.block()))[1])
    assert "op by op 50.0 µs; captured 16.7 µs, 3.0 times as fast" in said and "torch.compile 33.3 µs" in said
    assert "copied in: 900 ns, inside its price" in said
    figure = m.block_figures(both(made.block(), made.block("cuda")))[1]
    assert THERE in figure.alt and "fused and captured a small block 7.0 times, a wide block 2.5 times" in figure.alt
    row = m.block_tables(both(made.block()))[0].rows[1]
    assert m.block_tables(both(made.block()))[0].rows[0]["once"] is None
    assert (row["size"], row["once"], row["gain"]) == ("a small block", "20.0 ms", "3.00")


def check_pays(m) -> None:
    said = str(m.pays(both(made.pays(), made.pays("cuda", saving=-1.0))))
    here, there = said.split(HERE)
    assert "100 adds, captured: 5.00 ms once, saves 90.0 µs a step, paid after 56 steps" in here
    assert "torch.compile (nothing cached): 12.0 s once, saves 15.0 µs a step, paid after 800,000 steps" in here
    assert "saves nothing, it never pays" in there and THERE in there
    rows = m.pay_tables(both(made.pays(saving=-1.0)))[0].rows
    assert [(row["steps"], row["saving"]) for row in rows] == [("56", "90.0 µs"), ("never", "nothing")]
    found = m.cures(both(made.pays(), made.pays("cuda")))
    assert [one.name.rsplit("(")[-1] for one in found] == ["here)", "here)", "recorded)", "recorded)"]
    assert found[0].before_ns == pytest.approx(100e3) and found[0].after_ns == pytest.approx(10e3) and found[0].label == HERE
    panel = m.payback_panel(both(made.pays()))
    assert panel.values["cure"] == payback_explorer.MADE_UP.name, "it starts with made-up numbers: the others tell an answer"
    assert m.cures(both(None)) == []


def check_calls(m) -> None:
    for per, fixed, kind in ((1.0, 15e3, "same"), (100.0, 15e3, "some"), (600.0, 15e3, "more")):
        assert m.inputs(both(made.guards(per=per, fixed=fixed)))[0] == m.INPUTS_ANSWERS[kind][1], kind
    said = str(m.inputs(both(made.guards()))[1])
    assert "of 2 inputs takes 16.2 µs, of 50 45.0 µs: 600 ns an input (95 %: 540 ns to 660 ns)" in said
    assert "300 ns an input, and with its guards left out, which nobody should, 200 ns: so the guards are 100 ns of it" in said
    assert "Guards, counted: 1.00 more for each input more." in said
    assert "no difference is seen" in str(m.inputs(both(made.guards(bare=290.0)))[1])
    assert "no difference is seen" in str(m.inputs(both(made.guards(bare=350.0)))[1])
    assert "left out" not in str(m.inputs(both(made.guards(bare=None)))[1])
    right, said = m.inputs(both(made.guards(compiled=False)))
    assert right is None and "A compiled call" not in str(said) and "An empty graph" in str(said)
    one, two = m.input_figures(both(made.guards(), made.guards("cuda", bare=None)))
    assert "2 inputs a compiled sum 16.2 µs, an empty graph 5.60 µs, an empty graph, guards left out (unsafe) 5.40 µs" in one.alt
    assert "10 inputs a compiled sum –" in one.alt and "left out" not in two.alt and THERE in two.alt
    for left, kind in ((0, "none"), (1, "one"), (4, "more")):
        assert m.tape(both(made.joint(compiled=left)))[0] == m.TAPE_ANSWERS[kind][1], kind
    said = str(m.tape(both(made.joint(cut=1)))[1])
    assert "eager leaves 4 nodes (ReluBackward0, " in said and "compiled 1 (CompiledFunctionBackward)" in said
    assert "has 9 ops; cut in two they are 5 forward and 5 backward, and 3 tensors go across" in said
    assert "torch.ops.aten.mm" in str(m.joint_code(both(made.joint()))) and HERE in str(m.joint_code(both(made.joint())))
    assert "no compiler" in str(m.joint_code(both(None)))
    said = str(m.edges(both(None, made.pdl())))
    assert "1.00 µs behind a plain edge, 800 ns behind a programmatic one, 720 ns when" in said and ": less." in said
    assert ": no less." in str(m.edges(both(None, made.pdl(programmatic=1100.0))))
    assert "were not measured" in str(m.edges(both(None, made.pdl(programmatic=None))))
    nothing = both(None)
    for say in (m.longer, m.fx, m.tax, m.both_cures, m.inputs, m.tape):
        right, said = say(nothing)
        assert right is None and str(said).count("Not measured") == 2, say
    for say in (m.pays, m.edges, m.gain):
        assert str(say(nothing)).count("Not measured") == 2, say
    assert m.node_views(nothing) == m.block_figures(nothing) == m.input_figures(nothing) == m.pay_tables(nothing) == []


def check_judged(m) -> None:
    found = m.judged("cpu", **made.study())
    assert set(found) == set(m.JUDGED)
    rows = {"gain": "nodes", "longer": "nodes", "fx": "stand_ins", "listed": "stand_ins", "baked": "stand_ins", "wide": "block"}
    rows |= {"both": "block", "same_bytes": "same_bytes", "per_input": "guards", "one_node": "joint"}
    for metric, name in rows.items():
        assert expected.judge(f"capture.{metric}", found[name]).value is not None, metric
    recorded = m.judged("cpu", **{name: both(None, one.first.value) for name, one in made.study().items()})
    for metric, name in rows.items():
        one = expected.judge(f"capture.{metric}", recorded[name])
        assert one.value is None and "no compiler" in one.note, "a recording is never judged as if live"
    short = made.nodes()
    short["rows"] = [row for row in short["rows"] if row["nodes"] != 1000]
    assert isinstance(m.judged("cpu", nodes=both(short))["nodes"]["longer"], NotMeasured)
    bare = m.judged("cpu", stand_ins=both(made.ways(without=("baked",))))["stand_ins"]
    assert isinstance(bare["baked_100x1"], NotMeasured) and bare["fx_100x1"] == pytest.approx(1 / 3)


def check_end(m) -> None:
    given = {"ops": 40, "host_us": 8.0, "fixed_us": 10.0, "node_us": 1.5, "once_s": 0.05}
    assert "Nothing predicted yet" in str(m.transfer(None, **given))
    near, far = m.transfer(200, **given), m.transfer(156, **given)
    steps = math.ceil(0.05e6 / (40 * 8.0 - 10 - 60))
    assert near.rows[3]["number"] == f"{steps}" == "200" and "Near enough" in near.notes[0] and "More than 10 %" in far.notes[0]
    assert [row["number"] for row in near.rows[:3]] == ["320 µs", "70.0 µs", "250 µs"]
    table = m.verdicts("cpu", made.study())
    assert {row["id"] for row in table.rows} == {c.id for c in ledger.claims("capture")}


def test_every_sentence_is_true_on_data_that_surprises():
    check_sentences(lesson11)


FAULTS = {
    "an output of nothing called the answer": ('"answer" if computed else "nothing"', '"answer" if graph.nodes else "nothing"'),
    "NaN like everything": ("(a - b).abs() <= 1e-5", "~((a - b).abs() > 1e-5)"),
    "the new numbers called the old ones": ('"new" if _alike(output, of_new)', '"old" if _alike(output, of_new)'),
    "the kept output never looked at": ('"second" if second else "first"', '"second"'),
    "a rule that cannot be broken": ("float(_alike(kept, of_new) and not _alike(kept, first))", "float(_alike(kept, kept))"),
    "F and its noise printed as a price": ('if n["fixed_lo"] > 0', 'if n["fixed"] > 0'),
    "a host's part on one thread": ('"cpu"\n            else f"The host', '"tpu"\n            else f"The host'),
    "the receipt beside a study": ("part.there.value is not None or best is None", "best is None"),
    "a long graph always ten times": ('"same" if found < CLOSE else "some" if found < FEW else "ten"', '"ten"'),
    "a slower fx graph called faster": ('"faster" if found > CLOSE else "slower"', '"slower" if found > CLOSE else "faster"'),
    "the smallest layer called the largest": ("max(seen, key=seen.get) if", "min(seen, key=seen.get) if"),
    "a layer inside the error printed": ('["ns_an_op"] if seen else None', '["ns_an_op"] if race else None'),
    "what adds little called clearly better": ('"fused" if best == "both" and', '"fused" if best == "none" and'),
    "a graph's gain under this machine's name": ('f"CUDA graph: {whose}", *found', "*found"),
    "the wide block judged by the small one": ('_block(value, "wide")\n        if', '_block(value, "small")\n        if'),
    "other bytes called the same": ('if n["same"] == 1', 'if n["eager_calls"]'),
    "a cure that loses called the fastest": ("if not found or found[best] <= 1", "if not found"),
    "what never pays has paid": ('if row["steps"] is not None else "it never pays"', 'if row["once_s"] else "it never pays"'),
    "a step before taken for one after": ('1e3 * (row["step_us"] + row["saving_us"]),', '1e3 * row["step_us"],'),
    "few inputs for many": ("found[1][\"us\"] / found[0]", "found[0][\"us\"] / found[1]"),
    "guards that noise could be": ('n.get("error", n["aa_error"]) * checked', "0"),
    "a bend that is none": ("if times_the_line < CLOSE", "if times_the_line < 0"),
    "one node called none": ('"none" if left == 0', '"none" if left == 1'),
    "a recording judged as if it were live": ("judged_here(device, part.here, ", "judged_here(device, part.first, "),
    "µs for ns on paper": ("1e3 * ops * host_us, 1e3 * (", "ops * host_us, 1e3 * ("),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_lesson_is_found_out(fault, tmp_path):
    with pytest.raises((AssertionError, TypeError)):  # steps that there are not cannot be written
        check_sentences(broken(lesson11, *FAULTS[fault], tmp_path))


# ------------------------------------------------------------------------------------------------ payback and its panel


def test_payback_is_the_first_step_that_has_earned_it_back():
    rng = random.Random(11)
    for _ in range(200):
        once, before, after, times = rng.uniform(0, 20), rng.uniform(1, 1e6), rng.uniform(1, 1e6), rng.randrange(1, 9)
        found = payback.steps(once, before, after, times=times)
        if after >= before:
            assert found is None
            continue
        slack = 1e-9 * payback.total_s(found, once, before)
        assert payback.total_s(found, once, after, times=times) <= payback.total_s(found, 0.0, before) + slack
        if found > 1:
            assert payback.total_s(found - 1, once, after, times=times) > payback.total_s(found - 1, 0.0, before) - slack
    assert payback.steps(1.0, 5.0, 5.0) is None and payback.steps(0.0, 5.0, 4.0) == 0
    for bad in ((-1.0, 1.0, 1.0), (1.0, -1.0, 1.0), (1.0, 1.0, -1.0)):
        with pytest.raises(ValueError, match="no price is negative"):
            payback.steps(*bad)
    with pytest.raises(ValueError, match="at least once"):
        payback.steps(1.0, 2.0, 1.0, times=0)


def check_panel(m) -> None:
    """Every control at random places: crossing, totals, who is less, one figure with its table and both marks."""
    rng = random.Random(11)
    cures = [m.Cure("captured, here", 2e-3, 90e3, 5e3, HERE), m.Cure("compiled, here", 11.0, 9e3, 14e3, HERE)]
    panel = m.explorer(cures)
    assert panel.values["cure"] == "made-up numbers" and "made up: nothing measured" in panel.shown[0].alt
    by = {one.name: one for one in (m.MADE_UP, *cures)}
    for _ in range(60):
        panel.fire("cure", rng.choice(list(by)))
        for name, control in panel.controls.items():
            if name != "cure":
                steps = round((control.high - control.low) / control.step)
                panel.fire(name, control.low + control.step * rng.randrange(steps + 1))
        assert panel.message == ""
        at, one = panel.values, by[panel.values["cure"]]
        picture, words = panel.shown
        after = one.after_ns + 1e3 * at["copies"]
        count = 10.0 ** at["power"]
        without, with_it = 1e-9 * count * one.before_ns, at["shapes"] * one.once_s + 1e-9 * count * after
        assert f"{m.significant(without, 2)} s without it and {m.significant(with_it, 2)} s with it" in words
        assert words.endswith(f"less {'without it' if without < with_it else 'with it'}.")
        if after >= one.before_ns:
            assert "It never pays" in words and "paid:" not in picture.svg
        else:
            steps = math.ceil(at["shapes"] * one.once_s * 1e9 / (one.before_ns - after))
            assert f"It has paid after {m._count(steps)} steps" in words
            assert ("paid:" in picture.svg) == (1 <= steps <= 10**m.MOST)
            if 10 < steps < 1e8:  # the mark stands where the lines cross: their heights there are equal
                lines = [[tuple(map(float, point.split())) for point in path.split("L")]
                         for path in re.findall(r'd="M([^"]*L[^"]*)" fill="none"', picture.svg)]  # fmt: skip
                x = m.LEFT + (m.WIDTH - m.RIGHT - m.LEFT) * math.log10(steps) / m.MOST
                assert abs(height(lines[0], x) - height(lines[1], x)) < 1.5
        assert one.label in picture.alt and f"paid for {at['shapes']} shape" in picture.alt and ">you<" in picture.svg
        assert len(picture.table.rows) >= m.MOST + 1
    panel.fire("power", 99)
    assert "is not a number" in panel.message


def height(line, x: float) -> float:
    for (x0, y0), (x1, y1) in zip(line, line[1:], strict=False):
        if x0 <= x <= x1:
            return y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    raise AssertionError("the line ends before")


def test_the_panel_over_payback_works_everything_out():
    check_panel(payback_explorer)


PANEL_FAULTS = {
    "copies that cost nothing": ("cure.after_ns + 1e3 * copies_us, times", "cure.after_ns, times"),
    "one shape for all": ("cure.once_s, after, times=shapes)]", "cure.once_s, after)]"),
    "the dearer way called less": ('"without it" if spent[0] < spent[1]', '"with it" if spent[0] < spent[1]'),
    "what never pays is drawn as paid": ("if found is not None and 1 <= found", "if found is None or 1 <= found"),
    "lines at another place": ("(0.0, cure.before_ns, 1) if name", "(0.0, 2 * cure.before_ns, 1) if name"),
    "an unlabelled figure": ("{words(cure, shapes, copies_us, power)} {cure.label}", "{words(cure, shapes, copies_us, power)}"),
}


@pytest.mark.parametrize("fault", PANEL_FAULTS)
def test_a_broken_panel_is_found_out(fault, tmp_path):
    with pytest.raises((AssertionError, TypeError)):
        check_panel(broken(payback_explorer, *PANEL_FAULTS[fault], tmp_path))


# ------------------------------------------------------------------------------------------------ figures, and the study


def test_figures_tell_the_same_without_colour():
    figure = capture_figures.gains(made.block()["rows"][1:], lesson11.SIZES, "Gains", HERE)
    assert "<pattern" in figure.svg and "a wide block" in figure.svg and figure.table.rows[0]["small"] == "3.0"
    lone = capture_figures.gains([row for row in made.block()["rows"] if row["size"] == "small"], lesson11.SIZES, "Gains", HERE)
    assert "wide" not in lone.alt
    ways = lesson11.way_figures(both(made.ways()))[0]
    assert "baked kernels (C++)" in ways.svg and "<pattern" in ways.svg
    drawn = lesson11.node_views(both(made.nodes()))[0].svg
    assert "F + n · c, fitted" in drawn and "one by one" in drawn
    assert "guards left out (unsafe)" in lesson11.input_figures(both(made.guards()))[0].svg


def test_the_lesson_measures_only_what_the_study_has():
    assert set(lesson11.JUDGED) <= set(capture.IN_LESSON) and set(capture.IN_LESSON) <= set(capture.PARTS)
    assert study.parts_of("capture") is capture.PARTS
    assert set(lesson11.WHY) == {f"capture.{name}" for name in QUESTIONS}
    assert {key for key, *_ in lesson11.LAYERS} == set(lesson11.TAX_ANSWERS)


def test_a_graph_of_ones_own_keeps_the_rules_and_a_call_in_its_place_does_not():
    """The lesson's cells, with a replay, and with the plausible wrong one: the function called again."""

    def f(t):
        return torch.relu(t * 2 + 1)

    def found(replay=None) -> dict:
        x = torch.randn(64)
        graph = graph_by_hand.Graph("cpu")
        with graph.warm_up():
            f(x)
        with graph.capture():
            y = f(x)
        assert lesson11.empty(y, f(x), graph)[0] == lesson11.EMPTY_ANSWERS["nothing"][1]
        again = replay or (lambda y, x: graph.replay())
        old, x = x, torch.randn(64)
        of_old, of_new = f(old), f(x)
        again(y, x)
        first, kept = y.clone(), y
        old.copy_(x)
        again(y, x)
        return lesson11.by_hand("cpu", first, kept, of_old, of_new)

    sound = found()
    for name in ("stale", "overwritten"):
        assert expected.judge(f"capture.{name}", sound).value == 1.0
    wrong = found(lambda y, x: y.copy_(f(x)))
    assert wrong["stale"] == 0.0
