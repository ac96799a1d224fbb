"""Lesson 04: sentences that stay true whatever a GPU, a recording or a missing one gives; lanes, sliders and their model.

What the lesson says is in `utils/show/lesson04.py`. `check_sentences(module)` holds every sentence against the part it was made
from, on parts made in code where the usual order is turned round; the planted faults are that module with one piece of its
logic broken, and the same check must go red on each.
"""

from __future__ import annotations

import random
import re
from dataclasses import replace

import pytest

from tests import launches
from tests.broken import broken
from tests.factories import WHERE, make_race
from tests.launches import LABEL, found, nothing
from utils.measure import launch, launch_here
from utils.measure.device_clock import MeasurementError
from utils.measure.queue_lanes import describe, simulated_lanes
from utils.measure.simulated import SimulatedDevice, VirtualClock
from utils.measure.study import Part
from utils.measure.trace import dispatch_trace
from utils.model import expected, ledger, studies
from utils.model.studies import Study
from utils.show import figures, lanes_figure, lesson04, queue_explorer
from utils.show.lanes_figure import Lanes

RNG = random.Random(4)
SLOW = simulated_lanes(5.0, 20.0)
FAST, WAITED = simulated_lanes(), simulated_lanes(kernel_us=20.0, n=300, sync_every=1)


@pytest.fixture(scope="module")
def traced() -> dict:
    import torch

    h = torch.randn(64)
    return lesson04.trace_lines(dispatch_trace, {"h": h, "loss": h.square().mean()})


def blocking(back: float, n: int = 100) -> dict:
    """A case in which each call returns so far into its kernel (0: as it begins, 1: as it ends), as where launches block."""
    before, after, starts, ends = [], [], [], []
    for i in range(n):
        before.append(30_000 * i)
        starts.append(before[-1] + 4_000)
        ends.append(starts[-1] + 20_000)
        after.append(starts[-1] + round(20_000 * back) + (1 if back else -100))
    return describe(before, after, starts, ends, label="measured", what="blocking launches", kernel_us=20.0, sync_every=0)


def with_slow(case: dict) -> dict:
    return {**launches.lanes(), "slow": case}


def without(race, *names: str):
    return replace(race, readings={n: r for n, r in race.readings.items() if n not in names})


# ------------------------------------------------------------------------------------------------ the sentences


def check_sentences(m) -> None:
    check_lanes(m)
    check_prices(m)
    check_readings(m)
    check_waits(m)
    check_deeper(m)
    check_judged(m)
    check_end(m)


def check_lanes(m) -> None:
    real = found(launches.lanes())
    right, said = m.returned(real, SLOW)
    assert right == m.RETURN_ANSWERS["queued"][1]
    assert LABEL in str(said) and "simulated queue" in str(said) and "there is no GPU here" in str(said)
    for back, kind in ((0.0, "queued"), (0.5, "begun"), (1.0, "ended")):
        assert m.returned(found(with_slow(blocking(back))), SLOW)[0] == m.RETURN_ANSWERS[kind][1], back
    assert m.returned(nothing(), blocking(1.0))[0] == m.RETURN_ANSWERS["ended"][1]
    assert "Not measured: the lanes of a GPU" in str(m.returned(nothing(), SLOW)[1])

    numbers = launches.lanes()["slow"]["numbers"]
    right, said = m.filled(real, SLOW)
    assert right == m.FULL_ANSWERS["waits"][1]
    assert f"launch {numbers['fills_at']:,}" in str(said) and f"most {numbers['depth_max']:,}" in str(said)
    assert f"{numbers['fills_at'] - numbers['depth_max']:,} kernels had ended" in str(said)
    assert "the step to the next one 1.00 µs" in str(m.filled(nothing(), SLOW)[1])
    never = launches.lanes_case(2.1, 20.0, 500)
    assert never["numbers"]["fills_at"] is None
    right, said = m.filled(found(with_slow(never)), SLOW)
    assert right == m.FULL_ANSWERS["endless"][1] and "never filled" in str(said)

    assert m.pace()[0] == m.PACE_ANSWERS["same"][1]
    assert m.pace(kernel_us=40.0)[0] == m.PACE_ANSWERS["half"][1]
    told = m.cases_table(real).rows
    assert [row["full"] == "–" for row in told] == [True, False, True]
    shown = m.lane_figures(real, SLOW) + m.other_lanes(real) + m.call_figures(real, SLOW)
    assert [LABEL in p.alt for p in shown] == [True, False, True, True, True, False]
    assert all((LABEL in p.alt) != ("simulated queue" in p.alt) for p in shown), "whose lanes they are"
    assert len(m.lane_figures(nothing(), SLOW)) == len(m.call_figures(nothing(), SLOW)) == 1
    assert m.other_lanes(nothing()) == [] and m.cases_table(nothing()) is None


def check_prices(m) -> None:
    floor = found(launches.floor())
    race = floor.value
    said = str(m.launch_share(floor))
    share = 100 * race["empty launch"].ns / race["c = a + b"].ns
    assert abs(float(re.search(r"(\d+(?:\.\d+)?) %", said)[1]) - share) <= 0.5 and LABEL in said
    assert f"{race['launch and wait'].ns / race['empty launch'].ns:.1f} times the launch alone" in said
    assert "by torch's own code" in said
    assert "by torch's own code" not in str(m.launch_share(found(without(race, "launch by torch")))), "a torch without it"
    assert "Not measured: what a launch costs" in str(m.launch_share(nothing()))
    assert "empty loop" not in m.race_view(floor, "Floor")[0].alt and m.race_view(nothing(), "Floor") == []

    for changes, kind in (
        ({}, "pair"),
        ({"graph node": 30_000.0}, "graph"),
        ({"profiler": 30_000.0}, "profiler"),
        ({"event pair": 1000.0, "graph node": 1000.0, "profiler": 1000.0}, "agree"),
    ):
        assert m.clocks(found(launches.small_kernel(**changes)))[0] == m.CLOCK_ANSWERS[kind][1], kind
    gone = without(launches.small_kernel(), "profiler")
    right, said = m.clocks(found(gone))
    assert right == m.CLOCK_ANSWERS["pair"][1] and "the profiler: not measured" in str(said)
    assert m.clocks(nothing())[0] is None and "Not measured" in str(m.clocks(nothing())[1])

    clock = launches.sm_clock()
    said = str(m.sm_clock(found(clock)))
    for words in (
        "nvidia-smi read 345 MHz",
        "first kernel saw 345 MHz",
        "later ones 1,980 MHz, after 9.6 ms.",
        "1,500 MHz, 24 % lower",
    ):
        assert words in said
    assert "1,200 MHz idle, 1,530 MHz busy" in said
    steady = {**clock["numbers"], "first_mhz": 1980.0, "ramp_ms": 0.0, "gemm_mhz": 1975.0, "smi_untouched_mhz": None}
    said = str(m.sm_clock(found({**clock, "numbers": steady})))
    assert (
        "about the same" in said
        and "a pause did not slow the clock" in said
        and "MHz, after" not in said
        and "Before this process" not in said
    )
    assert len(re.findall("after a pause", m.clock_figure(found(clock)).alt)) == 1
    assert m.clock_figure(nothing()) is None and "Not measured" in str(m.sm_clock(nothing()))


def check_readings(m) -> None:
    for read, kind in ((100.0, "full"), (0.0, "none"), (1.0, "share")):
        right, said = m.one_sm(found(launches.utilisation(one_sm=read)))
        assert right == m.ONE_SM_ANSWERS[kind][1] and "1 of 132 SMs" in str(said), read
    assert m.one_sm(nothing())[0] is None
    assert "the lower the reading" in str(m.reads_low(found(launches.utilisation())))
    level = {name: 97.0 for name in ("tiny", "tiny_10us", "tiny_100us", "eager")}
    assert "did not tell" in str(m.reads_low(found(launches.utilisation(**level))))
    picture = m.utilisation_figure(found(launches.utilisation(gemm=88.0)))
    assert "88.0 %" in picture.alt and "88.0 %" in picture.table.text() and "not known" in picture.alt
    assert m.utilisation_figure(nothing()) is None and "Not measured" in str(m.reads_low(nothing()))

    part = launches.occupancy()
    said = str(m.occupancy(found(part)))
    assert f"{100 * 4 / (132 * 64):.2g} %" in said and "100 % of the warps" in said
    assert len(m.occupancy_tables(found(part))) == 2 and m.occupancy_tables(nothing()) == []
    said = str(m.occupancy(found({**part, "kernels": [], "why": ["nothing from the profiler: it did not start"]})))
    assert "Nothing from the profiler" in said and "seen on 1 SM" in said
    assert "Not measured" in str(m.occupancy(nothing()))


def check_waits(m) -> None:
    lines = {line: dispatch(["aten::item", "aten::_local_scalar_dense"]) for line in m.ASKING}
    lines |= {line: dispatch(["aten::sum"]) for line in m.QUIET}
    codes = [row["code"] for row in launches.hidden_syncs()["rows"][1:]]
    for waiting, kind in (
        ((), "none"),
        (("loss.item()",), "item"),
        (("loss.item()", "print(loss)"), "several"),
        (tuple(codes), "all"),
    ):
        right, said = m.waiting(found(launches.hidden_syncs(waiting)), lines)
        assert right == m.WAITING_ANSWERS[kind][1], kind
        assert "(nothing)" not in str(said)
    said = str(m.waiting(found(launches.hidden_syncs()), lines)[1])
    assert "without such a line" in said and "1.26 ms" in said and "1.21 ms" in said
    right, said = m.waiting(nothing(), lines)
    assert right == m.WAITING_ANSWERS["several"][1] and "Not measured" in str(said) and "print(loss)" in str(said)
    assert "each of them would wait" in str(said)
    calm = {line: dispatch(["aten::sum"]) for line in lines}
    assert "would wait" not in str(m.waiting(nothing(), calm)[1])
    assert m.waiting(nothing(), calm)[0] == m.WAITING_ANSWERS["none"][1]
    assert [bool(ops) for ops in m.read_outs(lines).values()] == [True] * len(m.ASKING) + [False] * len(m.QUIET)
    without, waited = m.sync_figures(found(launches.hidden_syncs()))
    assert "without a line" in without.alt and "Steps with loss.item()" in waited.alt and m.sync_figures(nothing()) == []
    assert LABEL in waited.svg, "whose steps they are stands in the figure"
    rows = m.syncs_table(found(launches.hidden_syncs())).rows
    assert [row["idle"] is None for row in rows] == [True, False, False, False, False, True]
    assert m.judged_lines(lines) == {"device": "cpu", "asking": len(m.ASKING), "asking seen": len(m.ASKING), "quiet seen": 0}


def check_deeper(m) -> None:
    for ratio, kind in ((1.0, "same"), (1.85, "more"), (0.5, "less")):
        assert m.threads(found(launches.gil_threads(ratio)))[0] == m.THREAD_ANSWERS[kind][1], ratio
    assert "no more done than one" in str(m.threads(found(launches.gil_threads(2.2)))[1])
    assert "no more done than one" not in str(m.threads(found(launches.gil_threads(1.8)))[1])
    assert "no such lock" in str(m.threads(found(launches.gil_threads(1.0, gil=0.0)))[1])
    assert m.threads(nothing())[0] is None and m.threads_table(nothing()) is None
    assert "the second thread cost 1.80 µs" in str(m.openmp(found(launches.openmp())))
    assert "not seen in this run" in str(m.openmp(found(launches.openmp(seen=0.0))))
    assert "its core was taken" in str(m.openmp(found(launches.openmp(wake=14_600.0))))
    slower = launches.openmp()
    slower["numbers"]["far_2_us"] = 900.0
    assert "no faster than one" in str(m.openmp(found(slower)))
    slower["numbers"]["far_2_us"] = 0.99 * slower["numbers"]["far_1_us"]
    assert "no faster than one" in str(m.openmp(found(slower)))
    assert m.openmp_table(nothing()) is None and "Not measured" in str(m.openmp(nothing()))
    said = str(m.first_calls(found(launches.first_calls())))
    assert "“context” with 240 ms" in said and "4.00 ms the first time and 20.0 µs the second" in said
    busy = {"steps": [["first x @ x", 1e7], ["second x @ x", 3e7], ["third x @ x", 2e7]], "numbers": {}}
    assert "was “first x @ x”" in str(m.first_calls(found(busy))) and "no price of a first call" in str(
        m.first_calls(found(busy))
    )
    assert "no price of a first call" not in said
    table = m.first_table(found(launches.first_calls()))
    assert "eager" in table.columns and m.first_table(nothing()) is None
    alone = m.first_table(
        found({**launches.first_calls(), "eager": [], "why": "not with everything loaded", "notes": ["one thread"]})
    )
    assert "eager" not in alone.columns and list(alone.notes[1:]) == ["one thread", "not with everything loaded"]


def check_judged(m) -> None:
    here = m.judged(found(launches.lanes(), live=True), FAST, SLOW, WAITED)
    kept = m.judged(found(launches.lanes()), FAST, SLOW, WAITED)
    none = m.judged(nothing(), FAST, SLOW, WAITED)
    assert here["device"] == "cuda" and kept == none and none["device"] == "simulated"
    assert here["ahead"] == pytest.approx(1e3 * launches.lanes()["slow"]["numbers"]["host_ahead_us"])
    for thing in (here, none):
        for metric in ("run_ahead", "back_pressure", "host_pace", "waited", "order"):
            assert expected.judge(f"launch.{metric}", thing).holds, (thing["device"], metric)
    early = launches.lanes()
    points = early["synchronised"]["points"]
    for by, holds in ((5_000_000, False), (5_000, True)):  # the first launch's kernel begins 4.6 µs after its call
        early["synchronised"]["points"] = {**points, "start_ns": [ns - by for ns in points["start_ns"]]}
        assert expected.judge("launch.order", m.judged(found(early, live=True), FAST, SLOW, WAITED)).holds is holds
    recorded = m.judged_floor(found(launches.floor()))
    assert expected.judge("launch.floor_share", recorded).note.startswith("not measured here")
    assert expected.judge("launch.floor_share", m.judged_floor(found(launches.floor(), live=True))).value == pytest.approx(
        launches.floor()["empty launch"].ns / launches.floor()["c = a + b"].ns
    )
    for judged, part, metric in (
        (m.judged_threads, launches.gil_threads(), "threads"),
        (m.judged_openmp, launches.openmp(), "openmp"),
        (m.judged_first, {"steps": [["first a + b", 5e5], ["third a + b", 4e3]], "numbers": {}}, "first_call"),
    ):
        assert expected.judge(f"launch.{metric}", judged(found(part, live=True))).value is not None
        for other in (found(part), nothing()):
            assert "not measured here" in expected.judge(f"launch.{metric}", judged(other)).note


def check_end(m) -> None:
    race = make_race(prices={"a + b": 1200.0})
    assert "Nothing predicted yet" in str(m.transfer(None, race))
    near, far = m.transfer(610.0, race), m.transfer(1200.0, race)
    assert "Near enough" in near.notes[0] and "More than 10 %" in far.notes[0]
    assert [row["us"] for row in near.rows][1] == "600 µs", "the kernel is the larger of the two here"
    dear = m.transfer(1400.0, make_race(prices={"a + b": 7000.0}))
    assert "Near enough" in dear.notes[0] and float(dear.rows[1]["us"].split()[0]) == pytest.approx(1.4, rel=0.02)
    waited = [float(row["us"].split()[0].replace(",", "")) for row in near.rows]
    assert waited[3] > waited[2], "waiting after every ten launches costs"
    assert "1.2" in str(m.own_price(race))
    table = m.verdicts({"gil_threads": found(launches.gil_threads(), live=True), "floor": nothing()})
    assert [row["id"] for row in table.rows] == [c.id for c in ledger.claims("launch")]
    both = m.verdicts({"gil_threads": found(launches.gil_threads(), live=True), "floor": found(launches.floor(), live=True)})
    yours = {row["id"]: row["yours"] for row in both.rows}
    assert yours["C04"] == "1.85 ×" and yours["A14"].startswith("2.1") and yours["A09"] == "not measured"
    kept = m.verdicts({"floor": found(launches.floor())})
    assert {row["yours"] for row in kept.rows} == {"not measured"}, "a recording is nobody's own"
    own = {name: found(part, live=True) for name, part in (("lanes", launches.lanes()), ("utilisation", launches.utilisation()))}
    yours, full = {row["id"]: row["yours"] for row in m.verdicts(own).rows}, launches.lanes()["slow"]["numbers"]["fills_at"]
    assert yours["A21"] == f"a call 2.15 µs, its kernel 20.0 µs; queue full at launch {full:,}"
    assert "one block spins on one SM 100 %" in yours["A32"] and yours["A48"] == "100 % read, on 0.76 % of the SMs"


def dispatch(ops: list[str]):
    from tests.traces import op_run, traced

    return traced(ops=tuple(op_run(name.removeprefix("aten::")) for name in ops))


def test_every_sentence_is_true_on_data_that_surprises():
    check_sentences(lesson04)


def test_the_lines_that_ask_are_told_from_those_that_do_not_on_this_torch(traced):
    found_here = lesson04.judged_lines(traced)
    assert expected.judge("launch.read_outs", found_here).holds
    table = lesson04.waits_table(traced)
    assert [row["op"] == "none" for row in table.rows] == [False] * len(lesson04.ASKING) + [True] * len(lesson04.QUIET)


def test_yours_and_recorded_stand_in_the_verdict_table(monkeypatch):
    parts = {"floor": launches.floor(), "small_kernel": launches.small_kernel()}
    kept = Study("launch", "cuda", "2026-11-30T00:00:00+00:00", WHERE["cuda"], parts)
    monkeypatch.setattr(studies, "best", lambda name, device="cuda", folder=None: kept if device == "cuda" else None)
    table = lesson04.verdicts({"gil_threads": found(launches.gil_threads(1.85), live=True)})
    row = {row["id"]: row for row in table.rows}
    assert row["A14"]["recorded"].startswith("2.1") and row["A14"]["yours"] == "not measured"
    assert row["A21"]["recorded"] == row["A21"]["yours"] == "not measured", "this recording has no lanes"
    assert row["C04"]["yours"] == "1.85 ×" and any("NVIDIA H200" in note for note in table.notes)


# ------------------------------------------------------------------------------------------------ live, recorded, nothing


def test_a_part_is_live_on_a_gpu_recorded_elsewhere_and_words_where_there_is_none(monkeypatch):
    kept = Study("launch", "cuda", "2026-11-30T00:00:00+00:00", WHERE["cuda"], {"floor": launches.floor()}, {"lanes": "it broke"})
    monkeypatch.setattr(studies, "best", lambda name, device="cuda", folder=None: kept if device == "cuda" else None)
    here = launch_here.part("floor", "cpu")
    assert here.value is kept.parts["floor"] and not here.live and here.label.startswith("recorded · NVIDIA H200")
    assert here.why == "there is no GPU here"
    gone = launch_here.part("lanes", "cpu")
    assert gone.value is None and "it broke" in gone.why and "there is no GPU here" in gone.why
    monkeypatch.setitem(launch.PARTS, "floor", Part(lambda device, progress: {"on": device}, ("cuda",)))
    monkeypatch.setattr(launch, "IN_LESSON", {"floor": lambda device, progress: {"on": device}}, raising=False)
    live = launch_here.part("floor", "cuda")
    assert live.value == {"on": "cuda"} and live.live and live.label.startswith("live")

    def refuses(device, progress):
        raise MeasurementError("no compiler")

    monkeypatch.setitem(launch.PARTS, "floor", Part(refuses, ("cuda",)))
    monkeypatch.setattr(launch, "IN_LESSON", {"floor": refuses}, raising=False)
    refused = launch_here.part("floor", "cuda")
    assert refused.value is kept.parts["floor"] and not refused.live and "no compiler" in refused.why
    monkeypatch.setattr(studies, "best", lambda *args, **how: None)
    nowhere = launch_here.part("floor", "cuda")
    assert nowhere.value is None and "no compiler" in nowhere.why and "no GPU has been recorded" in nowhere.why
    with pytest.raises(KeyError):
        launch_here.part("no such part", "cpu")


# ------------------------------------------------------------------------------------------------ lanes to scale


def settings() -> dict:
    """One random position of the sliders."""
    return {
        name: control.low + control.step * RNG.randrange(round((control.high - control.low) / control.step) + 1)
        for name, control in queue_explorer.explorer().controls.items()
    }


def test_the_sliders_queue_is_the_simulated_device_step_by_step():
    for _ in range(20):
        at = settings()
        lanes = queue_explorer.simulate(
            at["launch_us"], at["kernel_us"], gap_us=at["gap_us"], depth=at["depth"], sync_every=at["sync_every"]
        )
        device = SimulatedDevice(launch_us=at["launch_us"], gap_us=at["gap_us"], depth=at["depth"], clock=VirtualClock())
        for number, ((called, back), (_, ended)) in enumerate(zip(lanes.calls, lanes.device, strict=True), 1):
            assert device.clock() * 1e-3 == pytest.approx(called, abs=0.01)
            device.launch(at["kernel_us"])
            assert device.clock() * 1e-3 == pytest.approx(back, abs=0.01)
            assert device.busy_until * 1e-3 == pytest.approx(ended, abs=0.01)
            if at["sync_every"] and number % at["sync_every"] == 0:
                device.synchronize()


def check_lanes_figure(m, explorer) -> None:
    """Run-ahead, back-pressure and waiting, as the lanes tell them."""
    free = explorer.simulate(2.0, 10.0)
    assert free.ahead == 6 and free.spent("full") == free.spent("wait") == 0 and free.most_queued == 33
    assert free.end == pytest.approx(2.0 + 40 * 10.0)
    full = explorer.simulate(2.0, 10.0, depth=4)
    assert full.most_queued == 4 and full.spent("full") > 0 and full.end == pytest.approx(free.end)
    assert full.spent("launch") == pytest.approx(80.0) == free.spent("launch")
    paced = explorer.simulate(10.0, 2.0)
    assert paced.end == pytest.approx(402.0) and len(paced.idle) == 40 and paced.busy == pytest.approx(80.0)
    waited = explorer.simulate(2.0, 10.0, sync_every=1)
    assert waited.spent("wait") > 0 and waited.ahead == 1 and waited.most_queued == 1
    gaps = explorer.simulate(2.0, 10.0, gap_us=3.0)
    assert gaps.end == pytest.approx(free.end + 39 * 3.0) and gaps.spent("wait") == 0
    for lanes in (free, full, paced, waited):
        picture = m.figure(lanes, "Title")
        assert "simulated queue" in picture.alt and "stroke-dasharray" in picture.svg and "40 launches" in picture.alt
        assert f"at most {lanes.most_queued} in the queue" in picture.alt
        assert len(picture.table.rows) == 40 and picture.svg.count("<rect") >= 80
        assert ("host waits: queue full" in picture.svg) == (lanes.spent("full") > 0)
        assert ("host waits for the device" in picture.svg) == (lanes.spent("wait") > 0)


def test_lanes_tell_running_ahead_back_pressure_gaps_and_waits():
    check_lanes_figure(lanes_figure, queue_explorer)


def test_lanes_of_a_gpu_are_cut_labelled_and_have_no_frame():
    lanes = lesson04.lanes_of(launches.lanes()["slow"], LABEL)
    picture = lanes_figure.figure(lanes, "Launches")
    assert "the first 24 of 3,000 launches" in picture.alt and LABEL in picture.svg and LABEL in picture.table.text()
    assert "stroke-dasharray" not in picture.svg and "in the queue" not in picture.alt
    waited = lesson04.lanes_of(launches.lanes()["synchronised"], LABEL)
    assert waited.spent("wait") > 20 * 20, "the host's wait stands in its lane"


def test_lanes_without_a_launch_for_each_kernel_are_refused():
    with pytest.raises(ValueError, match="2 launches and 1 kernels"):
        Lanes(((0, 1, "launch"), (1, 2, "launch")), ((1, 2),), "")
    with pytest.raises(ValueError, match="no lanes of 1 launches"):
        queue_explorer.simulate(5.0, 2.0, launches=1)


@pytest.mark.parametrize("far", [0.004, 0.9, 7.0, 202.0, 12_345.0, 8e6])
def test_ticks_are_few_round_and_reach_the_end(far):
    ticks = lanes_figure.ticks(far)
    assert 3 <= len(ticks) <= lanes_figure.TICKS + 1 and ticks[0] == 0 and ticks[-1] <= far * (1 + 1e-9)
    assert {f"{tick:.9e}"[0] for tick in ticks[1:2]} <= set("125") and far - ticks[-1] < ticks[1] * (1 + 1e-9)


# ------------------------------------------------------------------------------------------------ the sliders


def test_however_the_sliders_move_there_is_one_labelled_figure_with_its_twin(monkeypatch):
    def slow(*args, **how):
        raise AssertionError("matplotlib is too slow for a slider")

    monkeypatch.setattr(figures, "_canvas", slow)
    panel = queue_explorer.explorer()
    panel._repr_mimebundle_()
    for _ in range(25):
        name, value = RNG.choice(list(settings().items()))
        picture, words = panel.fire(name, value)
        assert panel.message == "" and panel.values[name] == value
        page = panel._place.value
        assert page.count("<img") == page.count("<table") == 1 and "simulated" in picture.alt and "In µs: all 40 take" in words
        assert len(page) < 120_000, "a move must stay light"


@pytest.mark.parametrize("name", ["launch_us", "kernel_us", "gap_us", "depth", "sync_every"])
def test_each_slider_changes_the_figure_and_refuses_the_impossible(name):
    panel = queue_explorer.explorer()
    for other, value in {"kernel_us": 20, "depth": 4}.items():
        panel.fire(other, value)
    control = panel.controls[name]
    low, high = (panel.fire(name, value)[0].svg for value in (control.low, control.high))
    assert low != high
    panel.fire(name, control.high + 1)
    assert "is not a number from" in panel.message and panel.values[name] == control.high


def test_the_words_under_the_sliders_name_who_sets_the_pace():
    said = {
        "host": queue_explorer.words(queue_explorer.simulate(5.0, 2.0)),
        "device": queue_explorer.words(queue_explorer.simulate(2.0, 5.0)),
        "full": queue_explorer.words(queue_explorer.simulate(2.0, 20.0, depth=4)),
        "waits": queue_explorer.words(queue_explorer.simulate(2.0, 20.0, sync_every=5)),
    }
    assert "the host sets the pace" in said["host"] and "the device sets the pace" in said["device"]
    assert "for a place in the queue" in said["full"] and "Waiting for the device costs the host" in said["waits"]
    assert "for a place" not in said["waits"] and "Waiting" not in said["full"]


# ------------------------------------------------------------------------------------------------ planted faults

FAULTS = {
    "every launch told as queued": ('"queued" if back <= began else', '"queued" if True else'),
    "a queue that never filled told as full": (
        'kind = "endless" if cases[0][0]["numbers"]["fills_at"] is None else "waits"',
        'kind = "waits"',
    ),
    "the recording judged as if it had run here": (
        "here = found.live and found.value is not None",
        "here = found.value is not None",
    ),
    "a recorded floor judged as live": ("if not found.live or found.value is None:", "if found.value is None:"),
    "recorded threads judged as live": (
        "    if found.live and found.value is not None:\n        return {name",
        "    if found.value is not None:\n        return {name",
    ),
    "the pair is the longest whatever the clocks say": (
        '"agree" if seen[longest] <= AGREE * seen[shortest] else longest',
        '"pair"',
    ),
    "clocks that agree told apart": ('"agree" if seen[longest] <= AGREE * seen[shortest] else longest', "longest"),
    "one SM reads full whatever was read": ('"none" if read < 0.5 else "full" if read > 50 else "share"', '"full"'),
    "a level reading told as falling": ('if rows[0]["utilisation"] > 50 > rows[-1]["utilisation"]', "if True"),
    "the whole over the launch": ("{format_share(empty, whole)} ({found", "{format_share(whole, empty)} ({found"),
    "only .item() counted as a wait": ('"item" if _only_item(waits) else "several"', '"item"'),
    "the line that waits left out": ('if row["waits"]]\n        calm', 'if not row["waits"]]\n        calm'),
    "a mask's shape told as no read-out": ('"aten::_local_scalar_dense", ', ""),
    "threads told to be free": ('"more" if n["ratio"] > OTHER_WAY else', '"more" if False else'),
    "a wake that is inside the error told as seen": ('elif n["wake_seen"]:', "elif True:"),
    "kernels that began too early not counted": ("began < called - error", "began < called - 1e12"),
    "the clocks' own error taken for a kernel too early": ("began < called - error", "began < called"),
    "the host price forgotten in the rule": ("max(price, TRANSFER_KERNEL_US)", "TRANSFER_KERNEL_US"),
    "a recording told as yours": ("if one.live and one.value is not None}, machine", "if one.value is not None}, machine"),
    "any guess is near enough": ("<= 0.1 * lanes.end", "<= 10 * lanes.end"),
    "the simulated queue shown under the GPU's label": (
        "launch_figures.calls(simulated, queue_explorer.LABEL)",
        "launch_figures.calls(simulated, found.label)",
    ),
    "a missing part passes in silence": ('f"Not measured: {what}; {found.why', 'f"{what}; {found.why'),
    "the import told as a first call": ("if not step[0].startswith(NOT_FIRST)", "if True"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_in_the_lessons_logic_go_red(fault, tmp_path):
    wrong = broken(lesson04, *FAULTS[fault], tmp_path)
    with pytest.raises((AssertionError, pytest.fail.Exception, ValueError, KeyError, IndexError, StopIteration)):
        check_sentences(wrong)


LANE_FAULTS = {
    "a full queue's wait drawn as launching": ("end - start > 1.02 * price_us", "False"),
    "the wait for the device left out": ("if waits and host and", "if False and"),
    "kernels that end left in the queue": ("(end, -1)", "(end, 0)"),
    "every launch counted as ahead": ("end <= self.device[0][1] for _, end", "True for _, end"),
    "the first launch's way counted as no idling": ("edges = [(0.0, 0.0), *sorted(self.device)]", "edges = sorted(self.device)"),
    "the simulated frame lost": ("if lanes.simulated else", "if False else"),
}


@pytest.mark.parametrize("fault", LANE_FAULTS)
def test_planted_faults_in_the_lanes_go_red(fault, tmp_path):
    from types import SimpleNamespace

    wrong = broken(lanes_figure, *LANE_FAULTS[fault], tmp_path)

    def simulate(launch_us, kernel_us, **how):
        right = {"gap_us": 0.0, "depth": 1024, "sync_every": 0} | how
        case = simulated_lanes(launch_us, kernel_us, right["gap_us"], right["depth"], 40, right["sync_every"] or None)
        how = {"price_us": launch_us, "full_from": 0, "waits": bool(right["sync_every"]), "simulated": True}
        return wrong.Lanes.of(case["points"], queue_explorer.LABEL, **how)

    with pytest.raises((AssertionError, ValueError)):
        check_lanes_figure(wrong, SimpleNamespace(simulate=simulate))
