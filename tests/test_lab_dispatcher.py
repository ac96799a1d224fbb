"""Lab 3's world: its keys are torch's in torch's order, its rules are torch's, and nothing constant earns a point on it."""

from __future__ import annotations

import itertools
import random
import threading

import pytest

from grading import course, fast
from grading.rebuild import rebuilt
from grading.score import total
from utils.labs import cells
from utils.labs.dispatcher import (
    BACKEND_OF,
    EVERY,
    FALLTHROUGH,
    RUNTIME,
    DispatchKey,
    NoKernel,
    Operator,
    Tensor,
    bits,
    in_another_thread,
    marked,
    name_of,
    names,
    real_calls,
    right,
    unboxed,
)
from utils.measure import seams

LAB = "lab03_dispatcher"
RNG = random.Random(33)
SETS = [0, EVERY, *(RNG.randrange(EVERY) for _ in range(40))]


def solved(*ids: str) -> dict:
    """What the cells of these ids define in the solution, after its imports."""
    namespace: dict = {"__name__": "__main__"}
    for cell in cells.read(course.source(LAB))["cells"]:
        if cell["id"] in ("imports", *ids):
            exec(compile(cells.source(cell), cell["id"], "exec"), namespace)  # noqa: S102  (committed cells)
    return namespace


# ------------------------------------------------------------------------------------------------ sets, keys, operators


def test_a_key_set_is_read_as_it_was_written():
    for keys in SETS:
        assert bits(*names(keys)) == keys
        assert list(names(keys)) == sorted(names(keys), key=lambda name: DispatchKey[name])
    assert names(1 << 40) == ("bit 40",)


@pytest.mark.parametrize(
    ("wrong", "error"), [({1}, TypeError), (True, TypeError), (1.0, TypeError), (None, TypeError), (-1, ValueError)]
)
def test_what_is_no_key_set_is_refused(wrong, error):
    with pytest.raises(error, match="key set"):
        names(wrong)


def test_an_alias_has_no_bit():
    for alias in set(DispatchKey) - set(RUNTIME):
        with pytest.raises(KeyError, match="alias"):
            bits(alias.name)


def test_a_key_is_named_by_itself_or_its_number():
    for key in DispatchKey:
        assert name_of(key) == name_of(int(key)) == key.name
    assert name_of(None) == "no key" and name_of(-1) == "no key has the number -1"
    for wrong in (True, 1.0, "CPU", type("Sly", (int,), {})(3)):
        with pytest.raises(TypeError):
            name_of(wrong)


def test_an_operator_knows_where_it_falls_through():
    through = set(RNG.sample(RUNTIME, 4))
    op = Operator("f", {key: FALLTHROUGH if key in through else marked("k") for key in RUNTIME})
    assert {key for key in RUNTIME if op.fallthrough >> key & 1} == through
    assert Operator("f").fallthrough == 0 and Operator("f").table == {}


def test_another_thread_is_another_and_its_errors_come_here():
    assert in_another_thread(threading.get_ident) != threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        in_another_thread(lambda: 1 // 0)


def test_a_boxed_kernel_is_called_unboxed():
    def reverse(op, keys, stack):
        stack.reverse()

    assert unboxed(reverse, Operator("f"))(0, 1, 2) == (2, 1)
    assert unboxed(reverse, Operator("f"))(0, 1) == 1
    assert unboxed(reverse, Operator("f"))(0) is None


# ------------------------------------------------------------------------------------------------ the finished parts


def test_the_finished_parts_are_right():
    """Against the same in other words: the parts go over bits one by one, here the whole ints are used."""
    for a, b in itertools.pairwise(SETS):
        tensors = (Tensor(1.0, a), 2.0, [Tensor(1.0, b), None])
        assert right.key_set(tensors) == a | b
        assert right.highest(a) == (a.bit_length() - 1 if a else None)
        tls = Operator("any object")
        tls.include, tls.exclude = b, a & 0b1010101
        assert right.effective(a, tls) == (a | b) & ~tls.exclude
        for key in RUNTIME:
            assert right.keys_below(a, key) == a & (1 << key) - 1


def test_the_finished_choice_falls_through_and_refuses():
    cpu = marked("cpu")
    op = Operator("f", {DispatchKey.CPU: cpu, DispatchKey.Python: FALLTHROUGH})
    assert right.choose(op, bits("CPU", "Python")) == (DispatchKey.CPU, cpu)
    assert right.redispatch(op, bits("CPU", "Python"), (1, 2)) == ("cpu", bits("CPU", "Python"), (1, 2))
    for keys in (0, bits("Python"), bits("CPU", "AutogradCPU")):
        with pytest.raises(NoKernel):
            right.choose(op, keys)


# ------------------------------------------------------------------------------------------------ against torch


def test_the_keys_are_torchs_in_torchs_order():
    order = [line.split(":")[0] for line in seams.dispatch_table("aten::add.Tensor").splitlines()]
    assert [name for name in order if name in DispatchKey.__members__] == [key.name for key in RUNTIME]


def test_the_same_choice_as_torch_and_not_without_the_mask():
    calls = list(real_calls())
    assert len(calls) == 6 and len({real.choice for real in calls}) == 3
    unmasked = []
    for real in calls:
        keys = (right.key_set(real.arguments) | real.include) & ~real.exclude
        key, kernel = right.choose(real.op, keys)
        assert real.name(key) == real.choice and kernel is not FALLTHROUGH
        unmasked.append(real.name(right.highest(keys)) == real.choice)
    assert not all(unmasked), "without fall-through the choice would have been another: the comparison can fail"


KINDS = {
    "kernel": "the key itself",
    "default backend kernel": DispatchKey.CompositeExplicitAutograd,
    "math kernel": DispatchKey.CompositeImplicitAutograd,
    "autograd kernel": DispatchKey.Autograd,
}
MAY_REGISTER = [DispatchKey.CPU, DispatchKey.Meta, DispatchKey.AutogradCPU, DispatchKey.AutogradCUDA, *list(DispatchKey)[-3:]]


def test_the_rules_of_exercise_5_are_torchs():
    """Ops with kernels at random keys, made in torch: at each key stands what the solution says."""
    import torch

    resolve = solved("aliases")["resolve"]
    seen = set()
    for n in range(24):
        registered = [key for key in MAY_REGISTER if RNG.random() < 0.45]
        library = torch.library.Library("lab_three", "FRAGMENT")
        try:
            library.define(f"f{n}(Tensor a) -> Tensor")
            for key in registered:
                library.impl(f"f{n}", lambda a: a, key.name)
            rows = dict(line.split(":", 1) for line in seams.dispatch_table(f"lab_three::f{n}").splitlines())
        finally:
            library._destroy()
        fallbacks = {key: "backend fallback" for key in RUNTIME if key is not DispatchKey.CPU and key is not DispatchKey.CUDA}
        for key in {*BACKEND_OF, *BACKEND_OF.values(), DispatchKey.Python, DispatchKey.AutocastCPU}:
            kind = rows[key.name].rsplit("[", 1)[1].rstrip("]") if key.name in rows else None
            wanted = key if kind == "kernel" else KINDS.get(kind, kind)
            assert resolve({k: k for k in registered}, key, fallbacks) == wanted, (registered, key, kind)
            seen.add(kind)
    assert seen == {*KINDS, "backend fallback", None}, "every rule was used"


# ------------------------------------------------------------------------------------------------ the lab on it


def test_the_layers_of_the_lab_stack():
    lab = solved("key_sets", "thread_state", "guards", "table", "calls", "layers", "my_layers", "my_cast", "my_stack")
    add, mm = lab["made"]("add", float.__add__), lab["made"]("mm", float.__mul__)
    row, every, mode = lab["row"], (bits("Python"), 0), (bits("Python"),)
    assert row("", add) == {"state": "", "op": "add", "value": 5.0, "dtype": "float32", "node": "addBackward", "log": "[]"}
    for op, dtype in ((add, "float32"), (mm, "bfloat16")):
        got = row("", op, *every)
        assert (got["dtype"], got["node"], got["log"]) == (dtype, f"{op.name}Backward", f"['{op.name}']")
        assert row("", op, 0, lab["INFERENCE"])["node"] == "none"
        assert row("", op, *mode)["dtype"] == "float32"
    assert (lab["thread"].include, lab["thread"].exclude) == (0, 0)


CONSTANTS = ["None", "0", "1", "True", "()", "(0, None)", "[]", "FALLTHROUGH", "nullcontext()", "right"]
CONSTANTS += ["(lambda *a, **k: None)", "(lambda *a, **k: 0)", "Yes()"]
YES = """from contextlib import nullcontext


class Yes:
    __hash__, __index__, __len__ = (lambda self: 0), (lambda self: 0), (lambda self: 2)
    __eq__ = __lt__ = __gt__ = __le__ = __ge__ = __contains__ = lambda self, other: True
    __ne__ = lambda self, other: False
    __getattr__ = __getitem__ = __and__ = __or__ = __rand__ = __ror__ = __rshift__ = lambda self, other: self
    __call__ = __enter__ = __exit__ = lambda self, *a, **k: self
    __iter__ = lambda self: iter((self, self))
"""


def earned(constant: str) -> float:
    """The points for a lab whose functions all return `constant`."""
    nb = cells.read(course.source(LAB))
    for cell in nb["cells"]:
        known = cells.known({"cells": [cell]})
        if known and known[0].solution and not known[0].by_hand:
            functions = [line.split("(")[0] for line in known[0].source.splitlines() if line.startswith("def ")]
            cell["source"] = YES + "\n".join(f"{function}(*a, **k):\n    return {constant}" for function in functions)
    return total(fast.grade(rebuilt(nb, cells.read(course.source(LAB)))))


@pytest.mark.parametrize("constant", CONSTANTS)
def test_functions_that_return_a_constant_earn_nothing(constant):
    assert earned(constant) == 0


PATCHES = {
    "names": lambda keys: (),
    "name_of": lambda key: "no key",
    "bits": lambda *names: 0,
    "marked": lambda label: None,
    "in_another_thread": lambda call: call(),
    "RUNTIME": (),
    "BACKEND_OF": {},
    "NoKernel": Exception,
}


@pytest.mark.parametrize("patched", [[name] for name in PATCHES] + [["marked", "BACKEND_OF"], list(PATCHES)], ids=" ".join)
def test_not_even_in_a_world_that_was_tampered_with(patched, monkeypatch):
    for name in patched:
        monkeypatch.setattr(f"utils.labs.dispatcher.{name}", PATCHES[name])
    assert [constant for constant in ("None", "0", "()") if earned(constant)] == []
