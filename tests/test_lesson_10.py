"""Lesson 10: sentences that stay true whatever a machine gives; masks and GELUs that fail when they are wrong; planted faults.

`check_sentences(module)` holds the lesson's module against parts made in code, in which the usual order is turned round;
`check_honesty(module)` holds the room that tests masks and GELUs. Each planted fault is one of these modules with a piece of its
logic broken.
"""

from __future__ import annotations

import random
import re

import numpy as np
import pytest
import torch

from tests import tails as made
from tests.broken import broken
from tests.tails import HERE, THERE, both
from utils.kernels import data, forms, on_gpu, peer, philox
from utils.measure import either_clock, honest_tail, reach_the_roof, study_here, tail_instructions, tail_races
from utils.measure.device_clock import MeasurementError
from utils.model import expected, ledger
from utils.model.quantities import NotMeasured
from utils.show import floor_explorer, lesson10

ELEMENTS = 134_217_728


# ------------------------------------------------------------------------------------------------ the sentences


def check_sentences(m) -> None:
    check_first(m)
    check_counts(m)
    check_apart(m)
    check_back(m)
    check_honest_words(m)
    check_deeper(m)
    check_judged(m)
    check_transfer(m)


def check_first(m) -> None:
    said = str(m.first(both(None, made.tails(first_try=748e3))))
    assert "takes 187 µs, the first try 748 µs: 25 % of the add's speed" in said and THERE in said
    assert "op by op 899 µs, by torch.compile 589 µs" in said and "no compiler" in said
    assert "torch.compile" not in str(m.first(both(None, made.tails(**{"torch.compile": None})))) and "Until it is" not in said
    said = str(m.first(both(None)))
    assert "Not measured: the fused tail" in said and "Until it is, the sections below work with floors" in said


def check_counts(m) -> None:
    tails = both(None, made.tails(units={"issue": 32.0, "vector_fp32": 64.0}))
    right, said = m.flops(both(made.counts(flops=25.0)), tails)
    gbps = made.NBYTES / made.ADD
    assert right == m.FLOPS_ANSWERS["left"][1] and "4.2 FLOP/byte" in str(said)
    assert f"lies at {m.significant(64e3 / gbps)}" in str(said) and "do not explain" in str(said)
    right, said = m.flops(both(made.counts(flops=120.0)), tails)
    assert right == m.FLOPS_ANSWERS["right"][1] and "FLOPs alone would bind" in str(said)
    assert m.flops(both(None), tails)[0] is None

    said = str(m.instructions(both(made.counts(), made.counts("cuda", times=1.1)), tails))
    assert "108 instructions for an element" in said and "118 instructions" in said and said.index(HERE) < said.index(THERE)
    alike = str(m.instructions(both(made.counts(), made.counts("cuda")), tails))
    assert f"({HERE}; the same: {THERE})." in alike and alike.count("108 instructions for an element") == 1
    issue, memory = 107.5 * ELEMENTS / 32e12 * 1e9, 6 * ELEMENTS / gbps
    assert f"at least {m.format_time(issue)}, to move its bytes {m.format_time(memory)}: issue is the longer floor" in said
    assert "memory is the longer floor" in str(m.instructions(both(made.counts(times=0.3)), tails))
    assert "most are random and integer, 75.2" in said and f"lies at {m.significant(32e3 / gbps, 2)} instructions" in said
    assert "Not measured" in str(m.instructions(both(None), both(None)))
    table = m.kind_tables(both(made.counts(only=("first try", "with neither"))))[0]
    assert [row["name"] for row in table.rows] == ["the first try", "with neither"] and HERE in table.notes
    # without the race, the peaks that lesson 06 recorded stand in, with their own label
    known, label = m.rates(both(None))
    assert known["issue"] > 1 and "H200" in label and THERE != label


def check_apart(m) -> None:
    counts = both(made.counts(times=2.0), made.counts("cuda"))
    found = {"draw": {}, "erf": {"without_erf": 200e3}, "remainder": {"bias_by_mask": 190e3}}
    for part, ns in found.items():
        assert m.ablations(both(None, made.tails(**ns)), counts)[0] == m.ABLATION_ANSWERS[part][1], part
    said = str(m.ablations(both(None, made.tails()), counts)[1])
    # the recording's counts beside the recording's times, not this machine's
    assert f"without the draw 354 µs less (its 58 instructions need {m.format_time(57.5 * ELEMENTS / 32e12 * 1e9)}" in said
    assert said.index("the draw") < said.index("without erf") and "without the remainder 10.0 µs more" in said
    assert "neither draw nor erf it takes 188 µs, the plain add 187 µs" in said
    assert "no difference seen" in str(m.ablations(both(None, made.tails(bias_by_mask=580e3)), counts)[1])
    figure = m.apart_views(both(None, made.tails()), counts)[0]
    rows = {row["name"]: row for row in figure.table.rows}
    assert rows["the first try"]["instructions"] == "108" and rows["the first try"]["took"] == "580 µs"
    assert rows["the first try"]["share"] == "32 %" and rows["with neither"]["issue"] == "105 µs" and THERE in figure.alt
    # without a race: what the counts and the recorded peaks say of floors, and no time
    floors = m.apart_views(both(None), both(made.counts()))[0]
    rows = {row["name"]: row for row in floors.rows}
    rate = m.rates(both(None))[0]
    assert rows["without the draw"]["issue"] == m.format_time(50.0 * ELEMENTS / rate["issue"] * 1e-3)
    assert rows["without the draw"]["bytes"] == m.format_time(6 * ELEMENTS / rate["gbps"])
    assert rows["with neither"]["longer"] == "memory" and rows["the first try"]["longer"] == "issue"
    assert "counts: " + HERE in floors.notes and "measured" not in floors.columns.values()
    assert m.apart_views(both(None), both(None)) == []
    right, said = m.ablations(both(None), both(made.counts()))
    assert (
        right is None
        and "By count alone" in str(said)
        and "By count" not in str(m.ablations(both(None, made.tails()), counts)[1])
    )
    assert (
        f"the draw 58 instructions an element, {m.format_time(57.5 * ELEMENTS / rate['issue'] * 1e-3)} to issue; erf 22"
        in str(said)
    )
    more = both(made.counts(bias_by_mask=110.0))
    assert "the remainder no more than what takes its place" in str(m.ablations(both(None), more)[1])
    bare = m.apart_views(both(None, made.tails()), both(None))[0]
    assert {row["issue"] for row in bare.table.rows} == {"–"}

    said = str(m.cached(both(made.chain(cached=4.0, memory=1.3))))
    # 0.3 ns added in a cache, 0.12 ns from memory
    assert "takes 4.0 times the add's time, from memory 1.3 times" in said and "of both together 60 %" in said
    said = str(m.cached(both(made.chain(cached=3.0, memory=1.48))))
    assert "of GELU's nothing, of the draw's nothing, of both together nothing" in said, "4 % is not told from none"
    assert "together nothing" in str(m.cached(both(made.chain(cached=2.0, memory=2.0)))), "nor more from memory than in a cache"
    assert "together 100 %" in str(m.cached(both(made.chain(cached=2.0, memory=0.9))))
    assert (
        "in a cache 0.400 ns, 4.0 times the add, from memory 0.520 ns, 1.3 times the add"
        in m.cached_figures(both(made.chain()))[0].alt
    )


def check_back(m) -> None:
    for after, kind in ((200e3, "roof"), (455e3, "same"), (300e3, "between")):
        assert m.recovery(both(None, made.tails(four_words=after)), both(None))[0] == m.RECOVERY_ANSWERS[kind][1], kind
    quarter = made.tails(add=50e3, four_words=115e3)
    assert m.recovery(both(None, quarter), both(None))[0] == m.RECOVERY_ANSWERS["quarter"][1]
    said = str(m.recovery(both(None, made.tails()), both(made.counts()))[1])
    assert "458 µs, with all four 200 µs: 44 % of the time" in said and "94 % of its speed" in said
    assert m.recovery(both(None, made.tails(four_words=None)), both(None))[0] is None
    assert "did not run" in str(m.recovery(both(None, made.tails(four_words=None)), both(None))[1])

    assert "By count" not in said
    right, said = m.recovery(both(None), both(made.counts(four_words=20.0)))
    rate = m.rates(both(None))[0]
    before = m.format_time(max(60.0 * ELEMENTS / rate["issue"] * 1e-3, 6 * ELEMENTS / rate["gbps"]))
    assert right is None, "a floor is no measurement"
    assert f"a call is {before}, its instructions; with all four {m.format_time(6 * ELEMENTS / rate['gbps'])}, its bytes" in str(
        said
    )
    assert "By count" not in str(m.recovery(both(None), both(made.counts(only=("first try",))))[1])

    said = str(m.ladder(both(None, made.tails(**{"rows,_no_%": 629e3}))))
    assert "whole rows, no %, own draw: 8.4 % more" in said and "and a cheap exact GELU: 27 % less" in said
    assert "takes 188 µs, 99 % of the plain add's speed, and 3.1 times as fast" in said
    assert "halves of 16 bits: no difference seen" in str(m.ladder(both(None, made.tails(eight_halves=200e3))))
    assert len(m.back_views(both(None, made.tails()), both(None))[0].table.rows) == len(m.RUNGS)
    few = m.back_views(both(None, made.tails()), both(None), until=m.AFTER)[0].table.rows
    assert few[-1]["name"] == m.TITLES[m.AFTER] and few[0]["name"] == "the first try"
    table = m.cut_tables(both(None, made.cuts()))[0]
    assert [row["lane"] for row in table.rows] == [4, 8] and table.rows[0]["ahead8"].startswith("187 µs")
    assert "4 elements a lane, 8 rows loaded ahead" in str(m.cut(both(None, made.cuts())))


def check_honest_words(m) -> None:
    for loudest in ("share", "down", "seeds"):
        assert m.cheat(both(made.honest(loudest=loudest)))[0] == m.CHEAT_ANSWERS[loudest][1]
    assert m.cheat(both(made.honest(loudest="across")))[0] is None, "what is no option is no answer"
    right, said = m.cheat(both(made.honest()))
    assert "0.50 standard deviations off, neighbours in a column 500" in str(said) and "All 4 wrong ways are caught" in str(said)
    assert "passes 5 of 5 tests" in str(said) and "mask agree" in str(said)
    missed = str(m.cheat(both(made.honest(missed=("thresholds of one byte",))))[1])
    assert "Not caught: thresholds of one byte" in missed and "All" not in missed
    assert m.mask_table(both(made.honest())).rows[1]["down"] == "+500.0 *"
    assert "Not measured" in str(m.mask_table(both(None))) and "Not measured" in str(m.gelu_table(both(None)))

    for best in m.GELU_ANSWERS:
        steps = dict.fromkeys(m.GELU_ANSWERS, 9) | {best: 0}
        assert m.gelus(both(made.honest(ulps=steps)))[0] == m.GELU_ANSWERS[best][1], best
    assert m.gelus(both(made.honest(ulps={"formula with erf": 1})))[0] is None, "two are equally near"
    said = str(m.gelus(both(made.honest()))[1])
    assert "off by 1 bf16 step at most" in said and "formula with erf: 8" in said and "tanh: 13,000" in said
    assert "off by 3 bf16 steps" in str(m.gelus(both(made.honest(ulps={"cheap, degree 4": 3})))[1])
    assert "2 bf16 steps at most, at x = -5" in str(m.tried({"ulp": 2, "at": -5.0, "off": 7, "absolute": 0.0}))

    rows = {row["draw"]: row for row in m.promises().rows}
    assert rows["16 bits"]["dropped"] == "0.100006104" and rows["16 bits"]["scale"] == "1.111118646"
    assert {row["product"] for row in rows.values()} == {"1.000000000"} and rows["16 bits"]["asked"] == "1.111111111"
    table = m.sigmas({"share": 0.4, "down": -7.0}, 11)
    assert [row["passes"] for row in table.rows] == ["yes", "no"] and "seed 11" in table.notes[0]


def check_deeper(m) -> None:
    said = str(m.sideways(both(made.sideways())))
    assert "100 parameters of 16: loop 4.10 ms (1,000 ops), foreach 2.30 ms (210 ops), fused 650 µs (2 ops)" in said
    assert "foreach takes 1.1 times the loop's time, fused 0.20 times" in said and "also saves the bytes" in said
    assert "also saves" not in str(m.sideways(both(made.sideways(large=(10e6, 10e6, 9.9e6)))))
    assert m.sideways_tables(both(made.sideways()))[0].rows[2]["gain"] == "6.3"


def check_judged(m) -> None:
    judged = m.judged("cpu", **made.study())
    assert isinstance(judged["tails"]["first_try"], NotMeasured), "a recording is never judged as if it had run here"
    assert judged["honest"]["ulp"] == 1 and judged["honest"]["device"] == "cpu"
    without = m.judged("cpu", honest=both(made.honest(agrees=None)))
    assert isinstance(without["honest"]["kernel_agrees"], NotMeasured)
    for metric, name in (("mask", "honest"), ("gelu_ulp", "honest"), ("in_a_cache", "chain"), ("sideways_ops", "sideways")):
        assert expected.judge(f"reach_the_roof.{metric}", judged[name]).holds, metric
    live = m.judged("cuda", tails=both(made.tails()))["tails"]
    assert expected.judge("reach_the_roof.draw_is_dear", live).holds and expected.judge("reach_the_roof.recovered", live).holds
    slow = m.judged("cuda", tails=both(made.tails(first_try=230e3)))["tails"]
    assert not expected.judge("reach_the_roof.draw_is_dear", slow).holds
    wrong = m.judged("cpu", honest=both(made.honest(missed=("the seed forgotten",), ulps={"cheap, degree 4": 2})))["honest"]
    for metric in ("wrong_ways", "gelu_ulp"):
        assert not expected.judge(f"reach_the_roof.{metric}", wrong).holds, metric
    assert {row["id"] for row in m.verdicts("cpu", made.study()).rows} == {c.id for c in ledger.claims("reach_the_roof")}


def check_transfer(m) -> None:
    tails, counts = both(None, made.tails()), both(made.counts())
    assert "Nothing predicted yet" in str(m.transfer(None, counts, tails))
    issue = made.TOTALS["dropout alone"] * ELEMENTS / 32e12 * 1e6  # µs
    assert "that of its instructions" in m.transfer(1.1 * issue, counts, tails).notes[0]
    assert "More than 15 % off" in m.transfer(1.2 * issue, counts, tails).notes[0]
    memory = 4 * ELEMENTS / (made.NBYTES / made.ADD) * 1e-3
    light = both(made.counts(times=0.2))
    assert "that of its bytes" in m.transfer(memory, light, tails).notes[0]
    rows = {row["what"]: row["time"] for row in m.transfer(1.0, counts, tails).rows}
    assert rows["its bytes"] == m.format_time(1e3 * memory) and rows["its instructions"] == m.format_time(1e3 * issue)
    given = {row["what"]: row["value"] for row in m.given(counts, tails).rows}
    assert given["instructions an element"] == "64.0" and given["instructions issued, 1e12 a second"] == "32.0"
    assert "Not measured" in str(m.given(both(None), tails)) and "Not measured" in str(m.transfer(1.0, both(None), tails))


def test_every_sentence_is_true_on_data_that_surprises():
    check_sentences(lesson10)


FAULTS = {
    "a floor told as a measurement": ("if tails.first.value is not None or not known or not gone", "if not known or not gone"),
    "the shorter floor of a rung": ("_us(max(issue, memory))", "_us(min(issue, memory))"),
    "floors exchanged": ('"longer": "issue" if issue > memory', '"longer": "issue" if issue < memory'),
    "the ridge upside down": ('known["vector_fp32"] * 1e3 / known["gbps"]\n', 'known["gbps"] / known["vector_fp32"] * 1e-3\n'),
    "bytes of one tensor": ("nbytes * ELEMENTS / known", "2 * ELEMENTS / known"),
    "the shorter floor called the longer": ("'issue' if issue > memory", "'issue' if issue < memory"),
    "counts of one machine beside another's times": (
        "(counts.there, counts.here) if found.live else (counts.here, counts.there)", "(counts.there, counts.here)",
    ),
    "the least loss called the most": ("max(by, key=by.get) if by", "min(by, key=by.get) if by"),
    "a difference inside the error is told": ("seen = value[\"race\"].difference(FIRST, WITHOUT[part]).seen", "seen = True"),
    "a quarter of the time expected": ("return \"quarter\" if after < QUARTER * before", "return \"quarter\" if after < before"),
    "the roof is the first try": ('if after < CLOSE * value["numbers"]["add"]', 'if after < value["numbers"]["first_try"]'),
    "a slower rung called faster": ("'less' if ratio < 1 else 'more'", "'less'"),
    "a mask that is missed is not named": ('if not one["fails"]]', 'if one["fails"] is None]'),
    "two equally near, and one named": ("if list(by.values()).count(by[best]) == 1 else None", ""),
    "a recording judged as if it were live": ("judged_here(device, part.here, ", "judged_here(device, part.first, "),
    "both floors added": ("truth = max(memory, issue)", "truth = memory + issue"),
    "less than the error called hidden": ("if share < HIDES", "if share < 0"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_lesson_is_found_out(fault, tmp_path):
    with pytest.raises(AssertionError):
        check_sentences(broken(lesson10, *FAULTS[fault], tmp_path))


# ------------------------------------------------------------------------------------------------ the sliders


def check_sliders(m) -> None:
    """Every slider at random places: floors, ridge, the longer bar, one figure with its table."""
    rng = random.Random(10)
    panel = m.explorer()
    for _ in range(40):
        for name, control in panel.controls.items():
            panel.fire(name, control.low + control.step * rng.randrange(round((control.high - control.low) / control.step) + 1))
        at = panel.values
        picture, words = panel.shown
        memory = at["nbytes"] * m.ELEMENTS / (at["gbps"] * 1e9) * 1e6
        issue = at["instructions"] * m.ELEMENTS / (at["issue"] * 1e12) * 1e6
        longer = "bytes" if memory >= issue else "instructions"
        assert f"bytes {m.significant(memory)}, instructions {m.significant(issue)}. The {longer} set" in words
        assert f"the ridge: {m.significant(at['issue'] * 1e3 / at['gbps'], 2)}." in words
        assert f"The longer floor: {longer}" in picture.alt and "nothing measured" in picture.alt
        wide = [float(w) for w in re.findall(r'height="24" fill="#|width="([\d.]+)" height="24" fill="#', picture.svg) if w]
        assert wide[0] / wide[1] == pytest.approx(memory / issue, rel=0.02) or min(wide) < 60, "to scale"
        marked = [row["floor"] for row in picture.table.rows if row["longer"]]
        assert marked == [longer]
    assert panel.message == "" and "is not a number" in (panel.fire("issue", 1000), panel.message)[1]


def test_the_sliders_work_both_floors_out():
    check_sliders(floor_explorer)


SLIDER_FAULTS = {
    "instructions by the byte": ("instructions * ELEMENTS / issue * 1e-6", "instructions * nbytes * ELEMENTS / issue * 1e-6"),
    "the shorter one called the longer": ("max(found, key=found.get)", "min(found, key=found.get)"),
    "bars of one length": ("max(1.0, us * scale)", "max(1.0, 100.0)"),
    "the ridge of another unit": ('ridge("issue")', 'ridge("issue") * 2'),
}


@pytest.mark.parametrize("fault", SLIDER_FAULTS)
def test_broken_sliders_are_found_out(fault, tmp_path):
    with pytest.raises(AssertionError):
        check_sliders(broken(floor_explorer, *SLIDER_FAULTS[fault], tmp_path))


# ------------------------------------------------------------------------------------------------ honest?


def check_honesty(m) -> None:
    """Random masks pass, each wrong way fails in the test that is about it, and the kernel's own passes."""
    rng = np.random.default_rng(10)
    kept = {seed: rng.random((m.ROWS, m.COLS)) >= 1 - (1 - m.dropped(m.DRAW)) for seed in (1, 2)}
    assert m.fails(m.tested(kept.__getitem__, 1)) == []
    assert m.fails(m.tested(m.honest_mask)) == []
    told = {"one word for four rows": "down", "every eight rows alike": "group", "thresholds of one byte": "share",
            "the seed forgotten": "seeds"}  # fmt: skip
    assert set(told) == set(m.WRONG_WAYS)
    for name, test in told.items():
        assert test in m.fails(m.tested(m.WRONG_WAYS[name])), name
    shifted = {1: kept[1], 2: kept[2]}
    shifted[1] = kept[1].copy()
    shifted[1][:, 1:] |= kept[1][:, :-1] & (rng.random((m.ROWS, m.COLS - 1)) < 0.2)
    assert "share" in m.fails(m.tested(shifted.__getitem__, 1))
    anti = rng.random((m.ROWS, m.COLS)) >= 0.1
    anti[:, 1::2] = anti[:, ::2]  # neighbours in pairs
    assert "across" in m.fails(m.tested({1: anti, 2: kept[2]}.__getitem__, 1))


def test_masks_that_are_not_random_are_found_out():
    check_honesty(honest_tail)


HONEST_FAULTS = {
    "a limit that nothing reaches": ("LIMIT = 5.0", "LIMIT = 5000.0"),
    "the share of p and not of the threshold": ("kept = 1.0 - dropped(DRAW) if kept is None", "kept = 0.95 if kept is None"),
    "columns compared with themselves": ("beside(centred[1:], centred[:-1])", "beside(centred[1:], centred[1:])"),
    "a group of four rows": ("beside(centred[8:], centred[:-8])", "beside(centred[4:], centred[:-4]) * 0"),
    "too few elements": ("ROWS, COLS = 1024, 2048", "ROWS, COLS = 64, 256"),
}


@pytest.mark.parametrize("fault", HONEST_FAULTS)
def test_a_broken_test_of_masks_is_found_out(fault, tmp_path):
    with pytest.raises(AssertionError):
        check_honesty(broken(honest_tail, *HONEST_FAULTS[fault], tmp_path))


def test_gelus_over_every_bf16_and_what_each_is_worth():
    found = honest_tail.honest("cpu")
    by = {row["name"]: row for row in found["gelus"]}
    assert by["cheap, degree 4"]["inputs"] == 65_280 and by["cheap, degree 4"]["ulp"] <= 1
    assert by["cheap, degree 4"]["absolute"] < 1e-7
    assert by["cheap, degree 3"]["ulp"] > 1 and by["tanh"]["ulp"] > 100, "the test tells a worse GELU"
    assert by["formula with erf"]["ulp"] > by["formula with erfc"]["ulp"], "1 + erf cancels, erfc does not"
    numbers = found["numbers"]
    assert numbers["caught"] == numbers["ways"] == 4 and numbers["scale_off_ppm"] < 1e-6
    assert numbers.get("kernel_agrees", 1.0) == 1.0


# ------------------------------------------------------------------------------------------------ the parts


def test_flops_are_counted_by_opcode():
    assert tail_instructions.flops_of({"FFMA": 3.0, "FADD.FTZ": 1.0, "MUFU.EX2": 0.5, "IMAD.WIDE.U32": 33.0, "LOP3": 20}) == 7.5


def test_on_a_cpu_the_gpus_parts_say_why_they_are_not_there():
    for name in ("tails", "cuts"):
        with pytest.raises(MeasurementError, match="GPU"):
            reach_the_roof.PARTS[name].measure("cpu", None)
        assert "GPU" in study_here.both("reach_the_roof", name, "cpu").here.why


def test_an_optimiser_sideways_has_fewer_ops_each_time():
    found = reach_the_roof.IN_LESSON["sideways"]("cpu", None)
    n = found["numbers"]
    assert n["ops_loop"] > n["ops_foreach"] > n["ops_fused"] >= 1
    assert {(row["case"], row["kind"]) for row in found["rows"]} == {
        (case, kind) for case in ("small", "large") for kind in ("loop", "foreach", "fused")
    }


def by_reference(form, buffers, *, by="", tuning=None):
    """A form's kernel on a CPU, by the float64 reference and the recomputed mask; the draw of four words is broken."""

    def call():
        keep = torch.from_numpy(philox.keep(form.draw, buffers.rows, buffers.cols, buffers.seed)) if form.draw else None
        if form.draw == "four":
            keep = ~keep
        buffers.out.copy_(forms.reference(form, *buffers.parts(form), keep))

    return on_gpu.Fused(form, "Triton", "", call)


def test_the_race_of_all_tails_leaves_out_what_is_wrong_and_says_why(monkeypatch):
    small = data.random(64, 256, "bf16")
    monkeypatch.setattr(tail_races, "need", lambda device, what: None)
    monkeypatch.setattr(tail_races, "engines", lambda device, progress, quick: {"numbers": dict(made.UNITS)})
    monkeypatch.setattr(tail_races, "made", lambda device: [small])
    monkeypatch.setattr(tail_races, "time_device", lambda arms, **how: either_clock.race("cpu", arms, control=how["control"],
                                                                                       blocks=10, at_most_s=1.0))  # fmt: skip
    monkeypatch.setattr(on_gpu, "fused", by_reference)
    monkeypatch.setattr(peer, "compiled", peer.eager)
    seen = []
    found = tail_races.tails("cuda", lambda done, text: seen.append(done), quick=True)
    names = {row["name"] for row in found["rows"]}
    assert names == set(made.NS) - {"four words"} and "wrong" in found["missing"]["four words"]
    assert seen == sorted(seen) and found["by"] == "Triton" and found["elements"] == 64 * 256
    assert {"first_try", "finished", "share_first", "gelu_adds", "ridge_issue", "compiled"} <= set(found["numbers"])
    words = lesson10.first(both(found))
    assert "op by op" in str(words) and lesson10.recovery(both(found), both(None))[0] is None
    cut = tail_races.cuts("cuda", quick=True)
    assert len(cut["rows"]) == 9 and cut["numbers"]["spread"] >= 1


def test_numbers_of_a_race_leave_out_what_did_not_run():
    numbers = made.tails(**{"torch.compile": None, "with_neither": None}, units={})["numbers"]
    assert "compiled" not in numbers and "gelu_adds" not in numbers and "ridge_issue" not in numbers
    whole = made.tails()["numbers"]
    assert whole["gelu_adds"] == 226e3 - 188e3 and whole["share_first"] == made.ADD / 580e3
    assert whole["ridge_issue"] == pytest.approx(32e3 * made.ADD / made.NBYTES)
