"""The scoreboard on a CPU: what is counted is exact, what is refused is refused in words; nothing here judges a time."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn

from utils.measure import profiled, scoreboard
from utils.measure.device_clock import MeasurementError
from utils.measure.stopwatch import Race
from utils.model.limits import Roofs

ROOFS = Roofs(20.0, 0.1, 0.05)


def board(fn, *inputs, **options):
    return scoreboard.scoreboard(fn, *inputs, roofs=ROOFS, at_most_s=0.05, **options)


def test_a_block_is_counted_to_the_byte():
    x, w, b = torch.rand(32, 16), torch.rand(16, 16), torch.rand(16)
    with torch.no_grad():
        found = board(lambda: nn.functional.gelu(x @ w + b) + x, name="block")
    act, weight, bias = 32 * 16 * 4, 16 * 16 * 4, 16 * 4
    assert found.name == "block" and found.device == "cpu" and found.dtype == "fp32"
    assert found.launches == found.ops == 4
    assert found.work.bytes == (2 * act + weight) + (2 * act + bias) + 2 * act + 3 * act
    assert found.work.least_bytes == act + weight + bias + act
    assert [op.op for op in scoreboard.products(found.work)] == ["mm"]
    assert found.facts.product_flops == 2 * 32 * 16 * 16 and found.facts.products == 1
    assert found.peak == 2 * act  # an op's input and its result: what came before is gone by then
    assert found.facts.serial and found.facts.step_ns == pytest.approx(found.facts.host_ns + found.facts.device_ns)
    assert any("estimate" in note for note in found.notes)


def test_a_training_step_of_a_model_nobody_here_wrote():
    model = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0)
    x = torch.rand(2, 4, 16)

    def step():
        model.zero_grad()
        model(x).square().mean().backward()

    found = board(step)
    names = [op.op.split(".")[0] for op in found.work.computing]
    assert names.count("native_layer_norm_backward") == 2 and found.ops == len(names) > 40
    assert found.facts.product_flops > 2 * 8 * 16 * 16 * 3 and found.name == "step"


def test_read_outs_are_listed_though_a_cpu_does_not_wait_for_them():
    x = torch.rand(4)
    found = board(lambda: [x.sum().item() for _ in range(3)] and torch.nonzero(x > 0.5))
    assert found.read_outs == {"_local_scalar_dense": 3, "nonzero": 1} and found.waits == {}


def test_inputs_are_passed_on_and_a_class_has_a_name():
    found = board(nn.Linear(3, 2), torch.rand(5, 3))
    assert found.name == "Linear" and found.work.flops >= 2 * 5 * 3 * 2


def test_half_precision_is_told():
    x = torch.rand(8, 8, dtype=torch.bfloat16)
    found = board(torch.matmul, x, x)
    assert found.dtype == "bf16" and found.facts.element == 2


def test_a_board_survives_json():
    found = board(torch.add, torch.rand(9), torch.rand(9)).to_dict()
    once = json.loads(json.dumps(found))
    assert once == found and once["launches"] == 1 and once["verdict"] and once["bytes"] == 3 * 36


@pytest.mark.parametrize(
    ("fn", "inputs", "error", "said"),
    [
        (torch.ones(1), (), TypeError, "not its result"),
        (lambda: 1, (), MeasurementError, "no op"),
        (torch.matmul, (torch.ones(2, 3), torch.ones(2, 3)), MeasurementError, "the callable failed: RuntimeError"),
    ],
)
def test_what_cannot_be_put_on_the_board(fn, inputs, error, said):
    with pytest.raises(error, match=said):
        board(fn, *inputs)


def test_a_callable_that_fails_later_says_so():
    left = iter(range(3))

    def tired():
        next(left)
        return torch.rand(2) + 1

    with pytest.raises(MeasurementError, match="failed"):
        board(tired)


def test_tensors_on_meta_are_refused_in_words():
    x = torch.rand(4, device="meta")
    with pytest.raises(MeasurementError, match="cpu and cuda"):
        board(torch.add, x, x)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so():
    with pytest.raises(MeasurementError, match="no CUDA device"):
        board(torch.add, torch.rand(2), torch.rand(2), device="cuda")


def on_cuda(monkeypatch, events):
    """The board of an add as a GPU would give it: 10 µs of host, 100 µs of a step, and the trace `events`."""
    from tests.factories import make_race

    race: Race = make_race(prices={scoreboard.WHOLE: 100e3, scoreboard.HOST: 80e3}, device="cuda")
    monkeypatch.setattr(scoreboard, "need", lambda device, what: None)
    monkeypatch.setattr(scoreboard, "machine_name", lambda device: "a GPU")
    monkeypatch.setattr(scoreboard, "_memory", lambda step, device, compiled: (1024, 600))
    monkeypatch.setattr(scoreboard, "_timed", lambda *a: race)
    monkeypatch.setattr(profiled, "profile_works", lambda works: events)
    return board(torch.add, torch.rand(9), torch.rand(9), device="cuda")


def lane(*more: dict) -> list[dict]:
    def event(cat, name, ts, dur):
        return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "tid": 1, "args": {}}

    launches = [event("cuda_runtime", "cudaLaunchKernel", 1 + i, 0.5) for i in range(5)]
    kernels = [event("kernel", "add", 10 + 2 * i, 1) for i in range(5)]
    mark = event("user_annotation", scoreboard.WHOLE, 0, 200)
    end = event("cuda_runtime", "cudaDeviceSynchronize", 150, 30)
    return [mark, *launches, *kernels, *(event(*one) for one in more), end]


def test_on_a_gpu_launches_are_the_profilers_kernels_and_its_waits_come_off_the_host(monkeypatch):
    found = on_cuda(monkeypatch, lane(("cuda_runtime", "cudaStreamSynchronize", 30, 50)))
    assert found.launches == 5 and found.facts.launches == 5 and found.requested == 600
    assert found.waits == {"cudaStreamSynchronize": 1}
    assert found.facts.wait_ns == 50e3 and found.facts.host_ns == pytest.approx(30e3, rel=0.05)
    assert found.facts.device_ns == 5e3 and found.verdict.kind == "synchronising"


def test_on_a_gpu_without_a_profiler_the_kernels_are_not_counted_and_that_is_said(monkeypatch):
    found = on_cuda(monkeypatch, [])
    assert found.launches is None and any("not counted" in note for note in found.notes)
