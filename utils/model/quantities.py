"""The names by which ranges and claims speak of a measurement: "stages.arg_parser / python_call" → a number with its noise.

An expression is quantities joined by " + ", " - " and " / ", worked out from left to right (no precedence, no brackets). A
name that holds an operator stands in single quotes: ladder.'c = a + b'.

Of a receipt: end_to_end, loop, python_call, `stages.<id>`, stages.sum (of the isolates that exist), `arms.<name>`,
`ladder.<name>`, `device_time.<name>`, `first_call.<name>`, in_program.first (the smallest N), in_program.last (the largest),
context (what no stage explains), aa_error.
Of a race: `<reading name>` and aa_error. Of a mapping: its keys (numbers, Readings, or a NotMeasured that says why not).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from utils.model.readings import Race, Reading, Receipt, quantile, ratio_error

OPERATORS = ("+", "-", "/")
PYTHON_CALL = "python call"  # the arm of a receipt that holds the price of calling an empty Python function


class NotMeasured(LookupError):
    """The quantity could not be measured on this machine, and the measurement says why (no compiler, no GPU)."""


class NoSuchQuantity(LookupError):
    """The quantity should be in this measurement and is not, or its name is wrong."""


@dataclass(frozen=True)
class Value:
    """A number (ns, or a ratio) and the relative noise of the blocks it came from; `samples` where it is one reading's price."""

    value: float
    noise: float = 0.0
    samples: tuple[float, ...] = ()


def noise_of(reading: Reading) -> float:
    """How far the price (p25) stands above the 10th percentile, as a share of it.

    On a quiet machine about 0.5 %. When so many blocks were disturbed that the quartile itself moved, it is large: the
    measurement then knows its own weakness, and a range that is widened by it does not fail a loaded machine.
    """
    low = quantile(list(reading.samples), 0.10)
    return abs(reading.ns - low) / abs(reading.ns) if reading.ns else 0.0


def split(expression: str) -> list[str]:
    """ "a / b + c" → ["a", "/", "b", "+", "c"]: names may hold blanks and hyphens, operators stand between blanks."""
    parts, quoted, found = [""], False, re.split(r"( [+/-] |')", expression.strip())
    for piece in found:
        if piece == "'":
            quoted = not quoted
        elif piece.strip() in OPERATORS and len(piece) == 3 and not quoted:
            parts += [piece.strip(), ""]
        else:
            parts[-1] += piece
    return parts


def names(expression: str) -> list[str]:
    """The quantities an expression speaks of, without the operators."""
    return split(expression)[::2]


def evaluate(expression: str, thing: Receipt | Race | Mapping) -> Value:
    """The value of `expression` for `thing`.

    Raises NotMeasured when a part could not be measured here (with the measurement's own reason), NoSuchQuantity when it
    should be there and is not.
    """
    parts = split(expression)
    total = _quantity(parts[0], thing)
    for operator, name in zip(parts[1::2], parts[2::2], strict=True):
        total = _apply(total, operator, _quantity(name, thing))
    return total


def _apply(a: Value, operator: str, b: Value) -> Value:
    if operator == "/":
        if b.value <= 0:
            raise NoSuchQuantity(f"a price of {b.value:g} ns cannot be divided by")
        return Value(a.value / b.value, max(a.noise + b.noise, _of_ratio(a, b)))
    value = a.value + b.value if operator == "+" else a.value - b.value
    absolute = abs(a.value) * a.noise + abs(b.value) * b.noise
    return Value(value, absolute / abs(value) if value else 0.0)


def _of_ratio(a: Value, b: Value) -> float:
    """Three standard errors of the ratio of two readings of one race; 0 where they are not that.

    Seen in a loaded run: two quartiles, each steady by itself, of arms that a neighbour met at different moments.
    """
    same_race = a.samples and len(a.samples) == len(b.samples)
    return 3.0 * ratio_error(b.samples, a.samples) / (a.value / b.value) if same_race else 0.0


def _of(reading: Reading) -> Value:
    return Value(reading.ns, noise_of(reading), reading.samples)


def _quantity(name: str, thing: Receipt | Race | Mapping) -> Value:
    if isinstance(thing, Receipt):
        return _of_receipt(name, thing)
    if name == "aa_error" and isinstance(thing, Race):
        return Value(thing.aa_error)
    table = thing.readings if isinstance(thing, Race) else thing
    if name not in table:
        raise NoSuchQuantity(f"there is no {name!r} in this measurement; it has {', '.join(map(str, table))}")
    found = table[name]
    if isinstance(found, NotMeasured):
        raise found
    if isinstance(found, Reading):
        return _of(found)
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise NoSuchQuantity(f"{name!r} is {found!r}, not a number")
    return Value(float(found))


def _of_receipt(name: str, receipt: Receipt) -> Value:
    head, _, tail = name.partition(".")
    if name == "end_to_end":
        return _of(receipt.end_to_end)
    if name == "loop":
        return _of(receipt.loop)
    if name == "aa_error":
        return Value(receipt.aa_error)
    if name == "python_call":
        return _of(_named(receipt.arms, PYTHON_CALL, "arm"))
    if name == "context":
        return Value(receipt.context_ns, noise_of(receipt.end_to_end))
    if name == "stages.sum":
        return _stage_sum(receipt)
    if head == "stages":
        return _stage(receipt, tail)
    if name in ("in_program.first", "in_program.last"):
        return _in_program(receipt, last=name.endswith("last"))
    if head == "first_call":
        if not receipt.first_call:
            raise NotMeasured("the first call was not measured in this run")
        return Value(_named(dict(receipt.first_call), tail, "first call"))
    if head == "arms":
        return _of(_named(receipt.arms, tail, "arm"))
    if head == "device_time":
        return _of(_named(receipt.device_time, tail, "device time"))
    if head == "ladder":
        return _of(_named({r.name: r for r in receipt.ladder}, tail, "rung"))
    raise NoSuchQuantity(f"{name!r} is no quantity of a receipt")


def _named(table: Mapping[str, Any], name: str, what: str) -> Any:
    if name not in table:
        raise NoSuchQuantity(f"this receipt has no {what} {name!r}; it has {', '.join(table) or 'none'}")
    return table[name]


def _stage(receipt: Receipt, stage_id: str) -> Value:
    for stage in receipt.stages:
        if stage.stage == stage_id:
            if stage.isolate is None:
                raise NotMeasured(f"{stage_id}: {stage.why_missing}")
            return _of(stage.isolate)
    raise NoSuchQuantity(f"this receipt has no stage {stage_id!r}; it has {', '.join(s.stage for s in receipt.stages)}")


def _stage_sum(receipt: Receipt) -> Value:
    measured = [s.isolate for s in receipt.stages if s.isolate is not None]
    if not measured:
        raise NotMeasured("no stage was measured on its own in this run")
    absolute = sum(abs(r.ns) * noise_of(r) for r in measured)
    return Value(receipt.stage_sum_ns, absolute / receipt.stage_sum_ns)


def _in_program(receipt: Receipt, *, last: bool) -> Value:
    if not receipt.in_program:
        raise NotMeasured("the price in a program was not measured in this run")
    points = sorted(receipt.in_program, key=lambda point: point[0])
    return _of(points[-1 if last else 0][1])


def is_receipt_name(name: str, stage_ids: set[str]) -> bool:
    """True when a receipt can have a quantity of this name (for the check of the ranges' and claims' own text)."""
    head, _, tail = name.partition(".")
    if head == "stages":
        return tail == "sum" or tail in stage_ids
    if head in ("arms", "device_time", "ladder", "first_call"):
        return bool(tail)
    fixed = {"end_to_end", "loop", "python_call", "context", "aa_error"}
    return name in fixed | {"in_program.first", "in_program.last"}
