"""Free recall: say or write what you know, then see the key points and tick those you had, then two follow-ups.

The key points stay in Python until the reader asks for them. What was written stays in the page and is not kept; what is kept
is how many points were ticked. The answer counts as right from two thirds of the points on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from utils.model import bank
from utils.show import quiz, widgets
from utils.show.one_of import STYLE, box

ENOUGH = 2 / 3


class FreeItem(quiz.Item):
    """A question of kind free. `answer(ticked)` takes one bool a key point and returns the feedback as text."""

    @property
    def points(self) -> tuple[str, ...]:
        return tuple(self._question["points"])

    @property
    def seconds(self) -> int:
        return bank.seconds(self._question)

    @property
    def _question(self) -> dict:
        return quiz._questions()[self.id]

    def answer(self, ticked: Sequence[bool]) -> str:
        points = self.points
        if len(ticked) != len(points):
            raise ValueError(f"There are {len(points)} key points to tick or to leave.")
        had = sum(map(bool, ticked))
        self.right = had >= ENOUGH * len(points)
        missing = [point for point, one in zip(points, ticked, strict=True) if not one]
        self.extra = {**self.extra, "points": had, "of": len(points)}
        kept = self._keep(f"{had} of {len(points)} points", self.right)
        verdict = "✔" if self.right else "✘"
        left = f" Missing: {'; '.join(missing)}." if missing else ""
        return f"{verdict} {had} of {len(points)} key points.{left} {kept}".rstrip()

    def text(self) -> str:
        return f"{self.prompt}\n  (aloud or in writing, {self.seconds} s; then tick the key points)"

    def html(self) -> str:
        how = f"Aloud or in writing, {self.seconds} s; then tick the key points."
        return f"<p><b>{widgets.prose(self.prompt)}</b></p><p>{how}</p>"


class FreeForm:
    """The widgets of one free item: prompt, a place to write, Show the key points; then a box to tick for each, and Done."""

    def __init__(self, item: FreeItem):
        import ipywidgets as w

        self.item = item
        self.giving: list[Callable[[FreeForm], None]] = []
        self.after: list[Callable[[FreeForm], None]] = []
        self.boxes: list = []
        wide = w.Layout(width="95%", height="7em")
        self.field = w.Textarea(placeholder="aloud, or in writing here (it is not kept)", continuous_update=False, layout=wide)
        auto = w.Layout(width="14em")
        self.button = w.Button(description="Show the key points", tooltip="Say or write your answer first", layout=auto)
        self.done = w.Button(description="Done", tooltip="Keep what you ticked")
        self.place, self.feedback, self.proof = w.VBox(), w.HTML(), w.Output()
        self.button.on_click(lambda _: self.reveal())
        self.done.on_click(lambda _: self.check())
        prompt = w.HTML(item.html())
        self.widget = w.VBox([prompt, self.field, self.button, self.place, self.feedback, self.proof])

    def reveal(self) -> None:
        """Show the key points, once, each as a box to tick."""
        import ipywidgets as w

        if self.boxes:
            return
        for call in self.giving:
            call(self)
        self.boxes = [box(point) for point in self.item.points]
        said = w.HTML(f'{STYLE}<p role="status">Tick what you said, in whatever words:</p>')
        self.place.children = (said, *self.boxes, self.done)

    def check(self) -> None:
        words = self.item.answer([one.value for one in self.boxes])
        follow = "".join(
            f"<details><summary>{widgets.prose(one['ask'])}</summary><p>{widgets.prose(one['answer'])}</p></details>"
            for one in self.item._question["follow_ups"]
        )
        then = "<p>Two follow-ups: say your answer, then open.</p>"
        self.feedback.value = f'<p role="status">{widgets.prose(words)}</p>{then}{follow}'
        self.proof.outputs = (quiz.proof_output(self.item.proof),)
        for call in self.after:
            call(self)
