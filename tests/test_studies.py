"""Studies: written, sealed, read back and refused; run part by part, each in its own process; claims judged by them."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from tests.factories import WHERE, make_reading
from tests.test_ledger import number
from utils.__main__ import main
from utils.measure import machine, study
from utils.measure.record import Instrument
from utils.model import ledger, recordings, studies
from utils.model.quantities import NotMeasured
from utils.model.readings import Race
from utils.model.recordings import RecordingError

RNG = random.Random(23)


def race() -> Race:
    prices = {"empty": 2000.0, "same again": 2004.0, "whole op": 7000.0}
    readings = {name: make_reading(name, ns, rng=RNG, noise=0.002) for name, ns in prices.items()}
    return Race(readings, ("empty", "same again"), device="cuda")


def one(device: str = "cuda", **changes) -> studies.Study:
    fields = {
        "name": "launch",
        "device": device,
        "date": "2026-11-30T02:00:00+00:00",
        "where": WHERE[device],
        "parts": {"floor": race(), "lanes": {"depth": 1024, "inner": {"again": race()}, "points": [[0.0, 1.5], [2.0, 3.5]]}},
        "failures": {"sm_clock": "no counter may be read here"},
        "command": f"python -m utils record --study launch --device {device}",
    }
    return studies.Study(**{**fields, **changes})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(studies.paths, "RECORDINGS", tmp_path)
    return tmp_path


def test_a_study_comes_back_as_it_was_written(folder):
    written = one()
    path = studies.write(written)
    assert path == folder / "studies" / "launch" / f"{written.stem}.json"
    back = studies.load("launch", written.stem)
    assert back == replace(written, source="recorded") and back.label().startswith("recorded · ")
    assert isinstance(back.part("floor"), Race) and isinstance(back.part("lanes")["inner"]["again"], Race)
    assert studies.best("launch", "cuda") == back and studies.best("launch", "cpu") is None


def test_what_a_study_lacks_is_said_with_the_recorded_reason():
    with pytest.raises(NotMeasured, match="no counter may be read here"):
        one().part("sm_clock")
    with pytest.raises(NotMeasured, match="occupancy: not measured when recorded"):
        one().part("occupancy")


def test_the_newest_of_a_device_is_the_best(folder):
    studies.write(one(date="2026-11-28T02:00:00+00:00"))
    newer = one(where={**WHERE["cuda"], "torch": "2.13.0+cu130"})
    studies.write(newer)
    assert studies.best("launch").date == newer.date


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d["parts"]["lanes"].update(depth=2048), "was changed after it was recorded"),
        (lambda d: d.update(study="autograd"), "was changed"),
        (lambda d: d.update(version=2), "newer course"),
        (lambda d: d.pop("failures"), "is damaged"),
        (lambda d: d.update(format="other"), "not a study"),
    ],
)
def test_a_study_that_was_touched_is_refused(folder, change, said):
    path = studies.write(one())
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    with pytest.raises(RecordingError, match=said):
        studies.load("launch", path.stem)
    with pytest.warns(UserWarning, match=said):
        assert studies.best("launch") is None


def test_another_machines_or_studys_name_is_refused(folder):
    path = studies.write(one())
    path.with_name("t4-torch2.11.json").write_text(path.read_text())
    with pytest.raises(RecordingError, match="wrong device's"):
        studies.load("launch", "t4-torch2.11")
    other = folder / "studies" / "autograd" / path.name
    other.parent.mkdir()
    other.write_text(path.read_text())
    with pytest.raises(RecordingError, match="another study"):
        studies.load("autograd", path.stem)
    with pytest.raises(RecordingError, match="there is no recording"):
        studies.load("launch", "h100-torch2.11")


def test_a_number_that_is_none_is_never_written(folder):
    with pytest.raises(ValueError):
        studies.write(one(parts={"floor": {"ns": float("nan")}}))
    assert studies.available("launch") == []


# ---- running one -----------------------------------------------------------------------------------------------------------


def test_a_part_that_fails_costs_only_itself():
    def fails(progress):
        raise OSError("cannot open /srv/secret/nvml.so")

    def works(progress):
        progress(0.5, "half")
        return studies.plain(race())

    seen = []
    run = [Instrument("floor", "parts", works), Instrument("clock", "parts", fails)]
    made = study.record_study("launch", "cpu", progress=lambda done, text: seen.append(done), run=run)
    assert isinstance(made.part("floor"), Race) and made.failures == {"clock": "cannot open nvml.so"}
    assert made.where == machine.fingerprint() and made.source == "live"
    assert seen == sorted(seen) and seen[-1] == 1.0


@pytest.mark.parametrize("name", study.STUDIES)
def test_every_study_has_parts_for_both_devices(name):
    parts = study.parts_of(name)
    assert parts and all(callable(p.measure) and set(p.devices) <= {"cpu", "cuda"} and p.weight > 0 for p in parts.values())
    for device in ("cpu", "cuda"):
        assert study.instruments(name, device), f"{name} measures nothing on {device}"


def test_the_command_says_which_studies_there_are(capsys):
    assert main(["record", "--study", "nonsense"]) == 2
    assert "dispatcher, autograd, launch" in capsys.readouterr().err


def test_record_and_verify_by_command(monkeypatch, tmp_path, capsys):
    made = one("cpu", where=machine.fingerprint() | {"gpu": None})
    monkeypatch.setattr(study, "record_study", lambda name, device, progress: made)
    out = tmp_path / "mine.json"
    assert main(["record", "--study", "launch", "--device", "cpu", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "floor, lanes" in said and "not recorded: sm_clock" in said
    assert main(["verify", str(out)]) == 0
    out.write_text(out.read_text().replace("1024", "1025"))
    assert main(["verify", str(out)]) == 1 and "was changed" in capsys.readouterr().out


@pytest.mark.parametrize("path", sorted((recordings.paths.RECORDINGS / "studies").glob("*/*.json")), ids=lambda p: p.parent.name)
def test_every_committed_study_is_whole(path):
    assert main(["verify", str(path)]) == 0


# ---- claims ----------------------------------------------------------------------------------------------------------------


def test_a_claim_is_judged_by_a_part_of_a_study():
    metric = {"study": "launch", "part": "floor", "measure": "empty", "unit": "us"}
    claim = number(lo=1.5, hi=3.0, metric=metric)
    assert ledger.judge(claim, one()) == ("holds", pytest.approx(2.0, rel=0.01))
    assert ledger.judge(replace(claim, lo=3.0, hi=9.0), one())[0] == "does_not_hold"
    ratio = {**metric, "part": "lanes", "measure": "inner.again.'whole op' / inner.again.empty", "unit": "ratio"}
    assert ledger.judge(replace(claim, lo=3, hi=4, metric=ratio), one())[0] == "holds"


@pytest.mark.parametrize(
    ("change", "measured"),
    [
        ({"part": "occupancy"}, one()),
        ({"study": "autograd"}, one()),
        ({"measure": "no such reading"}, one()),
        ({"device": "cpu"}, one()),
        ({}, recordings.Recording("s", "2026-11-30", WHERE["cuda"], {})),
    ],
)
def test_what_a_study_cannot_answer_is_not_measurable_here(change, measured):
    metric = {"study": "launch", "part": "floor", "measure": "empty", "unit": "us", **change}
    assert ledger.judge(number(lo=1, hi=3, metric=metric), measured) == ("not_measurable_here", None)


def test_the_table_holds_yours_beside_the_recorded_one(folder, monkeypatch):
    claim = number(lo=1.5, hi=3.0, lesson="launch", metric={"study": "launch", "part": "floor", "measure": "empty", "unit": "us"})
    monkeypatch.setattr(ledger, "claims", lambda lesson=None: [claim])
    assert ledger.verdict_table("launch")[0]["recorded"] == "not measured"
    path = studies.write(one())
    mine = studies.live(
        "launch",
        "cpu",
        WHERE["cpu"],
        {"floor": Race({k: r.scaled(2.0) for k, r in race().readings.items()}, ("empty", "same again"))},
    )
    row = ledger.verdict_table("launch", yours=mine)[0]
    assert row["recorded"] == "2 µs" and row["yours"].startswith("4")
    named = replace(claim, recordings=(f"studies/launch/{path.stem}",))
    assert ledger.computed_verdict(named) == "holds"
