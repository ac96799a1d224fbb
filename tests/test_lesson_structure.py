"""Every lesson after the first keeps one shape: objectives, recall, predictions with folds, settled claims, a way out.

Lesson 00 opens differently (its own pre-test and traps) and is held by tests/test_lesson_00.py. What a lesson's module has to
bring for this file: `utils/show/lessonNN.py` with its predictions' options as dicts named `…_ANSWERS`: {key: (the misconception
behind the option or None, its text)}.
"""

from __future__ import annotations

import re
from importlib import import_module

import pytest

from tests.lesson_pages import PRICE, code_cells, markdown, notebook, outside, path_of, plain, stem_of
from utils import paths
from utils.model import ledger, schemas
from utils.show.predict import fold, predict

LESSONS = [n for n in range(1, len(schemas.LESSONS)) if path_of(n).is_file()]
RECEIPT = 5  # the names of its rows stand in figures and tables, too many to be linked three a section
ASKS = "self_check"  # the one lesson that asks about all claims and settles none
SILENT = ("recall", "exit", *(f"trace-{one}" for one in "abcd"))  # quizzes have numbers of their own, a trace is the question


def module(number: int):
    return import_module(f"utils.show.lesson{number:02d}")


def options(number: int) -> dict[str, dict]:
    """The lesson's dicts of options by name."""
    return {name: value for name, value in vars(module(number)).items() if name.endswith("_ANSWERS")}


OPTIONS = [(number, name) for number in LESSONS for name in options(number)]


@pytest.fixture(params=LESSONS, ids=[stem_of(n) for n in LESSONS])
def number(request) -> int:
    return request.param


@pytest.fixture
def nb(number):
    return notebook(number)


# ------------------------------------------------------------------------------------------------ the frame


def test_at_most_four_objectives_and_every_question_serves_one(nb, number):
    objectives = set(re.findall(rf"\*\*({stem_of(number)}\.\w+)\*\*", nb.cells[0].source))
    assert 1 <= len(objectives) <= 4
    asked = [q for q in schemas.load("questions")["questions"] if q["lesson"] == stem_of(number)]
    assert {q["objective"] for q in asked} <= objectives, "a question that serves no objective"
    assert {"recall", "exit"} <= {q["use"] for q in asked}


def test_it_opens_with_strip_and_three_recall_items_and_ends_with_a_transfer_op_and_an_exit_item(nb, number):
    sources = [c.source for c in code_cells(nb)]
    assert "price_strip(" in sources[2] and "to_scale=False" in sources[2]  # to scale it would tell the answers
    assert f'recall("{stem_of(number)}", n=3)' in sources[3]
    assert f"lesson{number:02d}.transfer" in sources[-2]
    assert f'quiz("{stem_of(number)}.' in sources[-1]


def test_paragraphs_are_short_and_code_cells_small(nb):
    from tools.lint_notebooks import count_words

    for cell in markdown(nb):
        assert 25 <= count_words(cell.source) <= 70, cell.id
    for cell in code_cells(nb)[1:]:
        lines = [line for line in cell.source.splitlines() if line.strip() and not line.startswith("# NBVAL")]
        assert 1 <= len(lines) <= 12, cell.id


def test_a_section_links_at_most_three_terms_and_the_lessons_own_are_all_linked(nb, number):
    terms = schemas.load("glossary")["terms"]
    known = {t["term"].lower() for t in terms}
    linked = set()
    for cell in markdown(nb):
        here = {term.lower() for term in re.findall(r"\[([^\]]+)\]\(\.\./utils/data/glossary\.yml\)", cell.source)}
        assert len(here) <= 3, cell.id
        assert here <= known, (cell.id, here - known)
        linked |= here
    own = {t["term"].lower() for t in terms if t["lesson"] == stem_of(number)}
    if number != RECEIPT:
        assert own <= linked, f"terms that their lesson does not link: {own - linked}"


# ------------------------------------------------------------------------------------------------ predictions


def test_every_prediction_has_its_fold_and_comes_back_in_the_review(nb):
    text = "\n".join(c.source for c in code_cells(nb))
    guesses = re.findall(r"^(\w+) = predict\(", text, re.MULTILINE)
    assert len(guesses) >= 3 and len(guesses) == len(set(guesses))
    folds = "\n".join(re.findall(r"^fold\(.*", text, re.MULTILINE))
    review = next(c.source for c in code_cells(nb) if "review(" in c.source)
    for guess in guesses:
        assert re.search(rf"fold\({guess},", folds), f"{guess} has no fold"
        assert re.search(rf"\({guess}, (?:str\(|said)", review), f"{guess} is not in the review"


@pytest.mark.parametrize(("number", "answers"), OPTIONS)
def test_wrong_options_of_predictions_are_named_misconceptions(number, answers):
    named = {m["id"] for m in schemas.load("misconceptions")["misconceptions"]}
    offered = options(number)[answers].values()
    beliefs = [belief for belief, _ in offered if belief]
    assert beliefs and set(beliefs) <= named
    assert len({text for _, text in offered}) == len(offered)


@pytest.mark.parametrize(("number", "answers"), OPTIONS)
def test_each_option_gets_feedback_whatever_the_run_shows(number, answers, tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "home", lambda: tmp_path)
    offered = list(options(number)[answers].values())
    for right_one, (_, right) in enumerate(offered):
        for chosen, (belief, text) in enumerate(offered):
            guess = predict(f"test.{number}.{answers}.{right_one}.{chosen}".lower(), "Which?", options=offered)
            page = fold(guess, "what was measured", right=right)
            assert not page.open and not guess.give("no such answer") and guess.give(text) and page.open
            told = page.text()
            if text == right:
                assert "That is what was measured here" in told
            else:
                assert plain(right) in plain(told)
                assert belief is None or "has a name" in told


def test_the_lessons_numbers_are_taken_at_both_ends_and_refused_beyond(nb, number, tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "home", lambda: tmp_path)
    asked = "\n".join(c.source for c in code_cells(nb))
    number_of_asked = 0
    for unit, low, high in sorted(set(re.findall(r'unit="([^"]*)", low=(\d+), high=(\d+)\)', asked))):
        low, high = int(low), int(high)
        tries = ((str(low), 1), (f"{(low + high) / 2} {unit}", 1), (str(high), 1), (str(high + 1), 0), ("much", 0))
        for raw, taken in tries:
            number_of_asked += 1
            guess = predict(f"test.bounds.{number}.{number_of_asked}", "How much?", unit=unit, low=low, high=high)
            assert guess.give(raw) is bool(taken), (raw, guess.note)


# ------------------------------------------------------------------------------------------------ nothing told too early


def test_no_prose_states_a_number_that_the_run_computes(nb):
    for cell in markdown(nb):
        assert not PRICE.search(cell.source), cell.id
        assert not re.search(r"\d[\d,.]* (?:instructions|calls|hops)", cell.source), cell.id
    for cell in code_cells(nb)[1:]:
        for words in re.findall(r'"([^"]*)"', cell.source):
            assert not PRICE.search(words), f"{cell.id}: {words}"


def test_committed_outputs_show_no_price_outside_a_closed_fold(nb):
    told = []
    for cell in code_cells(nb):
        if "deeper" in cell.metadata.tags or cell.id in SILENT:
            continue  # what is deeper answers no prediction
        for output in cell.outputs:
            html = output.get("data", {}).get("text/html", "")
            assert "<details open" not in html, cell.id
            seen = (html, output.get("data", {}).get("text/plain", ""), output.get("text", ""))
            for text in map(outside, seen):
                told += [f"{cell.id}: {found[0]}" for found in PRICE.finditer(text)]
                told += [f"{cell.id}: {found[0]}" for found in re.finditer(r"\d instructions|\d times", text)]
    assert not told


def test_the_outputs_of_every_fold_cell_are_there_and_folded(nb):
    for cell in code_cells(nb):
        if re.search(r"^(?:fold|review)\(", cell.source, re.MULTILINE):
            pages = [o.data["text/html"] for o in cell.outputs if "<details>" in o.get("data", {}).get("text/html", "")]
            assert pages, f"{cell.id} shows no fold: run the notebook"


# ------------------------------------------------------------------------------------------------ claims


def test_every_claim_of_the_lesson_is_settled(number):
    claims = ledger.claims(stem_of(number))
    assert claims or stem_of(number) == ASKS, "a lesson that settles nothing"
    assert [c.id for c in claims if c.verdict == "open" or not c.sentence] == []
