"""Lesson 14: what it says stays true whatever was measured, answered or recorded; what it judges goes red when the bank is wrong.

`check_sentences(module)` holds every sentence against data made in code where the usual order is turned round; the planted
faults are that module with one piece of its logic broken, and the same check must go red on each.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.broken import broken
from tests.factories import make_race
from tests.launches import LABEL, found, hidden_syncs, nothing
from tests.lesson_pages import code_cells, notebook
from utils.model import bank, expected, ledger, recordings, results
from utils.show import lesson14

pytestmark = pytest.mark.usefixtures("home")


def steps(without: float, with_: float, held: float, idle: float | None = 90.0) -> dict:
    """The study's part as a recording has it, with the steps of two variants set, µs."""
    rows = [
        {"variant": "none", "step_us": without, "held_us": 0.0, "idle_us": None},
        {"variant": "item", "step_us": with_, "held_us": held, "idle_us": idle},
    ]
    return {**hidden_syncs(), "rows": rows}


def check_sentences(m) -> None:
    check_price(m)
    check_trace(m)
    check_confidence(m)
    check_schedule(m)
    check_judged(m)
    check_transfer(m)


def check_price(m) -> None:
    race = make_race()
    name = race.control[0]
    said = str(m.price(race))
    receipt = recordings.best("cuda").receipt("cuda")
    assert m.format_ns(race[name]) in said and m.format_ns(receipt.total_ns) in said
    assert recordings.best("cuda").label() in said and ledger.find("A08").cited in said
    rows = m.price_table(race).rows
    assert [row["whose"] for row in rows] == ["yours, just now", "recorded", "cited"]
    assert [row["price"] for row in rows] == [m.format_ns(race[name]), m.format_ns(receipt.total_ns), ledger.find("A08").cited]
    check_verdicts(m)
    every = ledger.claims()
    with pytest.MonkeyPatch.context() as patched:  # with one that is not settled yet, whether or not the file has any
        opened = [replace(every[0], verdict="open"), *every[1:]]
        patched.setattr(ledger, "claims", lambda lesson=None: [c for c in opened if lesson in (None, c.lesson)])
        check_verdicts(m)


def check_verdicts(m) -> None:
    counts = Counter(c.verdict for c in ledger.claims())
    settled = sum(counts.values()) - counts["open"]
    said = str(m.holds())
    assert f"Of {settled} settled claims {counts['holds']} hold as written, {m.per_cent(counts['holds'] / settled)}" in said
    assert f"{counts['does_not_hold']} do not hold" in said and ("not settled yet" in said) is bool(counts["open"])
    table = m.verdict_counts()
    assert sum(row[ledger.WORDS["holds"]] for row in table.rows) == counts["holds"]


def check_trace(m) -> None:
    for without, with_, held, kind in (
        (3610.0, 3659.0, 2428.0, "none"),
        (3000.0, 4000.0, 1100.0, "wait"),
        (1000.0, 4000.0, 1200.0, "double"),
        (3700.0, 3659.0, 2428.0, "none"),
    ):
        right, said = m.read(found(steps(without, with_, held)))
        assert right == m.TRACE_ANSWERS[kind][1], kind
        assert m.format_time(held * 1e3) in str(said) and LABEL in str(said)
        assert ("longer, which only noise" in str(said)) is (without > with_)
    assert "1.3 % shorter" in str(m.read(found(steps(3610.0, 3659.0, 2428.0)))[1])
    assert "stood idle" not in str(m.read(found(steps(3610.0, 3659.0, 2428.0, None)))[1])
    right, said = m.read(nothing())
    assert right is None and "Not measured" in str(said) and "Not measured" in m.trace(nothing())


def check_confidence(m) -> None:
    guess = SimpleNamespace(number=8.0)
    assert "No interview" in m.ten(guess)
    for at in range(10):
        results.predict(f"q.{at}", "x", extra={"quiz": True, "right": at < 5, "sitting": "interview", "number": "1"})
    said = m.ten(guess)
    assert "last interview's 10 answers 5 were right" in said and "You said 8.0: less than you expected" in said
    assert "more than you expected" in m.ten(SimpleNamespace(number=3.0)) and "as you expected" in m.ten(
        SimpleNamespace(number=6.0)
    )
    assert "no prediction" in m.ten(SimpleNamespace(number=None)) and "no prediction" in m.ten(None)
    results._open.cache_clear()


def check_schedule(m) -> None:
    rows = m.schedule(24, 0).rows
    assert [row["day"] for row in rows] == [0, 8, 16] and [row["gap"] for row in rows] == [0, 8, 8]
    assert m.schedule(24, 0).notes[0].endswith("8 days.") and m.schedule(4, 0).notes[0].endswith("1 day.")
    wrong = m.schedule(24, 6).rows
    assert [row["answer"] for row in wrong] == ["right", "wrong", "right", "right", "right"], "the count begins anew, once"
    assert [row["day"] for row in wrong] == [0, 8, 12, 16, 20]
    shown = m.one_question()
    for days in (4, 17, 60):
        for late in (0, 1, 30):
            shown.fire("days", days)
            shown.fire("wrong", late)
            assert shown.message == "" and shown.shown.rows


def check_judged(m) -> None:
    sound = m.judged()
    metrics = [row["id"] for row in expected.metrics("self_check")]
    assert len(metrics) == 7
    for metric in metrics:
        assert expected.judge(metric, sound).value is not None and expected.judge(metric, sound).holds, metric
    table = m.bank_table(sound)
    asked = sum(v for row in table.rows for k, v in row.items() if k != "topic")
    assert asked == len(bank.practice()) and str(asked) in table.notes[0] and "20 prompts" in table.notes[1]
    with pytest.MonkeyPatch.context() as p:
        choice = next(q for q in bank.practice() if q["kind"] == "choice")
        other = {**choice, "answer": (choice["answer"] + 1) % len(choice["options"])}
        p.setattr(bank, "practice", lambda topic=None: [other])
        p.setattr(bank, "post_test", lambda: [])
        assert m.misgraded(1) == [choice["id"]]
    assert results.predictions() == [] or all(e["id"].startswith("q.") for e in results.predictions()), "judging keeps nothing"


def check_transfer(m) -> None:
    given = {"elements": 16e6, "itemsize": 4, "tb_s": 4.0, "host_us": 8.0}
    assert "Nothing said yet" in str(m.transfer(None, **given)) and "Nothing said yet" in str(
        m.transfer({"launches": 2}, **given)
    )
    right = {"launches": 2, "megabytes": 256, "microseconds": 64}
    assert [row["near"] for row in m.transfer(right, **given).rows] == ["✔"] * 3
    assert [row["near"] for row in m.transfer({**right, "megabytes": 192}, **given).rows] == ["✔", "✘", "✔"]
    small = m.transfer(right, elements=1e3, itemsize=4, tb_s=4.0, host_us=8.0)
    assert small.rows[2]["worked out"] == 16.0, "two launches are the longer side there"
    assert {row["command"].split()[3] for row in m.paper().rows} == {"selfcheck"}


def test_every_sentence_is_true_on_data_that_surprises():
    check_sentences(lesson14)


FAULTS = {
    "a wait taken for a loss": ('"none" if saved <= NEARLY * with_', '"none" if saved < 0'),
    "a longer step called shorter": ("if saved < 0:", "if saved > 1e9:"),
    "open claims counted as settled": (' if verdict != "open")', ")"),
    "the recorded price in the reader's row": ('"price": format_ns(race[name])', '"price": format_ns(receipt.total_ns)'),
    "confidence turned round": ('"less than you expected" if expected > right', '"less than you expected" if expected < right'),
    "a wrong answer that is wrong for ever": (
        'at >= wrong and all(r["answer"] == "right" for r in rows)',
        "at >= wrong",
    ),
    "gaps from the first day": ('at - rows[-1]["day"] if rows else 0', "at"),
    "a key that is never tried": ('return taken == ["misconception" not in', 'return taken is not ["misconception" not in'),
    "one tensor too few": ('"megabytes": 4 * elements', '"megabytes": 3 * elements'),
    "host and bytes added": ('max(2 * host_us, wanted["megabytes"] / tb_s)', '2 * host_us + wanted["megabytes"] / tb_s'),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_lesson_is_found_out(fault, tmp_path):
    module = broken(lesson14, *FAULTS[fault], tmp_path)
    with pytest.raises(AssertionError):
        check_sentences(module)


def test_without_a_gpu_s_recording_the_price_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(recordings.paths, "RECORDINGS", tmp_path / "none")
    race = make_race()
    assert "No GPU has been recorded" in str(lesson14.price(race))
    assert lesson14.price_table(race).rows[1]["price"] == "not measured"


def test_what_changes_while_one_reads_is_made_anew_each_time():
    shown = []
    part = lesson14.Now(lambda: shown.append(1) or f"answer {len(shown)} of `q`")
    assert part.text() == "answer 1 of `q`" and str(part) == "answer 2 of `q`" and "<code>q</code>" in part._repr_html_()


def test_every_prediction_has_its_why_and_every_metric_is_judged():
    text = "\n".join(c.source for c in code_cells(notebook(14)))
    asked = {line.split('predict("')[1].split('"')[0] for line in text.splitlines() if 'predict("' in line}
    assert asked == set(lesson14.WHY)
    for row in expected.metrics("self_check"):
        assert f'expect("{row["id"]}", judged)' in text
