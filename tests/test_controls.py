"""Panels: however often a control moves, one figure is there, and a wrong value or a failing drawing is told, not lost."""

from __future__ import annotations

import random

import pytest

from utils.show import figures
from utils.show.controls import choice, panel, slider, switch
from utils.show.tables import Table
from utils.show.widgets import VIEW

RNG = random.Random(23)


def draw(n, device="cpu", log=False):
    return figures.bar({f"{device} {log}": float(n), "fixed": 50.0}, title=f"n = {n}", unit="things")


def make(**changes):
    controls = {"n": slider(1, 100, 10, label="ops"), "device": choice(["cpu", "simulated"]), "log": switch()}
    return panel(draw, **{**controls, **changes})


@pytest.mark.parametrize("shown", [False, True])
def test_twenty_moves_leave_one_figure_and_no_open_matplotlib_figure(shown):
    import matplotlib.pyplot as plt

    made = make()
    if shown:
        made._repr_mimebundle_()
    before = plt.get_fignums()
    moves = [RNG.randint(1, 100) for _ in range(20)]
    for value in moves:
        made.fire("n", value)
    assert plt.get_fignums() == before
    page = made._place.value if shown else made._repr_mimebundle_()["text/html"]
    assert page.count("<img") == 1 and f"n = {moves[-1]}." in page


def test_low_middle_high_and_invalid_values_of_every_control():
    made = make()
    made._repr_mimebundle_()
    for value in (1, 50, 100):
        assert f"n = {value}." in made.fire("n", value).alt and made.message == ""
    for bad in (0, 101, "many", None, float("nan"), True):
        kept = made.shown
        assert made.fire("n", bad) is kept and made.values["n"] == 100 and "not a number from 1 to 100" in made.message
        assert "n = 100." in made._place.value and "alert" in made._said.value
    assert "simulated" in made.fire("device", "simulated").alt and made.message == ""
    made.fire("device", "atlantis")
    assert made.values["device"] == "simulated" and "none of cpu, simulated" in made.message
    assert "True" in made.fire("log", True).alt
    made.fire("log", "maybe")
    assert made.values["log"] is True and "neither" in made.message
    with pytest.raises(KeyError):
        made.fire("nothing", 1)


def test_a_move_of_the_widget_redraws_and_a_panel_that_measures_waits_for_the_release():
    made = make()
    made._repr_mimebundle_()
    before = made.draws
    made._widgets["n"].value = 77
    assert made.draws == before + 1 and "n = 77." in made._place.value
    made.fire("n", 78)
    assert made._widgets["n"].value == 78 and made.draws == before + 2
    assert made._widgets["n"].continuous_update is True
    slow = panel(draw, measures=True, n=slider(1, 100, 10))
    slow._repr_mimebundle_()
    assert slow._widgets["n"].continuous_update is False


def test_values_moved_before_it_is_shown_are_where_the_widgets_start():
    made = make()
    made.fire("n", 33)
    bundle = made._repr_mimebundle_()
    assert made._widgets["n"].value == 33 and "n = 33." in bundle["text/html"] and VIEW in bundle


def test_a_failing_drawing_is_told_and_the_last_figure_stays():
    def picky(n):
        if n > 50:
            raise RuntimeError("the queue <is> full")
        return draw(n)

    made = panel(picky, n=slider(1, 100, 10))
    made._repr_mimebundle_()
    made.fire("n", 60)
    assert "the queue <is> full" in made.message and "&lt;is&gt;" in made._said.value and "n = 10." in made._place.value
    made.fire("n", 20)
    assert made.message == "" and made._said.value == "" and "n = 20." in made._place.value


def test_a_drawing_may_be_several_things_or_text():
    made = panel(lambda n: [Table([{"n": n}]), f"n < {n}"], n=slider(0.0, 1.0, 0.5, step=0.25, unit="GB"))
    page = made._repr_mimebundle_()["text/html"]
    assert "<table>" in page and "n &lt; 0.5" in page and "n = 0.5" in repr(made)
    assert made.fire("n", 1)[1] == "n < 1.0"


def test_impossible_controls_are_refused_when_they_are_made():
    for wrong in (lambda: slider(1, 10, 11), lambda: slider(5, 5, 5), lambda: slider(1, 10, 2, step=0), lambda: choice([])):
        with pytest.raises(ValueError):
            wrong()
    with pytest.raises(ValueError, match="at least one"):
        panel(draw)
