"""Ask before showing: `predict` keeps the reader's answer, `fold` holds what was measured until it is given or skipped.

    guess = predict("output.memory_share", "Which share of the cost is the allocator?", unit="%", low=0, high=100)
    guess                                        # a cell of its own: the question, a field, Answer and Skip
    …
    fold(guess, table, figure, sentence)         # a closed <details>; the widget above shows an open copy once answered

The fold is plain HTML, so it stays folded in a committed notebook, in Colab, in exported HTML and in a notebook that is not
trusted. Nothing that the fold holds is in the widget's state, in its text or in a cell's plain-text output before the reader
has answered or pressed Skip. In a Run All nobody answers: everything computes and the answer stays in its fold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from utils.show import catalogue, widgets
from utils.show.explain import Sentence
from utils.show.numbers import format_number, parse_number
from utils.show.one_of import OneOf
from utils.show.tables import Table

HINT = " (answer or skip the question above first)"

_guesses: dict[str, Guess] = {}


def predict(
    id: str,
    question: str,
    *,
    unit: str = "",
    options: Mapping[str, str] | Sequence[tuple[str | None, str]] | None = None,
    low: float | None = None,
    high: float | None = None,
) -> Guess:
    """The reader's prediction `id`: asks `question` for a number in `unit` between `low` and `high`, or for one of `options`.

    `options` are (misconception id, text) pairs or a dict of them; None as id marks an option that is no misconception.
    Running the cell again gives the same Guess back, with the answer it has. An answer kept from an earlier day counts.
    """
    pairs = tuple(options.items() if isinstance(options, Mapping) else options or ())
    known = _guesses.get(id)
    if known is not None and known.asks == (question, unit, pairs, low, high):
        return known
    _guesses[id] = Guess(id, question, unit, pairs, low, high)
    return _guesses[id]


class Guess:
    """One prediction: what was asked, what the reader answered, and the folds that wait for it.

    `number` is the numeric answer in `unit`, `choice` the id of the chosen option (its text where it has no id); both None
    when there is none. `skipped` is True until an answer exists. `said` is the answer as a sentence, or "". `open` is True
    once the reader may see the fold: an answer or Skip in this session.
    """

    def __init__(
        self, id: str, question: str, unit: str = "", options: tuple = (), low: float | None = None, high: float | None = None
    ):
        if options and len({text for _, text in options}) < max(2, len(options)):
            raise ValueError(f"prediction {id!r} needs at least two options, no two of them alike")
        self.id, self.question, self.unit, self.options, self.low, self.high = id, question, unit, options, low, high
        self.answer: float | str | None = None
        self.open = False
        self.note = ""
        self._folds: dict[str, Fold] = {}
        self._panel: _Panel | None = None
        self._recall()

    @property
    def asks(self) -> tuple:
        return (self.question, self.unit, self.options, self.low, self.high)

    @property
    def number(self) -> float | None:
        return self.answer if isinstance(self.answer, float) else None

    @property
    def choice(self) -> str | None:
        if not isinstance(self.answer, str):
            return None
        return next((i for i, text in self.options if text == self.answer and i), self.answer)

    @property
    def skipped(self) -> bool:
        return self.answer is None

    @property
    def answer_text(self) -> str:
        if self.number is None:
            return self.answer or ""
        return f"{format_number(self.number)} {self.unit}".rstrip()

    @property
    def said(self) -> str:
        if self.skipped:
            return ""
        return f"You said {self.answer_text}." if self.number is not None else f"You said: {self.answer_text}."

    # -------------------------------------------------------------------- answering

    def give(self, raw: str) -> bool:
        """Take an answer as typed (or an option's text). True when it became the prediction; `note` says what happened."""
        if not self.skipped:
            self._say(f"Your first answer stays your prediction: {self.answer_text}.")
            return False
        if self.open:
            self._say("You skipped this one and have seen the figure, so a prediction can no longer be kept.")
            return False
        try:
            self.answer = self._read(raw)
        except ValueError as error:
            self._say(str(error))
            return False
        self._reveal("Kept.", self._store(skipped=False))
        return True

    def skip(self) -> None:
        """Open the fold without a prediction (or again, with the one that is kept)."""
        kept = self._store(skipped=True) if self.skipped and not self.open else ""
        self._reveal("Skipped." if self.skipped else "", kept)

    def _read(self, raw: str) -> float | str:
        raw = str(raw or "").strip()
        if self.options:
            for _, text in self.options:
                if raw == text:
                    return text
            raise ValueError("Choose one of the answers first.")
        return parse_number(raw, self.unit, self.low, self.high)

    def _store(self, *, skipped: bool) -> str:
        """Keep the answer in the reader's results; "", or what they have to say about the file (moved, not writable)."""
        from utils.model import results

        results.predict(self.id, self.answer, unit=self.unit or None, skipped=skipped)
        return widgets.about_results()

    def _recall(self) -> None:
        """Take over the first answer kept in an earlier session, if it still fits the question."""
        from utils.model import results

        texts = [text for _, text in self.options]
        for kept in results.predictions(self.id):
            answer = kept["answer"]
            fits = answer in texts if texts else isinstance(answer, (int, float)) and not isinstance(answer, bool)
            if not kept["skipped"] and fits and (kept.get("unit") or "") == self.unit:
                self.answer = answer if texts else float(answer)
                self.note = f"{self.said} (kept on {kept['date'][:10]})"
                return

    # -------------------------------------------------------------------- showing

    def attach(self, fold: Fold) -> None:
        """Let the widget show `fold` when it opens; a fold of the same title (its cell ran again) takes its place."""
        self._folds[fold.title] = fold
        if self._panel is not None:
            self._panel.refresh()

    def _say(self, note: str) -> None:
        self.note = note
        if self._panel is not None:
            self._panel.refresh()

    def _reveal(self, how: str, trouble: str) -> None:
        self.open = True
        where = "" if self._folds else "Run on: what was measured opens in its own cell below."
        self._say(" ".join(part for part in (how, self.said, trouble, where) if part))

    def open_copy(self) -> str:
        """The attached folds as open HTML, or "" while they must stay closed."""
        return "".join(fold.html(open=True) for fold in self._folds.values()) if self.open else ""

    def feedback(self, right: str | None) -> str:
        """What to tell a reader who chose an option: it is `right` (an option's id or text), or the misconception behind it."""
        if self.choice is None or right is None:
            return ""
        right_text = next((text for i, text in self.options if right in (i, text)), None)
        if right_text is None:
            raise ValueError(f"{right!r} is none of the options of prediction {self.id!r}")
        if self.answer == right_text:
            return "That is what was measured here."
        chosen = next(i for i, text in self.options if text == self.answer)
        row = catalogue.misconception(chosen) if chosen else None
        belief = f"The idea behind that answer has a name, “{row['name']}”: {row['truth']}" if row else ""
        return f"What was measured here: {right_text}. {belief}".rstrip()

    def text(self) -> str:
        choices = "".join(f"\n  ( ) {text}" for _, text in self.options)
        return f"{self.question}{choices}\n{self.note or 'Run this cell in a notebook to answer.'}"

    def __repr__(self) -> str:
        return self.text()

    def _fallback(self) -> str:
        choices = "".join(f"<li>{widgets.prose(text)}</li>" for _, text in self.options)
        return (
            f"<p><b>{widgets.prose(self.question)}</b></p>{f'<ul>{choices}</ul>' if choices else ''}"
            "<p><em>Answer by running this cell; what was measured stays folded below until then.</em></p>"
        )

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        if self._panel is None:
            self._panel = _Panel(self)
        return widgets.bundle(self._panel.widget, self._fallback(), f"{self.question} (answer by running this cell)")


# ------------------------------------------------------------------------------------------------ the fold


class Fold:
    """Tables, figures and sentences in a closed `<details>`; they are rendered each time it is shown."""

    def __init__(self, parts: Sequence, guesses: Sequence[Guess], title: str, right: str | None):
        if not parts:
            raise ValueError("there is nothing in this fold")
        self.parts, self.guesses, self.title, self.right = list(parts), list(guesses), title, right

    @property
    def open(self) -> bool:
        """True when every prediction it waits for was answered or skipped in this session."""
        return bool(self.guesses) and all(guess.open for guess in self.guesses)

    def _lead(self) -> str:
        """What the reader said, and for a choice what that means; left out where a sentence of the fold says it already."""
        words = []
        for guess in self.guesses:
            taken = any(isinstance(part, Sentence) and part.guess is guess for part in self.parts)
            words += ["" if taken else guess.said, guess.feedback(self.right) if guess.options else ""]
        return " ".join(word for word in words if word)

    def html(self, *, open: bool) -> str:
        lead = self._lead()
        body = (f"<p>{widgets.prose(lead)}</p>" if lead else "") + "".join(widgets.as_html(part) for part in self.parts)
        hint = HINT if self.guesses and not open else ""
        return f"<details{' open' if open else ''}><summary>{widgets.prose(self.title + hint)}</summary>{body}</details>"

    def text(self) -> str:
        """Everything in the fold as text: for a terminal, and for whoever asks with `print(fold.text())`."""
        return "\n\n".join(part for part in (self._lead(), *(widgets.as_text(p) for p in self.parts)) if part)

    def __repr__(self) -> str:
        return f"[{self.title}] (folded: print(….text()) shows it)"

    def _repr_html_(self) -> str:
        return self.html(open=self.open)

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}


def fold(*parts, right: str | None = None, title: str = "What was measured") -> Fold:
    """A closed fold of `parts`: tables, figures, sentences, strings, in the order given; None is left out.

    The Guesses among the parts are the predictions it waits for: when they are answered or skipped, the widget shows an open
    copy. `right` names the option (id or text) that the run showed to be right. Must be the last expression of its cell.
    """
    flat = [p for part in parts for p in (part if isinstance(part, (list, tuple)) else [part]) if p is not None]
    guesses = [p for p in flat if isinstance(p, Guess)]
    made = Fold([p for p in flat if not isinstance(p, Guess)], guesses, title, right)
    for guess in guesses:
        guess.attach(made)
    return made


def review(
    rows: Sequence[tuple[Guess, str, str]], title: str = "Predicted, measured, why (opens your answers to this lesson)"
) -> Fold:
    """The end of a lesson: for each prediction what was asked, what the reader said, what was measured, and why; folded."""

    return Fold([_Review(tuple(rows))], [], title, None)


class _Review:
    """The table of `review`, made each time it is shown: an answer may come after its cell ran."""

    def __init__(self, rows: tuple):
        self.rows = rows

    def table(self) -> Table:
        return Table(
            [
                {
                    "asked": guess.question,
                    "predicted": guess.answer_text or "skipped",
                    "measured": measured.measured() if isinstance(measured, Sentence) else measured,
                    "why": why,
                }
                for guess, measured, why in self.rows
            ],
            caption="Predicted, measured, why",
        )

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    def text(self) -> str:
        return self.table().text()


# ------------------------------------------------------------------------------------------------ the widget


class _Panel:
    """The widget of one Guess: question, field or options, Answer and Skip, a line that says what happened, the open copy."""

    def __init__(self, guess: Guess):
        import ipywidgets as w

        self.guess = guess
        question = w.HTML(f"<p><b>{widgets.prose(guess.question)}</b></p>")
        if guess.options:
            self.field = OneOf([text for _, text in guess.options])
        else:
            self.field = widgets.number_field(guess.unit, lambda: guess.give(self.field.value))
        self.answer = w.Button(description="Answer", button_style="primary", tooltip="Keep this as your prediction")
        self.skip = w.Button(description="Skip", tooltip="Open the figure without a prediction")
        self.note = w.HTML()
        self.copy = w.HTML()
        self.answer.on_click(lambda _: guess.give(self.field.value))
        self.skip.on_click(lambda _: guess.skip())
        buttons = w.HBox([self.answer, self.skip])
        asked = self.field.widget if guess.options else self.field
        self.widget = w.VBox([question, asked, buttons, self.note, self.copy])
        self.refresh()

    def refresh(self) -> None:
        guess = self.guess
        self.note.value = f'<p role="status">{widgets.prose(guess.note)}</p>' if guess.note else ""
        if not guess.skipped and not guess.open:
            self.skip.description = "Open the figure"
        self.copy.value = guess.open_copy()
