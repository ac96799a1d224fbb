"""The dispatcher of one add, measured: which keys are looked up and who is reached, and what each layer around the op costs.

`lookups` derives the chain of keys in several states of the thread and lets witnesses confirm it; `price_layers` races the add
below one layer at a time; `count_layers` counts the same in instructions. `PARTS` is what a recording holds.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from utils.measure import callgrind, key_sets, layers, seams, statements, tools, witness
from utils.measure.callgrind import Statement
from utils.measure.key_sets import KeySets, ThreadSets
from utils.measure.stopwatch import time_host
from utils.measure.study import Part
from utils.model import studies
from utils.model.quantities import NotMeasured
from utils.model.readings import Race

Progress = Callable[[float, str], None]
OP_OF = {"a + b": "aten::add.Tensor", "x @ w": "aten::matmul", "a.add_(b)": "aten::add_.Tensor", "torch.relu(a)": "aten::relu"}
STATES = ("plain", "no_grad", "inference_mode", "autocast", layers.MODE)


@dataclass(frozen=True)
class Lookup:
    """One op in one state of the thread: its key sets, and the keys at which witnesses saw it arrive, in order (`ran`).

    `derived` is the chain that the key sets promise: each layer, when it has had its turn, calls again with what is below, down
    to a kernel that computes, or that is made of other ops. `missing` is why nothing could be watched here ("" when it was).
    """

    expression: str
    op: str
    state: str
    keys: KeySets | None
    derived: tuple[str, ...]
    ran: tuple[str, ...]
    missing: str = ""

    @property
    def unmasked(self) -> str:
        """The first key if nobody took away the keys at which the op falls through; "" where nothing is known."""
        return "" if self.keys is None or not self.keys.with_thread else self.keys.with_thread[-1]


# ------------------------------------------------------------------------------------------------ keys


def state(name: str, device: str = "cpu") -> AbstractContextManager:
    """A fresh context that puts the thread into one of `STATES`. Raises ValueError for another name."""
    import torch

    makers: dict[str, Callable[[], AbstractContextManager]] = {
        "plain": nullcontext,
        "no_grad": torch.no_grad,
        "inference_mode": torch.inference_mode,
        "autocast": lambda: torch.autocast(device),
        layers.MODE: lambda: layers.classes()[1]([]),
    }
    if name not in makers:
        raise ValueError(f"there is no state {name!r}; there are {', '.join(makers)}")
    return makers[name]()


def samples(device: str = "cpu") -> dict[str, Any]:
    """Tensors that differ in one thing from the first, by what they differ in: for a look at their key sets."""
    import torch

    a = torch.rand(2, 2, device=device)
    with torch.inference_mode():
        inference = torch.rand(2, 2, device=device)
    plain_subclass = type("PlainSubclass", (torch.Tensor,), {})
    return {
        "float32": a,
        "bfloat16": a.to(torch.bfloat16),
        "int64": torch.randint(1, 9, (2, 2), device=device),
        "transposed": torch.rand(2, 2, device=device).t(),
        "requires grad": torch.rand(2, 2, device=device, requires_grad=True),
        "made in inference_mode": inference,
        "sparse": torch.rand(2, 2, device=device).to_sparse(),
        "meta": torch.rand(2, 2, device="meta"),
        "subclass without code": torch.rand(2, 2, device=device).as_subclass(plain_subclass),
        "subclass with __torch_dispatch__": layers.classes()[0](torch.rand(2, 2, device=device)),
    }


def sample_keys(device: str = "cpu") -> dict[str, tuple[str, ...]]:
    """The keys of each of `samples`, lowest priority first; {} where this torch does not tell."""
    rows = () if seams.dispatcher_missing() else key_sets.table(OP_OF["a + b"])
    everything = [row.key for row in rows]
    return {name: seams.keys_among(seams.key_set(t), everything) for name, t in samples(device).items()} if rows else {}


def lookup(expression: str = "a + b", name: str = "plain", *, device: str = "cpu", tensors: Mapping | None = None) -> Lookup:
    """Derive the chain of keys of one of `OP_OF` in one of `STATES`, and run it once with a witness at each of its keys.

    The witnesses stand at keys at which the op has a kernel: they change nothing. Raises ValueError for an unknown name.
    """
    if expression not in OP_OF:
        raise ValueError(f"{expression!r} is not among {', '.join(OP_OF)}")
    op, given = OP_OF[expression], dict(tensors or statements.tensors(expression, False, device))
    with state(name, device):
        keys = key_sets.read(op, given)
    rows = {row.key: row for row in key_sets.table(op)}
    chain = () if keys is None else _chain(keys, rows)
    if why := "; ".join(witness.missing()) or ("" if keys else f"the dispatcher tells nothing of {op}"):
        return Lookup(expression, op, name, keys, chain, (), why)
    stand = [key for key in dict.fromkeys((*keys.union, *keys.included)) if not rows[key].fallthrough]
    with witness.witness(op, stand) as seen, state(name, device):
        statements.evaluate(expression, given)
    return Lookup(expression, op, name, keys, chain, tuple(sight.key for sight in seen))


def _chain(keys: KeySets, rows: Mapping[str, key_sets.TableRow]) -> tuple[str, ...]:
    """The keys from the first down, as far as each kernel calls the same op again: one made of other ops does not."""
    out = []
    for key in reversed(keys.final):
        out.append(key)
        if rows[key].kind == "math kernel":
            break
    return tuple(out)


def lookups(expression: str = "a + b", *, device: str = "cpu", tensors: Mapping | None = None) -> dict[str, Lookup]:
    """`lookup` in every state."""
    return {name: lookup(expression, name, device=device, tensors=tensors) for name in STATES}


def around(name: str, tensors: Mapping[str, Any], device: str = "cpu") -> tuple[ThreadSets, ...]:
    """The thread's sets before, inside and after one of `STATES`, each with the first key of the add of the tensors then."""
    return key_sets.around(OP_OF["a + b"], tensors, lambda: state(name, device))


SECOND = ("float32", "made in inference_mode", "subclass with __torch_dispatch__")  # what the last argument may be, of `samples`


def reader(device: str = "cpu") -> Callable[[str, str, str], KeySets | None]:
    """A function (expression, state, last argument) → key sets, for one of `OP_OF` in one of `STATES`, its last tensor one of
    `SECOND`; nothing is run."""
    kinds = {name: tensor for name, tensor in samples(device).items() if name in SECOND}

    def read(expression: str, name: str, last: str) -> KeySets | None:
        given = statements.tensors(expression, False, device)
        given[list(given)[-1]] = kinds[last]
        with state(name, device):
            return key_sets.read(OP_OF[expression], given)

    return read


def without_fall_through(device: str = "cpu") -> dict[str, int]:
    """How often a witness at Autocast's key of the add is reached, plain and under autocast: it takes the fall-through away.
    {} where this torch allows no witness."""
    if witness.missing():
        return {}
    given = statements.tensors("a + b", False, device)
    hits = {}
    for name in ("plain", "autocast"):
        with witness.witness(OP_OF["a + b"], [f"Autocast{layers.BACKENDS[device]}"]) as seen, state(name, device):
            statements.evaluate("a + b", given)
        hits[name] = len(seen)
    return hits


def one_kernel_for_dtypes(device: str = "cpu") -> dict[str, int]:
    """How often one and the same function at the backend's key of add was reached, by dtype (and once transposed). {} where
    this torch allows no witness."""
    if witness.missing():
        return {}
    names = ("float32", "bfloat16", "int64", "transposed")
    hits = {}
    with witness.witness(OP_OF["a + b"], [layers.BACKENDS[device]]) as seen:
        for name, tensor in samples(device).items():
            if name in names:
                before = len(seen)
                tensor + tensor
                hits[name] = len(seen) - before
    return hits


def show_dispatch_trace() -> dict[str, Any]:
    """What TORCH_SHOW_DISPATCH_TRACE=1 prints for one add in a fresh process (some 3 s): {"printed": lines, "torch": version,
    "missing": why it could not be tried, "" when it was}."""
    import torch

    code = "import os; os.environ['TORCH_SHOW_DISPATCH_TRACE'] = '1'; import torch; a = torch.rand(1); a + a; print('added')"
    done, said = tools.run([sys.executable, "-c", code], seconds=300)
    tried = done and "added" in said
    lines = [line for line in said.splitlines() if re.match(r"\s*\[(re)?(call|dispatch)", line)]
    missing = "" if tried else f"the process did not end as it should: {said.strip().splitlines()[-1:]}"
    return {"printed": lines, "torch": str(torch.__version__), "missing": missing}


def seen(device: str = "cpu", progress: Progress | None = None) -> dict[str, Any]:
    """All that is looked up and watched, as plain data for a recording: the keys of `samples`, the chains of `lookups` (derived
    and ran) for each of `OP_OF`, arrivals at one kernel and at Autocast's key, the order of the layers, what compiling left."""
    report = progress or (lambda done, text: None)
    out: dict[str, Any] = {"keys": {name: list(keys) for name, keys in sample_keys(device).items()}}
    out["chains"] = {}
    for at, expression in enumerate(OP_OF):
        report(0.1 + 0.1 * at, expression)
        for name, one in lookups(expression, device=device).items():
            out["chains"][f"{expression}, {name}"] = {"derived": list(one.derived), "ran": list(one.ran), "missing": one.missing}
    out["arrivals by dtype"] = one_kernel_for_dtypes(device)
    out["arrivals at Autocast's key of add"] = without_fall_through(device)
    report(0.6, "layers")
    for expression in layers.OPS:
        out[f"layers of {expression}"] = list(layers.stacked(expression, device).order)
    out["two modes"] = list(layers.two_modes(device))
    report(0.7, "compiling")
    compiled, why = layers.try_compiled(device)
    out["compiled"] = (
        {"missing": why}
        if compiled is None
        else {
            "graph": list(compiled.graph),
            "seen while compiling": len(compiled.while_compiling),
            "seen per call": len(compiled.per_call),
            "node outside": compiled.node_outside,
            "results": [vars(one) for one in compiled.results],
        }
    )
    return out


# ------------------------------------------------------------------------------------------------ the price in time


def price_layers(device: str = "cpu", progress: Progress | None = None, *, blocks: int = 40) -> Race:
    """ns a call of the add (one element) in each state and below each layer, and of a product with and without autocast; all in
    one race. On CUDA what the host pays until the launch has returned."""
    import torch

    a, b, x, w = (torch.rand(shape, device=device) for shape in ((1,), (1,), (4, 4), (4, 4)))
    g, h = torch.rand(1, device=device, requires_grad=True), torch.rand(1, device=device)
    s = a.as_subclass(type("PlainSubclass", (torch.Tensor,), {}))
    Tagged, _, Passing = layers.classes()
    wrapped = Tagged(torch.rand(1, device=device))
    m, n = torch.rand(1, device="meta"), torch.rand(1, device="meta")
    fake = seams.fake_mode()
    f, e = fake.from_tensor(a), fake.from_tensor(b)

    def add():
        return a + b

    variants = {
        "plain": add,
        "no_grad": add,
        "inference_mode": add,
        "with grad": lambda: g + h,
        "autocast": add,
        "product": lambda: x @ w,
        "product, autocast": lambda: x @ w,
        "subclass without code": lambda: s + b,
        "function mode": add,
        "dispatch mode": add,
        "subclass with __torch_dispatch__": lambda: wrapped + b,
        "meta": lambda: m + n,
        "fake": lambda: f + e,
    }
    inside = {
        "no_grad": torch.no_grad,
        "inference_mode": torch.inference_mode,
        "autocast": lambda: state("autocast", device),
        "product, autocast": lambda: state("autocast", device),
        "function mode": _function_mode(),
        "dispatch mode": Passing,
    }
    return time_host(variants, device=device, inside=inside, blocks=blocks, progress=progress)


def _function_mode() -> type:
    from torch.overrides import TorchFunctionMode

    class PassingFunctions(TorchFunctionMode):
        """Lets every function of torch pass."""

        def __torch_function__(self, function, types, args=(), kwargs=None):
            return function(*args, **(kwargs or {}))

    return PassingFunctions


# ------------------------------------------------------------------------------------------------ the price in instructions

TENSORS = {"torch.neg(a)": 1, "torch.maximum(a, b)": 2, "torch.lerp(a, b, d)": 3}  # ops of so many tensors and nothing else
MAKE = "a, b, d = torch.rand(1), torch.rand(1), torch.rand(1)"
MAKE_PRODUCT = "x, w = torch.rand(4, 4), torch.rand(4, 4)"
FEW_ROUNDS = 25  # a Python mode runs some ten times as many instructions as the add
MODES = {
    "no_grad": (MAKE, "torch.no_grad()"),
    "inference_mode": (MAKE, "torch.inference_mode()"),
    "autocast": (MAKE, "torch.autocast('cpu')"),
    "product, autocast": (MAKE_PRODUCT, "torch.autocast('cpu')"),
    "function mode": (MAKE, "dispatcher._function_mode()()"),
    "dispatch mode": (MAKE, "layers.classes()[2]()"),
}
OTHERS = {  # other tensors instead of a mode; all of them end in Python
    "subclass without code": f"{MAKE}\na = a.as_subclass(type('PlainSubclass', (torch.Tensor,), {{}}))",
    "subclass with __torch_dispatch__": f"{MAKE}\nfrom utils.measure import layers\na = layers.classes()[0](a)",
    "meta": "a, b = torch.rand(1, device='meta'), torch.rand(1, device='meta')",
}
HOP_PARTS = ("call", "redispatch")


def count_statements() -> list[Statement]:
    """What is counted: the add in each state and of each kind of tensor, the product, ops of one, two and three tensors."""
    out = [
        Statement("plain", "c = a + b", MAKE),
        Statement("with grad", "c = a + b", f"{MAKE}\na.requires_grad_()"),
        Statement("product", "c = x @ w", MAKE_PRODUCT),
    ]
    for name, (make, mode) in MODES.items():
        setup = f"{make}\nfrom utils.measure import dispatcher, layers\nmode = {mode}\nmode.__enter__()"
        rounds = FEW_ROUNDS if name.endswith("mode") and name != "inference_mode" else None
        code = "c = x @ w" if name.startswith("product") else "c = a + b"
        out.append(Statement(name, code, setup, teardown="mode.__exit__(None, None, None)", most_rounds=rounds))
    out += [Statement(name, "c = a + b", setup, most_rounds=FEW_ROUNDS) for name, setup in OTHERS.items()]
    return out + [Statement(code, f"c = {code}", MAKE) for code in TENSORS]


def count_layers(device: str = "cpu", progress: Progress | None = None) -> dict[str, Any]:
    """Instructions of each of `count_statements`, by callgrind in a child process (2 to 3 minutes).

    {"total": {statement: instructions an op}, "hop": {statement: {"call": …, "redispatch": …}}}: the second is what the functions
    that unite the key sets and call the kernel take themselves (`at::_ops::NAME::call` and `::redispatch`, all of one op
    together), 0 where they did not run. Raises CallgrindError, in words, where nothing can be counted.
    """
    trees = callgrind.count(count_statements(), progress)
    return {
        "total": {name: round(tree.total, 1) for name, tree in trees.items()},
        "hop": {name: _hop(tree.self_cost) for name, tree in trees.items()},
    }


def _hop(own: Mapping[str, float]) -> dict[str, float]:
    """The dispatcher's own part of one op, by the two ways in."""
    out = dict.fromkeys(HOP_PARTS, 0.0)
    for function, cost in own.items():
        head, _, _ = function.partition("(")
        for part in HOP_PARTS:
            if "at::_ops::" in head and head.endswith(f"::{part}"):
                out[part] += round(cost, 1)
    return out


def instructions(*, live: bool = False, progress: Progress | None = None) -> tuple[dict | None, str, str]:
    """(what `count_layers` gives, its label, why there is none): the recorded counts, or with `live` those counted here.

    Never raises: where a live count cannot be had the recorded one is given, and the label says why.
    """
    why = ""
    if live:
        try:
            import torch

            return count_layers("cpu", progress), f"live · torch {torch.__version__}", ""
        except callgrind.CallgrindError as error:
            why = f"not counted here: {error}"
    part, label, missing = kept("instructions", "cpu")
    return part, " · ".join(filter(None, [label, why])), missing and " · ".join(filter(None, [why, missing]))


def kept(part: str, device: str) -> tuple[Any, str, str]:
    """(a part of the newest study recorded on this device, its label, why there is none); None where it is missing."""
    found = studies.best("dispatcher", device)
    if found is None:
        return None, "", f"no study of the dispatcher is recorded on {device}"
    try:
        return found.part(part), found.label(), ""
    except NotMeasured as reason:
        return None, "", str(reason)


PARTS = {
    "seen": Part(seen),
    "layers": Part(price_layers, weight=2.0),
    "instructions": Part(count_layers, devices=("cpu",), weight=8.0),
}
