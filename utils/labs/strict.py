"""Comparisons for a lab's tests that look at types first, so that no object can answer "yes, equal" for itself.

`got == wanted` asks `got`, and a class of the learner's may say yes to everything. Here both sides must be of the same built-in
type all the way down before anything is compared, so `==` only ever runs on built-ins. Each function returns True or raises
AssertionError with what a failure means, what came back and what was wanted; a test cell writes `assert strict.equal(…)`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import fields, is_dataclass

PLAIN = (int, float, str, bytes, bool, complex, type(None))
SHOWN = 200  # characters of a value in a message


def equal(got, wanted, why: str) -> bool:
    """True when `got` is `wanted`: the same types and the same values, inside containers and dataclasses too.

    `wanted` may hold int, float, str, bytes, bool, complex, None, list, tuple, dict, set, frozenset and dataclasses of these.
    A NaN equals a NaN. Raises AssertionError saying `why`, TypeError when the test itself wants something else.
    """
    wrong = _differs(got, wanted, "")
    if wrong:
        raise _explained(why, wrong)
    return True


def close(got, wanted, why: str, *, within: float = 1e-9) -> bool:
    """True when the number `got` is `wanted` to a relative `within` (and absolutely when `wanted` is 0).

    A number is exactly an int, a float or a NumPy scalar: no bool, no subclass, no tensor, no NaN. A list, tuple or dict of
    numbers is compared element by element in a container of the same type. Raises AssertionError saying `why`.
    """
    wrong = _far(got, wanted, within, "")
    if wrong:
        raise _explained(why, wrong)
    return True


def kind(got, wanted: type | tuple[type, ...], why: str) -> bool:
    """True when the type of `got` is exactly `wanted` or one of them. Raises AssertionError saying `why`."""
    allowed = wanted if type(wanted) is tuple else (wanted,)
    if not any(type(got) is one for one in allowed):
        raise _explained(why, f"it is of type {_type(got)}; wanted: {' or '.join(t.__name__ for t in allowed)}")
    return True


def raises(error: type[BaseException], call: Callable[[], object], why: str) -> bool:
    """True when `call()` raises an `error`, else AssertionError saying `why`. A NotImplementedError passes through."""
    try:
        got = call()
    except NotImplementedError:
        raise
    except error:
        return True
    except Exception as other:
        raise _explained(why, f"it raised {type(other).__name__} ({str(other)[:SHOWN]}); wanted: {error.__name__}") from None
    raise _explained(why, f"it returned {_shown(got)}; wanted: a {error.__name__}")


# ------------------------------------------------------------------------------------------------ how two values differ


def _differs(got, wanted, where: str) -> str:
    """What is different in words, or "" when nothing is."""
    kind_ = type(wanted)
    if type(got) is not kind_:
        return f"{where or 'it'} is of type {_type(got)} ({_shown(got)}); wanted: {kind_.__name__} ({_shown(wanted)})"
    if kind_ in PLAIN:
        same = got == wanted or (kind_ is float and math.isnan(got) and math.isnan(wanted))
        nothing = " (nothing to object to)" if kind_ is str and wanted == "" else ""
        return "" if same else f"{where or 'it'} is {_shown(got)}; wanted: {_shown(wanted)}{nothing}"
    if kind_ in (list, tuple):
        if len(got) != len(wanted):
            return f"{where or 'it'} has {len(got)} elements; wanted: {len(wanted)}"
        return next((w for i, (g, v) in enumerate(zip(got, wanted)) if (w := _differs(g, v, f"{where}[{i}]"))), "")
    if kind_ is dict:
        return _keys(got, wanted, where) or next((w for k in wanted if (w := _differs(got[k], wanted[k], f"{where}[{k!r}]"))), "")
    if kind_ in (set, frozenset):
        strangers = [x for x in got if type(x) not in PLAIN]
        if strangers:
            return f"{where or 'it'} holds a {_type(strangers[0])}"
        same = sorted(map(_key, got)) == sorted(map(_key, wanted))
        return "" if same else f"{where or 'it'} is {_shown(got)}; wanted: {_shown(wanted)}"
    if is_dataclass(wanted):
        named = [f.name for f in fields(wanted)]
        return next((w for n in named if (w := _differs(vars(got).get(n), vars(wanted)[n], f"{where}.{n}"))), "")
    raise TypeError(f"a test cannot compare strictly with a {kind_.__name__}")


def _far(got, wanted, within: float, where: str) -> str:
    if type(wanted) in (list, tuple, dict):
        if type(got) is not type(wanted):
            return f"{where or 'it'} is of type {_type(got)}; wanted: {type(wanted).__name__}"
        if type(wanted) is dict:
            names = _keys(got, wanted, where)
            return names or next((w for k in wanted if (w := _far(got[k], wanted[k], within, f"{where}[{k!r}]"))), "")
        if len(got) != len(wanted):
            return f"{where or 'it'} has {len(got)} elements; wanted: {len(wanted)}"
        return next((w for i, (g, v) in enumerate(zip(got, wanted)) if (w := _far(g, v, within, f"{where}[{i}]"))), "")
    if type(got) not in _numbers():
        return f"{where or 'it'} is of type {_type(got)} ({_shown(got)}); wanted: a number near {_shown(wanted)}"
    number, target = float(got), float(wanted)
    if math.isfinite(number) and abs(number - target) <= within * (abs(target) or 1.0):
        return ""
    near = f" (or {100 * within:g} % from it)" if within >= 1e-4 else ""
    return f"{where or 'it'} is {number:,.6g}; wanted: {target:,.6g}{near}"


def _keys(got: dict, wanted: dict, where: str) -> str:
    strangers = [k for k in got if type(k) not in PLAIN]
    if strangers:
        return f"{where or 'it'} has a key of type {_type(strangers[0])}"
    if sorted(map(_key, got)) != sorted(map(_key, wanted)):
        return f"{where or 'it'} has the keys {_shown(list(got))}; wanted: {_shown(list(wanted))}"
    return ""


def _key(plain) -> tuple[str, str]:
    return type(plain).__name__, repr(plain)


def _numbers() -> tuple[type, ...]:
    """The exact types that count as a number here. NumPy's only where NumPy is loaded: else nothing can be one of them."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return (int, float)
    return (int, float, numpy.float64, numpy.float32, numpy.int64, numpy.int32)


# ------------------------------------------------------------------------------------------------ messages


def _type(value) -> str:
    return type(value).__name__


def _shown(value) -> str:
    try:
        text = repr(value)
    except Exception as error:
        text = f"a {_type(value)} whose repr raises {type(error).__name__}"
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


def _explained(why: str, wrong: str) -> AssertionError:
    return AssertionError(f"{why}\n  What came back: {wrong}")
