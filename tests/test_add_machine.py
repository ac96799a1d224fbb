"""Add your machine: what is said and measured, what is personal and goes, where files lie; a broken part costs only itself."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from tests.factories import make_race, make_receipt
from utils.__main__ import main
from utils.commands import Refused, add_machine
from utils.measure import fingerprints, record, study
from utils.measure.record import Instrument
from utils.model import gallery, personal, recordings, studies
from utils.paths import RECORDINGS

ROOT = "/"  # apart, so that no path of one machine stands in this file
SECRET = f"{ROOT}home/alice/courses/probe.so"
T4 = {"device": "cuda", "gpu": "Tesla T4", "capability": "7.5", "driver": "550.54.15", "torch": "2.11.0+cu128", "overrides": []}


# ------------------------------------------------------------------------------------------------ what is personal


@pytest.mark.parametrize(
    ("said", "left"),
    [
        (f"cannot open {SECRET}: wrong ELF class", "cannot open …: wrong ELF class"),
        (f"in {ROOT}root", "in …"),
        ("in C:\\Users\\alice\\x.py line 3", "in … line 3"),
        ("ask alice@example.org", "ask …"),
        ("no answer from 192.168.0.17", "no answer from …"),
        ("12 GB/s, 3 ns/op, and/or, x @ w, a / b, fp16/bf16, 2.13.0, aten::add, h[h > 0]", None),
        ("<p>a</p> 1/3 of it; ~5 %", None),
    ],
)
def test_paths_and_addresses_go_and_measurements_stay(said, left):
    assert personal.cleaned({"notes": [said], "n": 3.5}) == {"notes": [said if left is None else left], "n": 3.5}


def test_versions_of_a_driver_are_no_address():
    assert personal.cleaned({"driver": "550.54.15.1", "note": "550.54.15.1"}) == {"driver": "550.54.15.1", "note": "…"}


@pytest.mark.parametrize("path", sorted(RECORDINGS.rglob("*.json")), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_no_committed_recording_holds_anything_personal(path):
    data = json.loads(path.read_text(encoding="utf-8"))
    assert personal.cleaned(data) == data


def test_names_are_pointed_at_and_not_taken_out():
    data = {"failures": {"floor": "Alice may not"}, "alice": 1, "parts": {"x": ["malice"]}}
    assert list(personal.named(data, {"alice": "your user name"})) == [
        "failures.floor: your user name",
        "the top: your user name",
    ]


def test_own_names_leave_out_those_that_say_nothing(monkeypatch):
    monkeypatch.setattr("getpass.getuser", lambda: "root")
    monkeypatch.setattr("socket.gethostname", lambda: "alices-laptop")
    assert personal.own_names() == {"alices-laptop": "this machine's name"}


# ------------------------------------------------------------------------------------------------ what is wanted


def test_the_first_t4_is_wanted_until_there_is_one():
    assert gallery.missing({"h200-torch2.11"})[0] == "t4" and "h200" not in gallery.missing({"h200-torch2.11"})
    assert "t4" not in gallery.missing({"t4-torch2.11"})
    assert {path.stem for path in RECORDINGS.glob("*.json")} <= gallery.stems()


@pytest.fixture
def on_a_t4(monkeypatch):
    """A machine with a T4, of which nothing is measured."""
    where = {**fingerprints.fingerprint(), **T4}
    monkeypatch.setattr(fingerprints, "fingerprint", lambda: where)
    monkeypatch.setattr(add_machine, "device_or_refuse", lambda device: device)


def test_on_a_t4_the_plan_asks_for_the_first_one(on_a_t4, capsys):
    assert main(["add-machine", "--plan"]) == 0
    said = capsys.readouterr().out
    assert "class t4, files are called t4-torch2.11.json" in said and "minutes" in said
    assert ("Nobody has recorded a T4 yet" in said) is not gallery.has("t4")
    assert all(name in said for name in study.STUDIES if study.instruments(name, "cuda"))


def test_the_plan_is_what_was_asked_for(capsys):
    assert main(["add-machine", "--plan", "--device", "cpu", "--study", "launch", "--study", "dispatcher"]) == 0
    assert "To be measured: dispatcher, launch. About 3 minutes" in capsys.readouterr().out
    assert main(["add-machine", "--plan", "--device", "cpu", "--receipt-only"]) == 0
    assert "To be measured: receipt. About 2 minutes" in capsys.readouterr().out


def test_a_study_that_there_is_not_and_a_machine_that_pretends_are_refused(monkeypatch, capsys):
    assert main(["add-machine", "--plan", "--study", "nothing"]) == 2
    assert "there is no study 'nothing'" in capsys.readouterr().err
    monkeypatch.setenv("ONE_ADD_CORES", "1")
    assert main(["add-machine", "--plan"]) == 2
    assert "pretends to be another machine" in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------ the whole way


@pytest.fixture
def quick(monkeypatch):
    """Instruments that measure nothing: a receipt of this machine, one sound part, one that fails and says a path."""
    where = fingerprints.fingerprint()

    def fails(progress):
        raise OSError(f"no counter in {SECRET}")

    receipts = [Instrument("cpu", "receipts", lambda p: replace(make_receipt("cpu"), where=where).to_dict())]
    parts = [
        Instrument("floor", "parts", lambda p: {**make_race().to_dict(), "notes": [f"built in {SECRET}"]}),
        Instrument("clock", "parts", fails),
    ]
    monkeypatch.setattr(record, "instruments", lambda device: [*receipts, Instrument("traps", "extras", fails)])
    monkeypatch.setattr(study, "instruments", lambda name, device: parts if name in ("launch", "fuse") else [])
    return parts


def everything(folder: Path) -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*")) if path.is_file())


def test_one_command_measures_validates_cleans_and_says_how_to_send(quick, tmp_path, capsys):
    folder = tmp_path / "mine"
    code = main(["add-machine", "--device", "cpu", "--out", str(folder)])
    said = capsys.readouterr().out
    stem = recordings.stem_for(fingerprints.fingerprint(), {"cpu": None})
    wanted = [f"utils/recordings/{stem}.json", *(f"utils/recordings/studies/{name}/{stem}.json" for name in ("launch", "fuse"))]
    assert all((folder / name).is_file() and name in said for name in wanted), said
    recordings.load(stem, folder / "utils/recordings")
    found = studies.load("launch", stem, folder / "utils/recordings/studies")
    assert list(found.parts) == ["floor"] and found.failures["clock"].startswith("no counter in ")
    assert "alice" not in everything(folder) + said and SECRET[:6] not in everything(folder)
    with zipfile.ZipFile(tmp_path / "mine-recording.zip") as archive:
        assert {*wanted, add_machine.LETTER} <= set(archive.namelist())
    letter = (folder / add_machine.LETTER).read_text(encoding="utf-8")
    assert "Open a pull request" in letter and letter in said and "Without git" in letter
    assert code == int("do not hold" in letter)  # a made-up receipt may lie outside the ranges, and then it says so


def test_what_is_there_is_not_measured_again_unless_asked(quick, tmp_path, capsys):
    line = ["add-machine", "--device", "cpu", "--study", "launch", "--out", str(tmp_path / "mine")]
    assert main(line) == 0
    (path,) = (tmp_path / "mine").rglob("studies/launch/*.json")
    before = path.read_bytes()
    assert main(line) == 0 and "launch: there already" in capsys.readouterr().out and path.read_bytes() == before
    path.write_text("{", encoding="utf-8")
    assert main(line) == 0 and json.loads(path.read_text(encoding="utf-8"))["study"] == "launch", "a damaged one is made again"
    assert main([*line, "--again"]) == 0 and "there already" not in capsys.readouterr().out


def test_a_study_of_which_nothing_could_be_measured_costs_only_itself(quick, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(study, "instruments", lambda name, device: quick if name == "launch" else quick[1:])
    code = main(["add-machine", "--device", "cpu", "--study", "launch", "--study", "fuse", "--out", str(tmp_path / "mine")])
    said = capsys.readouterr().out
    assert code == 1 and "fuse: not recorded: no part of fuse could be measured" in said and "launch: written" in said
    assert "not recorded: fuse" in (tmp_path / "mine" / add_machine.LETTER).read_text(encoding="utf-8")


def test_where_nothing_could_be_measured_there_is_nothing_to_send(quick, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(study, "instruments", lambda name, device: quick[1:])
    assert main(["add-machine", "--device", "cpu", "--study", "fuse", "--out", str(tmp_path / "mine")]) == 1
    assert "nothing to send" in capsys.readouterr().err and not list(tmp_path.rglob("*.zip"))


def test_the_readers_own_folder_is_where_it_goes_by_default(home):
    here = add_machine.Machine("cpu", "cpu-x86-64", "cpu-2core-torch2.13", "a CPU")
    assert add_machine.default_folder(here) == home / "add-machine" / here.stem
    assert add_machine.place("launch", here, Path("x")).as_posix() == "x/utils/recordings/studies/launch/cpu-2core-torch2.13.json"


def test_no_cuda_is_refused_in_one_line(capsys):
    if fingerprints.fingerprint()["device"] == "cuda":
        pytest.skip("there is a GPU here")
    with pytest.raises(Refused):
        add_machine.machine("cuda")


# ------------------------------------------------------------------------------------------------ what a new machine changes


def test_a_machine_that_is_added_changes_nothing_that_the_course_says(tmp_path):
    """The newest GPU is not the one that figures, ledger and lessons speak of."""

    def recorded(where: dict, date: str) -> str:
        receipt = replace(make_receipt("cuda"), where={**make_receipt("cuda").where, **where}).to_dict()
        data = {
            "date": date,
            "where": receipt["where"],
            "receipts": {"cuda": receipt},
            "extras": {},
            "command": "python -m utils record",
        }
        one = studies.Study("launch", "cuda", date, receipt["where"], {"floor": make_race(device="cuda")}, command="x")
        studies.write(one, tmp_path / "studies/launch" / f"{one.stem}.json")
        return recordings.write(data, folder=tmp_path).stem

    both = [
        recorded({"gpu": "NVIDIA H200"}, "2026-11-30T00:00:00+00:00"),
        recorded({"gpu": "Tesla T4"}, "2027-01-01T00:00:00+00:00"),
    ]
    assert both == ["h200-torch2.11", "t4-torch2.11"]
    assert recordings.best("cuda", tmp_path).stem == both[0]
    assert studies.best("launch", "cuda", tmp_path / "studies").stem == both[0]
    (tmp_path / "h200-torch2.11.json").unlink()
    assert recordings.best("cuda", tmp_path).stem == both[1], "any is better than none"
