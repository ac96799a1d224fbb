"""Rounds of blocks on SMs: counted here by dealing the blocks out one by one, against the formulas and the explorer's words."""

from __future__ import annotations

import random

import pytest

from utils.model import devices
from utils.model.waves import Waves
from utils.show import wave_explorer

RNG = random.Random(8)


def dealt(blocks: int, sms: int, per_sm: int) -> list[list[int]]:
    """Blocks on each SM in each round, dealt out one to every SM before any gets a second."""
    rounds, left = [], blocks
    while left:
        now = [0] * sms
        for place in range(min(left, sms * per_sm)):
            now[place % sms] += 1
        left -= sum(now)
        rounds.append(now)
    return rounds


@pytest.mark.parametrize("run", range(30))
def test_rounds_and_what_they_lose_are_those_of_blocks_dealt_out_one_by_one(run):
    blocks, sms, per_sm = RNG.randint(1, 900), RNG.randint(1, 150), RNG.randint(1, 9)
    waves, rounds = Waves(blocks, sms, per_sm), dealt(blocks, sms, per_sm)
    assert waves.filled() == [sum(now) for now in rounds] and waves.count == len(rounds)
    assert waves.last == sum(rounds[-1]) and waves.idle_sms == rounds[-1].count(0)
    empty = sum(per_sm - n for now in rounds for n in now)
    assert waves.lost == pytest.approx(empty / (len(rounds) * sms * per_sm))
    assert 0 <= waves.lost < 1 / waves.count + 1e-12, "what is lost is never a whole round"


def test_one_block_more_than_places_is_a_round_more_and_a_full_grid_loses_nothing():
    sms, per_sm = RNG.randint(2, 150), RNG.randint(1, 8)
    full, more = Waves(3 * sms * per_sm, sms, per_sm), Waves(3 * sms * per_sm + 1, sms, per_sm)
    assert (full.count, full.lost, full.idle_sms) == (3, 0, 0) and (more.count, more.last, more.idle_sms) == (4, 1, sms - 1)
    for wrong in ((0, 1, 1), (1, 0, 1), (1, 1, 0)):
        with pytest.raises(ValueError, match="at least one"):
            Waves(*wrong)


def test_more_sms_do_not_always_lose_more():
    """The claim's counter-case: 133 blocks lose more on 132 SMs than on 148, and on 40."""
    lost = {sms: Waves(133, sms).lost for sms in (40, 132, 148)}
    assert lost[132] > lost[40] > lost[148]


def test_every_move_of_the_explorer_says_what_is_counted():
    panel = wave_explorer.explorer()
    assert {d.name for d in devices.load()} == set(panel.controls["device"].options)
    for _ in range(40):
        blocks, per_sm, device = RNG.randint(1, 2000), RNG.randint(1, 16), RNG.choice(panel.controls["device"].options)
        panel.fire("blocks", blocks), panel.fire("per_sm", per_sm)
        picture, words, table = panel.fire("device", device)
        waves = Waves(blocks, int(next(d for d in devices.load() if d.name == device).sms.value), per_sm)
        assert panel.message == "" and f"{blocks:,} blocks on the {waves.sms} SMs of {device}" in picture.alt
        assert "nothing measured" in picture.alt and "nothing measured" in picture.svg
        assert sum(row["blocks"] for row in picture.table.rows) == blocks or len(picture.table.rows) == wave_explorer.MOST
        assert len(picture.table.rows) == min(waves.count, wave_explorer.MOST) == picture.svg.count("url(#empty)")
        if waves.lost:
            assert f"rounds {wave_explorer.significant(waves.lost, 2)} stay empty" in words
        else:
            assert "nothing is lost" in words
        mine = next(row for row in table.rows if row["device"] == device)
        assert mine["rounds"] == waves.count and [row["sms"] for row in table.rows] == sorted(row["sms"] for row in table.rows)
    panel.fire("blocks", 0)
    assert "is not a number from" in panel.message


def test_a_grid_smaller_than_the_device_leaves_sms_without_work():
    words = wave_explorer.draw(20, 4, "NVIDIA H100 SXM")[1]
    assert "20 of 132 SMs have a block, 112 have none" in words
