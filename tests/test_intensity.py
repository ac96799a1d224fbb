"""FLOPs and bytes counted from shapes, against figures worked out by hand for shapes that are drawn anew."""

from __future__ import annotations

import random

import pytest
import torch
import torch.nn.functional as F

from utils.measure import language_model
from utils.measure.intensity import count
from utils.measure.op_table import OPS, attention_work, work_of

RNG = random.Random(20261130)
M, N, K = (RNG.randrange(5, 40) for _ in range(3))
B, C, H = (RNG.randrange(2, 6) for _ in range(3))


def t(*shape, dtype=torch.float32, device="cpu"):
    return torch.rand(*shape, device=device).to(dtype)


# name → (callable, what it is called with, FLOPs of arithmetic, special functions, bytes read, bytes written), by hand.
CASES = {
    "a + b, fp32": (torch.add, (t(M, N), t(M, N)), M * N, 0, 8 * M * N, 4 * M * N),
    "a + b, bf16": (torch.add, (t(M, N, dtype=torch.bfloat16), t(M, N, dtype=torch.bfloat16)), M * N, 0, 4 * M * N, 2 * M * N),
    "a + 2 b": (lambda a, b: torch.add(a, b, alpha=2), (t(M, N), t(M, N)), 2 * M * N, 0, 8 * M * N, 4 * M * N),
    "a * a: read once": (lambda a: a * a, (t(M, N),), M * N, 0, 4 * M * N, 4 * M * N),
    "a + one row: the row is read once": (torch.add, (t(M, N), t(N)), M * N, 0, 4 * (M * N + N), 4 * M * N),
    "a + a broadcast row": (lambda a, r: a + r.expand(M, N), (t(M, N), t(1, N)), M * N, 0, 4 * (M * N + N), 4 * M * N),
    "a += b": (lambda a, b: a.add_(b), (t(M, N), t(M, N)), M * N, 0, 8 * M * N, 4 * M * N),
    "add into a given result": (lambda a, b, c: torch.add(a, b, out=c), (t(M), t(M), t(M)), M, 0, 8 * M, 4 * M),
    "add into one of its inputs": (lambda a, b: torch.add(a, b, out=a), (t(M), t(M)), M, 0, 8 * M, 4 * M),
    "copy": (lambda a, c: c.copy_(a), (t(M, N), t(M, N)), 0, 0, 4 * M * N, 4 * M * N),
    "copy and cast": (lambda a: a.to(torch.float16), (t(M, N),), 0, 0, 4 * M * N, 2 * M * N),
    "fill": (lambda a: a.fill_(1.5), (t(M, N),), 0, 0, 0, 4 * M * N),
    "every other column": (lambda a: a[:, ::2].contiguous(), (t(M, 2 * N),), 0, 0, 4 * M * N, 4 * M * N),
    "relu": (torch.relu, (t(M, N),), M * N, 0, 4 * M * N, 4 * M * N),
    "exp": (torch.exp, (t(M, N),), 0, M * N, 4 * M * N, 4 * M * N),
    "sigmoid": (torch.sigmoid, (t(M, N),), 3 * M * N, M * N, 4 * M * N, 4 * M * N),
    "gelu by erf": (F.gelu, (t(M, N),), 4 * M * N, M * N, 4 * M * N, 4 * M * N),
    "gelu by tanh": (lambda a: F.gelu(a, approximate="tanh"), (t(M, N),), 8 * M * N, M * N, 4 * M * N, 4 * M * N),
    "sum of all": (torch.sum, (t(M, N),), M * N - 1, 0, 4 * M * N, 4),
    "sum of rows": (lambda a: a.sum(-1), (t(M, N),), M * (N - 1), 0, 4 * M * N, 4 * M),
    "mean of rows": (lambda a: a.mean(-1), (t(M, N),), M * N, 0, 4 * M * N, 4 * M),
    "variance of rows": (lambda a: a.var(-1), (t(M, N),), 4 * M * N, 0, 4 * M * N, 4 * M),
    "softmax of rows": (lambda a: torch.softmax(a, -1), (t(M, N),), M * (4 * N - 2), M * N, 4 * M * N, 4 * M * N),
    "softmax of columns": (lambda a: torch.softmax(a, 0), (t(M, N),), N * (4 * M - 2), M * N, 4 * M * N, 4 * M * N),
    # mean, distances, squares, their mean, scaling, weight, bias: 7 N; eps and a division: 2; a root. Both statistics are kept.
    "layer_norm": (
        lambda a, w, b: F.layer_norm(a, (N,), w, b),
        (t(M, N), t(N), t(N)),
        M * (7 * N + 2),
        M,
        4 * (M * N + 2 * N),
        4 * (M * N + 2 * M),
    ),
    "x @ w": (torch.matmul, (t(M, K), t(K, N)), 2 * M * N * K, 0, 4 * (M * K + K * N), 4 * M * N),
    "x @ w.T": (lambda x, w: x @ w.t(), (t(M, K), t(N, K)), 2 * M * N * K, 0, 4 * (M * K + K * N), 4 * M * N),
    "batched x @ w": (torch.bmm, (t(B, M, K), t(B, K, N)), 2 * B * M * N * K, 0, 4 * B * (M * K + K * N), 4 * B * M * N),
    "matrix times vector": (torch.mv, (t(M, K), t(K)), 2 * M * K, 0, 4 * (M * K + K), 4 * M),
    "embedding": (F.embedding, (torch.randint(M, (B,)), t(M, N)), 0, 0, 8 * B + 4 * min(B, M) * N, 4 * B * N),
    # each of the (M - 2)² results of each of N channels: C × 9 products and as many additions, as torch's own counter has it
    "3 × 3 convolution": (
        F.conv2d,
        (t(1, C, M, M), t(N, C, 3, 3)),
        2 * 9 * C * N * (M - 2) ** 2,
        0,
        4 * (C * M * M + 9 * C * N),
        4 * N * (M - 2) ** 2,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_work_is_what_it_is_by_hand(name):
    f, given, arithmetic, special, read, written = CASES[name]
    work = count(f, *given)
    assert work.unknown == ()
    assert sum(op.arithmetic for op in work.ops) == arithmetic
    assert sum(op.special for op in work.ops) == special
    assert (work.read, work.written) == (read, written)
    assert work.intensity == (arithmetic + special) / (read + written)
    assert work.flops_with(20) == arithmetic + 20 * special


@pytest.mark.parametrize("name", ["a + b, fp32", "gelu by erf", "softmax of rows", "layer_norm", "x @ w.T", "every other column"])
def test_shapes_alone_are_enough(name):
    f, given, arithmetic, special, read, written = CASES[name]
    work = count(f, *(x.to("meta") for x in given))
    assert work.flops == arithmetic + special
    assert work.read + work.written == read + written


def test_the_claims_figures():
    """a + b: 1/12 in fp32, 1/6 in bf16; a product of n³: n/3 in bf16 and n/6 in fp32; decode: about one."""
    n = RNG.randrange(10, 30) * 64
    assert work_of("add", n, "fp32").intensity == pytest.approx(1 / 12)
    assert work_of("add", n, "bf16").intensity == pytest.approx(1 / 6)
    assert work_of("relu", n, "bf16").intensity == pytest.approx(1 / 4)
    assert work_of("gemm", n, "bf16").intensity == pytest.approx(n / 3)
    assert work_of("gemm", n, "fp32").intensity == pytest.approx(n / 6)
    assert work_of("gemm", 4096, "bf16").intensity == pytest.approx(1365.33, abs=0.01)
    assert work_of("matvec", n, "bf16").intensity == pytest.approx(1.0, rel=2.5 / n)
    assert work_of("decode", 8192, "bf16").intensity == pytest.approx(1.0, rel=1e-3)


def test_sharing_a_cache_raises_the_intensity_of_decode_and_a_batch_does_not():
    one, many = (attention_work(batch, 32, 32, 4096, 128, "bf16") for batch in (1, 64))
    shared = attention_work(1, 32, 8, 4096, 128, "bf16")
    assert one.intensity == many.intensity
    assert shared.intensity == pytest.approx(4 * one.intensity, rel=1e-2)
    assert one.flops == shared.flops


def test_fused_attention_on_this_cpu_is_the_formula():
    q, k, v = t(B, H, 1, 16), t(B, H, M, 16), t(B, H, M, 16)
    work = count(F.scaled_dot_product_attention, q, k, v)
    assert work.flops == attention_work(B, H, H, M, 16, "fp32").flops
    assert work.unknown == ()


def test_an_intermediate_is_written_and_read_and_one_kernel_would_do_neither():
    a, bias, rest = t(M, N), t(N), t(M, N)
    work = count(lambda: F.gelu(a + bias) + rest)
    size = 4 * M * N
    assert work.bytes == (size + 4 * N + size) + (size + size) + (size + size + size)
    assert work.least_bytes == size + 4 * N + size + size
    assert work.flops == (1 + 5 + 1) * M * N
    assert work.least_intensity > 2 * work.intensity


def test_views_move_nothing():
    a = t(M, N)
    work = count(lambda: a.t().reshape(-1)[:3].view(3, 1) if M == 1 else a.t().unsqueeze(0).expand(3, N, M))
    assert work.bytes == 0 and all(op.view for op in work.ops) and work.least_bytes > 0


def test_an_op_without_a_rule_is_named_and_its_bytes_are_counted():
    a = t(M, M)
    work = count(torch.linalg.inv, a)
    assert any("inv" in op for op in work.unknown)
    assert work.bytes >= 8 * M * M
    assert count(torch.add, a, a).unknown == ()


@pytest.mark.parametrize("fused", [False, True])
def test_an_optimisers_step_counts_the_same_alone_and_fused(fused):
    """AdamW: decay 1, first moment 3, second moment 4, root scaled and eps 2, step 3, and a root, for every parameter."""
    p = torch.nn.Parameter(t(M, N))
    p.grad = torch.rand_like(p)
    optimizer = torch.optim.AdamW([p], fused=fused, foreach=False)
    optimizer.step()
    work = count(optimizer.step)
    assert work.unknown == ()
    counted = sum(op.special for op in work.ops)
    assert counted == M * N
    assert work.flops == pytest.approx(14 * M * N, abs=4)
    if fused:
        assert work.bytes == pytest.approx((4 + 3) * 4 * M * N, abs=16)


def test_a_whole_training_step_has_a_rule_for_every_op_and_about_six_n_d():
    size = language_model.Size("test", 64, 2, 4, 128, 4, 32)
    one = language_model.training(size, "cpu", torch.float32)
    one.step()
    work = count(one.step)
    assert work.unknown == ()
    products = sum(op.flops for op in work.ops if op.op.split(".")[0] in ("mm", "addmm", "bmm"))
    embedding = size.vocabulary * size.width  # a look-up: its parameters take part in no product
    assert products == pytest.approx(6 * (one.parameters - embedding) * one.tokens, rel=0.05)


def test_every_op_of_the_table_runs_and_counts():
    for key, op in OPS.items():
        size = 128 if op.engine == "gemm" or key == "decode" else 8192
        work = work_of(key, size, "fp32")
        assert work.flops > 0 and work.bytes > 0 and work.unknown == (), key
        out = op.make(size, torch.float32, "cpu")()
        assert torch.isfinite(out).all(), key


def test_what_runs_raises_as_ever_and_the_mode_is_left():
    with pytest.raises(ZeroDivisionError):
        count(lambda: 1 / 0)
    assert [op.op for op in count(torch.add, t(3), t(3)).ops] == ["add.Tensor"]
