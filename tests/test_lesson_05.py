"""Lesson 05: sentences that stay true when the numbers surprise. (What all lessons keep is in test_lesson_structure.py.)

What the lesson computes is in `utils/show/lesson05.py`. `check_sentences(module)` holds every sentence against the receipt or
race it was made from, on data where the usual order is turned round; the planted faults are that module with one piece of its
logic broken, and the same check must go red on each.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.broken import broken
from tests.factories import make_race, make_receipt
from utils.model import expected, ledger
from utils.model.readings import Reading, StagePrice
from utils.show import catalogue, explain, lesson05

# ------------------------------------------------------------------------------------------------ claims


def test_every_claim_of_the_lesson_is_in_its_verdict_table():
    claims = [c.id for c in ledger.claims("price_each_stage")]
    table = lesson05.verdicts(make_receipt(), make_receipt(grad=True))
    assert [row["id"] for row in table.rows] == claims
    assert {"A01", "A02", "A03", "A05", "A06", "A08", "A41", "A42", "B01", "B03", "B05", "B06", "B42", "C01"} == set(claims)
    assert {"yours", "recorded", "cited", "verdict"} <= set(table.columns)


# ------------------------------------------------------------------------------------------------ sentences on swapped data


def with_stage(receipt, stage_id: str, ns: float):
    """The receipt with one stage at about `ns`."""
    return receipt.scaled_stage(stage_id, ns / receipt.stage(stage_id).ns)


def view_race(plain=1150.0, one=940.0, two=938.0, copies=1150.0, seed=3):
    return make_race(
        seed=seed,
        prices={lesson05.PLAIN: plain, lesson05.ONE_VIEW: one, lesson05.TWO_VIEWS: two, lesson05.COPIES: copies},
    )


def program_race(nothing=1600.0, adds=1620.0, ops=3900.0, seed=3):
    race = make_race(seed=seed, prices={lesson05.OPS: ops, lesson05.NOTHING: nothing, lesson05.ADDS: adds})
    assert race.control[0] == lesson05.OPS
    return race


def numbers(text: str) -> list[float]:
    """Every price of a sentence in ns, in the order in which it is told."""
    found = re.findall(r"(\d[\d,]*(?:\.\d+)?) (ns|µs)", text)
    return [float(value.replace(",", "")) * (1e3 if unit == "µs" else 1.0) for value, unit in found]


def shares(text: str) -> list[float]:
    return [float(value) for value in re.findall(r"(\d+(?:\.\d+)?) %", text)]


def close(told: float, true: float) -> bool:
    return abs(told - true) <= 0.06 * abs(true) + 0.6


def check_sentences(m) -> None:
    """Hold every sentence of `m` (lesson05, or a broken copy of it) against what it was made from. Raises AssertionError."""
    check_shares(m)
    check_groups(m)
    check_view(m)
    check_sum(m)
    check_grad(m)
    check_program(m)
    check_fallback(m)
    check_printed(m)
    check_transfer(m)


def check_shares(m) -> None:
    for kernel in (40.0, 900.0):
        receipt = with_stage(make_receipt(), "kernel", kernel)
        said = str(m.last_stage(receipt))
        assert "the loop over the elements" in said and close(
            shares(said)[0], 100 * receipt.stage("kernel").ns / receipt.total_ns
        )
    gpu = str(m.last_stage(make_receipt("cuda")))
    assert "the launch" in gpu and "the loop over the elements took" not in gpu
    assert close(numbers(gpu)[2], make_receipt("cuda").device_time["kernel"].ns)
    for allocator, around in ((80.0, 130.0), (400.0, 100.0)):
        receipt = with_stage(with_stage(make_receipt(), "allocator", allocator), "output_tensor", around)
        assert close(shares(str(m.memory(receipt)))[0], 100 * allocator / (allocator + around))
    for kind in ("method_descriptor", "instancemethod", "function"):
        right, said = m.boundary(make_receipt(), kind)
        assert right == m.DOOR_ANSWERS[kind][1] and kind in str(said)
    assert m.boundary(make_receipt(), "wrapper_descriptor")[0] is None


def check_groups(m) -> None:
    for stage, group in (
        ("kernel", "kernel"),
        ("allocator", "output"),
        ("arg_parser", "front_end"),
        ("tensor_iterator", "shapes"),
    ):
        receipt = with_stage(make_receipt(), stage, 3000.0)
        right, said = m.dearest_group(receipt)
        assert right == m.GROUP_ANSWERS[group][1]
        assert f"dearest group is {catalogue.groups()[group]}" in str(said)
    receipt = make_receipt()
    gap = sum(receipt.stage(s).ns for s in ("allocator", "output_tensor", "wrap_free")) - receipt.stage("tensor_iterator").ns
    level = with_stage(receipt, "tensor_iterator", receipt.stage("tensor_iterator").ns + gap)
    assert m.dearest_group(level)[0] is None and "no difference seen" in str(m.dearest_group(level)[1])
    assert m.dearest_group(make_receipt(compiler=False))[0] is None
    dear_context = replace(make_receipt(), end_to_end=make_receipt().end_to_end.scaled(4.0))
    assert m.dearest_group(dear_context)[0] == m.GROUP_ANSWERS["output"][1]  # context is no group


def check_view(m) -> None:
    right, said = m.live_view(view_race(), "2.13.0+cpu")
    assert right == m.VIEW_ANSWERS["less"][1] and "Measured, as predicted" in str(said) and "less than" in str(said)
    assert close(numbers(str(said))[0], 210.0)
    assert "Both counter-cases hold" in str(said)
    right, said = m.live_view(view_race(one=1150.0, two=1150.0), "2.13.0+cpu")
    assert right == m.VIEW_ANSWERS["same"][1] and "not as predicted" in str(said) and "No difference seen" in str(said)
    right, said = m.live_view(view_race(one=1400.0, two=1400.0), "2.13.0+cpu")
    assert right == m.VIEW_ANSWERS["more"][1] and "not as predicted" in str(said) and "more than" in str(said)
    right, said = m.live_view(view_race(one=1150.0, two=1150.0), "2.14.1")
    assert right == m.VIEW_ANSWERS["same"][1] and "Measured, as predicted" in str(said)
    right, said = m.live_view(view_race(), "2.14.1+cu130")
    assert "Measured, not as predicted" in str(said)
    for bad in (view_race(copies=900.0), view_race(two=700.0)):
        assert "A counter-case fails" in str(m.live_view(bad, "2.13.0")[1])
    table = m.live_view_table(view_race(), "2.13.0")
    assert [row["predicted"] for row in table.rows[1:4]] == ["cheaper", "cheaper, as one view", "no change"]
    assert m.live_view_table(view_race(), "2.9.1").rows[1]["predicted"] == "no change"


def check_sum(m) -> None:
    receipt = make_receipt()
    table = m.leave_one_out(receipt)
    # The third dearest may hide in the range; the table then says so.
    assert [row["check"] for row in table.rows][:3] == ["passes", "fails", "fails"]
    dear = sorted((s for s in receipt.stages if s.ns), key=lambda s: -s.ns)[:3]
    assert [row["receipt"] for row in table.rows[1:]] == [f"without {catalogue.title(s.stage)}" for s in dear]
    assert all(
        close(shares(row["of the whole"])[0], 100 * receipt.without(s.stage).coverage) for row, s in zip(table.rows[1:], dear)
    )
    assert "missing" in table.notes[1]
    even = replace(receipt, ladder_groups=())
    for stage in receipt.stages:
        even = with_stage(even, stage.stage, receipt.total_ns / len(receipt.stages))
    blind = m.leave_one_out(even)  # a tenth missing stays inside the band: the sum alone is blind, and the table says so
    assert "cannot see it without" in blind.notes[-1] and "is missing" in blind.notes[1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(m, "_refusal", lambda receipt, stage: "")
        with pytest.raises(AssertionError, match="cannot see"):  # a check that holds without the dearest stage proves nothing
            m.leave_one_out(receipt)
    assert "cannot be judged" in m.leave_one_out(make_receipt(compiler=False)).rows[0]["check"]
    for loops, way in ((0.6, "less"), (1.4, "more"), (1.0, "no difference seen")):
        tight = replace(receipt, stages=tuple(replace(s, alone_ns=s.ns * loops) for s in receipt.stages))
        said = str(m.tight_loops(tight))
        assert way in said and close(shares(said)[0], 100 * loops * receipt.coverage)
    check_other_way(m)
    assert "not every piece" in str(
        m.tight_loops(replace(receipt, stages=tuple(replace(s, alone_ns=None) for s in receipt.stages)))
    )
    over = replace(receipt, end_to_end=receipt.end_to_end.scaled(0.7))
    assert over.context_ns < 0 and "more than the whole" in str(explain.adds_up(over))


def check_other_way(m) -> None:
    """Why the loops' sum differs, by the numbers; a stage that is dearer in its loop is named with what is known of it."""
    receipt = make_receipt()

    def alone(loops: float, **other: float):
        return replace(receipt, stages=tuple(replace(s, alone_ns=s.ns * other.get(s.stage, loops)) for s in receipt.stages))

    assert "predictors to itself. In its place it shares them." in m.why_tight(alone(0.6))
    assert "did not" in m.why_tight(alone(1.4)) and "hardly helped" in m.why_tight(alone(1.0))
    assert all("other way" not in m.why_tight(alone(loops)) for loops in (0.6, 1.0, 1.05, 1.4))
    key = receipt.stage("autograd_key")
    said = m.why_tight(alone(0.6, autograd_key=2.9))
    prices = f"{m.format_ns(2.9 * key.ns)} in the loop, {m.format_ns(key.isolate)} in place"
    assert f"The other way goes: autograd key ({prices})" in said
    assert "Such a price is a difference" in said and "not established" in said
    said = m.why_tight(alone(0.6, autograd_key=2.9, kernel=1.5))
    assert "autograd key (" in said and " and kernel (" in said and "is a difference" not in said and "not established" in said
    assert "Not all were timed so here." in m.why_tight(
        replace(receipt, stages=tuple(replace(s, alone_ns=None) for s in receipt.stages))
    )
    assert m.DIFFERENCES == {"autograd_key", "wrap_free"}


def check_grad(m) -> None:
    for factor, way in ((1.5, "more"), (0.7, "less"), (1.0, "same")):
        grad = make_receipt(grad=True)
        grad = replace(grad, arms={**grad.arms, "result dropped": grad.end_to_end.scaled(factor)})
        right, said = m.dropped(grad)
        assert right == m.DROPPED_ANSWERS[way][1]
        if way == "same":
            assert "no difference seen" in str(said)
        else:
            assert f" {way} than keeping" in str(said) and close(numbers(str(said))[0], abs(factor - 1) * grad.total_ns)
    assert m.dropped(replace(make_receipt(grad=True), arms={}))[0] is None
    plain = make_receipt()
    for factor, words in ((1.3, "more than the add without"), (0.8, "less than the add without"), (1.0, "No difference seen")):
        grad = make_receipt(grad=True)
        raced = replace(grad, arms={**grad.arms, m.WITHOUT: grad.end_to_end.scaled(1 / factor)})
        assert words in str(m.with_grad(plain, raced, raced))
        apart = replace(grad, end_to_end=plain.end_to_end.scaled(factor), arms={})  # an older recording has no such arm
        assert words in str(m.with_grad(plain, apart, apart))
    missing = make_receipt(grad=True, compiler=False)
    assert "could not be measured" in str(m.with_grad(plain, missing, missing))


def check_program(m) -> None:
    assert "comes with other code" in str(m.code_or_data(program_race()))
    assert "not its main cause" in str(m.code_or_data(program_race(adds=3500.0)))
    assert "cannot say" in str(m.code_or_data(program_race(adds=2750.0)))
    cheaper = program_race(nothing=1250.0, adds=1090.0, ops=1970.0)
    said = str(m.code_or_data(cheaper))
    assert "no rise but a fall, so the rise comes with other code" in said and "less than half" not in said
    assert "cheaper, this race does not show" in said and "a fall" not in str(m.code_or_data(program_race()))
    level, some = program_race(adds=1600.0), program_race(adds=1900.0)
    assert "no rise that can be seen" in str(m.code_or_data(level)) and "less than half" in str(m.code_or_data(some))
    for race, words in (
        (cheaper, "other data alone did not raise"),
        (level, "other data alone did not raise"),
        (some, "Most of the rise comes with other code"),
        (program_race(adds=3500.0), "with other data and the same code"),
        (program_race(adds=2750.0), "cannot say"),
        (program_race(ops=1600.0), "saw no rise"),
    ):
        assert words in m.why_in_program(race)
    for flat in (program_race(ops=1600.0), program_race(ops=1200.0)):
        said = str(m.code_or_data(flat))
        assert "No rise is seen" in said and "comes with" not in said
    told = numbers(str(m.code_or_data(program_race())))
    assert all(close(a, b) for a, b in zip(told, (1600.0, 1620.0, 3900.0), strict=True))
    receipt = make_receipt(
        first_call=(("first a + b", 4e5), ("second a + b", 1e4), ("a + b after 100 more", 2e3), ("import torch", 2e9))
    )
    rows = {row["call"]: row["times"] for row in m.first_calls(receipt).rows}
    assert rows == {"first a + b": "200 ×", "second a + b": None, "a + b after 100 more": None, "import torch": None}
    beside = replace(make_receipt("cuda", first_call=(("CUDA context", 3e8), ("first a + b", 9e7))), source="recorded")
    both = m.first_calls(receipt, beside)
    assert both.rows[-1]["call"] == "CUDA context" and both.columns["beside"] == "recorded"
    assert any("NVIDIA H200" in note for note in both.notes)


def check_fallback(m) -> None:
    """Without a compiler the recording stands in and says so; with one, the reader's own numbers are never replaced."""
    kept = replace(make_receipt(seed=99), source="recorded")
    real, m.recorded = m.recorded, lambda kind, grad=False: kept if (kind, grad) == ("cpu", False) else None
    try:
        live = make_receipt()
        assert m.with_stages(live) is live
        first, *others = live.stages
        lost = replace(live, stages=(StagePrice(first.stage, None, None, "its header moved"), *others))
        assert m.with_stages(lost) is lost  # one lost stage costs that stage, not the reader's other prices
        assert "cannot be judged" in m.leave_one_out(lost).rows[0]["check"]
        assert m.with_stages(make_receipt(compiler=False)) is kept
        bare = make_receipt("cuda", compiler=False)
        assert m.with_stages(bare) is bare  # a CPU's recording is no GPU's
    finally:
        m.recorded = real
    for sentence in (m.last_stage(kept), m.memory(kept), m.dearest_group(kept)[1], m.tight_loops(kept)):
        assert "In the recording (AMD EPYC" in str(sentence) and "On this machine" not in str(sentence)
    assert "recorded · " in m.whole_figure(kept).alt
    assert m.whole_figure(make_receipt(compiler=False)) is None


def check_printed(m) -> None:
    first, second = m.printed_tables().rows
    assert first["its rows sum to"] == "5.5–12 µs" and first["it prints as total"] == "5–10 µs"
    assert first["inside it"].startswith("no") and "2.0 µs above" in first["inside it"] and "below" not in first["inside it"]
    assert second["its rows sum to"] == "6–19 µs" and second["inside it"] == "yes"


def check_transfer(m) -> None:
    race = make_race(prices={m.PLAIN: 1500.0, "mine": 3400.0})
    assert "Nothing priced yet" in str(m.transfer(None, False))
    assert "something else" in str(m.transfer(race, False))
    told = {row["op"]: row["against"] for row in m.transfer(race, True).rows}
    assert told[m.PLAIN] is None and told["mine"].startswith("+1.9") and told[race.control[1]] == "the A/A error"
    level = make_race(prices={m.PLAIN: 1500.0, "mine": 1500.0})
    assert "no difference seen" in {row["op"]: row["against"] for row in m.transfer(level, True).rows}["mine"]


def test_every_sentence_is_true_on_data_that_surprises():
    check_sentences(lesson05)


def test_figures_say_what_they_show():
    plain, grad = make_receipt(), make_receipt(grad=True)
    picture = lesson05.grad_figure(plain, grad)
    assert len(picture.table.rows) == 4 and "same code twice" in picture.alt
    without = lesson05.grad_figure(plain, replace(grad, arms={}))
    assert len(without.table.rows) == 3
    both = lesson05.in_program_figure(plain, replace(make_receipt("cuda"), source="recorded"))
    assert "NVIDIA H200" in both.alt and "recorded" in both.alt
    assert "NVIDIA" not in lesson05.in_program_figure(plain).alt


# ------------------------------------------------------------------------------------------------ planted faults

FAULTS = {
    "a difference that is not there is told": ('"same" if not found.seen else "more"', '"more"'),
    "more and less swapped": ('"more" if found.ns > 0 else "less"', '"less" if found.ns > 0 else "more"'),
    "a recording passed as the reader's own": (
        "    if any(stage.isolate is not None for stage in receipt.stages):\n",
        "    if False:\n",
    ),
    "one lost stage costs them all": ("    if any(stage.isolate is not None", "    if all(stage.isolate is not None"),
    "a recorded number told as measured here": ('    if receipt.source == "live":\n', "    if receipt.source:\n"),
    "the launch sold as the addition": ('if one.device == "cpu":', "if one.device:"),
    "every torch predicted to be taxed": ("major == 2 and minor in TAXED", "major == 2"),
    "a counter-case that cannot fail": ("> effect / 2", "> 1e9"),
    "context called a group": ('if g != "context"}', "}"),
    "nothing left out": ("receipt.without(stage.stage) for title, stage", "receipt for title, stage"),
    "a blind check goes unnoticed": ("    if not refusal:", "    if False:"),
    "other code blamed whatever the data": ("if with_data + unsure < rise / 2:", "if True:"),
    "a rise explained that is not there": ('if _way(race, NOTHING, OPS) != "more":', "if False:"),
    "a fall passed over": ('{"less": "fall", "same"', '{"less": "code", "same"'),
    "a stage that goes the other way passed over": ("s.alone_ns > least * s.ns]", "s.alone_ns > 99 * s.ns]"),
    "any stage called a difference": ("if all(s.stage in DIFFERENCES for s in other):", "if True:"),
    "a printed 'about' counted as nothing": ("if claim.around is None else claim.around", "if claim.around is None else 0.0"),
    "the allocator's share taken of the whole op": ("both = block.ns + around.ns", "both = one.total_ns"),
    "any answer counts as the transfer op": ("    if not right:\n", "    if False:\n"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_in_the_lessons_logic_go_red(fault, tmp_path):
    wrong = broken(lesson05, *FAULTS[fault], tmp_path)
    with pytest.raises((AssertionError, pytest.fail.Exception, ValueError, KeyError)):
        check_sentences(wrong)


def test_a_reading_out_of_nowhere_is_refused_by_the_checks_the_lesson_runs():
    receipt = make_receipt()
    wrong = {
        "stages.sum": receipt.scaled_stage("tensor_iterator", 2.0),
        "price.end_to_end": replace(
            receipt, end_to_end=receipt.end_to_end.scaled(1e-3), control=tuple(r.scaled(1e-3) for r in receipt.control)
        ),
        "arms.view_alive": replace(receipt, arms={**receipt.arms, "view alive": receipt.end_to_end.scaled(1.2)}),
        "in_program.above_hot": replace(receipt, in_program=((0, receipt.end_to_end), (79, receipt.end_to_end.scaled(0.8)))),
    }
    for metric, planted in wrong.items():
        assert expected.judge(metric, planted).problems, metric
    assert isinstance(receipt.end_to_end, Reading)
