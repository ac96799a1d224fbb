"""Made-up parts of the study "autograd" for tests: small, with round numbers, shaped as torch 2.11 and 2.13 give them.

Numbers that no test depends on are drawn at random (seeded), so that nothing holds because everything is equal.
"""

from __future__ import annotations

import copy
import random

from tests.factories import WHERE as FACTORY
from utils.measure.grad_prices import BACKWARD, DROPPED, FORWARD, HELD, KEPT, PLAIN
from utils.measure.memory_of_modes import GRAD, INFERENCE, NO_GRAD
from utils.measure.saved_tensors import BOTH, FIRST, SECOND
from utils.model.readings import Race, Reading
from utils.model.studies import Study

WHERE = FACTORY["cuda"]
EXP, SIN, ADD, DATA = "y = x.exp(); y.add_(1)", "y = x.sin(); y.add_(1)", "y = x + 2; y.add_(1)", "y = x.exp(); y.data.add_(1)"
CHANGED = (
    "one of the variables needed for gradient computation has been modified by an inplace operation: [torch.FloatTensor [4]], "
    "which is output 0 of Exp, is at version 1; expected version 0 instead. Hint: enable anomaly detection"
)
REFUSED = "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode"


def race(prices: dict[str, float], control: str, *, device: str = "cpu", seed: int = 5) -> Race:
    """Readings of 40 blocks around the given prices (ns), the control twice."""
    rng = random.Random(seed)
    again = f"{control} (again)"
    named = {**prices, again: prices[control]}
    readings = {n: Reading(n, tuple(ns * (1 + 0.002 * rng.random()) for _ in range(40)), 100) for n, ns in named.items()}
    return Race(readings, (control, again), device=device)


def steps(**shares: float) -> dict[str, Race]:
    """Races of two steps: `small` and `large` are the shares that inference_mode saves."""
    given = {"small": 0.25, "large": 0.0, **shares}
    found = {}
    for name, key, ns in (("MLP, batch 1", "small", 80_000.0), ("wide MLP, batch 512", "large", 8_000_000.0)):
        less = ns * (1 - given[key])
        found[name] = race({GRAD: ns, NO_GRAD: less * 1.0001, INFERENCE: less}, GRAD)
    return found


def chains(forward: float = 2000.0, backward: float = 2600.0) -> dict:
    prices = {f"add, {PLAIN}": 1500.0, f"add, {FORWARD}": forward, f"add, {BACKWARD}": backward}
    prices |= {f"mul, {PLAIN}": 1510.0, f"mul, {FORWARD}": 2100.0, f"mul, {BACKWARD}": 3900.0}
    return {"per_op": race(prices, f"add, {FORWARD}"), "start": 25_000.0}


def results(kept: float = 1900.0, dropped: float = 2600.0, held: float = 1940.0) -> Race:
    return race({KEPT: kept, DROPPED: dropped, HELD: held}, KEPT)


def kept() -> dict:
    """What torch keeps: sizes as in `saved_tensors` (x 8,192 bytes, w 4,096)."""
    cases = {}
    for op, pair, sizes, node, result in (
        ("x @ w", ("x", "w"), {"x": 8192, "w": 4096}, "MmBackward0", 2048),
        ("x + y", (), {}, "AddBackward0", 8192),
        ("x * y", ("x", "y"), {"x": 8192, "y": 8192}, "MulBackward0", 8192),
    ):
        for needs, names in ((BOTH, pair), (FIRST, pair[1:]), (SECOND, pair[:1])):
            cases[f"{op}, {needs}"] = {
                "op": op,
                "needs": needs,
                "kept": sorted(names),
                "bytes": sum(sizes[n] for n in names),
                "result_bytes": result,
                "node": node,
            }
    for op, what, node in (("relu(x)", "result", "ReluBackward0"), ("gelu(x)", "x", "GeluBackward0")):
        one = {"op": op, "needs": FIRST, "kept": [what], "bytes": 8192, "result_bytes": 8192, "node": node}
        cases[f"{op}, {FIRST}"] = one
    counts = {"a": 1, "b": 1, "after a": 1, "after b": 1}
    handles = {"a + b": counts, "a * b": {**counts, "a": 2, "b": 2}, "a * b, only a needs a gradient": {**counts, "after b": 0}}
    return {"cases": cases, "same_memory": {"object": False, "memory": True}, "handles": handles}


def memory(*, grad: int = 3072, without: int = 2048) -> dict:
    """Bytes that grow with the batch; `grad` and `without` are the MLP's peaks a row."""
    models = {}
    for name, row, parameters in (("MLP", 2304, 400_000), ("transformer block", 66_048, 200_000)):
        batches = {str(n): {"held": row * n, "saved": (row - 256) * n, "result": 256 * n} for n in (1, 4, 16, 64)}
        models[name] = {"parameters": parameters, "batches": batches}
    peaks = {f"batch {n}": _modes(grad * n, without * n) for n in (1, 4, 16, 64)}
    peaks["a + b"] = _modes(4096, 4096)
    faults = {"MLP, batch 1": {GRAD: 118.0, NO_GRAD: 0.0, INFERENCE: 0.0}}
    return {"activations": models, "peaks": {"parameters": 400_000, "peaks": peaks}, "page_faults": faults}


def _modes(grad: int, without: int) -> dict:
    return {GRAD: {"tensors": grad}, NO_GRAD: {"tensors": without}, INFERENCE: {"tensors": without}}


def rules() -> dict:
    in_place = ("t.add_(1)", "torch.add(t, 1, out=t)", "t.add_(1) under no_grad", "t[:2].add_(1)", "t.detach().add_(1)")
    return {
        "bumps": {"t + 1": 0, **dict.fromkeys(in_place, 1), "t.data.add_(1)": 0},
        "changed": {EXP: CHANGED, SIN: "", ADD: "", DATA: ""},
        "silently_wrong": 1.0,
        "inference": {"t + g": "", "t * g": REFUSED, "t.add_(1)": "Inplace update is not allowed.You can make a clone"},
        "inference_node": "AddBackward0",
        "views_tracked": {"a view": True, "a view under no_grad": True, "a view of an inference tensor": False},
        "accumulator_lives": {KEPT: True, DROPPED: False, HELD: True},
    }


def ops(**backward: int) -> dict:
    """Counts of both passes; `add`, `product`, `mlp` set the backward's."""
    given = {"add": 0, "product": 2, "mlp": 10, **backward}
    rows = {"a + b": (1, given["add"]), "a @ b": (1, given["product"]), "relu(a)": (1, 1), "MLP": (5, given["mlp"])}
    return {
        name: {
            "forward": f,
            "backward": b,
            "ratio": b / f,
            "ops": {
                "name": name,
                "forward": {"computing": ["op"] * f, "views": []},
                "backward": {"computing": ["mm.default"] * b},
            },
        }
        for name, (f, b) in rows.items()
    }


def compiled(after: int = 1, eager: int = 5) -> dict:
    end = {"name": "AccumulateGrad", "leaf": "x", "edges": [], "saved": {}}

    def nodes(names: list[str]) -> dict:
        inner = [{"name": n, "leaf": "", "edges": [], "saved": {"self": "tensor 8×8"}} for n in names]
        return {"expression": "(x @ w).sum()", "nodes": [*inner, end]}

    return {
        "eager": nodes([f"Op{n}Backward0" for n in range(eager)]),
        "compiled": nodes(["CompiledFunctionBackward"] * after),
        "eager_nodes": eager,
        "compiled_nodes": after,
        "forward_ops": ["mm.default", "sum.default"],
        "backward_ops": ["expand.default", "mm.default", "mm.default"],
        "same": True,
    }


def counted() -> dict[str, float]:
    totals = {"a + b": (11_000.0, 9_800.0, 7_900.0), "a * b": (11_900.0, 9_790.0, 7_800.0)}
    found = {f"{op}, {mode}": n for op, each in totals.items() for mode, n in zip((GRAD, NO_GRAD, INFERENCE), each, strict=True)}
    steps = {1: (250_000.0, 220_000.0, 218_000.0), 16: (720_000.0, 690_000.0, 688_000.0)}
    for n, each in steps.items():
        found |= {f"MLP, batch {n}, {mode}": total for mode, total in zip((GRAD, NO_GRAD, INFERENCE), each, strict=True)}
    return {**found, f"a + b, {DROPPED}": 16_000.0}


def parts() -> dict:
    """All parts, as a lesson has them when its claims are shown."""
    return {
        "steps": steps(),
        "chains": chains(),
        "results": results(),
        "memory": memory(),
        "kept": kept(),
        "rules": rules(),
        "ops": ops(),
        "compiled": compiled(),
    }


def study(device: str = "cuda", **changes) -> Study:
    """A recorded study of another machine; `changes` replace parts, None takes one out."""
    having = {**parts(), **changes}
    return Study("autograd", device, "2026-11-30T00:00:00+00:00", WHERE, {k: v for k, v in having.items() if v is not None})


def changed(part: dict, *path: str, to) -> dict:
    """A copy of a part with one value replaced."""
    out = copy.deepcopy(part)
    inner = out
    for key in path[:-1]:
        inner = inner[key]
    assert path[-1] in inner, f"nothing of that name to change: {path}"
    inner[path[-1]] = to
    return out
