"""Lesson 07: sentences that stay true whatever a machine gives; the cost profiler, its bars, its seeds; the planted faults.

`check_sentences(module)` and `check_profiler(module)` hold the lesson's module and the profiler's against parts made in code, in
which the usual order is turned round; each planted fault is one of these modules with a piece of its logic broken.
"""

from __future__ import annotations

import random
import re
from dataclasses import replace

import pytest

from tests import ceilings
from tests.broken import broken
from tests.ceilings import HERE, THERE, both
from tests.factories import WHERE, make_receipt
from utils.measure import study_here, two_ceilings
from utils.measure.device_clock import MeasurementError
from utils.model import expected, ledger, recordings, results, studies
from utils.model.costmodel import Prices, Profile, total_max, total_sum
from utils.model.quantities import NotMeasured
from utils.model.studies import Study
from utils.show import ceiling_figures, controls, cost_profiler, figures, lesson07, price_seeds
from utils.show.price_seeds import STOCK, Seed

RNG = random.Random(7)


# ------------------------------------------------------------------------------------------------ the sentences


def check_sentences(m) -> None:
    check_paper(m)
    check_prices(m)
    check_models(m)
    check_sizes(m)
    check_alone(m)
    check_deeper(m)
    check_judged(m)
    check_transfer(m)


def check_paper(m) -> None:
    said = str(m.paper())
    for words in ("3 tensors for the product and 2 for each of 4 ops: 11", "32.0 MB each, 352 MB in all", "take 107 µs"):
        assert words in said
    assert "5 launches of 10.0 µs take 50.0 µs" in said and said.endswith("The longer bar is the memory bar.")
    assert "launch bar." in str(m.paper(Profile(small=True))) and "0.352 MB in all" in str(m.paper(Profile(small=True)))
    rows = {row["what"]: row["value"] for row in m.given().rows}
    assert rows["elements of the activation, in millions"] == "16.0" and rows["bandwidth, GB/s"] == "3,300"
    big, small = m.paper_views()
    assert "memory bar 107 " in big.alt and "Bottleneck: memory" in big.alt and "Bottleneck: launch" in small.alt
    judged = m.judged_paper()
    assert judged["megabytes"] == 352 and round(judged["memory_us"], 1) == 106.7 and judged["small_launch_us"] == 50
    right, said = m.capture()
    assert right == m.CAPTURE_ANSWERS["launch"][1] and "launches go from 5 to 1, its bytes from 352 to 352 million" in str(said)
    right, said = m.fuse()
    assert right == m.FUSE_ANSWERS["both"][1] and "launches go from 5 to 2, its bytes from 352 to 160 million" in str(said)
    assert "from 50.0 µs to 20.0 µs, the memory bar from 107 µs to 48.5 µs" in str(said)


def check_prices(m) -> None:
    found = both(ceilings.calibration(), ceilings.calibration("cuda"))
    said = str(m.charged(found))
    assert "1.10 µs hot and 2.64 µs after other ops; memory moves 11.0 GB/s" in said and said.index(HERE) < said.index(THERE)
    here, there = m.price_tables(found)
    rows = {row["what"]: row["price"] for row in here.rows}
    assert rows["launch of a kernel"] == "none: no device" and rows["gelu, hot"] == "1.54 µs" and HERE in here.notes
    assert {row["what"]: row["price"] for row in there.rows}["gap between two waiting kernels"] == "700 ns"
    assert m.price_tables(both(None)) == [] and "no compiler" in str(m.charged(both(None)))


def check_models(m) -> None:
    for off, kind in (({"max": 0.6}, "max"), ({"sum": 1.6}, "sum"), ({"sum": 1.02, "max": 0.97}, "alike")):
        right, said = m.on_host(both(ceilings.models(off=off)))
        assert right == m.HOST_ANSWERS[kind][1], kind
    said = str(m.on_host(both(ceilings.models(off={"max": 0.6})))[1])
    assert "over 12 cases" in said and "sum 0 %, maximum 40 %, queue 0 %" in said and "maximum 40 % too short on" in said
    assert said.startswith("Farther off was the maximum.") and "too high for that case" not in said
    assert str(m.on_host(both(ceilings.models(off={"sum": 1.6})))[1]).startswith("Farther off was the sum.")
    alike = str(m.on_host(both(ceilings.models(off={"sum": 1.02, "max": 0.97})))[1])
    assert alike.startswith("Neither sum nor maximum was clearly farther off.")
    assert "the prices were too high for that case" in str(m.on_host(both(ceilings.models(off={"max": 1.65})))[1])
    # what decides on a CPU are all cases, in the option and in the reason
    right, said_long = m.on_host(both(ceilings.models(off={"max": 0.6}, long_off={"max": 0.99, "sum": 1.3})))
    assert right == m.HOST_ANSWERS["max"][1] and "leaves the shorter half out" in str(said_long)
    twice = str(m.on_host(both(ceilings.models(off={"max": 0.6}), ceilings.models(off={"max": 0.5})))[1])
    assert twice.count("leaves the shorter half out") == 1 and twice.count("Farther off was the maximum.") == 2
    apart = str(m.on_host(both(ceilings.models(off={"max": 0.6}), ceilings.models(off={"sum": 1.6})))[1])
    assert "leaves the shorter half out" in apart and "its prices did not hold" in apart
    assert "a maximum leaves the shorter half out" in said and "no GPU has been recorded" in said

    assert "the queue played through is the sum" in str(m.on_host(both(ceilings.models(off={"max": 0.6})))[1])
    assert "played through" not in str(m.on_host(both(ceilings.models(off={"queue": 0.99})))[1])

    # on a GPU the long chains decide, whatever the short ones do
    turned = ceilings.models("cuda", off={"max": 0.01}, long_off={"sum": 1.9, "max": 1.0})
    right, said = m.on_device(both(None, turned))
    assert right == m.DEVICE_ANSWERS["sum"][1] and "a sum charges for both" in str(said) and "90 % too long" in str(said)
    assert "Over the 6 with 16 ops and more: sum 90 %, maximum 0 %" in str(said)
    assert "Farther off for chains of 16 ops and more was the sum." in str(said)
    assert m.on_device(both(None, ceilings.models("cuda", off={"max": 0.5})))[0] == m.DEVICE_ANSWERS["max"][1]
    assert m.on_device(both(None))[0] is None and m.model_figures(both(None)) == []
    shown = m.model_figures(both(ceilings.models(off={"max": 0.6}), turned))
    assert (
        HERE in shown[0].alt and THERE in shown[1].alt and "(−40 %)" in shown[0].table.text() and len(shown[0].table.rows) == 12
    )
    assert "(+90 %)" in shown[1].table.text() and "64 ops on 4,194,304" in shown[0].svg


def check_sizes(m) -> None:
    here, there = ceilings.sweep(break_even=9000.0), ceilings.sweep("cuda", break_even=2.2e6, fixed=7300.0)
    prices = both(ceilings.calibration(), ceilings.calibration("cuda"))
    said = str(m.break_even(both(here, there), prices))
    assert "at 9,000 elements" in said and "at 2,200,000 elements" in said
    assert "It is a bend, not a corner: from 256 to 4,096 elements the price of one goes from 1.23 µs to 1.75 µs, since" in said
    assert "Below, from 256 to 1,048,576 elements, one more costs about 7.30 µs whatever its size." in said
    grows = ceilings.sweep("cuda", break_even=2.2e6, fixed=7300.0)
    grows["rows"][5]["step_us"] = 9.0
    assert "a bend, not a corner" in (bent := str(m.break_even(both(None, grows), prices))) and "one thread" not in bent
    charged = two_ceilings.prices(prices.here.value)
    assert f"an element): {m.significant(charged.host_us * charged.gbps * 1e3 / 12, 2)}." in said, "each beside its own prices"
    gpu = two_ceilings.prices(prices.there.value)
    assert f"an element): {m.significant((gpu.host_us - gpu.start_us - gpu.gap_us) * gpu.gbps * 1e3 / 12, 2)}." in said
    assert "moves 90.0 GB/s, the memory 11.0; such tensors come from a cache" in said and "3,620 GB/s, the memory 4,370." in said
    assert "did not cross" in str(m.break_even(both(ceilings.sweep(break_even=None)), both(None)))
    figure = m.crossing_figures(both(here))[0]
    assert "Break-even at 9,000 elements" in figure.alt and "break-even, 9,000 elements" in figure.svg
    assert "did not cross" in m.crossing_figures(both(ceilings.sweep(break_even=None)))[0].alt

    for ratio, kind in ((900.0, "proportion"), (40.0, "between"), (1.05, "same")):
        assert m.flip(both(ceilings.flip(ratio=ratio)))[0] == m.FLIP_ANSWERS[kind][1], kind
    said = str(m.flip(both(ceilings.flip(ratio=40.0)))[1])
    assert "1,000 times the elements, 1,000 times the FLOPs, 40 times the time, 5 ops that compute both times" in said
    assert "flips: the host at the small size, the kernels at the large one" in said
    said = str(m.flip(both(ceilings.flip(ops=(5, 6), ends=("device", "device"))))[1])
    assert "5 ops that compute against 6 (5 calls, of which a CPU's dropout is several)" in said
    assert "the kernels at both sizes" in said and "flips" not in said
    said = str(m.flip(both(None, ceilings.flip("cuda", ops=(6, 6))))[1])
    assert "6 ops that compute both times (5 calls, at least one of which is several)" in said
    assert "calls" not in str(m.flip(both(ceilings.flip()))[1])
    assert m.flip_tables(both(ceilings.flip()))[0].rows[0]["bottleneck"] == "the host"


def check_alone(m) -> None:
    said = str(m.flop_only(both(ceilings.flop_only(factors=(900.0, 3.0, 40.0)))))
    assert "by 3.0 times to 900 times, 40 times in the median of 3 cases; nearest to the truth on “case 2”" in said
    assert m.flop_tables(both(ceilings.flop_only()))[0].rows[2]["times"] == "900 times"
    said = str(m.drift(both(ceilings.drift(later=1.5))))
    assert (
        "Watched for 6.0 s" in said
        and "from 1.00 µs to 1.50 µs: the highest is 50 % above the lowest" in said
        and "same moment are 2.0 % apart" in said
        and "off by up to 50 % later" in said
    )
    fallen = str(m.drift(both(ceilings.drift(later=0.7))))
    assert "from 701 ns to 1.00 µs: the highest is 43 % above" in fallen, "whatever the recorded ends, which are of single blocks"
    assert "first second (1.00 µs)" in fallen and "off by up to 30 % later" in fallen, "a price may fall, too"
    still = str(m.drift(both(ceilings.drift(later=1.0))))
    assert "no drift was seen" in still and "off by" not in still and "no drift" not in said
    figure = m.drift_figures(both(ceilings.drift()))[0]
    assert "120 blocks over 6.0 s" in figure.alt and "1.00 µs, 1.50 µs, 1.00 µs" in figure.alt
    assert [row["median"] for row in figure.table.rows].count("1.50 µs") == 1 and len(figure.table.rows) == 6

    assert "not tried" in str(m.stale(both(ceilings.models())))
    kept = ceilings.models("cuda")
    kept["numbers"] |= {"stale_median": 0.21, "fresh_median": 0.07}
    assert "21 % with prices of the first quarter and 7.0 % with prices of the same one: old prices cost accuracy" in str(
        m.stale(both(None), both(None, kept))
    )
    kept["numbers"] |= {"stale_median": 0.072}
    assert "the old prices had held" in str(m.stale(both(None, kept)))


def check_deeper(m) -> None:
    said = str(m.toy_block(both(ceilings.toy_block(launches=4))))
    assert "ran as 4 ops that compute" in said and "16.0 MiB" in said and "took 750 µs, on paper at 3.3 TB/s 36.0 µs" in said
    assert "cost the host 21.0 µs" in said and len(m.toy_tables(both(ceilings.toy_block()))[0].rows) == 5
    said = str(m.thousand(both(ceilings.thousand())))
    assert "cost the host 1.30 ms, 1.30 µs each; a thousand ops of many kinds 2.90 ms" in said
    assert "many kinds" not in str(m.thousand(both(ceilings.thousand(mixed=None))))


def check_judged(m) -> None:
    judged = m.judged("cpu", **ceilings.study())
    assert judged["flip"]["flops_ratio"] == 1000 and judged["flip"]["device"] == "cpu"
    recorded = m.judged("cpu", **{name: both(None, one.here.value) for name, one in ceilings.study().items()})
    assert isinstance(recorded["flip"]["flops_ratio"], NotMeasured), "a recording is never judged as if it had run here"
    without = m.judged("cpu", sweep=both(ceilings.sweep(break_even=None)))
    assert isinstance(without["sweep"]["break_even"], NotMeasured)
    for metric, name in (
        ("two_ceilings.flip_ops", "flip"),
        ("two_ceilings.flop_only", "flop_only"),
        ("two_ceilings.in_program", "calibration"),
    ):
        assert expected.judge(metric, judged[name]).value is not None and expected.judge(metric, judged[name]).holds
    table = m.verdicts("cpu", ceilings.study())
    assert {row["id"] for row in table.rows} == {c.id for c in ledger.claims("two_ceilings")}


def check_transfer(m) -> None:
    assert "Nothing predicted yet" in str(m.transfer(None, both(ceilings.calibration())))
    for device, model in (("cpu", "sum"), ("cuda", "queue")):
        found = both(ceilings.calibration(device))
        charged = two_ceilings.prices(found.here.value)
        ops = [charged.op(4 * 256 * 256 * tensors) for _ in range(100) for tensors in (2, 3)]
        right = {"sum": total_sum(ops), "queue": charged.play(ops).wall_us}[model]
        assert right > total_max(ops)
        near, far = m.transfer(right * 1.2, found), m.transfer(right * 1.3, found)
        assert near.notes[0] == f"Near enough: within a quarter of the {model}." and "More than a quarter off" in far.notes[0]
        rows = {row["what"]: row["time"] for row in near.rows}
        assert rows["launch bar, 200 ops"] == m.format_time(200e3 * charged.host_us) and HERE in near.notes
        assert rows["memory bar, 131 million bytes"] == m.format_time(1e3 * sum(op.device_us for op in ops))
        told = m.transfer(right, found, right * 2).notes
        assert told[1] == f"The {model} is 50 % less than what was measured." and "Near enough" in told[0]
        assert f"The {model} is 25 % more" in m.transfer(right, found, right / 1.25).notes[1]
    assert "the texts' prices" in m.transfer(1.0, both(None)).notes[1]


def test_every_sentence_is_true_on_data_that_surprises():
    check_sentences(lesson07)


FAULTS = {
    "the product left out of the tensors": (
        "MATMUL_TENSORS + ELEMENTWISE_TENSORS * profile.ops", "ELEMENTWISE_TENSORS * profile.ops",
    ),
    "capturing called fusing": ("Profile(capture=True), CAPTURE_ANSWERS", "Profile(fuse=True), CAPTURE_ANSWERS"),
    "only one bar looked at": ('"memory": on.memory_us < off.memory_us', '"memory": False'),
    "short chains decide for long ones": ('else _long(part) or part["rows"]', 'else part["rows"]'),
    "the better model called the worse": ("max(by, key=by.get)", "min(by, key=by.get)"),
    "an error as a fraction of the prediction": (
        'row[f"{model}_us"] / row["measured_us"] - 1.0', 'row["measured_us"] / row[f"{model}_us"] - 1.0',
    ),
    "too long and too short exchanged": ('> worst["measured_us"] else "too short"', '< worst["measured_us"] else "too short"'),
    "the recording's break-even beside this machine's prices": (
        "calibration.here if part is sweep.here.value else calibration.there", "calibration.here",
    ),
    "a time that follows the size called constant": ('"same" if times < AS_LONG', '"same" if times < AS_LONG * sizes'),
    "the bottleneck always flips": ("same = first == last", "same = False"),
    "only a rise is a drift": ("abs(later / by[0] - 1.0)", "max(later / by[0] - 1.0, 0.0)"),
    "the ends of single blocks beside the medians of seconds": (
        "low, high, chance = min(by), max(by),", 'low, high, chance = numbers["low"], numbers["high"] + 7,',
    ),
    "chance called a drift": ("if high / low - 1 <= chance:", "if False:"),
    "a bend called a corner": ("< AS_LONG * first[", "< 100 * first["),
    "the winner not the option's": ("    }[_kind(part)]\n", '    }["max"]\n'),
    "one machine's meaning for both": ("_meaning(here) == means", "True"),
    "a recording judged as if it were live": ("judged_here(device, part.here, ", "judged_here(device, part.first, "),
    "a GPU's step as a sum": ('best = "sum" if on_cpu else "queue"', 'best = "sum"'),
    "an update of four tensors": ("for tensors in (2, TRANSFER_TENSORS - 2)]", "for tensors in (2, 2)]"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_lesson_is_found_out(fault, tmp_path):
    with pytest.raises(AssertionError):
        check_sentences(broken(lesson07, *FAULTS[fault], tmp_path))


# ------------------------------------------------------------------------------------------------ the cost profiler


CPU = Seed(Prices(1.1, 0.0, 11.0), "cpu", "made up · a CPU")
GPU = Seed(Prices(3.1, 4.2, 4370.0, gap_us=0.7), "cuda", "made up · a GPU")
SEEDS = {STOCK: Seed(Prices(), "cuda", "the texts' round figures: nobody's measurement"), "cpu": CPU, "gpu": GPU}


def widths(svg: str, colour: str) -> list[float]:
    """The widths, in pixels, of all bars of one colour."""
    return [float(w) for w in re.findall(rf'<rect x="[\d.]+" y="[\d.]+" width="([\d.]+)" height="\d+" fill="{colour}"', svg)]


def check_profiler(m) -> None:
    """The ledger's two worked figures on the stock settings, then every switch on random ones."""
    panel = m.profiler(SEEDS)
    picture, words = panel.shown
    rows = {row["what"]: row["now"] for row in picture.table.rows}
    assert rows["launches by the host"] == 5 and rows["bytes moved, in millions"] == "352" and rows["memory bar, µs"] == "107"
    assert "launch bar 50.0, memory bar 107: the bottleneck is memory" in words
    assert rows["queue, µs = the step's wall-time"] == "117", "the first launch, then memory all the way"
    (launch,), (memory,) = widths(picture.svg, m.theme.BLUE), widths(picture.svg, m.theme.ORANGE)
    assert launch / memory == pytest.approx(50 / 106.67, rel=1e-3), "the bars are to scale"
    picture, words = panel.fire("small", True)
    assert "launch bar 50.0, memory bar 0.107: the bottleneck is launches" in words and "16,000 elements" in picture.alt
    panel.fire("small", False)
    for name in ("capture", "fuse"):
        panel.fire("millions", RNG.randint(2, 200)), panel.fire("ops", RNG.randint(2, 60)), panel.fire("dtype", "fp32")
        before = panel.shown[0].table
        moved = (3 + 2 * panel.values["ops"]) * panel.values["millions"] * 4
        assert {row["what"]: row["now"] for row in before.rows}["bytes moved, in millions"] == m.significant(moved)
        picture, words = panel.fire(name, True)
        now, eager = ({row["what"]: row[key] for row in picture.table.rows} for key in ("now", "eager"))
        assert eager == {row["what"]: row["now"] for row in before.rows}, "beside it stands what it was"
        assert now["launches by the host"] == (1 if name == "capture" else 2) and picture.svg.count("stroke-dasharray") == (
            1 if name == "capture" else 2
        ), "dashed is what a bar has lost"
        assert (now["bytes moved, in millions"] == eager["bytes moved, in millions"]) is (name == "capture")
        assert ("nothing off the memory bar" in words) is (name == "capture")
        panel.fire(name, False)
    cpu = m.draw(Profile(prices=CPU.prices), CPU.label, "cpu")
    assert "By the sum the step takes" in cpu[1] and "nothing can be captured" in cpu[1] and "made up" in cpu[0].svg
    assert {row["what"] for row in cpu[0].table.rows} >= {"sum, µs = the step's wall-time", "queue, µs"}


def test_the_profiler_reproduces_the_two_worked_figures_and_shrinks_the_right_bar():
    check_profiler(cost_profiler)


def check_seeding(m) -> None:
    """One click sets the machine's three sliders, draws once, and says whose prices they are until one is moved."""
    panel = m.profiler(SEEDS)
    panel._repr_mimebundle_()
    panel.fire("millions", 40)
    draws = panel.draws
    picture, _ = panel.fire("prices", "gpu")
    assert panel.draws == draws + 1 and panel.message == "" and GPU.label in picture.alt and "set by hand" not in picture.alt
    assert {n: panel.values[n] for n in m.MACHINE} == pytest.approx({"dispatch": 3.1, "launch": 4.2, "bandwidth": 4370})
    assert {n: panel._widgets[n].value for n in m.MACHINE} == pytest.approx({"dispatch": 3.1, "launch": 4.2, "bandwidth": 4370})
    assert panel.values["millions"] == 40, "the step stays"
    assert "launch bar, µs" in picture.table.text() and f"Launch bar {m.significant(5 * 7.3)} for 5 launches" in picture.alt
    picture, _ = panel.fire("launch", 9.0)
    assert "set by hand: launch of a kernel" in picture.alt
    played = replace(GPU.prices, launch_us=9.0)
    assert f"queue {m.significant(Profile(elements=40e6, prices=played).totals()['queue'])}" in picture.alt, (
        "the gap stays the GPU's"
    )
    assert "set by hand" not in panel.fire("prices", "cpu")[0].alt and "By the sum" in panel.shown[1]
    far = Seed(Prices(900.0, 0.0, 2e5), "cuda", "beyond every slider")
    assert m.on_sliders(far) == {"dispatch": 60, "launch": 0, "bandwidth": 8000}


def test_one_click_seeds_the_sliders_with_a_machines_prices():
    check_seeding(cost_profiler)


def check_both(m) -> None:
    check_profiler(m)
    check_seeding(m)


PROFILER_FAULTS = {
    "dashed bars that hide the switches": ("return replace(profile, capture=False, fuse=False)", "return profile"),
    "a small model of full size": ("BYTES[dtype], prices, **switches)", "BYTES[dtype], prices, **switches | {'small': False})"),
    "the bottleneck of the shorter bar": ('"launches" if profile.bottleneck ==', '"launches" if profile.bottleneck !='),
    "fp32 of two bytes": ('"fp32": 4', '"fp32": 2'),
    "a queue for a CPU": ('"sum" if device == "cpu" else "queue"', '"queue"'),
    "a seed that keeps the old machine's gap": ("prices = replace(seed.prices, **", "prices = replace(Profile().prices, **"),
    "sliders that a click does not move": ("self._widgets[other].value = at", "pass"),
    "prices moved by hand under the machine's name": ('if abs(value - machine[name]) > 1e-9]', "if value < 0]"),
}  # fmt: skip


@pytest.mark.parametrize("fault", PROFILER_FAULTS)
def test_a_broken_profiler_is_found_out(fault, tmp_path):
    with pytest.raises(AssertionError):
        check_both(broken(cost_profiler, *PROFILER_FAULTS[fault], tmp_path))


def test_any_move_is_light_leaves_one_figure_and_is_never_drawn_by_matplotlib(monkeypatch):
    def slow(*args, **how):
        raise AssertionError("matplotlib is too slow for a slider")

    monkeypatch.setattr(figures, "_canvas", slow)
    panel = cost_profiler.profiler(SEEDS)
    panel._repr_mimebundle_()
    for _ in range(60):
        name, control = RNG.choice(list(panel.controls.items()))
        if isinstance(control, controls.slider):
            value = RNG.choice([control.low, control.high, round(RNG.uniform(control.low, control.high))])
        else:
            value = RNG.choice([True, False]) if isinstance(control, controls.switch) else RNG.choice(control.options)
        panel.fire(name, value)
        assert panel.message == "" and panel.values[name] == value
        page = panel._place.value
        assert page.count("<img") == page.count("<table") == 1 and len(page) < 60_000
    panel.fire("ops", 65)
    assert "is not a number from" in panel.message


# ------------------------------------------------------------------------------------------------ seeds


def test_seeds_are_the_texts_this_machines_and_every_recording_with_its_label(monkeypatch, tmp_path):
    kept = Study(
        "two_ceilings", "cuda", "2026-11-30T00:00:00+00:00", WHERE["cuda"], {"calibration": ceilings.calibration("cuda")}
    )
    monkeypatch.setattr(studies, "available", lambda name, folder=None: ["h200"] if name == "two_ceilings" else [])
    monkeypatch.setattr(studies, "load", lambda name, stem, folder=None: kept)
    monkeypatch.setattr(recordings, "available", lambda folder=None: [])
    monkeypatch.setattr(results, "latest_receipt", lambda device: None)
    only = price_seeds.seeds()
    assert list(only) == [STOCK, "recorded NVIDIA H200, h200"] and only[STOCK].prices == Prices()
    recorded = only["recorded NVIDIA H200, h200"]
    assert recorded.prices == two_ceilings.prices(kept.parts["calibration"]) and recorded.label.startswith("recorded")
    receipt = make_receipt()
    monkeypatch.setattr(results, "latest_receipt", lambda device: receipt)
    mine = price_seeds.seeds(both(ceilings.calibration()).here, "cpu")
    assert mine[price_seeds.NOW].label == HERE and mine[price_seeds.NOW].prices.gbps == 11.0
    assert mine[price_seeds.RECEIPT].prices.host_us == pytest.approx(1e-3 * receipt.total_ns)
    assert mine[price_seeds.RECEIPT].prices.gbps == 11.0 and "lesson 05" in price_seeds.RECEIPT


def test_a_receipts_last_stage_is_the_launch_on_a_gpu_only():
    for device in ("cpu", "cuda"):
        receipt = make_receipt(device=device)
        found = price_seeds.of_receipt(receipt, Prices(gap_us=0.5))
        assert found.host_us == pytest.approx(1e-3 * receipt.total_ns) and found.gap_us == 0.5
        launch = 1e-3 * receipt.stage("kernel").ns if device == "cuda" else 0.0
        assert found.launch_us == pytest.approx(launch)


def test_the_committed_recordings_are_seeds():
    names = list(price_seeds.seeds())
    for stem in recordings.available():
        known = any(stem in studies.available(name) for name, _ in price_seeds.BANDWIDTHS)
        assert any(stem in name for name in names) is known, stem


def test_a_damaged_recording_is_no_seed_and_says_so(monkeypatch):
    def damaged(*which):
        raise recordings.RecordingError("it is damaged")

    monkeypatch.setattr(studies, "available", lambda name, folder=None: ["h200"] if name == "two_ceilings" else [])
    monkeypatch.setattr(studies, "load", damaged)
    monkeypatch.setattr(recordings, "available", lambda folder=None: [])
    with pytest.warns(UserWarning, match="damaged"):
        assert list(price_seeds.seeds()) == [STOCK]


# ------------------------------------------------------------------------------------------------ live, recorded, nothing


def test_a_part_is_measured_here_and_read_from_a_recording_beside(monkeypatch):
    kept = Study(
        "two_ceilings",
        "cuda",
        "2026-11-30T00:00:00+00:00",
        WHERE["cuda"],
        {"drift": ceilings.drift("cuda")},
        {"flip": "it broke"},
    )
    monkeypatch.setattr(studies, "best", lambda name, device="cuda", folder=None: kept if device == "cuda" else None)

    def measure(device, progress):
        progress(0.5, "half")
        return ceilings.drift(device)

    def refuses(device, progress):
        raise MeasurementError("no clock")

    monkeypatch.setattr(two_ceilings, "IN_LESSON", {"drift": measure, "flip": refuses})
    found = study_here.both("two_ceilings", "drift", "cpu")
    assert found.here.live and found.there.value is kept.parts["drift"] and found.first is found.here
    gone = study_here.both("two_ceilings", "flip", "cpu")
    assert "no clock" in gone.here.why and "it broke" in gone.there.why
    assert "no CPU has been recorded" in study_here.recorded("two_ceilings", "drift", "cpu").why


@pytest.mark.parametrize("factor", [0.02, 0.5, 40.0])
def test_models_are_drawn_however_far_off(factor):
    rows = ceilings.models(off={"max": factor})["rows"]
    picture = ceiling_figures.models(rows, "Title", HERE)
    assert "predicted time / measured time" in picture.svg and picture.svg.count("ops on") == len(rows)


def test_a_case_says_once_what_it_repeats():
    assert ceiling_figures.short("add relu mul " * 8 + "on 512 fp32") == "8 × (add relu mul) on 512 fp32"
    assert ceiling_figures.short("40xadd on 512 fp32") == "40 × add on 512 fp32"
    long = "2xgelu scale add 3xrelu mul view exp sigmoid mm add view on 131,072 by 256² bf16 grad"
    assert ceiling_figures.short(long) == "14 ops of 9 kinds on 131,072 by 256² bf16 grad"


def test_of_many_cases_a_dozen_are_drawn_and_all_are_in_the_table():
    rows = [row | {"length": row["length"] + k} for k in range(4) for row in ceilings.models(off={"max": 0.5})["rows"]]
    picture = ceiling_figures.models(rows, "Title", HERE)
    assert picture.svg.count("ops on") == 12 and len(picture.table.rows) == 48 and "Drawn: 12 of 48" in picture.table.notes[1]
    lengths = [row["length"] for row in ceiling_figures.some(rows)]
    assert lengths == sorted(lengths) and lengths[0] == 1 and lengths[-1] == 67


def test_the_checks_of_the_lesson_are_green_on_a_sound_study_and_red_on_an_unsound_one():
    judged = lesson07.judged("cpu", **ceilings.study())
    assert expected.judge("two_ceilings.flip_ops", judged["flip"]).value == 1
    bad = lesson07.judged("cpu", flip=both(ceilings.flip(ops=(5, 1))))
    with pytest.raises(expected.ExpectationError):
        expected.expect("two_ceilings.flip_ops", bad["flip"])
