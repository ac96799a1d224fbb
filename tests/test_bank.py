"""The question bank: every lesson, objective and prompt of the texts has its question, each can be reached, each proof exists."""

from __future__ import annotations

import copy
import random
import re
from collections import Counter

import pytest

from tests.lesson_pages import code_cells, notebook, path_of, stem_of
from utils.model import bank, schemas
from utils.show import lesson14

RNG = random.Random(8)
DATA = schemas.load("questions")
QUESTIONS = DATA["questions"]
LESSONS = [n for n in range(len(schemas.LESSONS)) if path_of(n).is_file()]


def objectives(number: int) -> set[str]:
    return set(re.findall(rf"\*\*({stem_of(number)}\.\w+)\*\*", notebook(number).cells[0].source))


def test_there_are_at_least_eighty_questions_over_all_fifteen_lessons_and_of_every_kind():
    assert len(bank.practice()) >= 80 and len({q["lesson"] for q in QUESTIONS}) == 15
    forms = Counter(bank.form_of(q) for q in bank.practice())
    assert min(forms[form] for form in bank.SECONDS) >= 4, forms
    assert sum(q.get("form") == "estimate" for q in QUESTIONS) >= 8, "estimation drills"
    own = [q for q in QUESTIONS if q["kind"] == "number" and "own" in q["answer"]]
    assert len(own) >= 5 and all(spec["measure"] for q in own for spec in q["answer"]["own"].values())


@pytest.mark.parametrize("number", LESSONS, ids=stem_of)
def test_every_objective_has_a_question_and_every_question_an_objective(number):
    known = objectives(number)
    asked = {q["objective"] for q in QUESTIONS if q["objective"].split(".")[0] == stem_of(number)}
    assert known and known <= asked, f"objectives without a question: {known - asked}"
    assert asked <= known, f"questions for objectives that the lesson does not have: {asked - known}"


@pytest.mark.parametrize("number", LESSONS, ids=stem_of)
def test_the_recall_items_and_the_exit_item_of_a_lesson_come_from_the_bank(number):
    text = "\n".join(cell.source for cell in code_cells(notebook(number)))
    if number:
        assert f'recall("{stem_of(number)}", n=3)' in text
    named = re.findall(r'quiz\("(\w+\.\w+)"', text)
    assert named and all(bank.find(one) for one in named)
    assert bank.find(named[-1])["use"] == "exit" and bank.find(named[-1])["lesson"] == stem_of(number)


def test_every_question_can_be_reached():
    by_topic = [i for ids in bank.by_topic().values() for i in ids]
    assert len(by_topic) == len(set(by_topic)), "a question on two topics"
    reached = {*by_topic, *(q["id"] for q in bank.post_test())}
    assert reached == {q["id"] for q in QUESTIONS}
    assert not {q["id"] for q in bank.post_test()} & set(by_topic), "the post-test's questions are not practised"


def test_at_most_eight_topics_and_every_lesson_in_one():
    assert 1 <= len(bank.topics()) <= 8
    assert Counter(lesson for topic in bank.topics() for lesson in topic.lessons) == Counter(schemas.LESSONS)
    assert all(len(ids) >= 8 for ids in bank.by_topic().values())


def test_every_prompt_of_the_two_texts_is_asked():
    prompts = {row["id"] for row in DATA["asked_by_the_texts"]}
    assert len(prompts) == 20 and prompts == {a for q in QUESTIONS for a in q.get("asks", [])}


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda q: q["id"])
def test_the_proof_is_a_cell_that_is_there(question):
    proof = bank.proof(question)
    path = path_of(proof.number)
    assert proof.file == path.name
    assert proof.cell, "the answer names no cell"
    if path.is_file() and proof.cell:
        assert proof.cell in {cell.id for cell in notebook(proof.number).cells}
        assert proof.href == f"{path.name}#cell-id={proof.cell}" and proof.cell in proof.words


def test_the_lesson_finds_dead_proofs_itself(monkeypatch):
    assert lesson14.dead_proofs() == []
    first = {**bank.practice()[0], "proof": "start_here#no-such-cell"}
    monkeypatch.setattr(bank, "practice", lambda: [first])
    assert lesson14.dead_proofs() == [first["id"]]


def test_a_free_question_has_points_and_two_follow_ups_that_fit_a_minute():
    free = [q for q in QUESTIONS if q["kind"] == "free"]
    assert len(free) >= 15
    for question in free:
        assert bank.seconds(question) == 60 and 4 <= len(question["points"]) <= 8
        assert len({*question["points"]}) == len(question["points"])
        assert all(one["ask"].endswith(("?", ".")) for one in question["follow_ups"])


def test_an_interview_is_ten_different_questions_mixed_and_the_same_for_the_same_seed():
    seen = set()
    for _ in range(40):
        seed = RNG.randrange(10**6)
        asked = bank.interview(seed)
        assert asked == bank.interview(seed) and len(asked) == len(set(asked)) == 10
        rows = [bank.find(i) for i in asked]
        assert Counter(map(bank.form_of, rows)) == Counter(bank.INTERVIEW)
        assert len({bank.topic_of(q) for q in rows}) >= 5 and not {q["use"] for q in rows} & {"pre_test"}
        seen.add(tuple(asked))
    assert len(seen) == 40, "another seed, another interview"
    everything = bank.interview(1, n=10**4)
    assert sorted(everything) == sorted(q["id"] for q in bank.practice()), "when a kind runs short, others take its place"


def broken(change) -> list[str]:
    data = copy.deepcopy(DATA)
    change(data)
    return schemas.bank_problems(data, schemas.load("claims"), schemas.load("stages"))


def of(data: dict, test) -> dict:
    return next(q for q in data["questions"] if test(q))


BREAKS = {
    "a lesson in no topic": (lambda d: d["topics"][0]["lessons"].remove("start_here"), "'start_here' is in 0 topics"),
    "a lesson in two": (lambda d: d["topics"][1]["lessons"].append("start_here"), "'start_here' is in 2 topics"),
    "a topic twice": (lambda d: d["topics"].append({**d["topics"][0], "lessons": ["fuse"]}), "topic 'measuring' is given twice"),
    "a prompt nobody asks": (lambda d: of(d, lambda q: "asks" in q).pop("asks"), "nobody asks"),
    "a prompt that is none": (lambda d: of(d, lambda q: "asks" in q)["asks"].append("A.interview9"), "A.interview9"),
    "a topic that is none": (lambda d: d["questions"][0].update(topic="cooking"), "'cooking' is not known"),
    "a draw nobody sees": (
        lambda d: of(d, lambda q: "draws" in q)["draws"].update(more=[1, 2, 3]),
        "{more} is not in the prompt",
    ),
    "a hole in the prompt": (lambda d: d["questions"][0].update(prompt="How many {things}?"), "nothing gives {things}"),
    "a formula of unknown things": (
        lambda d: of(d, lambda q: "draws" in q)["answer"].update(formula="nothing * 2"),
        "'nothing' is on one side only",
    ),
    "no formula": (lambda d: of(d, lambda q: "draws" in q)["answer"].update(formula="2 *"), "not a formula"),
    "a quantity that no receipt has": (
        lambda d: next(iter(of(d, lambda q: "own" in str(q.get("answer")))["answer"]["own"].values())).update(measure="stages.x"),
        "'stages.x' is not known",
    ),
    "a claim that is none": (
        lambda d: next(iter(of(d, lambda q: "own" in str(q.get("answer")))["answer"]["own"].values())).update(claim="A99"),
        "'A99' is not known",
    ),
}


@pytest.mark.parametrize("what", BREAKS)
def test_what_does_not_fit_together_is_named(what):
    change, words = BREAKS[what]
    assert broken(lambda data: None) == []
    assert any(words in problem for problem in broken(change)), broken(change)


SHAPES = {
    "free without points": lambda d: of(d, lambda q: q["kind"] == "free").pop("points"),
    "one follow-up": lambda d: of(d, lambda q: q["kind"] == "free")["follow_ups"].pop(),
    "free with options": lambda d: of(d, lambda q: q["kind"] == "free").update(options=d["questions"][0]["options"]),
    "a choice without an answer": lambda d: of(d, lambda q: q["kind"] == "choice").pop("answer"),
    "a choice with points": lambda d: of(d, lambda q: q["kind"] == "choice").update(
        points=["one point", "another point", "a third"]
    ),
    "a trace without a picture": lambda d: of(d, lambda q: q.get("form") == "trace").pop("trace"),
    "an estimate to choose": lambda d: of(d, lambda q: q["kind"] == "choice").update(form="estimate"),
    "two values to draw from": lambda d: of(d, lambda q: "draws" in q)["draws"].update(n=[1, 2]),
    "nine topics": lambda d: d["topics"].append(d["topics"][0]),
    "a proof that is a file": lambda d: d["questions"][0].update(proof="notebooks/04_launch.ipynb"),
}


@pytest.mark.parametrize("what", SHAPES)
def test_the_schema_refuses(what):
    data = copy.deepcopy(DATA)
    schemas.validate("questions", data)
    SHAPES[what](data)
    with pytest.raises(schemas.SchemaError):
        schemas.validate("questions", data)


def test_an_unknown_question_is_refused():
    with pytest.raises(LookupError, match="no such question"):
        bank.find("no.such")
