"""Lesson 08: sentences that stay true whatever a machine gives; charts against batch and blocks.

What the lesson says is in `utils/show/lesson08.py`. `check_sentences(module)` holds every sentence against the part it was made
from, on parts made in code where the usual order is turned round; the planted faults are that module with one piece of its
logic broken, and the same check must go red on each. The two panels have tests of their own (test_waves, test_worth).
"""

from __future__ import annotations

import pytest

from tests import batches
from tests.batches import HERE, THERE, both
from tests.broken import broken
from utils.measure import batch_and_scale, study
from utils.model import expected, ledger
from utils.model.quantities import NotMeasured
from utils.show import lesson08, worth_explorer


def check_sentences(m) -> None:
    check_null(m)
    check_interventions(m)
    check_counts(m)
    check_device(m)
    check_worth(m)
    check_judged(m)
    check_end(m)


def check_null(m) -> None:
    for ratio, kind in ((1.03, "same"), (1.3, "some"), (1.95, "double")):
        assert m.null(both(batches.null(training=ratio)))[0] == m.NULL_ANSWERS[kind][1], kind
    found = both(batches.null(training=1.1), batches.null("cuda", training=1.01, host=1.2e6, busy=0.3e6))
    said = str(m.null(found)[1])
    assert (
        f"From batch 1 to 2 the step took {m.times(1.1)} as long; at batch 32, with 32 times the samples, {m.times(1.1**5)} "
        "as long." in said
    )
    assert said.index(HERE) < said.index(THERE) and "no step is launch bound" in said.split(HERE)[0]
    assert "80 % of the step at the smallest batch: most of it is a fixed price for each op" in said
    assert "1.20 ms to issue it and its kernels 300 µs: launch bound" in said.split(HERE)[1]
    said = str(m.null(both(None, batches.null("cuda", host=1e5, busy=9e5)))[1])
    assert "bound by its kernels" in said and "launch bound" not in said and "no compiler" in said
    assert "most of it is the work on the numbers" in str(m.null(both(batches.null(fixed=0.2)))[1])

    assert m.ops(found)[0] == m.OPS_ANSWERS["same"][1] and "148 ops at every batch; 60 more calls" in str(m.ops(found)[1])
    assert "148 ops at every batch, and 139 kernels" in str(m.ops(found)[1])
    assert "and 139 to 287 kernels" in str(m.ops(both(None, batches.null("cuda", ops_ratio=2.0)))[1])
    grown = both(batches.null(ops_ratio=2.0))
    assert m.ops(grown)[0] == m.OPS_ANSWERS["grow"][1] and "148 to 296 ops" in str(m.ops(grown)[1])

    here, there = m.sweep_tables(found, "training", "wide")
    assert len(here.rows) == 2 * len(batches.BATCHES) and here.rows[0]["host"] is None and here.rows[0]["kernels"] is None
    assert here.rows[2]["sample"] == m.format_time(2e6 * 1.1**2 / 4) and there.rows[0]["host"] == "1.20 ms"
    one = m.sweep_figures(found, "training")
    assert [HERE in p.alt for p in one] == [True, False] == [THERE not in p.alt for p in one]
    assert "its kernels" in one[1].alt and "its kernels" not in one[0].alt and "host issues it" in one[1].alt
    assert one[0].table.rows[1]["a training step"] == "2.20 ms"
    two = m.sweep_figures(found, "training", "wide")[1]
    assert "wide layers" in two.alt and "its kernels" not in two.alt


def check_interventions(m) -> None:
    for extra, seen, kind in (
        ((0.98, 1.04), (True, True), "both"),
        ((0.98, 0.1), (True, True), "small"),
        ((0.98, 0.9), (True, False), "small"),
        ((0.9, 0.9), (False, False), "none"),
    ):
        assert m.extra(both(batches.null(extra=extra, seen=seen)))[0] == m.EXTRA_ANSWERS[kind][1], kind
    odd = m.extra(both(batches.null(extra=(0.5, 1.1), seen=(False, True))))
    assert odd[0] is None, "the wide step grew and the small one did not: that is none of the options"
    assert "the small step did not grow and the wide step grew by 110 % of that" in str(odd[1])
    noisy = m.extra(both(batches.null(seen=(True, False), error=0.1)))
    assert noisy[0] is None and "the wide step can grow by so much unseen" in str(noisy[1])
    row = m.extra_tables(both(batches.null(extra=(0.5, 0.9))))[0].rows[0]
    assert (row["before"], row["predicted"], row["with"]) == ("2.00 ms", "6.00 ms", "4.00 ms") and row["adds"] == 4000
    for ratio, kind in ((1.03, "same"), (1.3, "some"), (1.95, "double")):
        assert m.wide(both(batches.null(wide=ratio)))[0] == m.WIDE_ANSWERS[kind][1], kind
    said = str(m.wide(both(batches.null(training=1.05, wide=1.9), batches.null("cuda")))[1])
    assert f"twice the batch took {m.times(1.9)} as long, where the small model's took {m.times(1.05)}" in said
    assert "5.0 % of the step" in said and "its kernels 12.0 ms: bound by its kernels" in said

    for share, kind in ((0.1, "device"), (0.8, "host")):
        assert m.flat(both(batches.null(weights_fixed=share)))[0] == m.FLAT_ANSWERS[kind][1], kind
    assert m.flat(both(None, batches.null("cuda")))[0] == m.FLAT_ANSWERS["device"][1]
    assert "flat as well" in str(m.flat(both(batches.null()))[1]) and "noise" not in str(m.flat(both(batches.null()))[1])
    for say in (m.flat(both(batches.null(weights=0.6))), m.null(both(batches.null(training=0.8)))):
        assert "cannot make it shorter: noise did" in str(say[1])
    assert "not flat on this machine" in str(m.flat(both(batches.null(weights=1.4)))[1])


def check_counts(m) -> None:
    said = str(m.layer(both(batches.layer(), batches.layer("cuda"))))
    assert "49 calls, 26 of them views, 23 that compute (47 %)" in said and "98 calls" in said
    assert "kernels" not in said.split(HERE)[0] and "23 kernels" in said.split(HERE)[1]
    assert m.layer_tables(both(batches.layer()))[0].rows[0]["style"] == "nn.TransformerEncoderLayer"
    said = str(m.step(both(batches.step(), batches.step("cuda", fake=3000, real=2500))))
    assert "3,000 ops that compute on fake CPU tensors (nothing ran; the optimizer's 20), 2,900 when a narrow" in said
    assert "2,500 and 2,400 kernels when a narrow one ran (the optimizer's 20)" in said.split(HERE)[1]
    assert "The host took 25.0 ms for it; estimated from steps of a few layers it is 27.0 ms" in said
    here, there = m.step_tables(both(batches.step(), batches.step("cuda")))
    assert {row["source"] for row in here.rows} == {"fake tensors, CPU", "in a run, CPU"}
    assert {row["source"] for row in there.rows} == {"fake tensors, CPU", "in a run, GPU"}
    assert any("nothing ran, 32 layers of 4,096" in note for note in here.notes)
    said = str(m.token(both(batches.layer(), batches.layer("cuda"))))
    assert "147 calls, 69 that compute. The" in said.split(HERE)[0] and "69 kernels" in said.split(HERE)[1]
    assert "400 µs for one layer and 13.0 ms for 32" in said


def check_device(m) -> None:
    for ratio, kind in ((1.0, "same"), (0.8, "less"), (0.52, "half")):
        assert m.half(both(batches.kernels(half=ratio)))[0] == m.HALF_ANSWERS[kind][1], kind
    said = str(m.half(both(batches.kernels("cpu"), batches.kernels(half=0.9, long=0.51)))[1])
    simulated, measured = said.split("nothing was measured")
    assert "In a simulated queue" in simulated and HERE not in said and "On the device" in measured and THERE in measured
    assert "7.20 µs with one of 1.5 µs" in said and "left 51 %" in said
    assert "11.0 µs would become 9.50 µs, 86 %" in str(m.one_thread())

    for ratio, kind in ((1.97, "round"), (1.1, "little"), (1.001, "same")):
        assert m.wave(both(None, batches.waves(ratio)))[0] == m.WAVE_ANSWERS[kind][1], kind
    said = str(m.wave(both(None, batches.waves(1.97)))[1])
    assert "no compiler" in said and "132 SMs hold 8 blocks each; one block more than that took 2.0 times" in said
    assert "one for each SM took 1.9 times as long, one more than four for each SM 1.2 times" in said
    assert "took 1.0 times as long as with one for each, for half the work" in said
    assert "one more than four full rounds took 1.0 times; counting says 1.25" in said
    assert "fell by up to 40 %" in said and "FLOPs" not in str(m.wave(both(None, batches.waves(dip=None)))[1])
    pictures = m.wave_figures(both(None, batches.waves()))
    assert len(pictures) == 2 and all(THERE in p.alt for p in pictures) and "197 µs at 1,057" in pictures[0].alt

    said = str(m.host(both(batches.host(small=1.02, wide=0.11))))
    assert "the small step shows 100 %" in said and "takes 4.0 times as long, and the wide step 1.2 times" in said
    assert "the small step 1.9 times, the wide one 1.3 times" in said
    assert "another busy process" not in str(m.host(both(batches.host(shared=False))))
    assert m.host_tables(both(batches.host()))[0].rows[1]["predicted"] == m.format_time(3.5e6)
    for idle, kind in ((1980.0, "higher"), (1200.0, "lower"), (1500.0, "same")):
        assert m.clock(both(None, batches.clocks(idle)))[0] == m.CLOCK_ANSWERS[kind][1], kind
    assert "after idling 1,980; products 1,500" in str(m.clock(both(None, batches.clocks()))[1])
    nothing = both(None)
    for say in (m.null, m.ops, m.extra, m.wide, m.flat, m.half, m.wave, m.clock):
        right, said = say(nothing)
        assert right is None and "no compiler" in str(said) and "no GPU has been recorded" in str(said)
    for say in (m.layer, m.step, m.token, m.host):
        assert str(say(nothing)).count("Not measured") == 2
    assert m.sweep_figures(nothing, "training") == m.wave_figures(nothing) == m.step_tables(nothing) == []


def check_worth(m) -> None:
    pair = both(batches.cost("cpu", 1e6, 1e6), batches.cost("cuda", 1e6, 1e4))
    for prices, kind in (((0.1, 2.0), "depends"), ((0.1, 100.0), "cheap"), ((1.0, 1.1), "fast")):
        right, said = m.worth_of(pair, prices)
        assert right == m.WORTH_ANSWERS[kind][1], kind
        assert HERE in str(said) and THERE in str(said) and "made-up" in str(said)
    said = str(m.worth_of(pair, (0.1, 2.0))[1])
    assert "1 this machine" in said and "64 a recorded GPU" in said
    alone = both(batches.cost("cpu"))
    said = str(m.worth_of(alone, (0.5, 3.0))[1])
    assert worth_explorer.SMALL in said and worth_explorer.LARGE in said and "datasheet peaks" in said
    assert m.worth_of(both(None), (1.0, 2.0))[0] is None and m.worth_figure(both(None), (1.0, 2.0)) is None
    gpu_first = both(batches.cost("cuda", 1e6, 1e4), batches.cost("cpu", 1e6, 1e6))
    right, said = m.worth_of(gpu_first, (0.1, 100.0))
    assert right == m.WORTH_ANSWERS["cheap"][1] and "1 a recorded CPU" in str(said), "the CPU is the cheap one, wherever it was"
    known = m.known_speeds(pair)
    assert [*known][:2] == ["this machine", "a recorded GPU"] and "kernels: 16.8" in known[worth_explorer.LARGE].label
    assert "kernels: 8" in m.known_speeds(alone)[worth_explorer.LARGE].label
    sheet = known[worth_explorer.SMALL]
    assert sheet.step_us(1) == pytest.approx(60 * 1.01e6 / 60 * 1e-3), "the host's part of 60 ops"
    assert m.prices_panel(pair).values["first"] == worth_explorer.LARGE and "Not measured" in str(m.prices_panel(both(None)))
    figure = m.worth_figure(pair, (0.1, 2.0))
    assert HERE in figure.alt and THERE in figure.alt and "0.1 an hour" in figure.alt


def check_judged(m) -> None:
    found = m.judged("cpu", **batches.study())
    rows = {"ops_ratio": "null_experiment", "counter_case": "null_experiment", "slope": "host", "gain": "cost"}
    rows |= {"step_ops": "step32", "layer_calls": "layer_ops", "half": "two_kernels"}
    for metric, name in rows.items():
        assert expected.judge(f"batch_and_scale.{metric}", found[name]).value is not None, metric
    assert expected.judge("batch_and_scale.one_more", found["waves"]).value is None, "a recording is never judged as if live"
    recorded = m.judged("cpu", **{name: both(None, one.first.value) for name, one in batches.study().items()})
    for metric, name in rows.items():
        one = expected.judge(f"batch_and_scale.{metric}", recorded[name])
        assert one.value is None and "no compiler" in one.note
    assert isinstance(m.judged("cuda", host=both(None))["host"]["slope_small"], NotMeasured)


def check_end(m) -> None:
    given = {"ops": 120, "host_us": 9.0, "kernel_us": 1.5, "alone": 8}
    assert "Nothing predicted yet" in str(m.transfer(None, **given))
    near, far = m.transfer(50, **given), m.transfer(8, **given)
    assert "Near enough" in near.notes[0] and "More than 10 %" in far.notes[0]
    assert near.rows[2]["batch"] == "48" and near.rows[1]["step"] == near.rows[2]["step"] == m.format_time(1e3 * 120 * 9.0)
    assert near.rows[3]["step"] == m.format_time(1e3 * 120 * 18.0)
    assert "more than doubled at batch 4" in m.transfer(48, **given, sweep=both(batches.null(training=1.5))).notes[-1]
    assert "at no batch up to 32" in m.transfer(48, **given, sweep=both(batches.null(training=1.01))).notes[-1]
    table = m.verdicts("cpu", batches.study())
    assert {row["id"] for row in table.rows} == {c.id for c in ledger.claims("batch_and_scale")}


def test_every_sentence_is_true_on_data_that_surprises():
    check_sentences(lesson08)


FAULTS = {
    "a step that doubled called flat": ('return "same" if ratio < APART', 'return "same" if ratio < 3'),
    "launch bound said of one thread": ('value["device"] == "cpu":\n        share', 'value["device"] == "tpu":\n        share'),
    "host and kernels exchanged": ('"launch bound" if host > device', '"launch bound" if host < device'),
    "the wide model judged by the small one": ('["wide_double"]), WIDE_ANSWERS', '["training_double"]), WIDE_ANSWERS'),
    "a growth inside the error printed": ('if row["seen"]:', 'if row["step_ns"]:'),
    "a growth that noise could hide called none": ('SHOWS * row["alone_ns"] / 2 else', '1e3 * row["alone_ns"] else'),
    "every flat step launch bound": ('"host" if ratio < 1 else "device"', '"host"'),
    "views counted as work": ('kernels = numbers[f"{style}_forward_ops"]', 'kernels = numbers[f"{style}_forward_calls"]'),
    "the fake count called a run's": ("on fake CPU tensors (nothing ran; ", "in a run ("),
    "the shorter kernel's step always half": ('"same" if ratio > 0.95', '"half" if ratio > 0.95'),
    "a whole round called a little": ('"round" if ratio > 1.3', '"little" if ratio > 1.3'),
    "the clock turned round": ('"higher" if ratio > 1.02', '"lower" if ratio > 1.02'),
    "the wide step's share in the small one's place": ("per_cent(numbers['slope_small'])", "per_cent(numbers['slope_wide'])"),
    "the devices in the order measured": ('(found["cpu"], found["cuda"]) if', "tuple(found.values()) if"),
    "a sample's time not divided by the batch": ('format_time(row["step_ns"] / row["batch"])', 'format_time(row["step_ns"])'),
    "a recording judged as if it were live": ("judged_here(device, part.here, ", "judged_here(device, part.first, "),
    "the bend upside down": ("bend = alone * host_us / kernel_us", "bend = alone * kernel_us / host_us"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_lesson_is_found_out(fault, tmp_path):
    with pytest.raises(AssertionError):
        check_sentences(broken(lesson08, *FAULTS[fault], tmp_path))


def test_adds_that_were_counted_once_for_all_steps_are_read_too():
    value = batches.null(extra=(0.96, 0.28))
    whole = {"adds": 512, "alone_ns": 3.3e6, "rows": []}
    for row in value["extra"]["rows"]:
        whole["rows"].append({name: row[name] for name in ("kind", "batch", "step_ns", "with_ns", "seen")})
    right, said = lesson08.extra(both(None, {**value, "numbers": value["numbers"] | {"aa_error": 0.04}, "extra": whole}))
    assert right == lesson08.EXTRA_ANSWERS["small"][1] and "the wide step grew by 28 % of that" in str(said)
    assert lesson08.extra_tables(both(None, {**value, "extra": whole}))[0].rows[0]["adds"] == 512


def test_the_lesson_measures_only_what_the_study_has():
    """Every part that the lesson asks for is a part of the study, and every number that it judges has a row."""
    assert set(lesson08.JUDGED) <= set(batch_and_scale.IN_LESSON) and set(batch_and_scale.PARTS) == set(batch_and_scale.IN_LESSON)
    assert study.parts_of("batch_and_scale") is batch_and_scale.PARTS
    assert set(lesson08.WHY) == {f"batch_and_scale.{name}" for name in QUESTIONS}


def test_a_sweep_and_a_grid_are_drawn_with_their_names_and_whole_decades():
    both_ = both(batches.null(), batches.null("cuda"))
    drawn = lesson08.sweep_figures(both_, "training")[1].svg
    assert "host issues it" in drawn and "its kernels" in drawn and "×" not in drawn and "samples in a batch" in drawn
    assert "one on each SM" in lesson08.wave_figures(both(None, batches.waves()))[0].svg


QUESTIONS = ("null", "ops", "extra", "wide", "flat", "layer", "step", "half", "wave", "host", "clock", "worth")
