"""Whose numbers a lab shows: the text that the learner's own function gives, and what stands in while it gives none."""

from __future__ import annotations

from collections.abc import Callable

NOBODY = "nobody"  # whose numbers are shown before a name is written


def name_of(my_name: Callable[[], object]) -> str:
    """The name that the learner's function returns; NOBODY while it is not written, fails or returns no text: no point of the
    lab may hang on it."""
    try:
        name = my_name()
    except Exception:
        return NOBODY
    return name if type(name) is str and name.strip() else NOBODY


def seed_of(who: str, lab: int) -> str:
    """The seed of a name in one lab: spaces and upper case do not matter, so that a name typed twice gives the same numbers."""
    return f"one-add-priced/lab {lab}/{' '.join(who.split()).lower()}"
