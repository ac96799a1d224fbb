"""The right number of a question: drawn by a seed, worked out from the reader's own measurements, never from two machines."""

from __future__ import annotations

import random

import pytest

from tests.factories import make_receipt
from utils.model import arithmetic, bank, keys, quantities, recordings, results
from utils.model.readings import Receipt

RNG = random.Random(12)
NUMBERS = [q for q in bank.practice() if q["kind"] == "number"]
DRAWN = [q for q in NUMBERS if q.get("draws")]
OWN = [q for q in NUMBERS if "own" in q["answer"]]


pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture(scope="module")
def where() -> dict:
    return results._fingerprint()


@pytest.fixture
def no_recordings(tmp_path, monkeypatch):
    monkeypatch.setattr(recordings.paths, "RECORDINGS", tmp_path / "none")


# ------------------------------------------------------------------------------------------------ arithmetic


def test_formulas_are_worked_out_and_nothing_else_is():
    a, b = RNG.uniform(1, 9), RNG.uniform(1, 9)
    for text, value in {
        "a + b * 2": a + b * 2,
        "(a - b) / a": (a - b) / a,
        "max(a, b, 3)": max(a, b, 3),
        "min(a, -b)": min(a, -b),
        "ceil(a / b) * b": -(-a // b) * b,
        "a ** 2": a**2,
    }.items():
        assert arithmetic.value(text, {"a": a, "b": b}) == pytest.approx(value)
    assert arithmetic.names("max(n * price, 3) + m") == {"n", "price", "m"}
    for text, words in {
        "a +": "not a formula",
        "a + c": "nothing is known of 'c'",
        "a / (b - b)": "division by zero",
        "__import__('os')": "only numbers",
        "a.real": "only numbers",
        "'a' * 3": "only numbers",
        "[a][0]": "only numbers",
        "True + a": "only numbers",
        "max(*a)": "only numbers",
        "a if a else b": "only numbers",
    }.items():
        with pytest.raises(ValueError, match=words):
            arithmetic.value(text, {"a": a, "b": b})


# ------------------------------------------------------------------------------------------------ draws


@pytest.mark.parametrize("question", DRAWN, ids=lambda q: q["id"])
def test_a_seed_draws_the_same_numbers_and_another_one_others(question):
    found = {seed: keys.key(question, seed) for seed in range(12)}
    for seed, key in found.items():
        assert key == keys.key(question, seed)
        assert "{" not in key.prompt and key.value > 0 and key.unit
        drawn = keys.draws(question, seed)
        assert all(f"{number:,.12g}" in key.prompt for number in drawn.values())
        assert key.accepts(key.value) and not key.accepts(-key.value)
        for factor, near in ((1 + 0.9 * key.tolerance, True), (1 + 1.1 * key.tolerance, False), (1 - 1.1 * key.tolerance, False)):
            assert key.accepts(key.value * factor) is near
    assert len({key.prompt for key in found.values()}) >= 3


def test_fixed_numbers_need_no_seed():
    question = bank.find("start_here.bytes_of_an_add")
    assert keys.key(question) == keys.key(question, 7) and keys.key(question).value == 12


# What a reader works out by hand, by other means than the formula in the file.
BY_HAND = {
    "start_here.read_in_each_step": lambda d: sum(d.values()) / max(d.values()),
    "two_ceilings.profiler_by_hand": lambda d: sum([3 * 2 * d["m"], *[2 * 2 * d["m"]] * int(d["n"])]) / d["tb"],
    "two_ceilings.small_tensors": lambda d: sum(d["d"] + d["l"] for _ in range(5)),
    "batch_and_scale.rounds": lambda d: (1 + (d["blocks"] - 1) // (d["sms"] * d["places"])) * d["us"],
    "memory_plan.smallest_arena": lambda d: max(d["a"] + d["b"], d["b"] + d["c"]),
    "fuse.bytes_that_stay": lambda d: 8 * d["m"] * d["k"] - 8 * d["m"],
    "ridge_point.one_round_trip": lambda d: d["b"] * d["t"] * d["d"] * 4 / d["tb"] * 1e-6,
    "autograd.relu_keeps": lambda d: 4 * d["m"] * d["n"] / 1e6,
    "self_check.twelve_days": lambda d: d["days"] / (d["n"] + 1),
}


@pytest.mark.parametrize("question", BY_HAND)
def test_the_key_is_what_a_reader_works_out_by_hand(question):
    for seed in range(10):
        drawn = keys.draws(bank.find(question), seed)
        assert keys.key(bank.find(question), seed).value == pytest.approx(BY_HAND[question](drawn))


def test_the_profilers_defaults_give_the_texts_numbers():
    question = dict(bank.find("two_ceilings.profiler_by_hand"), draws={"n": [4] * 3, "m": [16] * 3, "tb": [3.3] * 3})
    assert keys.key(question).value == pytest.approx(352 / 3.3)


# ------------------------------------------------------------------------------------------------ the reader's own


def keep(where: dict, device: str = "cpu") -> dict[bool, Receipt]:
    made = {grad: make_receipt(device, grad, seed=RNG.randrange(10**6), where=where) for grad in (False, True)}
    for receipt in made.values():
        results.record_receipt(receipt)
    return made


@pytest.mark.parametrize("question", OWN, ids=lambda q: q["id"])
def test_own_numbers_come_from_the_readers_receipts_and_from_the_recording_before(question, where):
    before = keys.key(question, 3)
    assert before.source.startswith("recorded") and "on the recorded machine" in before.prompt and before.value > 0
    if any(spec.get("device") == "cuda" for spec in question["answer"]["own"].values()):
        return  # no GPU here: what a GPU's host pays is the recording's
    mine = keep(where)
    after = keys.key(question, 3)
    assert after.source == "your own measurement" and "as you measured it" in after.prompt
    known = dict(keys.draws(question, 3))
    for name, spec in question["answer"]["own"].items():
        found = quantities.evaluate(spec["measure"], mine[bool(spec.get("grad"))]).value
        known[name] = found * {"us": 1e-3, "ns": 1.0, "ratio": 1.0}[spec["unit"]]
    assert after.value == pytest.approx(arithmetic.value(question["answer"]["formula"], known))
    columns = after.columns
    assert len(columns) == len(question["answer"]["own"])
    assert all("not measured" not in column["yours"] and "µs" in column["recorded"] for column in columns)
    assert any("µs" in column["cited"] for column in columns)


def test_a_ratio_is_never_made_of_two_machines(where):
    question = bank.find("autograd.with_and_without")
    results.record_receipt(make_receipt("cpu", False, seed=5, where=where))  # without grad, and none with grad
    key = keys.key(question)
    assert key.source.startswith("recorded"), "one half measured here, one half recorded, would be nobody's"
    keep(where)
    assert keys.key(question).source == "your own measurement"


@pytest.mark.parametrize("question", OWN, ids=lambda q: q["id"])
def test_without_measurement_and_recording_there_is_nothing_to_compare_with(question, no_recordings):
    key = keys.key(question)
    assert key.value is None and key.source == keys.NOTHING and not key.accepts(1.0)
    assert "not measured yet" in key.prompt and {c["yours"] for c in key.columns} == {"not measured yet"}
    assert {c["recorded"] for c in key.columns} == {"not recorded"}
