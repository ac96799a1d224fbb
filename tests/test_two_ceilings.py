"""The study two_ceilings: bytes, FLOPs and crossings by hand, counts by torch, every part's shape; no time is judged."""

from __future__ import annotations

import json

import pytest
import torch

from utils.measure import break_even, price_list, study, three_models, toy_block, two_ceilings
from utils.measure.device_clock import MeasurementError
from utils.measure.toy_block import OPS, Block
from utils.model import costmodel, ledger
from utils.model.cost_fit import Timed
from utils.model.studies import plain

NO_GPU = not torch.cuda.is_available()


# ------------------------------------------------------------------------------------------------ by hand


def test_the_block_s_bytes_by_hand():
    block = Block("cpu", (8, 16), "fp32")
    n = 8 * 16 * 4
    assert [block.moved(op) for op in OPS] == [2 * n + 16 * 16 * 4, 2 * n + 16 * 4, 2 * n, 2 * n + 8 * 16, 3 * n]
    assert block.flops == 2 * 8 * 16 * 16 + 4 * 8 * 16


def test_the_texts_activation_is_256_mib():
    rows, side = toy_block.PAPER["cuda"]
    assert rows * side * 2 == 256 << 20
    assert toy_block.SMALL["cuda"][1] == toy_block.LARGE["cuda"][1]  # nothing but the rows differs
    assert toy_block.SMALL["cpu"][1] == toy_block.LARGE["cpu"][1]


def test_the_block_is_its_five_ops_in_a_row(monkeypatch):
    block = Block("cpu", (4, 64), "fp32")
    monkeypatch.setattr(toy_block, "DROPPED", 0.0)
    with torch.no_grad():
        out = block.run()
        again = block.run()
    assert out.shape == (4, 64)
    assert torch.equal(out, again)  # with nothing dropped it is a function
    assert not torch.equal(out, block.alone["matmul"]())


def test_a_cpu_s_dropout_is_more_ops_than_one():
    below = toy_block.computing(toy_block.least("cpu"))
    assert {op: len(below[op]) for op in ("matmul", "bias", "gelu", "add")} == dict.fromkeys(("matmul", "bias", "gelu", "add"), 1)
    assert len(below["dropout"]) > 1
    assert [len(ops) for ops in toy_block.computing(Block("cpu", (64, 64), "fp32")).values()] == [len(o) for o in below.values()]


@pytest.mark.parametrize(
    "points, where",
    [
        ([(1, 4.0, 1.0), (16, 4.0, 16.0)], 4.0),  # on log axes: half the way in both
        ([(8, 5.0, 1.0), (16, 5.0, 5.0)], 16.0),
        ([(1, 2.0, 3.0), (2, 2.0, 1.0), (4, 2.0, 4.0)], 2 * 2**0.5),  # the last crossing counts
        ([(1, 2.0, 0.0), (2, 2.0, 1.0)], None),
        ([(1, 2.0, 5.0), (2, 2.0, 6.0)], None),
    ],
)
def test_where_two_curves_meet(points, where):
    assert break_even.meets(points) == (None if where is None else pytest.approx(where))


def test_the_crossing_agrees_with_the_cost_model():
    prices = costmodel.Prices(dispatch_us=5, launch_us=2, gbps=2000, start_us=1)
    rows = [(float(2**e), prices.host_us, prices.kernel_us(12 * 2**e)) for e in range(8, 28)]
    found = break_even.meets(rows)
    assert found == pytest.approx(costmodel.break_even_elements(prices, 12), rel=0.05)


def test_prices_of_a_calibration_are_those_of_the_cost_model():
    numbers = {"dispatch": 4000.0, "launch": 6000.0, "gbps": 3300.0, "start": 0.0, "gap": 0.0, "sync": 0.0}
    assert price_list.prices({"numbers": numbers}) == costmodel.Prices()
    assert price_list.prices({"numbers": numbers | {"depth": 63.0}}).depth == 63


# ------------------------------------------------------------------------------------------------ old prices


def test_old_prices_are_worse_where_the_host_has_drifted():
    calibration, cases = three_models.few("cpu")
    both = [*calibration, *cases]
    fixed = [10.0 * len(p.kinds) + p.elements * len(p.kinds) * 1e-3 for p in both]
    drifted = [[us * (1.0 if w < 6 else 1.5) for w in range(12)] for us in fixed]
    said = three_models.stale_and_fresh(drifted, calibration, cases, "cpu")
    assert said["stale_median"] == pytest.approx(1 / 3, abs=0.1) and said["fresh_median"] < 0.1
    assert three_models.stale_and_fresh([[1.0] * 5] * len(both), calibration, cases, "cpu") == {}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_lesson_s_cases_are_none_of_its_calibration(device):
    for calibration, cases in (three_models.few(device), three_models.many(device)):
        assert not set(calibration) & set(cases)
        assert len(cases) >= 6 and any("mm" in p.kinds for p in cases) and any(p.grad for p in cases)
    assert len(three_models.many(device)[1]) >= 24


# ------------------------------------------------------------------------------------------------ every part, small


def quick(name: str) -> dict:
    part = two_ceilings.IN_LESSON[name]("cpu", None)
    json.dumps(plain(part), allow_nan=False)
    judged = two_ceilings.judged(part)
    assert judged["device"] == "cpu" and all(isinstance(v, float) for k, v in judged.items() if k != "device")
    return part


def test_the_sweep_has_the_fixed_price_everywhere():
    part = quick("sweep")
    fixed = {row["host_us"] for row in part["rows"]}
    assert len(fixed) == 1 and part["numbers"]["fixed"] == pytest.approx(1e3 * fixed.pop())
    for row in part["rows"]:
        assert row["bytes"] == 12 * row["elements"]
        assert row["step_us"] == pytest.approx(row["host_us"] + row["device_us"])
        assert row["bound"] == ("host" if row["host_us"] >= row["device_us"] else "device")


def test_a_thousand_ops_are_a_thousand():
    part = quick("thousand")
    assert part["numbers"]["per_op"] * 1000 == pytest.approx(part["numbers"]["thousand"])
    assert part["race"].control == (break_even.ADDS, break_even.ADDS + " (again)")


def test_the_same_ops_at_two_sizes_do_other_arithmetic():
    part = quick("flip")
    small, large = part["rows"]
    assert small["ops"] == large["ops"]
    assert part["numbers"]["flops_ratio"] == large["elements"] / small["elements"] == 4096
    assert part["numbers"]["flips"] == float((small["bottleneck"], large["bottleneck"]) == ("host", "device"))


def test_the_calibration_can_seed_sliders():
    part = quick("calibration")
    prices = two_ceilings.prices(part)
    assert prices.host_us == pytest.approx(part["numbers"]["hot"] * 1e-3)
    assert costmodel.Profile(prices=prices).totals()["sum"] > 0
    assert {row["kind"] for row in part["kinds"]} == set(price_list.kinds("cpu"))


def test_the_drift_is_points_in_time():
    part = price_list.drift("cpu", seconds=0.7)
    seconds = [point["s"] for point in part["points"]]
    assert len(seconds) >= 2 and seconds == sorted(seconds)
    assert part["numbers"]["high"] >= part["numbers"]["low"] > 0


def test_three_models_stand_beside_measurement(monkeypatch):
    """On a synthetic machine that is the model's own, the queue model is right and the published ones are not."""
    from tests.test_cost_model_cases import drawn_prices, synthetic

    def timed(device, programs, progress=None, **how):
        us = [t.us for t in synthetic(programs, device, drawn_prices(programs, device), 0.01)]
        return {"us": us, "spread": [1.0] * len(us), "windows": {"us": [[u] * 3 for u in us]}, "aa": 0.0, "notes": []}

    monkeypatch.setattr(three_models.step_cases, "timed", timed)
    part = three_models.three_models("cuda", quick=True)
    numbers = part["numbers"]
    assert numbers["queue_median"] < 0.1 < numbers["published_sum_median"]
    assert numbers["queue_median"] < numbers["sum_median"]
    assert {row["case"] for row in part["rows"]} == {p.name for p in three_models.few("cuda")[1]}
    assert "stale_median" not in numbers


def test_a_step_of_the_reader_s_own():
    race = two_ceilings.step("cpu", lambda: torch.rand(4) + 1, at_most_s=0.2)
    assert race["step"].ns > 0 and race.control == ("step", "step (again)")
    with pytest.raises(MeasurementError, match="ZeroDivisionError"):
        two_ceilings.step("cpu", lambda: 1 / 0)


# ------------------------------------------------------------------------------------------------ the study


def test_the_study_is_registered_with_all_its_parts():
    assert study.parts_of("two_ceilings") is two_ceilings.PARTS
    assert set(two_ceilings.IN_LESSON) == set(two_ceilings.PARTS)


@pytest.mark.skipif(not NO_GPU, reason="there is a GPU here")
def test_every_part_says_in_words_that_there_is_no_gpu():
    for name, part in two_ceilings.PARTS.items():
        with pytest.raises(MeasurementError, match="no CUDA device"):
            part.measure("cuda", None)
        assert "cuda" in part.devices, name
    with pytest.raises(MeasurementError, match="no CUDA device"):
        two_ceilings.step("cuda", lambda: None)


def test_claims_ask_for_parts_that_there_are():
    asked = [c for c in ledger.claims() if c.metric and c.metric.get("study") == "two_ceilings"]
    assert {c.id for c in asked} >= {"A13", "A17", "A19", "B12", "B13", "B14", "B15", "B35", "B40", "B51"}
    for claim in asked:
        assert claim.metric["part"] in two_ceilings.PARTS, claim.id


def test_a_fit_of_few_cases_knows_none_of_them():
    """The planted leak, on the lesson's own cases."""
    calibration, cases = three_models.few("cpu")
    timed = [Timed(p, 5.0 * len(p.kinds)) for p in cases]
    with pytest.raises(ValueError, match="would predict"):
        three_models.cost_fit.held_out(timed, [*[Timed(p, 5.0) for p in calibration], timed[0]], "cpu")
