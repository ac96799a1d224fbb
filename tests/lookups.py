"""Made-up findings about the dispatcher for tests: key sets, chains, stacks, prices, counts."""

from __future__ import annotations

from tests.factories import make_race
from tests.traces import key_sets
from utils.measure import dispatcher
from utils.measure.dispatcher import Lookup
from utils.measure.key_sets import Registration, TableRow, ThreadSets
from utils.measure.layers import MODE, SUBCLASS, Compiled, Result, Stack
from utils.measure.witness import Sight
from utils.show import lesson02

BOTH = ("CPU", "ADInplaceOrView", "AutogradCPU", "AutocastCPU")
PRIORITY = ("CPU", "BackendSelect", "Python", "ADInplaceOrView", "AutogradCPU", "AutocastCPU", "PythonTLSSnapshot")


def samples(**changes) -> dict:
    held = dict.fromkeys((*lesson02.DTYPES, "requires grad"), BOTH)
    return {**held, "sparse": ("SparseCPU", *BOTH[1:]), "meta": ("Meta",), "made in inference_mode": ("CPU",), **changes}


def moments(inside_excludes=(), first="AutogradCPU", after=("AutocastCPU",)) -> tuple[ThreadSets, ...]:
    before = ThreadSets("before", ("BackendSelect",), ("AutocastCPU",), "AutogradCPU")
    inside = ThreadSets("inside", ("BackendSelect",), tuple(inside_excludes), first)
    return before, inside, ThreadSets("after", ("BackendSelect",), tuple(after), "AutogradCPU")


def looked_up(state="plain", highest="AutogradCPU", ran=None, missing="", expression="a + b", **sets) -> Lookup:
    keys = key_sets(highest, priority=PRIORITY, **sets)
    derived = tuple(reversed(keys.final))
    return Lookup(
        expression, "aten::add.Tensor", state, keys, derived, () if missing else derived if ran is None else ran, missing
    )


def inference(**changes) -> Lookup:
    sets = {"with_thread": ("CPU", "ADInplaceOrView"), "masked": ("ADInplaceOrView",), "final": ("CPU",)}
    return looked_up("inference_mode", **{"highest": "CPU", **sets, **changes})


def blind(state="plain") -> Lookup:
    return Lookup("a + b", "aten::add.Tensor", state, None, (), (), "torch 9.0 no longer has the table")


def looked() -> dict[str, Lookup]:
    return {"plain": looked_up(), "no_grad": looked_up("no_grad"), "inference_mode": inference()}


def stack(*keys: str, expression="a + b", dtype="float32", same=True, missing="") -> Stack:
    sights = tuple(Sight(key, "add.Tensor", ("Tagged float32", "float32")) for key in keys)
    return Stack(expression, ("autocast", MODE), sights, Result("Tagged", dtype, "AddBackward0", same), missing)


def four() -> tuple[Stack, Stack, Stack]:
    add = stack("AutogradCPU", MODE, SUBCLASS, "CPU")
    product = stack("AutocastCPU", "AutogradCPU", MODE, SUBCLASS, "CPU", expression="x @ w", dtype="bfloat16")
    return add, product, add


def compiled(while_compiling=16, per_call=0, node="CompiledFunctionBackward", same=True, outside="AddBackward0") -> Compiled:
    def sights(n):
        return tuple(Sight(SUBCLASS, "mm", ("Tagged float32", "FakeTensor float32")) for _ in range(n))

    return Compiled(
        expressions=("a + b", "x @ w"),
        seconds=1.0,
        while_compiling=sights(while_compiling),
        per_call=sights(per_call),
        graph=("add.Tensor", "_to_copy", "mm"),
        inside=(Sight(MODE, "mm", ("bfloat16",)),) * 3,
        outside=(Sight(MODE, "mm", ("bfloat16",)),) * 5,
        node_outside=outside,
        results=(Result("Tagged", "float32", node, True), Result("Tagged", "bfloat16", node, same)),
    )


def race(**changes):
    prices = {
        "plain": 1000.0,
        "no_grad": 1000.0,
        "inference_mode": 800.0,
        "autocast": 1001.0,
        "product": 1400.0,
        "product, autocast": 3400.0,
        "subclass without code": 5000.0,
        "dispatch mode": 4500.0,
        "meta": 80000.0,
    }
    return make_race(prices={**prices, **changes}, seed=3)


def counts(**changes) -> dict:
    total = {"plain": 9600.0, "no_grad": 9605.0, "inference_mode": 8000.0, "dispatch mode": 35000.0, "product": 11800.0}
    hop = {name: {"call": 75.0, "redispatch": 64.0} for name in ("plain", "no_grad")}
    hop["inference_mode"] = {"call": 75.0, "redispatch": 0.0}
    hop |= {code: {"call": 61.0 + 6 * n, "redispatch": 60.0} for code, n in dispatcher.TENSORS.items()}
    return {"total": total, "hop": {**hop, **changes}}


ROWS = (
    TableRow("CPU", "kernel", "RegisterCPU_0.cpp:1", False),
    TableRow("CUDA", "default backend kernel", "Composite_0.cpp:1", False),
    TableRow("HIP", "default backend kernel", "Composite_0.cpp:1", False),
    TableRow("Meta", "kernel", "_meta_registrations.py:5", False),
    TableRow("ADInplaceOrView", "backend fallback", "Fallback.cpp:1", True),
    TableRow("AutogradCPU", "autograd kernel", "VariableType_2.cpp:1", False),
    TableRow("AutocastCPU", "backend fallback", "autocast_mode.cpp:1", True),
    TableRow("Tracer", "math kernel", "Trace.cpp:1", False),
)
REGISTERED = (
    Registration("CPU", False, True, "RegisterCPU_0.cpp:1"),
    Registration("Meta", False, False, "RegisterMeta_0.cpp:9"),
    Registration("Autograd", True, True, "VariableType_2.cpp:1"),
)


def measured() -> dict:
    """What lesson 02 has found when its checks run, by the names that its cells give it."""
    hits, lifted = dict.fromkeys(lesson02.DTYPES, 1), {"plain": 0, "autocast": 1}
    around = {"autocast": moments(), "no_grad": moments(("AutocastCPU",))}
    runs = [*looked().values(), looked_up("autocast", with_thread=BOTH, masked=("ADInplaceOrView", "AutocastCPU"))]
    given = {"held": samples(), "hits": hits, "around": around, "autocast_hits": lifted, "lookups": runs, "device": "cpu"}
    return {"given": given, "stacks": four(), "compiled": compiled(), "race": race(), "rows": ROWS, "counts": counts()}


def judged(found: dict) -> dict:
    """The numbers that the lesson's judging cells take, of what `measured` gives."""
    return {
        "numbers": lesson02.looked(**found["given"]),
        "stacked": lesson02.stacked(*found["stacks"], found["compiled"], "", "cpu"),
        "race": found["race"],
        "priced": lesson02.meta_price(found["race"], found["rows"]),
        "counted": lesson02.counted(found["counts"], ""),
    }
