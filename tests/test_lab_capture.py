"""Lab 8: a capturer that keeps CUDA's rules on the CPU, the traps of a capture, rules broken and repaired, cheats caught."""

from __future__ import annotations

import gc
import json
import random
import runpy
import sys
import weakref

import numpy as np
import pytest
import torch
from torch.nn import functional

from grading import course, fast
from grading.rebuild import rebuilt
from grading.score import lost, total
from tests.lab_answers import LIAR, answered
from utils.labs import capture as world
from utils.labs import capture_calls, capture_cases, capture_rules, cells
from utils.labs.capture import (
    CaptureError,
    Counted,
    alike,
    capture,
    captured_once,
    elsewhere,
    left_on,
    mode_is_gone,
    new_graph,
    numbers,
    own,
    recorded,
    right,
)
from utils.measure import seams

LAB = "lab08_capture"


def taken(step, *static):
    """The graph of a step, and what the step returned while it was captured."""
    graph = new_graph()
    with capture(graph):
        out = step(*static)
    return graph, out


def replayed(step, *new, seed=0):
    """What a replay gives for `new`, captured on other numbers of the same kinds."""
    static = [numbers(99 + i, *x.shape).to(x.dtype) if x.dtype.is_floating_point else x.clone() + 1 for i, x in enumerate(new)]
    graph, out = taken(step, *static)
    for buffer, x in zip(static, new):
        buffer.copy_(x)
    torch.manual_seed(seed)
    graph.replay()
    return out


# ------------------------------------------------------------------------------------------------ the rules of a CUDA graph


def test_a_capture_computes_nothing():
    x, count, state = numbers(1, 4), torch.tensor(3), torch.get_rng_state()

    def step():
        count.add_(1)
        return x.mul_(2) + count, torch.arange(3), x > 0, torch.rand(2)

    graph, (y, whole, flags, draw) = taken(step)
    assert alike(x, numbers(1, 4)) == "" and count.item() == 3 and torch.equal(torch.get_rng_state(), state)
    assert y.isnan().all() and draw.isnan().all() and (whole < -1_000).all() and not flags.any()
    graph.replay()
    assert alike(y, numbers(1, 4) * 2 + 4) == "" and count.item() == 4 and whole.tolist() == [0, 1, 2]


def test_inputs_are_stale_unless_copied_and_outputs_are_overwritten():
    static = numbers(1, 5)
    graph, out = taken(lambda x: x * 2, static)
    place = out.data_ptr()
    graph.replay()
    first, static_name = out, static
    static_name = numbers(2, 5)
    graph.replay()
    assert alike(out, numbers(1, 5) * 2) == "" and static_name is not static
    static.copy_(numbers(3, 5))
    graph.replay()
    assert alike(first, numbers(3, 5) * 2) == "" and out.data_ptr() == place


def test_memory_that_a_tensor_no_longer_has_is_what_is_read():
    static, weights = numbers(1, 3), {"w": numbers(2, 3)}
    graph, out = taken(lambda x: x * weights["w"], static)
    static.data = numbers(4, 3)
    weights["w"].mul_(2)  # a write is seen
    graph.replay()
    assert alike(out, numbers(1, 3) * (numbers(2, 3) * 2)) == ""
    weights["w"] = numbers(5, 3)  # another tensor is not
    graph.replay()
    assert alike(out, numbers(1, 3) * (numbers(2, 3) * 2)) == ""


def test_what_python_computed_is_a_constant():
    rate, array = 2.0, np.arange(3.0, dtype=np.float32)
    graph, (a, b, c) = taken(lambda x: (x * rate, x + torch.tensor([1.0, 2.0, rate]), x + torch.from_numpy(array)), numbers(1, 3))
    rate = 5.0
    graph.replay()
    assert alike(a, numbers(1, 3) * 2) == "" and alike(b, numbers(1, 3) + torch.tensor([1.0, 2.0, 2.0])) == ""
    array += 1  # memory that NumPy lent is memory, not a constant
    graph.replay()
    assert alike(c, numbers(1, 3) + torch.tensor([1.0, 2.0, 3.0])) == ""


def test_a_graph_is_captured_once_and_replayed_afterwards():
    graph = new_graph()
    with pytest.raises(CaptureError, match="before a capture"):
        graph.replay()
    with capture(graph):
        X + 1
    with pytest.raises(CaptureError, match="already"), capture(graph):
        pass
    with pytest.raises(CaptureError, match="while a capture runs"), capture(new_graph()):
        graph.replay()
    with pytest.raises(CaptureError, match="runs in this thread"), capture(new_graph()), capture(new_graph()):
        pass
    graph.reset()
    with capture(graph):
        X * 2
    assert graph.calls[-1] == "aten::mul.Tensor" and mode_is_gone() == ""


# ------------------------------------------------------------------------------------------------ what is refused

X, ROWS = numbers(7, 4, 3), torch.tensor([2, 0, 3])
REFUSED = {
    "item": lambda x: x.sum().item(),
    "float": lambda x: float(x[0, 0]),
    "bool": lambda x: x if x.sum() > 0 else -x,
    "index": lambda x: [1, 2, 3][ROWS[0]],
    "format": lambda x: f"{x[0, 0]}",
    "nonzero": torch.nonzero,
    "where of one": lambda x: torch.where(x > 0),
    "mask": lambda x: x[x > 0],
    "mask of uint8": lambda x: torch.ops.aten.index.Tensor(x, [(x[:, 0] > 0).to(torch.uint8)]),
    "mask of columns": lambda x: x[:, x[0] > 0],
    "values through a mask": lambda x: x.index_put_((x > 0,), x[x > 0]),
    "many values through a mask": lambda x: x.__setitem__(x[:, 0] > 0, ROWS.float()),
    "unique": torch.unique,
    "unique_consecutive": torch.unique_consecutive,
    "masked_select": lambda x: x.masked_select(x > 0),
    "bincount": lambda x: ROWS.bincount(),
    "repeats": lambda x: torch.repeat_interleave(ROWS),
    "equal": lambda x: torch.equal(x, x),
    "allclose": lambda x: torch.allclose(x, x),
    "tolist": torch.Tensor.tolist,
    "print": print,
    "numpy": torch.Tensor.numpy,
    "asarray": np.asarray,
    "other memory": lambda x: setattr(x, "data", x * 2),
    "dlpack": lambda x: x.__dlpack__(),
    "resize_": lambda x: x.clone().resize_(2),
    "set_": lambda x: torch.empty(3).set_(x),
    "t_": lambda x: (x + 1).t_(),
    "another device": lambda x: x.to("meta"),
    "made on another device": lambda x: torch.empty(3, device="meta"),
    "a generator": lambda x: torch.rand(3, generator=torch.Generator()),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_recorded_is_refused_and_nothing_is_left_of_it(what):
    x, state, graph = X.clone(), torch.get_rng_state(), new_graph()
    with pytest.raises(CaptureError, match="operation not permitted while capturing: .{20}"), capture(graph):
        x.mul_(2)
        functional.dropout(x, 0.5)
        REFUSED[what](x)
    assert mode_is_gone() == "" and alike(x, X) == "" and torch.equal(torch.get_rng_state(), state)
    with pytest.raises(CaptureError, match="before a capture"):
        graph.replay()
    with capture(graph):
        out = x + 1
    graph.replay()
    assert alike(out, X + 1) == "", "the same graph, the same process"


ALLOWED = {
    "index": lambda x: x[ROWS],
    "index of columns": lambda x: x[:, torch.tensor([2, 0])],
    "a number through a mask": lambda x: x.masked_fill(x > 0, 0.0) + x.clone().index_put_((x > 0,), torch.tensor(2.0)),
    "repeats of a known sum": lambda x: (
        torch.repeat_interleave(x[:, 0], ROWS, output_size=5) if len(ROWS) == 4 else x.repeat(2, 1)
    ),
    "where": lambda x: torch.where(x > 0, x, 0.0),
    "requires_grad": lambda x: x.detach().requires_grad_(False) + 1,
    "reading .data": lambda x: x.data * 2,
    "shape": lambda x: x.reshape(len(x) * x.shape[1]) + x.dim(),
}


@pytest.mark.parametrize("what", ALLOWED)
def test_what_has_a_known_size_is_not_refused(what):
    assert alike(replayed(ALLOWED[what], X), ALLOWED[what](X.clone())) == ""


def test_errors_of_the_step_itself_go_on():
    for error, step in ((ZeroDivisionError, lambda: 1 // 0), (RuntimeError, lambda: X @ X), (KeyError, lambda: {}["x"])):
        with pytest.raises(error) as raised, capture(new_graph()):
            step()
        assert not isinstance(raised.value, CaptureError) and mode_is_gone() == ""


def test_holes_that_are_known():
    """What neither an op nor a torch function tells, no mode can see: an address, and what other threads do."""
    graph, (place, other) = taken(lambda x: (x.data_ptr(), elsewhere(lambda: x * 2)), X.clone())
    assert place and graph.calls == () and alike(other, X * 2) == "", "computed at the capture, and never again"


def test_a_reason_is_asked_of_torchs_own_tags():
    """Every op that torch tags is refused, so that the list is torch's and not ours."""
    aten = torch.ops.aten
    for name in ("nonzero", "unique_dim", "_unique2", "masked_select", "unique_consecutive", "bincount"):
        assert capture_rules.refusal(getattr(aten, name).default, (X,)) != "", name
    assert capture_rules.refusal(aten.index.Tensor, (X, [None, ROWS])) == "" != capture_rules.refusal(aten.equal.default, (X, X))


# ------------------------------------------------------------------------------------------------ traps of a replay


def put(x):
    x[1:3] = x[0] * 2
    x[:, 0] += 1
    x.view(-1)[::2].neg_()
    return x


def lists(x):
    a, b, c = x.split([1, 2, 1])
    more = seams.foreach("mul")([a, b], [2.0, 3.0])
    seams.foreach("add_")(more, 1.0)
    values, order = x.sort(dim=1)
    return torch.cat([*more, c, values, order.to(x.dtype), x.unbind(0)[0][None], torch.stack(x[:, :3].chunk(3, 1)).view(-1, 3)])


TRAPS = {
    "slice-assign and writes through views": put,
    "lists and tuples": lists,
    "out=": lambda x: torch.mul(x, 2, out=torch.empty_like(x)),
    "expand": lambda x: x.mean(0).expand(5, 3) + x.sum(),
    "a number": lambda x: x.sum() * 2 + x[0, 0],
    "empty": lambda x: torch.cat([x[:0] * 2, x]),
    "factories": lambda x: x + torch.arange(3) * torch.empty(3).fill_(2.0) + torch.linspace(0, 1, 3),
    "a transposed result": lambda x: (x @ x.t()).t().contiguous(),
    "reshape that copies": lambda x: x.t().reshape(-1) * 2,
    "dtypes": lambda x: (x.double().round().to(torch.int64) % 3).to(torch.bfloat16),
    "composites": lambda x: functional.layer_norm(functional.gelu(functional.linear(x, X[:3, :3], X[0])), (3,)),
    "no-ops": lambda x: x.to(x.dtype).contiguous().reshape(4, 3),
    "unsafe view": lambda x: torch.einsum("ij,kj->ik", x, x),
    "in place on a temporary": lambda x: (x * 2).add_(x).relu_(),
    "a mask from the input": lambda x: x.masked_fill(x > 0, 0.0),
    "cumulative": lambda x: x.cumsum(0).flip(0).roll(1, 1),
    "1,000 temporaries": lambda x: [x := x * 1.001 + i % 3 for i in range(500)][-1],
}


@pytest.mark.parametrize("what", TRAPS)
def test_a_replay_gives_what_the_step_gives(what):
    for seed in (11, 12):
        new = numbers(seed, 4, 3)
        assert alike(replayed(TRAPS[what], new), TRAPS[what](new.clone()), within=1e-5) == ""
        tape = right.record(TRAPS[what], (numbers(99, 4, 3),), right.refusal, right.read_out)
        assert alike(right.replay(tape, (new,), right.rerun), TRAPS[what](new.clone()), within=1e-5) == ""


@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (2, 0)])
def test_no_dimensions_and_no_elements(shape):
    new = numbers(5, *shape)
    assert alike(replayed(lambda x: x.abs() * 2, new), new.abs() * 2) == ""


def test_an_output_may_be_an_input_or_lie_in_one():
    static = X.clone()
    graph, (same, row) = taken(lambda x: (x.contiguous(), x[1]), static)
    static.copy_(numbers(8, 4, 3))
    graph.replay()
    assert same is static and alike(row, numbers(8, 4, 3)[1]) == ""


def test_one_tensor_given_twice_is_two_inputs_of_a_tape():
    tape = right.record(lambda a, b: a - b, (X, X), right.refusal, right.read_out)
    one, two = numbers(8, 4, 3), numbers(9, 4, 3)
    assert alike(right.replay(tape, (one, two), right.rerun), one - two) == ""


def test_inputs_that_overlap_stay_one_memory_in_a_graph():
    whole = numbers(1, 6)
    graph, _ = taken(lambda: whole[1:].add_(whole[:5].sum()))
    graph.replay()
    wanted = numbers(1, 6)
    wanted[1:].add_(wanted[:5].sum())
    assert alike(whole, wanted) == ""


def test_freed_and_used_again():
    """Buffers of a capture are held: what is allocated and freed between replays does not touch them."""
    graph, out = taken(lambda x: (x * 2 + 1).exp().sin(), X.clone())
    for seed in range(5):
        junk = [numbers(seed, 4, 3) for _ in range(20)]
        graph.replay()
        assert alike(out, (X * 2 + 1).exp().sin()) == "" and len(junk) == 20


def test_draws_go_on_from_replay_to_replay():
    graph, out = taken(lambda x: functional.dropout(x, 0.5), numbers(1, 300))
    torch.manual_seed(3)
    graph.replay()
    first = out.clone()
    graph.replay()
    torch.manual_seed(3)
    eager = [functional.dropout(numbers(1, 300), 0.5) for _ in range(2)]
    assert alike(first, eager[0]) == "" and alike(out, eager[1]) == ""


def test_a_generator_of_ones_own_is_told_apart_and_moves_on():
    mine, twin, graph = torch.Generator().manual_seed(4), torch.Generator().manual_seed(4), new_graph()
    graph.register_generator_state(mine)
    with capture(graph):
        out = torch.rand(5, generator=mine)
        torch.rand(2, generator=torch.default_generator)
    graph.replay()
    graph.replay()
    assert alike(out, [torch.rand(5, generator=twin) for _ in range(2)][1]) == ""
    graph.reset()
    with pytest.raises(CaptureError, match="register_generator_state"), capture(graph):
        torch.rand(5, generator=torch.Generator().manual_seed(4))


def test_training_in_a_graph_is_training():
    def model():
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
        return net, torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)

    def step(net, optimizer, x):
        optimizer.zero_grad(set_to_none=True)
        loss = net(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    (eager, other), (captured, optimizer), static = model(), model(), numbers(1, 4, 3)
    for it, one in ((eager, other), (captured, optimizer)):
        step(it, one, numbers(50, 4, 3))  # the momentum buffers are made in the first step
    graph, loss = taken(lambda: step(captured, optimizer, static))
    for seed in range(4):
        static.copy_(numbers(seed, 4, 3))
        graph.replay()
        assert alike(loss, step(eager, other, numbers(seed, 4, 3)), within=1e-5) == ""
    for mine, torchs in zip(captured.state_dict().values(), eager.state_dict().values()):
        assert alike(mine, torchs, within=1e-5) == ""


OPS = [torch.add, torch.mul, torch.sub, torch.maximum, lambda a, b: a @ b.t() @ b, lambda a, b: torch.where(a > 0, a, b)]
OPS += [lambda a, b: a.add_(b), lambda a, b: a[0].mul_(b[1]).sum() + a, lambda a, b: torch.cat([a, b])[::2]]


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_replay_as_they_run(seed):
    """Temporaries, views and writes as they come: a graph, a tape and eager agree, and again with other numbers."""

    def program(*inputs):
        rng, values = random.Random(seed), list(inputs)
        for _ in range(8):
            values.append(torch.tanh(rng.choice(OPS)(rng.choice(values), rng.choice(values))))
        return values[-1]

    tape = right.record(program, (numbers(1, 4, 4), numbers(2, 4, 4)), right.refusal, right.read_out)
    for first in (20, 30):
        new = numbers(first, 4, 4), numbers(first + 1, 4, 4)
        wanted = program(*(x.clone() for x in new))
        assert alike(replayed(program, *new), wanted, within=1e-5) == ""
        assert alike(right.replay(tape, new, right.rerun), wanted, within=1e-5) == ""


def test_a_tape_refuses_other_kinds_before_it_changes_anything():
    tape = right.record(torch.add, (X, X[0]), right.refusal, right.read_out)
    for wrong in ((X, X), (X.double(), X[0]), (X,), (X, X[0], X), (numbers(5, 4, 3), X[0][:1])):
        with pytest.raises(ValueError, match="captured for"):
            right.replay(tape, wrong, right.rerun)
    assert alike(tape.inputs[0], X) == ""


# ------------------------------------------------------------------------------------------------ the rules broken on purpose


def test_every_rule_is_broken_seen_repaired_and_left_behind():
    rows = {case.name: row for case, row in zip(capture_cases.CASES, capture_cases.broken_rules("cpu"))}
    assert {row["afterwards"] for row in rows.values()} == {"sound"}
    assert all(row["repaired by"].endswith(": right") for row in rows.values())
    refused = {name for name, row in rows.items() if row["what came of it"].startswith("refused: operation not permitted")}
    silent = {name: row["what came of it"] for name, row in rows.items() if name not in refused}
    assert refused == {"item", "decision", "size", "device", "generator", "draws"}
    assert silent == {
        "input": "silent: the old numbers again",
        "output": "silent: the second result is in both",
        "python": "silent: the first rate in every replay",
        "shape": "silent: one row went in, 4 came out",
        "stream": "silent: 2 x is that of the capture",
    }


def test_what_draws_runs_in_a_child_where_there_is_a_gpu(monkeypatch):
    asked = []

    def child(module, arguments, progress, limit_s):
        asked.append((module, *arguments))
        if arguments[0] == "generator":
            raise RuntimeError("its process was killed by signal 6")
        return {"seen": "refused: x", "repaired": "failed: y", "after": "broken: Offset increment outside graph capture"}

    monkeypatch.setattr(capture_cases.children, "in_child", child)
    monkeypatch.setattr(capture_cases, "tried", lambda name, device: dict.fromkeys(("seen", "repaired", "after"), device))
    rows = capture_cases.broken_rules("cuda")
    assert asked == [("utils.labs.capture_cases", name, "cuda") for name in ("generator", "draws")]
    assert "killed by signal 6" in rows[-2]["what came of it"] and "Offset increment" in rows[-1]["afterwards"]
    assert rows[-1]["afterwards"].endswith("(in a child process)") and rows[0]["afterwards"] == "cuda"


def test_the_childs_answer_is_one_line_of_json(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["capture_cases", "item", "cpu"])
    runpy.run_path(capture_cases.__file__, run_name="__main__")
    word, _, answer = capsys.readouterr().out.strip().partition(" ")
    assert word == "answer" and json.loads(answer)["after"] == "sound"


def test_a_case_that_fails_otherwise_loses_no_other(monkeypatch):
    def fails(device):
        raise RuntimeError("CUDA error: an illegal memory access\nmore")

    broken = capture_cases.Case("x", "a rule", "this", fails, "that", fails)
    monkeypatch.setattr(capture_cases, "CASES", (broken, capture_cases.CASES[0]))
    first, second = capture_cases.broken_rules("cpu")
    assert "failed otherwise: RuntimeError" in first["what came of it"] and "failed: RuntimeError" in first["repaired by"]
    assert second["afterwards"] == "sound"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_every_rule_on_a_real_gpu():
    rows = {case.name: row for case, row in zip(capture_cases.CASES, capture_cases.broken_rules("cuda"))}
    here = {name: row for name, row in rows.items() if name not in ("generator", "draws")}
    assert {row["afterwards"] for row in here.values()} == {"sound"}, "and this process has not been restarted"
    assert [row["repaired by"] for row in rows.values() if not row["repaired by"].endswith(": right")] == []
    assert all(rows[name]["what came of it"].startswith("refused") for name in ("item", "decision", "size", "device", "draws"))


# ------------------------------------------------------------------------------------------------ the door to a GPU, without one


class FakeGraph:
    """A torch.cuda.CUDAGraph that only counts its resets; `streams` are those that were made current."""

    streams: list = []

    def __init__(self):
        self.resets = 0

    def reset(self):
        self.resets += 1


@pytest.fixture
def fake_cuda(monkeypatch):
    class Capturing:
        def __init__(self, graph):
            self.graph = graph

        def __enter__(self):
            return self

        def __exit__(self, kind, value, trace):
            if kind is not None and "capturing" in str(value):
                raise RuntimeError("CUDA error: operation failed due to a previous error during capture")

    monkeypatch.setattr(torch.cuda, "graph", Capturing)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: "the first stream")
    monkeypatch.setattr(torch.cuda, "set_stream", FakeGraph.streams.append)
    FakeGraph.streams.clear()
    return FakeGraph()


def test_a_refusal_of_cuda_is_a_capture_error_and_the_graph_is_let_go(fake_cuda):
    with pytest.raises(CaptureError, match="previous error during capture"), capture(fake_cuda):
        raise RuntimeError("CUDA error: operation not permitted when stream is capturing")
    assert fake_cuda.resets == 1 and FakeGraph.streams == ["the first stream"]
    with capture(fake_cuda):
        pass
    assert fake_cuda.resets == 1


def test_a_bug_in_a_capture_of_cuda_stays_a_bug(fake_cuda):
    for error in (
        RuntimeError("mat1 and mat2 shapes cannot be multiplied"),
        NotImplementedError("capture"),
        ValueError("capture"),
    ):
        with pytest.raises(type(error)) as raised, capture(fake_cuda):
            raise error
        assert raised.value is error
    assert fake_cuda.resets == 3, "half a capture is no graph"


# ------------------------------------------------------------------------------------------------ no answer by a trick

ANSWERS = {cell.id: cell for cell in cells.known(cells.read(course.source(LAB))) if cell.solution and not cell.by_hand}


def functions(cell) -> list[str]:
    return [line.split("(")[0].removeprefix("def ") for line in cell.source.splitlines() if line.startswith("def ")]


def every(body: str, before: str = "") -> float:
    """The points of a lab all of whose functions have this body."""
    whole = {
        name: before + "\n".join(f"def {f}(*a, **k):\n    {body}\n" for f in functions(cell)) for name, cell in ANSWERS.items()
    }
    return total(answered(LAB, whole))


@pytest.mark.parametrize(
    "body", ["return None", "return ''", "return True", "return a[0]", "return a[0](*a[1:])", "raise ValueError"]
)
def test_functions_that_do_no_work_earn_nothing(body):
    assert every(body) == 0


def test_an_object_that_says_yes_to_everything_earns_nothing():
    assert every("return Liar()", LIAR) == 0


@pytest.mark.parametrize("borrowed", ["refusal", "record", "rerun", "replay"])
def test_a_part_of_the_courses_is_no_answer(borrowed):
    """`right` is at hand in every cell: while a part is asked for, the course's own is locked."""
    cell = ANSWERS[borrowed]
    source = "\n".join(f"def {f}(*a):\n    return right.{f}(*a)\n" for f in functions(cell))
    tests = {c.id for c in cells.known(cells.read(course.source(LAB))) if c.test and c.id.startswith(f"{borrowed}_")}
    assert lost(answered(LAB, {borrowed: source})) == tests


def test_nor_is_the_courses_capturer():
    source = """def record(step, inputs, refusal, read_out):
    static, graph = tuple(x.clone() for x in inputs), new_graph()
    with capture(graph):
        out = step(*static)
    return Tape(static, [], out)
"""
    tests = {c.id for c in cells.known(cells.read(course.source(LAB))) if c.test and c.id.startswith("record_")}
    assert lost(answered(LAB, {"record": source})) >= tests - {"record_pops", "record_refuses"}


CHEATS = {
    "runs the step at each replay": (
        "captured",
        "def captured(step, x):\n    kind = x.shape, x.dtype\n\n    def run(new):\n        if (new.shape, new.dtype) != kind:\n"
        "            raise ValueError\n        return step(new.clone())\n\n    return run\n",
        {"captured_values", "captured_keeps_outputs", "captured_once_only"},
    ),
    "keeps the step in the tape": (
        "record",
        "def record(step, inputs, refusal, read_out):\n    tape = Tape(tuple(x.detach().clone() for x in inputs), [], None)\n"
        "    tape.calls = [Call(lambda *a: step(*tape.inputs), (), {}, None)]\n    tape.outputs = step(*tape.inputs)\n"
        "    tape.calls[0].out = tape.outputs\n    return tape\n",
        {"record_calls", "record_static", "record_refuses", "record_holds"},
    ),
    "knows the visible numbers": (
        "diagnose",
        "def diagnose(step, x, new):\n    return {18: 'right'}.get(x.numel(), 'refused')\n",
        {"diagnose_right", "diagnose_wrong", "diagnose_leaves", "diagnose_refused"},
    ),
    "returns what is there without a replay": (
        "replay",
        "def replay(tape, inputs, rerun):\n    return tape.outputs\n",
        {"replay_values", "replay_same_tensors", "replay_refuses"},
    ),
}


@pytest.mark.parametrize("cheat", CHEATS)
def test_a_cheat_loses_what_it_did_not_do(cheat):
    cell, source, tests = CHEATS[cheat]
    assert lost(answered(LAB, {cell: source})) == tests


OTHERWISE = {
    "refusal": """def refusal(func, args):
    tags = func.tags
    if func == torch.ops.aten.index.Tensor:
        kinds = {i.dtype for i in args[1] if i is not None}
        return "" if kinds <= {torch.int64, torch.int32} else "a mask"
    return ", ".join(str(t) for t in tags if t in (torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output))


def read_out(func):
    if func == torch.Tensor.data.__set__:
        return "data"
    return "reads" if func in (torch.Tensor.tolist, torch.Tensor.numpy, torch.Tensor.__array__, torch.Tensor.__repr__) else ""
""",
    "rerun": """def rerun(call):
    with torch.inference_mode(False), torch.no_grad():
        new, old = call.func(*call.args, **call.kwargs), call.out
        pairs = [(old, new)] if torch.is_tensor(old) else list(zip(old or [], new or []))
        [a.copy_(b) for a, b in pairs if a.data_ptr() != b.data_ptr()]
""",
    "repairs": """def clipped(x, limit):
    norm = x.square().sum().sqrt()
    return torch.where(norm > limit, x * (limit / norm), x)


def mean_of_positive(x):
    hits = (x > 0).float().sum()
    return x.clamp(min=0).sum() / torch.maximum(hits, torch.tensor(1.0))


def decayed(x, count):
    count += 1
    return torch.pow(0.9, count) * x
""",
    "captured": """def captured(step, x):
    graph, static = new_graph(x.device), torch.empty_like(x, memory_format=torch.contiguous_format)
    static.copy_(x)
    with capture(graph):
        out = step(static)
    kind = x.shape, x.dtype

    def run(new):
        if (new.shape, new.dtype) != kind:
            raise ValueError("another kind")
        static[...] = new
        graph.replay()
        return torch.clone(out)

    return run
""",
}


def test_right_answers_that_are_written_differently_have_full_marks():
    assert lost(answered(LAB, OTHERWISE)) == set()


@pytest.mark.parametrize("name", ANSWERS)
def test_no_test_hangs_on_another_answer(name):
    """With one exercise left as it was handed out, the tests below it fail, and those of no other exercise."""
    nb = cells.known(cells.read(course.source(LAB)))
    place = [cell.id for cell in nb].index(name)
    following = [cell for cell in nb[place + 1 :] if cell.test or (cell.solution and not cell.by_hand)]
    tests = {cell.id for cell in following[: next((i for i, c in enumerate(following) if c.solution), len(following))]}
    stub = next(cell.source for cell in cells.released(LAB) if cell.id == name)
    assert lost(answered(LAB, {name: stub})) == tests


def test_the_lock_is_off_again_and_counts_as_a_failure():
    with pytest.raises(AssertionError, match="yours is asked for"), own("rerun"):
        right.rerun(None)
    with own("rerun"), pytest.raises(AssertionError), capture(new_graph()):
        pass
    assert capture_calls._locked == set()
    assert alike(replayed(lambda x: x + 1, X), X + 1) == ""


def test_modes_that_a_learner_leaves_on_end_with_their_thread():
    def leaves(step, inputs, refusal, read_out):
        capture_calls.Readers(read_out).__enter__()
        capture_calls.Recorder(capture_calls._refuse(refusal), [].append).__enter__()
        return right.record.__wrapped__(step, inputs, refusal, read_out)

    assert "still watched" in left_on(leaves, lambda x: x + 1, (X,))
    assert "raised ZeroDivisionError" in left_on(leaves, lambda x: 1 // 0, (X,), CaptureError)
    assert left_on(lambda *a: None, torch.neg, (X,)).startswith("it returned a NoneType")
    assert len(recorded(leaves, lambda x: x + 1, (X,)).calls) >= 1 and mode_is_gone() == ""


def test_alike_tells_tensors_apart():
    nan = torch.tensor([1.0, float("nan")])
    assert alike(nan, nan.clone()) == "" and "wanted" in alike(nan, torch.tensor([1.0, 2.0]))
    assert "a list" in alike([1.0], nan) and "shape (2,)" in alike(nan, X) and "float64" in alike(X.double(), X)
    assert (
        "[0]" in alike(torch.tensor([1.0]), torch.tensor([1.1])) and alike(torch.tensor([1.0]), torch.tensor([1.05]), 0.1) == ""
    )


def test_a_counted_step_and_a_captured_one():
    step = Counted(lambda x: x + 1)
    run = captured_once(step, X)
    assert step.calls == 1 and alike(run(numbers(3, 4, 3)), numbers(3, 4, 3) + 1) == "" and step.calls == 1
    assert world.warm_up(step, X) is None and step.calls == 1, "nothing to set up on the CPU"


def test_a_captured_step_keeps_alive_what_the_graph_has_only_addresses_of():
    """On an H200 a step's buffer, let go with the step, had become the next input's memory: the first replay doubled that."""

    def tripled():
        room = torch.zeros(4, 3)
        return lambda x: x + torch.mul(x, 2, out=room)

    step = tripled()
    kept, run = weakref.ref(step), captured_once(step, X)
    del step
    gc.collect()
    assert kept() is not None and alike(run(X), X * 3) == ""


def test_the_lab_has_the_points_it_says():
    scores = fast.grade(rebuilt(cells.read(course.source(LAB)), cells.read(course.source(LAB))))
    assert total(scores) == 55 and sum(s.points or 0 for s in scores if s.id.startswith("bonus_")) == 6
