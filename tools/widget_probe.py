"""Fires the callbacks of every ipywidgets control that exists, at invalid, low, middle and high values, and collects errors.

A browser test moves a few controls; this moves all of them, on ipywidgets 7 and 8, in a kernel or in a plain process.
"""

from __future__ import annotations

import traceback

ROUNDS = ("invalid", "low", "middle", "high")


def controls() -> list:
    """Every interactive widget that is alive, in the order of its making."""
    import ipywidgets
    from ipywidgets.widgets import widget as module

    everything = getattr(module, "_instances", None)
    if everything is None:  # ipywidgets 7
        everything = ipywidgets.Widget.widgets
    kinds = (
        ipywidgets.Button,
        ipywidgets.ToggleButton,
        ipywidgets.Checkbox,
        ipywidgets.Text,
        ipywidgets.Textarea,
        ipywidgets.IntText,
        ipywidgets.FloatText,
        ipywidgets.IntSlider,
        ipywidgets.FloatSlider,
        ipywidgets.FloatLogSlider,
        ipywidgets.BoundedIntText,
        ipywidgets.BoundedFloatText,
        ipywidgets.SelectionSlider,
        ipywidgets.Dropdown,
        ipywidgets.RadioButtons,
        ipywidgets.Select,
        ipywidgets.ToggleButtons,
    )
    return [w for w in list(everything.values()) if isinstance(w, kinds)]


def values(widget) -> dict:
    """{round: value to set}; an invalid value is one that the widget must refuse or its callback must survive."""
    import ipywidgets as w

    if isinstance(widget, (w.Checkbox, w.ToggleButton)):
        return {"invalid": "neither", "low": False, "middle": True, "high": False}
    if isinstance(widget, (w.Text, w.Textarea)):
        return {"invalid": "not a number", "low": "0", "middle": "50", "high": "1e300"}
    if isinstance(widget, w.FloatLogSlider):
        low, high = widget.min, widget.max
        return {
            "invalid": "x",
            "low": widget.base**low,
            "middle": widget.base ** ((low + high) / 2),
            "high": widget.base**high,
        }
    if hasattr(widget, "options"):
        held = [option[1] if isinstance(option, tuple) else option for option in widget.options]
        if not held:
            return {}
        return {"invalid": object(), "low": held[0], "middle": held[len(held) // 2], "high": held[-1]}
    low, high = getattr(widget, "min", 0), getattr(widget, "max", 1_000_000)
    whole = isinstance(widget, (w.IntSlider, w.BoundedIntText, w.IntText))
    return {"invalid": "x", "low": low, "middle": (low + high) // 2 if whole else (low + high) / 2, "high": high}


def fire_all() -> dict:
    """Set every control to each round's value and press every button in each round.

    Returns {"fired": how many settings and presses, "errors": [text of each exception that is not the widget's own refusal]}.
    """
    import ipywidgets
    from traitlets import TraitError

    fired, errors = 0, []

    def attempt(what: str, call, refusals=()) -> None:
        nonlocal fired
        fired += 1
        try:
            call()
        except refusals:
            pass
        except Exception:
            errors.append(f"{what}: {traceback.format_exc(limit=-4)}")

    for turn in ROUNDS:
        for widget in controls():
            name = f"{type(widget).__name__} {getattr(widget, 'description', '')!r} at {turn}"
            if isinstance(widget, ipywidgets.Button):
                continue
            wanted = values(widget)
            if turn in wanted:
                refusals = (TraitError,) if turn == "invalid" else ()
                attempt(name, lambda w=widget, v=wanted[turn]: setattr(w, "value", v), refusals)
            for callback in list(getattr(getattr(widget, "_submission_callbacks", None), "callbacks", [])):
                attempt(f"{name}, submitted", lambda c=callback, w=widget: c(w))
        for widget in controls():
            if isinstance(widget, ipywidgets.Button) and not widget.disabled:
                # Called one by one: the widget's own click() swallows what they raise.
                for callback in list(widget._click_handlers.callbacks):
                    attempt(f"Button {widget.description!r} after {turn}", lambda c=callback, w=widget: c(w))
    return {"fired": fired, "errors": errors}
