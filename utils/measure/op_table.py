"""The ops whose intensity is argued about, each as a callable on any device, and its FLOPs and bytes from shapes alone.

`size` is the number of elements for elementwise ops and for ops on rows (of 4,096), the side of a square for products, and the
number of cached tokens for a step of attention.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from utils.measure import intensity
from utils.measure.gemm_peak import torch_dtype
from utils.measure.intensity import OpWork, Work

ROW = 4096
HEADS, HEAD_DIM = 32, 128
BYTES = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2}


@dataclass(frozen=True)
class Op:
    """One op of the table. `make(size, dtype, device)` gives a callable without arguments; `family` is the claims' word."""

    key: str
    title: str
    family: str
    make: Callable[[int, object, str], Callable]
    engine: str = "vector_fp32"

    def roof(self, dtype: str) -> str:
        """The name of the roof over it for this dtype."""
        return f"gemm_{dtype}" if self.engine == "gemm" else self.engine

    def shape(self, size: int) -> str:
        """The shapes in words."""
        if self.engine == "gemm":
            return f"({size:,} × {size:,})" + (" · vector" if self.key == "matvec" else "²")
        if self.family == "attention decode":
            return f"1 new token, {size:,} cached, {HEADS} heads of {HEAD_DIM}"
        return f"{size:,} elements" if self.family == "elementwise" else f"{max(1, size // ROW):,} rows of {ROW:,}"


def _random(shape, dtype, device):
    import torch

    return torch.empty(shape, dtype=dtype, device=device) if device == "meta" else torch.randn(shape, device=device).to(dtype)


def _two(f: str) -> Callable:
    def make(size, dtype, device):
        import torch

        a, b = (_random((size,), dtype, device) for _ in range(2))
        out, call = torch.empty_like(a), getattr(torch, f)
        return lambda: call(a, b, out=out)

    return make


def _one(f: str) -> Callable:
    def make(size, dtype, device):
        import torch
        import torch.nn.functional as F

        x = _random((size,), dtype, device)
        call = getattr(F, f, None) or getattr(torch, f)
        return lambda: call(x)

    return make


def _on_rows(size: int, dtype, device):
    return _random((max(1, size // ROW), ROW), dtype, device)


def _bias_gelu(size, dtype, device):
    import torch.nn.functional as F

    x, bias = _on_rows(size, dtype, device), _random((ROW,), dtype, device)
    return lambda: F.gelu(x + bias)


def _sum(size, dtype, device):
    x = _on_rows(size, dtype, device)
    return lambda: x.sum(-1)


def _softmax(size, dtype, device):
    import torch

    x = _on_rows(size, dtype, device)
    return lambda: torch.softmax(x, -1)


def _layer_norm(size, dtype, device):
    import torch.nn.functional as F

    x, weight, bias = _on_rows(size, dtype, device), _random((ROW,), dtype, device), _random((ROW,), dtype, device)
    return lambda: F.layer_norm(x, (ROW,), weight, bias)


def _gemm(size, dtype, device):
    import torch

    a, b = (_random((size, size), dtype, device) for _ in range(2))
    out = torch.empty_like(a)
    return lambda: torch.mm(a, b, out=out)


def _matvec(size, dtype, device):
    import torch

    a, x = _random((1, size), dtype, device), _random((size, size), dtype, device)
    out = torch.empty_like(a)
    return lambda: torch.mm(a, x, out=out)


def _decode(size, dtype, device):
    import torch.nn.functional as F

    q = _random((1, HEADS, 1, HEAD_DIM), dtype, device)
    k, v = (_random((1, HEADS, size, HEAD_DIM), dtype, device) for _ in range(2))
    return lambda: F.scaled_dot_product_attention(q, k, v)


OPS: dict[str, Op] = {
    op.key: op
    for op in (
        Op("add", "a + b", "elementwise", _two("add")),
        Op("mul", "a * b", "elementwise", _two("mul")),
        Op("relu", "relu(x)", "elementwise", _one("relu")),
        Op("gelu", "gelu(x)", "elementwise", _one("gelu")),
        Op("bias_gelu", "gelu(x + bias), two ops", "elementwise chain", _bias_gelu),
        Op("sum", "sum of each row", "reduction", _sum),
        Op("softmax", "softmax of each row", "normalisation", _softmax),
        Op("layer_norm", "layer_norm of each row", "normalisation", _layer_norm),
        Op("decode", "attention of one new token", "attention decode", _decode),
        Op("matvec", "one row times a matrix", "product", _matvec, "gemm"),
        Op("gemm", "matrix times matrix", "product", _gemm, "gemm"),
    )
}


def work_of(key: str, size: int, dtype: str = "fp32") -> Work:
    """The op's work from shapes alone: nothing is computed, so any size will do. KeyError for an op that is not in the table."""
    if key == "decode":
        return attention_work(1, HEADS, HEADS, size, HEAD_DIM, dtype)
    return intensity.count(OPS[key].make(size, torch_dtype(dtype), "meta"))


def attention_work(batch: int, heads: int, kv_heads: int, context: int, head_dim: int, dtype: str, new: int = 1) -> Work:
    """Fused attention of `new` tokens over `context` cached ones: 4 FLOP for each head, new token, cached token and dimension.

    Queries and results have `heads`, the cache `kv_heads`; the softmax is not counted, as torch's own counter does not.
    """
    one = BYTES[dtype]
    flops = 4.0 * batch * heads * new * context * head_dim
    written = batch * heads * new * head_dim * one
    read = written + 2 * batch * kv_heads * context * head_dim * one
    shape = (batch, heads, new, head_dim)
    return Work((OpWork("scaled_dot_product_attention", flops, 0.0, read, written, shape, dtype),), read + written)
