"""Whose numbers a lab shows: the text that the learner's own function gives, and what stands in while it gives none."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

NOBODY = "nobody"  # whose numbers are shown before a name is written
CLASS_SEED = Path(__file__).with_name("class_seed.txt")  # an instructor's, in what a class is given; not in the repository


def name_of(my_name: Callable[[], object]) -> str:
    """The name that the learner's function returns; NOBODY while it is not written, fails or returns no text: no point of the
    lab may hang on it."""
    try:
        name = my_name()
    except Exception:
        return NOBODY
    return name if type(name) is str and name.strip() else NOBODY


def seed_of(who: str, lab: int) -> str:
    """The seed of a name in one lab, and of the class where it has one: last year's numbers are nobody's this year.

    Spaces and upper case do not matter, so that a name typed twice gives the same numbers.
    """
    return "/".join(filter(None, ("one-add-priced", class_seed(), f"lab {lab}", " ".join(who.split()).lower())))


@functools.cache
def class_seed() -> str:
    """The text of CLASS_SEED, one word or a few; "" where there is no such file."""
    return CLASS_SEED.read_text(encoding="utf-8").strip() if CLASS_SEED.is_file() else ""
