"""The picture of a trace: lanes to scale, a table that says the same, alt text, and no illness named in it."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from tests.made_traces import ILL, Made, a_trace, chain, product, small
from utils.model import sick_traces
from utils.model.diagnosis import diagnose, key
from utils.model.trace_features import features
from utils.show import trace_lanes
from utils.show.trace_lanes import KINDS, diagnosis_table, features_table, figure, lanes

ALL = [(name, device) for name in ILL for device in ("cpu", "cuda") if a_trace(name, device) is not None]


@pytest.mark.parametrize(("name", "device"), ALL)
def test_every_trace_is_drawn_small_with_alt_text_and_a_table_that_say_the_same(name, device):
    picture = figure(a_trace(name, device, 2), "case 1", "made up")
    svg, alt = picture.svg, picture.alt
    assert svg.startswith("<svg") and svg.endswith("</svg>") and len(svg) < 120_000 and "nan" not in svg
    lanes_wanted = ["host", "calls", "device"] if device == "cuda" else ["host"]
    assert all(f">{lane}</text>" in svg for lane in lanes_wanted) and "case 1" in alt and "made up" in alt
    shares = dict(re.findall(r"(?:: |, )([\w ,-]+?) (\d+)%", alt))
    rows = {row["what"]: row["share"] for row in picture.table.rows if "share" in row}
    assert all(f"{share}%" in rows[words] or words not in rows for words, share in shares.items() if words in rows)
    assert {row["lane"] for row in picture.table.rows} == set(lanes_wanted)


@pytest.mark.parametrize(("name", "device"), ALL)
def test_the_picture_names_no_illness(name, device):
    picture = figure(a_trace(name, device, 2), "case 1")
    told = picture.text() + picture.svg
    assert all(entry.name not in told and entry.id not in told for entry in key().values())


def test_kinds_that_stand_in_one_lane_are_told_apart_without_colour():
    """By hatch, but for those that never share a lane with another plain one of the same grey."""
    hatches = [(k, KINDS[k][2]) for k in ("product", "elementwise", "copy", "fill", "read_out", "loader", "compile")]
    assert len({h for _, h in hatches}) == len(hatches)
    assert len({KINDS[k][2] for k in ("launch", "wait", "capture", "memory")}) == 4
    assert all(not h or f'id="{h}"' in trace_lanes._PATTERNS for _, _, h in KINDS.values())


def test_lanes_are_to_scale_and_count_what_lies_on_each_other_once():
    t = Made("cpu", 1)
    t.about = lambda us: us
    with t.step():
        with t.spanning("cpu_op", "aten::linear"):
            t.op("aten::addmm", 100.0)
            t.now -= 1.5
        t.python(100.0)
    found = lanes(t.events())
    assert found.us == pytest.approx(200) and found.total("host", "product") == pytest.approx(100)
    assert sum(s.end - s.start for s in found.lanes["host"]) == pytest.approx(100)
    assert figure(t.events()).table.rows[-1] == {"lane": "host", "what": "nothing named", "us": "100", "share": "50%"}


def test_the_work_of_a_step_is_what_its_own_calls_started():
    t = Made("cuda", 1)
    for _ in range(3):
        with t.step():
            chain(t, 2, 3000.0)
    for step in range(3):
        found = lanes(t.events(), step)
        assert len(found.lanes["device"]) == 2 and found.step == step and found.steps == 3
    assert lanes(t.events(), 2).us > 15_000, "the queue still holds the steps before"


@pytest.mark.parametrize(("name", "device"), ALL)
def test_no_span_leaves_its_step(name, device):
    for step in range(3):
        found = lanes(a_trace(name, device, 6), step)
        for lane, spans in found.lanes.items():
            assert all(-1e-6 <= s.start <= s.end <= found.us + 0.01 for s in spans), (lane, step)
            if lane != "device" or name != "recaptures":  # a graph's kernels are one span each, and touch
                assert all(a.end <= b.start + 0.01 for a, b in pairwise(spans)), lane


def test_the_step_shown_is_the_one_of_median_length_and_another_can_be_asked_for():
    t = Made("cpu", 1)
    for us in (900.0, 100.0, 500.0):
        with t.step():
            product(t, us=us, dtype="float")
    assert lanes(t.events()).step == 2 and lanes(t.events(), 1).us < 200
    with pytest.raises(IndexError):
        lanes(t.events(), 3)
    unmarked = [e for e in t.events() if "ProfilerStep" not in e["name"]]
    assert lanes(unmarked).us > 1400 and "the whole trace" in figure(unmarked).alt
    with pytest.raises(IndexError, match="no step is marked"):
        lanes(unmarked, 1)
    with pytest.raises(ValueError, match="without an event"):
        lanes([])


def test_thousands_of_small_spans_are_drawn_as_few():
    t = Made("cpu", 1)
    with t.step():
        small(t, 5000)
    picture = figure(t.events())
    assert picture.svg.count("<rect") < 2500
    assert sum(row.get("n", 0) for row in picture.table.rows) >= 5000


def test_names_from_a_trace_are_text_and_no_markup():
    t = Made("cuda", 1)
    with t.step():
        t.op("<script>alert(1)</script>", 500.0, kernel="void f<&a, 'b'>()<i>", kernel_us=900.0)
    told = figure(t.events(), "<b>title</b>", "<i>label</i>")._repr_html_()
    assert "<script>" not in told and "<b>" not in told and "<i>" not in told


def test_a_recording_brings_its_label():
    recorded = sick_traces.of("one_by_one", device="cpu")
    assert recorded is not None and recorded.label() in figure(recorded.blinded(), "case 1").alt


def test_tables_of_one_trace_and_of_several_side_by_side():
    one, other = features(a_trace("launch_bound", "cuda")), features(a_trace("recompiles", "cpu"))
    alone = features_table(one).text()
    assert "kernels" in alone and "compilations" not in alone
    both = features_table({"sick": one, "healthy": other}, "Two", ["made up"])
    assert list(both.columns) == ["feature", "sick", "healthy"] and "made up" in both.text() and "compilations" in both.text()


@pytest.mark.parametrize(("name", "device"), ALL)
def test_the_diagnosis_as_a_table_says_reason_and_cure(name, device):
    found = diagnose(a_trace(name, device, 2))
    told = {row["what"]: row["said"] for row in diagnosis_table(found).rows}
    assert told["diagnosis"].startswith(found.name) and told["cure"] == found.cure and told["reason"] == found.reason
    assert ("on a CPU" in told) == (device == "cpu")
