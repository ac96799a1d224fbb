"""Lesson 03: sentences that stay true on another torch, on a GPU, and where something is missing; and its way out.

What the lesson says is in `utils/show/lesson03.py`. `check_sentences(module)` holds every sentence against the part it was made
from, on parts where the usual order is turned round; the planted faults are that module with one piece of its logic broken, and
the same check must go red on each. Its structure is held by tests/test_lesson_structure.py.
"""

from __future__ import annotations

import re

import pytest
import torch

from tests import grads
from tests.broken import broken
from tests.lesson_pages import code_cells, notebook
from utils.measure import autograd, grad_graph
from utils.measure.callgrind import CallgrindError
from utils.model import expected, ledger
from utils.show import lesson03
from utils.show.graph_figure import graph_figure, layout
from utils.show.tables import Table

CLAIMS = ["A04", "A16", "A18", "A26", "A27", "A28", "A29", "A30", "A31", "B04", "A38", "B43", "A45"]


def check_sentences(m) -> None:
    """Hold every sentence of `m` (lesson03, or a broken copy of it) against what it was made from. Raises AssertionError."""
    check_graph(m)
    check_kept(m)
    check_activations(m)
    check_rules(m)
    check_steps(m)
    check_peaks(m)
    check_ops(m)
    check_prices(m)
    check_compiled(m)
    check_deeper(m)
    check_missing(m)
    check_end(m)


def _graph(*edges: tuple[int, ...], accumulators: tuple[int, ...] = ()) -> grad_graph.Graph:
    """Nodes 0, 1, … with edges to the numbers given; those in `accumulators` add into x."""
    nodes = [
        grad_graph.GraphNode(
            n, "AccumulateGrad" if n in accumulators else "MulBackward0", tuple((e, 0) for e in to), (), "x" * (n in accumulators)
        )
        for n, to in enumerate(edges)
    ]
    return grad_graph.Graph("x * x", tuple(nodes))


def check_graph(m) -> None:
    right, said = m.accumulators(_graph((1, 1), (), accumulators=(1,)))
    assert right == m.GRAPH_ANSWERS["leaf"][1] and "2 nodes: 1 for ops, 1 that" in str(said)
    assert "x is used 2 times and has 1 accumulator." in str(said)
    right, said = m.accumulators(_graph((1, 2), (), (), accumulators=(1, 2)))
    assert right == m.GRAPH_ANSWERS["use"][1] and "2 accumulators." in str(said)
    assert m.accumulators(_graph(()))[0] == m.GRAPH_ANSWERS["none"][1]


def check_kept(m) -> None:
    kept = grads.kept()
    right, said = m.add_keeps(kept)
    assert right == m.ADD_ANSWERS["nothing"][1] and "x + y kept no tensor: 0 bytes" in str(said)
    assert "x * y, of the same tensors, kept x and y: 16,384 bytes" in str(said) and "relu kept its result" in str(said)
    assert "two Python objects in the same memory" in str(said)
    place = ("cases", "x + y, both", "kept")
    assert m.add_keeps(grads.changed(kept, *place, to=["x", "y"]))[0] == m.ADD_ANSWERS["inputs"][1]
    assert m.add_keeps(grads.changed(kept, *place, to=["result"]))[0] == m.ADD_ANSWERS["result"][1]
    assert "data_ptr" not in str(m.add_keeps({**kept, "same_memory": {"object": True, "memory": True}})[1])
    right, said = m.product_keeps(kept)
    assert right == m.PRODUCT_ANSWERS["other"][1] and "kept w: 4,096 bytes of the 12,288 bytes" in str(said)
    for names, key in ((["w", "x"], "both"), (["x"], "own")):
        right, said = m.product_keeps(grads.changed(kept, "cases", "x @ w, only the first", "kept", to=names))
        assert right == m.PRODUCT_ANSWERS[key][1] and "x is not needed" not in str(said)
    rows = m.kept_table(kept).rows
    assert [r["kept"] for r in rows if r["op"] == "x @ w"] == ["w and x", "w", "x"]
    assert [r["needs"] for r in rows if r["op"] == "relu(x)"] == ["its input"]
    figure = m.kept_figure(kept)
    assert "x @ w, both: w and x 12.0 KiB" in figure.alt and "relu(x): result 8.00 KiB" in figure.alt


def check_activations(m) -> None:
    said = str(m.activations(grads.memory(), 16, 64))
    assert "leaves 147,456 bytes alive, 4.0 times what a batch of 16 leaves" in said
    assert "From a batch of 4 on, forward leaves more than the parameters" in said and "At none of the batches tried" in said
    assert "To the byte, that is what hooks saw" in said
    more = grads.changed(grads.memory(), "activations", "MLP", "batches", "64", "held", to=2304 * 32)
    said = str(m.activations(more, 16, 64))
    assert "2.0 times" in said and "To the byte" not in said
    figure = m.activation_figure(grads.memory(), "made up")
    assert "MLP: 2,304 bytes at 1" in figure.alt and "<svg" in figure.svg and "made up" in figure.alt


def check_rules(m) -> None:
    rules = grads.rules()
    right, said = m.counters(rules)
    assert right == m.COUNTER_ANSWERS["in_place"][1] and "t + 1 did not raise" in str(said)
    assert "t.data.add_(1) wrote into t, and its counter did not move" in str(said) and "off by 1.0" in str(said)
    assert "Hint" not in str(said) and "result 0 of Exp was kept at version 0, and backward found it at version 1" in str(said)
    assert m.counters(grads.changed(rules, "bumps", "t + 1", to=1))[0] == m.COUNTER_ANSWERS["ops"][1]
    right, said = m.counters(grads.changed(rules, "bumps", "t.data.add_(1)", to=1))
    assert right == m.COUNTER_ANSWERS["writes"][1] and "wrote into t" not in str(said)
    noticed = grads.changed(rules, "changed", grads.DATA, to="refused too")
    assert "is not refused" not in str(m.counters(noticed)[1])
    assert [r["said"] for r in m.changed_table(rules).rows][1:] == ["nothing: it ran"] * 3
    assert [r["by"] for r in m.counters_table(rules).rows] == [0, 1, 1, 1, 1, 1, 0]
    right, said = m.inference(rules)
    assert right == m.INFERENCE_ANSWERS["works"][1] and "t + g ran, with AddBackward0" in str(said)
    assert "t * g was refused: Inference tensors cannot be saved for backward." in str(said) and "must save it" in str(said)
    assert "No base is known to a view of an inference tensor" in str(said)
    lost = dict.fromkeys(rules["views_tracked"])
    assert "No base" not in str(m.inference({**rules, "views_tracked": lost})[1])
    refused = grads.changed(rules, "inference", "t + g", to="No. Never")
    right, said = m.inference(refused)
    assert right == m.INFERENCE_ANSWERS["refused"][1] and "t + g was refused" in str(said) and "must save it" not in str(said)
    assert m.inference({**rules, "inference_node": ""})[0] == m.INFERENCE_ANSWERS["plain"][1]
    rows = {row["code"]: row["said"] for row in m.inference_table(rules).rows}
    assert rows["t.add_(1)"] == "Inplace update is not allowed" and rows["t + g"] == "nothing: it ran"


def check_steps(m) -> None:
    races, faults = grads.steps(), grads.memory()["page_faults"]
    said = str(m.steps(races, faults, grads.study(steps=grads.steps(small=0.4, large=0.2))))
    here, there = said.split("On another machine")
    assert "grad: 25 % (MLP, batch 1). No difference is seen for wide MLP, batch 512." in here
    assert "The claimed 10–30 % is seen for MLP, batch 1." in here
    assert "The 20.0 µs saved for MLP, batch 1 would be 0.25 % of the 8.00 ms of wide MLP, batch 512." in here
    assert "118 pages" in here and "NVIDIA H200" in there and "pages" not in there
    assert "40 % (MLP, batch 1), 20 % (wide MLP, batch 512)." in there and "is seen for wide MLP, batch 512." in there
    assert "No difference" not in there
    assert "would be" not in there, "where it is saved at the largest too, nothing is hidden"
    none = str(m.steps(grads.steps(small=0.0), faults))
    assert "grad: nothing that is seen." in none and "is seen for none of them" in none and "pages" not in none, (
        "pages of a step that saved nothing explain nothing"
    )
    assert "118 pages" not in str(
        m.steps(races, grads.changed(grads.memory(), "page_faults", "MLP, batch 1", "grad", to=5.0)["page_faults"])
    )
    rows = m.steps_table(races, "made up").rows
    assert rows[0]["inference_mode saves"] == "25 %" and rows[1]["no_grad saves"] == "no difference seen"
    assert rows[1]["grad"] == "8.00 ms"
    alt = m.steps_figure(races, "made up").alt
    assert "MLP, batch 1 25" in alt and "wide MLP, batch 512: none seen" in alt
    recorded, *_ = m.beside(grads.study())
    assert "NVIDIA H200" in recorded.alt
    for lacking in (None, grads.study(steps=None)):
        words, *_ = m.beside(lacking)
        assert "not measured" in str(words)


def check_peaks(m) -> None:
    said = str(m.peaks(grads.memory(), 64))
    assert "196,608 bytes at most with grad, 131,072 bytes under no_grad: 67 %" in said
    assert "inference_mode needs as much as no_grad" in said and "The add needs 4,096 bytes in every mode" in said
    other = grads.changed(grads.memory(), "peaks", "peaks", "batch 64", "inference_mode", "tensors", to=100)
    assert "inference_mode needs 100 bytes" in str(m.peaks(other, 64))
    saving = grads.changed(grads.memory(), "peaks", "peaks", "a + b", "no_grad", "tensors", to=100)
    assert "in every mode" not in str(m.peaks(saving, 64))
    assert len(m.peaks_table(grads.memory()).rows) == 5


def check_ops(m) -> None:
    right, said = m.add_ops(grads.ops())
    assert right == m.OPS_ANSWERS["none"][1] and "Backward of a + b runs no ops" in str(said)
    assert "one of forward: a @ b, MLP." in str(said) and "Not so: a + b (0), relu(a) (1.0)." in str(said)
    for n, key, words in ((1, "one", "runs 1 op."), (2, "two", "runs 2 ops.")):
        right, said = m.add_ops(grads.ops(add=n))
        assert right == m.OPS_ANSWERS[key][1] and words in str(said)
    assert m.add_ops(grads.ops(add=7))[0] is None
    assert [row["ops"] for row in m.ops_table(grads.ops()).rows] == ["none", "2 mm", "1 mm", "10 mm"]


def check_prices(m) -> None:
    right, said = m.node(grads.chains(), grads.ops(), grads.study(chains=grads.chains(7000.0, 2500.0)))
    here, there = str(said).split("On another machine")
    assert right == m.NODE_ANSWERS["more"][1] and "2.00 µs in forward and 2.60 µs in backward: backward costs more." in here
    assert "No op runs in that backward" in here and "25.0 µs" in here
    assert "7.00 µs in forward and 2.50 µs in backward: backward costs less" in there and "NVIDIA H200" in there
    assert "No op runs" not in str(m.node(grads.chains(), grads.ops(add=1))[1])
    assert m.node(grads.chains(2600.0, 2000.0), grads.ops())[0] == m.NODE_ANSWERS["less"][1]
    right, said = m.node(grads.chains(2000.0, 2000.0), grads.ops())
    assert right == m.NODE_ANSWERS["same"][1] and "no difference is seen" in str(said)
    lives = grads.rules()["accumulator_lives"]
    right, said = m.life(grads.results(), lives)
    assert right == m.LIFE_ANSWERS["same"][1] and "dropping the result costs 700 ns more" in str(said)
    assert "less than a tenth" in str(said) and "unless an older result lives" in str(said)
    right, said = m.life(grads.results(held=2500.0), lives)
    assert right == m.LIFE_ANSWERS["more"][1] and "dropping the new one costs 600 ns more" in str(said)
    assert m.life(grads.results(held=1500.0), lives)[0] == m.LIFE_ANSWERS["less"][1]
    right, said = m.life(grads.results(dropped=1900.0, held=1900.0), lives)
    assert right == m.LIFE_ANSWERS["same"][1] and "shows no difference" in str(said) and "tenth" not in str(said)
    said = str(m.life(grads.results(), lives, grads.study(results=grads.results(7000.0, 8000.0, 7000.0)))[1])
    there = said.split("On another machine")[1]
    assert "NVIDIA H200" in there and "dropping the result costs 1.00 µs more" in there and "kept shows no difference" in there
    assert "whether or not" in str(m.life(grads.results(), {**lives, list(lives)[2]: False})[1])
    assert "A mark" not in str(m.life(grads.results(), dict.fromkeys(lives, True))[1])
    assert (
        "add, backward" in m.node_figure(grads.chains(), "x").alt and "result dropped" in m.life_figure(grads.results(), "x").alt
    )


def check_compiled(m) -> None:
    right, said = m.compiled_nodes(grads.compiled())
    assert right == m.COMPILED_ANSWERS["one"][1] and "compiled, 1: CompiledFunctionBackward" in str(said)
    assert "1 expand, 2 mm" in str(said) and "same gradients" in str(said)
    assert m.compiled_nodes(grads.compiled(0))[0] == m.COMPILED_ANSWERS["none"][1]
    assert m.compiled_nodes(grads.compiled(5))[0] == m.COMPILED_ANSWERS["all"][1]
    assert m.compiled_nodes(grads.compiled(3))[0] is None
    assert "different gradients" in str(m.compiled_nodes({**grads.compiled(), "same": False})[1])
    assert "traced" not in str(m.compiled_nodes({**grads.compiled(), "backward_ops": []})[1])
    rows = m.compiled_table(grads.compiled()).rows
    assert [row["graph"] for row in rows].count("compiled") == 2 and rows[-1]["to"] == "adds into x.grad"


def check_deeper(m) -> None:
    said = str(m.handles(grads.kept(), grads.counted(), "counted somewhere"))
    assert "a has 1 handle more" in said and "a * b lives, 2" in said and "After backward of a * b it is 1" in said
    assert "910 instructions" in said and "counted somewhere" in said  # (11,900 - 9,790) - (11,000 - 9,800)
    said = str(m.host_work(grads.counted()))
    assert "30,000 of 250,000 fewer, 12 % (MLP, batch 1); 30,000 of 720,000 fewer, 4.2 % (MLP, batch 16)." in said
    assert "10,000 of 250,000 more" in str(m.host_work({**grads.counted(), "MLP, batch 1, no_grad": 260_000.0}))
    assert m.host_work(None) is None and m.host_work({}) is None
    table = m.instructions_table(grads.counted(), "counted somewhere")
    shares = {row["statement"]: row["of"] for row in table.rows}
    assert shares["a + b, inference_mode"] == "72 %" and shares["a + b, result dropped"] == "150 %"  # 7.9 and 16 of 11


def check_missing(m) -> None:
    """Where torch tells less, or nothing is recorded, the sentences say so."""
    assert "does not tell" in str(m.handles({**grads.kept(), "handles": None}, None, ""))
    assert "not measured" in str(m.handles(grads.kept(), None, "")) and "not measured" in str(m.instructions_table(None, ""))
    assert "Python object" not in str(m.add_keeps({**grads.kept(), "same_memory": None})[1])
    assert "another machine" not in str(m.steps(grads.steps(), None, grads.study(steps=None)))
    assert "another machine" not in str(m.life(grads.results(), grads.rules()["accumulator_lives"], grads.study(results=None))[1])
    assert "another machine" not in str(m.node(grads.chains(), grads.ops(), grads.study(chains=None))[1])
    assert "no study of a GPU" in m.verdicts({}, "cpu").text()


def check_end(m) -> None:
    table = m.verdicts(grads.parts(), "cpu", grads.study())
    assert [row["id"] for row in table.rows] == CLAIMS
    assert all(row["here"] and row["there"] for row in table.rows) and any("NVIDIA H200" in note for note in table.notes)
    seen = {row["id"]: row["here"] for row in table.rows}
    assert seen["A28"] == "1 of 4 changed results refused" and seen["A45"].startswith("MLP 67 %") and "100 %" in seen["A45"]
    assert seen["A29"] == "t * g refused, t + g ran" and seen["A38"] == "add: no tensor" and "500 ns" in seen["A04"]
    assert "Nothing tried" in str(m.transfer(None, 1))
    own = {
        "rows": [(1, "temporary", 4000, 1), (2, "y", 4000, 2), (3, "temporary", 4000, 1)],
        "bytes": 8000,
        "nodes": ["SigmoidBackward0"],
    }
    assert "First your bytes" in str(m.transfer(own, None))
    assert "not the op of this exercise" in str(m.transfer({**own, "nodes": ["MulBackward0"]}, 8000))
    assert "8,000 bytes are kept, as you expected" in m.transfer(own, 8000).caption
    table = m.transfer(own, 12_000)
    assert "you expected 12,000 bytes" in table.caption and [row["memory"] for row in table.rows] == [
        "place 1",
        "place 2",
        "place 1",
    ]


def test_every_sentence_is_true_on_parts_that_surprise():
    check_sentences(lesson03)


# ------------------------------------------------------------------------------------------------ numbers, figures, recordings


def test_the_numbers_that_are_judged_are_those_of_the_parts():
    seen = lesson03.seen("cpu", grads.kept(), grads.memory(), grads.rules(), 16, 64)
    assert (seen["add keeps"], seen["product keeps"], seen["product keeps for x"], seen["product keeps for w"]) == (
        0,
        12_288,
        4096,
        8192,
    )
    assert (seen["held"], seen["held, small"], seen["in place"], seen["not counted"]) == (66_048 * 64, 66_048 * 16, 1, 0)
    ran = lesson03.passes("cpu", grads.memory(), grads.ops(), grads.rules(), grads.compiled(), 64)
    assert (ran["peak, grad"], ran["peak, no_grad"], ran["rebuilt"], ran["rebuilt, though held"]) == (196_608, 131_072, 1, 0)
    for metric in expected.metrics("autograd"):
        things = [seen, ran] if "mapping" in metric["takes"] else []
        names = set(
            re.findall(r"'?([\w, ]+\w)'?", metric["measure"].replace(" / ", "'|'").replace(" - ", "'|'").replace(" + ", "'|'"))
        )
        for thing in things:
            if names <= set(thing):
                assert expected.judge(metric["id"], thing).holds, metric["id"]


def test_counts_are_recorded_ones_unless_asked_for_and_a_failure_has_its_reason(monkeypatch):
    monkeypatch.setattr(lesson03.studies, "best", lambda name, device: None)
    assert lesson03.counted() == (None, "")
    monkeypatch.setattr(lesson03.studies, "best", lambda name, device: grads.study(device, instructions=grads.counted()))
    found, label = lesson03.counted()
    assert found == grads.counted() and label.startswith("recorded")
    assert lesson03.counted(lambda device: {"x": 1.0}) == ({"x": 1.0}, "counted here")

    def fails(device):
        raise CallgrindError("valgrind is not installed")

    found, label = lesson03.counted(fails)
    assert found == grads.counted() and label.startswith("not counted here: valgrind is not installed; recorded")


def test_the_graph_is_drawn_in_rows_and_told_in_words():
    x, w = (torch.randn(4, 4, requires_grad=True) for _ in range(2))
    walked = grad_graph.graph(torch.relu(x @ w) * x, {"x": x, "w": w}, "relu(x @ w) * x")
    places = layout(walked)
    assert [row for _, row in places.values()][:2] == [0, 1] and len(set(places.values())) == len(walked.nodes)
    for node in walked.nodes:
        for edge in node.edges:
            assert places[edge[0]][1] > places[node.number][1], "an arrow goes up"
    picture = graph_figure(walked)
    assert "MulBackward0 0 keeps other, self, hands gradients to" in picture.alt and "adds into x.grad" in picture.alt
    assert picture.svg.count("AccumulateGrad") == 2
    row = next(row for row in picture.table.rows if row["node"] == "0 MulBackward0")
    assert "AccumulateGrad" in row["to"] and "ReluBackward0" in row["to"]


def test_an_input_that_needs_no_gradient_is_nobody_in_the_table():
    x = torch.randn(4, requires_grad=True)
    picture = graph_figure(grad_graph.graph(x * torch.randn(4), {"x": x}, "x * y"))
    assert picture.table.rows[0]["to"] == "1 AccumulateGrad, nobody: needs none"


def test_counting_live_is_asked_for_and_never_by_itself():
    text = "\n".join(c.source for c in code_cells(notebook(3)))
    assert re.search(r"^live = False", text, re.MULTILINE) and "if live else None" in text


def test_lab_4_is_named_where_the_reader_writes_alone():
    assert "lab 4" in next(c.source for c in notebook(3).cells if c.id == "transfer-text")


def test_the_transfer_op_keeps_what_its_answer_says():
    own = autograd.saved_by(lambda x, y: torch.sigmoid(x) * y, "cpu")
    assert own["bytes"] == 8000 and len(own["rows"]) == 3
    table = lesson03.transfer(own, 8000)
    assert isinstance(table, Table) and "as you expected" in table.caption


def test_every_claim_has_its_sentence():
    assert [c.id for c in ledger.claims("autograd")] == CLAIMS


# ------------------------------------------------------------------------------------------------ planted faults

FAULTS = {
    "uses counted as accumulators": ('"leaf" if len(mine) == 1', '"leaf" if len(mine) == 2'),
    "an add that keeps its result taken for one that keeps its inputs": (
        '"result" if one["kept"] == ["result"] else "inputs"',
        '"inputs"',
    ),
    "the product's own input": ('("x",): "own", ("w",): "other"', '("w",): "own", ("x",): "other"'),
    "writes through .data called counted": ("if not by and line != PLAIN_OP", "if by and line != PLAIN_OP"),
    "the claimed range turned round": ("if claim.lo * (1 - slack)", "if not claim.lo * (1 - slack)"),
    "pages told of a step that saved nothing": (" and saved_share(races[n])", ""),
    "the winner of a node's price turned round": (
        '"more" if found.ns > 0 else "less"\n    against',
        '"less" if found.ns > 0 else "more"\n    against',
    ),
    "a remainder of a percent called a price": ("not held.seen or abs(left) <= TENTH", "not held.seen"),
    "the marks not looked at": ("if lives[KEPT] and not lives[DROPPED]:", "if lives[KEPT]:"),
    "a broken region called one node": ('else "one" if after == 1', 'else "one" if after'),
    "shared memory of the recording left without its label": (
        '_steps(other, f"On another machine ({beside.label()})")',
        '_steps(other, "On another machine")',
    ),
    "the peak divided the other way round": (
        "format_share(at[NO_GRAD], at[GRAD])}. {level}",
        "format_share(at[GRAD], at[NO_GRAD])}. {level}",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_sentences_go_red_on(fault, tmp_path):
    with pytest.raises(AssertionError):
        check_sentences(broken(lesson03, *FAULTS[fault], tmp_path))
