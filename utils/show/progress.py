"""One progress bar for long measurements: tqdm on stderr in a terminal, a line of HTML in a notebook that goes away.

    with bar("Pricing the stages") as progress:
        receipt = price_stages(progress=progress)

In a notebook no widget is used, and when the bar closes its output is emptied; the canonical form of a committed notebook
drops empty outputs. `ONE_ADD_PROGRESS=0` shows no bar at all.
"""

from __future__ import annotations

import html
import os
import sys
import time


class Bar:
    """Callable as `bar(done, text)` with done in 0..1; closes itself at 1, or with `close()`, or at the end of a `with`."""

    def __init__(self, title: str):
        self.title = title
        self._closed = False
        self._open()

    def __call__(self, done: float, text: str = "") -> None:
        if self._closed:
            return
        done = min(1.0, max(0.0, done))
        self._show(done, text)
        if done >= 1.0:
            self.close()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._clear()

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *error) -> None:
        self.close()

    def _open(self) -> None:
        """Silent by default: nothing to open, show or clear."""

    def _show(self, done: float, text: str) -> None: ...

    def _clear(self) -> None: ...


class _Terminal(Bar):
    def _open(self) -> None:
        from tqdm import tqdm

        self._tqdm = tqdm(
            total=100, desc=self.title, file=sys.stderr, leave=False, bar_format="{desc}: {percentage:3.0f}% |{bar}| {postfix}"
        )

    def _show(self, done: float, text: str) -> None:
        self._tqdm.set_postfix_str(text, refresh=False)
        self._tqdm.n = round(100 * done)
        self._tqdm.refresh()

    def _clear(self) -> None:
        self._tqdm.close()


class _Notebook(Bar):
    EVERY_S = 0.2

    def _open(self) -> None:
        self._handle = None
        self._last = time.monotonic()

    def _show(self, done: float, text: str) -> None:
        from IPython.display import HTML, display

        now = time.monotonic()
        if now - self._last < self.EVERY_S:
            return
        self._last = now
        label = html.escape(f"{self.title}: {round(100 * done)} % {text}".rstrip())
        line = HTML(f'<progress value="{round(100 * done)}" max="100"></progress> <small>{label}</small>')
        if self._handle is None:
            self._handle = display(line, display_id=True)
        else:
            self._handle.update(line)

    def _clear(self) -> None:
        if self._handle is not None:
            self._handle.update({"text/plain": "", "text/html": ""}, raw=True)


def in_notebook() -> bool:
    """True inside a Jupyter kernel (a front end that shows HTML), false in a terminal, IPython's own included."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell is not None and getattr(shell, "kernel", None) is not None


def bar(title: str) -> Bar:
    """A progress bar for `title`, fit for where this runs. Costs nothing until it is called."""
    if os.environ.get("ONE_ADD_PROGRESS") == "0":
        return Bar(title)
    if in_notebook():
        return _Notebook(title)
    return _Terminal(title) if sys.stderr.isatty() else Bar(title)
