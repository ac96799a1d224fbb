"""The written schemas of everything the course keeps in files, and the references between those files.

`validate(kind, data)` judges the shape of one file by `utils/data/schema/<kind>.json` (JSON Schema, draft 2020-12).
`load(kind)` reads the committed YAML of that kind, `problems(...)` follows the references a schema cannot
see: a claim's lesson, an option's misconception, a range's stage, a term's links. Nothing here imports torch.
"""

from __future__ import annotations

import json
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from utils import paths
from utils.model import arithmetic
from utils.model.quantities import is_receipt_name, names

SCHEMA_FOLDER = paths.DATA / "schema"

# Stems of the lessons in their order: the file of lesson n is notebooks/<n, two digits>_<stem>.ipynb.
LESSONS = (
    "start_here",
    "one_add",
    "dispatcher",
    "autograd",
    "launch",
    "price_each_stage",
    "ridge_point",
    "two_ceilings",
    "batch_and_scale",
    "fuse",
    "reach_the_roof",
    "capture",
    "memory_plan",
    "scoreboard",
    "self_check",
)

# The committed YAML file of each kind that has exactly one.
FILES = {
    "ranges": "expected_ranges.yml",
    "claims": "claims.yml",
    "stages": "stages.yml",
    "devices": "devices.yml",
    "questions": "questions.yml",
    "misconceptions": "misconceptions.yml",
    "glossary": "glossary.yml",
    "syllabus": "syllabus.yml",
    "diagnoses": "diagnoses.yml",
}


class SchemaError(ValueError):
    """A file does not have the shape or the references it must have; the message says where and why, in words."""


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """YAML without silent surprises: a key given twice is an error, not the later of the two."""


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict:
    out: dict = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if key in out:
            raise SchemaError(f"the key {key!r} is given twice (line {key_node.start_mark.line + 1})")
        out[key] = loader.construct_object(value_node, deep=True)
    return out


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def read_yaml(path: Path) -> Any:
    """The content of a YAML file; SchemaError with the file's name when it is missing, broken or repeats a key."""
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    except FileNotFoundError:
        raise SchemaError(f"{path.name} is missing") from None
    except (yaml.YAMLError, UnicodeDecodeError, SchemaError) as error:
        raise SchemaError(f"{path.name} cannot be read: {error}") from None


@cache
def _validator(kind: str):
    jsonschema, referencing = _libraries()
    path = SCHEMA_FOLDER / f"{kind}.json"
    if not path.is_file():
        known = sorted(p.stem for p in SCHEMA_FOLDER.glob("*.json"))
        raise SchemaError(f"there is no schema for {kind!r}; known: {', '.join(known)}")
    shared = json.loads((SCHEMA_FOLDER / "readings.json").read_text(encoding="utf-8"))
    registry = referencing.Registry().with_resource(shared["$id"], referencing.Resource.from_contents(shared))
    schema = json.loads(path.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema, registry=registry)


@cache
def _libraries():
    """jsonschema and referencing, imported when something is first validated, and without a grammar nobody needs.

    With JupyterLab comes jsonschema's "format" extra, whose rfc3987_syntax compiles the grammar of IRIs at import: two
    seconds on a busy laptop. No schema of ours asks for a "format", and jsonschema goes without where it is missing.
    """
    extra = "rfc3987_syntax"
    hide = extra not in sys.modules
    if hide:
        sys.modules[extra] = None  # makes the import raise ImportError, which jsonschema expects
    try:
        import jsonschema
        import referencing
    finally:
        if hide:
            del sys.modules[extra]
    return jsonschema, referencing


def _place(path: list) -> str:
    """('claims', 3, 'lo') → "claims[3].lo"."""
    out = ""
    for step in path:
        out += f"[{step}]" if isinstance(step, int) else f".{step}" if out else str(step)
    return out or "the top of the file"


def _reason(error) -> str:
    message = error.message
    if len(message) > 300:  # a whole receipt quoted in a message helps nobody
        message = message[:120] + " … " + message[-120:]
    return message


def validate(kind: str, data: Any) -> None:
    """Raise SchemaError with the place and the reason when `data` does not have the shape of `kind`.

    Kinds are the names of the files in `utils/data/schema` ("recording", "results", "ranges", "claims", …).
    """
    error = _libraries()[0].exceptions.best_match(_validator(kind).iter_errors(data))
    if error is not None:
        raise SchemaError(f"{kind}: at {_place(list(error.absolute_path))}: {_reason(error)}")


@cache
def load(kind: str) -> Any:
    """The committed YAML of `kind`, read once. Treat it as read-only: all callers share it.

    It is not validated here: the tests do that, and a lesson should not wait for it.
    """
    return read_yaml(paths.DATA / FILES[kind])


def _repeated(ids: list[str], what: str) -> list[str]:
    return [f"{what} {i!r} is given twice" for i in sorted({i for i in ids if ids.count(i) > 1})]


def _unknown(kind: str, owner: str, field: str, wanted: list[str], known: set[str]) -> list[str]:
    return [f"{kind}: {owner}: {field} {w!r} is not known" for w in wanted if w not in known]


def claim_problems(claims: dict, stages: dict) -> list[str]:
    """Ids given twice, lessons that the design does not have, quantities that no receipt has, verdicts with nothing behind."""
    rows = claims["claims"]
    out = _repeated([r["id"] for r in rows], "claims: id")
    for row in rows:
        out += _unknown("claims", row["id"], "lesson", [row["lesson"]], set(LESSONS))
        if "lo" in row and "hi" in row and row["lo"] >= row["hi"]:
            out.append(f"claims: {row['id']}: lo {row['lo']} is not below hi {row['hi']}")
        metric = row.get("metric")
        if metric and not {"extra", "study"} & set(metric) and metric["measure"] != "cited.rows":
            out += _expression_problems(f"claims: {row['id']}", metric["measure"], stages)
        if row["verdict"] in ("holds", "holds_when", "does_not_hold") and not row["recordings"]:
            out.append(f"claims: {row['id']}: a verdict without a recording that shows it")
        if row["verdict"] == "open" and row["recordings"]:
            out.append(f"claims: {row['id']}: names recordings and is still open")
        expected_source = {"A": "A", "B": "B", "C": "ours"}[row["id"][0]]
        if row["source"] != expected_source:
            out.append(f"claims: {row['id']}: source {row['source']!r}, but its id says {expected_source!r}")
    return out


def stage_problems(stages: dict) -> list[str]:
    """Ids given twice, groups that do not exist, groups without a stage, rows of the call tree that point nowhere."""
    groups = [g["id"] for g in stages["groups"]]
    out = _repeated(groups, "stages: group") + _repeated([s["id"] for s in stages["stages"]], "stages: id")
    for stage in stages["stages"]:
        out += _unknown("stages", stage["id"], "group", [stage["group"]], set(groups))
    used = {s["group"] for s in stages["stages"]}
    out += [f"stages: group {g!r} has no stage" for g in groups if g not in used]
    return out + _row_problems(stages)


def _row_problems(stages: dict) -> list[str]:
    """Rows of the call tree given twice, of no stage, under rows that do not exist, or with a pattern that is no pattern."""
    rows = [r["id"] for r in stages["rows"]]
    out = _repeated(rows, "stages: row")
    for row in stages["rows"]:
        out += _unknown("stages", row["id"], "stage", [row["stage"]], {s["id"] for s in stages["stages"]})
        out += _unknown("stages", row["id"], "under", row["under"], set(rows) - {row["id"]})
    patterns = [p for r in stages["rows"] for found in r["cxx"].values() for p in found]
    for pattern in patterns + [p for helper in stages["shared"] for p in helper["cxx"]]:
        try:
            re.compile(pattern)
        except re.error as error:
            out.append(f"stages: {pattern!r} is no regular expression: {error}")
    return out


def _expression_problems(owner: str, expression: str, stages: dict) -> list[str]:
    known = {s["id"] for s in stages["stages"]}
    return [f"{owner}: quantity {n!r} is not known" for n in names(expression) if not is_receipt_name(n, known)]


def range_problems(ranges: dict, stages: dict, claims: dict) -> list[str]:
    """Metrics given twice, quantities and claims that do not exist, classes without a definition, families without a range."""
    known_claims = {c["id"] for c in claims["claims"]}
    classes = set(ranges["classes"]) | {"any", "cpu", "cuda", "simulated"}
    out = _repeated([m["id"] for m in ranges["metrics"]], "ranges: metric")
    for metric in ranges["metrics"]:
        name, rows = metric["id"], metric["ranges"]
        out += _unknown("ranges", name, "lesson", [metric["lesson"]], set(LESSONS))
        out += _unknown("ranges", name, "claim", metric.get("claims", []), known_claims)
        for row in rows:
            if row["class"] not in classes:
                out.append(f"ranges: {name}: class {row['class']!r} is not defined")
            if "lo" in row and "hi" in row and row["lo"] >= row["hi"]:
                out.append(f"ranges: {name}: class {row['class']!r}: lo {row['lo']} is not below hi {row['hi']}")
        if metric["takes"] == ["receipt"]:
            for expression in filter(None, [metric.get("measure"), *(r.get("measure") for r in rows)]):
                out += _expression_problems(f"ranges: {name}", expression, stages)
        covered = {ranges["classes"].get(r["class"], {}).get("family", r["class"]) for r in rows}
        if "measure" in metric and "any" not in covered:
            out += [f"ranges: {name}: no range for {f}" for f in metric.get("devices", ("cpu", "cuda")) if f not in covered]
    return out


def question_problems(questions: dict, misconceptions: dict, glossary: dict) -> list[str]:
    """Ids given twice, misconceptions, terms, lessons and objectives that do not exist, answers that point nowhere."""
    known = {m["id"] for m in misconceptions["misconceptions"]}
    terms = {t["id"] for t in glossary["terms"]}
    out = _repeated([q["id"] for q in questions["questions"]], "questions: id")
    for question in questions["questions"]:
        name = question["id"]
        out += _unknown("questions", name, "lesson", [question["lesson"]], set(LESSONS))
        out += _unknown("questions", name, "term", question.get("glossary", []), terms)
        out += _unknown("questions", name, "objective's lesson", [question["objective"].split(".")[0]], set(LESSONS))
        proved_in = question["proof"].split("#")[0] if "proof" in question else question["lesson"]
        out += _unknown("questions", name, "proof's lesson", [proved_in], set(LESSONS))
        if question["kind"] != "choice":
            continue
        options = question["options"]
        out += _repeated([o["text"] for o in options], f"questions: {name}: option")
        if question["answer"] >= len(options):
            out.append(f"questions: {name}: the answer is option {question['answer']}, but there are {len(options)}")
        for place, option in enumerate(options):
            wanted = [option["misconception"]] if "misconception" in option else []
            out += _unknown("questions", name, "misconception", wanted, known)
            if place == question["answer"] and wanted:
                out.append(f"questions: {name}: the right option is called a misconception")
            if place != question["answer"] and not wanted:
                out.append(f"questions: {name}: wrong option {place} names no misconception")
    return out


def bank_problems(questions: dict, claims: dict, stages: dict) -> list[str]:
    """Lessons without a topic or with two, prompts of the texts that nobody asks, formulas and draws that do not fit together."""
    topics, rows = questions["topics"], questions["questions"]
    in_topics = [lesson for topic in topics for lesson in topic["lessons"]]
    out = _repeated([t["id"] for t in topics], "questions: topic")
    out += [f"questions: lesson {n!r} is in {in_topics.count(n)} topics" for n in LESSONS if in_topics.count(n) != 1]
    out += _unknown("questions", "topics", "lesson", in_topics, set(LESSONS))
    prompts, asked = {a["id"] for a in questions["asked_by_the_texts"]}, [a for q in rows for a in q.get("asks", [])]
    out += [f"questions: nobody asks {p} of the texts" for p in sorted(prompts - set(asked))]
    out += _unknown("questions", "asks", "prompt of the texts", asked, prompts)
    for question in rows:
        out += _unknown("questions", question["id"], "topic", [question.get("topic", topics[0]["id"])], {t["id"] for t in topics})
        out += _drawn_problems(question)
        own = question["answer"].get("own", {}) if isinstance(question.get("answer"), dict) else {}
        for spec in own.values():
            out += _expression_problems(f"questions: {question['id']}", spec["measure"], stages)
            wanted = [spec["claim"]] if "claim" in spec else []
            out += _unknown("questions", question["id"], "claim", wanted, {c["id"] for c in claims["claims"]})
    return out


def _drawn_problems(question: dict) -> list[str]:
    """What a formula needs must be drawn or measured, what is drawn must be in the prompt, and nothing else in braces."""
    name, answer = question["id"], question.get("answer")
    answer = answer if isinstance(answer, dict) else {}
    drawn, own = set(question.get("draws", {})), set(answer.get("own", {}))
    given = drawn | ({"whose"} if own else set())
    in_prompt = set(re.findall(r"\{(\w+)\}", question["prompt"]))
    out = [f"questions: {name}: {{{n}}} is not in the prompt" for n in sorted(given - in_prompt)]
    out += [f"questions: {name}: nothing gives {{{n}}}" for n in sorted(in_prompt - given)]
    try:
        needed = arithmetic.names(answer["formula"]) if "formula" in answer else drawn | own
    except ValueError as error:
        return [*out, f"questions: {name}: {error}"]
    return out + [f"questions: {name}: {n!r} is on one side only" for n in sorted(needed ^ (drawn | own))]


def misconception_problems(misconceptions: dict, claims: dict) -> list[str]:
    """Ids given twice, lessons and claims that do not exist."""
    rows = misconceptions["misconceptions"]
    known = {c["id"] for c in claims["claims"]}
    out = _repeated([m["id"] for m in rows], "misconceptions: id")
    for row in rows:
        out += _unknown("misconceptions", row["id"], "lesson", [row["lesson"]], set(LESSONS))
        out += _unknown("misconceptions", row["id"], "claim", row.get("claims", []), known)
    return out


def glossary_problems(glossary: dict) -> list[str]:
    """Ids and terms given twice, links that lead nowhere or to themselves, lessons that do not exist."""
    terms = glossary["terms"]
    ids = {t["id"] for t in terms}
    out = _repeated([t["id"] for t in terms], "glossary: id") + _repeated([t["term"].lower() for t in terms], "glossary: term")
    for term in terms:
        out += _unknown("glossary", term["id"], "lesson", [term["lesson"]], set(LESSONS))
        out += _unknown("glossary", term["id"], "link", term.get("see", []), ids - {term["id"]})
    return out


def diagnosis_problems(diagnoses: dict) -> list[str]:
    """Ids and names given twice, lessons that do not exist."""
    rows = diagnoses["diagnoses"]
    out = _repeated([d["id"] for d in rows], "diagnoses: id") + _repeated([d["name"] for d in rows], "diagnoses: name")
    for row in rows:
        out += _unknown("diagnoses", row["id"], "lesson", row["lessons"], set(LESSONS))
    return out


def problems() -> list[str]:
    """Every broken reference between the committed files, in words; empty when all is well. Validates them first."""
    for kind in FILES:
        validate(kind, load(kind))
    stages, claims, ranges = load("stages"), load("claims"), load("ranges")
    misconceptions, glossary, questions = load("misconceptions"), load("glossary"), load("questions")
    return [
        *stage_problems(stages),
        *claim_problems(claims, stages),
        *range_problems(ranges, stages, claims),
        *misconception_problems(misconceptions, claims),
        *glossary_problems(glossary),
        *question_problems(questions, misconceptions, glossary),
        *bank_problems(questions, claims, stages),
        *diagnosis_problems(load("diagnoses")),
    ]
