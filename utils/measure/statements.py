"""The expressions that are traced, and the tensors that their names stand for: in this process and in a child's program."""

from __future__ import annotations

import ast

# x and w are 4 x 4: a result of 64 bytes comes from the heap's small bins, as an add's does. What larger ones cost depends on
# what the heap has been through: two processes that counted the same statements in another order differed by 2 % at 8 x 8 and
# by 1.6 % at 16 x 16, and by 0.8 % at 4 x 4.
SHAPES = {"a": (1,), "b": (1,), "x": (4, 4), "w": (4, 4), "x3": (2, 4, 4)}
MODULES = ("torch", "F")
OPERATORS = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.MatMult: "matmul", ast.Pow: "pow"}


def normal(expression: str) -> str:
    """The expression as Python itself would write it. Raises ValueError, in words, for what is no expression."""
    return ast.unparse(_parsed(expression))


def key(expression: str, grad: bool = False) -> str:
    """What a traced statement is called in recordings and caches: "a + b" or "a + b, grad"."""
    return normal(expression) + (", grad" if grad else "")


def names(expression: str) -> tuple[str, ...]:
    """The tensors that the expression names, in the order of their first use."""
    found = [node.id for node in ast.walk(_parsed(expression)) if isinstance(node, ast.Name) and node.id not in MODULES]
    return tuple(dict.fromkeys(found))


def method(expression: str) -> str:
    """The tensor method behind the outermost operation: "add" for a + b and for torch.add(a, b); empty when there is none."""
    node = _parsed(expression)
    if isinstance(node, ast.BinOp):
        return OPERATORS.get(type(node.op), "")
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr
    return ""


def module(expression: str) -> str:
    """The module whose function the outermost call is, as it is written: "torch" for torch.add(a, b); empty for a method."""
    node = _parsed(expression)
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return ""
    root = node.func.value
    while isinstance(root, ast.Attribute):
        root = root.value
    return ast.unparse(node.func.value) if isinstance(root, ast.Name) and root.id in MODULES else ""


def check_names(expression: str, given: tuple[str, ...] = tuple(SHAPES)) -> None:
    """Raises ValueError, in words, when the expression names a tensor that is not there."""
    if unknown := [name for name in names(expression) if name not in given]:
        raise ValueError(f"{', '.join(unknown)} is not known here; the tensors are {', '.join(given)}, the modules torch and F")


def setup(expression: str, grad: bool) -> str:
    """The lines that make the tensors of the expression, for a child's program."""
    check_names(expression)
    lines = [f"{name} = torch.rand({SHAPES[name]}).requires_grad_({grad})" for name in names(expression)]
    return "\n".join(lines)


def tensors(expression: str, grad: bool, device: str = "cpu") -> dict:
    """The tensors of the expression, by name, made here."""
    import torch

    check_names(expression)
    return {name: torch.rand(SHAPES[name], device=device).requires_grad_(grad) for name in names(expression)}


def evaluate(expression: str, arguments: dict):
    """The value of the reader's own expression, with `torch` and `F` beside the arguments."""
    import torch

    code = compile(ast.Expression(_parsed(expression)), "<expression>", "eval")
    return eval(code, {"torch": torch, "F": torch.nn.functional, **arguments})  # noqa: S307  (the reader's own, at the reader's)


def _parsed(expression: str) -> ast.expr:
    if not expression.strip():
        raise ValueError("there is no expression; one would be: a + b")
    try:
        return ast.parse(expression.strip(), mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"{expression!r} is no Python expression: {error.msg}") from None
