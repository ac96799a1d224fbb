"""record: every instrument runs, one that fails costs only itself, and what is written passes verify or is refused."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys

import pytest

from tests.factories import make_reading, make_receipt
from utils.__main__ import main
from utils.commands import record as command
from utils.measure import children, machine, record
from utils.measure.record import Instrument
from utils.model import recordings
from utils.model.readings import Receipt


def receipt_here(device: str = "cpu", grad: bool = False) -> dict:
    """A plausible receipt that was "measured" on this machine."""
    return make_receipt(device, grad, where=machine.fingerprint()).to_dict()


def explode(progress):
    raise OSError("cannot open /srv/secret/probe.so: wrong ELF class")


def working() -> list[Instrument]:
    readings = {"one": make_reading("one", 12.3456, rng=random.Random(3)).to_dict()}
    return [
        Instrument("cpu", "receipts", lambda p: receipt_here(), 3),
        Instrument("cpu_grad", "receipts", lambda p: receipt_here(grad=True), 3),
        Instrument("traps", "extras", lambda p: readings),
    ]


def test_the_instruments_of_a_device_cover_its_receipts():
    cpu = [(i.part, i.name) for i in record.instruments("cpu")]
    assert cpu == [("receipts", "cpu"), ("receipts", "cpu_grad"), ("extras", "code_or_data"), ("extras", "traps")]
    cuda = [i.name for i in record.instruments("cuda") if i.part == "receipts"]
    assert cuda == list(recordings.KEYS)


def test_an_instrument_in_its_own_process_gives_its_answer_and_its_progress(monkeypatch, tmp_path):
    code = (
        "import sys\nfrom utils.measure import record\n"
        "def demo(device, progress):\n    progress(0.5, 'half  way')\n    print('chatter of a library')\n"
        "    return {'device': device, 'ns': 12.5}\n"
        "record.MEASURES['demo'] = ('extras', demo)\nrecord._child(*sys.argv[3:5])\n"
    )
    script = tmp_path / "child.py"
    script.write_text(code)
    real = subprocess.Popen
    monkeypatch.setattr(
        children.subprocess, "Popen", lambda command, **more: real([sys.executable, str(script), *command[1:]], **more)
    )
    seen = []
    assert record.in_child("demo", "cpu", lambda done, text: seen.append((done, text))) == {"device": "cpu", "ns": 12.5}
    assert seen == [(0.5, "half way")]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "killed by signal 11"),
        ("raise RuntimeError('no GPU here')", "RuntimeError: no GPU here"),
        ("print('answer {}', flush=True); raise SystemExit(3)", "it said nothing"),
        ("pass", "it said nothing"),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_process_that_dies_is_a_failure_in_words(monkeypatch, body, said):
    real = subprocess.Popen
    monkeypatch.setattr(children.subprocess, "Popen", lambda command, **more: real([sys.executable, "-c", body], **more))
    with pytest.raises(RuntimeError, match=said):
        record.in_child("cpu", "cpu", lambda done, text: None)
    data = record.record("cpu", run=[record.Instrument("cpu", "receipts", lambda p: record.in_child("cpu", "cpu", p))])
    assert said in data["extras"]["failures"]["cpu"]


def test_a_process_that_hangs_is_killed_and_said(monkeypatch):
    real, started = subprocess.Popen, []

    def hang(command, **more):
        started.append(real([sys.executable, "-c", "import time; time.sleep(600)"], **more))
        return started[-1]

    monkeypatch.setattr(children.subprocess, "Popen", hang)
    with pytest.raises(RuntimeError, match="had not ended after 0 s"):
        children.in_child("utils.measure.record", ("cpu", "cpu"), lambda done, text: None, limit_s=0.2)
    assert started[0].poll() is not None


def test_a_gpu_whose_lanes_fail_keeps_its_receipt(monkeypatch):
    from utils.measure import lanes, stages

    prices = {"kernel": make_reading("kernel", 1200.0, rng=random.Random(5))}
    monkeypatch.setattr(lanes, "lanes", lambda device, progress=None: prices)
    assert stages._device_lanes("cuda", False, None) == (prices, ())
    assert stages._device_lanes("cpu", False, None) == stages._device_lanes("cuda", True, None) == ({}, ())

    def refuses(device, progress=None):
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(lanes, "lanes", refuses)
    device_time, notes = stages._device_lanes("cuda", False, None)
    assert device_time == {} and "not permitted" in notes[0]


def test_progress_only_rises_and_ends_at_one():
    seen: list[tuple[float, str]] = []

    def slow(progress):
        for step in range(5):
            progress(step / 4, f"step {step}")
        return {"a": 1}

    run = [Instrument("a", "extras", slow, 1), Instrument("b", "extras", slow, 5), Instrument("c", "extras", explode, 2)]
    record.record("cpu", progress=lambda done, text: seen.append((done, text)), run=run)
    done = [d for d, _ in seen]
    assert done == sorted(done) and done[-1] == 1.0 and max(done[:-1]) < 1.0, "a bar that reaches 1 closes itself"
    assert any("b: step 2" in text for _, text in seen)


def test_a_failing_instrument_costs_only_itself_and_is_told_without_folders():
    data = record.record("cpu", run=[*working(), Instrument("lanes", "extras", explode)])
    assert set(data["receipts"]) == {"cpu", "cpu_grad"} and "traps" in data["extras"]
    assert data["extras"]["failures"] == {"lanes": "cannot open probe.so: wrong ELF class"}


def test_a_number_that_is_none_is_a_failure_not_a_zero():
    data = record.record("cpu", run=[Instrument("traps", "extras", lambda p: {"ns": float("nan")})])
    assert "not finite" in data["extras"]["failures"]["traps"]


def test_numbers_are_rounded_and_the_prices_stay():
    rng = random.Random(11)
    for value in (rng.uniform(0.01, 9e6) for _ in range(200)):
        assert record.rounded(value) == pytest.approx(value, rel=6e-4)
        assert len(f"{record.rounded(value):.10f}".replace(".", "").strip("0")) <= 7
    raw = receipt_here()
    before, after = Receipt.from_dict(raw), Receipt.from_dict(record.rounded(raw))
    assert after.total_ns == pytest.approx(before.total_ns, rel=1e-3)
    assert after.coverage == pytest.approx(before.coverage, rel=2e-3)


def test_what_is_saved_can_be_loaded_and_verified(tmp_path, capsys):
    out = command.save(record.record("cpu", run=working()), tmp_path / "sub" / "mine.json")
    assert main(["verify", str(out)]) in (0, 1), "ranges depend on the factory; the file itself must be readable"
    assert "✔ whole and unchanged" in capsys.readouterr().out
    data = json.loads(out.read_text())
    recordings.verify(data, recordings.stem_for(data["where"], data["receipts"]))
    assert data["command"].startswith("python -m utils record")
    assert not list(tmp_path.rglob("*.tmp"))


def test_a_full_disk_keeps_the_old_file(tmp_path, monkeypatch):
    out = tmp_path / "mine.json"
    data = record.record("cpu", run=working())
    command.save(data, out)
    old = out.read_bytes()

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(command.Refused, match="No space left") as refusal:
        command.save({**data, "date": "2027-01-01"}, out)
    assert refusal.value.code == 1
    assert out.read_bytes() == old and [p.name for p in tmp_path.iterdir()] == ["mine.json"]


@pytest.mark.parametrize("fault", ["sample", "digest", "machine", "key"])
def test_verify_goes_red_for_a_changed_recording(tmp_path, capsys, fault):
    out = command.save(record.record("cpu", run=working()), tmp_path / "mine.json")
    data = json.loads(out.read_text())
    if fault == "sample":
        data["receipts"]["cpu"]["end_to_end"]["samples_ns"][3] *= 1.5
    elif fault == "digest":
        data["command"] += " --device cuda"
    elif fault == "machine":
        data["where"]["cpu"] = "Another CPU"
        data = recordings.seal(data)
    else:
        data["receipts"]["cpu_grad"] = data["receipts"]["cpu"]
        data = recordings.seal(data)
    out.write_text(json.dumps(data))
    assert main(["verify", str(out)]) == 1
    assert "✘" in capsys.readouterr().out


def test_verify_goes_red_for_a_price_that_no_such_machine_has(tmp_path, capsys):
    slow = make_receipt("cpu", where=machine.fingerprint())
    slow = slow.scaled_stage("kernel", 40.0)
    run = [Instrument("cpu", "receipts", lambda p: slow.to_dict())]
    out = command.save(record.record("cpu", run=run), tmp_path / "mine.json")
    assert main(["verify", str(out)]) == 1
    said = capsys.readouterr().out
    assert "✔ whole and unchanged" in said and "✘ cpu:" in said and "do NOT hold" in said


def test_without_a_single_receipt_nothing_is_written(tmp_path, monkeypatch, capsys):
    run = [Instrument("cpu", "receipts", explode), Instrument("traps", "extras", explode)]
    monkeypatch.setattr(record, "instruments", lambda device: run)
    assert main(["record", "--device", "cpu", "--out", str(tmp_path / "mine.json")]) == 1
    said = capsys.readouterr()
    assert "not recorded: cpu: cannot open probe.so" in said.out and "nothing to keep" in said.err
    assert list(tmp_path.iterdir()) == []


def test_the_command_writes_and_says_what_is_in_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(record, "instruments", lambda device: [*working(), Instrument("lanes", "extras", explode)])
    assert main(["record", "--device", "cpu", "--out", str(tmp_path / "mine.json")]) == 0
    said = capsys.readouterr().out
    assert "cpu, cpu_grad, traps" in said and "not recorded: lanes" in said and "kB" in said
    assert json.loads((tmp_path / "mine.json").read_text())["extras"]["failures"]


def test_a_folder_is_no_file(tmp_path, capsys):
    assert main(["record", "--device", "cpu", "--out", str(tmp_path)]) == 2
    assert "is a folder" in capsys.readouterr().err
