"""One of several texts, chosen by keyboard in every notebook: a box for each, of which at most one is ticked.

Radio buttons and lists are moved by the arrow keys, and those belong to the notebook in JupyterLab: they lead to another cell. A
box is reached by the Tab key and ticked by Space.
"""

from __future__ import annotations

from collections.abc import Sequence


class OneOf:
    """`value` is the text that is ticked, or None; `widget` is what to show, `boxes` the boxes in the order of the texts."""

    def __init__(self, options: Sequence[str], value: str | None = None):
        import ipywidgets as w

        self.options = list(options)
        auto = w.Layout(width="auto")
        self.boxes = [w.Checkbox(value=o == value, description=o, indent=False, layout=auto) for o in self.options]
        self.widget = w.VBox(self.boxes)
        for box in self.boxes:
            box.observe(self._only, "value")

    @property
    def value(self) -> str | None:
        return next((option for option, box in zip(self.options, self.boxes, strict=True) if box.value), None)

    @value.setter
    def value(self, wanted: str | None) -> None:
        """Tick this text, or none of them. Raises ValueError for a text that is not there."""
        if wanted is not None and wanted not in self.options:
            raise ValueError(f"{wanted!r} is none of {', '.join(self.options)}")
        for option, box in zip(self.options, self.boxes, strict=True):
            box.value = option == wanted

    def _only(self, change) -> None:
        """A box that is ticked takes the tick from all others."""
        if change["new"]:
            for box in self.boxes:
                if box is not change["owner"]:
                    box.value = False
