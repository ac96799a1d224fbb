"""The written schemas: the committed files pass, and every schema and every cross-reference goes red on damage."""

from __future__ import annotations

import copy
import json
import random
import subprocess
import sys

import pytest

from tests.factories import make_race, make_receipt
from utils import paths
from utils.measure import tree_store
from utils.measure.timeline import Launch, OpSpan, Segment, Timeline
from utils.model import recordings, results, schemas, sick_traces, studies
from utils.model.schemas import SchemaError

RNG = random.Random(20260729)


def committed(kind: str) -> dict:
    return copy.deepcopy(schemas.load(kind))


def a_recording() -> dict:
    receipt = make_receipt("cpu", seed=RNG.randrange(10**6))
    return recordings.seal(
        {
            "format": recordings.FORMAT,
            "version": 1,
            "date": receipt.date,
            "where": receipt.where,
            "receipts": {"cpu": receipt.to_dict()},
            "extras": {"race": make_race().to_dict()},
            "command": "python -m utils record",
        }
    )


def a_study() -> dict:
    receipt = make_receipt("cpu")
    parts = {"floor": make_race(), "lanes": {"depth": RNG.randrange(1, 2000)}}
    return studies.seal(studies.Study("launch", "cpu", receipt.date, receipt.where, parts, command="python -m utils record"))


def a_results_file() -> dict:
    where = make_receipt().where
    row = {
        "kind": "receipt_cpu",
        "machine": results.machine_id(where),
        "torch": where["torch"],
        "date": "2026-11-29T12:00:00.123456+00:00",
        "where": where,
        "payload": make_receipt(seed=RNG.randrange(10**6)).to_dict(),
    }
    guess = {"id": "x.y", "date": row["date"], "skipped": False, "answer": RNG.uniform(1, 99), "unit": "%", "extra": {}}
    return {"format": results.FORMAT, "version": 1, "rows": [row], "predictions": [guess]}


def a_wrong_answer() -> dict:
    return copy.deepcopy(schemas.read_yaml(sorted((paths.REPO / "solutions").glob("*/wrong/*.yml"))[0]))


def a_timeline() -> dict:
    launch = Launch("aten::add", "cudaLaunchKernel", RNG.randrange(1, 99), 2.5, 4.0, "add_kernel", 9.5, RNG.uniform(1, 2))
    segment = Segment("a + b", "float32, one element each", 11.5, (OpSpan("aten::add", 1.0, 7.5, 0),), (launch,))
    return json.loads(json.dumps(Timeline({"a + b": segment}, make_receipt("cuda").where, "2026-11-29").to_dict()))


def a_sick_trace() -> dict:
    return copy.deepcopy(sick_traces.of("one_by_one", device="cpu").to_dict())


SAMPLES = {
    "sick_trace": a_sick_trace,
    "recording": a_recording,
    "study": a_study,
    "results": a_results_file,
    "wrong_answer": a_wrong_answer,
    "trees": lambda: copy.deepcopy(tree_store.recorded("2.13.0")),
    "timeline": a_timeline,
    **{kind: lambda kind=kind: committed(kind) for kind in schemas.FILES if kind != "devices"},
}


def put(*steps):
    """A damage: set the value at a path; the last step is the new value."""
    *path, last, value = steps

    def damage(data):
        for step in path:
            data = data[step]
        data[last] = value

    return damage


def drop(*path):
    """A damage: remove the key at a path."""
    *path, last = path

    def damage(data):
        for step in path:
            data = data[step]
        del data[last]

    return damage


DAMAGES = [
    ("recording", "version", put("version", 2)),
    ("recording", "date", put("date", "yesterday")),
    ("recording", "receipts.cpu.end_to_end", drop("receipts", "cpu", "end_to_end", "samples_ns")),
    ("recording", "samples_ns[0]", put("receipts", "cpu", "loop", "samples_ns", 0, "fast")),
    ("recording", "receipts", put("receipts", {})),
    ("recording", "stages[0]", put("receipts", "cpu", "stages", 0, "isolate", None)),
    ("recording", "command", put("command", "by hand")),
    ("results", "format", put("format", "another course")),
    ("results", "rows[0].machine", put("rows", 0, "machine", "my laptop")),
    ("results", "rows[0]", drop("rows", 0, "payload")),
    ("results", "predictions[0]", put("predictions", 0, "answer", ["a", "list"])),
    ("results", "the top", put("note", "an unknown key")),
    ("ranges", "metrics[0]", put("metrics", 0, "ranges", [])),
    ("ranges", "causes", put("metrics", 1, "causes", ["only one is not several"])),
    ("ranges", "why", put("metrics", 1, "ranges", 0, "why", "because")),
    ("ranges", "metrics[1].ranges[0]", drop("metrics", 1, "ranges", 0, "hi")),
    ("ranges", "metrics[1]", put("metrics", 1, "ragnes", [])),
    ("claims", "kind", put("claims", 0, "kind", "rumour")),
    ("claims", "verdict", put("claims", 0, "verdict", "probably")),
    ("claims", "claims[0]", drop("claims", 0, "unit")),
    ("claims", "claims[0].id", put("claims", 0, "id", "a1")),
    ("stages", "groups", put("groups", [])),
    ("stages", "stages[2].cxx", put("stages", 2, "cxx", {})),
    ("stages", "stages[2].id", put("stages", 2, "id", "Dispatcher Hop")),
    ("questions", "kind", put("questions", 0, "kind", "essay")),
    ("questions", "questions[0].options", put("questions", 0, "options", [])),
    ("questions", "questions[0]", drop("questions", 0, "objective")),
    ("questions", "feedback", drop("questions", 0, "options", 0, "feedback")),
    ("misconceptions", "misconceptions[0]", drop("misconceptions", 0, "truth")),
    ("misconceptions", "misconceptions[0].id", put("misconceptions", 0, "id", "Call Is Work")),
    ("syllabus", "objectives[0]", drop("objectives", 0, "claims")),
    ("syllabus", "objectives[0].exercises[0]", put("objectives", 0, "exercises", ["lab 1, exercise 2"])),
    ("diagnoses", "diagnoses[2]", drop("diagnoses", 2, "cure")),
    ("diagnoses", "diagnoses[0].name", put("diagnoses", 0, "name", "bad")),
    ("diagnoses", "diagnoses[1]", put("diagnoses", 1, "symptom", "an unknown key")),
    ("sick_trace", "traceEvents[2]", drop("traceEvents", 2, "dur")),
    ("sick_trace", "oneAddPriced.facts", put("oneAddPriced", "facts", {"step_ns": 5.0})),
    ("sick_trace", "oneAddPriced.variant.size", put("oneAddPriced", "variant", "size", 0)),
    ("sick_trace", "traceEvents", put("traceEvents", [])),
    ("glossary", "terms[0].definition", put("terms", 0, "definition", "short")),
    ("glossary", "terms[0]", put("terms", 0, "links", [])),
    ("stages", "rows[3].stage", put("rows", 3, "stage", "Argument Parser")),
    ("stages", "rows[3].cxx", put("rows", 3, "cxx", {"any": []})),
    ("stages", "shared[0]", drop("shared", 0, "what")),
    ("trees", "where", drop("where", "valgrind")),
    ("trees", "command", put("command", "by hand")),
    ("trees", "functions[0]", put("trees", "a + b", "functions", 0, ["f", "lib.so", -1.0])),
    ("trees", "edges[0]", put("trees", "a + b", "edges", 0, [0, 1])),
    ("timeline", "command", put("command", "by hand")),
    ("timeline", "correlation", put("segments", 0, "launches", 0, "correlation", 0)),
    ("timeline", "segments", put("segments", [])),
    ("study", "parts.floor", put("parts", "floor", 3.5)),
    ("study", "parts", put("parts", {})),
    ("study", "failures.sm_clock", put("failures", "sm_clock", "")),
    ("wrong_answer", "loses", put("loses", [])),
    ("wrong_answer", "misconception", put("misconception", "Call Is Work")),
    ("wrong_answer", "changes[0]", put("changes", 0, {"cell": "timed", "find": "x"})),
    ("wrong_answer", "changes[0]", put("changes", 0, {"cell": "timed", "find": "x", "put": "y", "source": "z"})),
]


@pytest.mark.parametrize("kind", sorted(SAMPLES))
def test_sound_data_passes(kind):
    schemas.validate(kind, SAMPLES[kind]())


@pytest.mark.parametrize(("kind", "place", "damage"), DAMAGES, ids=[f"{k}-{p}-{i}" for i, (k, p, _) in enumerate(DAMAGES)])
def test_damage_is_refused_with_its_place(kind, place, damage):
    data = SAMPLES[kind]()
    damage(data)
    with pytest.raises(SchemaError) as caught:
        schemas.validate(kind, data)
    assert str(caught.value).startswith(f"{kind}: at ")
    assert place in str(caught.value)
    assert len(str(caught.value)) < 600


def test_every_schema_is_proved_red_at_least_twice():
    counted = {kind: sum(k == kind for k, _, _ in DAMAGES) for kind in SAMPLES}
    assert min(counted.values()) >= 2, counted
    files = {p.stem for p in schemas.SCHEMA_FOLDER.glob("*.json")}
    assert files - {"readings", "devices"} == set(SAMPLES), "a schema without a sample here"


def test_an_unknown_kind_says_which_there_are():
    with pytest.raises(SchemaError, match="glossary"):
        schemas.validate("receipts", {})


def test_the_committed_files_refer_to_things_that_exist():
    assert schemas.problems() == []


def test_every_yaml_file_of_the_data_folder_has_a_schema_or_is_known():
    known = {*schemas.FILES.values(), "colab.yml"}
    assert {p.name for p in paths.DATA.glob("*.yml")} <= known


def two(kind: str, part: str) -> dict:
    return committed(kind) | {part: committed(kind)[part]}


def test_claims_lessons_and_verdicts_are_checked():
    def broken(**changes):
        data = committed("claims")
        data["claims"][0].update(changes)
        return schemas.claim_problems(data, schemas.load("stages"))

    assert broken() == []
    assert "lesson 'nowhere'" in broken(lesson="nowhere")[0]
    assert "given twice" in broken(id="A02")[0]
    assert "is not below" in broken(lo=5, hi=1)[0]
    assert "without a recording" in broken(verdict="holds", sentence="x" * 30, recordings=[], torch=["2.13"])[0]
    assert "still open" in broken(verdict="open", recordings=["cpu"])[0]
    assert "quantity 'stages.parser'" in broken(metric={"measure": "stages.parser / end_to_end", "unit": "ratio"})[0]
    assert "its id says 'A'" in broken(source="B")[0]


def test_range_references_are_checked():
    def broken(index=0, **changes):
        data = committed("ranges")
        data["metrics"][index].update(changes)
        return schemas.range_problems(data, schemas.load("stages"), schemas.load("claims"))

    at = next(i for i, m in enumerate(committed("ranges")["metrics"]) if m["id"] == "stages.kernel")
    rows = committed("ranges")["metrics"][at]["ranges"]
    assert broken() == []
    assert "lesson 'nowhere'" in broken(lesson="nowhere")[0]
    assert "claim 'A99'" in broken(claims=["A99"])[0]
    assert "quantity 'stages.kernal'" in broken(at, measure="stages.kernal / end_to_end")[0]
    assert "no range for cuda" in broken(at, ranges=[r for r in rows if r["class"] == "cpu"])[0]
    assert "class 'p100' is not defined" in broken(at, ranges=[*rows, {**rows[0], "class": "p100"}])[0]
    assert "is not below" in broken(at, ranges=[{**rows[0], "lo": 2, "hi": 1}, *rows[1:]])[0]
    assert "given twice" in broken(at, id="stages.sum")[0]


def test_a_t4_range_that_is_not_marked_derived_is_refused():
    data = committed("ranges")
    t4 = next(r for m in data["metrics"] for r in m["ranges"] if r["class"] == "t4")
    del t4["derived"]
    with pytest.raises(SchemaError, match="derived"):
        schemas.validate("ranges", data)


def test_question_references_are_checked():
    def broken(damage):
        data = committed("questions")
        item = next(q for q in data["questions"] if q["kind"] == "choice")
        damage(item)
        return schemas.question_problems(data, schemas.load("misconceptions"), schemas.load("glossary"))

    wrong = 0
    assert broken(lambda q: None) == []
    assert "misconception 'no_such'" in broken(lambda q: q["options"][wrong].update(misconception="no_such"))[0]
    assert "names no misconception" in broken(lambda q: q["options"][wrong].pop("misconception"))[0]
    assert "is called a misconception" in broken(lambda q: q.update(answer=wrong))[0]
    assert "there are" in broken(lambda q: q.update(answer=9))[0]
    assert "term 'no_term'" in broken(lambda q: q.update(glossary=["no_term"]))[0]
    assert "objective's lesson 'nowhere'" in broken(lambda q: q.update(objective="nowhere.x"))[0]


def test_misconception_glossary_and_stage_references_are_checked():
    bad = committed("misconceptions")
    bad["misconceptions"][0]["claims"] = ["B99"]
    bad["misconceptions"][1]["id"] = bad["misconceptions"][0]["id"]
    assert len(schemas.misconception_problems(bad, schemas.load("claims"))) == 2
    bad = committed("glossary")
    bad["terms"][0]["see"] = [bad["terms"][0]["id"]]
    bad["terms"][1]["term"] = bad["terms"][2]["term"].upper()
    assert len(schemas.glossary_problems(bad)) == 2
    bad = committed("diagnoses")
    bad["diagnoses"][0]["lessons"] = ["nowhere"]
    bad["diagnoses"][1]["id"] = bad["diagnoses"][2]["id"]
    assert len(schemas.diagnosis_problems(bad)) == 2
    bad = committed("stages")
    bad["stages"][0]["group"] = "cellar"
    bad["groups"].append({"id": "attic", "title": "attic"})
    assert len(schemas.stage_problems(bad)) == 2


def test_yaml_with_a_key_given_twice_or_broken_is_refused(tmp_path):
    file = tmp_path / "x.yml"
    file.write_text("version: 1\nrows: []\nrows: [1]\n")
    with pytest.raises(SchemaError, match=r"'rows' is given twice \(line 3\)"):
        schemas.read_yaml(file)
    file.write_text("a: [1\n")
    with pytest.raises(SchemaError, match=r"x\.yml cannot be read"):
        schemas.read_yaml(file)
    with pytest.raises(SchemaError, match="missing"):
        schemas.read_yaml(tmp_path / "none.yml")


def test_importing_the_model_room_imports_no_torch():
    rooms = "expected, results, recordings, ledger, schemas, quantities, files"
    code = f"import sys; from utils.model import {rooms}; expected.metrics(); ledger.claims(); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=paths.REPO, check=True)
    assert done.stdout.strip() == "False"
