"""What every widget of the course shares: how it is shown where there is a kernel, and what stands there where there is none."""

from __future__ import annotations

import asyncio
import html
import re
import sys
import warnings
from collections.abc import Callable

SETTLE_S = 0.3
VIEW = "application/vnd.jupyter.widget-view+json"


def bundle(widget, fallback_html: str, text: str) -> dict:
    """The mime bundle of a widget with a fallback that stays when the view is stripped or the notebook is not trusted.

    Works on ipywidgets 7 and 8, which name their own method differently. Colab gets the view alone: which of view and HTML
    its output area prefers is not documented.
    """
    out = {"text/plain": text, VIEW: {"version_major": 2, "version_minor": 0, "model_id": widget.model_id}}
    if "google.colab" not in sys.modules:
        out["text/html"] = fallback_html
    return out


def number_field(unit: str, on_enter: Callable[[], None]):
    """A text field for a number in `unit`; Enter calls `on_enter`. Text, because a number field would swallow what is wrong.

    The page sends "Enter was pressed" before the text that was entered (and, were it sent letter by letter, while the last
    letters still wait for the first to be answered). So Enter waits for the text, or for SETTLE_S when nothing was changed.
    """
    import ipywidgets as w

    field = w.Text(description=f"In {unit}:" if unit else "Answer:", placeholder="your answer", continuous_update=False)
    timers: list[asyncio.TimerHandle] = []

    def act() -> None:
        while timers:
            timers.pop().cancel()
        on_enter()

    def entered(_) -> None:
        try:
            timers.append(asyncio.get_running_loop().call_later(SETTLE_S, act))
        except RuntimeError:  # no kernel, no page: nothing is on its way
            act()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of ipywidgets 8; the one call that 7 has as well
        field.on_submit(entered)
    field.observe(lambda change: act() if timers else None, "value")
    return field


def prose(text: str) -> str:
    """Text as HTML: escaped, and what stands between backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))


def as_html(part) -> str:
    """A part of a fold or panel as HTML: text becomes a paragraph, everything else shows itself."""
    return f"<p>{prose(part)}</p>" if isinstance(part, str) else part._repr_html_()


def as_text(part) -> str:
    """The same part as text."""
    return part if isinstance(part, str) else part.text()


def about_results() -> str:
    """What the reader must be told about the file of their results (moved, not writable), as sentences, or ""."""
    from utils.model import results

    return " ".join(f"{note[0].upper()}{note[1:]}." for note in results.notes())
