"""Recordings: loaded with their label, and refused when changed, damaged, foreign, newer or another machine's."""

from __future__ import annotations

import json
import random

import pytest

from tests.factories import WHERE, make_race, make_receipt
from utils.model import recordings
from utils.model.recordings import RecordingError

RNG = random.Random(99)
CPU, GPU = "cpu-2core-torch2.13", "h200-torch2.11"


def raw(device: str = "cpu", **changes) -> dict:
    receipts = {"cpu": make_receipt("cpu", seed=RNG.randrange(10**6), where=WHERE[device])}
    if device == "cuda":
        receipts["cuda"] = make_receipt("cuda", seed=RNG.randrange(10**6))
        receipts["cuda_grad"] = make_receipt("cuda", grad=True, seed=RNG.randrange(10**6))
    data = {
        "date": receipts["cpu"].date,
        "where": WHERE[device],
        "receipts": receipts,
        "extras": {"aa": make_race(seed=RNG.randrange(10**6)).to_dict()},
        "command": "python -m utils record",
    }
    return {**data, **changes}


@pytest.fixture
def folder(tmp_path):
    """Two recordings, as `make record` would leave them on a laptop and on a GPU server."""
    assert recordings.write(raw("cpu"), folder=tmp_path).stem == CPU
    assert recordings.write(raw("cuda"), folder=tmp_path).stem == GPU
    return tmp_path


@pytest.fixture
def committed(folder, monkeypatch):
    """The same two where the committed recordings lie."""
    monkeypatch.setattr(recordings.paths, "RECORDINGS", folder)
    return folder


def change(folder, stem, damage) -> None:
    path = folder / f"{stem}.json"
    data = json.loads(path.read_text())
    damage(data)
    path.write_text(json.dumps(data))


def test_what_is_loaded_is_what_was_measured_and_is_called_recorded(tmp_path):
    data = raw("cuda")
    recordings.write(data, folder=tmp_path)
    loaded = recordings.load(GPU, tmp_path)
    assert set(loaded.receipts) == {"cpu", "cuda", "cuda_grad"}
    for key, receipt in loaded.receipts.items():
        assert receipt.source == "recorded"
        assert receipt.to_dict() == {**data["receipts"][key].to_dict(), "source": "recorded"}
    assert loaded.extras["aa"]["control"] == data["extras"]["aa"]["control"]
    assert loaded.receipt().device == "cuda" and loaded.receipt("cpu").device == "cpu" and loaded.receipt("cpu", True) is None


def test_the_label_names_device_driver_torch_and_date(folder):
    assert recordings.load(GPU, folder).label() == "recorded · NVIDIA H200 · driver 570.86.15 · torch 2.11.0+cu130 · 2026-11-29"
    assert recordings.load(CPU, folder).label() == "recorded · AMD EPYC, 2 cores · torch 2.13.0+cpu · 2026-11-29"
    assert "Xeon" in recordings.load(GPU, folder).label("cpu"), "the host's CPU receipts are not the GPU's"


def test_a_live_receipt_is_never_labelled_recorded_nor_the_other_way_round(folder):
    assert recordings.receipt_label(make_receipt()).startswith("live · ")
    assert recordings.receipt_label(recordings.load(GPU, folder).receipts["cuda"]).startswith("recorded · NVIDIA H200")


def test_available_and_best(folder):
    assert recordings.available(folder) == [CPU, GPU]
    assert recordings.best("cuda", folder).stem == GPU
    recordings.write(raw("cuda", date="2027-01-01T00:00:00Z"), folder=folder)
    assert recordings.best("cpu", folder).stem == CPU, (
        "a laptop's CPU, not a server's, although that is newer and has a CPU receipt"
    )
    assert recordings.best("cuda", folder / "nowhere") is None


def test_the_newest_of_two_is_best(folder):
    newer = {**WHERE["cuda"], "torch": "2.13.0+cu130"}
    receipt = make_receipt("cuda", where=newer)
    recordings.write(raw("cuda", date="2026-12-24T00:00:00Z", where=newer, receipts={"cuda": receipt}), folder=folder)
    assert recordings.best("cuda", folder).date.startswith("2026-12-24")


def test_a_damaged_one_is_passed_over_with_the_reason(folder):
    (folder / f"{GPU}.json").write_text("{")
    with pytest.warns(UserWarning, match="h200-torch2.11.json is damaged"):
        assert recordings.best("cuda", folder) is None
    with pytest.raises(RecordingError, match="damaged"):
        recordings.load(GPU, folder)


def test_a_missing_one_is_called_not_measured_and_says_what_there_is(folder):
    with pytest.raises(RecordingError, match=f"there are: {CPU}, {GPU}.*not measured"):
        recordings.load("b200-torch2.13", folder)


@pytest.mark.parametrize("factor", [1.5, 2.0, 0.5, 1.01])
def test_scaled_samples_are_refused(folder, factor):
    def scale(data):
        for receipt in data["receipts"].values():
            for reading in [receipt["end_to_end"], *(s["isolate"] for s in receipt["stages"])]:
                reading["samples_ns"] = [s * factor for s in reading["samples_ns"]]

    change(folder, CPU, scale)
    with pytest.raises(RecordingError, match="the samples give .* it was changed"):
        recordings.load(CPU, folder)


def test_a_single_changed_sample_is_refused(folder):
    def nudge(data):
        data["receipts"]["cpu"]["loop"]["samples_ns"][3] += 0.01

    change(folder, CPU, nudge)
    with pytest.raises(RecordingError, match="digest does not fit"):
        recordings.load(CPU, folder)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda d: d.update(format="another"), "is not a recording of this course"),
        (lambda d: d.update(version=3), "newer course"),
        (lambda d: d.pop("digest"), "never sealed"),
        (lambda d: d.pop("receipts"), "damaged: recording: at the top"),
        (lambda d: d["sums"]["cpu"].update(coverage=0.99), "it was changed"),
        (lambda d: d["extras"].update(more={}), "digest does not fit"),
        (lambda d: d.update(date="2027-01-01"), "digest does not fit"),
        (lambda d: d["receipts"]["cpu"].update(grad=True), "cpu holds a receipt of cpu, grad True"),
        (lambda d: d["receipts"]["cpu"]["where"].update(cpu="Another CPU"), "wrong device's recording: cpu 'Another CPU'"),
    ],
)
def test_what_was_tampered_with_is_refused_with_the_reason(folder, damage, reason):
    change(folder, CPU, damage)
    with pytest.raises(RecordingError, match=reason):
        recordings.load(CPU, folder)


def test_another_machines_recording_under_this_name_is_refused(folder):
    (folder / f"{GPU}.json").write_text((folder / f"{CPU}.json").read_text())
    with pytest.raises(RecordingError, match=f"wrong device's recording: its content is that of {CPU}"):
        recordings.load(GPU, folder)


def test_a_gpu_receipt_from_a_machine_without_a_gpu_is_refused():
    where = {**WHERE["cuda"], "gpu": None}
    receipt = make_receipt("cuda", where=where)
    sealed = recordings.seal(
        {**raw("cuda", where=where), "receipts": {"cuda": receipt.to_dict()}, "format": recordings.FORMAT, "version": 1}
    )
    with pytest.raises(RecordingError, match="names no GPU"):
        recordings.verify(sealed, GPU)


def test_what_would_not_load_is_not_written(tmp_path):
    with pytest.raises(RecordingError, match="damaged"):
        recordings.write(raw("cpu", command="typed by hand"), folder=tmp_path)
    with pytest.raises(RecordingError, match="wrong device's"):
        recordings.write(raw("cpu"), stem=GPU, folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_sealing_is_independent_of_key_order_and_blanks():
    data = json.loads(json.dumps(recordings.seal(_plain(raw("cpu")))))
    shuffled = dict(sorted(data.items(), reverse=True))
    recordings.verify(json.loads(json.dumps(shuffled, indent=3)), CPU)
    assert recordings.digest(shuffled) == data["digest"]


def _plain(data: dict) -> dict:
    receipts = {k: r.to_dict() for k, r in data["receipts"].items()}
    return {"format": recordings.FORMAT, "version": 1, **data, "receipts": receipts}


def test_only_the_committed_receipt_itself_counts_as_committed(committed):
    receipt = recordings.load(GPU).receipts["cuda"]
    assert recordings.is_committed(receipt)
    assert not recordings.is_committed(receipt.scaled_stage("kernel", 1.001))
    assert not recordings.is_committed(make_receipt("cuda", source="recorded"))


def test_every_committed_recording_is_intact():
    for stem in recordings.available():
        assert recordings.load(stem).receipts, stem


def test_loading_twice_reads_once_and_a_changed_file_is_read_again(folder):
    first = recordings.load(CPU, folder)
    assert recordings.load(CPU, folder) is first
    recordings.write(raw("cpu"), folder=folder)
    assert recordings.load(CPU, folder).receipts["cpu"] != first.receipts["cpu"]
