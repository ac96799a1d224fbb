"""The flagship against its recordings: every bar is a recorded price, to scale, labelled; what was not recorded is said."""

from __future__ import annotations

import random
import re
import xml.etree.ElementTree as ET

import pytest

from tests.factories import WHERE, make_receipt
from utils import paths
from utils.model import recordings
from utils.show import receipt as room
from utils.show.tables import format_ns

RNG = random.Random(37)
SVG = "{http://www.w3.org/2000/svg}"


def record(folder, device: str, **changes) -> recordings.Recording:
    seed = RNG.randrange(10**6)
    receipts = {"cpu": make_receipt("cpu", seed=seed, where=WHERE[device])}
    if device == "cuda":
        receipts["cuda"] = make_receipt("cuda", seed=seed, **changes)
    data = {"date": receipts["cpu"].date, "where": WHERE[device], "receipts": receipts, "command": "python -m utils record"}
    return recordings.load(recordings.write({**data, "extras": {}}, folder=folder).stem, folder)


@pytest.fixture
def both(tmp_path, monkeypatch):
    folder = tmp_path / "recordings"
    folder.mkdir()
    made = record(folder, "cpu"), record(folder, "cuda")
    monkeypatch.setattr(recordings.paths, "RECORDINGS", folder)
    return made


def rows_in(path) -> tuple[float, dict]:
    """(units a ns, row id → its group element) of a receipt figure."""
    root = ET.parse(path).getroot()
    return float(root.get("data-scale")), {g.get("data-row"): g for g in root.iter(f"{SVG}g") if g.get("data-row")}


def bars(group) -> list:
    return [r for r in group.iter(f"{SVG}rect") if r.get("data-ns")]


def check_against_recordings(path) -> None:
    """Raises AssertionError unless every bar of the figure is a price of the recording its row names, and to scale."""
    scale, rows = rows_in(path)
    for row_id, group in rows.items():
        recording = recordings.load(group.get("data-recording"))
        receipt = recording.receipts["cpu" if row_id.startswith("cpu") else "cuda"]
        text = " ".join("".join(t.itertext()) for t in group.iter(f"{SVG}text"))
        assert recordings.receipt_label(receipt) in text
        wanted = {s.stage: s.ns for s in receipt.stages if s.ns is not None} | {"context": receipt.context_ns}
        wanted |= {"hot": receipt.total_ns, "cold": receipt.in_program[-1][1].ns - receipt.total_ns}
        times = receipt.device_time
        if times:
            period = times["period"].ns if "period" in times else receipt.total_ns
            wanted |= {"gpu_kernel": times["kernel"].ns, "wait": period - times["kernel"].ns}
            wanted["captured"] = times["captured per node"].ns
        assert bars(group), row_id
        for bar in bars(group):
            ns = float(bar.get("data-ns"))
            assert ns == pytest.approx(wanted[bar.get("data-part")], abs=0.01), (row_id, bar.get("data-part"))
            assert float(bar.get("width")) == pytest.approx(ns * scale, abs=0.02)
            start = room.LEFT + float(bar.get("data-start-ns")) * scale
            assert float(bar.get("x")) == pytest.approx(start, abs=0.02)
        if row_id in ("cpu_hot", "gpu"):
            drawn = {bar.get("data-part") for bar in bars(group)}
            assert {s.stage for s in receipt.stages} <= drawn


def test_every_bar_is_a_recorded_price_in_both_tones(both, tmp_path):
    files = room.build(tmp_path / "out")
    assert [f.name for f in files] == ["receipt-light.svg", "receipt-dark.svg", "receipt.md"]
    for path in files[:2]:
        _, rows = rows_in(path)
        assert list(rows) == ["cpu_hot", "cpu_in_program", "gpu", "gpu_captured"]
        assert rows["cpu_hot"].get("data-recording") == both[0].stem and rows["gpu"].get("data-recording") == both[1].stem
        check_against_recordings(path)


@pytest.mark.parametrize("part", ["kernel", "tensor_iterator", "gpu_kernel", "captured", "cold"])
def test_a_bar_that_was_tampered_with_is_found(both, tmp_path, part):
    path = room.build(tmp_path / "out")[0]
    text = path.read_text()
    found = re.search(rf'data-part="{part}" data-ns="([\d.]+)"', text)
    path.write_text(text.replace(found[0], f'data-part="{part}" data-ns="{float(found[1]) * 1.05:.3f}"'))
    with pytest.raises(AssertionError):
        check_against_recordings(path)


def test_a_figure_of_other_recordings_is_found(both, tmp_path):
    path = room.build(tmp_path / "out")[0]
    record(paths.RECORDINGS, "cpu")
    with pytest.raises(AssertionError):
        check_against_recordings(path)


def test_the_same_recordings_give_the_same_bytes_and_nothing_active(both, tmp_path):
    one, two = room.build(tmp_path / "one"), room.build(tmp_path / "two")
    for a, b in zip(one, two, strict=True):
        assert a.read_bytes() == b.read_bytes()
    for path in one[:2]:
        text = path.read_text()
        assert not re.search(r"<script|<foreignObject|@font-face|@import|href=|onload|javascript:", text)
        assert len(text) < 60_000


def test_alt_text_and_table_twin_say_the_same(both, tmp_path):
    light, _, twin = room.build(tmp_path / "out")
    alt = ET.parse(light).getroot().get("aria-label")
    table = twin.read_text()
    cpu, gpu = both[0].receipts["cpu"], both[1].receipts["cuda"]
    for ns in (cpu.total_ns, cpu.stage("kernel").ns, cpu.in_program[-1][1].ns, gpu.total_ns, gpu.device_time["kernel"].ns):
        assert format_ns(ns) in alt and format_ns(ns) in table
    for label in (both[0].label("cpu"), both[1].label("cuda")):
        assert label in alt and label in table
    assert "| row" in table and table.count("| add") == 1


def test_names_neither_cover_each_other_nor_leave_the_figure():
    for _ in range(40):
        receipt = make_receipt(grad=RNG.random() < 0.5, seed=RNG.randrange(10**6))
        for stage in receipt.stages:
            receipt = receipt.scaled_stage(stage.stage, 10 ** RNG.uniform(-1.2, 0.5))
        (row, *_) = room.rows_of(receipt)
        _, places = room._room_for_names(row.lanes[0], room.INNER / room._extent(row))
        for i, one in enumerate(places):
            assert one.left >= 0 and one.right <= room.WIDTH
            for other in places[i + 1 :]:
                if one.level == other.level:
                    assert one.right < other.left or other.right < one.left
                low, high = sorted((one, other), key=lambda p: p.level)
                assert low.level == high.level or not low.left < high.x < low.right


def test_rows_that_were_not_recorded_are_said_to_be_missing(tmp_path, monkeypatch):
    folder = tmp_path / "recordings"
    folder.mkdir()
    monkeypatch.setattr(recordings.paths, "RECORDINGS", folder)
    with pytest.raises(LookupError, match="make record"):
        room.build(tmp_path / "out")
    record(folder, "cpu")
    light, dark, twin = room.build(tmp_path / "out")
    for path in (light, dark, twin):
        text = path.read_text()
        assert "a GPU with its host is left out" in text and "captured in a graph is left out" in text
    assert list(rows_in(light)[1]) == ["cpu_hot", "cpu_in_program"]


def test_a_stage_that_was_not_measured_is_named_under_its_row():
    receipt = make_receipt()
    lost = receipt.stage("allocator").__class__("allocator", None, why_missing="no compiler")
    part = make_receipt(stages=tuple(lost if s.stage == "allocator" else s for s in receipt.stages))
    text = room.svg(room.rows_of(part))
    assert "Not measured: allocator." in text and 'data-part="allocator"' not in text


def test_stages_that_cost_more_than_the_whole_are_told_and_stay_to_scale():
    receipt = make_receipt().scaled_stage("tensor_iterator", 3.0)
    text = room.svg(room.rows_of(receipt))
    assert f"{format_ns(-receipt.context_ns)} more than the whole" in text and 'data-part="context"' not in text
    scale = float(re.search(r'data-scale="([\d.]+)"', text)[1])
    assert scale * receipt.stage_sum_ns <= room.INNER + 0.5


def test_the_readers_rows_stand_under_the_recorded_ones(both):
    mine = make_receipt(seed=RNG.randrange(10**6))
    picture = room.figure(yours=[mine])
    assert picture.svg.count("data-row=") == 6 and "yours · on the CPU, hot" in picture.svg
    assert f"live · {mine.where['cpu']}" in picture.alt and any("yours" in row["row"] for row in picture.table.rows)
    alone = room.figure(rows=[], yours=[mine])
    assert alone.svg.count("data-row=") == 2


def test_the_committed_figure_is_the_one_of_the_committed_recordings(tmp_path):
    if not recordings.available():
        assert not (paths.REPO / "figures" / "receipt-light.svg").exists(), "a figure without the recordings it was made from"
        pytest.skip("nothing is recorded yet: `make record`, then `make figures`")
    for path in room.build(tmp_path):
        kept = paths.REPO / "figures" / path.name
        assert kept.read_bytes() == path.read_bytes(), f"{path.name} is not of these recordings: run `make figures`"
    check_against_recordings(paths.REPO / "figures" / "receipt-light.svg")
