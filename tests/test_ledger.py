"""The ledger: verdicts are computed from recordings, and the written ones must equal the computed ones."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from tests.factories import WHERE, make_reading, make_receipt
from utils import paths
from utils.model import drift, ledger, quantities, recordings, schemas, studies
from utils.model.ledger import Claim
from utils.model.readings import StagePrice, ratio_error
from utils.model.recordings import Recording
from utils.show import drift_tables

RNG = random.Random(17)
FIRST_ISSUE = "A01 A02 A03 A05 A06 A08 A41 A42 B01 B03 B05 B06 B33 B34 B42 C01".split()


def recording(device: str = "cuda", **extras) -> Recording:
    receipts = {device: make_receipt(device, source="recorded"), f"{device}_grad": make_receipt(device, True, source="recorded")}
    return Recording(f"{device}-stem", "2026-11-29", WHERE[device], receipts, extras)


def number(measure: str = "end_to_end", unit: str = "us", **changes) -> Claim:
    fields = {
        "id": "A00",
        "source": "A",
        "kind": "number",
        "lesson": "price_each_stage",
        "claim": "a claim",
        "verdict": "open",
        "sentence": "",
        "recordings": (),
        "torch": (),
        "unit": unit,
        "metric": {"measure": measure, "unit": unit},
    }
    return Claim(**{**fields, **changes})


# ---- the file -------------------------------------------------------------------------------------------------------


def test_the_ledger_has_every_row_of_both_sources():
    ids = [c.id for c in ledger.claims()]
    assert len(ids) == len(set(ids)) == 107
    for letter, last in (("A", 50), ("B", 53), ("C", 4)):
        assert [f"{letter}{n:02d}" for n in range(1, last + 1)] == sorted(i for i in ids if i[0] == letter)


def test_the_two_lessons_of_this_release_settle_these_claims():
    here = {c.id for lesson in ("start_here", "price_each_stage") for c in ledger.claims(lesson)}
    assert here == set(FIRST_ISSUE)
    by_trace_alone = {"B42"}  # which functions are called is seen in a trace, not in a price
    assert {c.id for c in map(ledger.find, FIRST_ISSUE) if not c.metric} == by_trace_alone


def where_of(stem: str) -> dict:
    """The machine and versions of what a claim names: a recording, a study, or a file of call trees."""
    if stem.startswith(("trees/", "studies/")):
        return json.loads((paths.RECORDINGS / f"{stem}.json").read_text(encoding="utf-8"))["where"]
    return recordings.load(stem).where


@pytest.mark.parametrize("claim_id", [c.id for c in ledger.claims()])
def test_a_written_verdict_equals_the_computed_one(claim_id):
    claim = ledger.find(claim_id)
    if claim.verdict == "open":
        assert not claim.recordings and not claim.sentence
        return
    assert claim.recordings and len(claim.sentence) >= 20
    if claim.metric:
        assert claim.verdict == ledger.computed_verdict(claim)
    versions = {".".join(where_of(stem)["torch"].split(".")[:2]) for stem in claim.recordings}
    assert versions <= set(claim.torch), "verified on a version that the row does not name"


def test_claims_are_settled_as_soon_as_there_is_a_gpu_recording():
    """Nothing may stay open beside the recording that answers it."""
    if recordings.best("cuda") is None:
        pytest.skip("no GPU recording is committed yet")
    assert [c.id for c in map(ledger.find, FIRST_ISSUE) if c.verdict == "open"] == []


def test_an_unknown_claim_and_an_unknown_lesson():
    assert ledger.claims("no_such_lesson") == []
    with pytest.raises(KeyError, match="Z99"):
        ledger.find("Z99")


# ---- judging --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bounds", "verdict"),
    [
        ({"lo": 0.5, "hi": 2.0}, "holds"),
        ({"lo": 1.5, "hi": 2.0}, "does_not_hold"),
        ({"lo": 0.1, "hi": 0.5}, "does_not_hold"),
        ({"hi": 0.9}, "does_not_hold"),
        ({"lo": 0.9}, "holds"),
        ({"around": 1.3}, "holds"),
        ({"around": 2.0}, "does_not_hold"),
        ({"lo": 1.03, "hi": 2.0}, "holds"),  # cited with two digits at most: 5 % is not a refutation
    ],
)
def test_a_number_is_compared_with_what_the_source_says(bounds, verdict):
    receipt = make_receipt("cpu", end_to_end=make_reading("a + b", 1000.0, rng=RNG, noise=0.001))
    found, value = ledger.judge(number(**bounds), receipt)
    assert found == verdict and value == pytest.approx(1.0, rel=0.01)


def test_judging_follows_the_recording():
    """Scale the recording and the verdict turns: it is computed from the samples, not remembered."""
    claim = number("stages.tensor_iterator", around=0.3)
    sound = recording()
    assert ledger.judge(claim, sound)[0] == "holds"
    slow = replace(sound, receipts={"cuda": sound.receipts["cuda"].scaled_stage("tensor_iterator", 3.0)})
    assert ledger.judge(claim, slow)[0] == "does_not_hold"


def test_what_a_recording_does_not_have_is_not_measurable_here():
    receipt = make_receipt("cuda")
    without = replace(receipt, stages=tuple(StagePrice(s.stage, None, None, "no compiler") for s in receipt.stages))
    assert ledger.judge(number("stages.kernel", lo=1, hi=9), without) == ("not_measurable_here", None)
    assert ledger.judge(number("arms.no such arm", lo=1, hi=9), receipt) == ("not_measurable_here", None)
    assert ledger.judge(number(metric=None), receipt) == ("open", None)


def test_grad_and_other_instruments_are_looked_up_where_they_are():
    found = recording(traps={"no_sync": {"wrong": 10.0, "honest": 100.0}})
    grad = number("stages.autograd_node", lo=0.1, hi=5, metric={"measure": "stages.autograd_node", "unit": "us", "grad": True})
    assert ledger.judge(grad, found)[0] == "holds"
    assert ledger.judge(grad, replace(found, receipts={"cuda": found.receipts["cuda"]}))[0] == "not_measurable_here"
    extra = {"measure": "no_sync.wrong / no_sync.honest", "unit": "ratio", "hi": 0.5, "extra": "traps"}
    assert ledger.judge(number(metric=extra), found) == ("holds", pytest.approx(0.1))
    assert ledger.judge(number(metric=extra), recording())[0] == "not_measurable_here"


def test_recordings_that_disagree_make_it_holds_when():
    claim = number(lo=5, hi=10)
    assert ledger.computed_verdict(claim, [recording("cuda")]) == "holds"
    assert ledger.computed_verdict(claim, [recording("cpu")]) == "does_not_hold"
    assert ledger.computed_verdict(claim, [recording("cuda"), recording("cpu")]) == "holds_when"
    assert ledger.computed_verdict(number("stages.kernel", metric=None), [recording()]) == "open"
    assert ledger.computed_verdict(number("arms.none", lo=1), [recording()]) == "not_measurable_here"


def test_a_number_that_covers_a_part_of_the_claim_makes_it_hold_in_part_at_most():
    part = number(lo=5, hi=10)
    part = replace(part, metric={**part.metric, "covers": "part"})
    assert ledger.computed_verdict(part, [recording("cuda")]) == "holds_when"
    assert ledger.computed_verdict(part, [recording("cpu")]) == "does_not_hold"


def test_every_ratio_says_what_it_is_of():
    ratios = [c for c in ledger.claims() if c.metric and c.metric["unit"] == "ratio" and c.unit in ("", "x", "ratio")]
    assert len(ratios) > 20 and [c.id for c in ratios if "says" not in c.metric] == []
    assert ledger.cited(ledger.find("A46")) == "no figure; shown: host: a replay of 100 adds, over one add"


OWN_UNIT = {
    "A17": (8.13, "8.13 ms"),
    "B07": (0.0914, "9.14 %"),
    "B18": (0.0833, "0.0833 FLOP/byte"),
    "A46": (0.444, "0.444 ×"),
    "B26": (5.0, "5 launches"),
}


@pytest.mark.parametrize("claim", OWN_UNIT)
def test_a_number_is_shown_in_the_claims_own_unit(claim, monkeypatch):
    value, text = OWN_UNIT[claim]
    monkeypatch.setattr(ledger, "measure", lambda claim, measured: value)
    assert ledger.shown(ledger.find(claim), recording()) == text


def test_the_stage_tables_own_rows_do_not_add_up_to_its_total():
    assert ledger.cited_sum() == (pytest.approx(5.5), pytest.approx(12.0))
    verdict, value = ledger.judge(ledger.find("A42"), recording())
    assert verdict == "does_not_hold" and value == pytest.approx(12.0)


# ---- what a lesson shows ----------------------------------------------------------------------------------------------


def test_the_table_has_three_columns_side_by_side_for_every_claim():
    mine = make_receipt("cpu")
    rows = ledger.verdict_table("price_each_stage", mine, recording=recording())
    assert [r["id"] for r in rows] == [c.id for c in ledger.claims("price_each_stage")]
    total = next(r for r in rows if r["id"] == "A08")
    assert total["yours"] == f"{mine.total_ns / 1000:.3g} µs"
    assert total["recorded"] == f"{recording().receipts['cuda'].total_ns / 1000:.3g} µs"
    assert total["cited"] == "5–10 µs"
    rows_total = next(r for r in rows if r["id"] == "A42")
    assert rows_total["cited"] == "5–10 µs; its rows give 5.5–12 µs"
    assert rows_total["yours"] == f"{mine.stage_sum_ns / 1000:.3g} of {mine.total_ns / 1000:.3g} µs"
    assert all(isinstance(v, str) for r in rows for v in r.values())


def test_without_a_measurement_or_a_recording_the_table_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(recordings.paths, "RECORDINGS", tmp_path)
    row = ledger.verdict_table("price_each_stage")[0]
    assert row["yours"] == row["recorded"] == "not measured"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"lo": 1, "hi": 2}, "1–2 µs"),
        ({"around": 0.5}, "about 0.5 µs"),
        ({"hi": 1, "unit": "percent"}, "at most 1 %"),
        ({"lo": 1e6, "hi": 4e6, "unit": "elements"}, "1,000,000–4,000,000 elements"),
        ({"lo": 2000, "hi": 5000, "unit": "ops"}, "2,000–5,000 ops"),
        ({}, ""),
    ],
)
def test_cited_figures_as_text(fields, text):
    assert number(**fields).cited == text


def test_a_count_is_shown_as_one():
    mine = studies.live(
        "batch_and_scale", "cpu", {}, {"layer_ops": {"device": "cpu", "numbers": {"spelled_forward_calls": 1197.0}}}
    )
    rows = {row["id"]: row for row in ledger.verdict_table("batch_and_scale", yours=mine)}
    assert rows["A10"]["yours"] == "1,197 ops" and rows["A11"]["yours"] == "not measured"


# ---- the language of the metrics ---------------------------------------------------------------------------------------


def test_expressions_are_worked_out_from_left_to_right():
    things = {"a": 10.0, "b c": 4.0, "d-e": 2.0}
    assert quantities.evaluate("a - b c / d-e", things).value == 3.0
    assert quantities.evaluate("a + b c + d-e", things).value == 16.0
    assert quantities.names("a - b c / d-e") == ["a", "b c", "d-e"]
    assert quantities.split("x.'a + b' / 'c / d' + e") == ["x.a + b", "/", "c / d", "+", "e"]
    with pytest.raises(quantities.NoSuchQuantity, match="there is no 'x'"):
        quantities.evaluate("a / x", things)
    with pytest.raises(quantities.NoSuchQuantity, match="cannot be divided"):
        quantities.evaluate("a / z", {"a": 1.0, "z": 0.0})


def test_every_quantity_of_a_receipt_is_what_it_says():
    r = make_receipt("cuda", grad=True)
    expected = {
        "end_to_end": r.total_ns,
        "loop": r.loop.ns,
        "python_call": r.arms["python call"].ns,
        "context": r.context_ns,
        "aa_error": r.aa_error,
        "stages.sum": r.stage_sum_ns,
        "stages.kernel": r.stage("kernel").ns,
        "arms.view alive": r.arms["view alive"].ns,
        "device_time.kernel": r.device_time["kernel"].ns,
        "ladder.'a + b'": r.ladder[0].ns,
        "in_program.first": r.in_program[0][1].ns,
        "in_program.last": r.in_program[-1][1].ns,
        "first_call.'first a + b'": dict(r.first_call)["first a + b"],
    }
    stages = {s["id"] for s in schemas.load("stages")["stages"]}
    for name, ns in expected.items():
        assert quantities.is_receipt_name(quantities.names(name)[0], stages), name
        assert quantities.evaluate(name, r).value == ns, name
    for wrong in ("stages.kernal", "arms.", "total", "in_program"):
        assert not quantities.is_receipt_name(wrong, stages)


def test_noise_of_a_quotient_is_that_of_both():
    quiet, loud = (
        make_reading("q", 100.0, rng=RNG, noise=0.001, preempted=0),
        make_reading("l", 100.0, rng=RNG, noise=0.1, preempted=0),
    )
    assert quantities.noise_of(quiet) < 0.002 < quantities.noise_of(loud)
    both = quantities.evaluate("q / l", {"q": quiet, "l": loud}).noise
    of_each = quantities.noise_of(quiet) + quantities.noise_of(loud)
    of_ratio = 3 * ratio_error(loud.samples, quiet.samples) / (quiet.ns / loud.ns)
    assert both == pytest.approx(max(of_each, of_ratio))


def test_where_no_gpu_has_been_recorded_a_cpus_recording_is_shown_unless_the_claim_is_about_a_gpu(monkeypatch):
    best = studies.best
    monkeypatch.setattr(studies, "best", lambda name, device="cuda", folder=None: best(name, "cpu") if device == "cpu" else None)
    (fused,) = ledger.verdict_table("fuse")
    assert fused["recorded"].startswith(f"{best('fuse', 'cpu').part('steps')['numbers']['eight_gain']:.3g}")
    (about_gpus,) = [row for row in ledger.verdict_table("reach_the_roof") if row["id"] == "B10"]
    assert about_gpus["recorded"] == "not measured"
    assert [one.device for one in ledger.recorded_studies("reach_the_roof")] == ["cpu"]


def test_what_is_measured_again_is_told_in_the_claims_own_unit():
    claim = ledger.find("A17")
    row = drift.Judged(claim, "holds", 8.13, "holds", 8.4)
    assert drift_tables._value(row, row.value) == ledger.worded(claim, row.value) == "8.4 ms"
