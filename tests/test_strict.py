"""Strict comparisons: equal is equal, and nothing that only says so passes."""

from __future__ import annotations

import copy
import random
import re
from dataclasses import dataclass

import numpy as np
import pytest

from utils.labs import strict


class Yes:
    """Says yes to every comparison, and looks like a number."""

    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False

    __hash__ = None
    __lt__ = __gt__ = __le__ = __ge__ = __eq__

    def __float__(self):
        return 1.0

    def __abs__(self):
        return 0.0

    def __sub__(self, other):
        return self

    __rsub__ = __sub__


class YesFloat(float):
    __eq__ = Yes.__eq__
    __ne__ = Yes.__ne__
    __hash__ = float.__hash__


class YesText(str):
    __eq__ = Yes.__eq__
    __hash__ = str.__hash__


class YesList(list):
    __eq__ = Yes.__eq__
    __hash__ = None


class YesDict(dict):
    __eq__ = Yes.__eq__
    __hash__ = None


@dataclass(frozen=True)
class Row:
    name: str
    ns: float


RNG = random.Random(3)
X = RNG.uniform(1, 1e6)
SAME = [
    X,
    3,
    "a",
    None,
    True,
    [1, 2.0, "x"],
    (1, (2, [3])),
    {"a": [1.0], "b": {2}},
    {1, "1"},
    Row("add", X),
    [Row("b", 1.0)],
    b"b",
]


def _named(value) -> str:
    """The same words in every process, which tests run two at a time need: no address, no order of a set."""
    if isinstance(value, set):
        return f"{{{', '.join(sorted(map(repr, value)))}}}"
    return re.sub(r"<[\w.]*?(\w+) object at 0x\w+>", r"\1", str(value) if isinstance(value, str) else repr(value))


@pytest.mark.parametrize("value", SAME, ids=_named)
def test_the_same_is_equal(value):
    assert strict.equal(copy.deepcopy(value), value, "same") is True


DIFFERENT = [
    (1, True),
    (True, 1),
    (1.0, 1),
    (1, 1.0),
    (np.float64(1.0), 1.0),
    ("1", 1),
    ([1], (1,)),
    ([1, 2], [1, 2, 3]),
    ({"a": 1}, {"b": 1}),
    ({"a": True}, {"a": 1}),
    ({1: 0}, {True: 0}),
    ({1, 2}, {1, 3}),
    ({1}, {True}),
    (Row("a", 1.0), Row("a", 2.0)),
    (Row("a", 1), Row("a", 1.0)),
    (None, False),
    (Yes(), 1.0),
    (Yes(), "no difference seen"),
    (YesFloat(2.0), 1.0),
    (YesFloat(1.0), 1.0),
    (YesText("no"), "yes"),
    (YesList([1]), [2]),
    (YesDict(a=1), {"b": 2}),
    ([Yes()], [1]),
    ({"a": Yes()}, {"a": 1}),
    ({"a": {YesText("b")}}, {"a": {"b"}}),
    (Row("a", Yes()), Row("a", 1.0)),
    ({YesText("x"): 1}, {"x": 1}),
]


@pytest.mark.parametrize(("got", "wanted"), DIFFERENT, ids=_named)
def test_the_different_is_not(got, wanted):
    with pytest.raises(AssertionError, match="^what it means\n  What came back: "):
        strict.equal(got, wanted, "what it means")


@pytest.mark.parametrize("got", [X, X * (1 + 1e-12), np.float64(X), np.float32(X)], ids=["it", "near", "numpy", "float32"])
def test_a_number_near_enough_is_close(got):
    assert strict.close(got, X, "near", within=1e-6) is True
    assert strict.close([got, 0], [X, 0], "near", within=1e-6) is True
    assert strict.close({"a": got}, {"a": X}, "near", within=1e-6) is True


FAR = [X * 1.01, -X, Yes(), YesFloat(X), True, str(X), None, float("nan"), float("inf"), [X], np.array([X]), complex(X)]


@pytest.mark.parametrize("got", FAR, ids=_named)
def test_another_number_or_none_is_not(got):
    for there, wanted in ((got, X), ([got], [X]), ({"a": got}, {"a": X})):
        with pytest.raises(AssertionError, match="far"):
            strict.close(there, wanted, "far", within=1e-3)


def test_near_zero_is_absolute():
    assert strict.close(1e-12, 0.0, "zero")
    with pytest.raises(AssertionError):
        strict.close(1e-3, 0.0, "zero")


def test_kind_is_exact():
    assert strict.kind(1.0, float, "float") and strict.kind(1, (int, float), "number")
    for got in (YesFloat(1.0), np.float64(1.0), 1, True):
        with pytest.raises(AssertionError):
            strict.kind(got, float, "float")
    with pytest.raises(AssertionError):
        strict.kind(True, int, "int")


def test_raises():
    def boom(error):
        raise error

    assert strict.raises(ValueError, lambda: boom(ValueError("x")), "why")
    with pytest.raises(AssertionError, match="it returned 3"):
        strict.raises(ValueError, lambda: 3, "why")
    with pytest.raises(AssertionError, match="it raised KeyError"):
        strict.raises(ValueError, lambda: boom(KeyError("x")), "why")
    with pytest.raises(NotImplementedError):
        strict.raises(RuntimeError, lambda: boom(NotImplementedError()), "an unwritten stub must not count as an error")


def test_a_test_that_wants_something_incomparable_is_told():
    with pytest.raises(TypeError, match="cannot compare strictly"):
        strict.equal(len, len, "why")


def test_a_repr_that_raises_breaks_no_message():
    class Mute:
        def __repr__(self):
            raise RuntimeError

    with pytest.raises(AssertionError, match="whose repr raises RuntimeError"):
        strict.equal(Mute(), 1, "why")


def test_a_text_that_should_be_empty_wants_words_for_it():
    """Many of the labs' own questions answer "" when nothing is wrong: `wanted: ''` alone says little."""
    with pytest.raises(AssertionError, match=re.escape("it is 'element 5 is stored by none'; wanted: '' (nothing to object to)")):
        strict.equal("element 5 is stored by none", "", "far")
    with pytest.raises(AssertionError, match=r"it is ''; wanted: 'x'$"):
        strict.equal("", "x", "why")
