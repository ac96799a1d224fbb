"""A picture with its alt text and its table twin, as light inline HTML: what every function of `figures` returns."""

from __future__ import annotations

import base64
import html
import io
import re
from collections.abc import Callable

from utils.show import theme
from utils.show.tables import Table

WIDTH = 760  # CSS pixels: fits a notebook's output column and GitHub's README column


class Picture:
    """An SVG drawing with alt text and a table that says the same.

    `draw` makes the SVG text (or is it); `changes` tells when it must be made again (an answer was given). `alt` and `table`
    must not be empty: ValueError. The drawing is shown as an `<img>` on its own light card, so that it is legible on a dark
    page, survives sanitised (untrusted) notebooks and runs no script.
    """

    def __init__(
        self,
        draw: str | Callable[[], str],
        alt: str,
        table: Table,
        caption: str = "",
        width: int = WIDTH,
        changes: Callable[[], object] | None = None,
    ):
        if not alt.strip():
            raise ValueError("a figure needs alt text")
        if not isinstance(table, Table):
            raise ValueError("a figure needs its table twin")
        self._draw = draw
        self._changes = changes or (lambda: None)
        self._drawn: tuple[object, str] | None = None
        self.alt = " ".join(alt.split())
        self.table = table
        self.caption = caption
        self.width = width

    @property
    def svg(self) -> str:
        """The drawing as SVG text: drawn when first asked for, and again when what `changes` returns has changed."""
        if not callable(self._draw):
            return self._draw
        state = self._changes()
        if self._drawn is None or self._drawn[0] != state:
            self._drawn = (state, self._draw())
        return self._drawn[1]

    def img(self) -> str:
        data = base64.b64encode(self.svg.encode()).decode()
        return (
            f'<img src="data:image/svg+xml;base64,{data}" alt="{html.escape(self.alt, quote=True)}" width="{self.width}" '
            f'style="max-width:100%;height:auto;background-color:{theme.CARD};border-radius:6px">'
        )

    def _repr_html_(self, twin: bool = True) -> str:
        """The figure, its caption and, unless `twin` is False, the table twin in a fold of its own."""
        caption = f"<figcaption><small>{html.escape(self.caption)}</small></figcaption>" if self.caption else ""
        table = f"<details><summary>The figure as a table</summary>{self.table._repr_html_()}</details>" if twin else ""
        return f'<figure style="margin:0.4em 0">{self.img()}{caption}</figure>{table}'

    def text(self) -> str:
        return f"{self.alt}\n\n{self.table.text()}"

    __str__ = text

    def __repr__(self) -> str:
        return self.text()

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        return {"text/plain": self.text(), "text/html": self._repr_html_()}


def to_svg(figure) -> str:
    """A matplotlib figure as compact SVG text: no XML prologue, no metadata, the same bytes for the same figure."""
    import matplotlib

    buffer = io.StringIO()
    with matplotlib.rc_context(theme.RC):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.S)
    text = re.sub(r"\s*<!--.*?-->", "", text, flags=re.S)
    text = re.sub(r"font: ([^;\"]*?)'DejaVu Sans'", rf"font: \1{theme.FONTS}", text)
    return re.sub(r">\s+<", "><", text).strip()
