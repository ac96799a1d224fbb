"""What every widget of the course shares: how it is shown where there is a kernel, and what stands there where there is none."""

from __future__ import annotations

import sys

VIEW = "application/vnd.jupyter.widget-view+json"


def bundle(widget, fallback_html: str, text: str) -> dict:
    """The mime bundle of a widget with a fallback that stays when the view is stripped or the notebook is not trusted.

    Works on ipywidgets 7 and 8, which name their own method differently. Colab keeps only the view: its output area is not
    known to prefer the view over HTML.
    """
    out = {"text/plain": text, VIEW: {"version_major": 2, "version_minor": 0, "model_id": widget.model_id}}
    if "google.colab" not in sys.modules:
        out["text/html"] = fallback_html
    return out
