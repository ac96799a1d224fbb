"""Panels of sliders that redraw one figure: at once, or, where a move measures again, when the slider is let go.

    panel(draw, n=slider(1, 100, 20, label="ops in between"), device=choice(["cpu", "simulated"]))

`draw(**values)` returns what to show: a Picture, a Table, a sentence, or a list of them. There is one place for the figure
and each move replaces what is in it, so however often a slider moves, one figure is there. An error in `draw`
is shown as a message and the last figure stays.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from utils.show import widgets
from utils.show.numbers import format_number


@dataclass(frozen=True)
class slider:
    """A number between `low` and `high` in steps of `step` (whole numbers when all of them are), starting at `start`."""

    low: float
    high: float
    start: float
    step: float = 1
    label: str = ""
    unit: str = ""

    def __post_init__(self):
        if not self.low <= self.start <= self.high or self.step <= 0 or self.low == self.high:
            raise ValueError(
                f"a slider from {self.low} to {self.high} cannot start at {self.start} and go in steps of {self.step}"
            )

    @property
    def whole(self) -> bool:
        return all(float(v).is_integer() for v in (self.low, self.high, self.start, self.step))

    def check(self, value):
        """`value` as this slider's number. Raises ValueError, in words for the reader, when it is none or out of range."""
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not self.low <= value <= self.high:
            raise ValueError(f"{value!r} is not a number from {format_number(self.low)} to {format_number(self.high)}")
        return round(value) if self.whole else float(value)

    def widget(self, name: str, on_release: bool):
        import ipywidgets as w

        kind = w.IntSlider if self.whole else w.FloatSlider
        number = int if self.whole else float
        words = (self.label or name) + (f" ({self.unit})" if self.unit else "")
        return kind(
            value=number(self.start), min=number(self.low), max=number(self.high), step=number(self.step), description=words,
            continuous_update=not on_release, style={"description_width": "initial"}, layout=w.Layout(width="32em"),
        )  # fmt: skip


@dataclass(frozen=True)
class choice:
    """One of `options` (texts); the first one to start with, unless `start` names another."""

    options: Sequence[str]
    start: str | None = None
    label: str = ""

    def __post_init__(self):
        if not self.options or (self.start is not None and self.start not in self.options):
            raise ValueError(f"{self.start!r} is not among the options {list(self.options)}")

    def check(self, value):
        if value not in self.options:
            raise ValueError(f"{value!r} is none of {', '.join(self.options)}")
        return value

    def widget(self, name: str, on_release: bool):
        import ipywidgets as w

        return w.Dropdown(options=list(self.options), value=self.start or self.options[0], description=self.label or name,
                          style={"description_width": "initial"})  # fmt: skip


@dataclass(frozen=True)
class switch:
    """On or off."""

    start: bool = False
    label: str = ""

    def check(self, value):
        if not isinstance(value, bool):
            raise ValueError(f"{value!r} is neither True nor False")
        return value

    def widget(self, name: str, on_release: bool):
        import ipywidgets as w

        wide = w.Layout(width="auto")  # a long label is cut otherwise
        return w.Checkbox(value=self.start, description=self.label or name, indent=False, layout=wide)


def panel(draw: Callable, *, measures: bool = False, title: str = "", **controls) -> Panel:
    """Controls by name, and one figure below them. `measures=True` for a `draw` that measures: it runs on release only."""
    if not controls:
        raise ValueError("a panel needs at least one control")
    return Panel(draw, controls, measures, title)


class Panel:
    """A panel of controls. `values` is where they stand, `shown` what `draw` returned last, `message` what went wrong, or "".

    `fire(name, value)` does what a reader's move does, for tests: it needs no page and no kernel.
    """

    def __init__(self, draw: Callable, controls: dict, measures: bool, title: str):
        self.draw, self.controls, self.measures, self.title = draw, controls, measures, title
        self.values = {name: getattr(c, "start", None) for name, c in controls.items()}
        for name, control in controls.items():
            if isinstance(control, choice):
                self.values[name] = control.start or control.options[0]
        self.shown = None
        self.message = ""
        self.draws = 0
        self._widgets: dict = {}
        self._redraw()

    def fire(self, name: str, value):
        """Move the control `name` to `value` and return what is shown then. An impossible value only sets `message`."""
        control = self.controls[name]
        try:
            value = control.check(value)
        except ValueError as error:
            self._tell(f"{name}: {error}.")
            return self.shown
        widget = self._widgets.get(name)
        if widget is not None and widget.value != value:
            widget.value = value  # its observer moves and redraws, as a reader's move does
        else:
            self._move(name, value)
        return self.shown

    def _move(self, name: str, value) -> None:
        self.values[name] = value
        self._redraw()

    def _redraw(self) -> None:
        self.draws += 1
        try:
            self.shown = self.draw(**self.values)
        except Exception as error:  # whatever goes wrong must reach the reader: a widget's callback has nowhere else to say it
            self._tell(f"This could not be drawn: {error or type(error).__name__}")
            return
        self._tell("")
        if self._widgets:
            self._place.value = _html(self.shown)

    def _tell(self, message: str) -> None:
        self.message = message
        if self._widgets:
            self._said.value = f'<p role="alert">{html.escape(message)}</p>' if message else ""

    def _build(self) -> None:
        import ipywidgets as w

        self._place, self._said = w.HTML(), w.HTML()
        self._widgets = {name: control.widget(name, self.measures) for name, control in self.controls.items()}
        for name, widget in self._widgets.items():
            widget.observe(lambda change, name=name: self._move(name, change["new"]), "value")
        heading = [w.HTML(f"<p><b>{html.escape(self.title)}</b></p>")] if self.title else []
        self._box = w.VBox([*heading, *self._widgets.values(), self._said, self._place])
        for name, widget in self._widgets.items():
            widget.value = self.values[name]
        self._place.value = _html(self.shown)
        self._tell(self.message)

    def text(self) -> str:
        stand = ", ".join(f"{name} = {value}" for name, value in self.values.items())
        return "\n".join(part for part in (self.title, stand, self.message, _text(self.shown)) if part)

    def __repr__(self) -> str:
        return self.text()

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        if not self._widgets:
            self._build()
        title = f"<p><b>{html.escape(self.title)}</b></p>" if self.title else ""
        stand = ", ".join(f"{name} = {value}" for name, value in self.values.items())
        still = f"<p><em>Run this cell to move the controls ({html.escape(stand)}).</em></p>"
        return widgets.bundle(self._box, title + still + _html(self.shown), self.text())


def _parts(shown) -> list:
    return list(shown) if isinstance(shown, (list, tuple)) else [] if shown is None else [shown]


def _html(shown) -> str:
    return "".join(widgets.as_html(part) for part in _parts(shown))


def _text(shown) -> str:
    return "\n\n".join(widgets.as_text(part) for part in _parts(shown))
