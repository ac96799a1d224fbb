"""One of several texts, chosen by keyboard in every notebook: a box for each, of which at most one is ticked.

Radio buttons and lists are moved by the arrow keys, and those belong to the notebook in JupyterLab: they lead to another cell. A
box is reached by the Tab key and ticked by Space.
"""

from __future__ import annotations

from collections.abc import Sequence

WRAPS = "one-add-wraps"
# A box's text is one line that ends in dots, unless the page is told otherwise.
STYLE = (
    f"<style>.{WRAPS},.{WRAPS} label{{height:auto!important;overflow:visible!important}}"
    f".{WRAPS} label,.{WRAPS} label *{{white-space:normal!important;line-height:1.4;text-overflow:clip}}</style>"
)


def box(text: str, ticked: bool = False):
    """A box to tick with a text that wraps, where STYLE stands on the page."""
    import ipywidgets as w

    made = w.Checkbox(value=ticked, description=text, indent=False, layout=w.Layout(width="auto", height="auto"))
    made.add_class(WRAPS)
    return made


class OneOf:
    """`value` is the text that is ticked, or None; `widget` is what to show, `boxes` the boxes in the order of the texts."""

    def __init__(self, options: Sequence[str], value: str | None = None):
        import ipywidgets as w

        self.options = list(options)
        self.boxes = [box(option, option == value) for option in self.options]
        self.widget = w.VBox([w.HTML(STYLE), *self.boxes])
        for one in self.boxes:
            one.observe(self._only, "value")

    @property
    def value(self) -> str | None:
        return next((option for option, one in zip(self.options, self.boxes, strict=True) if one.value), None)

    @value.setter
    def value(self, wanted: str | None) -> None:
        """Tick this text, or none of them. Raises ValueError for a text that is not there."""
        if wanted is not None and wanted not in self.options:
            raise ValueError(f"{wanted!r} is none of {', '.join(self.options)}")
        for option, one in zip(self.options, self.boxes, strict=True):
            one.value = option == wanted

    def _only(self, change) -> None:
        """A box that is ticked takes the tick from all others."""
        if change["new"]:
            for one in self.boxes:
                if one is not change["owner"]:
                    one.value = False
