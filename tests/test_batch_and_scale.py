"""The rooms of the study batch_and_scale: counts against hand-derived ones, models exact, reasons where nothing is measured."""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import psutil
import pytest
import torch
import torch.nn.functional as F

from tests.factories import make_race
from tests.test_roofline import _as_cpp
from utils.measure import (
    batch_and_scale,
    clocks_of_load,
    grid_waves,
    layer_ops,
    null_experiment,
    profiled,
    seams,
    serving,
    slow_host,
    step32,
    two_kernels,
    wall_arms,
)
from utils.measure.census import group_of
from utils.measure.device_clock import MeasurementError
from utils.measure.language_model import Size, model, tokens
from utils.measure.op_counts import NO_OPS, counted
from utils.measure.spelled_layer import cache_of, spelled
from utils.measure.stamp_kernels import SOURCES
from utils.model import expected
from utils.model.readings import Reading
from utils.model.studies import plain

RNG = random.Random(20261130)
TINY = Size("tiny", 8, 3, 2, 8, 2, 4)


# ------------------------------------------------------------------------------------------------ the layer written out


def fused(layer, x, heads: int):
    """The same layer by torch's fused ops, its rotary positions by complex numbers."""
    batch, new, width = x.shape
    head = width // heads
    rates = 10_000.0 ** (-torch.arange(0, head, 2, dtype=torch.float64) / head)
    turns = torch.polar(torch.ones(()).double(), torch.outer(torch.arange(new).double(), rates))

    def split(t):
        return t.view(batch, new, heads, head).transpose(1, 2)

    def turned(t):
        halves = torch.complex(t[..., : head // 2].double(), t[..., head // 2 :].double()) * turns
        return torch.cat((halves.real, halves.imag), dim=-1).to(t.dtype)

    y = F.rms_norm(x, (width,), layer.before_attention.weight, 1e-6)
    q, k, v = split(layer.q(y)), split(layer.k(y)), split(layer.v(y))
    mixed = F.scaled_dot_product_attention(turned(q), turned(k), v, is_causal=True)
    x = x + layer.o(mixed.transpose(1, 2).reshape(batch, new, width))
    y = F.rms_norm(x, (width,), layer.before_mlp.weight, 1e-6)
    return x + layer.down(F.silu(layer.gate(y)) * layer.up(y))


def test_the_layer_written_out_computes_what_the_fused_ops_compute():
    torch.manual_seed(RNG.randrange(10**6))
    layer = spelled(32, 4, "cpu", torch.float32, 16)
    for norm in (layer.before_attention, layer.before_mlp):
        torch.nn.init.uniform_(norm.weight, 0.5, 2.0)
    x = torch.randn(3, 11, 32)
    with torch.no_grad():
        assert torch.allclose(layer(x), fused(layer, x, 4), atol=1e-5)


def test_a_token_behind_a_cache_is_the_last_one_of_the_whole_prompt():
    torch.manual_seed(RNG.randrange(10**6))
    layer, new = spelled(32, 4, "cpu", torch.float32, 16), 9
    x = torch.randn(2, new, 32)
    cache = cache_of(2, 4, 0, 8, "cpu", torch.float32)
    with torch.no_grad():
        whole = layer(x)
        first = layer(x[:, : new - 1], cache)
        last = layer(x[:, new - 1 :], cache)
    assert cache["k"].shape == (2, 4, new, 8)
    assert torch.allclose(torch.cat((first, last), dim=1), whole, atol=1e-5)


def test_a_width_that_heads_cannot_share_out_is_refused():
    with pytest.raises(ValueError, match="do not share out"):
        spelled(12, 4, "cpu", torch.float32)


# ------------------------------------------------------------------------------------------------ counts


NORM = {"pow.Tensor_Scalar": 1, "mean.dim": 1, "add.Tensor": 1, "rsqrt": 1, "mul.Tensor": 2, "_to_copy": 2}
ROTARY = {"mul.Tensor": 2, "add.Tensor": 1, "neg": 1, "cat": 1}
ATTENTION = {"mm": 4, "bmm": 2, "mul.Tensor": 1, "masked_fill.Scalar": 1, "_softmax": 1, "_to_copy": 2, "clone": 4}
MLP = {"mm": 3, "silu": 1, "mul.Tensor": 1}
RESIDUAL = {"add.Tensor": 1}


def together(*pieces: dict[str, int]) -> Counter:
    return sum((Counter(piece) for piece in pieces), Counter())


def test_the_ops_of_the_layer_written_out_are_those_on_the_page():
    """By hand, piece by piece, in bf16: the casts are those around the two norms' sums and the softmax."""
    found = layer_ops.works("cpu")
    ops = counted(found["spelled forward"])
    by_hand = together(NORM, ATTENTION, ROTARY, ROTARY, RESIDUAL, NORM, MLP, RESIDUAL)
    assert Counter(ops.computing) == by_hand and by_hand.total() == 48
    token = counted(found["spelled decode"])
    alone = together(by_hand, {"cat": 2}) - Counter({"masked_fill.Scalar": 1, "clone": 4})  # two caches grow, nothing is hidden
    assert Counter(token.computing) == alone and alone.total() == 45


def test_the_layer_that_torch_ships_has_two_norms_four_products_and_one_attention():
    ops = Counter(name.split(".")[0] for name in counted(layer_ops.works("cpu")["shipped forward"]).computing)
    attention = [name for name in ops if "attention" in name]
    assert len(attention) == 1 and ops.pop(attention[0]) == 1
    assert ops == {
        "native_layer_norm": 2,
        "addmm": 3,
        "mm": 1,
        "gelu": 1,
        "add": 3,
        "clone": 2,
    }  # one product adds its bias apart


def test_layer_ops_gives_a_row_for_each_and_its_sums(monkeypatch):
    monkeypatch.setattr(layer_ops, "TOKEN", {"cpu": (16, 2, 4)})
    monkeypatch.setattr(layer_ops, "LAYERS", 2)
    part = layer_ops.layer_ops("cpu", quick=True)
    whole_json(part)
    assert [(r["style"], r["phase"]) for r in part["rows"]] == [
        ("shipped", "forward"),
        ("shipped", "backward"),
        ("spelled", "forward"),
        ("spelled", "backward"),
        ("spelled", "decode"),
    ]
    assert all(r["calls"] == r["ops"] + r["views"] and r["kernels"] is None for r in part["rows"])
    assert part["numbers"]["spelled_forward_ops"] == 48 and "spelled_forward_kernels" not in part["numbers"]
    one, two = part["token"]
    assert two["ops"] == 2 * one["ops"] and part["numbers"]["op_ns"] == pytest.approx(one["host_ns"] / one["ops"])


@pytest.mark.parametrize("style", step32.STYLES)
def test_fake_tensors_are_counted_as_real_ones_are(style):
    real = step32.count(step32._training(style, TINY, "cpu", torch.bfloat16, foreach=True), style)
    assert step32.fake(style, TINY) == real
    assert {row["phase"] for row in real} == {"forward", "backward", "optimizer"} and all(row["ops"] > 0 for row in real)


@pytest.mark.parametrize("style", step32.STYLES)
def test_a_layer_more_is_always_as_many_ops_more(style):
    two, three, five = (step32.fake(style, replace(TINY, layers=n)) for n in (2, 3, 5))
    for phase in range(3):
        a, b, c = (rows[phase]["calls"] for rows in (two, three, five))
        assert c - b == 2 * (b - a) > 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step32, "WIDE", TINY)
        drawn = step32.drawn_on(style, 5)
        patch.setattr(step32, "WIDE", replace(TINY, layers=5))
        quick = step32.quickly(style)
    assert [{**row, "how": "counted"} for row in drawn] == [{**row, "how": "counted"} for row in quick] == five
    assert {row["how"] for row in drawn} == {"drawn on"} and ("counted" in {row["how"] for row in quick}) == (style == "shipped")


def test_a_fake_step_has_no_memory_and_no_data():
    """Eight layers of 65,536 are hundreds of GB: real ones would not fit here."""
    size = Size("vast", 65_536, 8, 32, 1000, 1, 2048)
    before = psutil.Process().memory_info().rss
    with seams.fake_mode():
        one = step32.training(size, "cpu", torch.bfloat16, step32.shipped, foreach=True)
        counted(one.forward)
    assert one.parameters * 2 > 400e9
    assert psutil.Process().memory_info().rss - before < 500e6


def test_a_question_about_a_fake_tensor_is_no_op():
    """Planted: counted by a plain list, the same step has hundreds more, each of them a look at a device."""
    seen: list[str] = []
    with seams.fake_mode():
        one = step32._training("shipped", TINY, "cpu", torch.float32)
        with seams.watching_ops(lambda op, given, results: seen.append(op)):
            one.forward()
        ops = counted(one.forward)
    looks = sum(op.startswith(NO_OPS) for op in seen)
    assert seen.count("prim::device") > 50 and len(seen) == looks + len(ops.computing) + len(ops.views)


@pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU, fake tensors on cuda are safe")
def test_fake_tensors_on_cuda_that_need_a_gradient_still_abort_a_process():
    """Why the count is a CPU's. In a process of its own: it does not come back."""
    code = (
        "import torch\nfrom utils.measure import seams\nwith seams.fake_mode():\n"
        "    w = torch.randn(4, 4, device='cuda', requires_grad=True)\n    (w * 2).sum().backward()\nprint('it ran')\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=os.getcwd(), timeout=120)
    ended = run.returncode != 0 if torch.version.cuda else run.returncode < 0  # a build for CUDA may refuse in words: 2.11 does
    assert ended and "it ran" not in run.stdout, "this torch no longer aborts: say so in WHY_NEVER"
    assert "aborted" in step32.WHY_NEVER


def test_step32_whole_but_small(monkeypatch):
    monkeypatch.setattr(step32, "WIDE", replace(TINY, width=64))
    monkeypatch.setattr(step32, "NARROW", TINY)
    part = step32.step32("cpu", quick=True)
    whole_json(part)
    n = part["numbers"]
    assert n["check_difference"] == 0 and part["check"]["fake"] > 0
    for style in step32.STYLES:
        real, fake = (sum(r["ops"] for r in part[of]["rows"] if r["style"] == style) for of in ("real", "fake"))
        assert (n[f"real_{style}_ops"], n[f"fake_{style}_ops"]) == (real, fake)
        one_by_one = n[f"one_by_one_{style}_ops"]
        assert one_by_one > n[f"fake_{style}_optimizer_ops"]  # one parameter after the other takes more ops
        assert n[f"estimate_error_{style}"] == pytest.approx(n[f"estimate_{style}"] / n[f"step_{style}"] - 1)
    assert part["real"]["kernels"] is None and "wider_spelled" not in n


def test_step32_numbers_on_a_gpu_hold_the_kernels_and_the_wider_step():
    rows = [
        {"style": s, "phase": p, "calls": 20, "ops": 10, "views": 10}
        for s in step32.STYLES
        for p in ("forward", "backward", "optimizer")
    ]
    timed = [{"style": s, "width": w, "ops": 30, "ns": ns} for s in step32.STYLES for w, ns in ((64, 2e7), (1024, 2.2e7))]
    price = dict.fromkeys(step32.STYLES, (3e6, 5e5))
    kernels = {"shipped": 11, "spelled": 22}
    n = step32.numbers(rows, rows, rows[2::3], {"fake": 7, "real": 5}, timed, price, kernels)
    assert n["real_spelled_kernels"] == 22 and n["wider_shipped"] == pytest.approx(1.1) and n["check_difference"] == 2
    assert n["real_spelled_calls"] == 60 and n["estimate_spelled"] == pytest.approx(1.8e7)
    assert n["estimate_error_spelled"] == pytest.approx(-0.1)


# ------------------------------------------------------------------------------------------------ the null experiment


@pytest.mark.parametrize("name", null_experiment.KINDS["cpu"])
def test_a_larger_batch_has_the_same_ops_and_so_has_the_shadow(name):
    kind = null_experiment.KINDS["cpu"][name]
    small = replace(kind, size=replace(kind.size, width=32, vocabulary=16))
    batches = (*kind.quick[:2], kind.batches[-1])
    ops = [counted(step) for step in null_experiment.steps(small, batches, "cpu", torch.float32).values()]
    ops += [counted(step) for step in null_experiment.steps(null_experiment.shadow(kind), (2,), "cpu", torch.float32).values()]
    assert len({tuple(o.computing) for o in ops}) == 1 and len({len(o.views) for o in ops}) == 1


def test_a_batch_of_one_has_other_ops():
    """Why the batches begin at 2: planted as the first one, it would change more than the batch."""
    kind = null_experiment.KINDS["cpu"]["training"]
    one, two = (counted(step) for step in null_experiment.steps(kind, (1, 2), "cpu", torch.float32).values())
    assert len(one.computing) < len(two.computing)
    assert all(
        k.batches[0] == k.quick[0] == null_experiment.FIRST == 2 for of in null_experiment.KINDS.values() for k in of.values()
    )
    assert all(k.quick[1] == 4 and set(k.quick) <= set(k.batches) for of in null_experiment.KINDS.values() for k in of.values())


def made_rows(gpu: bool, steps=(100.0, 110.0, 400.0), ops=(50, 50, 50)) -> list[dict]:
    return [
        {
            "kind": "training",
            "batch": batch,
            "ops": n,
            "kernels": 44 if gpu else None,
            "step_ns": ns,
            "host_ns": 90.0 if gpu else None,
            "device_ns": 30.0 * batch if gpu else None,
        }
        for batch, ns, n in zip((2, 4, 16), steps, ops, strict=True)
    ]


def test_the_experiments_figures_are_those_of_its_rows():
    extra = [{"kind": "training", "alone_ns": 20.0, "step_ns": 100.0, "with_ns": 119.0}]
    n = null_experiment.numbers(made_rows(gpu=False), {"training": 80.0}, extra)
    assert n["training_double"] == pytest.approx(1.1) and n["training_largest"] == 4.0
    assert n["training_last_double"] == pytest.approx(math.sqrt(400 / 110))  # 4 to 16: two doublings
    assert n["training_fixed_share"] == 0.8 and n["training_fixed_share_largest"] == 0.2
    assert n["training_ops_ratio"] == 1.0 and n["extra_training"] == pytest.approx(0.95)
    assert not any("host" in name or "kernels" in name for name in n)
    assert null_experiment.numbers(made_rows(gpu=False, ops=(50, 50, 60)), {"training": 80.0}, extra)["training_ops_ratio"] == 1.2


def test_on_a_gpu_the_longer_total_is_the_one_that_binds():
    rows = made_rows(gpu=True)
    n = null_experiment.numbers(rows, {"training": 80.0}, [])
    assert n["training_host"] == 90 and n["training_device"] == 60 and n["training_kernels"] == 44
    assert n["training_device_over_host"] == pytest.approx(2 / 3) and n["training_device_over_host_largest"] == pytest.approx(
        16 / 3
    )
    assert [null_experiment.bound(row) for row in rows] == ["host", "device", "device"]
    assert null_experiment.bound(made_rows(gpu=False)[0]) is None


def test_a_growth_that_a_neighbour_scattered_widens_its_range_and_a_steady_wrong_one_stays_red():
    """Seen in CI: the wide step's blocks met a neighbour, its growth read 0.82 times the small step's, the A/A pair 4 % apart."""
    rng = random.Random(5)

    def race(wide_double: float, hit: float):
        prices = {name_of(kind, batch): 1e5 for kind in ("training", "wide") for batch in (2, 4)}
        found = make_race(prices=prices)
        long = tuple(1e6 * (hit if i % 5 in (0, 2, 3) else 1.0) * rng.uniform(1, 1.01) for i in range(21))
        double = tuple(wide_double * ns for ns in rng.sample(long, 21))
        return replace(
            found, readings=found.readings | {"wide, batch 2": Reading("w", long), "wide, batch 4": Reading("w2", double)}
        )

    def holds(found) -> bool:
        growth = {kind: found[name_of(kind, 4)].ns / found[name_of(kind, 2)].ns for kind in ("training", "wide")}
        numbers = {"device": "cpu", "training_double": growth["training"], "wide_double": growth["wide"]}
        numbers |= {"aa_error": found.aa_error, "doubling_error": null_experiment.doubling_error(found)}
        miscounted = numbers | {"training_ops_ratio": 1.0 + 0.5 * numbers["doubling_error"]}
        assert miscounted["training_ops_ratio"] < 1.02 or not expected.judge("batch_and_scale.ops_ratio", miscounted).holds
        return expected.judge("batch_and_scale.counter_case", numbers).holds

    name_of = null_experiment.name_of
    assert null_experiment.doubling_error(race(0.85, 2.0)) > 0.2 > 0.05 > null_experiment.doubling_error(race(0.85, 1.0))
    assert holds(race(0.85, 2.0)) and not holds(race(0.85, 1.0))


def test_the_null_experiment_whole_but_small(monkeypatch):
    tiny = {
        name: replace(kind, size=replace(TINY, layers=1), quick=(2, 4), batches=(2, 4))
        for name, kind in null_experiment.KINDS["cpu"].items()
    }
    monkeypatch.setitem(null_experiment.KINDS, "cpu", tiny)
    monkeypatch.setattr(null_experiment, "MOST_EXTRA", 30)
    before = torch.get_num_threads()
    part = null_experiment.null_experiment("cpu", quick=True)
    whole_json(part)
    assert torch.get_num_threads() == before
    assert [(r["kind"], r["batch"]) for r in part["rows"]] == [(k, b) for k in tiny for b in (2, 4)]
    assert all(part["numbers"][f"{kind}_ops_ratio"] == 1 for kind in tiny)
    assert part["numbers"]["aa_error"] == part["race"].aa_error and set(part["shadow"]) == set(tiny)
    extra = {r["kind"]: r for r in part["extra"]["rows"]}
    assert set(extra) == {"training", "wide"} and all(20 <= r["adds"] <= 30 for r in extra.values())
    for kind, r in extra.items():
        assert r["seen"] == (abs(r["with_ns"] - r["step_ns"]) > r["error_ns"])
        assert part["numbers"][f"extra_{kind}"] == pytest.approx((r["with_ns"] - r["step_ns"]) / r["alone_ns"])


# ------------------------------------------------------------------------------------------------ two kernels, waves, clocks


def test_behind_the_hosts_price_a_shorter_kernel_changes_nothing():
    for kernel in (0.5, 1.5, 3.0, 7.9, 8.0, 12.0, 40.0):
        assert two_kernels.queue_ns(kernel) == pytest.approx(1e3 * max(8.0, kernel))
    part = two_kernels.simulated()
    assert part["label"] == "simulated" and part["numbers"]["half_ratio"] == 1.0 and part["numbers"]["long_ratio"] == 0.5
    assert part["numbers"]["step_1_5"] == 8000.0
    whole_json(part)
    slowed = two_kernels.numbers(two_kernels.rows_of({us: 1e3 * us for us in two_kernels.KERNELS_US}))
    assert slowed["half_ratio"] == 0.5  # planted: a device that sets the time all along is seen in the same figure


@pytest.mark.parametrize(("sms", "fits"), [(132, 4), (40, 2), (3, 1)])
def test_the_grids_hold_whole_waves_and_one_block_more(sms, fits):
    sizes = grid_waves.grids(sms, sms * fits)
    for kernel, places in (("spin", sms * fits), ("work", sms)):
        assert {sms // 2, sms} | {b for k in (1, 2, 3, 4) for b in (k * places, k * places + 1)} <= set(sizes[kernel])
        assert sizes[kernel] == sorted(sizes[kernel]) and sizes[kernel][0] > 0


def test_times_in_whole_waves_fit_the_model_and_times_in_proportion_do_not():
    sms, fits = RNG.randint(30, 150), RNG.randint(2, 4)
    sizes = grid_waves.grids(sms, sms * fits)
    steps = {
        kernel: {b: 5e4 * -(-b // places) for b in sizes[kernel]} for kernel, places in (("spin", sms * fits), ("work", sms))
    }
    n = grid_waves.numbers(grid_waves.rows_of(steps, sms, fits), sms, fits)
    for kernel in ("spin", "work"):
        assert n[f"{kernel}_one_more"] == 2 and n[f"{kernel}_later"] == 1.25 and n[f"{kernel}_half"] == 1
        assert n[f"{kernel}_model_error"] == 0
    straight = {kernel: {b: 1e3 * b for b in of} for kernel, of in sizes.items()}
    n = grid_waves.numbers(grid_waves.rows_of(straight, sms, fits), sms, fits)
    assert n["work_one_more"] < 1.1 and n["work_half"] < 0.6 and n["work_model_error"] > 0.4
    row = next(r for r in grid_waves.rows_of(steps, sms, fits) if r["kernel"] == "work" and r["blocks"] == sms + 1)
    assert (row["waves"], row["idle_sms"]) == (2, sms - 1) and row["lost"] == pytest.approx((sms - 1) / (2 * sms))


def test_a_fall_in_speed_from_one_product_to_the_next_is_the_dip():
    assert grid_waves.gemm_numbers([{"tflops": t} for t in (500.0, 600.0, 450.0, 460.0)])["gemm_dip"] == pytest.approx(0.25)
    assert grid_waves.gemm_numbers([]) == {"gemm_dip": 0.0}


def test_the_working_blocks_text_stamps_and_computes(tmp_path):
    shim = """#include <cmath>
#define __shared__ static
static void __syncthreads() {}
static unsigned long long ticks = 100;
static unsigned long long device_ns() { return ticks += 7; }
"""
    library = _as_cpp(tmp_path, shim, SOURCES["fixed_work"].replace("float* sink", "volatile float* sink"))
    import ctypes

    out, sink = torch.full((4,), -1, dtype=torch.int64), torch.zeros(1)
    library.fixed_work(ctypes.c_void_p(out.data_ptr()), ctypes.c_longlong(50), ctypes.c_void_p(sink.data_ptr()))
    assert out.tolist() == [107, 114, -1, -1] and float(sink) == 0.0


def test_the_clocks_figures_are_medians_and_products_count_once_settled():
    rows = [
        clocks_of_load.row("after idling", [1000.0, 1980.0, 1980.0]),
        clocks_of_load.row("sparse", [1980.0] * 3),
        clocks_of_load.row("eager", [1900.0] * 3),
        clocks_of_load.row("products", [1980.0, 1980.0, 1400.0, 1380.0, 1420.0, 1400.0]),
    ]
    assert rows[0]["low"] == 1000.0 and rows[3]["high"] == 1420.0
    n = clocks_of_load.numbers(rows, 1980.0)
    assert n["idle_over_max"] == 1.0 and n["idle_over_products"] == pytest.approx(1980 / 1400)
    assert "max_mhz" not in clocks_of_load.numbers(rows, None)


# ------------------------------------------------------------------------------------------------ a slower host, a served model


def test_a_slowed_host_takes_at_least_what_was_added():
    a, b = torch.randn(3), torch.randn(3)
    arm = slow_host._inside(wall_arms.until_idle(lambda: (a + b) * b, "cpu"), 400.0)
    assert arm(5) >= 5 * 2 * 400e-6


def test_slopes_are_1_where_the_host_sets_the_time_and_0_where_it_hides():
    def rows(kind: str, growth: float) -> list[dict]:
        base = RNG.uniform(1e6, 2e6)
        return [{"kind": kind, "slow_us": us, "calls": 90, "step_ns": base + growth * 90 * us * 1e3} for us in (0.0, 5.0, 20.0)]

    n = slow_host.numbers(rows("small", 1.0) + rows("wide", 0.0), [{"kind": "small", "alone_ns": 5.0, "shared_ns": 10.0}])
    assert (
        n["slope_small"] == pytest.approx(1.0) and n["slope_wide"] == pytest.approx(0.0) and n["slowed_wide"] == pytest.approx(1)
    )
    assert n["shared_small"] == 2.0 and "shared_wide" not in n


def test_host_whole_but_small_leaves_no_neighbour_and_no_pin(monkeypatch):
    monkeypatch.setattr(slow_host, "SLOW_US", {"cpu": (0.0, 10.0)})
    monkeypatch.setattr(slow_host, "SHARED_MS", 2.0)
    tiny = {name: replace(kind, size=replace(TINY, layers=1)) for name, kind in null_experiment.KINDS["cpu"].items()}
    monkeypatch.setitem(null_experiment.KINDS, "cpu", tiny)
    before, children = os.sched_getaffinity(0), set(psutil.Process().children())
    part = slow_host.host("cpu", quick=True)
    whole_json(part)
    assert os.sched_getaffinity(0) == before and set(psutil.Process().children()) <= children
    assert {(r["kind"], r["slow_us"]) for r in part["slowed"]} == {(k, us) for k in ("small", "wide") for us in (0.0, 10.0)}
    for row in part["slowed"]:
        base = next(r["step_ns"] for r in part["slowed"] if r["kind"] == row["kind"] and r["slow_us"] == 0)
        assert row["predicted_ns"] == pytest.approx(base + row["calls"] * row["slow_us"] * 1e3)
    assert "NUMA" in part["not_here"] and {r["kind"] for r in part["shared"]} == {"small", "wide"}


def test_where_threads_cannot_be_pinned_it_says_so(monkeypatch):
    monkeypatch.delattr(os, "sched_setaffinity")
    rows, notes = slow_host._shared("cpu", {}, True, None)
    assert rows == [] and "cannot be pinned" in notes[0]


def test_the_served_models_work_is_counted_and_grows_by_the_sample():
    size = serving.SIZE
    small, large = (serving.work(batch, "fp32") for batch in serving.COUNTED)
    assert large.flops == pytest.approx(2 * small.flops, rel=1e-9)
    rows, w = serving.COUNTED[0] * size.tokens, size.width
    products = sum(op.flops for op in small.computing if group_of(op.op, "") == "product")
    by_hand = size.layers * 2 * rows * (4 * w * w + 2 * w * 4 * w) + 2 * rows * w * size.vocabulary
    attention = size.layers * 4 * rows * size.tokens * w
    assert products in (by_hand, by_hand + attention)  # attention is one op or two products, by the device that is counted
    between = serving.work(24, "fp32")
    assert between.bytes == pytest.approx((small.bytes + large.bytes) / 2, rel=1e-9)
    assert serving.work(16, "bf16").bytes < small.bytes


def test_throughput_is_samples_over_the_step():
    n = serving.numbers(serving.rows_of({1: 1e6, 4: 2e6, 16: 1.6e7}))
    assert n == {"gain": 1.0, "first_ns": 1e6, "first_per_s": 1000.0, "best_per_s": 2000.0, "best_batch": 4.0}


def test_cost_whole_but_small(monkeypatch):
    monkeypatch.setattr(serving, "SIZE", replace(serving.SIZE, width=16, layers=1))
    monkeypatch.setattr(serving, "QUICK", (2, 4))
    part = serving.cost("cpu", quick=True)
    whole_json(part)
    assert part["threads"] == 1 and [r["batch"] for r in part["rows"]] == [2, 4] and len(part["work"]) == 2
    assert part["ops"] > 5 and part["numbers"]["gain"] > 0


# ------------------------------------------------------------------------------------------------ the study


def whole_json(part: dict) -> None:
    """A part is JSON data with what every reader of it asks for."""
    json.dumps(plain(part), allow_nan=False)
    assert {"device", "numbers", "notes"} <= set(part)
    assert all(isinstance(v, float) and math.isfinite(v) for v in part["numbers"].values()), part["numbers"]


def test_every_part_is_there_for_a_recording_and_for_a_lesson():
    assert set(batch_and_scale.PARTS) == set(batch_and_scale.IN_LESSON)
    assert {name for name, part in batch_and_scale.PARTS.items() if "cpu" not in part.devices} == {
        "two_kernels",
        "waves",
        "clocks",
    }
    assert batch_and_scale.judged(two_kernels.simulated())["device"] == "cpu"
    assert batch_and_scale.IN_LESSON["two_kernels"]("cpu")["label"] == "simulated"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("name", batch_and_scale.PARTS)
def test_without_a_gpu_every_part_says_so(name):
    with pytest.raises(MeasurementError, match="no CUDA device"):
        batch_and_scale.PARTS[name].measure("cuda", None)


def test_kernels_are_counted_by_segment_and_none_is_a_failure():
    def event(cat: str, name: str, ts: float, dur: float) -> dict:
        return {"cat": cat, "name": name, "ts": ts, "dur": dur, "ph": "X", "args": {}}

    trace = [event("user_annotation", "a", 0, 10), event("user_annotation", "b", 20, 10)]
    trace += [event("kernel", "k", t, 1) for t in (1, 2, 3, 21)] + [event("cuda_runtime", "launch", 4, 1)]
    assert profiled.kernels(trace, ["a", "b"]) == {"a": 3, "b": 1}
    with pytest.raises(MeasurementError, match="no kernel of 'b'"):
        profiled.kernels([e for e in trace if e["ts"] != 21], ["a", "b"])


def test_what_the_profiler_runs_are_the_parts_own_steps():
    assert set(profiled.PROGRAMS) >= {"sweep", "layers", "step32"} | {name for names in profiled.TOGETHER for name in names}
    with pytest.raises(KeyError, match="no program"):
        profiled.shared("nonsense")
    assert list(layer_ops.works("cpu")) == [f"{s} {p}" for s, p in layer_ops_rows()]


def layer_ops_rows() -> list[tuple[str, str]]:
    return [(s, p) for s in ("shipped", "spelled") for p in ("forward", "backward")] + [("spelled", "decode")]


def test_one_model_for_census_and_sweep_takes_any_layer():
    module = model(TINY, "cpu", torch.float32, lambda *how: spelled(*how, positions=TINY.tokens))
    assert module(tokens(TINY, "cpu")).shape == (TINY.batch, TINY.tokens, TINY.vocabulary)
