"""Made-up traces, call trees and timelines for tests: small, with round numbers, and the same every time.

The shapes are those that torch 2.11 and 2.13 show: an add with two hops, a product that is two ops, a batch that is more.
"""

from __future__ import annotations

import re
from dataclasses import replace

from utils.measure.dispatch_trace import Argument, Dispatch, Hop, KeySets, OpRun, Overload
from utils.measure.fold_tree import CallTree, Row, Rules
from utils.measure.timeline import Launch, OpSpan, Segment, Timeline


def op_run(name: str, depth: int = 0) -> OpRun:
    return OpRun(f"aten::{name}", f"aten::{name}(Tensor self, Tensor other) -> Tensor", depth)


def key_sets(highest: str, **changes) -> KeySets:
    both = ("CPU", "ADInplaceOrView", "AutogradCPU", "AutocastCPU")
    fields = {
        "arguments": {"a": both, "b": both},
        "union": both,
        "included": ("BackendSelect",),
        "excluded": ("AutocastCPU",),
        "with_thread": ("CPU", "ADInplaceOrView", "AutogradCPU"),
        "masked": ("ADInplaceOrView",),
        "final": ("CPU", "AutogradCPU"),
        "highest": highest,
    }
    return KeySets(**{**fields, **changes})


def hops(*keys: str, op: str = "add.Tensor") -> tuple[Hop, ...]:
    return tuple(Hop(f"aten::{op}", key, "kernel", f"{key}.cpp:1") for key in keys)


def traced(expression: str = "a + b", name: str = "add.Tensor", dtypes=("float32", "float32"), **changes) -> Dispatch:
    """A made-up trace of an add; `changes` replace fields."""
    names = [name for name in re.findall(r"[a-z]\w*", expression)]
    fields = {
        "expression": expression,
        "device": "cpu",
        "grad": False,
        "method": "add",
        "arguments": tuple(Argument(n, d, (1,), "cpu", False, ("CPU",)) for n, d in zip(names, dtypes, strict=False)),
        "ops": (op_run(name),),
        "op": f"aten::{name}",
        "schema": f"aten::{name}(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
        "type_error": "add() received an invalid combination of arguments",
        "signatures": ("(Tensor other, *, Number alpha = 1)",),
        "overloads": (Overload("add.Tensor", "s", True, ""), Overload("add.Scalar", "s", False, "passed over: a number")),
        "result_dtype": "float32",
        "promoted": "float32",
        "promotion": "the op itself promotes",
        "keys": key_sets("AutogradCPU"),
        "table": (),
        "hops": hops("AutogradCPU", "CPU"),
        "missing": (),
    }
    return Dispatch(**{**fields, **changes})


def blind(expression: str = "a + b") -> Dispatch:
    """A trace on a torch that tells neither ops nor keys."""
    gone = ("torch 9.9 no longer has the dispatcher's table",)
    return traced(expression, ops=(), op="", keys=None, hops=(), overloads=(), signatures=(), missing=gone)


def product(n: int = 2, expression: str = "x @ w") -> Dispatch:
    runs = (op_run("matmul"), *(op_run(name, 1) for name in ("mm", "resolve_conj", "reshape", "_unsafe_view")[: n - 1]))
    shaped = tuple(Argument(name, "float32", (8, 8), "cpu", False, ()) for name in ("x", "w"))
    words = "nothing is promoted here: with x as int64 the op refuses"
    return traced(expression, "matmul", ops=runs, promoted="", promotion=words, arguments=shaped, hops=hops("CPU", op="mm"))


def batch() -> Dispatch:
    return product(5, "x3 @ w")


def looked(**changes) -> dict[str, Dispatch]:
    """The add traced plain, under no_grad, in inference_mode and under autocast; `changes` replace a state."""
    inference = traced(keys=key_sets("CPU"), hops=hops("CPU"))
    cast = traced(keys=key_sets("AutogradCPU", with_thread=("CPU", "AutocastCPU"), masked=("AutocastCPU",)))
    return {"plain": traced(), "no_grad": traced(), "inference_mode": inference, "autocast": cast, **changes}


RULES = Rules(
    (
        Row("interpreter", "python_boundary", "interpreter", (), ("^python$",)),
        Row("gil", "handle_copies_gil", "GIL", ("dealloc",), ("^take_gil",)),
        Row("handle_copies", "handle_copies_gil", "handles", ("dealloc",), ("^incref",)),
        Row("output_tensor", "output_tensor", "output", ("interpreter",), ("^at::detail::empty_cpu",)),
        Row("allocator", "allocator", "allocator", ("output_tensor",), ("^alloc_cpu$",)),
        Row("kernel", "kernel", "kernel: the loop", ("interpreter",), ("^at::native::add::impl",)),
        Row("library", "kernel", "library", ("kernel",), ("^mkl_|^SGEMM$",)),
        Row("inner_hops", "dispatcher_hop", "hops inside", ("kernel",), ("^resolve_conj$",)),
        Row("dealloc", "wrap_free", "deallocation", ("interpreter",), ("^subtype_dealloc$",)),
        Row("autograd_node", "autograd_node", "autograd node", (), ("^make_node$",)),
    )
)
WHERE = {
    "torch": "2.13.0+cpu",
    "python": "3.11.7",
    "valgrind": "3.19.0",
    "glibc": "2.36",
    "cpu_capability_traced": "AVX2",
    "machine": "x86_64",
}


def tree(statement: str = "a + b", **costs: float) -> CallTree:
    """A small tree: the interpreter calls everything; empty_cpu calls alloc_cpu, dealloc takes the GIL, the kernel loops."""
    own = {
        "python": 300.0,
        "at::detail::empty_cpu(int)": 200.0,
        "alloc_cpu": 100.0,
        "at::native::add::impl(at::Tensor const&)": 30.0,
        "at::native::loop(char**, long)": 20.0,
        "subtype_dealloc": 150.0,
        "take_gil": 200.0,
    }
    own.update(costs)
    parents = {
        "at::detail::empty_cpu(int)": "python",
        "alloc_cpu": "at::detail::empty_cpu(int)",
        "at::native::add::impl(at::Tensor const&)": "python",
        "at::native::loop(char**, long)": "at::native::add::impl(at::Tensor const&)",
        "subtype_dealloc": "python",
        "take_gil": "subtype_dealloc",
        "SGEMM": "at::native::add::impl(at::Tensor const&)",
        "mkl_kernel": "SGEMM",
        "resolve_conj": "at::native::add::impl(at::Tensor const&)",
        "make_node": "python",
        "at::TensorIteratorBase::compute_types(int)": "python",
    }

    def whole(function: str) -> float:
        return own[function] + sum(whole(f) for f in own if parents.get(f) == function)

    edges = {(parents[f], f): whole(f) for f in own if f in parents}
    return CallTree(statement, own, edges, {}, WHERE, "2026-11-29T00:00:00+00:00")


GEMM = {"SGEMM": 60.0, "mkl_kernel": 140.0, "resolve_conj": 90.0}


def timeline_of(kernel_start: float = 12.0, launches: int = 1, **changes) -> Timeline:
    """A made-up timeline of a + b on a GPU: the op from 1 to 10 µs, its launch from 4 to 8, the kernel of 2 µs."""
    made = tuple(
        Launch("aten::add", "cudaLaunchKernel", 7 + i, 4.0 + 10 * i, 4.0, "kernel", kernel_start + 10 * i, 2.0)
        for i in range(launches)
    )
    spans = tuple(OpSpan("aten::add", 1.0 + 10 * i, 9.0, 0) for i in range(launches))
    end = max(kernel_start + 2.0, 10.0) + 10 * (launches - 1)
    segment = Segment("a + b", "float32, one element each", end, spans, made)
    where = {"gpu": "NVIDIA H200", "driver": "580.1", "torch": "2.11.0+cu130"}
    return Timeline({"a + b": replace(segment, **changes)}, where, "2026-11-29T00:00:00+00:00")
