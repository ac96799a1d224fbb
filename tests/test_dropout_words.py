"""Philox against its published answers, which element takes which bits, and whether the masks are honest dice."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conftest import require
from utils.kernels import cpu_door, forms, philox, randomness

DRAWS = ("rand", "one", "four", "eight")
SIZE, SEED = (1024, 1024), 2026
SUSPECT = 5.0  # standard deviations; of some thirty figures an honest one is beyond it once in 60,000


def plain(counter: list[int], key: list[int]) -> list[int]:
    """Philox4x32-10 as its paper writes it, in Python's own integers."""
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


@pytest.mark.parametrize(
    "counter, key, answer",  # Random123's own tests (kat_vectors)
    [
        ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xA4093822, 0x299F31D0],
            [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
        ),
    ],
)
def test_the_plain_spelling_gives_the_published_words(counter, key, answer):
    assert plain(counter, key) == answer


def test_the_fast_one_gives_the_same_words():
    rng = np.random.default_rng(1)
    counters, seeds = rng.integers(0, 2**63, 50, dtype=np.uint64), rng.integers(0, 2**63, 50)
    for n, seed in zip(counters.tolist(), seeds.tolist(), strict=True):
        wanted = plain([n & 0xFFFFFFFF, n >> 32, 0, 0], [seed & 0xFFFFFFFF, seed >> 32])
        assert philox.words([n], seed)[:, 0].tolist() == wanted


@pytest.mark.parametrize("first", [0, 123_456, 2**32 - 3, 2**32 - 1, 2**32, 2**63 + 2**32 - 2])
def test_the_cpp_generator_gives_the_same_words_also_where_a_counter_outgrows_32_bits(first):
    require("compiler")
    got = cpu_door.words(first, (9 << 32) + 77)
    assert np.array_equal(got, philox.words(np.uint64(first) + np.arange(got.shape[1], dtype=np.uint64), (9 << 32) + 77))


def test_threshold_probability_and_scale_are_exactly_consistent():
    assert forms.threshold("eight") == 6554 and forms.dropped("eight") == 6554 / 65536
    assert forms.scale("eight") == 65536 / (65536 - 6554)
    every = np.arange(65536)
    assert (every < forms.threshold("eight")).mean() == forms.dropped("eight")
    for draw in ("one", "four"):
        assert forms.dropped(draw) == forms.threshold(draw) / 2**32 and abs(forms.dropped(draw) - 0.1) < 2**-32
        assert forms.scale(draw) * (1 - forms.dropped(draw)) == pytest.approx(1, abs=1e-15)
    with pytest.raises(ValueError):
        forms.threshold("eight", 1.0)


@pytest.mark.parametrize("draw", DRAWS)
def test_the_mask_is_had_again_from_the_seed_and_in_parts(draw):
    whole = philox.keep(draw, 50, 33, SEED)
    assert np.array_equal(whole, philox.keep(draw, 50, 33, SEED))
    assert np.array_equal(whole[21:], philox.keep(draw, 50, 33, SEED, first=21))
    assert (whole != philox.keep(draw, 50, 33, SEED + 1)).mean() > 0.1


@pytest.mark.parametrize("draw", ["four", "eight"])
def test_every_element_of_a_group_has_bits_of_its_own(draw):
    group, cols = philox.GROUP[draw], 7
    drawn = philox.draws(draw, 2 * group, cols, SEED)
    words = philox.words(np.arange(2 * cols), SEED).reshape(4, 2, cols)
    for row in range(2 * group):
        g, j = divmod(row, group)
        word = words[j // 2 if draw == "eight" else j, g]
        wanted = (word >> (16 * (j % 2))) & 0xFFFF if draw == "eight" else word
        assert np.array_equal(drawn[row], wanted)


@pytest.mark.parametrize("draw", DRAWS)
def test_the_masks_are_honest(draw):
    figures = randomness.of_mask(philox.keep(draw, *SIZE, SEED), forms.dropped(draw))
    figures["values"] = randomness.of_values(philox.draws(draw, *SIZE, SEED), 16 if draw == "eight" else 32)
    assert all(abs(z) < SUSPECT for z in figures.values()), figures


def spoilt(how: str) -> np.ndarray:
    keep = philox.keep("eight", *SIZE, SEED)
    if how == "one half for two rows":
        keep[1::2] = keep[::2]
    if how == "one word for two columns":
        keep[:, 1::2] = keep[:, ::2]
    if how == "a counter that does not go on":
        keep[8:16] = keep[:8]
        keep = np.tile(keep[:16], (SIZE[0] // 16, 1))
    if how == "another threshold":
        keep = philox.keep("eight", *SIZE, SEED, p=0.105)
    if how == "every tenth":
        keep = (np.arange(keep.size) % 10 != 0).reshape(SIZE)
    return keep


@pytest.mark.parametrize(
    "how, by",
    [
        ("one half for two rows", "down"),
        ("one word for two columns", "along"),
        ("a counter that does not go on", "next group"),
        ("another threshold", "share"),
        ("every tenth", "runs"),
    ],
)
def test_a_dishonest_mask_is_seen(how, by):
    assert abs(randomness.of_mask(spoilt(how), forms.dropped("eight"))[by]) > 2 * SUSPECT


def test_values_that_are_not_alike_are_seen():
    drawn = philox.draws("eight", *SIZE, SEED)
    assert abs(randomness.of_values(drawn | 0x0100, 16)) > 2 * SUSPECT
