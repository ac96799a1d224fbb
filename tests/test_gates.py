"""Every lesson on the machines readers have: no compiler, one core, offline, a read-only home, Colab, the `.ipynb` alone.

All gates are closed together in one run of the lesson, Colab's older widgets too; only when that fails is each tried alone, to
name the one. At the end of each run every control is fired at invalid, low, middle and high values. The newer widgets are moved
in a real browser (tests/test_browser.py), and a machine that has everything runs every lesson under nbval.
"""

from __future__ import annotations

import os
import sys
from functools import partial

import pytest

from tests.conftest import REPO, require
from tests.notebook_factory import small_lesson
from tools import colab_stack, gates

LESSONS = sorted((REPO / "notebooks").glob("*.ipynb"))
needs_namespaces = pytest.mark.skipif(not gates.can_unshare(), reason="no network and mount namespaces here (unshare)")


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_lesson_passes(path):
    require("git")
    outcome = gates.run(path, gates.GATES)
    if not outcome.ok:
        out_of_range = "ExpectationError" in (outcome.error or "")  # a number, which no gate alone explains
        pytest.fail(f"{outcome.why}\n\n{'' if out_of_range else gates.diagnose(path, gates.GATES)}", pytrace=False)
    assert outcome.compared == gates.committed(path), "a check says something else on this machine"
    assert outcome.fired > 0, "no control was fired: a lesson has at least its predictions"


@pytest.fixture
def small(tmp_path):
    """A function that writes the small lesson with `source` in one cell and returns its path."""
    return partial(small_lesson, tmp_path)


NEEDS = {
    "no compiler": "import os\nassert 'ONE_ADD_NO_COMPILER' not in os.environ, 'needs a compiler'",
    "read-only home": "from pathlib import Path\n(Path.home() / 'notes').write_text('x')",
    "offline": "import socket\nsocket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(('127.0.0.1', 9))",
}


@needs_namespaces
@pytest.mark.parametrize("gate", NEEDS)
def test_a_lesson_that_needs_more_is_stopped_by_its_gate(small, gate):
    require("git")
    outcome = gates.run(small(NEEDS[gate]), (gate,))
    assert outcome.not_in_force == []
    assert not outcome.ok and outcome.cell == "measure", outcome.why


def test_a_control_that_raises_is_seen(small):
    source = "import ipywidgets\nbutton = ipywidgets.Button(description='go')\nbutton.on_click(lambda _: 1 / 0)"
    outcome = gates.run(small(source), gates.COLAB)
    assert not outcome.ok and "Button 'go'" in outcome.error and "ZeroDivisionError" in outcome.error


def test_without_namespaces_the_kernel_itself_refuses(small, monkeypatch):
    """Where `unshare` is not allowed: the same two gates by other means, and still checked from inside."""
    monkeypatch.setattr(gates, "can_unshare", lambda: ())
    outcome = gates.run(small("print('sound')"), ("offline", "read-only home"))
    assert outcome.ok, outcome.why
    assert outcome.compared == {"judge": "✔ half.is_half: holds\n"}


def test_an_open_gate_is_no_pass(small, monkeypatch):
    """A gate whose wall is missing must be reported, not passed."""
    monkeypatch.setattr(gates, "_walls", lambda closed, home: ([], str(home)))
    outcome = gates.run(small("print('sound')"), ("read-only home",))
    assert outcome.not_in_force == ["read-only home"] and not outcome.ok


def test_diagnosis_names_the_gate(tmp_path):
    def run(path, closed):
        return gates.Outcome(closed, error="no room" if "one core" in closed else None, cell="measure")

    told = gates.diagnose(tmp_path / "x.ipynb", gates.BARE, run)
    assert "'one core'" in told and "no room" in told and "'offline'" not in told
    assert "not together" in gates.diagnose(tmp_path / "x.ipynb", gates.COLAB, run)


def test_an_unknown_gate_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no such gate"):
        gates.run(tmp_path / "x.ipynb", ("no gravity",))


def test_colabs_stack_is_what_the_data_file_says():
    pins = dict(pin.split("==") for pin in colab_stack.PINS)
    wanted = gates._colab()["packages"]
    assert pins["ipywidgets"].startswith(wanted["ipywidgets"])
    assert pins["ipython"].startswith(wanted["ipython"])
    assert pins["ipykernel"].startswith(wanted["ipykernel"])


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason=f"{sys.platform} cannot pin a process to one core")
def test_one_core_is_one_core(small):
    source = "import os\nassert len(os.sched_getaffinity(0)) == 1"
    assert gates.run(small(source), ("one core",)).ok
