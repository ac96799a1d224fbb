"""Four layers around one add, none of which knows of the others: autocast, autograd, a tensor subclass, a logging mode.

Each writes down what it sees, in one list. `stacked` runs an expression below all of them; `compiled` does the same through
torch.compile, without a C++ compiler: the graph that it makes is run by Python.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, MutableSequence, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache

from utils.measure import key_sets, seams, statements, witness
from utils.measure.witness import Sight

MODE, SUBCLASS = "logging mode", "tensor subclass"
BACKENDS = {"cpu": "CPU", "cuda": "CUDA"}
OPS = {"a + b": ("aten::add.Tensor",), "x @ w": ("aten::matmul", "aten::mm")}  # what runs, outermost first


@dataclass(frozen=True)
class Result:
    """What came out: its class, its dtype, the name of its grad_fn, and whether it is what plain tensors give, bit for bit."""

    kind: str
    dtype: str
    node: str
    same: bool


@dataclass(frozen=True)
class Stack:
    """One run below all layers: who was reached, in order, and what came out. `entered` are the contexts, outermost first;
    `missing` is why no key could be watched ("" when all were)."""

    expression: str
    entered: tuple[str, ...]
    sights: tuple[Sight, ...]
    result: Result
    missing: str = ""

    @property
    def order(self) -> tuple[str, ...]:
        """Everyone who was reached, in the order of the first time."""
        return tuple(dict.fromkeys(sight.key for sight in self.sights))


@dataclass(frozen=True)
class Compiled:
    """Several expressions as one compiled function, under autocast, with a subclass that needs grad.

    `while_compiling` and `per_call` are what the subclass saw in the first call and in a later one; `graph` the ops that are
    left in the compiled graph; `inside` what a logging mode saw that stood around that graph. `outside` is what a logging mode
    saw that was entered around the compiled function, and `node_outside` the grad_fn of the first result then.
    """

    expressions: tuple[str, ...]
    seconds: float
    while_compiling: tuple[Sight, ...]
    per_call: tuple[Sight, ...]
    graph: tuple[str, ...]
    inside: tuple[Sight, ...]
    outside: tuple[Sight, ...]
    node_outside: str
    results: tuple[Result, ...]


def stacked(expression: str = "a + b", device: str = "cpu", entered: Sequence[str] = ("autocast", MODE)) -> Stack:
    """Run "a + b" or "x @ w" below autocast and a logging mode, entered in that order; its first tensor is a subclass that
    needs grad. Witnesses stand at the keys at which the ops have kernels of their own, on `device`."""
    import torch

    Tagged, LoggingMode, _ = classes()
    seen: list[Sight] = []
    values = statements.tensors(expression, False, device)
    given = {**values, **_first(values, Tagged)}
    contexts = {"autocast": lambda: torch.autocast(device), MODE: lambda: LoggingMode(seen)}
    why = "; ".join(witness.missing())
    with ExitStack() as stack:
        stack.enter_context(keeping(seen))
        for op in () if why else OPS[expression]:
            stack.enter_context(witness.witness(op, own_kernels(op, device), seen))
        with ExitStack() as modes:
            for name in entered:
                modes.enter_context(contexts[name]())
            value = statements.evaluate(expression, given)
    with torch.autocast(device):
        plain = statements.evaluate(expression, values)
    return Stack(expression, tuple(entered), tuple(seen), _result(value, plain), why)


def two_modes(device: str = "cpu") -> tuple[str, ...]:
    """Who sees an add first, of two logging modes that share the Python key: "outer" was entered first, "inner" inside it."""
    _, LoggingMode, _ = classes()
    seen: list[Sight] = []
    values = statements.tensors("a + b", False, device)
    with LoggingMode(seen, "outer"), LoggingMode(seen, "inner"):
        statements.evaluate("a + b", values)
    return tuple(sight.key for sight in seen)


def own_kernels(op: str, device: str = "cpu") -> tuple[str, ...]:
    """Those of the keys autocast, autograd and backend of a device at which the op has a kernel of its own: it does not fall
    through there, and does not become other ops."""
    backend = BACKENDS[device]
    rows = {row.key: row for row in key_sets.table(op)}
    wanted = (rows[key] for key in (backend, f"Autograd{backend}", f"Autocast{backend}") if key in rows)
    return tuple(row.key for row in wanted if not row.fallthrough and row.kind != "math kernel")


def compiled(expressions: Sequence[str] = tuple(OPS), device: str = "cpu") -> Compiled:
    """Compile the expressions as one function and call it: some 2 to 5 s. What torch.compile has kept is thrown away before and
    after, so that a cell runs twice alike. Raises RuntimeError where this torch cannot compile here."""
    import torch

    Tagged, LoggingMode, _ = classes()
    values = {name: value for one in expressions for name, value in statements.tensors(one, False, device).items()}
    given = dict(values)
    for one in expressions:
        given |= _first({name: values[name] for name in statements.names(one)}, Tagged)
    graph: list[str] = []
    inside: list[Sight] = []

    def run(module, *arguments):
        with LoggingMode(inside):
            return module(*arguments)

    function = _function(expressions, tuple(given))
    torch.compiler.reset()
    fast = torch.compile(function, backend=seams.graph_backend(graph, run))
    while_compiling: list[Sight] = []
    per_call: list[Sight] = []
    outside: list[Sight] = []
    with torch.autocast(device):
        start = time.perf_counter()
        with keeping(while_compiling):
            results = fast(*given.values())
        seconds = time.perf_counter() - start
        inside.clear()
        with keeping(per_call):
            results = fast(*given.values())
        sights = tuple(inside)
        with LoggingMode(outside):
            again = fast(*given.values())
        plain = function(*values.values())
    torch.compiler.reset()
    return Compiled(
        expressions=tuple(expressions),
        seconds=seconds,
        while_compiling=tuple(while_compiling),
        per_call=tuple(per_call),
        graph=tuple(graph),
        inside=sights,
        outside=tuple(outside),
        node_outside=_node(again[0]),
        results=tuple(_result(value, one) for value, one in zip(results, plain, strict=True)),
    )


def try_compiled(device: str = "cpu") -> tuple[Compiled | None, str]:
    """(`compiled`, ""), or (None, why torch.compile cannot be used here, in words)."""
    import torch

    try:
        return compiled(device=device), ""
    except Exception as error:  # whatever torch.compile dislikes about a system is a reason for a table, and no end of a lesson
        said = str(error).strip().splitlines()
        return None, f"torch {torch.__version__}: {type(error).__name__}: {said[0] if said else 'it says nothing more'}"


def _function(expressions: Sequence[str], names: Sequence[str]):
    """The expressions as one Python function of the named tensors, in source: torch.compile reads functions, not eval."""
    source = f"lambda {', '.join(names)}: ({', '.join(expressions)},)"
    return eval(compile(source, "<expressions>", "eval"), {})  # noqa: S307  (OPS' own expressions)


def _first(values: dict, Tagged: type) -> dict:
    """The first of the tensors as a subclass that needs grad."""
    name, value = next(iter(values.items()))
    return {name: Tagged(value).requires_grad_()}


def _result(value, plain) -> Result:
    import torch

    inner = getattr(value, "inner", value)
    same = inner.dtype == plain.dtype and torch.equal(inner.detach(), plain)
    return Result(type(value).__name__, str(value.dtype).removeprefix("torch."), _node(value), same)


def _node(value) -> str:
    return "" if value.grad_fn is None else value.grad_fn.name()


def _name(function) -> str:
    return str(function).removeprefix("aten.").removesuffix(".default")


@contextmanager
def keeping(seen: MutableSequence[Sight]) -> Iterator[None]:
    """While this is entered the subclass writes down into `seen`; otherwise what it sees is thrown away."""
    Tagged = classes()[0]
    before, Tagged.seen = Tagged.seen, seen
    try:
        yield
    finally:
        Tagged.seen = before


@cache
def classes() -> tuple[type, type, type]:
    """(Tagged, a wrapper subclass; LoggingMode; Passing, a mode that does nothing), made when torch is there."""
    import torch

    TorchDispatchMode = seams.dispatch_mode()

    class Tagged(torch.Tensor):
        """Holds a tensor and behaves like it; `seen` (of the class) is where it writes down the ops that reach it."""

        seen: MutableSequence[Sight] = deque(maxlen=0)
        __torch_function__ = seams.no_torch_function()

        @staticmethod
        def __new__(cls, inner):
            return seams.wrapper_around(cls, inner)

        def __init__(self, inner):
            self.inner = inner

        def __repr__(self):
            return f"Tagged({self.inner!r})"

        def __tensor_flatten__(self):
            return ["inner"], None

        @staticmethod
        def __tensor_unflatten__(inner, meta, size, stride):
            return Tagged(inner["inner"])

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            cls.seen.append(Sight(SUBCLASS, _name(func), witness.kinds(args)))
            opened = seams.over_all(lambda t: t.inner if isinstance(t, cls) else t, (args, kwargs or {}))
            out = func(*opened[0], **opened[1])
            return seams.over_all(lambda t: cls(t) if isinstance(t, torch.Tensor) else t, out)

    class LoggingMode(TorchDispatchMode):
        """Writes down every op that reaches it and lets it pass."""

        def __init__(self, seen: list, name: str = MODE):
            super().__init__()
            self.seen, self.name = seen, name

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.seen.append(Sight(self.name, _name(func), witness.kinds(args)))
            return func(*args, **(kwargs or {}))

    class Passing(TorchDispatchMode):
        """Lets every op pass."""

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    return Tagged, LoggingMode, Passing
