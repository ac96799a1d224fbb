"""Questions of `utils/data/questions.yml` as widgets: the answer is kept, the feedback names the misconception behind it.

    quiz("start_here.clock_without_sync")        quiz(["…", "…"])        recall("price_each_stage")

The key stays in Python: before an answer neither the page nor the widgets' state holds it. A first answer counts for the
reader's progress (`score`), later ones are for practice. After an answer a link leads to the cell that proves it. Without
widgets the questions stand there as text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from utils.model import bank, practice, schemas
from utils.show import catalogue, widgets
from utils.show.numbers import format_number, parse_number
from utils.show.one_of import OneOf
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
    return Quiz([item_of(_questions()[i]) for i in wanted], title)


def item_of(question: dict, seed: int = 0) -> Item:
    """The question as an item that takes an answer; `seed` draws its numbers where it has any to draw."""
    if question["kind"] == "free":
        from utils.show.free_recall import FreeItem

        return FreeItem(question)
    return Item(question, seed)


def form_of(item: Item) -> Form:
    """The widgets of an item of whatever kind."""
    if item.kind == "free":
        from utils.show.free_recall import FreeForm

        return FreeForm(item)
    return Form(item)


def recall(lesson: str, n: int = 3) -> Quiz:
    """`n` recall questions from the lessons before `lesson`: those answered wrong or never first, the nearest lesson first."""
    order = {name: at for at, name in enumerate(schemas.LESSONS)}
    if lesson not in order:
        raise LookupError(f"no such lesson: {lesson!r}; there are {', '.join(order)}")
    asked = ("recall", "check", "exit")
    earlier = [q for q in _questions().values() if q["use"] in asked and order[q["lesson"]] < order[lesson] and _short(q)]
    if not earlier:
        raise LookupError(f"no question from a lesson before {lesson!r}")
    known = {q["id"]: first_answers().get(q["id"]) is True for q in earlier}
    earlier.sort(key=lambda q: (known[q["id"]], q["use"] != "recall", -order[q["lesson"]]))
    return Quiz([Item(q) for q in earlier[:n]], "From earlier lessons")


def _short(question: dict) -> bool:
    """Whether it is answered at a glance, as the opening of a lesson wants it."""
    return question["kind"] != "free" and question.get("form") != "trace"


def first_answers() -> dict[str, bool]:
    """Question id → whether the reader's first answer to it was right; unanswered ones are absent, and so is the post-test."""
    from utils.model import results

    out: dict[str, bool] = {}
    for entry in practice.answers(results.predictions()):
        out.setdefault(entry["id"], bool(entry["extra"].get("right")))
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
    last answer was right. What is in `extra` is kept with each answer.
    """

    def __init__(self, question: dict, seed: int = 0):
        self.id, self.kind, self.seed = question["id"], question["kind"], seed
        self.prompt = self._key(question).prompt if self.kind == "number" else question["prompt"]
        self.options = tuple(option["text"] for option in question.get("options", ()))
        unit = question["answer"].get("unit", "") if self.kind == "number" else ""
        self.unit = {"percent": "%", "us": "µs"}.get(unit, unit)
        self.right: bool | None = None
        self.extra: dict = {}

    def _key(self, question: dict):
        from utils.model import keys  # reads recordings and results: only for questions with a number

        return keys.key(question, self.seed)

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
        key = self._key(question)
        if key.value is None:
            return given, False, f"{question['feedback']} (Nothing to compare with yet: {key.source}.)"
        right = key.accepts(given)
        verdict = "✔ Near enough" if right else "✘ Not near enough"
        words = f"{verdict}. It is {format_number(key.value, 3)} {self.unit}".rstrip()
        aloud = "".join(
            f" For saying aloud, {column['what']}: yours {column['yours']} · recorded GPU {column['recorded']} · "
            f"cited {column['cited']}."
            for column in key.columns
        )
        return given, right, f"{words}{f' ({key.source})' if key.source else ''}. {question['feedback']}{aloud}"

    def _keep(self, given: str | float, right: bool) -> str:
        from utils.model import results

        results.predict(self.id, given, unit=self.unit or None, extra={"quiz": True, "right": right, **self.extra})
        return widgets.about_results()

    @property
    def proof(self) -> bank.Proof:
        """The cell that proves the answer."""
        return bank.proof(_questions()[self.id])

    @property
    def picture(self):
        """What a question about a trace shows, as a Picture or as the words that say why there is none; else None."""
        question = _questions()[self.id]
        if "trace" not in question:
            return None
        from utils.show import trace_pictures

        return trace_pictures.picture(question["trace"])

    def text(self) -> str:
        shown = self.picture
        parts = [self.prompt, *([widgets.as_text(shown)] if shown is not None else [])]
        return "\n".join([*parts, *(f"  ( ) {option}" for option in self.options)])

    def html(self) -> str:
        options = "".join(f"<li>{widgets.prose(option)}</li>" for option in self.options)
        shown = self.picture
        return (
            f"<p><b>{widgets.prose(self.prompt)}</b></p>{'' if shown is None else widgets.as_html(shown)}"
            f"{f'<ul>{options}</ul>' if options else ''}"
        )


class Quiz:
    """Questions one below the other; `items` holds them. Shown as widgets in a notebook, as text elsewhere."""

    def __init__(self, items: Sequence[Item], title: str = ""):
        self.items, self.title = list(items), title
        self.forms: list[Form] = []

    def text(self) -> str:
        return "\n\n".join([*([self.title] if self.title else []), *(item.text() for item in self.items)])

    def __repr__(self) -> str:
        return self.text()

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        import ipywidgets as w

        if not self.forms:
            self.forms = [form_of(item) for item in self.items]
            heading = [w.HTML(f"<p><b>{widgets.prose(self.title)}</b></p>")] if self.title else []
            self._box = w.VBox([*heading, *(form.widget for form in self.forms)])
        title = f"<p><b>{widgets.prose(self.title)}</b></p>" if self.title else ""
        fallback = title + "".join(item.html() for item in self.items) + "<p><em>Answer by running this cell.</em></p>"
        return widgets.bundle(self._box, fallback, self.text())


class Form:
    """The widgets of one item: prompt, options or field, Check, feedback, and then the way to the proof.

    `giving` holds what is called, with the form, when an answer is given, before it is judged; `after` what is called then.
    """

    def __init__(self, item: Item):
        import ipywidgets as w

        self.item = item
        self.giving: list[Callable[[Form], None]] = []
        self.after: list[Callable[[Form], None]] = []
        if item.options:
            self.field = OneOf(item.options)
        else:
            self.field = widgets.number_field(item.unit, self.check)
        self.button = w.Button(description="Check", tooltip="Keep this answer and see what it means")
        self.feedback = w.HTML()
        self.proof = w.Output()
        self.button.on_click(lambda _: self.check())
        shown = item.picture
        picture = [] if shown is None else [w.HTML(widgets.as_html(shown))]
        prompt = w.HTML(f"<p><b>{widgets.prose(item.prompt)}</b></p>")
        field = self.field.widget if item.options else self.field
        self.widget = w.VBox([prompt, *picture, field, self.button, self.feedback, self.proof])

    def check(self) -> None:
        for call in self.giving:
            call(self)
        try:
            words = self.item.answer(self.field.value)
        except ValueError as error:
            self.feedback.value = f'<p role="status">{widgets.prose(str(error))}</p>'
            return
        self.feedback.value = f'<p role="status">{widgets.prose(words)}</p>'
        self.proof.outputs = (proof_output(self.item.proof),)
        for call in self.after:
            call(self)


def proof_output(proof: bank.Proof) -> dict:
    """The way to the proving cell as a cell's output: JupyterLab follows relative links there, and not in a widget's HTML."""
    html = f'<p>Proof: <a href="{proof.href}">{widgets.prose(proof.words)}</a></p>'
    data = {"text/plain": f"Proof: {proof.words}", "text/html": html}
    return {"output_type": "display_data", "data": data, "metadata": {}}
