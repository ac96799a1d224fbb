"""Lab 10's world: as ill for one name as for another, diagnoses that another way of reading finds as well, no empty points."""

from __future__ import annotations

import ast

import pytest

from grading import course
from grading.score import lost, total
from tests.lab_answers import LIAR, answered, solved
from utils.labs import cells, diagnose, learner
from utils.labs.diagnose import classics, unseen, ward
from utils.labs.diagnose_programs import WORTH, Other, Work, cured, facts, play, saved, seen, step_us, truth
from utils.labs.diagnose_recorded import DIAGNOSES, ISSUE_US, MACHINE, label, recorded
from utils.labs.diagnose_traces import HOST_KINDS, ILLNESSES, NONE, disguised, facts_of, queued
from utils.model import diagnosis, sick_traces, trace_features, traces

LAB = "lab10_diagnose"
NAMES = ["nobody", "Ada", "Straße 7", "数", "x" * 500, *(f"reader {i}" for i in range(5))]
PATIENTS = [patient for name in NAMES for patient in ward(name)]


def solution() -> dict:
    return solved(LAB)


def program(want: str, seed: int = 0):
    return diagnose._drawn(diagnose.random.Random(f"test/{want}/{seed}"), want)[0]


# ------------------------------------------------------------------------------------------------ whose programs


def test_the_same_name_gives_the_same_ward_and_another_name_another():
    first = ward("Ada")
    diagnose._patients.cache_clear()
    assert ward("Ada") == first == ward("  ada ") != ward("Grace")
    assert len({repr(ward(name)) for name in NAMES}) == len(NAMES)


def test_a_class_with_a_seed_has_other_wards_and_other_unseen_programs(tmp_path, monkeypatch):
    without, hidden = ward("Ada"), unseen("first")
    (tmp_path / "seed.txt").write_text("spring 2027\n")
    monkeypatch.setattr(learner, "CLASS_SEED", tmp_path / "seed.txt")
    caches = (learner.class_seed, unseen)
    try:
        for cache in caches:
            cache.cache_clear()
        assert ward("Ada") != without and unseen("first") != hidden
        assert all(solution()["diagnose"](patient.trace) == patient.diagnosis for patient in (*ward("Ada"), *unseen("first")))
        diagnose._patients.cache_clear()
        again = ward("Ada")
        assert again == ward("ada"), "and the grader draws the same again"
    finally:
        monkeypatch.undo()
        for cache in caches:
            cache.cache_clear()
    assert ward("Ada") == without and unseen("first") == hidden


def test_nobody_has_the_unseen_programs_in_the_ward():
    """Not even who guesses how they are seeded and writes that for a name."""
    hidden = {patient.facts["step"] for patient in unseen("first")}
    for name in ("", "unseen/first", "one-add-priced/lab 10/unseen/first"):
        assert not hidden & {patient.facts["step"] for patient in ward(name)}


@pytest.mark.parametrize("name", NAMES, ids=lambda name: name[:12])
def test_a_ward_has_every_illness_a_second_one_and_two_that_are_well(name):
    found = [patient.diagnosis for patient in ward(name)]
    assert len(found) == 10 and found.count(NONE) == 2 and set(found) == {*ILLNESSES, NONE}
    assert [patient.diagnosis for patient in ward(name)] != sorted(found, key=(*ILLNESSES, NONE).index), "in no telling order"


def test_healthy_programs_look_ill():
    """Waiting most of the time, loading for long, compiling first: each of these is met, and is no illness."""
    well = [patient for name in NAMES for patient in ward(name) if patient.diagnosis == NONE]
    assert any(p.facts["wait"] > 0.5 * p.facts["step"] for p in well)
    assert any(p.facts["load"] > 0.1 * p.facts["step"] for p in well)
    assert all(any(e.kind == "compile" for e in p.trace.events) for p in well) and all(p.facts["compile"] == 0 for p in well)
    assert any(p.facts["unfused"] > 0 for p in well) and any(p.facts["wide_dtype"] > 0 for p in well)


# ------------------------------------------------------------------------------------------------ the diagnosis, in two ways


def test_reading_the_trace_finds_what_playing_the_cures_found():
    """The solution reads events; `truth` never looks at one: it cures the program and plays it again."""
    for patient in (*PATIENTS, *unseen("a"), *unseen("b"), *classics()):
        assert solution()["diagnose"](patient.trace) == patient.diagnosis, patient.facts


def test_the_parts_of_a_step_are_the_programs():
    for patient in (*PATIENTS, *unseen("a")):
        for part, us in solution()["parts"](patient.trace).items():
            assert us == pytest.approx(patient.facts[part], rel=1e-9, abs=1e-6), part


@pytest.mark.parametrize("illness", ILLNESSES)
def test_a_cured_program_has_another_diagnosis_or_none(illness):
    one = program(illness)
    well = cured(one, illness)
    assert truth(one) == illness and step_us(well) < (1 - WORTH) * step_us(one)
    assert saved(well)[illness] < 0.01, "a cure that was had is not there to be had again"
    if illness != "launch_bound":  # a bound: of a graph of short kernels the replay is still an issue, and gaps look like one
        assert solution()["diagnose"](seen(well)) != illness


def test_a_graph_cannot_be_had_twice_and_holds_no_read_out():
    for want in ("recaptures", "reads_out"):
        with pytest.raises(ValueError, match="graph already, or a read-out"):
            cured(program(want), "launch_bound")


def test_fusing_keeps_what_is_not_handed_on():
    one = program("unfused", 3)
    before = [w for w in one.steps[1] if isinstance(w, Work)]
    after = [w for w in cured(one, "unfused").steps[1] if isinstance(w, Work)]
    assert len(after) < len(before) and not any(w.chain for w in after)
    assert sum(w.nbytes for w in after) == sum(w.nbytes - w.handed for w in before)
    assert sum(w.flops for w in after) == sum(w.flops for w in before)


# ------------------------------------------------------------------------------------------------ recorded programs


@pytest.mark.parametrize("name", DIAGNOSES)
def test_a_recorded_program_has_the_diagnosis_of_the_courses_own_reader(name):
    """Two readers, one of Chrome's events by shares of the step, one of two lanes by what a cure would leave."""
    own = diagnosis.diagnose(sick_traces.load(f"{MACHINE}/{name}").events).id
    assert own == DIAGNOSES[name] or (own == "compute_bound" and DIAGNOSES[name] == NONE)
    assert solution()["diagnose"](recorded(name)) == DIAGNOSES[name] == solution()["diagnose"](disguised(recorded(name), 1))
    assert "torch" in label(name) and "recorded" in label(name)


def test_a_recorded_lane_is_taken_apart_and_nothing_lost():
    """Issue, work and what is neither make the lane; the price of issuing is that of the smallest ops there."""
    trace = recorded("one_by_one")
    events = traces.read(sick_traces.FOLDER / MACHINE / f"one_by_one{sick_traces.ENDING}")
    median = trace_features.features(events).median_op_ns / 1e3
    assert 0.5 * median < ISSUE_US < 2 * median
    ops = [e for e in trace.events if e.kind == "op"]
    work = {e.link: e for e in trace.events if e.kind == "kernel"}
    launches = [e for e in trace.events if e.kind == "launch"]
    assert len(ops) == len(launches) and all(call.end - call.start <= ISSUE_US + 1e-9 for call in launches)
    assert all(work[call.link].start == call.end for call in launches if call.link in work)
    assert all(a.end <= b.start + 1e-9 for a, b in zip(ops, ops[1:]))
    assert sum(e.end - e.start for e in [*ops, *work.values()]) > 0.9 * (trace.steps[-1][1] - trace.steps[0][0])


# ------------------------------------------------------------------------------------------------ what a trace looks like


@pytest.mark.parametrize("patient", PATIENTS[::7], ids=lambda patient: patient.diagnosis)
def test_a_trace_is_one_that_a_machine_could_have_made(patient):
    events, steps = patient.trace.events, patient.trace.steps
    assert list(events) == sorted(events, key=lambda e: (e.start, -e.end)) and len(steps) == 5
    assert all(stop == start for (_, stop), (start, _) in zip(steps, steps[1:])), "one step after the other"
    kernels = [e for e in events if e.lane == "device"]
    assert all(a.end <= b.start + 1e-9 for a, b in zip(kernels, kernels[1:])), "one stream"
    calls = {e.link: e for e in events if e.kind in ("launch", "replay")}
    assert {k.link for k in kernels} == set(calls) and all(k.start >= calls[k.link].end - 1e-9 for k in kernels)
    outer = [e for e in events if e.lane == "host" and e.kind in ("op", *HOST_KINDS.values())]
    assert all(a.end <= b.start + 1e-9 for a, b in zip(outer, outer[1:])), "a host does one thing at a time"
    ops = [e for e in outer if e.kind == "op"]
    inside = [e for e in events if e.kind in ("launch", "replay") or (e.kind == "wait" and e.start < steps[-1][1])]
    assert all(any(op.start - 1e-9 <= e.start and e.end <= op.end + 1e-9 for op in ops) for e in inside)


def test_a_disguise_changes_names_links_and_time_and_no_length():
    trace = ward("Ada")[0].trace
    other = disguised(trace, 7)
    assert other == disguised(trace, 7) != disguised(trace, 8)
    assert not {e.name for e in trace.events} & {e.name for e in other.events}
    assert [e.end - e.start for e in other.events] == pytest.approx([e.end - e.start for e in trace.events], abs=1e-6)
    assert [(e.kind, e.nbytes, e.flops, e.chain) for e in other.events] == [
        (e.kind, e.nbytes, e.flops, e.chain) for e in trace.events
    ]
    assert {(e.link, o.link) for e, o in zip(trace.events, other.events) if not e.link} <= {(0, 0)}


def test_queued_kernels_run_in_later_steps():
    """Else a learner who asks the clock whose kernel it is would be right."""
    behind = 0
    for seed in range(20):
        trace, calls, lengths = queued(seed)
        assert sum(map(len, lengths)) == sum(e.kind == "kernel" for e in trace.events) and len(calls) == len(trace.steps)
        behind += sum(e.kind == "kernel" and e.start > trace.steps[-1][1] for e in trace.events) > 0
    assert behind > 10


def test_facts_are_whole():
    one = program("waits_for_data")
    assert set(facts_of(step=1.0)) == set(facts(one)) and facts_of()["issue"] == 0.0
    slots = play(one)
    assert len(slots) == sum(map(len, one.steps))
    loads = [item.us for step in one.steps[1:] for item in step if isinstance(item, Other) and item.kind == "load"]
    assert facts(one)["load"] == pytest.approx(sum(loads) / 4)


# ------------------------------------------------------------------------------------------------ the notebook


def test_no_test_calls_another_exercises_function():
    source, mine, names = cells.known(cells.read(course.source(LAB))), set(), {}
    for cell in source:
        if cell.solution and not cell.by_hand:
            mine = {node.name for node in ast.parse(cell.source).body if isinstance(node, ast.FunctionDef)}
            names[cell.id] = mine
        elif cell.test:
            others = set().union(*names.values()) - mine - {"my_name"}
            read = {node.id for node in ast.walk(ast.parse(cell.source)) if isinstance(node, ast.Name)}
            assert not read & others and read & mine, (cell.id, read & others)


@pytest.mark.parametrize("name", ["Grace", "", "the same as everybody"])
def test_the_solution_is_full_for_any_name(name):
    assert lost(answered(LAB, {"my_name": f"def my_name():\n    return {name!r}"})) == set()


CONSTANTS = [
    "0.0",
    "1.0",
    "15.0",
    "None",
    "[]",
    "{}",
    "()",
    "'host'",
    "(12.0, 'memory')",
    "(1, 0.0)",
    "(0, 0.0)",
    "[(30.0, 40.0)]",
    "NONE",
]
CONSTANTS += ["'launch_bound'", "{'nothing': 10.0}", "[('reads_out', 0.3)]", "[{'calls': 1, 'kernels': 1, 'median_us': 3.0}] * 2"]
CONSTANTS += [
    "dict.fromkeys(('step', 'issue', 'wait', 'load', 'compile', 'record', 'device'), 0.0)",
    "Liar()",
    "[Liar()]",
    "(Liar(), Liar())",
]


@pytest.mark.parametrize("value", CONSTANTS)
def test_a_function_that_returns_a_constant_earns_nothing(value):
    answers = {}
    for cell in cells.known(cells.read(course.source(LAB))):
        if cell.solution and not cell.by_hand:
            made = [node for node in ast.parse(cell.source).body if isinstance(node, ast.FunctionDef)]
            answers[cell.id] = LIAR + "\n".join(f"def {f.name}(*a, **k):\n    return {value}" for f in made)
    scores = answered(LAB, answers)
    assert total(scores) == 0, [score.id for score in scores if score.points]
