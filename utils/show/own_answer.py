"""What a reader wrote into a "your turn" cell: a number, or text read as one ("250 µs"); else a sentence, and no traceback."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from numbers import Real
from typing import Any

from utils.show.explain import Sentence
from utils.show.numbers import parse_number


def in_unit(unit: str = "") -> Callable[[Callable], Callable]:
    """For a function whose first argument is the reader's number in `unit`, or a sequence or mapping of them: it gets numbers (or
    None, where nothing was written); what cannot be read as one is told in a Sentence instead of calling it."""

    def around(judge: Callable) -> Callable:
        @wraps(judge)
        def judged(mine: Any, *args, **kwargs):
            try:
                mine = _read(mine, unit)
            except ValueError as why:
                return Sentence(f"{why} Then run this cell again.")
            return judge(mine, *args, **kwargs)

        return judged

    return around


def _read(mine: Any, unit: str) -> Any:
    if mine is None or (isinstance(mine, Real) and not isinstance(mine, bool)):
        return mine
    if isinstance(mine, str):
        return parse_number(mine, unit)
    if isinstance(mine, Mapping):
        return {name: _read(one, unit) for name, one in mine.items()}
    if isinstance(mine, Sequence):
        return [_read(one, unit) for one in mine]
    try:  # a tensor of one element, say
        return float(mine) if not isinstance(mine, bool) else parse_number("", unit)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"This is no number but a {type(mine).__name__}: write one{f' in {unit}' if unit else ''}.") from None
