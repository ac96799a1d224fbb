"""Questions of `utils/data/questions.yml` as widgets: the answer is kept, the feedback names the misconception behind it.

    quiz("start_here.clock_without_sync")        quiz(["…", "…"])        recall("price_each_stage")

The key stays in Python: before an answer neither the page nor the widgets' state holds it. A first answer counts for the
reader's progress (`score`), later ones are for practice. Without widgets the questions stand there as text.
"""

from __future__ import annotations

from collections.abc import Sequence

from utils.model import schemas
from utils.show import catalogue, widgets
from utils.show.numbers import format_number, parse_number
from utils.show.tables import Table


def items(*, lesson: str | None = None, use: str | None = None) -> list[str]:
    """The ids of the questions of a lesson and of a use ("pre_test", "recall", "exit" …), in the file's order."""
    return [q["id"] for q in _questions().values() if lesson in (None, q["lesson"]) and use in (None, q["use"])]


def quiz(ids: str | Sequence[str], title: str = "") -> Quiz:
    """The questions `ids` one below the other. Raises LookupError for an unknown id."""
    wanted = [ids] if isinstance(ids, str) else list(ids)
    unknown = [i for i in wanted if i not in _questions()]
    if unknown or not wanted:
        raise LookupError(f"no such question: {', '.join(unknown) or 'none was named'}")
    return Quiz([Item(_questions()[i]) for i in wanted], title)


def recall(lesson: str, n: int = 3) -> Quiz:
    """`n` recall questions from the lessons before `lesson`: those answered wrong or never first, the nearest lesson first."""
    order = {name: at for at, name in enumerate(schemas.LESSONS)}
    if lesson not in order:
        raise LookupError(f"no such lesson: {lesson!r}; there are {', '.join(order)}")
    earlier = [q for q in _questions().values() if q["use"] in ("recall", "check", "exit") and order[q["lesson"]] < order[lesson]]
    if not earlier:
        raise LookupError(f"no question from a lesson before {lesson!r}")
    known = {q["id"]: first_answers().get(q["id"]) is True for q in earlier}
    earlier.sort(key=lambda q: (known[q["id"]], q["use"] != "recall", -order[q["lesson"]]))
    return Quiz([Item(q) for q in earlier[:n]], "From earlier lessons")


def first_answers() -> dict[str, bool]:
    """Question id → whether the reader's first answer to it was right; unanswered ones are absent."""
    from utils.model import results

    out: dict[str, bool] = {}
    for entry in results.predictions():
        extra = entry.get("extra") or {}
        if extra.get("quiz"):
            out.setdefault(entry["id"], bool(extra.get("right")))
    return out


def score(ids: Sequence[str]) -> Table:
    """The reader's progress over `ids`: how many were answered, and how many right at the first try."""
    first = first_answers()
    done = [i for i in ids if i in first]
    right = sum(first[i] for i in done)
    return Table([{"questions": len(ids), "answered": len(done), "right at the first try": right}], caption="Your progress")


def _questions() -> dict[str, dict]:
    return {q["id"]: q for q in schemas.load("questions")["questions"]}


class Item:
    """One question. `answer(raw)` takes an answer as typed (or an option's text) and returns the feedback as text.

    Raises ValueError, in words for the reader, when `raw` is no answer. `right` is None until then, afterwards whether the
    last answer was right.
    """

    def __init__(self, question: dict):
        self.id, self.prompt, self.kind = question["id"], question["prompt"], question["kind"]
        self.options = tuple(option["text"] for option in question.get("options", ()))
        self.unit = {"percent": "%", "us": "µs"}.get(self._key(question).get("unit", ""), self._key(question).get("unit", ""))
        self.right: bool | None = None

    @staticmethod
    def _key(question: dict) -> dict:
        return question["answer"] if isinstance(question["answer"], dict) else {}

    def answer(self, raw: str | None) -> str:
        question = _questions()[self.id]
        if self.kind == "choice":
            given, right, feedback = self._choice(question, raw)
        else:
            given, right, feedback = self._number(question, str(raw or "").strip())
        self.right = right
        return " ".join(part for part in (feedback, self._keep(given, right)) if part)

    def _choice(self, question: dict, raw: str | None) -> tuple[str, bool, str]:
        if raw not in self.options:
            raise ValueError("Choose one of the answers first.")
        at = self.options.index(raw)
        option = question["options"][at]
        right = at == question["answer"]
        named = "" if right or "misconception" not in option else catalogue.misconception(option["misconception"])["name"]
        return raw, right, f"{'✔' if right else '✘'} {option['feedback']}{f' (Misconception: {named}.)' if named else ''}"

    def _number(self, question: dict, raw: str) -> tuple[float, bool, str]:
        given = parse_number(raw, self.unit)
        wanted, source = self._wanted(question["answer"])
        if wanted is None:
            return given, False, f"{question['feedback']} (Nothing to compare with yet: {source}.)"
        tolerance = question["answer"]["tolerance"]
        right = abs(given - wanted) <= tolerance * abs(wanted)
        verdict = "✔ Near enough" if right else "✘ Not near enough"
        words = f"{verdict}: {format_number(wanted, 3)} {self.unit}".rstrip()
        return given, right, f"{words}{f' ({source})' if source else ''}. {question['feedback']}"

    @staticmethod
    def _wanted(key: dict) -> tuple[float | None, str]:
        """(the number that is right, in the key's unit; where it comes from). None when nothing measured has it."""
        if "value" in key:
            return float(key["value"]), ""
        from utils.model import quantities, recordings, results

        factor = {"percent": 100.0, "us": 1e-3, "µs": 1e-3}.get(key["unit"], 1.0)
        for grad in (False, True):
            recording = recordings.best("cpu")
            recorded = recording and recording.receipt("cpu", grad)
            for receipt in (results.latest_receipt("cpu", grad), recorded):
                if receipt is None:
                    continue
                try:
                    value = quantities.evaluate(key["from_results"], receipt).value * factor
                except LookupError:
                    continue
                return value, "your own measurement" if receipt.source == "live" else recordings.receipt_label(receipt)
        return None, "measure a receipt in lesson 05 first"

    def _keep(self, given: str | float, right: bool) -> str:
        from utils.model import results

        results.predict(self.id, given, unit=self.unit or None, extra={"quiz": True, "right": right})
        return widgets.about_results()

    def text(self) -> str:
        return "\n".join([self.prompt, *(f"  ( ) {option}" for option in self.options)])

    def html(self) -> str:
        options = "".join(f"<li>{widgets.prose(option)}</li>" for option in self.options)
        return f"<p><b>{widgets.prose(self.prompt)}</b></p>{f'<ul>{options}</ul>' if options else ''}"


class Quiz:
    """Questions one below the other; `items` holds them. Shown as widgets in a notebook, as text elsewhere."""

    def __init__(self, items: Sequence[Item], title: str = ""):
        self.items, self.title = list(items), title
        self.forms: list[_Form] = []

    def text(self) -> str:
        return "\n\n".join([*([self.title] if self.title else []), *(item.text() for item in self.items)])

    def __repr__(self) -> str:
        return self.text()

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        import ipywidgets as w

        if not self.forms:
            self.forms = [_Form(item) for item in self.items]
            heading = [w.HTML(f"<p><b>{widgets.prose(self.title)}</b></p>")] if self.title else []
            self._box = w.VBox([*heading, *(form.widget for form in self.forms)])
        title = f"<p><b>{widgets.prose(self.title)}</b></p>" if self.title else ""
        fallback = title + "".join(item.html() for item in self.items) + "<p><em>Answer by running this cell.</em></p>"
        return widgets.bundle(self._box, fallback, self.text())


class _Form:
    """The widgets of one item: prompt, options or field, Check, feedback."""

    def __init__(self, item: Item):
        import ipywidgets as w

        self.item = item
        if item.options:
            self.field = w.RadioButtons(options=list(item.options), value=None, layout=w.Layout(width="auto"))
        else:
            self.field = widgets.number_field(item.unit, self.check)
        self.button = w.Button(description="Check", tooltip="Keep this answer and see what it means")
        self.feedback = w.HTML()
        self.button.on_click(lambda _: self.check())
        self.widget = w.VBox([w.HTML(f"<p><b>{widgets.prose(item.prompt)}</b></p>"), self.field, self.button, self.feedback])

    def check(self) -> None:
        try:
            words = self.item.answer(self.field.value)
        except ValueError as error:
            words = str(error)
        self.feedback.value = f'<p role="status">{widgets.prose(words)}</p>'
