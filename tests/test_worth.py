"""Samples for money: worked by hand on steps made up here, the model over datasheets, and the controls over both."""

from __future__ import annotations

import random

import pytest

from utils.model import devices, worth
from utils.model.worth import Speed, from_datasheet, winner, winners
from utils.show import worth_explorer

RNG = random.Random(80)


def flat(name: str, step: float, slope: float, batches=(1, 2, 4, 8, 16, 32, 64)) -> Speed:
    """A step that is flat until its work is longer."""
    return Speed(name, "made up", "measured", {b: max(step, slope * b) for b in batches})


def test_samples_for_money_are_the_hours_samples_over_the_hours_price():
    speed = Speed("mine", "made up", "measured", {1: 100.0, 4: 100.0, 8: 200.0})
    assert speed.worth(4, 2.0) == pytest.approx(4 * 36e6 / 2.0)  # 36e6 steps of 100 µs in an hour, four samples each
    assert speed.worth(6, 1.0) == pytest.approx(6 * 3.6e9 / 150.0), "between two batches the step is on the line between them"
    assert speed.worth(16, 1.0) is None and speed.step_us(0.5) is None
    with pytest.raises(ValueError, match="price"):
        speed.worth(4, 0.0)
    for steps in ({1: 1.0}, {1: 1.0, 2: 0.0}):
        with pytest.raises(ValueError, match="two batches"):
            Speed("mine", "", "measured", steps)


def test_with_the_same_flat_part_the_cheap_device_wins_first_and_the_fast_one_later():
    cheap, fast = flat("cheap", 1000.0, 250.0), flat("fast", 1000.0, 16.0)
    found = winners(cheap, fast, (1.0, 4.0))
    assert found[1] == "cheap" and found[64] == "fast"
    assert winners(cheap, fast, (1.0, 40.0)) == dict.fromkeys(found, "cheap"), "at ten times that price it never pays"
    turn = next(b for b, name in found.items() if name == "fast")
    assert all(name == ("cheap" if b < turn else "fast") for b, name in found.items() if name)
    assert winner(cheap, cheap, (1.0, 1.0), 4) == "" and winner(cheap, flat("few", 1.0, 1.0, (1, 2)), (1, 1), 4) is None


def test_the_model_takes_the_longer_of_host_bytes_and_flops():
    device = RNG.choice([d for d in devices.load() if "bf16" in d.tflops])
    host, flops, nbytes = RNG.uniform(3, 12), RNG.uniform(1e8, 1e10), RNG.uniform(1e6, 1e8)
    speed = from_datasheet(device, lambda b: (flops * b, nbytes), (1, 4096), ops=100, host_us=host, dtype="bf16")
    for batch in (1, 4096):
        by_hand = max(100 * host, flops * batch / device.tflops["bf16"].value * 1e-6, nbytes / device.gbps.value * 1e-3)
        assert speed.step_us(batch) == pytest.approx(by_hand)
    t4 = next(d for d in devices.load() if "bf16" not in d.tflops)
    assert from_datasheet(t4, lambda b: (flops * b, 1.0), (1, 4096), ops=1, host_us=0.0, dtype="bf16").step_us(
        4096
    ) == pytest.approx(flops * 4096 / t4.tflops["fp16"].value * 1e-6)


def known(**steps: Speed) -> dict[str, Speed]:
    return worth_explorer.speeds(list(steps.values()), lambda b: (2e8 * b, 14e6 + 2e5 * b), ops=60, host_us=8.0)


def test_the_controls_say_who_wins_where_and_whose_numbers_those_are():
    mine = Speed("this machine", "live · made up", "measured", {1: 900.0, 8: 1000.0, 64: 7000.0})
    speeds = known(mine=mine)
    panel = worth_explorer.explorer(speeds)
    assert list(speeds)[0] == "this machine" and {d.name for d in devices.load()} < set(speeds)
    panel.fire("first", "this machine"), panel.fire("price_1", 0.3)
    for _ in range(30):
        log2, second = RNG.randint(0, 10), RNG.choice(list(speeds)[1:])
        panel.fire("log2", log2), panel.fire("price_2", RNG.randint(1, 200) / 10)
        picture, words = panel.fire("second", second)
        assert panel.message == "" and picture.svg.count('<path d="M') > 3
        assert "live · made up" in picture.alt and "datasheet peaks" in picture.alt and words in picture.alt
        prices = (0.3, panel.values["price_2"])
        best = winner(mine, speeds[second], prices, 1 << log2)
        if log2 > 6:
            assert "no step of this machine is known" in words
        elif best:
            assert f"{best} gives more" in words
        else:
            assert "about alike" in words
        turned = {name for name in winners(mine, speeds[second], prices).values() if name and name != best}
        assert ("Another answer at batch" in words) == (bool(turned) and log2 <= 6)
    panel.fire("price_1", -1)
    assert "is not a number from" in panel.message
    assert "Twice the same device" in worth_explorer.words((mine, mine), (1.0, 2.0), 4)


def test_it_starts_with_one_device_twice_and_the_winner_flips_with_another():
    panel = worth_explorer.explorer(known())
    assert "Twice the same device" in panel.shown[1] and "made up" in panel.shown[0].table.text()
    small, large = worth_explorer.SMALL, worth_explorer.LARGE
    picture, words = panel.fire("first", small)
    assert f"{small} gives more" in words and f"({large})" in words
    assert worth.winners(known()[small], known()[large], worth_explorer.START_PRICES)[1024] == large
