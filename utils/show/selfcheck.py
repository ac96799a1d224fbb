"""The self-check as widgets: one question after the other, by topic, what is due, a timed interview, the post-test.

    by_topic()        due("2027-03-01")        interview(seed=1)        post_test()

A session shows one question at a time. Its first control is always the same button, so that after *Next* the Tab key leads
into the question. Nothing of a question is in the page before the session has begun, and nothing of its key before an answer.
Answers are kept in the reader's results file, each with the sitting it belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta

from utils.model import bank, practice, spacing
from utils.show import quiz, widgets
from utils.show.clock import Clock
from utils.show.one_of import OneOf
from utils.show.tables import Table

A_SITTING = 10  # questions of one session at most: about a quarter of an hour
DAYS = 14  # the target date where the reader names none


def by_topic() -> Session:
    """A session on the topic that is chosen: what was wrong or never met comes first."""
    titles = {topic.title: topic.id for topic in bank.topics()}
    return Session(
        "Practise a topic",
        lambda title: on_topic(titles[title]),
        sitting="topic",
        choose=("Topic (the first, when none is ticked):", list(titles)),
    )


def due(target: str | None = None) -> Session:
    """What is due today on the way to the target date ("2027-03-01"; None: in two weeks). Raises ValueError for another text."""
    day = target_date(target)
    return Session("What is due today", lambda _: due_today(day), sitting="due")


def interview(seed: int = 0) -> Session:
    """Ten questions against the clock, mixed as an interview mixes them. The same seed gives the same ten."""
    title = "A mock interview of ten questions"
    return Session(title, lambda _: bank.interview(seed), sitting=practice.INTERVIEW, timed=True, seed=seed)


def post_test() -> Session:
    """The questions of lesson 00's pre-test once more. They are never practised in between."""
    return Session("The pre-test again", lambda _: [q["id"] for q in bank.post_test()], sitting=practice.POST)


# ------------------------------------------------------------------------------------------------ what is asked


def target_date(target: str | None, today: date | None = None) -> date:
    """The day of the interview. Raises ValueError, in words, for what is no date or does not come after today."""
    today = today or date.today()
    if target is None:
        return today + timedelta(days=DAYS)
    try:
        day = date.fromisoformat(target)
    except (TypeError, ValueError):
        raise ValueError(f"{target!r} is no date: write it as 2027-03-01") from None
    if day <= today:
        raise ValueError(f"{target} is not after today")
    return day


def on_topic(topic: str) -> list[str]:
    """At most A_SITTING questions on a topic: those wrong at the last answer, then those never met, then the longest ago."""
    kept = _history()

    def order(question: dict) -> tuple:
        met = kept.get(question["id"])
        return (1, date.min) if not met else (0 if not met[-1][1] else 2, met[-1][0])

    return [q["id"] for q in sorted(bank.practice(topic), key=order)][:A_SITTING]


def due_today(target: date) -> list[str]:
    """At most A_SITTING of the questions that the plan has for today, the most important first."""
    today = date.today()
    return spacing.plan(_history(), [q["id"] for q in bank.practice()], today, target)[today][:A_SITTING]


def plan_table(target: str | None = None) -> Table:
    """How many questions each of the coming days has, on the way to the target date."""
    today, day = date.today(), target_date(target)
    plan = spacing.plan(_history(), [q["id"] for q in bank.practice()], today, day)
    rows = [{"day": _day(at, today), "questions": len(ids)} for at, ids in plan.items()]
    note = f"Target: in {(day - today).days} days. A sitting asks at most {A_SITTING}; begin another for the rest of a day."
    return Table(rows, {"day": "day", "questions": "questions due"}, "Evenly spaced towards the target", [note])


def _day(day: date, today: date) -> str:
    days = (day - today).days
    return "today" if days == 0 else "tomorrow" if days == 1 else f"in {days} days"


def progress_table() -> Table:
    """The reader's progress by topic, from the results file."""
    columns = {"topic": "topic", "questions": "questions", "met": "met", "right": "right at the last answer", "known": "known"}
    note = f"Known: right on {spacing.REPEATS} different days since it was last wrong."
    from utils.model import results

    return Table(practice.progress(results.predictions(), bank.by_topic()), columns, "Your progress by topic", [note])


def gain_table() -> Table | str:
    """Misconceptions before and after, and the gain; or in words what is missing for it."""
    from utils.model import results
    from utils.show import catalogue

    entries, questions = results.predictions(), bank.post_test()
    both, before, after, share = practice.normalised_gain(entries, questions)
    if not both:
        return "No question has been answered both times yet: the pre-test is in lesson 00, the post-test above."
    rows = [
        {**row, "misconception": catalogue.misconception(row["misconception"])["name"]}
        for row in practice.gain(entries, questions)
    ]
    columns = {"misconception": "misconception", "offered": "offered", "before": "chosen before", "after": "chosen after"}
    words = f"Right: {before} of {both} before, {after} of {both} after."
    gained = "Nothing was left to gain." if share is None else f"That is {100 * share:.0f} % of what was left to gain."
    return Table(rows, columns, "Gain by misconception", [words, gained, "Only questions answered both times are counted."])


def _history() -> dict:
    from utils.model import results

    return practice.history(results.predictions())


def _seed_of(question_id: str) -> int:
    """How often the question has been answered: each time it is asked, its numbers are drawn anew, and can be drawn again."""
    return len(_history().get(question_id, ()))


# ------------------------------------------------------------------------------------------------ the session


class Session:
    """One sitting. `step()` does what the button does: begin, go on, end; `form` is the question that stands there, or None.

    `pick(choice)` gives the ids, when the session begins. `choose` is (label, options) of what to choose from first. With
    `timed`, each question has the time an interviewer would give it. `seed` fixes the numbers that are drawn; without one they
    change with every answer.
    """

    def __init__(
        self,
        title: str,
        pick: Callable[[str | None], Sequence[str]],
        *,
        sitting: str,
        choose: tuple[str, list[str]] | None = None,
        timed: bool = False,
        seed: int | None = None,
    ):
        self.title, self.pick, self.sitting, self.choose, self.timed, self.seed = title, pick, sitting, choose, timed, seed
        self.ids: list[str] = []
        self.at = -1
        self.number = ""
        self.form = None
        self.given: dict[str, tuple[bool, float, bool]] = {}  # id → (right, seconds, late), of this sitting
        self.clock = Clock(self._show_clock)
        self._box = None
        self.status = ""

    # ---- what the button does

    def step(self) -> None:
        if not 0 <= self.at < len(self.ids):
            self._begin()
        else:
            self._go_to(self.at + 1)

    def _begin(self) -> None:
        self.ids = list(self.pick(self._chosen() if self.choose else None))
        self.given = {}
        self.number = datetime.now(UTC).isoformat(timespec="seconds")  # one sitting's answers belong together
        if not self.ids:
            self.at = -1
            self._say("Nothing is due. Practise a topic, or come back tomorrow.")
            return
        self._go_to(0)

    def _go_to(self, at: int) -> None:
        self.clock.stop()
        self.at = at
        if at >= len(self.ids):
            self.form = None
            self._say(self.summary())
            self._refresh()
            return
        question = bank.find(self.ids[at])
        item = quiz.item_of(question, _seed_of(question["id"]) if self.seed is None else self.seed)
        item.extra = {"sitting": self.sitting, "seed": item.seed, "number": self.number}
        self.form = quiz.form_of(item)
        self.form.giving.append(self._note_time)
        self.form.after.append(self._answered)
        self._say(f"Question {at + 1} of {len(self.ids)}" + (f", {bank.seconds(question)} s" if self.timed else ""))
        self.clock.start(bank.seconds(question))
        self._refresh()

    def _note_time(self, form) -> None:
        """An answer's time ends with the click that gives it; for free recall with the one that shows the key points."""
        form.item.extra["seconds"] = round(self.clock.taken, 1)
        form.item.extra["late"] = self.timed and self.clock.late

    def _answered(self, form) -> None:
        extra = form.item.extra
        self.given.setdefault(form.item.id, (bool(form.item.right), extra.get("seconds", 0.0), extra.get("late", False)))
        self.clock.stop()
        self._show_clock("")
        self._refresh(keep=True)

    def summary(self) -> str:
        """What the sitting came to, in words."""
        right = sum(one for one, _, _ in self.given.values())
        late = sum(one for _, _, one in self.given.values())
        words = f"{right} of {len(self.ids)} right at the first try, {len(self.ids) - len(self.given)} left out"
        if self.timed and self.given:
            mean = sum(s for _, s, _ in self.given.values()) / len(self.given)
            words += f"; {late} late, {mean:.0f} s for an answer on average"
        return words + "."

    # ---- what is shown

    @property
    def label(self) -> str:
        """What the button says."""
        if not 0 <= self.at < len(self.ids):
            return "Start again" if self.at >= 0 else "Start"
        if self.at + 1 == len(self.ids):
            return "Finish"
        return "Next question" if self.ids[self.at] in self.given else "Leave out"

    def _chosen(self) -> str:
        return (self._list.value if self._box is not None else None) or self.choose[1][0]

    def _say(self, words: str) -> None:
        self.status = words
        if self._box is not None:
            self._said.value = f'<p role="status">{widgets.prose(words)}</p>'

    def _show_clock(self, words: str) -> None:
        if self._box is not None and self.timed:
            self._time.value = f'<p role="timer">{widgets.prose(words)}</p>' if words else ""

    def _refresh(self, keep: bool = False) -> None:
        if self._box is None:
            return
        self.button.description = self.label
        if not keep:
            self._place.children = () if self.form is None else (self.form.widget,)

    def _build(self) -> None:
        import ipywidgets as w

        self._said, self._time, self._place = w.HTML(), w.HTML(), w.VBox()
        self.button = w.Button(description=self.label, button_style="primary", tooltip=f"{self.title}: begin, or go on")
        self.button.on_click(lambda _: self.step())
        head = [w.HTML(f"<p><b>{widgets.prose(self.title)}</b></p>")]
        if self.choose:
            label, options = self.choose
            self._list = OneOf(options, options[0])
            head += [w.HTML(f"<p>{widgets.prose(label)}</p>"), self._list.widget]
        self._box = w.VBox([*head, self.button, self._said, self._time, self._place])

    def text(self) -> str:
        return f"{self.title} (run this cell in a notebook to begin)"

    def __repr__(self) -> str:
        return self.text()

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        if self._box is None:
            self._build()
        still = f"<p><b>{widgets.prose(self.title)}</b></p><p><em>Run this cell to begin.</em></p>"
        return widgets.bundle(self._box, still, self.text())
