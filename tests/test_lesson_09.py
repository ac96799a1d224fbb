"""Lesson 09: sentences that stay true whatever a machine gives; the study's arms on small buffers; the planted faults.

`check_sentences(module)` holds the lesson's module against parts made in code, in which the usual order is turned round; each
planted fault is this module with a piece of its logic broken. Those of the measurement are the arms of the study with one.
"""

from __future__ import annotations

import random
import re

import pytest
import torch

from tests import fuses
from tests.broken import broken
from tests.factories import WHERE, make_race
from tests.fuses import HERE, THERE, both
from tests.lesson_pages import code_cells, notebook
from tools.lint_notebooks import COMPARED
from utils.kernels import cpu_door, interpreted, triton_door
from utils.kernels.forms import ADD, STEPS, Form
from utils.measure import fuse, fuse_arms, fuse_here, fuse_output, fuse_peer, fuse_sizes, fuse_steps, study_here
from utils.measure.device_clock import MeasurementError
from utils.measure.launch_here import Found
from utils.measure.study_here import Both
from utils.model import expected, ledger, studies
from utils.model.quantities import NotMeasured
from utils.model.readings import Reading
from utils.model.studies import Study, plain, revived
from utils.show import fuse_figures, lesson09
from utils.show.listing import Listing

RNG = random.Random(9)


# ------------------------------------------------------------------------------------------------ the sentences


def check_sentences(m) -> None:
    check_paper(m)
    check_steps(m)
    check_kernel(m)
    check_intensity(m)
    check_sizes(m)
    check_peer(m)
    check_judged(m)
    check_transfer(m)


def check_paper(m) -> None:
    right, said = m.paper()
    assert right == m.PAPER_ANSWERS["three"][1]
    assert "5 activations" in str(said) and "y is written: 3." in str(said) and "1.67 times as fast" in str(said)
    rows = {row["step"]: row for row in m.paper_table().rows}
    assert (rows["a + b"]["ratio"], rows["eight ops"]["eager"], rows["eight ops"]["fused"]) == ("1.00", "17.0", "3.00")
    judged = m.judged_paper()
    assert [judged[name] for name in ("two", "eight", "intensity")] == pytest.approx([5 / 3, 17 / 3, 17 / 3])


def check_steps(m) -> None:
    said = str(m.eight(both(fuses.steps(off=1.3), fuses.steps("cuda", plain=None))))
    assert "7.4 times as fast as one by one; bytes predict 5.67" in said and "30 % more than saved bytes explain" in said
    assert "With plain stores the same kernel is 6.1 times as fast. So stores are part of it" in said
    assert said.index(HERE) < said.index("That is the prediction") < said.index(THERE)
    assert "bytes predict 8.33, and with plain stores 6.25" in said and said.count("With fetched lines") == 1
    assert "20 % less than the saved bytes promise" in str(m.eight(both(fuses.steps(off=0.8))))
    assert "storing past the caches does not pay here" in str(m.eight(both(fuses.steps(plain=0.7))))
    assert "makes no difference here" in str(m.eight(both(fuses.steps(plain=1.0))))
    assert "That is the prediction" in str(m.eight(both(fuses.steps(off=1.3, error=0.4)))), (
        "inside the error nothing is told apart"
    )
    assert "Not measured" in str(m.eight(both(None))) and m.step_figures(both(None)) == []
    for extra, kind in ((1.0, "nothing"), (0.9, "nothing"), (1.3, "tensor"), (1.7, "op")):
        right, said = m.bias(both(fuses.steps(bias=extra)))
        assert right == m.BIAS_ANSWERS[kind][1], extra
    assert "70 % more" in str(said) and "without the bias and 5.10 ms with it" in str(said)
    assert "10 % less" in str(m.bias(both(fuses.steps(bias=0.9)))[1])
    assert "no difference seen" in str(m.bias(both(fuses.steps()))[1])
    (table,) = m.step_tables(both(fuses.steps()))
    assert len(table.rows) == len(STEPS) and HERE in table.notes
    picture, bare = m.step_figures(both(fuses.steps(), fuses.steps("cuda", plain=None)))
    assert "eight ops bytes predict 5.67, measured 5.67, measured, with plain stores 4.72" in picture.alt and HERE in picture.alt
    assert "plain stores" not in bare.alt and THERE in bare.alt and "plain" not in bare.table.columns


def check_kernel(m) -> None:
    triton, cpp = m.by_hand()
    assert "for _ in tl.static_range(ADDS):" in triton.code and "rs[j]" in triton.code and "tl.store" not in triton.code
    assert "job.adds" in cpp.code and "x[i] += r[i]" in cpp.code and "DROP" not in cpp.code + triton.code
    assert "ran 5 steps in the interpreter, and every element" in str(m.interpreted(both(fuses.interpreter())))
    assert "wrong in 1 of 5 steps: with bias: an element" in str(m.interpreted(both(fuses.interpreter("an element is off"))))
    assert "timed is C++, and every output was checked" in str(m.right_here(both(fuses.steps())))
    assert "wrong: part of the output" in str(m.right_here(both(fuses.steps(wrong="part of the output was not written"))))


def check_intensity(m) -> None:
    right, said = m.intensity()
    assert right == m.INTENSITY_ANSWERS["rises"][1] and "0.118 FLOP a byte before, 0.667 after" in str(said)
    assert "bf16 0.235 FLOP a byte before, 1.33 after" in str(m.intensity("bf16")[1])
    assert m.intensities(ADD, "fp32")[0] == m.intensities(ADD, "fp32")[1] == pytest.approx(1 / 12), "a + b alone: no change"
    said = str(m.free(both(fuses.chain(free=8), fuses.chain("cuda", free=100))))
    assert "Fused, 8 adds took no more than a tenth longer than one, at 1.00 FLOP a byte; 64 took 8.0 times as long" in said
    assert (
        "even 64 adds, the most that were tried" in said and "eight adds took 8.0 times as long as one; fused, 1.0 times" in said
    )
    (picture,) = m.free_figures(both(fuses.chain()))
    assert "one kernel: 2.00 ms at 1" in picture.alt and "at 64" in picture.alt and len(picture.table.rows) == 5


def check_sizes(m) -> None:
    for gain, kind in ((4.0, "gain"), (1.0, "nothing"), (0.5, "loss")):
        right, said = m.small(both(fuses.sizes(small=gain)))
        assert right == m.SMALL_ANSWERS[kind][1], gain
    assert "2.0 times slower, where launches alone would give 8" in str(said) and "where bytes alone would give 5.67" in str(said)
    assert "costs as much as 16 eager adds. On" in str(said), "eight adds of time, twice as slow"
    dear = fuses.sizes()
    dear["rows"][0]["chain_eager_us"] = 15.0
    assert "one `+ 0.25` as much as 2.0: torch makes a tensor" in str(m.small(both(dear))[1])
    for gains, kind in (((0.1, 0.5, 1.0), "longer"), ((1.0, 1.0, 1.0), "alike"), ((1.5, 1.2, 1.0), "shorter")):
        right, said = m.alone(both(fuses.sizes(compiled=gains)))
        assert right == m.ALONE_ANSWERS[kind][1], gains
    assert "a compiled call saves 500 ns" in str(said) and "At no size that was tried is it slower" in str(said)
    said = str(m.alone(both(fuses.sizes()))[1])
    assert "1.50 µs eager and 15.0 µs compiled: a compiled call costs 13.5 µs more" in said
    assert "From 8,388,608 elements on it no longer loses" in said and "elements: no difference seen. By hand" in said
    assert "It loses at every size" in str(m.alone(both(fuses.sizes(compiled=(0.1, 0.5, 0.8))))[1])
    right, said = m.alone(both(fuses.sizes(compiled=(None, None, None))))
    assert right is None and "could not be compiled: torch.compile failed: no C++ compiler" in str(said)
    (picture,) = m.size_figures(both(fuses.sizes()))
    assert "a + b, compiled: 0.100 at 512" in picture.alt
    (bare,) = m.size_figures(both(fuses.sizes(compiled=(None, None, None))))
    assert "compiled" not in bare.alt
    assert m.size_tables(both(fuses.sizes()))[0].rows[0]["add_compiled"] == "15.0 µs"


def check_peer(m) -> None:
    for against, error, kind in ((1.3, 0.01, "hand"), (0.8, 0.01, "compiled"), (1.02, 0.01, "alike"), (1.3, 0.5, "alike")):
        assert m.peer(both(fuses.peer(against=against, error=error)))[0] == m.PEER_ANSWERS[kind][1], (against, error)
    said = str(m.peer(both(fuses.peer(), fuses.peer("cuda", kernels=2)))[1])
    assert (
        "By hand 1.10 ms, torch.compile 1.43 ms, op by op 6.00 ms" in said and "91% and 70% of its speed. torch.compile" in said
    )
    assert "wrote 1 kernel in C++" in said and "wrote 2 kernels in Triton" in said
    ahead = fuses.peer()
    ahead["numbers"]["by_hand_share"] = 1.06
    assert "106% and 70% of its speed. More than all of it" in str(m.peer(both(ahead))[1])
    assert "More than all" not in str(m.peer(both(None, ahead | {"device": "cuda"}))[1])
    table, listing = m.peer_views(both(fuses.peer()))
    assert "x[i] &lt; 1" in listing._repr_html_() and HERE in listing.title and len(table.rows) == 4
    lost = fuses.peer() | {"kernel": "\n"}
    assert "was not found in the module" in str(m.peer_views(both(lost))[1])
    said = str(m.fresh(both(fuses.fresh_output(ratio=3.8))))
    assert "3.8 times as long" in said and "16,400 page faults a call against 0" in said and "Not measured" in said
    assert m.fresh_tables(both(fuses.fresh_output()))[0].rows[1]["faults"] == "16,400"


def check_judged(m) -> None:
    sound = fuses.study()
    judged = m.judged("cpu", **sound)
    assert judged["steps"]["eight_gain"] == pytest.approx(17 / 3) and judged["fresh_output"]["device"] == "cpu"
    nothing = m.judged("cpu", steps=both(None, fuses.steps("cuda")), sizes=both(fuses.sizes(compiled=(None, None, None))))
    assert all(isinstance(nothing["steps"][name], NotMeasured) for name in m.JUDGED["steps"]), "a recording is not judged"
    kept = Both(Found(fuses.steps(), HERE, why="no compiler"), Found(None))
    assert isinstance(m.judged("cpu", steps=kept)["steps"]["eight_gain"], NotMeasured), "nor one that stands in for this machine"
    assert isinstance(nothing["sizes"]["small_compiled_gain"], NotMeasured) and nothing["sizes"]["small_chain_gain"] == 4.0
    rows = m.verdicts("cpu", {"steps": sound["steps"]}).rows
    assert {row["id"] for row in rows} == {claim.id for claim in ledger.claims("fuse")}


def check_transfer(m) -> None:
    assert "Nothing predicted yet" in str(m.transfer(None))
    for mine, words in ((2.2, "Near enough"), (2.25, "Near enough"), (4.0, "More than a twentieth off"), (2.0, "More than")):
        assert words in m.transfer(mine, 100.0).notes[0], mine
    rows = {row["what"]: row["value"] for row in m.transfer(2.2, 110.0).rows}
    assert rows["tensors, op by op"] == "11" and rows["tensors, fused"] == "5" and rows["bytes say"] == "2.20 times"
    assert rows["so one kernel should take"] == "50.0 µs" and rows["launches say"] == "4 times"
    assert len(m.transfer(2.2).rows) == 5


def test_every_sentence_is_true_on_data_that_surprises():
    check_sentences(lesson09)


FAULTS = {
    "an intermediate written by the fused kernel": (
        "form.words(rows, cols) / (rows * cols)", "form.words(rows, cols) / (rows * cols) + (form.ops > 1)",
    ),
    "more and less than the bytes exchanged": (
        "    if ratio > 1:\n        return f\"That", "    if ratio < 1:\n        return f\"That",
    ),
    "a difference inside the error told": ('max(TINY - 1, numbers["error"])', "TINY - 1"),
    "the stores credited whatever they did": ("if gain > clear * plain:", "if gain > 0:"),
    "every bias called free": ('"nothing" if extra < max(TINY, 1', '"nothing" if extra < max(9, 1'),
    "intensity as bytes a FLOP": (
        "return flops / form.eager_nbytes(rows, cols, dtype), flops / form.nbytes(rows, cols, dtype)",
        "return form.eager_nbytes(rows, cols, dtype) / flops, form.nbytes(rows, cols, dtype) / flops",
    ),
    "FLOPs counted by kernel": ("flops = form.ops * rows * cols", "flops = rows * cols"),
    "a limit where none was met": ('if numbers["free"] >= longest:', "if False:"),
    "a loss called a gain": ('"loss" if gain * clear < 1', '"loss" if gain * clear < 0'),
    "compiled a + b always loses": ('"longer" if gain * clear < 1', '"longer" if gain * clear < 99'),
    "no size beyond the last loss": ('if row["elements"] > slower[-1]]', 'if row["elements"] >= slower[-1]]'),
    "the peer judged without its error": ('max(NEAR - 1, value["numbers"]["error"])', "NEAR - 1"),
    "by hand and compiled exchanged": ('"hand" if against > 1', '"hand" if against < 1'),
    "a recording in place of a measurement judged": ("part.here if part.here.live else", "part.here if True else"),
    "a wrong kernel passed over": ("    if wrong:\n            return", "    if False:\n            return"),
    "an intermediate kept in the transfer": ("TRANSFER_FUSED = 5", "TRANSFER_FUSED = 6"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_lesson_is_found_out(fault, tmp_path):
    with pytest.raises(AssertionError):
        check_sentences(broken(lesson09, *FAULTS[fault], tmp_path))


def test_a_listing_without_text_is_refused():
    with pytest.raises(ValueError, match="no text"):
        Listing("a kernel", " \n")


def test_lines_are_drawn_in_units_or_as_ratios():
    times = fuse_figures.lines({"a": {1: 2.0, 4: 2000.0}}, "adds", "T", HERE)
    ratio = fuse_figures.lines({"a": {1: 2.0}}, "elements", "T", HERE, unit="", marks={"here": 1})
    assert "2.00 ms at 4" in times.alt and "2.00 at 1" in ratio.alt and "times as fast" in ratio.svg and "here" in ratio.svg


# ------------------------------------------------------------------------------------------------ the checks of the lesson


SOUND = {
    "steps": fuses.steps(), "chain": fuses.chain(), "sizes": fuses.sizes(), "peer": fuses.peer(),
    "interpreter": fuses.interpreter(), "fresh_output": fuses.fresh_output(),
}  # fmt: skip
UNSOUND = {
    "a kernel that leaves an op out": ("fuse.right", "steps", fuses.steps(wrong="an element is off")),
    "tensors that stay in a cache": ("fuse.gain", "steps", fuses.steps(off=0.2)),
    "a bias in full size, and more": ("fuse.bias", "steps", fuses.steps(bias=2.5)),
    "a fused kernel that writes its intermediates": ("fuse.rise", "chain", fuses.chain(free=1)),
    "a kernel compiled inside the clock": ("fuse.small", "sizes", fuses.sizes(small=0.01)),
    "an eager add that makes its output": ("fuse.alone", "sizes", fuses.sizes(compiled=(1.4, 1.2, 1.0))),
    "a graph that broke": ("fuse.kernels", "peer", fuses.peer(kernels=3)),
    "a mask that is missing": ("fuse.interpreter", "interpreter", fuses.interpreter("13 x 100: not written")),
    "a pinned malloc": ("fuse.faults", "fresh_output", fuses.fresh_output(faults=0.0)),
}


@pytest.mark.parametrize("fault", UNSOUND)
def test_a_check_is_green_on_a_sound_part_and_red_on_an_unsound_one(fault):
    metric, part, bad = UNSOUND[fault]
    good = lesson09.judged("cpu", **{part: both(SOUND[part])})[part]
    assert expected.judge(metric, good).holds
    with pytest.raises(expected.ExpectationError):
        expected.expect(metric, lesson09.judged("cpu", **{part: both(bad)})[part])


def test_what_is_counted_on_paper_is_judged_exactly():
    judged = lesson09.judged_paper()
    for metric, key in (("fuse.paper_two", "two"), ("fuse.paper_intensity", "intensity")):
        assert expected.judge(metric, judged).holds
        assert not expected.judge(metric, judged | {key: judged[key] * 0.9}).holds


def test_each_check_of_the_notebook_has_a_fault_that_it_finds():
    (cell,) = [c for c in code_cells(notebook(9)) if c.source.startswith(COMPARED)]
    asked = set(re.findall(r'expect\("([\w.]+)"', cell.source))
    assert asked == {metric for metric, _, _ in UNSOUND.values()} | {"fuse.paper_two", "fuse.paper_intensity"}


# ------------------------------------------------------------------------------------------------ the study


def test_every_part_has_its_form_in_the_lesson_and_parts_survive_json():
    assert set(fuse.PARTS) == set(fuse.IN_LESSON) == set(SOUND)
    assert {name for name, part in fuse.PARTS.items() if "cuda" not in part.devices} == {"interpreter", "fresh_output"}
    race = revived(plain(fuses.steps()))["race"]
    assert race["two ops, fused"].ns == pytest.approx(fuses.steps()["race"]["two ops, fused"].ns, rel=1e-3)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
@pytest.mark.parametrize("name", fuse.PARTS)
def test_without_a_gpu_a_part_says_so(name):
    if name == "interpreter":
        return  # it runs on a CPU, whatever the device
    with pytest.raises(MeasurementError):
        fuse.PARTS[name].measure("cuda", None)


def test_without_a_compiler_the_parts_say_so(monkeypatch):
    def missing():
        raise MeasurementError("the C++ chain could not be built here: no compiler")

    monkeypatch.setattr(cpu_door, "_run", missing)
    monkeypatch.setattr(fuse_arms, "ROWS", {"cpu": 8, "cuda": 8})
    for measure in (fuse_steps.steps, fuse_steps.chain, fuse_sizes.sizes, fuse_output.fresh_output):
        with pytest.raises(MeasurementError, match="no compiler"):
            measure("cpu", quick=True)


def test_without_triton_the_interpreter_says_so(monkeypatch):
    monkeypatch.setattr(triton_door, "installed", lambda: False)
    with pytest.raises(MeasurementError, match="not installed"):
        fuse.interpreter("cpu")


def test_the_interpreters_part_counts_what_is_wrong(monkeypatch):
    found = {name: {"wrong": "16 x 128: off" if name == "two ops" else "", "kept": None, "seconds": 0.1} for name in STEPS}
    monkeypatch.setattr(interpreted, "check", lambda forms, progress=None: found)
    part = fuse.interpreter("cpu")
    assert part["numbers"]["wrong"] == 1 and part["numbers"]["steps"] == len(STEPS)


def test_a_machine_that_cannot_measure_gets_the_cpus_recording_and_the_reason(monkeypatch):
    kept = Study("fuse", "cpu", "2026-11-30T00:00:00+00:00", WHERE["cpu"], {"chain": fuses.chain()})
    monkeypatch.setattr(studies, "best", lambda name, device="cuda", folder=None: kept if device == "cpu" else None)

    def refuses(device, progress):
        raise MeasurementError("no C++ compiler on the PATH")

    monkeypatch.setattr(fuse, "IN_LESSON", {"chain": refuses, "steps": refuses, "peer": lambda device, progress: fuses.peer()})
    found = fuse_here.part("chain")
    assert not found.here.live and found.here.label.startswith("recorded") and "no C++ compiler" in found.here.value["notes"][-1]
    assert kept.parts["chain"]["notes"] == fuses.chain()["notes"], "the recording itself stays as it was"
    assert fuse_here.part("steps").here.value is None and "no C++ compiler" in fuse_here.part("steps").here.why
    assert fuse_here.part("peer").here.live and study_here.recorded("fuse", "chain", "cpu").value is kept.parts["chain"]


def test_no_activation_of_the_sizes_is_square():
    for exponents in (*fuse_sizes.EXPONENTS.values(), *fuse_sizes.QUICK.values()):
        for exponent in exponents:
            rows, cols = fuse_sizes.shape(1 << exponent)
            assert rows * cols == 1 << exponent and rows != cols and rows % 8 == 0 and cols % 32 == 0


def small_sets(sets: int = 2):
    return fuse_arms.buffers("cpu", sets=sets, rows=16, cols=64)


def test_buffers_are_random_and_apart():
    first, second = small_sets()
    assert first.x.std() > 1 and not torch.equal(first.x, second.x) and not torch.equal(first.x, first.residual)
    assert first.x.shape == (16, 64) and first.bias.shape == (64,) and first.x.is_contiguous()


def test_buffers_that_do_not_fit_are_said_in_words(monkeypatch):
    monkeypatch.setattr(fuse_arms, "free_bytes", lambda device: 1000)
    with pytest.raises(MeasurementError, match="do not fit"):
        small_sets()


@pytest.mark.parametrize("name", STEPS)
def test_the_arm_op_by_op_is_right_and_a_chain_cut_short_is_caught(name):
    given, form = small_sets(1)[0], STEPS[name]
    assert fuse_arms.checked(form, fuse_arms.eager(form, [given])[0], given, ours=False)[0] == ""
    shorter = form.with_(residual=False) if form.adds == 0 else form.with_(adds=form.adds - 1)
    assert fuse_arms.checked(form, fuse_arms.eager(shorter, [given])[0], given, ours=False)[0]
    assert "not written" in fuse_arms.checked(form, lambda: None, given, ours=True)[0]


def test_adds_spelled_out_are_right_and_nothing_else_is_spelled():
    given = small_sets(1)[0]
    for form in (ADD, STEPS["two ops"], STEPS["eight ops"], Form(adds=1), Form(adds=8)):
        assert fuse_arms.checked(form, fuse_arms.spelled(form, given), given, ours=True)[0] == "", form
        assert fuse_arms.checked(form.with_(adds=form.adds + 1), fuse_arms.spelled(form, given), given, ours=True)[0], form
    for form in (Form(), STEPS["with bias"], STEPS["with gelu"]):
        with pytest.raises(ValueError, match="spelled"):
            fuse_arms.spelled(form, given)


def test_the_numbers_of_the_steps_are_ratios_of_their_own_race():
    ns = {f"{name}, {arm}": RNG.uniform(1e6, 9e6) for name in STEPS for arm in ("eager", "fused", "plain stores")}
    race = make_race(prices=ns)
    said = {arm: ("off" if arm == "two ops, fused" else "", 3) for arm in ns}
    rows = {name: fuse_steps._row("cpu", name, form, race, said) for name, form in STEPS.items()}
    eight = rows["eight ops"]
    assert eight["gain"] == pytest.approx(race["eight ops, eager"].ns / race["eight ops, fused"].ns)
    assert eight["predicted"] == pytest.approx(17 / 3) and eight["eager_faults"] == 3 and rows["two ops"]["wrong"] == "off"
    assert rows["a + b"]["eager_paper_us"] == pytest.approx(rows["a + b"]["eager_us"]), "the add's own rate predicts the add"
    assert eight["fused_paper_us"] == pytest.approx(rows["a + b"]["eager_us"]), "as many bytes as an add"
    numbers = fuse_steps._numbers(list(rows.values()), race)
    assert numbers["bias_extra"] == pytest.approx(race["with bias, fused"].ns / race["eight ops, fused"].ns)
    assert numbers["eight_plain_gain"] == pytest.approx(race["eight ops, eager"].ns / race["eight ops, plain stores"].ns)


@pytest.fixture
def compiler() -> None:
    """Skips where there is no compiler; asked for here and not while tests are collected, since it compiles."""
    if why := cpu_door.why_not():
        pytest.skip(why)


def test_the_arm_by_hand_is_right_with_either_store(compiler):
    given = small_sets(1)[0]
    for form in (*STEPS.values(), Form(adds=4)):
        for streaming in (True, False):
            call = fuse_arms.by_hand(form, given, streaming=streaming)
            assert fuse_arms.checked(form, call, given, ours=True)[0] == ""
    cut_short = fuse_arms.by_hand(STEPS["two ops"], given)
    assert fuse_arms.checked(STEPS["eight ops"], cut_short, given, ours=True)[0]


def test_the_study_runs_on_small_buffers(compiler, monkeypatch):
    """Every part of the study but those that compile with torch, on buffers so small that only the structure is of interest."""
    monkeypatch.setattr(fuse_arms, "ROWS", {"cpu": 8, "cuda": 8})
    monkeypatch.setattr(fuse_steps, "ROWS", {"cpu": 8, "cuda": 8})
    monkeypatch.setattr(fuse_sizes, "QUICK", {"cpu": (9, 11), "cuda": (9,)})
    monkeypatch.setattr(fuse_steps, "QUICK_ADDS", {"cpu": (1, 8, 64), "cuda": (1, 8)})

    def refuses(sets, wrong, progress):
        raise MeasurementError("torch.compile failed: not tried here")

    monkeypatch.setattr(fuse_sizes, "_compiled", refuses)
    steps = fuse_steps.steps("cpu", quick=True)
    assert steps["numbers"]["wrong"] == 0 and [row["step"] for row in steps["rows"]] == list(STEPS)
    chain = fuse_steps.chain("cpu", quick=True)
    assert chain["numbers"]["wrong"] == 0 and chain["numbers"]["longest"] == 64 and chain["rows"][-1]["eager_us"] is None
    sizes = fuse_sizes.sizes("cpu", quick=True)
    assert sizes["numbers"]["wrong"] == 0 and sizes["rows"][0]["add_compiled_us"] is None
    assert "small_compiled_gain" not in sizes["numbers"] and "torch.compile failed: not tried here" in sizes["notes"]
    for part in (steps, chain, sizes):
        assert plain(part) and lesson09.judged("cpu", **{"steps": both(steps)})["steps"]["eight_gain"] > 0


def test_the_kernel_of_the_peer_is_the_chain_of_the_lesson():
    assert fuse_peer.FORM == STEPS["with bias"] and fuse_peer.FORM.ops == 9


def test_a_neighbour_that_meets_the_fused_kernel_alone_widens_the_range_and_a_steady_wrong_gain_stays_red():
    """Seen once in a soak: 0.39 of what bytes predict, beside an A/A pair 1 % apart, while others held both cores."""
    quiet = Reading("eager", tuple(1000.0 * (1 + 0.004 * (i % 4)) for i in range(8)))
    met = Reading("fused", (300.0, 1100.0, 1200.0, 1100.0, 1300.0, 1000.0, 1200.0, 1150.0))
    calm, own = fuse_steps.own_error(quiet, quiet), fuse_steps.own_error(quiet, met)
    assert calm < 0.01 and own > 0.2
    judged = {"device": "cpu", "aa_error": 0.01, "eight_gain": 0.39, "eight_predicted": 1.0, "bias_extra": 1.0}
    assert expected.judge("fuse.gain", judged | {"eight_error": own}).holds
    assert not expected.judge("fuse.gain", judged | {"eight_error": calm}).holds
    assert not expected.judge("fuse.gain", judged | {"eight_gain": 0.15, "eight_error": 9.0}).holds, "nor by any scatter"
