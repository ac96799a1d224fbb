"""Sick programs and their recordings: the twins do the same work, what is committed is whole, and each is given its diagnosis."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import replace

import pytest
import torch

from tests.factories import WHERE
from tests.made_traces import Made, a_trace, product, small
from utils.__main__ import main
from utils.measure import sick_recorder
from utils.measure.device_clock import MeasurementError
from utils.measure.sick import PROGRAMS
from utils.model import bank, sick_traces
from utils.model.diagnosis import diagnose, key
from utils.model.recordings import RecordingError
from utils.model.sick_traces import HEALTHY, SICK, Recorded
from utils.model.trace_features import features, step_marks
from utils.show import trace_pictures
from utils.show.picture import Picture

COMMITTED = sick_traces.available()
ON_CPU = [p for p in PROGRAMS.values() if "cpu" in p.devices]
SLOW = {"new_shapes", "captured_again", "waits_for_thread"}  # to run; they are run once all the same
FACTS = dict.fromkeys(("step_ns", "twin_step_ns", "aa_error", "cpu_share", "peak_bytes", "threads", "utilisation"))


# ------------------------------------------------------------------------------------------------ the programs


@pytest.mark.parametrize("program", ON_CPU, ids=lambda p: p.id)
def test_a_sick_program_and_its_twin_compute_the_same(program):
    """What cannot be compared (a step of an optimizer, a cleared buffer) runs at least."""
    size, seed = 0.02 if program.id not in ("one_by_one", "read_outs", "slow_loader") else 0.2, 3
    with torch.no_grad():
        sick = program.sick("cpu", size=size, seed=seed)()
        healthy = program.healthy("cpu", size=size, seed=seed)() if program.healthy else None
    if isinstance(sick, list):
        sick = torch.cat(sick)
    if program.id in ("batch_of_one", "new_shapes", "wide_numbers", "python_between") or healthy is None:
        return  # other inputs, or other numbers, by intention
    torch.testing.assert_close(torch.as_tensor(sick), torch.as_tensor(healthy).reshape(torch.as_tensor(sick).shape))


def test_there_are_at_least_ten_with_a_cpu_form_and_every_one_says_what_it_is():
    assert len(ON_CPU) >= 10 and len(PROGRAMS) == len({p.title for p in PROGRAMS.values()})
    for name, program in PROGRAMS.items():
        assert program.id == name and program.diagnosis in key() and "cuda" in program.devices
        assert bool(program.twin) == (program.healthy is not None), name
        assert program.healthy is not None or key()[program.diagnosis].healthy, name


def test_another_seed_is_another_program_of_the_same_kind():
    first, again, other = (PROGRAMS["element_by_element"].sick("cpu", seed=seed)() for seed in (1, 1, 2))
    assert torch.equal(first, again) and not torch.equal(first, other)


# ------------------------------------------------------------------------------------------------ what is committed


def test_at_least_ten_programs_are_recorded_on_a_cpu():
    assert len({sick_traces.load(n).program for n in sick_traces.available("cpu")}) >= 10


@pytest.mark.parametrize("name", COMMITTED)
def test_a_committed_trace_is_whole_and_is_given_its_diagnosis(name):
    recorded = sick_traces.load(name)
    packed = (sick_traces.FOLDER / f"{name}{sick_traces.ENDING}").read_bytes()
    assert len(packed) <= sick_traces.MOST_BYTES and f"{recorded.stem}/{recorded.name}" == name
    assert sick_traces.packed_bytes(recorded.to_dict()) == packed, "the same recording gives the same bytes"
    assert len(step_marks(recorded.events)) == recorded.steps == features(recorded.events).steps
    assert recorded.label().startswith("recorded · ") and recorded.where["torch"] in recorded.label()
    assert recorded.facts["step_ns"] > 0 and (recorded.facts["twin_step_ns"] is None) == (
        PROGRAMS[recorded.program].healthy is None
    )
    found, wanted = diagnose(recorded.events), PROGRAMS[recorded.program].diagnosis
    if recorded.form == SICK:
        assert found.id == wanted, (found.finding, found.also, found.saw)
    elif recorded.program == "captured_chain" and recorded.device == "cuda":
        # Fused into one kernel the chain still waits for bytes, and for nothing else: an eighth of them.
        assert found.id == wanted and found.features.kernels == 1
        assert recorded.facts["step_ns"] < 0.25 * recorded.facts["twin_step_ns"]
    else:
        assert found.id != wanted, (found.finding, found.saw)


@pytest.mark.parametrize("name", COMMITTED)
def test_a_committed_trace_tells_nothing_of_the_machine_but_its_fingerprint(name):
    text = gzip.decompress((sick_traces.FOLDER / f"{name}{sick_traces.ENDING}").read_bytes()).decode()
    assert not re.search(r"host_name|traceName|/root|/home|/tmp|site-packages|baseTime", text)


def test_a_gpu_has_no_trace_until_one_is_recorded():
    """Nothing claims one: what is there is of a GPU's own fingerprint."""
    for name in sick_traces.available("cuda"):
        assert sick_traces.load(name).where["gpu"], name
    assert sick_traces.of("across_the_bus", device="cpu") is None


def made(**changes) -> Recorded:
    """A recording of two small steps on the CPU of the factories."""
    t = Made("cpu", 5)
    for _ in range(2):
        with t.step():
            small(t, 30)
    fields = {
        "program": "one_by_one",
        "form": SICK,
        "variant": {"size": 1.0, "seed": 0},
        "device": "cpu",
        "date": "2026-11-30T12:00:00+00:00",
        "where": WHERE["cpu"],
        "steps": 2,
        "facts": {**FACTS, "step_ns": 1e5, "twin_step_ns": 1e4},
        "events": tuple(sick_recorder.reduced(t.events(), 2)),
        "command": "python -m utils record --sick one_by_one --device cpu",
    }
    return Recorded(**{**fields, **changes})


def test_what_is_written_is_what_is_loaded(tmp_path):
    recorded = made()
    path = sick_traces.write(recorded, tmp_path)
    assert path.parent.name == recorded.stem and path.name == "one_by_one.json.gz"
    assert replace(sick_traces.load(f"{recorded.stem}/one_by_one", tmp_path), source="live") == replace(recorded, source="live")
    first = path.read_bytes()
    assert sick_traces.write(recorded, tmp_path).read_bytes() == first
    found = sick_traces.of("one_by_one", folder=tmp_path)
    assert found is not None and found.events == recorded.events
    assert (
        sick_traces.of("one_by_one", HEALTHY, folder=tmp_path) is None
        and sick_traces.of("one_by_one", seed=7, folder=tmp_path) is None
    )


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda d: d["traceEvents"][3].update(dur=1e6), "changed after it was recorded"),
        (lambda d: d["oneAddPriced"]["facts"].update(step_ns=1.0), "changed after it was recorded"),
        (lambda d: d["oneAddPriced"].update(version=9), "newer course"),
        (lambda d: d["oneAddPriced"].update(form="cured"), "damaged"),
        (lambda d: d.pop("oneAddPriced"), "not a recorded trace of this course"),
        (lambda d: d["traceEvents"].append({"ph": "X", "name": "a", "pid": 1, "tid": 1}), "damaged"),
    ],
)
def test_a_recording_that_was_changed_is_refused(damage, said, tmp_path):
    path = sick_traces.write(made(), tmp_path)
    data = json.loads(gzip.decompress(path.read_bytes()))
    damage(data)
    path.write_bytes(gzip.compress(json.dumps(data).encode()))
    with pytest.raises(RecordingError, match=said):
        sick_traces.load(f"{path.parent.name}/one_by_one", tmp_path)
    with pytest.warns(UserWarning, match=said):
        assert sick_traces.of("one_by_one", folder=tmp_path) is None


def test_a_recording_under_another_name_or_cut_short_is_refused(tmp_path):
    path = sick_traces.write(made(), tmp_path)
    other = path.with_name("slow_loader.json.gz")
    other.write_bytes(path.read_bytes())
    with pytest.raises(RecordingError, match="holds another recording"):
        sick_traces.load(f"{path.parent.name}/slow_loader", tmp_path)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(RecordingError, match="damaged"):
        sick_traces.load(f"{path.parent.name}/one_by_one", tmp_path)
    with pytest.raises(RecordingError, match="not recorded"):
        sick_traces.load("cpu-2core-torch2.13/nothing", tmp_path)


def test_a_trace_that_is_too_large_is_not_written(tmp_path):
    noise = [
        {"ph": "X", "cat": "cpu_op", "name": f"op{i * 7919 % 10**9}", "ts": i * 1.7, "dur": 1.0, "pid": 1, "tid": 1}
        for i in range(20_000)
    ]
    with pytest.raises(RecordingError, match="at most"):
        sick_traces.write(made(events=tuple(noise)), tmp_path)
    assert not list(tmp_path.rglob("*.gz"))


def test_names_are_as_different_as_what_they_name():
    variants = [("a", f, s, n) for f in (SICK, HEALTHY) for s in (1.0, 0.5, 2.0) for n in (0, 7)]
    assert len({sick_traces.name_of(*v) for v in variants}) == len(variants)
    assert sick_traces.name_of("a", SICK, 0.5, 7) == "a.size0p5.seed7"


def test_a_blinded_recording_does_not_give_its_answer_away():
    recorded = made()
    hidden = recorded.blinded("case 3")
    told = json.dumps({k: v for k, v in vars(hidden).items() if k not in ("events", "where")})
    assert "one_by_one" not in told and SICK not in told and "twin" not in told and hidden.label() == recorded.label()
    assert diagnose(hidden.events).id == "launch_bound"


# ------------------------------------------------------------------------------------------------ the recorder


def test_the_quietest_run_is_kept_and_nothing_of_the_machine():
    t = Made("cpu", 9)
    for length in (400.0, 9000.0, 100.0, 90.0, 300.0, 300.0):
        with t.step():
            product(t, us=length, dtype="float")
    kept = sick_recorder.reduced(t.events(), 2)
    marks = [e for e in kept if "ProfilerStep" in e["name"]]
    assert len(marks) == 2 and marks[0]["ts"] == 0 and sum(e["dur"] for e in marks) < 300
    assert {(e["pid"], e["tid"]) for e in kept} == {(1, 1)} and all(e["ts"] < 400 for e in kept)
    assert [e["ts"] for e in kept] == sorted(e["ts"] for e in kept)


def test_reducing_a_gpus_trace_keeps_its_diagnosis_and_the_work_behind_the_last_mark():
    for name in ("launch_bound", "reads_out", "recaptures", "bandwidth_bound", "crosses_the_bus", "allocates_anew", "recompiles"):
        events = a_trace(name, "cuda", 3)
        kept = sick_recorder.reduced(events, 3)
        assert diagnose(kept).id == name and {e["pid"] for e in kept} == {0, 1}
        assert sum(e["cat"] == "kernel" for e in kept) == sum(e["cat"] == "kernel" for e in events), name
    compiled = sick_recorder.reduced(a_trace("recompiles", "cuda", 3), 3)
    assert sum(e["name"] == "aten::mul" for e in compiled) == 3, "ops inside a compilation are left out"


def test_a_trace_that_is_too_long_loses_its_last_steps_and_a_step_that_is_too_long_is_refused():
    t = Made("cpu", 4)
    for _ in range(5):
        with t.step():
            small(t, 200)
    events = sick_recorder.reduced(t.events(), 5)
    whole = len(sick_traces.packed_bytes({"traceEvents": events}))
    kept, steps = sick_recorder.fitting(events, whole // 2)
    assert 1 <= steps < 5 and len(step_marks(kept)) == steps == features(kept).steps
    assert features(kept).ops == 200
    assert sick_recorder.fitting(events, 2 * whole) == (events, 5)
    with pytest.raises(MeasurementError, match="smaller"):
        sick_recorder.fitting(events, whole // 20)


def test_one_command_records_a_program_in_a_process_of_its_own(tmp_path, capsys):
    assert (
        main(["record", "--sick", "giant_product", "--device", "cpu", "--size", "0.25", "--seed", "4", "--out", str(tmp_path)])
        == 0
    )
    (path,) = tmp_path.glob("*/*.json.gz")
    assert path.name == "giant_product.size0p25.seed4.json.gz" and path.name in capsys.readouterr().out
    found = sick_traces.load(f"{path.parent.name}/{path.name.removesuffix(sick_traces.ENDING)}", tmp_path)
    assert found.facts["threads"] == 1 and found.facts["step_ns"] > 0 and features(found.events).by_op["aten::mm"][0] == 1
    assert main(["diagnose", str(path)]) == 0 and "diagnosis:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--sick", "nobody"], "there is no sick program"),
        (["--sick", "across_the_bus", "--device", "cpu"], "is a program for cuda"),
        (["--sick", "all", "--size", "0"], "a size is between"),
        (["--sick", "all", "--seed", "-1"], "not negative"),
        (["--sick", "all", "--out", __file__], "takes a folder"),
    ],
)
def test_a_recording_that_cannot_be_made_as_asked_is_one_line(arguments, said, capsys):
    assert main(["record", *arguments, *([] if "--device" in arguments else ["--device", "cpu"])]) == 2
    err = capsys.readouterr().err
    assert said in err and err.count("\n") == 1


def test_one_program_that_fails_costs_no_other(tmp_path, monkeypatch, capsys):
    def record(program, form, device, **how):
        if form == SICK:
            raise MeasurementError("it broke")
        return made(program=program, form=form)

    monkeypatch.setattr(sick_recorder, "record", record)
    assert main(["record", "--sick", "one_by_one", "--device", "cpu", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "not recorded: one_by_one: it broke" in out and "one_by_one.healthy.json.gz" in out
    monkeypatch.setattr(sick_recorder, "record", lambda *a, **k: record(a[0], SICK, a[2]))
    assert main(["record", "--sick", "one_by_one", "--device", "cpu", "--out", str(tmp_path)]) == 1


def test_what_does_not_exist_is_refused_before_a_process_is_started(monkeypatch):
    monkeypatch.setattr(sick_recorder.children, "in_child", lambda *a, **k: pytest.fail("a process was started"))
    with pytest.raises(KeyError):
        sick_recorder.record("nobody")
    with pytest.raises(MeasurementError, match="no healthier twin"):
        sick_recorder.record("giant_product", HEALTHY)
    with pytest.raises(MeasurementError, match="does not run on cpu"):
        sick_recorder.record("across_the_bus", SICK, "cpu")


# ------------------------------------------------------------------------------------------------ questions about them

ASKED = [q for q in bank.practice() if "sick" in q.get("trace", {})]


@pytest.mark.parametrize("question", ASKED, ids=lambda q: q["id"])
def test_a_question_about_a_recorded_trace_shows_it_and_not_its_answer(question):
    shown = trace_pictures.picture(question["trace"])
    program = PROGRAMS[question["trace"]["sick"]]
    assert isinstance(shown, Picture) and program.id not in shown.text() and "recorded · " in shown.text()
    assert key()[program.diagnosis].name not in shown.text() and program.title not in shown.text()


def test_a_question_whose_trace_is_not_recorded_says_so(monkeypatch):
    monkeypatch.setattr(sick_traces, "FOLDER", sick_traces.FOLDER / "nowhere")
    assert len(ASKED) >= 5
    assert "not recorded" in trace_pictures.picture(ASKED[0]["trace"])
