"""The progress bar: tqdm in a terminal, a line that is emptied in a notebook, silence elsewhere."""

from __future__ import annotations

import io
import sys

import nbformat
import pytest

from tools import canonical
from tools.execute import execute
from utils.show import progress


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_in_a_terminal_the_bar_goes_to_stderr_and_leaves_no_line(monkeypatch, capsys):
    screen = Tty()
    monkeypatch.setattr(sys, "stderr", screen)
    with progress.bar("Pricing") as report:
        report(0.25, "allocator")
        report(0.5, "kernel")
    shown = screen.getvalue()
    assert "Pricing:  25%" in shown and "allocator" in shown and "kernel" in shown
    assert shown.endswith("\r") and "\n" not in shown
    assert capsys.readouterr().out == ""


def test_calls_out_of_range_and_after_the_end_do_no_harm(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Tty())
    report = progress.bar("Pricing")
    report(-1, "early")
    report(7.0, "late")
    before = sys.stderr.getvalue()
    report(0.5, "after the end")
    report.close()
    assert sys.stderr.getvalue() == before and "100%" in before


@pytest.mark.parametrize("quiet", ["a pipe", "ONE_ADD_PROGRESS=0"])
def test_nothing_is_written_into_a_pipe_or_when_asked_for_silence(quiet, monkeypatch):
    screen = io.StringIO() if quiet == "a pipe" else Tty()
    monkeypatch.setattr(sys, "stderr", screen)
    if quiet != "a pipe":
        monkeypatch.setenv("ONE_ADD_PROGRESS", "0")
    with progress.bar("Pricing") as report:
        report(0.5, "half")
    assert screen.getvalue() == ""


def test_in_a_notebook_it_shows_and_leaves_nothing_behind(tmp_path):
    source = """
from utils.show.progress import bar
import time
seen = []
import IPython.display as d
real = d.display
def spy(thing, **kw):
    seen.append(thing.data)
    return real(thing, **kw)
d.display = spy
with bar("Pricing <stages>") as report:
    time.sleep(0.25)
    report(0.5, "kernel")
    time.sleep(0.25)
    report(0.9, "rest")
d.display = real
print(seen)
"""
    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    nb.metadata.kernelspec = canonical.KERNELSPEC
    env = dict(__import__("os").environ, PYTHONPATH=str(canonical.__file__).rsplit("/tools/", 1)[0])
    out = execute(nb, tmp_path, env=env).cells[0].outputs
    shown = "".join(o.text for o in out if o.output_type == "stream")
    assert "<progress" in shown and "Pricing &lt;stages&gt;: 50 % kernel" in shown
    left = canonical.canonical(nb).cells[0].outputs
    assert [o.output_type for o in left] == ["stream"]
    assert not any("widget" in mime for o in out for mime in o.get("data", {}))
