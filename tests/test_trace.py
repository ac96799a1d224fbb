"""The trace's front door: committed by default, live when asked, words for what is missing; one real run under valgrind."""

from __future__ import annotations

import ast
import json
import os
import platform
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.conftest import require
from utils.measure import callgrind, fold_checks, statements, trace, tree_store
from utils.measure.callgrind import CallgrindError, Statement


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """A cache that nobody has counted into."""
    from utils import paths

    monkeypatch.setattr(paths, "cache", lambda: tmp_path)
    return tmp_path


# ------------------------------------------------------------------------------------------------ the committed tree


def test_the_committed_tree_is_the_default_and_nothing_is_run(monkeypatch):
    monkeypatch.setattr(callgrind, "count", lambda *a, **k: pytest.fail("a live run was not asked for"))
    found = trace.trace("a + b")
    assert found.tree.source == "recorded" and found.tree.statement == "a + b"
    assert found.fold.row("kernel").share < 0.2
    json.dumps(found.to_dict(), allow_nan=False)


def test_grad_and_the_product_have_trees_of_their_own():
    plain, grad, product = trace.trace("a+b"), trace.trace("a + b", grad=True), trace.trace("x @ w")
    assert plain.fold.row("autograd_node").instructions == 0 < grad.fold.row("autograd_node").instructions
    assert plain.fold.row("library").instructions == 0 < product.fold.row("library").instructions
    assert product.fold.row("inner_hops").instructions > 0


def test_an_expression_without_a_tree_says_so():
    found = trace.trace("x3 @ w")
    assert found.tree is None and found.fold is None and "is recorded" in found.tree_note
    assert found.dispatch.ops


def test_a_tree_of_another_torch_says_so(monkeypatch):
    monkeypatch.setattr(trace, "_torch_version", lambda: "2.99.0")
    tree, note = trace.call_tree("a + b")
    assert tree is not None and "no tree is recorded for torch 2.99.0" in note


def test_no_file_at_all_is_words(monkeypatch):
    monkeypatch.setattr(tree_store, "recorded", lambda version: {})
    assert trace.trace("a + b").tree is None


def test_a_tree_of_the_wrong_statement_is_not_shown(monkeypatch):
    wrong = replace(trace.recorded_trees()["x @ w"], statement="a + b")
    monkeypatch.setattr(trace, "call_tree", lambda *a, **k: (wrong, ""))
    found = trace.trace("a + b")
    assert found.tree is None and "does not run aten::add.Tensor" in found.tree_note


# ------------------------------------------------------------------------------------------------ live, without valgrind


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda m: m.setenv("ONE_ADD_NO_VALGRIND", "1"), "ONE_ADD_NO_VALGRIND"),
        (lambda m: m.setattr("shutil.which", lambda name, *a, **k: None), "valgrind"),
        (lambda m: m.setattr(sys, "platform", "darwin"), "darwin"),
        (lambda m: m.setattr("utils.measure.seams.has_valgrind_toggle", lambda: False), "client requests"),
    ],
    ids=["switched off", "not there", "macOS", "a torch without it"],
)
def test_where_nothing_can_be_counted_words_say_why_and_the_recorded_tree_is_shown(spoil, said, monkeypatch, own_cache):
    monkeypatch.setattr(callgrind.tools, "_known", {})  # what is found with valgrind hidden must not outlive the test
    if said == "client requests":
        monkeypatch.setattr(callgrind.tools, "valgrind", lambda: callgrind.tools.Tool("valgrind", True, "3.19"))
        monkeypatch.setattr(callgrind.shutil, "which", lambda name: name)
    spoil(monkeypatch)
    tree, note = trace.call_tree("a + b", live=True)
    assert tree.source == "recorded" and note.startswith("not counted here: ") and said in note


def test_a_live_tree_is_counted_once(monkeypatch, own_cache):
    counted = []

    def count(todo, progress=None):
        counted.append([s.name for s in todo])
        return {s.name: replace(trace.recorded_trees()["a + b"], statement=s.name, source="live") for s in todo}

    monkeypatch.setattr(callgrind, "count", count)
    wanted = [("a + b", False), ("a + b", True)]
    assert set(trace.live_trees(wanted)) == {"a + b", "a + b, grad"}
    again = trace.live_trees([*wanted, ("x @ w", False)])
    assert counted == [["a + b", "a + b, grad"], ["x @ w"]]
    assert again["a + b"].source == "live"
    monkeypatch.setattr(callgrind, "ROUNDS", callgrind.ROUNDS + 1)  # another form of the program
    trace.live_trees([("a + b", False)])
    assert counted[-1] == ["a + b"]
    for file in own_cache.rglob("*.json"):
        file.write_text('{"tree": {}', encoding="utf-8")
    trace.live_trees([("x @ w", False)])
    assert counted[-1] == ["x @ w"] and len(counted) == 4


def test_a_child_that_dies_is_words(monkeypatch, tmp_path):
    program = tmp_path / "program.py"
    program.write_text("raise SystemExit('/some/where/lib.so: no such symbol')\n", encoding="utf-8")
    real = callgrind.subprocess.Popen
    monkeypatch.setattr(callgrind.subprocess, "Popen", lambda command, **k: real(command[command.index(sys.executable) :], **k))
    with pytest.raises(CallgrindError, match=r"ended with 1: lib\.so|ended with 1: .*no such symbol") as caught:
        callgrind._run(program, lambda done, text: None)
    assert "/some/where" not in str(caught.value)


# ------------------------------------------------------------------------------------------------ the child's program


def test_the_childs_statements_use_local_names_only_and_its_hash_seed_is_fixed():
    """Names in a module are looked up by hash: two processes then differ by 0.9 %."""
    text = callgrind.program_text([trace.statement_of("a + b"), trace.statement_of("x @ w", True)])
    functions = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    assert len(functions) == 2
    for function, names in zip(functions, ("ab", "xw"), strict=True):
        adds = [n for n in ast.walk(function) if isinstance(n, ast.Assign) and isinstance(n.value, ast.BinOp)]
        assert len(adds) == callgrind.UNROLLED
        assigned = {t.id for n in ast.walk(function) if isinstance(n, ast.Assign) for t in n.targets}
        assert assigned == {*names, "result"}
    env = callgrind.environment()
    assert env["PYTHONHASHSEED"] == "0"
    assert env["PATH"].split(os.pathsep)[0] == str(Path(sys.executable).parent)


def test_plants_are_set_one_after_the_other_in_one_function():
    statement = Statement("s", "c = a + b", "a = b = 1", (("plant_kernel", 0), ("plant_kernel", 1000)))
    text = callgrind.program_text([statement], Path("plant.so"))
    assert "for plant, instructions in ((planted.plant_kernel, 0), (planted.plant_kernel, 1000),):" in text
    assert statement.counted == ("s | plant_kernel | 0", "s | plant_kernel | 1000")
    assert text.index("ctypes.CDLL('plant.so'") < text.index("import torch")


def test_names_are_checked_before_anything_is_run():
    with pytest.raises(ValueError, match="q is not known here"):
        trace.live_trees([("q + a", False)])
    with pytest.raises(ValueError, match="is no Python expression"):
        statements.normal("a +")
    assert statements.key("a+b", True) == "a + b, grad" and statements.method("torch.add(a, b)") == "add"


# ------------------------------------------------------------------------------------------------ one real run


def test_an_add_counted_here_is_the_committed_one(own_cache):
    """About 25 s: the whole way through valgrind, the client requests, the parser and the fold."""
    require("valgrind")
    if (why := callgrind.missing()) and os.environ.get("CI", "").lower() != "true":
        pytest.skip(why)
    told = []
    tree = trace.live_trees([("a + b", False)], lambda done, text: told.append((done, text)))["a + b"]
    assert tree.source == "live" and fold_checks.runs(tree, "aten::add.Tensor")
    assert any("imported" in text for _, text in told) and told[-1][0] == 1.0
    folded = trace.fold(tree)
    assert folded.unexplained <= 0.005 * tree.total
    for row in ("slot", "parse", "hop_1", "hop_2", "tensor_iterator", "kernel", "dealloc"):
        assert folded.row(row).instructions > 10, row
    committed = trace.recorded_trees()["a + b"]
    if committed.where["torch"].split("+")[0] == torch.__version__.split("+")[0]:
        assert tree.total == pytest.approx(committed.total, rel=0.1)
        if committed.where["python"] == platform.python_version():  # a distribution's own Python can be stripped of its names
            assert fold_checks.unknown(tree, trace.load_rules()) == []
    assert trace.call_tree("a + b", live=True, progress=lambda done, text: None)[1] == ""
