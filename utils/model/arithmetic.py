"""Arithmetic written in a data file ("n * price / 1000"), worked out without `eval`: names, + - * / **, min, max, ceil."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Mapping

OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
}
FUNCTIONS = {"min": min, "max": max, "ceil": math.ceil}


def names(formula: str) -> set[str]:
    """The names that a formula needs values for. Raises ValueError when it is no formula."""
    tree = _parsed(formula)
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - called


def value(formula: str, known: Mapping[str, float]) -> float:
    """The formula's value. Raises ValueError, in words, for what is no arithmetic, for a missing name and for a division by 0."""
    try:
        return float(_value(_parsed(formula).body, known))
    except ZeroDivisionError:
        raise ValueError(f"{formula}: a division by zero") from None


def _parsed(formula: str) -> ast.Expression:
    try:
        return ast.parse(formula, mode="eval")
    except SyntaxError as error:
        raise ValueError(f"{formula}: not a formula ({error.msg})") from None


def _value(node: ast.AST, known: Mapping[str, float]) -> float:
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
        return node.value
    if isinstance(node, ast.Name):
        if node.id not in known:
            raise ValueError(f"nothing is known of {node.id!r}")
        return known[node.id]
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        return OPERATORS[type(node.op)](_value(node.left, known), _value(node.right, known))
    if isinstance(node, ast.UnaryOp) and type(node.op) in OPERATORS:
        return OPERATORS[type(node.op)](_value(node.operand, known))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS and not node.keywords:
        return FUNCTIONS[node.func.id](*(_value(one, known) for one in node.args))
    raise ValueError(f"{ast.unparse(node)}: only numbers, names, + - * / **, min, max and ceil")
