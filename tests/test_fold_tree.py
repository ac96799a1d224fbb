"""The fold: each instruction in one row, split by what calls cost; the committed trees known to the rules; faults seen."""

from __future__ import annotations

import copy
import random
from dataclasses import replace

import pytest

from utils.measure import callgrind, fold_checks, fold_tree, trace, tree_store
from utils.measure.fold_tree import UNEXPLAINED, CallTree, Row, Rules, fold
from utils.model import schemas

RNG = random.Random(20261129)
TREES = trace.recorded_trees()
OPS = {"a + b": "aten::add.Tensor", "a + b, grad": "aten::add.Tensor", "x @ w": "aten::matmul"}


def tree(own: dict, edges: dict) -> CallTree:
    return CallTree("s", own, edges, {}, {"torch": "2.13.0", "python": "3.11.7"}, "2026-11-29T00:00:00+00:00", "live")


def rows(**patterns: str) -> Rules:
    return Rules(tuple(Row(name, name, name, (), (pattern,)) for name, pattern in patterns.items()))


# A front that calls a kernel and an allocator; both call malloc, which calls a page helper.
OWN = {name: RNG.uniform(20, 90) for name in ("front", "kernel", "alloc", "malloc", "pages")}
FROM_KERNEL, FROM_ALLOC = 30.0, 90.0
EDGES = {
    ("front", "kernel"): OWN["kernel"] + FROM_KERNEL,
    ("front", "alloc"): OWN["alloc"] + FROM_ALLOC,
    ("kernel", "malloc"): FROM_KERNEL,
    ("alloc", "malloc"): FROM_ALLOC,
    ("malloc", "pages"): OWN["pages"],
}
SMALL = tree(OWN, EDGES)
NAMED = rows(front="^front$", kernel="^kernel$", alloc="^alloc$")


# ------------------------------------------------------------------------------------------------ the rule


def test_a_function_without_a_rule_is_split_by_what_the_calls_cost_and_so_is_what_it_calls():
    folded = fold(SMALL, NAMED)
    helpers = OWN["malloc"] + OWN["pages"]
    assert folded.row("kernel").instructions == pytest.approx(OWN["kernel"] + 0.25 * helpers)
    assert folded.row("alloc").instructions == pytest.approx(OWN["alloc"] + 0.75 * helpers)
    assert folded.row("front").instructions == pytest.approx(OWN["front"])
    assert dict(folded.row("alloc").top)["pages"] == pytest.approx(0.75 * OWN["pages"])


def test_ignoring_the_edges_cost_is_another_fold(monkeypatch):
    """The fault `an equal part to each caller` is seen by the numbers of the test above."""

    def equal(callers, spread):
        for row in {row for caller in callers for row in spread[caller]}:
            yield row, sum(spread[caller].get(row, 0.0) for caller in callers) / len(callers)

    monkeypatch.setattr(fold_tree, "_mixed", equal)
    wrong = fold(SMALL, NAMED).row("alloc").instructions
    assert wrong == pytest.approx(OWN["alloc"] + 0.5 * (OWN["malloc"] + OWN["pages"]))
    assert wrong != pytest.approx(OWN["alloc"] + 0.75 * (OWN["malloc"] + OWN["pages"]), rel=0.01)


def test_what_nobody_calls_and_no_rule_knows_is_unexplained_and_so_is_a_closed_cycle():
    lonely = tree({**OWN, "lonely": 7.0, "p": 3.0, "q": 2.0}, {**EDGES, ("p", "q"): 5.0, ("q", "p"): 3.0})
    folded = fold(lonely, NAMED)
    assert folded.unexplained == pytest.approx(12.0)
    assert sum(r.instructions for r in folded.rows) + folded.unexplained == pytest.approx(lonely.total)


def test_a_cycle_that_is_called_gets_the_callers_row():
    looped = tree({"front": 1.0, "p": 3.0, "q": 2.0}, {("front", "p"): 5.0, ("p", "q"): 4.0, ("q", "p"): 2.0})
    assert fold(looped, NAMED).row("front").instructions == pytest.approx(6.0)


@pytest.mark.parametrize("seed", range(5))
def test_every_instruction_is_in_exactly_one_row(seed):
    rng = random.Random(seed)
    names = [f"f{i}" for i in range(40)]
    own = {name: rng.uniform(0, 100) for name in names}
    edges = {(a, b): rng.uniform(0.1, 50) for a in names for b in names if a != b and rng.random() < 0.08}
    rules = rows(r0="^f0$", r1="^f1[0-4]$", r2="^f3")
    folded = fold(tree(own, edges), rules)
    assert sum(r.instructions for r in folded.rows) + folded.unexplained == pytest.approx(sum(own.values()))
    assert sum(folded.by_stage().values()) + folded.unexplained == pytest.approx(sum(own.values()))


def test_the_tree_that_is_shown_does_not_put_a_merged_functions_callees_under_one_of_its_callers():
    lines = SMALL.lines(0.0)
    assert SMALL.merged("malloc") and not SMALL.merged("pages")
    below_kernel = [name for depth, name, _, _ in lines if depth == 2]
    assert below_kernel == ["malloc", "malloc"] and ("pages" not in below_kernel)
    start = lines.index(next(line for line in lines if line[:2] == (0, "malloc")))
    assert [name for _, name, _, _ in lines[start:]] == ["malloc", "pages"]
    assert lines[0][2] == pytest.approx(SMALL.inclusive("front"))


# ------------------------------------------------------------------------------------------------ rules by torch version


def test_rules_are_chosen_by_the_torch_version():
    stages = copy.deepcopy(schemas.load("stages"))
    stages["rows"][0]["cxx"] = {"any": ["always"], "2.13": ["only"], "2.10-2.12": ["older"]}
    assert fold_tree.rules_from(stages, "2.13.0+cpu").rows[0].patterns == ("always", "only")
    assert fold_tree.rules_from(stages, "2.11.0+cu130").rows[0].patterns == ("always", "older")
    assert fold_tree.rules_from(stages, "2.9.1").rows[0].patterns == ("always",)


def test_every_row_belongs_to_a_stage_and_every_stage_has_a_row():
    stages = schemas.load("stages")
    assert {row["stage"] for row in stages["rows"]} == {stage["id"] for stage in stages["stages"]}


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda s: s["rows"][1].update(stage="cellar"), "stage 'cellar' is not known"),
        (lambda s: s["rows"][1].update(under=["nowhere"]), "under 'nowhere' is not known"),
        (lambda s: s["rows"][1].update(under=[s["rows"][1]["id"]]), "is not known"),
        (lambda s: s["rows"][1].update(id=s["rows"][0]["id"]), "is given twice"),
        (lambda s: s["rows"][1]["cxx"].update(any=["(open"]), "no regular expression"),
        (lambda s: s["shared"][0].update(cxx=["*"]), "no regular expression"),
    ],
)
def test_rows_that_point_nowhere_are_refused(damage, said):
    stages = copy.deepcopy(schemas.load("stages"))
    damage(stages)
    assert any(said in problem for problem in schemas.stage_problems(stages))


# ------------------------------------------------------------------------------------------------ the committed trees


def test_the_committed_file_has_the_written_shape_and_says_where_it_was_made():
    data = tree_store.recorded("2.13.0")
    schemas.validate("trees", data)
    assert set(TREES) == set(OPS)
    assert "/" not in "".join(library for t in TREES.values() for library in t.libraries.values())
    for one in TREES.values():
        for word in ("recorded", "torch 2.13", "valgrind", "glibc", "under valgrind", one.date[:10]):
            assert word in one.label()


@pytest.mark.parametrize("name", OPS)
def test_a_committed_tree_is_known_to_the_rules_and_hangs_together(name):
    one = TREES[name]
    rules = trace.load_rules(one.where["torch"])
    assert fold_checks.runs(one, OPS[name])
    assert fold_checks.unknown(one, rules) == []
    assert trace.fold(one).unexplained <= 0.001 * one.total
    for row in rules.rows:
        moved = fold_checks.taken_away(one, rules, row.id)
        assert moved.astray <= max(1.0, 0.005 * moved.lost), moved
        assert sum(moved.gained.values()) == pytest.approx(moved.lost, abs=0.01)


def test_the_library_inside_the_product_is_labelled_and_the_add_has_none():
    assert any("not the one that runs natively" in note for note in TREES["x @ w"].notes)
    assert TREES["a + b"].notes == () and trace.fold(TREES["x @ w"]).row("library").instructions > 500


def test_each_helper_that_is_called_shared_is_shared_somewhere():
    """A pattern of `shared` that no tree needs would hide a new name one day."""
    for helper in schemas.load("stages")["shared"]:
        for pattern in helper["cxx"]:
            alone = Rules(trace.load_rules("2.13").rows, (pattern,))
            hit = [f for t in TREES.values() for f in t.self_cost if alone.is_shared(f)]
            assert hit, pattern


# ------------------------------------------------------------------------------------------------ planted faults


def test_a_rule_removed_moves_its_cost_to_the_parent_and_a_greedy_sibling_is_seen():
    one, rules = TREES["a + b"], trace.load_rules("2.13")
    moved = fold_checks.taken_away(one, rules, "kernel")
    assert set(moved.gained) == {"hop_2"} and moved.lost > 100
    greedy = replace(rules, rows=(*rules.rows, Row("greedy", "kernel", "greedy", ("interpreter",), ("structured_ufunc_add",))))
    assert fold_checks.taken_away(one, greedy, "kernel").astray > 100


def test_a_row_that_hangs_under_the_wrong_parent_is_seen():
    one, rules = TREES["a + b"], trace.load_rules("2.13")
    wrong = replace(rules, rows=tuple(replace(r, under=("slot",)) if r.id == "allocator" else r for r in rules.rows))
    assert fold_checks.taken_away(one, wrong, "allocator").astray > 100


def test_a_new_name_called_from_two_stages_is_printed():
    one, rules = TREES["a + b"], trace.load_rules("2.13")
    kernel = next(f for f in one.self_cost if rules.row_of(f) == "kernel")
    parse = next(f for f in one.self_cost if rules.row_of(f) == "parse")
    cost = 0.02 * one.total
    edges = {**one.edges, (kernel, "novelty"): cost / 2, (parse, "novelty"): cost / 2}
    new = fold_checks.unknown(replace(one, self_cost={**one.self_cost, "novelty": cost}, edges=edges), rules)
    assert [u.function for u in new] == ["novelty"] and new[0].part == pytest.approx(0.5)
    stray = fold_checks.unknown(replace(one, self_cost={**one.self_cost, "stray": cost}), rules)
    assert [(u.function, u.stage) for u in stray] == [("stray", UNEXPLAINED)]


def test_counts_doubled_and_the_wrong_statement_are_seen():
    one = TREES["a + b"]
    doubled = replace(one, self_cost={f: 2 * cost for f, cost in one.self_cost.items()})
    assert fold_checks.disagreement(one, doubled) == pytest.approx(1.0)
    assert not fold_checks.runs(TREES["x @ w"], "aten::add.Tensor")
    assert not fold_checks.runs(one, "aten::add.Scalar")


def test_instructions_planted_in_the_graph_rise_in_one_row_only():
    one, rules = TREES["a + b"], trace.load_rules("2.13")
    allocator = next(f for f in one.self_cost if f.startswith("c10::alloc_cpu"))
    planted = replace(one, self_cost={**one.self_cost, "spin": 1000.0}, edges={**one.edges, (allocator, "spin"): 1000.0})
    rose = fold_checks.differences(fold(one, rules), fold(planted, rules))
    assert rose.pop("allocator") == pytest.approx(1000.0)
    assert max(abs(by) for by in rose.values()) < 1.0


# ------------------------------------------------------------------------------------------------ callgrind's format

DUMP = """# callgrind format
version: 1
cmd:  python program.py
positions: line
events: Ir
summary: 999

ob=(1) /usr/lib/libtorch.so
fl=(1) ???
fn=(1) kernel(int)
0 100
cob=(2) /usr/lib/libc.so.6
cfi=(2) malloc.c
cfn=(3) malloc
calls=7 0
0 40
+3 5

fn=(2) kernel(int)'2
0 11
cfn=(1)
calls=1 0
0 100

ob=(2)
fn=(3)
0 40
cfn=(4) 0x00000000049367a8
calls=1 0
* 9

fn=(4)
16 9
"""


def test_a_dump_is_read():
    own, edges, libraries = callgrind.parse(DUMP)
    assert own == {"kernel(int)": 116, "malloc": 40, "(no name) in libc.so.6": 9}
    assert edges == {("kernel(int)", "malloc"): 40, ("malloc", "(no name) in libc.so.6"): 9}
    assert libraries["kernel(int)"] == "libtorch.so" and libraries["malloc"] == "libc.so.6"


def test_the_numbers_of_calls_are_not_believed():
    """Warm-up is in them: with other numbers the same tree comes out."""
    assert callgrind.parse(DUMP.replace("calls=7", "calls=12")) == callgrind.parse(DUMP)


def test_a_tree_survives_its_file(tmp_path):
    path = tree_store.write({"a + b": TREES["a + b"]}, {}, tmp_path)
    back = tree_store.trees_of(tree_store.recorded("2.13.0", tmp_path))["a + b"]
    assert path.name == "torch2.13-x86_64.json" or TREES["a + b"].where["machine"] != "x86_64"
    assert back.total == pytest.approx(TREES["a + b"].total, rel=1e-3)
    assert fold_checks.runs(back, "aten::add.Tensor") and back.source == "recorded"


def test_a_torch_without_a_file_gets_the_newest(tmp_path):
    for version in ("2.9", "2.13"):
        where = {**TREES["a + b"].where, "torch": f"{version}.0"}
        tree_store.write({"a + b": replace(TREES["a + b"], where=where)}, {}, tmp_path)
    assert tree_store.recorded("2.9.1", tmp_path)["where"]["torch"] == "2.9.0"
    assert tree_store.recorded("2.14.0", tmp_path)["where"]["torch"] == "2.13.0"
    assert tree_store.recorded("2.13.0", tmp_path / "none") == {}
