"""Rules for code, in modules and in notebooks alike: private torch API only in one file, and a first line that says what for."""

from __future__ import annotations

import ast
from collections.abc import Iterator

SEAMS = "utils/measure/seams.py"  # the one file that may touch what torch does not promise to keep
_BY_NAME = {"getattr", "hasattr", "setattr", "import_module", "__import__", "find_spec"}


def private_torch(source: str) -> Iterator[tuple[int, str]]:
    """(line, expression) of every use of private torch API: `torch._C`, `from torch._dynamo import …`, `x._dispatch_…`.

    Names given as text to getattr or import_module count too. Other text, docstrings and comments do not. Source that is no
    Python yields nothing: that is another rule's.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return
    torches = _aliases(tree)
    for node in ast.walk(tree):
        for expression in _expressions(node):
            parts = expression.split(".")
            if parts[0] in torches and any(_private(part) for part in parts[1:]):
                yield node.lineno, expression
            elif any(part.startswith("_dispatch_") for part in parts):
                yield node.lineno, expression


def _private(name: str) -> bool:
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


def _aliases(tree: ast.Module) -> set[str]:
    """Every name under which torch or a module of it is known here."""
    names = {"torch"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {a.asname for a in node.names if a.asname and a.name.split(".")[0] == "torch"}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "torch":
            names |= {a.asname or a.name for a in node.names}
    return names


def _expressions(node: ast.AST) -> Iterator[str]:
    """The dotted names that one node touches, from the module down."""
    if isinstance(node, ast.Attribute):
        dotted = _dotted(node)
        if dotted:
            yield dotted
        elif node.attr.startswith("_dispatch_"):
            yield node.attr
    elif isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.Call) and ast.unparse(node.func).rsplit(".", 1)[-1] in _BY_NAME:
        texts = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        first = _dotted(node.args[0]) if node.args else None
        for text in texts:
            yield f"{first}.{text}" if first else text


def _dotted(node: ast.AST) -> str | None:
    """`a.b.c` as text when the node is a plain chain of names, else None."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(parts)])


def first_line_missing(source: str) -> bool:
    """True when a module does not open with a docstring whose first line is a sentence of its own."""
    doc = ast.get_docstring(ast.parse(source))
    return not doc or len(doc.splitlines()[0].split()) < 3
