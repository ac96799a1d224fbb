"""Capture by hand and what stands in for it: answers on random data, a graph's rules, and words where something is missing."""

from __future__ import annotations

import inspect
import json
import random
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch

from benchmarks import graph_replay
from tests.conftest import require
from utils.measure import (
    capture,
    captured_block,
    dependent_launch,
    graph_by_hand,
    guard_cost,
    joint_graph,
    node_places,
    op_record,
    op_replay,
    replay_nodes,
    same_bytes,
    seams,
    stand_ins,
)
from utils.measure.chains_of_adds import chain, own_code, total
from utils.measure.device_clock import MeasurementError
from utils.measure.graph_by_hand import BAKED, PYTHON, Graph, captured
from utils.measure.op_record import CaptureRefused
from utils.model.line import through
from utils.model.readings import Race, Reading
from utils.model.studies import plain, revived

WAYS = [pytest.param("", id="best"), pytest.param(PYTHON, id="python")]


def mixed(x, w, b):
    """Ops that are baked, ops that are boxed, views, in-place ones, random ones and numbers, several results."""
    h = torch.nn.functional.gelu(x @ w + b)
    drawn = torch.nn.functional.dropout(h, 0.25, training=True)
    twice = (h * 2 - 1).view(-1)[3:]
    linear = torch.relu(torch.nn.functional.linear(x, w, b)) / (1 + torch.sigmoid(x).tanh().abs())
    return x + drawn, twice, linear.add_(x).sum(0), torch.cat([h, x])


def inputs(rows: int = 4, side: int = 16) -> tuple:
    return torch.randn(rows, side), torch.randn(side, side), torch.randn(side)


# ------------------------------------------------------------------------------------------------ capture by hand


@pytest.mark.parametrize("by", WAYS)
def test_a_replay_gives_what_the_ops_give_on_new_inputs(by):
    made = captured(mixed, *inputs(), by=by)
    for _ in range(3):
        new, seed = inputs(), random.randrange(1 << 30)
        torch.manual_seed(seed)
        wanted = mixed(*new)
        torch.manual_seed(seed)
        for want, got in zip(wanted, made(*new), strict=True):
            torch.testing.assert_close(got, want)
    assert made.graph.replays == 3 and made.graph.nodes == len(made.graph.calls) and made.seconds > made.graph.capture_s > 0


@pytest.mark.parametrize("by", WAYS)
def test_the_rules_of_a_graph_hold_static_addresses_stale_inputs_overwritten_outputs(by):
    x, b = torch.randn(7), torch.randn(7)
    graph = Graph("cpu", by)
    with graph.warm_up():
        chain(5)(x, b)
    with graph.capture():
        y = chain(5)(x, b)
    assert y.isnan().all(), "before the first replay there is no result"
    graph.replay()
    place, held, kept = y.data_ptr(), y.clone(), y
    x_new = torch.randn(7)
    graph.replay()
    assert torch.equal(y, held) and not torch.allclose(y, chain(5)(x_new, b)), "a new tensor is not seen"
    x.copy_(x_new)
    graph.replay()
    torch.testing.assert_close(y, chain(5)(x_new, b))
    assert y.data_ptr() == place and kept is y and not torch.equal(kept, held), "what was kept was overwritten"


def test_what_a_graph_may_not_do_is_refused_and_the_next_graph_works():
    x = torch.randn(4)
    for bad in (
        lambda: x.sum().item(),
        lambda: x * 2 if x.sum() > 0 else x,
        lambda: x[x > 0],
        lambda: torch.nonzero(x),
        lambda: torch.linalg.cholesky(torch.eye(2)),
    ):
        graph = Graph("cpu")
        with pytest.raises(CaptureRefused, match="not permitted while capturing"), graph.capture():
            bad()
        with pytest.raises(RuntimeError, match="nothing was captured"):
            graph.replay()
        with pytest.raises(RuntimeError, match="captured before"), graph.capture():
            pass
    double = lambda x: x * 2  # noqa: E731
    made = captured(double, x)
    torch.testing.assert_close(made(x), x * 2)
    assert made.function is double  # a graph keeps no tensor of its closure alive


def test_capturing_changes_nothing_outside_values_random_numbers_and_mode_are_as_before():
    x, kept = torch.randn(5), torch.randn(5)
    before, random_state = (x.clone(), kept.clone()), torch.get_rng_state()
    graph = Graph("cpu")
    with graph.capture():
        x.mul_(3)
        kept[1:3].add_(torch.rand(2))
        y = x + kept
    assert torch.equal(x, before[0]) and torch.equal(kept, before[1]) and torch.equal(torch.get_rng_state(), random_state)
    assert torch.is_grad_enabled() and graph.record is not None
    torch.manual_seed(5)
    graph.replay()
    torch.manual_seed(5)
    want_kept = before[1].clone()
    want_kept[1:3] += torch.rand(2)
    torch.testing.assert_close(y, before[0] * 3 + want_kept)


def test_an_input_of_another_shape_or_type_or_number_is_refused():
    made = captured(lambda x: x + 1, torch.randn(3))
    for wrong in ((torch.randn(4),), (torch.randn(3).double(),), (torch.randn(3), torch.randn(3)), ()):
        with pytest.raises(ValueError, match="captured"):
            made(*wrong)
    with pytest.raises(ValueError, match="by is"):
        Graph("cpu", "somehow")


def test_a_device_that_is_not_there_is_told_in_words(monkeypatch):
    if not torch.cuda.is_available():
        with pytest.raises(MeasurementError, match="no CUDA device here"):
            Graph("cuda")
    with pytest.raises(MeasurementError, match="GPU"):
        stand_ins.stand_ins("cuda")
    with pytest.raises(MeasurementError):
        dependent_launch.pdl("cpu")


def test_without_a_compiler_python_replays_and_says_why(monkeypatch):
    op_replay._loaded.cache_clear()
    monkeypatch.setenv("ONE_ADD_NO_COMPILER", "1")
    try:
        made = captured(mixed, *inputs())
        assert made.graph.by == PYTHON and "ONE_ADD_NO_COMPILER" in made.graph.why and made.graph.baked == 0
        with pytest.raises(MeasurementError, match="ONE_ADD_NO_COMPILER"):
            Graph("cpu", BAKED)
        x, _, ways = stand_ins.ways_of(3, 1, missing := {}, compilers=False)
        assert {way.key for way in ways} == {"eager", "inference", "out", "list", "ops_list", "fx", "fx_python"}
        assert len(missing) == 4 and all("ONE_ADD_NO_COMPILER" in why for why in missing.values())
    finally:
        op_replay._loaded.cache_clear()


# ------------------------------------------------------------------------------------------------ the list in C++


def test_baked_and_boxed_calls_are_what_they_say():
    require("compiler")
    made = captured(mixed, *inputs())
    ways = dict(zip(made.graph.calls, made.graph._replay.ways, strict=True))
    assert {ways[op] for op in ("mm", "add", "gelu", "mul", "addmm", "sigmoid", "tanh", "div", "relu")} == {op_replay.BAKED}
    assert {ways[op] for op in ("bernoulli_", "sum", "cat", "abs")} == {op_replay.BOXED}
    assert 0 < made.graph.baked < made.graph.nodes


@pytest.mark.parametrize("shape", [(1,), (0,), (), (3, 5), (64, 64)], ids=str)
def test_every_way_in_cpp_adds_tensors_of_every_shape_and_layout(shape):
    require("compiler")
    x = torch.randn(shape)
    b = torch.randn(shape).mT if len(shape) == 2 and shape[0] == shape[1] else torch.randn(shape)
    with op_record.recording() as record:
        chain(3)(x, b)
    for way in (op_replay.BAKED, op_replay.BOXED, *op_replay.TYPED):
        replay = op_replay.Replay(record.calls, way)
        x.copy_(torch.randn(shape))
        replay(2)
        torch.testing.assert_close(record.calls[-1].results[0], chain(3)(x, b))


def test_what_cannot_be_replayed_so_is_named_and_an_op_that_fails_raises():
    require("compiler")
    x, at = torch.randn(3, 3), torch.tensor([2, 0])
    with op_record.recording() as record:
        torch.index_select(x, 0, at)
    with pytest.raises(MeasurementError, match="cannot be replayed as at::add_out"):
        op_replay.Replay(record.calls, "at::add_out")
    replay = op_replay.Replay(record.calls)
    replay()
    assert torch.equal(record.calls[0].results[0], x[[2, 0]])
    at.fill_(99)
    with pytest.raises(RuntimeError, match="index"):
        replay()


def test_double_precision_and_half_are_baked_as_they_are():
    require("compiler")
    for dtype in (torch.float64, torch.bfloat16):
        made = captured(lambda x, b: (x + b) * b, torch.randn(9).to(dtype), torch.randn(9).to(dtype))
        x, b = torch.randn(9).to(dtype), torch.randn(9).to(dtype)
        assert made.graph.baked == 2 and torch.equal(made(x, b), (x + b) * b)


# ------------------------------------------------------------------------------------------------ stand-ins


def test_every_way_is_right_and_its_rules_are_those_of_a_graph_or_of_none():
    x, b, ways = stand_ins.ways_of(10, 3, missing := {}, compilers=False)
    if op_replay.why_not() == "":
        assert not missing and {"boxed", "add_out", "cpu_add_out", "baked"} <= {way.key for way in ways}
    for way in ways:
        assert stand_ins._wrong(way, x, b, 10) == "", way.words
        found = stand_ins.rules(way, x, b, 10)
        free = way.key in ("eager", "inference", "fx", "fx_python")
        assert found == dict.fromkeys(("stale", "overwritten", "static"), not free), way.words


def test_a_way_that_computes_something_else_is_told():
    x, b, ways = stand_ins.ways_of(4, 2, {}, compilers=False)
    wrong = stand_ins.Way("x", "x", "Python", lambda: chain(3)(x, b))
    assert "another result" in stand_ins._wrong(wrong, x, b, 4)


# ------------------------------------------------------------------------------------------------ the line through replays


def test_a_line_is_found_with_its_intervals_and_its_worst_point():
    fixed, each = random.uniform(500, 2000), random.uniform(20, 1200)
    noise = random.Random(4)
    samples = {n: [(fixed + n * each) * noise.uniform(1, 1.01) for _ in range(30)] for n in (1, 3, 10, 100, 1000, 5000)}
    line = through(samples)
    assert abs(line.each / each - 1) < 0.01 and abs(line.fixed - fixed) < 0.02 * (fixed + each)
    assert line.each_band[0] <= line.each <= line.each_band[1] and line.fixed_band[0] <= line.fixed_band[1]
    assert line.worst < 0.02 and through(samples | {9000: [2 * (fixed + 9000 * each)] * 30}).worst > 0.1
    with pytest.raises(ValueError, match="no line"):
        through({5: [1.0]})


def test_lengths_are_chains_of_as_many_adds_in_order():
    x, b = torch.randn(2), torch.randn(2)
    for n in (1, 2, 7):
        torch.testing.assert_close(chain(n)(x, b), x + n * b)
    assert chain(3) is chain(3) and chain(3).__code__ is not chain(4).__code__
    given = [torch.randn(2) for _ in range(5)]
    torch.testing.assert_close(total(5)(*given), torch.stack(given).sum(0))
    assert total(5).__code__ is not total(5, "_again").__code__
    alike = own_code(chain(3)), own_code(chain(3))
    assert len({f.__code__ for f in (*alike, chain(3))}) == 3 and torch.equal(alike[0](x, b), chain(3)(x, b))
    # Else torch 2.11 compiles them inside one wrapper of its own, and every call looks through the entries of all.
    assert all(inspect.getsourcefile(f) for f in (chain(3), total(5), alike[0]))


# ------------------------------------------------------------------------------------------------ parts


def in_shape(part: dict, device: str = "cpu") -> dict:
    """The part as it comes back from a file: what every part has, and nothing that JSON cannot hold."""
    back = revived(json.loads(json.dumps(plain(part), allow_nan=False)))
    assert back["device"] == device and back["rows"] and all(isinstance(v, float) for v in back["numbers"].values())
    assert all(isinstance(note, str) for note in back["notes"])
    return back


def test_the_parts_of_the_study_are_those_of_the_lesson_and_name_their_devices():
    assert set(capture.PARTS) == set(capture.IN_LESSON)
    assert capture.PARTS["pdl"].devices == ("cuda",) and capture.PARTS["stand_ins"].devices == ("cpu",)


def test_the_joint_part_counts_the_tape_that_is_no_longer_built():
    part = in_shape(joint_graph.joint("cpu"))
    n = part["numbers"]
    assert n["compiled_nodes"] == 1 < n["eager_nodes"] == len(part["eager_tape"]) and n["same"] == 1
    assert n["joint_ops"] >= n["forward_ops"] + 1 and n["saved"] >= 1 and "def forward" in part["code"]


def test_without_the_joint_graph_its_halves_stay_and_words_say_so(monkeypatch):
    monkeypatch.setattr(seams, "has_joint_graph", lambda: False)
    part = joint_graph.joint("cpu")
    assert part["joint"] == [] and part["forward"] and "no joint graph" in part["notes"][0]


def test_a_captured_block_makes_the_same_calls_with_the_same_bytes():
    rows, numbers = same_bytes._watched()
    assert numbers["same"] == 1 and numbers["eager_bytes"] == numbers["captured_bytes"] > 0
    assert all(row["eager"] == row["captured"] for row in rows)


def test_kernels_are_counted_by_name_and_grid_and_a_missing_one_is_seen():
    def event(name: str, ts: float, grid=(4, 1, 1), cat: str = "kernel") -> dict:
        return {"cat": cat, "name": name, "ts": ts, "dur": 5.0, "args": {"grid": list(grid)}}

    marks = [event(same_bytes.EAGER, 0, cat="user_annotation"), event(same_bytes.CAPTURED, 10, cat="user_annotation")]
    both = [event("gelu", 1), event("add", 2, (8, 1, 1)), event("gelu", 11), event("add", 12, (8, 1, 1))]
    rows, numbers = same_bytes.counted(marks + both)
    assert numbers["same"] == 1 and numbers["eager_blocks"] == numbers["captured_blocks"] == 12 and len(rows) == 2
    assert same_bytes.counted(marks + both[:-1])[1]["same"] == 0
    more = same_bytes.counted([*marks, *both, event("fill", 13)])[1]
    assert more["same"] == 1 and more["extra_calls"] == 1, "what a graph's random numbers need is no kernel of the block"
    with pytest.raises(MeasurementError, match="no kernel"):
        same_bytes.counted(marks + both[:2])


def test_the_blocks_ways_give_the_block_and_one_that_does_not_is_told():
    missing: dict[str, str] = {}
    shape = captured_block.Inputs("cpu", (16, 64))
    with torch.no_grad():
        steps = captured_block.steps_of(shape, missing, compilers=False)
        assert captured_block.EAGER in steps and captured_block.CAPTURED in steps
        if op_replay.why_not() == "":
            assert {captured_block.FUSED, captured_block.BOTH} <= set(steps), missing
        for way, step in steps.items():
            assert captured_block.said(step, shape) == "", way
        stale = steps[captured_block.CAPTURED]
        broken = captured_block.Step(lambda: None, stale.out)
        assert captured_block.said(broken, shape), "an output of an older input"


def test_a_way_that_cannot_be_had_loses_itself_alone(monkeypatch):
    def refuses(*_):
        raise RuntimeError("no kernel here today")

    monkeypatch.setattr(captured_block, "tail", refuses)
    with torch.no_grad():
        steps = captured_block.steps_of(captured_block.Inputs("cpu", (4, 32)), missing := {}, compilers=False)
    assert set(steps) == {captured_block.EAGER, captured_block.CAPTURED}
    assert all("no kernel here today" in why for why in missing.values()) and len(missing) == 2


def test_guards_without_a_compiler_still_price_an_empty_graph(monkeypatch):
    real = torch.compile

    def no_inductor(f, *args, backend="inductor", **kwargs):
        if backend == "inductor":
            raise RuntimeError("no compiler in this test")
        return real(f, *args, backend=backend, **kwargs)

    monkeypatch.setattr(torch, "compile", no_inductor)
    monkeypatch.setattr(guard_cost, "QUICK", (2, 6))
    monkeypatch.setattr(guard_cost, "time_host", lambda kept, **_: quick_race(kept))
    part = in_shape(guard_cost.guards("cpu", quick=True))
    assert "per_input" not in part["numbers"] and "nothing_per_input" in part["numbers"]
    assert [row["us"] for row in part["rows"]] == [None, None] and all(row["nothing_us"] for row in part["rows"])
    assert any("no compiler in this test" in why for why in part["missing"].values())
    assert part["numbers"]["guards_an_input"] == 1 and part["rows"][1]["guards"] == part["rows"][0]["guards"] + 4


def quick_race(variants: dict):
    from utils.measure.stopwatch import time_host

    return time_host(variants, blocks=2, block_ms=0.1)


def test_nodes_count_what_they_replay(monkeypatch):
    require("compiler")
    monkeypatch.setattr(replay_nodes, "QUICK", (1, 10, 100, 1000))
    real = replay_nodes.race
    monkeypatch.setattr(replay_nodes, "race", lambda *a, **k: real(*a, **{**k, "blocks": 3, "block_ms": 0.2, "at_most_s": 0.5}))
    part = in_shape(replay_nodes.nodes("cpu", quick=True))
    assert [row["counted"] for row in part["rows"]] == [1, 10, 100, 1000] and part["numbers"]["wrong"] == 0
    assert part["numbers"]["node"] > 0 and part["rows"][-1]["eager_us"] > 0


# ------------------------------------------------------------------ what only a GPU runs, as far as a fake one shows it


class FakeCuda:
    """Notes what is asked of streams and of a graph, in order."""

    def __init__(self, monkeypatch):
        self.said: list[str] = []
        self.current = self.stream("current")
        monkeypatch.setattr(graph_by_hand, "need", lambda *_: None)
        monkeypatch.setattr(seams, "cuda_graph", lambda: self.graph)
        monkeypatch.setattr(seams, "cuda_graph_nodes", lambda graph: 7)
        self.graph = SimpleNamespace(replay=lambda: self.said.append("replay"), reset=lambda: self.said.append("reset"))
        for name, what in {
            "Stream": lambda: self.stream("side"),
            "current_stream": lambda: self.current,
            "stream": lambda stream: self.inside(f"on {stream.name}"),
            "graph": lambda graph: self.inside("graph"),
            "synchronize": lambda: self.said.append("synchronize"),
        }.items():
            monkeypatch.setattr(torch.cuda, name, what)

    def stream(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(name=name, wait_stream=lambda other: self.said.append(f"{name} waits for {other.name}"))

    @contextmanager
    def inside(self, what: str):
        self.said.append(f"{what} begins")
        try:
            yield
        finally:
            self.said.append(f"{what} ends")


def test_on_cuda_warm_up_is_on_a_side_stream_and_the_capture_in_a_graph(monkeypatch):
    fake = FakeCuda(monkeypatch)
    graph = Graph("cuda")
    with graph.warm_up():
        fake.said.append("f")
        assert not torch.is_grad_enabled()
    with graph.capture():
        fake.said.append("f")
        assert not torch.is_grad_enabled()
    graph.replay()
    assert fake.said == [
        *("side waits for current", "on side begins", "f", "on side ends", "current waits for side", "synchronize"),
        *("graph begins", "f", "graph ends", "replay"),
    ]
    assert (graph.by, graph.nodes, graph.replays) == (graph_by_hand.CUDA, 7, 1) and graph.capture_s > 0


def test_on_cuda_a_failed_capture_lets_its_graph_go_and_raises_what_ended_it(monkeypatch):
    fake = FakeCuda(monkeypatch)
    graph = Graph("cuda")
    with pytest.raises(RuntimeError, match="stream is capturing"), graph.capture():
        raise RuntimeError("operation not permitted when stream is capturing")
    assert fake.said == ["graph begins", "graph ends", "reset", "synchronize"]
    with pytest.raises(RuntimeError, match="nothing was captured"):
        graph.replay()


def test_the_kernels_of_programmatic_launch_wait_before_they_read():
    for way in (dependent_launch.WAITS, dependent_launch.EARLY):
        text = dependent_launch.source(way)
        assert text.index("griddepcontrol.wait") < text.index("*(volatile float*)x")
    assert "griddepcontrol" not in dependent_launch.source(dependent_launch.PLAIN)


def test_the_drivers_structures_have_the_drivers_sizes():
    import ctypes

    assert ctypes.sizeof(dependent_launch.Attribute) == 72 and dependent_launch.Attribute.value.offset == 8
    assert dependent_launch.Config.stream.offset == 32 and ctypes.sizeof(dependent_launch.Config) == 56


def test_a_gpu_without_it_and_a_graph_that_torch_does_not_open_are_words_and_none(monkeypatch):
    assert graph_by_hand.seams.cuda_graph_nodes(object()) is None
    if not torch.cuda.is_available():
        with pytest.raises(MeasurementError, match="no CUDA device"):
            dependent_launch.pdl("cuda")


# ------------------------------------------------------------------ where a node's element lies


def test_a_nodes_price_by_its_place_is_the_difference_of_two_graphs():
    prices = {"own": 1005.0, "1572864": 1097.0, "33554432": 1130.0}
    readings = {
        f"{name}, {n}": Reading(f"{name}, {n}", (700.0 + n * ns,) * 3, 10) for name, ns in prices.items() for n in (100, 1000)
    }
    again = Reading("own, 100 (again)", readings["own, 100"].samples, 10)
    race = Race(readings | {again.name: again}, ("own, 100", again.name), clock="device", device="cuda")
    told = node_places._told(race, {"own": True, "1572864": True, "33554432": False})
    assert [(row["at_mib"], round(row["node_ns"]), row["right"]) for row in told["rows"]] == [
        (None, 1005, True),
        (1.5, 1097, True),
        (32.0, 1130, False),
    ]
    n = told["numbers"]
    assert (round(n["near"]), round(n["middle"]), round(n["far"]), n["wrong"]) == (1005, 1097, 1130, 1.0)
    assert n["spread"] == pytest.approx(1130 / 1005)


def test_places_are_a_gpus():
    with pytest.raises(MeasurementError, match="in slices"):
        node_places.places("cpu")
    if not torch.cuda.is_available():
        with pytest.raises(MeasurementError, match="no CUDA device"):
            node_places.places("cuda")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_a_gpu_every_place_gives_the_right_sum():
    found = node_places.places("cuda", quick=True)
    assert found["numbers"]["wrong"] == 0 and len(found["rows"]) == node_places.FEW + 1
    assert 0 < found["numbers"]["near"] <= found["numbers"]["middle"] <= found["numbers"]["far"]


# ------------------------------------------------------------------ the bars


def bars_of(numbers: dict[str, float], device: str = "cpu") -> graph_replay.Bars:
    bars, parts = graph_replay.Bars(), {name: {"numbers": numbers} for name in ("stand_ins", "nodes", "places", "block")}
    if device == "cpu":
        graph_replay.judge_cpu(bars, parts)
    else:
        graph_replay.judge_cuda(bars, parts, True)
    return bars


def test_a_bar_that_falls_short_fails_and_an_unsettled_race_has_none():
    good = {"baked_100x1": 24.0, "baked_100x4096": 3.0, "boxed_100x1": 1.9, "add_out_100x1": 2.4, "out_100x1": 1.1,
            "list_100x1": 1.1, "ops_list_100x1": 0.5, "fx_100x1": 0.4, "worst_aa": 0.01}  # fmt: skip
    assert bars_of(good).passed
    for name, value in {
        "baked_100x1": 9.0,
        "baked_100x4096": 20.0,
        "add_out_100x1": 1.0,
        "list_100x1": 1.8,
        "fx_100x1": 1.2,
    }.items():
        assert not bars_of(good | {name: value}).passed, name
        assert bars_of(good | {name: value, "worst_aa": 0.1}).passed, "what did not settle has no bar"
    gpu = {"node": 1100.0, "node_lo": 1095.0, "node_hi": 1105.0, "fixed": 2000.0, "near": 1005.0, "middle": 1097.0, "far": 1130.0,
           "host_100": 5000.0, "small_both_bare": 8.0, "small_both": 5.0, "aa_error": 0.001}  # fmt: skip
    assert bars_of(gpu, "cuda").passed
    for name, value in {"near": 1060.0, "host_100": 9000.0, "small_both_bare": 6.0}.items():
        assert not bars_of(gpu | {name: value}, "cuda").passed, name
