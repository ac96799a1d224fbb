"""Numbers as a reader types them, and how they are written back: one parser for predictions, quizzes and sliders."""

from __future__ import annotations

import math
import re

TIME_UNITS = {"ns": 1.0, "us": 1e3, "µs": 1e3, "μs": 1e3, "ms": 1e6, "s": 1e9}
_NUMBER = re.compile(r"([+\-−]?)\s*(\d+(?:[.,]\d+)*|[.,]\d+)\s*(.*)", re.S)


def format_number(value: float, digits: int = 6) -> str:
    """`value` with at most `digits` significant digits, thousands separated, no trailing zeros, no exponent."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{round(value, digits - 1 - math.floor(math.log10(abs(value)))):,.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def parse_number(raw: str, unit: str = "", low: float | None = None, high: float | None = None) -> float:
    """The number in `raw` ("80", "80 %", "0,5", "1.2 µs") in `unit`. Raises ValueError that says what to write instead.

    A time in another unit is converted; "1,200" is refused because it can be read in two ways.
    """
    raw = raw.strip()
    example = f"a number, for example {format_number(_example(low, high), 2)}{f' {unit}' if unit else ''}"
    match = _NUMBER.fullmatch(raw)
    if match is None:
        raise ValueError(f"“{raw}” is not a number: write {example}." if raw else f"Write {example} first.")
    sign, digits, given = match.groups()
    if digits.count(",") + digits.count(".") > 1 or re.fullmatch(r"\d{1,3},\d{3}", digits):
        raise ValueError(f"“{raw}” can be read in two ways: write it without separators, with a point before the decimals.")
    value = float(digits.replace(",", ".")) * (-1.0 if sign in ("-", "−") else 1.0)
    if given and given != unit:
        if given not in TIME_UNITS or unit not in TIME_UNITS:
            raise ValueError(
                f"“{raw}” does not fit: the answer is {f'in {unit}' if unit else 'a plain number'}. Write {example}."
            )
        value *= TIME_UNITS[given] / TIME_UNITS[unit]
    if not math.isfinite(value):
        raise ValueError(f"“{raw}” is too large: write {example}.")
    if (low is not None and value < low) or (high is not None and value > high):
        floor = f"at least {format_number(low)}" if low is not None else ""
        roof = f"at most {format_number(high)}" if high is not None else ""
        bounds = " and ".join(bound for bound in (floor, roof) if bound)
        raise ValueError(f"“{raw}” cannot be: the answer is {bounds}{f' {unit}' if unit else ''}.")
    return value


def _example(low: float | None, high: float | None) -> float:
    """A number inside the bounds that hints at nothing: their middle, else 42."""
    if low is not None and high is not None:
        return (low + high) / 2
    return 42.0 if (low is None or low <= 42) and (high is None or high >= 42) else (low if low is not None else high)
