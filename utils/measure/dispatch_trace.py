"""What happens to one expression before any arithmetic: signature, schema, promotion, key sets, table rows, ops that ran.

Everything here is read in this process in milliseconds. The ops come from torch's own execution-trace observer, which sees
composite ops and what they call; the key sets from the dispatcher (`seams`); the parser's signatures from the text of the
TypeError that it raises for a call without arguments.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from utils.measure import seams, statements
from utils.measure.key_sets import KeySets, TableRow, key_sets, table


@dataclass(frozen=True)
class Argument:
    """One input of the expression; `keys` are the names in its dispatch key set, lowest priority first."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    device: str
    requires_grad: bool
    keys: tuple[str, ...]


@dataclass(frozen=True)
class OpRun:
    """One op that ran: `name` "aten::add.Tensor" (with its overload), its schema, and how deep inside other ops it ran."""

    name: str
    schema: str
    depth: int


@dataclass(frozen=True)
class Overload:
    """One overload the dispatcher has under the op's name; `why` says in words why it was passed over (empty when chosen)."""

    name: str
    schema: str
    chosen: bool
    why: str


@dataclass(frozen=True)
class Hop:
    """One indirect call through the table: this op, at this key, reached this kernel."""

    op: str
    key: str
    kind: str
    registered_at: str


@dataclass(frozen=True)
class Dispatch:
    """All of it for one expression. `missing` says in words what this torch no longer tells."""

    expression: str
    device: str
    grad: bool
    method: str
    arguments: tuple[Argument, ...]
    ops: tuple[OpRun, ...]
    op: str
    schema: str
    type_error: str
    signatures: tuple[str, ...]
    overloads: tuple[Overload, ...]
    result_dtype: str
    promoted: str
    promotion: str
    keys: KeySets | None
    table: tuple[TableRow, ...]
    hops: tuple[Hop, ...]
    missing: tuple[str, ...]

    @property
    def top_ops(self) -> tuple[OpRun, ...]:
        """The ops that Python called, without those that ran inside them."""
        return tuple(op for op in self.ops if op.depth == 0)

    def row(self, key: str) -> TableRow:
        """The table's row of one key. Raises KeyError for a key that the table lacks."""
        for row in self.table:
            if row.key == key:
                return row
        raise KeyError(f"{self.op} has no row {key!r}")

    def to_dict(self) -> dict:
        return asdict(self)


def dispatch_trace(expression: str, *, grad: bool = False, arguments: dict | None = None, device: str = "cpu") -> Dispatch:
    """Trace one expression such as "a + b". `arguments` are its tensors by name; left out, those of `statements.SHAPES` are
    made on `device`, requiring grad when `grad`. Raises ValueError for an expression that cannot be evaluated."""
    import torch

    values = statements.tensors(expression, grad, device) if arguments is None else dict(arguments)
    statements.check_names(expression, tuple(values))
    given = {name: values[name] for name in statements.names(expression)}
    missing: list[str] = []
    try:
        result = statements.evaluate(expression, given)  # warm, and an error is the reader's own
    except Exception as error:
        raise ValueError(f"{expression!r} cannot be evaluated: {error}") from error
    method = statements.method(expression)
    ops = _ops(expression, given, missing)
    op = ops[0].name if ops else ""
    gone = seams.dispatcher_missing()
    missing += [f"torch {torch.__version__} no longer has {name}: no key sets, no table" for name in gone]
    readable = not gone and bool(op)
    tensors = {name: value for name, value in given.items() if isinstance(value, torch.Tensor)}
    rows = table(op) if readable else ()
    holder = statements.evaluate(statements.module(expression) or "torch.ones(1)", {})
    type_error, signatures = _signatures(holder, method) if tensors else ("", ())
    sets = {name: seams.key_set(value) for name, value in tensors.items()} if readable else {}
    everything = [row.key for row in rows]
    promoted, promotion = _promotion(expression, tensors, given, result)
    return Dispatch(
        expression=statements.normal(expression),
        device=str(next(iter(tensors.values())).device.type) if tensors else device,
        grad=any(value.requires_grad for value in tensors.values()),
        method=method,
        arguments=tuple(
            Argument(
                name,
                _dtype(value),
                tuple(value.shape),
                str(value.device),
                value.requires_grad,
                seams.keys_among(sets[name], everything) if name in sets else (),
            )
            for name, value in tensors.items()
        ),
        ops=ops,
        op=op,
        schema=ops[0].schema if ops else "",
        type_error=type_error,
        signatures=signatures,
        overloads=_overloads(op),
        result_dtype=_dtype(result) if isinstance(result, torch.Tensor) else type(result).__name__,
        promoted=promoted,
        promotion=promotion,
        keys=key_sets(op, sets, rows)[0] if readable and sets else None,
        table=rows,
        hops=tuple(_hops(ops, sets)) if readable and sets else (),
        missing=tuple(missing),
    )


def looks(tensor) -> str:
    """What can be said of a tensor without its data: "shape (1,), float32, cpu"."""
    return f"shape {tuple(tensor.shape)}, {_dtype(tensor)}, {tensor.device.type}"


def _dtype(tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


# ------------------------------------------------------------------------------------------------ the ops that ran


def _ops(expression: str, given: dict, missing: list[str]) -> tuple[OpRun, ...]:
    """What ran, in the order of the calls, by torch's execution-trace observer (public, without CUPTI)."""
    import torch

    try:
        from torch.profiler import ExecutionTraceObserver

        with tempfile.TemporaryDirectory(prefix="one-add-trace-") as folder, _quiet_stderr():
            file = Path(folder) / "ops.json"
            observer = ExecutionTraceObserver()
            observer.register_callback(str(file))
            try:
                observer.start()
                statements.evaluate(expression, given)
                observer.stop()
            finally:
                observer.unregister_callback()
            nodes = json.loads(file.read_text(encoding="utf-8"))["nodes"]
        return _from_nodes(nodes)
    except Exception as error:  # an observer that changed must not cost the rest of the trace
        missing.append(f"the ops that ran cannot be observed in torch {torch.__version__}: {type(error).__name__}: {error}")
        return ()


def _from_nodes(nodes: list[dict]) -> tuple[OpRun, ...]:
    """The observer's nodes as ops: those with a schema, ordered by their number, which grows with each call."""
    schemas = {node["id"]: _attribute(node, "op_schema") for node in nodes}
    parents = {node["id"]: node.get("ctrl_deps") for node in nodes}
    out = []
    for number in sorted(schemas):
        schema = schemas[number]
        if not schema:
            continue
        depth, above = 0, parents[number]
        while above in schemas and above != parents.get(above):
            depth += bool(schemas[above])
            above = parents[above]
        out.append(OpRun(schema.split("(")[0], schema, depth))
    return tuple(out)


def _attribute(node: dict, name: str) -> str:
    return next((str(a.get("value") or "") for a in node.get("attrs", ()) if a.get("name") == name), "")


@contextlib.contextmanager
def _quiet_stderr() -> Iterator[None]:
    """The observer announces itself on file descriptor 2 at each start and stop; a notebook would show that."""
    sys.stderr.flush()
    saved = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(nowhere)


# ------------------------------------------------------------------------------------------------ signatures and overloads


def _signatures(holder, method: str) -> tuple[str, tuple[str, ...]]:
    """(the TypeError of `holder.METHOD()`, the signatures that it names), of a tensor or of a module whose function was called.

    Both empty when that call is no error. Signatures that are deprecated work, but torch does not name them.
    """
    call = getattr(holder, method, None) if method else None
    if call is None:
        return "", ()
    try:
        call()
    except TypeError as error:
        text = str(error)
    except Exception:  # torch.ops has a parser of its own, which raises otherwise and names no signature of Python's
        return "", ()
    else:
        return "", ()
    listed = re.findall(r"^\s*\*\s*(\(.*\))\s*$", text, flags=re.MULTILINE)
    single = re.search(r"but expected (?:one of:)?\s*(\(.*?\))\s*$", text)
    return text, tuple(listed or ([single[1]] if single else []))


def _overloads(op: str) -> tuple[Overload, ...]:
    """The overloads under the op's name that take a tensor first; TorchScript's own for Python numbers are no kernels."""
    import torch

    if not op:
        return ()
    name, _, chosen = op.removeprefix("aten::").partition(".")
    packet = getattr(torch.ops.aten, name, None)
    if packet is None:
        return ()
    out = []
    for overload in packet.overloads():
        schema = str(seams.schema_of(getattr(packet, overload)))
        inside = schema.partition("(")[2]
        if not inside.startswith("Tensor"):
            continue
        is_it = overload == (chosen or "default")
        out.append(Overload(schema.split("(")[0].removeprefix("aten::"), schema, is_it, "" if is_it else _why_not(schema)))
    return tuple(out)


def _why_not(schema: str) -> str:
    if re.search(r"Tensor\(\w!\) out\b", schema):
        return "passed over: it wants a tensor to write into (out=)"
    if re.search(r"\(Tensor self, Scalar ", schema):
        return "passed over: its second argument is a number for C++ callers; Python wraps a number as a tensor"
    return "passed over: its arguments are others"


def _promotion(expression: str, tensors: dict, given: dict, result) -> tuple[str, str]:
    """(the promoted dtype, a sentence on who promotes), found by giving the first tensor another dtype; "" when none does."""
    import torch

    if not tensors or not isinstance(result, torch.Tensor):
        return "", "no tensor comes out whose dtype could have been promoted"
    first, value = next(iter(tensors.items()))
    other = torch.int64 if value.dtype.is_floating_point else torch.float32
    changed = {**given, first: value.detach().to(other)}
    tried = f"with {first} as {_dtype(changed[first])}"
    try:
        with torch.no_grad():
            mixed = statements.evaluate(expression, changed)
    except RuntimeError as error:
        return "", f"nothing is promoted here: {tried} the op refuses ({str(error).strip().splitlines()[0]})"
    if len(tensors) == 1 and mixed.dtype == other:
        return "", f"nothing is promoted here: {tried} the result is {_dtype(mixed)} too"
    return _dtype(result), (
        f"{tried} the result is {_dtype(mixed)}: the op itself promotes (an elementwise op in TensorIterator's set-up), after the"
        " parser and the dispatcher, which look at no dtype"
    )


# ------------------------------------------------------------------------------------------------ hops


def _hops(ops: tuple[OpRun, ...], sets: dict) -> Iterator[Hop]:
    """The hops of the ops that Python called; of a composite op also those of the ops that it becomes.

    What a kernel calls inside itself (resolve_conj in mm's) is left to the call tree.
    """
    open_depth = 0
    for op in ops:
        if op.depth > open_depth:
            continue
        known = table(op.name)
        if not known:
            continue
        rows = {row.key: row for row in known}
        _, keys = key_sets(op.name, sets, known)
        key = seams.highest_key(keys)
        if key not in rows:
            continue
        open_depth = op.depth + 1 if rows[key].kind == "math kernel" else op.depth
        yield Hop(op.name, key, rows[key].kind, rows[key].registered_at)
        while rows[key].kind == "autograd kernel" or key == "ADInplaceOrView":  # both re-dispatch to what is below them
            keys = seams.keys_below(keys, key)
            key = seams.highest_key(keys)
            if key not in rows:
                break
            yield Hop(op.name, key, rows[key].kind, rows[key].registered_at)
