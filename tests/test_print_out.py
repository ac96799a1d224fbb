"""The self-check on paper: every question with its key at the end and not before, one page of numbers from the ledger."""

from __future__ import annotations

import random
import re

import pytest

from tests.factories import make_receipt
from utils.__main__ import main
from utils.model import bank, keys, ledger, recordings, results, studies
from utils.show import numbers_to_know, print_out
from utils.show.widgets import prose

RNG = random.Random(9)


pytestmark = pytest.mark.usefixtures("home")


def test_every_question_is_on_paper_and_its_key_only_at_the_end():
    page = print_out.questions()
    asked, answered = page.split("<h2>Answers:", 1)
    assert "Answers" not in asked and page.count("<h2") == 2 * len(bank.topics())
    for question in bank.practice():
        if question["kind"] == "number":
            key = keys.key(question, 0)
            assert prose(key.prompt) in asked and prose(question["feedback"]) in answered
            assert prose(question["feedback"]) not in asked
            continue
        assert prose(question["prompt"]) in asked
        for point in question.get("points", ()):
            assert prose(point) in answered and prose(point) not in asked
        for option in question.get("options", ()):
            assert (
                prose(option["text"]) in asked
                and prose(option["feedback"]) not in asked
                and prose(option["feedback"]) in answered
            )
    numbered = [int(n) for n in re.findall(r"<ol start=(\d+)>", page)]
    assert numbered[: len(bank.topics())] == numbered[len(bank.topics()) :], "question and answer have the same number"


def test_the_right_letter_is_in_the_key_and_a_seed_draws_the_numbers():
    choice = RNG.choice([q for q in bank.practice() if q["kind"] == "choice"])
    assert print_out._answered(choice, 0).startswith(f"<b>{'ABCDEF'[choice['answer']]}</b>")
    drawn = bank.find("two_ceilings.profiler_by_hand")
    papers = {print_out._asked(drawn, seed) for seed in range(8)}
    assert len(papers) > 1 and print_out._asked(drawn, 3) == print_out._asked(drawn, 3)
    one = print_out.questions(topic="launch")
    assert one.count("<h2") == 2 and "Autograd</h2>" not in one


def test_the_numbers_are_the_ledgers_and_fit_a_page():
    rows = numbers_to_know.rows()
    assert 20 <= len(rows) <= numbers_to_know.ON_A_PAGE
    claims = {c.claim: c for c in ledger.claims()}
    best = recordings.best("cuda")
    for row in rows:
        claim = claims[row["what"]]
        assert claim.kind == "number" and claim.verdict != "open" and row["cited"] == claim.cited
        assert row["verdict"] == ledger.WORDS[claim.verdict] and row["recorded"] != "not measured", claim.id
        assert row["yours"] == "not measured"
        study = claim.metric.get("study")
        from_a_cpu = study is not None and studies.best(study, claim.metric.get("device", "cuda")) is None
        assert row["recorded"].endswith("(a CPU)") is from_a_cpu, claim.id
    total = next(row for row in rows if claims[row["what"]].id == "A08")
    assert total["recorded"] == f"{best.receipt('cuda').total_ns * 1e-3:.2f} µs"
    assert best.label() in numbers_to_know.table().notes[1] and "@page" in print_out.numbers()


def test_what_the_reader_measured_is_in_the_page():
    mine = make_receipt("cpu", False, seed=RNG.randrange(10**6), where=results._fingerprint())
    results.record_receipt(mine)
    total = next(row for row in numbers_to_know.rows() if row["what"] == ledger.find("A08").claim)
    assert total["yours"] == numbers_to_know.format_time(mine.total_ns)


def test_without_a_gpu_s_recording_the_page_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(recordings.paths, "RECORDINGS", tmp_path / "none")
    assert "no GPU has been recorded" in numbers_to_know.table().notes[1]
    assert {row["recorded"] for row in numbers_to_know.rows()} == {"not measured"}
    assert "cannot be shown" in print_out.questions(topic="launch")


def test_the_command_writes_the_files_and_refuses_in_words(tmp_path, capsys):
    for action, end in (("print", "html"), ("numbers", "html"), ("moodle", "xml")):
        file = tmp_path / f"{action}.{end}"
        assert main(["selfcheck", action, str(file)]) == 0
        assert file.stat().st_size > 3000 and f"wrote {file}" in capsys.readouterr().out
    assert main(["selfcheck", "print", str(tmp_path / "a.html"), "--seed", "3"]) == 0
    assert (tmp_path / "a.html").read_text(encoding="utf-8") != (tmp_path / "print.html").read_text(encoding="utf-8")
    assert (
        main(["selfcheck", "moodle", str(tmp_path / "no" / "such.xml")]) == 1 and "cannot be written" in capsys.readouterr().err
    )
    assert main(["selfcheck"]) == 0 and "Your progress by topic" in capsys.readouterr().out
