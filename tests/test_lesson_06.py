"""Lesson 06: sentences that stay true whatever a machine gives; rooflines as drawn; the controls over them.

What the lesson says is in `utils/show/lesson06.py`. `check_sentences(module)` holds every sentence against the part it was made
from, on parts made in code where the usual order is turned round; the planted faults are that module with one piece of its
logic broken, and the same check must go red on each.
"""

from __future__ import annotations

import random
import re

import pytest

from tests import ridges
from tests.broken import broken
from tests.factories import WHERE
from tests.ridges import HERE, THERE, both
from utils.measure import ridge_here, ridge_point, roofline
from utils.measure.device_clock import MeasurementError
from utils.measure.intensity import count
from utils.measure.op_table import OPS, work_of
from utils.measure.roofline import Roof, Roofline
from utils.model import devices, expected, ledger, studies
from utils.model.quantities import NotMeasured
from utils.model.studies import Study
from utils.show import figures, lesson06, roofline_explorer, roofline_figure
from utils.show.roofline_figure import Point

RNG = random.Random(6)


def meta(*shape: int):
    import torch

    return torch.empty(*shape, device="meta")


# ------------------------------------------------------------------------------------------------ the sentences


def check_sentences(m) -> None:
    check_counts(m)
    check_roofs(m)
    check_data(m)
    check_ops(m)
    check_deeper(m)
    check_judged(m)
    check_end(m)


def check_counts(m) -> None:
    import torch

    n = 4096
    one = count(torch.add, meta(n), meta(n))
    right, said = m.intensity(one)
    assert right == m.INTENSITY_ANSWERS["twelfth"][1]
    assert "4,096 additions" in str(said) and "12.0 bytes" in str(said) and "0.0833 FLOP per byte" in str(said)
    a = meta(n)
    assert m.intensity(count(torch.add, a, a))[0] == m.INTENSITY_ANSWERS["eighth"][1], "the same tensor twice is read once"
    table = m.count_table({"a + b": one, "x @ w": count(torch.mm, meta(64, 32), meta(32, 16))})
    assert table.rows[1]["flops"] == m.significant(2 * 64 * 32 * 16 * 1e-6)
    assert table.rows[1]["bytes"] == m.significant(4 * (64 * 32 + 32 * 16 + 64 * 16) * 1e-6)


def check_roofs(m) -> None:
    peaks = both(ridges.peaks(), ridges.peaks("cuda"))
    said = str(m.copy_share(peaks))
    assert said.count("60 %") == 2 and HERE in said and THERE in said and said.index(HERE) < said.index(THERE)
    assert "no GPU has been recorded" in str(m.copy_share(both(ridges.peaks())))
    assert "no compiler" in str(m.copy_share(both(None)))
    assert f"the ridge is at {m.significant(0.2e3 / 36)} FLOP per byte" in str(m.one_roof(peaks))
    assert "products, fp32 do" in str(m.one_roof(both(ridges.peaks(vector_fp32=None))))
    for numbers, kind in (
        ({}, "engine"),
        ({"vector_fp32": None, "integer": None, "issue": None}, "dtype"),
        ({"vector_fp32": 0.17, "integer": 0.17, "issue": 0.17, "gemm_bf16": 0.17}, "one"),
    ):
        assert m.ridges(both(ridges.peaks(**numbers)))[0] == m.RIDGES_ANSWERS[kind][1], kind
    said = str(m.ridges(peaks)[1])
    assert f"The highest is {m.times(0.2 / 0.001)} the lowest" in said and f"{m.times(803 / 32.3)} the lowest" in said
    assert m.ridges(both(None))[0] is None and "Not measured: the ridges" in str(m.ridges(both(None))[1])
    assert m.ridges(both(None, ridges.peaks("cuda")))[0] == m.RIDGES_ANSWERS["engine"][1], "the recording answers"

    said = str(m.gap(peaks))
    assert "0.208" in said and f"{m.per_cent(0.2 / 0.208)} of it" in said
    assert f"memory {m.per_cent(4372 / 4800)}" in said and f"bf16 {m.per_cent(803 / 989)}" in said
    assert "Nothing is known" in str(m.gap(both(ridges.peaks(vector_fp32=None))))
    tables = m.beside_tables(peaks)
    assert [("share" in table.columns) for table in tables] == [False, True]
    assert tables[1].rows[0]["share"] == m.per_cent(4372 / 4800) and THERE in tables[1].notes
    shown = m.first_figures(peaks) + m.roof_figures(peaks) + m.stream_figures(peaks)
    assert [HERE in p.alt for p in shown] == [True, False] * 3 == [THERE not in p.alt for p in shown]
    assert "vector units" in shown[0].alt and "integer" not in shown[0].alt and "integer" in shown[2].alt
    assert m.own_line(both(None)) is None and m.roofs(both(None)) is None
    assert m.own_line(peaks).label == HERE and m.roofs(peaks)["gbps"] == 36.0


def check_data(m) -> None:
    peaks = both(ridges.peaks())
    for rate, kind in ((80.0, "above"), (37.0, "memory"), (20.0, "less")):
        assert m.warm(both(ridges.warm_cold(2.4, rate)), peaks)[0] == m.WARM_ANSWERS[kind][1], kind
    said = str(m.warm(both(ridges.warm_cold(2.4, 80.0)), peaks)[1])
    assert "80.0 GB/s" in said and "33.3 GB/s" in said and "2.4 times as long" in said and "36.0 GB/s" in said
    gpu = both(ridges.warm_cold(), ridges.warm_cold(1.9, 5000.0))
    assert "4,370 GB/s" in str(m.warm(gpu, both(ridges.peaks(), ridges.peaks("cuda")))[1]), "each beside its own memory"
    assert m.warm(both(ridges.warm_cold(2.4, 80.0)), both(None))[0] == m.WARM_ANSWERS["above"][1]

    for reused, kind in ((1.4e7, "shorter"), (2e7, "same"), (2.9e7, "longer")):
        assert m.soon(both(ridges.intermediate(reused=reused)))[0] == m.SOON_ANSWERS[kind][1], kind
    assert "268 million bytes" in str(m.soon(both(ridges.intermediate()))[1])

    for ratio, kind in ((1.02, "same"), (1.6, "somewhat"), (7.5, "many")):
        assert m.layout(both(ridges.layout(ratio)))[0] == m.LAYOUT_ANSWERS[kind][1], kind
    assert "4.9 times as long: less than as it lies" in str(m.layout(both(ridges.layout()))[1])
    assert "no gain over adding it" in str(m.layout(both(ridges.layout(2.7, copied=3.5)))[1])

    for ratio, kind in ((1.0, "nothing"), (1.3, "little"), (3.5, "more")):
        right, said = m.fresh(both(ridges.allocation(ratio)))
        assert right == m.FRESH_ANSWERS[kind][1] and f"{m.times(ratio)} as long as an add into a given c" in str(said)
    assert "16,385 page faults a call against 0" in str(said) and "1.0 times as long and 0 faults" in str(said)
    assert m.fresh(both(None))[0] is None and m.fresh_table(both(None)) is None
    assert m.fresh_table(both(ridges.allocation())).rows[1]["faults"] == "16,385 of 16,384"
    assert len(m.race_views(both(ridges.layout(), ridges.layout()), "Layouts")) == 2 and m.race_views(both(None), "x") == []


def check_ops(m) -> None:
    for roofs, kind in (
        ({}, "large"),
        ({"gemm_fp32": 0.01}, "products"),
        ({"vector_fp32": 0.01}, "special"),
        ({"gemm_fp32": 36.0}, "none"),
    ):
        assert m.bound(both(ridges.ops(**roofs)))[0] == m.BOUND_ANSWERS[kind][1], kind
    near = {key: 0.5 for key in OPS} | {"add": 0.97, "softmax": 0.11, "gemm": 0.03}
    said = str(m.bound(both(ridges.ops(share=near)))[1])
    assert "engine: matrix times matrix." in said and "“a + b” came nearest to the roof with 97 %" in said
    assert "“softmax of each row” stayed farthest with 11 %" in said
    table = m.op_tables(both(ridges.ops(share=near)))[0]
    assert {row["title"]: row["share"] for row in table.rows}["a + b"] == "97 %" and len(table.rows) == len(OPS)
    shown = m.op_figures(both(ridges.ops(), ridges.ops("cuda")))
    assert all(f"{op.title} at" in p.alt for p in shown for op in OPS.values()) and THERE in shown[1].alt

    for many, kind in ((0.4995, "same"), (2.0, "grows"), (0.12, "falls")):
        assert m.decode(both(ridges.decode(many=many)))[0] == m.DECODE_ANSWERS[kind][1], kind
    said = str(m.decode(both(ridges.decode()))[1])
    assert "goes from 0.500 to 2.00" in said and "40 % of the best stream" in said
    assert m.decode_tables(both(ridges.decode()))[0].rows[2]["kv_heads"] == "8 for 32"

    said = str(m.census(both(ridges.census())))
    for words in ("Of 352 ops", "91 % are below", "They take 35 % of the time", "7.7 % of the ops and 65 % of the time"):
        assert words in said
    picture = m.census_figures(both(ridges.census()))[0]
    assert "products 7.7 % of the ops, 65 % of the time" in picture.alt and "look-ups" in picture.table.text()
    for ratio, kind in ((90.0, "wide"), (1.1, "same"), (0.4, "tiny")):
        assert m.mfu(both(ridges.mfu(ratio)))[0] == m.MFU_ANSWERS[kind][1], kind
    assert "the narrow one 10 %, the wide one 30 %" in str(m.mfu(both(ridges.mfu()))[1])
    rows = m.mfu_tables(both(ridges.mfu(), ridges.mfu(sheet=0.5)))
    assert rows[0].rows[0]["sheet"] is None and rows[1].rows[0]["sheet"] == "50 %"
    for say in (m.soon, m.layout, m.bound, m.decode, m.mfu):
        right, said = say(both(None))
        assert right is None and "no compiler" in str(said) and "no GPU has been recorded" in str(said)


def check_deeper(m) -> None:
    said = str(m.levels(both(ridges.levels())))
    assert "L1 390" in said and f"{m.times(390 / 36)} the last" in said
    assert "512 KiB (L2) 200 GB/s" in m.level_figures(both(ridges.levels()))[0].alt
    assert "multiply-adds at 5.60, integer work at 5.30" in str(m.knee(both(ridges.knee())))
    assert "did not bend" in str(m.knee(both(ridges.knee(nothing=1.0)))) and m.knee_figures(both(ridges.knee(nothing=1.0))) == []
    shown = m.knee_figures(both(ridges.knee()))[0]
    assert "16 multiply-adds at 4.00 FLOP per byte" in shown.alt and "128 integer operations" in shown.alt
    said = str(m.activation(both(ridges.activation())))
    assert "81.3 µs on paper, measured 8.00 ms" in said and "163 µs on paper" in said and "measured 25.0 ms" in said
    assert "Reading 256 MiB" not in str(m.activation(both(ridges.activation(None))))
    assert "n = 64 13 %, n = 1,024 0.0070 %" in str(m.gemm_tax(both(ridges.gemm_tax())))


def check_judged(m) -> None:
    judged = m.judged("cpu", **ridges.study())
    rows = {"ridge_point.warm_cold": "warm_cold", "ridge_point.below_count": "census", "ridge_point.mfu": "mfu"}
    for metric, name in rows.items():
        assert expected.judge(metric, judged[name]).value is not None and judged[name]["device"] == "cpu"
    recorded = m.judged("cpu", **{name: both(None, one.here.value) for name, one in ridges.study().items()})
    for metric, name in rows.items():
        found = expected.judge(metric, recorded[name])
        assert found.value is None and "no compiler" in found.note, "a recording is never judged as if it had run here"
    without = m.judged("cpu", peaks=both(ridges.peaks(vector_fp32=None)))
    assert "not measured here" in expected.judge("ridge_point.vector_roof", without["peaks"]).note


def check_end(m) -> None:
    import torch

    gate = count(lambda x, y: torch.nn.functional.silu(x) * y, *(meta(64, 32).to(torch.bfloat16) for _ in range(2)))
    assert gate.bytes == 5 * 2 * 64 * 32 and gate.least_bytes == 3 * 2 * 64 * 32
    assert "Nothing predicted yet" in str(m.transfer(None, gate))
    least_us = 1e-3 * gate.bytes / 3350
    near, far = m.transfer(least_us * 1.05, gate), m.transfer(least_us * 0.6, gate)
    assert "Near enough" in near.notes[0] and "More than 10 %" in far.notes[0] and len(near.rows) == 4
    assert near.rows[1]["time"] == m.format_time(1e3 * least_us) and near.rows[2]["time"] == m.format_time(600 * least_us)
    own = m.transfer(1.0, gate, m.own_line(both(ridges.peaks())))
    assert own.rows[-1]["time"] == m.format_time(gate.bytes / 36.0) and HERE in own.notes
    table = m.verdicts("cpu", ridges.study())
    assert {row["id"] for row in table.rows} == {c.id for c in ledger.claims("ridge_point")}


def test_every_sentence_is_true_on_data_that_surprises():
    check_sentences(lesson06)


FAULTS = {
    "the result left out of an add's bytes": ("bytes_each = work.bytes", "bytes_each = work.read"),
    "the share turned upside down": ("{per_cent(ours / best)}", "{per_cent(best / ours)}"),
    "ridges told apart by dtype alone": ('            return "engine"', '            return "dtype"') ,
    "cold data called warm": ('"above" if rate > OVER * roof', '"above" if rate < OVER * roof'),
    "the recording beside this machine's memory": (
        "value = peaks.here.value if found is part.here else peaks.there.value", "value = peaks.here.value",
    ),
    "the order with its result told the other way": ('"shorter" if found.ns < 0', '"shorter" if found.ns > 0'),
    "copying first always praised": ('if copied < numbers["transposed_ratio"]', "if copied > 0"),
    "every op left of a ridge": ('if row["bound"] == "arithmetic"]', 'if row["share"] < 0]'),
    "nearest and farthest exchanged": ("last, first = left[0], left[-1]", "first, last = left[0], left[-1]"),
    "ops and time exchanged": ("below_time'])} of the time", "below_count'])} of the time"),
    "a recording judged as if it were live": ("judged_here(device, part.here, ", "judged_here(device, part.first, "),
    "bytes of one kernel taken for those of two ops": ("(work.bytes, work.least_bytes)", "(work.least_bytes, work.bytes)"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_lesson_is_found_out(fault, tmp_path):
    with pytest.raises(AssertionError):
        check_sentences(broken(lesson06, *FAULTS[fault], tmp_path))


# ------------------------------------------------------------------------------------------------ live, recorded, nothing


def test_a_part_is_measured_here_and_read_from_a_gpu(monkeypatch):
    kept = Study("ridge_point", "cuda", "2026-11-30T00:00:00+00:00", WHERE["cuda"], {"knee": ridges.knee()}, {"mfu": "it broke"})
    monkeypatch.setattr(studies, "best", lambda name, device="cuda", folder=None: kept if device == "cuda" else None)
    asked = {}

    def measure(device, progress, **how):
        asked.update(how, device=device)
        progress(0.5, "half")
        return {"numbers": {}}

    def refuses(device, progress):
        raise MeasurementError("no compiler")

    monkeypatch.setattr(ridge_point, "IN_LESSON", {"knee": measure, "mfu": refuses})
    found = ridge_here.both("knee", "cpu", roofs={"gbps": 1.0})
    assert found.here.live and found.here.label.startswith("live") and asked == {"roofs": {"gbps": 1.0}, "device": "cpu"}
    assert found.there.value is kept.parts["knee"] and not found.there.live and found.first is found.here
    gone = ridge_here.both("mfu", "cpu")
    assert gone.here.value is None and "no compiler" in gone.here.why and "it broke" in gone.there.why
    assert "no CPU has been recorded" in ridge_here.recorded("knee", "cpu").why
    with pytest.raises(KeyError):
        ridge_here.both("no such part")


# ------------------------------------------------------------------------------------------------ rooflines as drawn


LINE = Roofline("made up", 100.0, {"gemm_bf16": Roof("gemm_bf16", 50.0), "vector_fp32": Roof("vector_fp32", 2.0)})


def dots(svg: str) -> list[tuple[float, float]]:
    """The middles of all points, in pixels."""
    circles = [(float(x), float(y)) for x, y in re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', svg)]
    return circles + [(float(x) + 4, float(y) + 4) for x, y in re.findall(r'<rect x="([\d.]+)" y="([\d.]+)"', svg)]


def check_figure(m) -> None:
    points = [m.Point("slow", 1.0, "gemm_bf16", 0.01), m.Point("at most", 1.0, "gemm_bf16"), m.Point("right", 900.0, "gemm_bf16")]
    picture = m.figure(LINE, points, "Title")
    at = dots(picture.svg)
    assert len(at) == 3 and at[0][0] == pytest.approx(at[1][0]) and at[0][1] > at[1][1], "slower is lower"
    assert at[1][1] > at[2][1] + 50, "and what is left of the ridge stands on the slope"
    assert at[2][0] > at[1][0] and picture.svg.count(f'fill="{m.theme.CARD}" stroke=') == 2, "what was not measured is hollow"
    rows = {row["what"]: row for row in picture.table.rows}
    assert rows["products, bf16"]["intensity"] == "ridge 500" and rows["vector units, fp32"]["intensity"] == "ridge 20.0"
    assert rows["1: slow"]["reached"] == "0.0100" and rows["1: slow"]["allowed"] == "0.100"
    assert rows["2: at most"]["reached"] is None and rows["3: right"]["allowed"] == "50.0"
    assert "slow at 1.00 FLOP per byte reached 0.0100 of 0.100" in picture.alt and "made up" in picture.svg
    only = m.figure(LINE, points, roofs=("vector_fp32",))
    assert "bf16" not in only.svg and dots(only.svg) == [] and "bf16" not in only.table.text()


def test_a_roofline_is_drawn_where_it_is():
    check_figure(roofline_figure)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("line.attainable(point.roof, point.intensity)\n        places", "line.roofs[point.roof].peak\n        places"),
        ("fill = colour if point.tera is not None else theme.CARD", "fill = colour"),
        ("kept = [p for p in points if p.roof in names and p.intensity > 0]", "kept = list(points)"),
        ("significant(line.ridge(name))}\",\n            \"reached\"", "significant(line.gbps)}\",\n            \"reached\""),
    ],
)  # fmt: skip
def test_a_roofline_drawn_wrongly_is_found_out(old, new, tmp_path):
    with pytest.raises((AssertionError, KeyError, ValueError)):
        check_figure(broken(roofline_figure, old, new, tmp_path))


def test_a_roofline_without_a_roof_is_refused():
    with pytest.raises(ValueError, match="made up has none"):
        roofline_figure.figure(LINE, roofs=("issue",))


def test_numbers_beside_points_do_not_cover_each_other():
    crowd = [Point(f"op {i}", 0.1 * 1.03**i, "gemm_bf16", 0.002) for i in range(8)]
    svg = roofline_figure.figure(LINE, crowd).svg
    written = re.findall(r'<text x="([\d.]+)" y="([\d.]+)"[^>]*font-weight:bold">(\d)<', svg)
    assert len(written) == 8
    assert len({(x, y) for x, y, _ in written}) == 8


# ------------------------------------------------------------------------------------------------ the controls


def test_the_controls_count_and_place_any_op_of_any_size_on_any_device(monkeypatch):
    def slow(*args, **how):
        raise AssertionError("matplotlib is too slow for a slider")

    monkeypatch.setattr(figures, "_canvas", slow)
    panel = roofline_explorer.explorer(roofline.from_peaks(ridges.peaks(), HERE))
    panel._repr_mimebundle_()
    assert panel.controls["device"].options[0] == "this machine, measured" and len(panel.controls["device"].options) > 10
    for _ in range(25):
        name, control = RNG.choice(list(panel.controls.items()))
        value = RNG.randint(10, 30) if name == "log2" else RNG.choice(control.options)
        picture, words = panel.fire(name, value)
        assert panel.message == "" and panel.values[name] == value
        page = panel._place.value
        assert page.count("<img") == page.count("<table") == 1 and "FLOP per byte" in words
        assert len(page) < 60_000, "a move must stay light"


@pytest.mark.parametrize("op", OPS)
def test_what_the_controls_say_is_what_counting_and_the_datasheet_give(op):
    device = RNG.choice([d for d in devices.load() if "bf16" in d.tflops])
    lines = roofline_explorer.rooflines()
    picture, words = roofline_explorer.draw(lines, log2=22, dtype="bf16", op=op, device=device.name)
    work = work_of(op, roofline_explorer.size_of(op, 1 << 22), "bf16")
    peak = device.tflops["bf16" if OPS[op].engine == "gemm" else "fp32"].value
    memory, arithmetic = work.bytes / device.gbps.value * 1e-3, work.flops / peak * 1e-6  # µs
    shown = roofline_figure.significant
    assert f"In µs: {shown(max(memory, arithmetic))}; memory alone {shown(memory)}, arithmetic alone {shown(arithmetic)}" in words
    assert ("left of" in words) == (work.intensity < 1e3 * peak / device.gbps.value)
    assert ("fits this device's L2" in words) == (work.bytes < 1e6 * device.l2_mb.value)
    assert device.name in picture.alt and OPS[op].title in picture.alt


def test_a_size_is_that_of_the_largest_operand():
    assert roofline_explorer.size_of("gemm", 1 << 24) == 4096 and roofline_explorer.size_of("add", 1 << 24) == 1 << 24
    assert roofline_explorer.size_of("decode", 1 << 24) * 32 * 128 == 1 << 24 and roofline_explorer.size_of("decode", 8) == 1


def test_a_dtype_that_a_device_lacks_is_said_and_impossible_moves_are_refused():
    panel = roofline_explorer.explorer()
    panel.fire("device", "Tesla T4")
    _, words = panel.fire("op", OPS["gemm"].title)
    assert "No peak of products in bf16 is known" in words and "this machine" not in panel.controls["device"].options[0]
    panel.fire("log2", 31)
    assert "is not a number from" in panel.message and panel.values["log2"] == 24


def test_no_number_stands_for_what_nobody_measured():
    found = lesson06.judged("cuda", mfu=both(None))["mfu"]
    assert isinstance(found["wide_over_tiny"], NotMeasured)
