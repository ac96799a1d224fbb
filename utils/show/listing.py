"""A piece of code as a lesson shows it: whose it is, and its text, in HTML and in a terminal."""

from __future__ import annotations

import html


class Listing:
    """`text` under its `title`. Raises ValueError for an empty one: a kernel that is not there is said in words."""

    def __init__(self, title: str, text: str):
        if not text.strip():
            raise ValueError(f"{title!r} has no text")
        self.title, self.code = title, text.strip("\n")

    def text(self) -> str:
        return f"{self.title}\n\n{self.code}"

    __str__ = text

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        style = "overflow-x:auto;font-size:0.85em;line-height:1.35"
        return f'<p><b>{html.escape(self.title)}</b></p><pre style="{style}" tabindex="0">{html.escape(self.code)}</pre>'
