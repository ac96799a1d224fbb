"""What lesson 14, the self-check, shows besides its sessions: a price three ways, verdicts, a trace, the bank judged.

It measures one race of the add, as lesson 00 does, and reads everything else: the question bank, the ledger, the recordings and
what the reader has answered. Each function takes what it words, so that a sentence stays true when the numbers surprise.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import date, timedelta
from pathlib import Path

from utils import paths
from utils.measure.launch_here import Found
from utils.model import bank, keys, ledger, practice, recordings, schemas, spacing
from utils.model.readings import Race
from utils.show import launch_figures, numbers_to_know, own_answer, quiz
from utils.show.controls import Panel, panel, slider
from utils.show.explain import Sentence
from utils.show.here_and_there import not_measured, per_cent
from utils.show.tables import Table, format_ns, format_time, significant

TRACE_ANSWERS = {
    "none": (None, "Hardly at all"),
    "wait": ("a_wait_is_a_loss", "By about what the host waits"),
    "double": ("item_is_a_read", "More than that: the wait also slows the kernels"),
}

# What stands under a figure, kept out of the cells: their source is read before the question is answered.
WHY = {
    "self_check.price": "A price of your own, with its machine and context, is worth more than a range that somebody printed.",
    "self_check.holds": "Most figures of texts are right on some machine. Say on which, and what was measured.",
    "self_check.trace": "While the host waits the device works. What is lost is what the device then stands idle.",
    "self_check.ten": "Where you expected more than you got, practise; where you expected less, trust yourself.",
}

TODAY = date(2027, 1, 4)  # a made-up day for schedules that show how the spacing works
NEARLY = 0.05  # a step within 5 % is called hardly shorter
NEAR = 0.1  # an answer by hand within 10 % is near enough


# ------------------------------------------------------------------------------------------------ one price, three ways


def price(race: Race) -> Sentence:
    """What one hot add costs the host now, beside the recorded GPU's host and what is cited."""
    name = race.control[0]
    there = _recorded_price()
    cited = ledger.find("A08").cited
    words = f"One hot {name} takes this host {format_ns(race[name])}; differences below {per_cent(race.error)} are not claimed."
    beside = there or "No GPU has been recorded yet."
    return Sentence(words, beside, f"A text cites {cited} for one op.")


def price_table(race: Race) -> Table:
    """The three columns for saying aloud: yours, recorded, cited."""
    name = race.control[0]
    best = recordings.best("cuda")
    receipt = best.receipt("cuda") if best else None
    rows = [
        {"whose": "yours, just now", "price": format_ns(race[name]), "context": "hot, the result kept, this machine"},
        {
            "whose": "recorded",
            "price": format_ns(receipt.total_ns if receipt else None),
            "context": best.label() if best else "no GPU has been recorded yet",
        },
        {"whose": "cited", "price": ledger.find("A08").cited, "context": "a modern server core, says the text"},
    ]
    return Table(rows, None, f"One {name}, three ways")


def _recorded_price() -> str:
    best = recordings.best("cuda")
    receipt = best.receipt("cuda") if best else None
    return f"A GPU's host took {format_ns(receipt.total_ns)} ({best.label()})." if receipt else ""


# ------------------------------------------------------------------------------------------------ verdicts


def holds() -> Sentence:
    """How many of the settled claims hold as written, hold in part, or do not."""
    counts = Counter(claim.verdict for claim in ledger.claims())
    settled = sum(n for verdict, n in counts.items() if verdict != "open")
    share = counts["holds"] / settled
    open_ones = f" {counts['open']} are not settled yet." if counts["open"] else ""
    return Sentence(
        f"Of {settled} settled claims {counts['holds']} hold as written, {per_cent(share)}; {counts['holds_when']} hold, but not "
        f"everywhere; {counts['does_not_hold']} do not hold.{open_ones}"
    )


def verdict_counts() -> Table:
    """Claims by lesson and verdict."""
    rows = []
    for lesson in schemas.LESSONS:
        counts = Counter(claim.verdict for claim in ledger.claims(lesson))
        if counts:
            rows.append({"lesson": lesson.replace("_", " "), **{words: counts[v] for v, words in ledger.WORDS.items()}})
    return Table(rows, ["lesson", *ledger.WORDS.values()], "What became of the claims")


def numbers() -> Table:
    """The one page of numbers to know."""
    return numbers_to_know.table()


# ------------------------------------------------------------------------------------------------ a trace


def trace(found: Found):
    """The recorded step with one read of a value, as a picture; or the words that say why there is none."""
    if found.value is None:
        return not_measured(found, "a step that reads a value")
    return launch_figures.profiled(found.value["timelines"]["item"], f"Steps of {found.value['what']}", found.label)


def read(found: Found) -> tuple[str | None, Sentence]:
    """(text of the option that the recording shows, sentences): what taking the read out of the step saves."""
    if found.value is None:
        return None, Sentence(not_measured(found, "a step with and without a read"))
    rows = {row["variant"]: row for row in found.value["rows"]}
    without, with_ = rows["none"]["step_us"], rows["item"]["step_us"]
    waited, saved = rows["item"]["held_us"], with_ - without
    kind = "none" if saved <= NEARLY * with_ else "wait" if saved <= 1.2 * waited else "double"
    idle = rows["item"]["idle_us"]
    idle_words = f"; the device stood idle for {format_time(1e3 * idle)}" if idle is not None else ""
    return TRACE_ANSWERS[kind][1], Sentence(
        f"The host waited {format_time(1e3 * waited)} of a step of {format_time(1e3 * with_)}{idle_words}. Without the read the "
        f"step took {format_time(1e3 * without)}: {_change(saved, with_)}. {found.label}"
    )


def _change(saved: float, step: float) -> str:
    if saved < 0:
        return f"{per_cent(-saved / step)} longer, which only noise can explain"
    return f"{per_cent(saved / step)} shorter"


# ------------------------------------------------------------------------------------------------ what changes while one reads


class Now:
    """A part of a fold that is made anew each time it is shown: answers may come after its cell ran."""

    def __init__(self, make: Callable[[], Table | str]):
        self.make = make

    def _repr_html_(self) -> str:
        from utils.show import widgets

        return widgets.as_html(self.make())

    def text(self) -> str:
        from utils.show import widgets

        return widgets.as_text(self.make())

    __str__ = text


def ten(guess) -> str:
    """What the reader expected of the interview against what the last one came to, in words."""
    from utils.model import results

    last = practice.last_interview(results.predictions())
    if last is None:
        return "No interview has been sat yet."
    right, asked = last
    words = f"Of the last interview's {asked} answers {right} were right."
    if guess is None or guess.number is None:
        return f"{words} You made no prediction."
    expected = guess.number
    gap = "less than you expected" if expected > right else "more than you expected"
    near = "as you expected" if abs(expected - right) <= 1 else gap
    return f"{words} You said {significant(expected, 2)}: {near}."


def one_question() -> Panel:
    """Sliders: when a question met today comes again on the way to a target, and after a wrong answer."""
    days = slider(4, 60, 14, label="days to the target")
    wrong = slider(0, 30, 0, label="answered wrong on day (0: never)")
    return panel(schedule, title="When does one question come again?", days=days, wrong=wrong)


def schedule(days: int, wrong: int) -> Table | str:
    """The days on which one question is asked, when every answer is right but the one on day `wrong`."""
    target = TODAY + timedelta(days=days)
    history: list[tuple[date, bool]] = []
    rows = []
    for at in range(days):
        day = TODAY + timedelta(days=at)
        if "q" not in spacing.plan({"q": history}, ["q"], day, target)[day]:
            continue
        right = not (wrong and at >= wrong and all(r["answer"] == "right" for r in rows))
        rows.append({"day": at, "gap": at - rows[-1]["day"] if rows else 0, "answer": "right" if right else "wrong"})
        history.append((day, right))
    left = days - rows[-1]["day"]
    note = f"From the last one to the target: {left} {'day' if left == 1 else 'days'}."
    columns = {"day": "day", "gap": "days since the one before", "answer": "the answer"}
    return Table(rows, columns, f"One question, {days} days to the target", [note])


# ------------------------------------------------------------------------------------------------ judged


def judged(seed: int = 1) -> dict:
    """The numbers of the lesson's checks: the bank's size, its proofs, its keys, an interview and a schedule."""
    asked = [bank.find(i) for i in bank.interview(seed)]
    days = spacing.due_days(TODAY, TODAY + timedelta(days=24), spacing.REPEATS)
    edges = [TODAY, *days, TODAY + timedelta(days=24)]
    gaps = [(b - a).days for a, b in zip(edges, edges[1:], strict=False)]
    return {
        "device": "cpu",
        "questions": float(len(bank.practice())),
        "topics": float(len(bank.topics())),
        "dead_proofs": float(len(dead_proofs())),
        "misgraded": float(len(misgraded(seed))),
        "interview": float(len({q["id"] for q in asked})),
        "interview_topics": float(len({bank.topic_of(q) for q in asked})),
        "gap_ratio": max(gaps) / min(gaps),
    }


def bank_table(found: Mapping[str, float]) -> Table:
    """The bank by topic and by kind of question, and what the checks below judge."""
    forms = ("free", "choice", "bad_premise", "number", "trace")
    rows = []
    for one in bank.topics():
        counts = Counter(bank.form_of(q) for q in bank.practice(one.id))
        rows.append({"topic": one.title, **{form.replace("_", " "): counts[form] for form in forms}})
    asked = len(schemas.load("questions")["asked_by_the_texts"])
    notes = [
        f"{found['questions']:.0f} questions to practise, {len(bank.post_test())} kept for the post-test.",
        f"Every one of the {asked} prompts of the two texts is among them, in other words.",
    ]
    return Table(rows, None, "Questions by topic and kind", notes)


def dead_proofs() -> list[str]:
    """Questions whose proof names a cell that is not in the lesson; lessons that are not here are passed over."""
    cells: dict[str, set[str] | None] = {}
    out = []
    for question in [*bank.practice(), *bank.post_test()]:
        proof = bank.proof(question)
        if proof.file not in cells:
            file = paths.REPO / "notebooks" / proof.file
            cells[proof.file] = _cell_ids(file) if file.is_file() else None
        known = cells[proof.file]
        if known is not None and proof.cell and proof.cell not in known:
            out.append(question["id"])
    return out


def _cell_ids(notebook: Path) -> set[str]:
    return {cell["id"] for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]}


def misgraded(seed: int) -> list[str]:
    """Questions that refuse their right answer, or take a wrong one; nothing is kept meanwhile."""
    rows = [q for q in [*bank.practice(), *bank.post_test()] if q["kind"] != "free"]
    return [q["id"] for q in rows if not _grades(q, seed)]


def _grades(question: Mapping, seed: int) -> bool:
    if question["kind"] == "choice":
        item = quiz.item_of(question)
        taken = [item._choice(question, option)[1] for option in item.options]
        return taken == ["misconception" not in option for option in question["options"]]
    key = keys.key(question, seed)
    if key.value is None:
        return True  # nothing to compare with: neither measured nor recorded
    return key.accepts(key.value) and not key.accepts(key.value * (1 + 2 * key.tolerance))


# ------------------------------------------------------------------------------------------------ the end


def paper() -> Table:
    """The commands that write what can be printed or imported elsewhere."""
    from utils.commands.selfcheck import ACTIONS

    ends = {"print": "html", "numbers": "html", "moodle": "xml"}
    rows = [{"command": f"python -m utils selfcheck {name} FILE.{ends[name]}", "what": words} for name, words in ACTIONS.items()]
    return Table(rows, None, "Outside the notebook")


@own_answer.in_unit()
def transfer(
    said: Mapping[str, float] | None, *, elements: float, itemsize: int, tb_s: float, host_us: float
) -> Table | Sentence:
    """The reader's answer on y = x * torch.rand_like(x): launches, megabytes and the least time, against the sums."""
    wanted = {"launches": 2.0, "megabytes": 4 * elements * itemsize / 1e6}
    wanted["microseconds"] = max(2 * host_us, wanted["megabytes"] / tb_s)
    if not said or set(said) != set(wanted):
        return Sentence(f"Nothing said yet: fill in {', '.join(wanted)}, and run this cell again.")
    why = {
        "launches": "rand_like is one kernel, the product another",
        "megabytes": "one tensor written, then two read and one written",
        "microseconds": "the longer of two launches and the bytes' time",
    }
    rows = [
        {
            "what": name,
            "you said": float(said[name]),
            "worked out": value,
            "near": "✔" if abs(said[name] - value) <= NEAR * value else "✘",
            "because": why[name],
        }
        for name, value in wanted.items()
    ]
    return Table(rows, None, "Your op, priced aloud", ["Near enough: within 10 %."])
