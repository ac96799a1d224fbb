"""Lab 4's world: its yardsticks agree, its graphs are what the tests need, and no answer gets by them by a trick."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from grading import course
from grading.score import lost
from tests.conftest import REPO
from tests.lab_answers import LIAR, answered
from utils.labs import cells
from utils.labs.tape import Grad, Graph, Node, Tensor, chain, ladder, nested, numbers, random_graph, tensors
from utils.labs.tape_expressions import NODES, OPS, apart, expression, gradient
from utils.labs.tape_whole import Tape

LAB = "lab04_tape"
SEEDS = [*range(12), *range(4_450, 4_458)]  # those of the lab, and some


def solution() -> dict:
    """What the lab's solution defines: its functions by name."""
    namespace: dict = {"__name__": "lab"}
    for cell in cells.known(cells.read(course.source(LAB))):
        if cell.kind == "code" and not cell.test and cell.id != "setup":
            exec(compile(cell.source, cell.id, "exec"), namespace)  # noqa: S102
    return namespace


RIGHT = solution()
WHOLE = Tape(*(RIGHT[name] for name in ("record", "accumulate", "keep", "gradients", "pack", "unpack", "backward")))


# ------------------------------------------------------------------------------------------------ the yardsticks


@pytest.mark.parametrize("seed", SEEDS)
def test_three_ways_to_the_same_gradients(seed):
    """Complex steps over the whole expression, torch.autograd, and a right tape: none of them knows of the others."""
    one = expression(seed, steps=8 + seed % 12)
    stepped, torch_s, mine = one.by_complex_step(), one.by_torch(), WHOLE.run(one)
    assert apart(torch_s.grads, stepped) < 1e-9 and apart(mine.grads, stepped) < 1e-9
    assert apart(one.by_walk(RIGHT["backward"]), stepped) < 1e-9
    assert (mine.nodes, mine.kept) == (torch_s.nodes, torch_s.kept), "PyTorch records and keeps the same"
    needed = [array for array, need in zip(stepped.values(), one.needs) if need]
    assert len(needed) >= 2 and all(np.abs(array).max() > 1e-6 for array in needed), "gradients that vanish test nothing"


def test_expressions_hold_what_a_walk_can_get_wrong():
    many = [expression(seed) for seed in SEEDS]
    assert {op for one in many for op, _ in one.steps} == set(OPS)
    assert any(len(set(inputs)) < len(inputs) for one in many for _, inputs in one.steps), "one op uses a result twice"
    assert all(one.needs[3] is False for one in many), "some arrays need no gradient"
    assert expression(3).steps == expression(3).steps != expression(4).steps
    for one in many:
        used = [i for _, inputs in one.steps for i in inputs if i > 3]
        assert len(set(used)) < len(used), "a result is used again"


@pytest.mark.parametrize("op", OPS)
def test_single_gradients_are_torch_s(op):
    torch = pytest.importorskip("torch")
    *arrays, grad = (t.data for t in tensors(*[(3, 3)] * (OPS[op].__code__.co_argcount + 1), seed=5))
    if op == "tanh":
        arrays[0] /= 10.0
    leaves = [torch.tensor(array, requires_grad=True) for array in arrays]
    result = getattr(torch, op)(*leaves)
    result.backward(torch.tensor(grad))
    assert result.grad_fn.name() == NODES[op]
    for i, leaf in enumerate(leaves):
        assert np.allclose(gradient(op, tuple(arrays), grad, i), leaf.grad.numpy(), rtol=1e-12, atol=0.0)


def test_apart_sees_what_is_missing_and_what_is_no_number():
    one = {"a": np.array([1.0, 2.0]), "b": None}
    assert apart(one, one) == 0.0 and apart({"a": np.array([1.0, 2.2]), "b": None}, one) == pytest.approx(0.1)
    nan = {"a": np.array([1.0, np.nan]), "b": None}
    for bad in ({"a": one["a"]}, {**one, "b": one["a"]}, {**one, "a": None}, {**one, "a": np.ones(3)}, nan):
        assert apart(bad, one) == float("inf")


# ------------------------------------------------------------------------------------------------ the world


def test_the_solution_walks_every_graph():
    for graph in [*(random_graph(seed, tree=tree) for seed in range(20) for tree in (False, True)), chain(50), ladder(60)]:
        RIGHT["backward"](graph.root, Grad(2.0))
        assert graph.grads() == graph.wanted(2.0) and graph.runs() == graph.once() and graph.too_early() == []


def test_random_graphs_are_hard_enough():
    graphs = [random_graph(seed) for seed in range(4_420, 4_430)]
    edges = [[n for n, _ in node.next_functions] for graph in graphs for node in graph.nodes]
    assert any(None in e for e in edges), "edges to nowhere"
    assert any(len([n for n in e if n]) > len({n for n in e if n}) for e in edges), "one node uses a result twice"
    for graph in (random_graph(seed, tree=True) for seed in range(10)):
        used = [n for node in graph.nodes for n, _ in node.next_functions if n]
        assert len(used) == len(set(used)), "in a tree nothing is used twice"
    assert (
        [random_graph(7).wanted(), random_graph(7).wanted()] == [random_graph(7).wanted()] * 2 != [random_graph(8).wanted()] * 2
    )


def test_a_graph_tells_who_ran_too_early_too_often_or_never():
    g = Graph()
    x = g.leaf("x")
    a = g.node("A", (x, 2.0))
    g.node("B", (a, 3.0), (x, 1.0))
    assert g.too_early() == ["A", "B", "x"] and g.grads() == {"x": None} and g.wanted() == {"x": 7.0}
    (to_a, to_x) = g.root.apply(Grad(1.0))
    x.apply(to_x)
    x.apply(a.apply(to_a)[0])
    assert g.too_early() == ["x"] and g.runs() == {"x": 2, "A": 1, "B": 1} and g.once() == {"x": 1, "A": 1, "B": 1}


def test_a_walk_without_end_is_ended():
    g = ladder(40)
    with pytest.raises(AssertionError, match="every path"):
        for _ in range(3_000):
            g.nodes[0].apply(Grad(1.0))


def test_a_gradient_adds_to_gradients_only():
    a = Grad(1.0)
    b = a + Grad(2.0)
    assert (a.value, b.value) == (1.0, 3.0)
    b += a
    assert b.value == 4.0
    for bad in (lambda: a + 1.0, lambda: chain(1).root.apply(1.0), lambda: chain(1).root.apply(None)):
        with pytest.raises(TypeError, match="is a Grad"):
            bad()
    with pytest.raises(RuntimeError, match="without a formula"):
        Node("Op").apply(a)


def test_a_tensor_holds_the_array_it_is_given():
    array = np.array([[1.0, 2.0]])
    t = Tensor(array)
    assert t.data is array and t.is_leaf and t._version == 0 and "version 0" in repr(t)
    assert numbers(array) == [[1.0, 2.0]]
    odd = np.ma.array([1.0])
    assert numbers(odd) is odd, "no subclass speaks for its numbers"


# ------------------------------------------------------------------------------------------------ the whole tape


def test_the_table_beside_torch_shows_a_wrong_gradient_and_too_much_kept():
    assert all(row["gradients"] == "agree" for row in WHOLE.beside_torch(range(2)).rows)
    keeps_all = Tape(
        **{**vars(WHOLE), "keep": lambda op, inputs, result: {"self": inputs[0], "other": inputs[-1], "result": result}}
    )
    row = keeps_all.beside_torch([0]).rows[0]
    mine, theirs = row["tensors kept"].split(" / ")
    assert row["gradients"] == "agree" and int(mine) > int(theirs)
    lazy = Tape(**{**vars(WHOLE), "accumulate": lambda leaf, grad: RIGHT["accumulate"](leaf, grad * 1.001)})
    assert "e-03 apart" in lazy.beside_torch([0]).rows[0]["gradients"]


def test_most_of_the_lab_needs_no_torch():
    """The import takes longer than all tests of the lab together: only the cell that compares with torch may pay for it."""
    code = (
        "import sys, utils.labs.tape, utils.labs.tape_expressions as e, utils.labs.tape_whole; e.expression(1).by_complex_step()"
    )
    subprocess.run([sys.executable, "-c", f"{code}; assert 'torch' not in sys.modules"], cwd=REPO, check=True)


# ------------------------------------------------------------------------------------------------ the lab's tests


OTHER = {
    "record": """
def record(name, inputs, result):
    def edge(t):
        if t.grad_fn is None and t.requires_grad:
            t.grad_accumulator = t.grad_accumulator or AccumulateGrad(t)
        return (t.grad_fn or t.grad_accumulator if t.requires_grad else None, 0)

    if True in [t.requires_grad for t in inputs]:
        result.grad_fn, result.requires_grad = Node(name, tuple(map(edge, inputs))), True
    return result
""",
    "accumulate": """
def accumulate(leaf, grad):
    if leaf.grad is None:
        leaf.grad = np.zeros_like(leaf.data)
    leaf.grad += grad
""",
    "gradients": """
def gradients(op, grad, saved, needs):
    a, b, r = (saved.get(name) for name in ("self", "other", "result"))
    first = second = None
    if needs[0]:
        if op == "add":
            first = grad.copy()
        elif op == "mul":
            first = b * grad
        elif op == "div":
            first = grad * b ** -1
        elif op == "mm":
            first = np.einsum("ij,kj->ik", grad, b)
        elif op == "relu":
            first = np.where(r > 0, grad, 0)
        else:
            first = grad - grad * r * r
    if op in ("relu", "tanh"):
        return (first,)
    if needs[1]:
        second = {
            "add": lambda: +grad,
            "mul": lambda: a * grad,
            "div": lambda: grad * (-a / (b * b)),
            "mm": lambda: np.dot(a.T, grad),
        }[op]()
    return first, second
""",
    "keep": """
def keep(op, inputs, result):
    kept, first, last = {}, inputs[0], inputs[-1]
    if op in ("relu", "tanh"):
        return {"result": result} if first.requires_grad else {}
    if op != "add" and (first.requires_grad or op == "div" and last.requires_grad):
        kept["other"] = last
    if op != "add" and last.requires_grad:
        kept["self"] = first
    return kept
""",
    "inplace": """
def add_(tensor, array):
    if tensor.is_leaf and tensor.requires_grad:
        raise RuntimeError("no")
    tensor.version_counter.bump()
    np.add(tensor.data, array, out=tensor.data)
    return tensor
""",
    "saved": """
class Saved:
    pass

def pack(tensor):
    saved = Saved()
    saved.tensor, saved.version = tensor, tensor.version_counter.current_version
    return saved

def unpack(packed):
    now = packed.tensor.version_counter.current_version
    if now > packed.version:
        raise RuntimeError("it is at version %d; expected version %d instead" % (now, packed.version))
    return packed.tensor
""",
    "backward": """
def backward(root, grad):
    order, seen, stack = [], set(), [(root, False)]
    while stack:
        node, left = stack.pop()
        if left:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack.extend((n, False) for n, _ in node.next_functions if n is not None and n not in seen)
    parts = {node: [] for node in order}
    parts[root].append(grad)
    for node in reversed(order):
        total = parts[node][0]
        for part in parts[node][1:]:
            total = total + part
        for (n, _), part in zip(node.next_functions, node.apply(total)):
            if n:
                parts[n].append(part)
""",
    "no_grad": """
def wants_history(mode, inputs):
    for t in inputs:
        if t.requires_grad and mode.enabled:
            return True
    return False

class no_grad:
    def __init__(self, mode):
        self.mode = mode
    def __enter__(self):
        self.before, self.mode.enabled = self.mode.enabled, False
    def __exit__(self, *error):
        self.mode.enabled = self.before
""",
    "views": """
def view(base, index):
    out = Tensor(base.data[index])
    out.version_counter = base.version_counter
    out._base = base._base or base
    return out

def clone(tensor):
    return Tensor(np.array(tensor.data))
""",
}


def test_right_answers_that_are_written_differently_have_full_marks():
    scores = answered(LAB, OTHER)
    assert lost(scores) == set(), [score for score in scores if score.said]


NAMES = {
    "record": ["record"],
    "accumulate": ["accumulate"],
    "gradients": ["gradients"],
    "keep": ["keep"],
    "inplace": ["add_"],
    "saved": ["pack", "unpack"],
    "backward": ["backward"],
    "no_grad": ["wants_history", "no_grad"],
    "views": ["view", "clone"],
}
CONSTANTS = ["None", "True", "False", "{}", "(None, None)", "a[0]", "a[-1]", "Tensor(0.0)", "Liar()"]


@pytest.mark.parametrize("value", CONSTANTS)
def test_a_function_that_returns_the_same_whatever_it_is_asked_earns_nothing(value):
    """Also one that returns an argument as it came; what is right of that (a saved tensor handed back) it keeps."""
    answers = {cell: LIAR + "\n".join(f"def {n}(*a, **k): return {value}" for n in names) for cell, names in NAMES.items()}
    scores = answered(LAB, answers)
    won = {score.id for score in scores if score.points}
    assert won == ({"unpack_gives_back"} if value in ("a[0]", "a[-1]") else set())


def test_functions_that_only_raise_earn_nothing():
    answers = {
        cell: "\n".join(f"def {n}(*a, **k): raise RuntimeError('is at version 3; expected version 0 instead')" for n in names)
        for cell, names in NAMES.items()
    }
    assert not {score.id for score in answered(LAB, answers) if score.points}


@pytest.mark.parametrize(
    "call", ["torch.autograd.backward(root, grad)", "torch.autograd.grad(root, [], grad)", "root.backward(grad)"]
)
def test_the_walk_cannot_be_torch_s(call):
    """Nodes and gradients are the room's own: torch's engine takes neither."""
    earned = {
        score.id for score in answered(LAB, {"backward": f"import torch\ndef backward(root, grad):\n    {call}"}) if score.points
    }
    assert not {name for name in earned if name.startswith("walk_")}


def test_no_test_hangs_on_another_answer():
    """Each answer lost on its own loses the tests below it and no other."""
    known = [c for c in cells.known(cells.read(course.source(LAB))) if c.kind == "code" and (c.test or c.solution)]
    below: dict[str, set[str]] = {}
    for cell in known:
        if cell.solution:
            below[cell.id] = set()
        else:
            below[list(below)[-1]].add(cell.id)
    assert below.keys() == NAMES.keys()
    for answer, tests in below.items():
        unwritten = "\n".join(f"def {name}(*a, **k): raise NotImplementedError" for name in NAMES[answer])
        assert lost(answered(LAB, {answer: unwritten})) == tests


def test_nested_counts_the_calls_that_are_open_at_once():
    def down(n: int) -> None:
        if n:
            down(n - 1)

    depths = [nested(lambda n=n: down(n)) for n in (0, 7, 200)]
    assert [depth - depths[0] for depth in depths] == [0, 7, 200]
    side_by_side = nested(lambda: [down(1) for _ in range(50)])
    assert side_by_side <= nested(lambda: down(1)) + 1  # a comprehension is a call of its own before Python 3.12


def test_nested_hands_errors_on_and_leaves_the_profiler_as_it_was():
    def watch(*_what) -> None:
        pass

    sys.setprofile(watch)
    try:
        with pytest.raises(ZeroDivisionError):
            nested(lambda: 1 / 0)
        assert sys.getprofile() is watch
    finally:
        sys.setprofile(None)
