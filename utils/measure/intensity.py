"""Counts the FLOPs and bytes of any callable from the shapes its ops are called with: `count(f, …) -> Work`.

The convention. An addition, subtraction, multiplication, division, comparison or negation of one element counts 1, and so does a
special function (exp, erf, tanh, a root): `Work.flops_with(20)` asks what follows if it counts 20. Products, convolutions and
fused attention are counted by `torch.utils.flop_counter` (2 m n k); the softmax inside fused attention is not. Integer work
(indices, random numbers) is no FLOP.
Bytes are what an op must move by itself: every distinct element that it is given read once, every element of a result written
once. Views move nothing. What a cache saves, and what a line that is only half used wastes, is not counted: that is measured.
Give it tensors on device "meta" and nothing is computed.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

Counted = tuple[float, float]  # FLOPs of arithmetic, calls of special functions


@dataclass(frozen=True)
class OpWork:
    """One op as it was called: FLOPs, and bytes read and written. `known` is False where no rule counts its FLOPs."""

    op: str
    arithmetic: float
    special: float
    read: int
    written: int
    shape: tuple[int, ...]
    dtype: str
    view: bool = False
    known: bool = True

    @property
    def product(self) -> bool:
        """Whether torch's own FLOP counter knows the op: a product, a convolution, fused attention, or their backward."""
        return self.op.split(".")[0] in _library() or "scaled_dot_product" in self.op

    @property
    def flops(self) -> float:
        return self.arithmetic + self.special

    @property
    def bytes(self) -> int:
        return self.read + self.written

    @property
    def intensity(self) -> float:
        """FLOP per byte; 0 for an op that moves nothing."""
        return self.flops / self.bytes if self.bytes else 0.0


@dataclass(frozen=True)
class Work:
    """All ops of one call. `least_bytes`: what is given read once and the result written once, as one kernel for it all would."""

    ops: tuple[OpWork, ...]
    least_bytes: int

    @property
    def computing(self) -> tuple[OpWork, ...]:
        """The ops that are no views."""
        return tuple(op for op in self.ops if not op.view)

    @property
    def flops(self) -> float:
        return sum(op.flops for op in self.ops)

    @property
    def read(self) -> int:
        return sum(op.read for op in self.ops)

    @property
    def written(self) -> int:
        return sum(op.written for op in self.ops)

    @property
    def bytes(self) -> int:
        """What the ops move, each by itself: an intermediate is written once and read again by each op that uses it."""
        return self.read + self.written

    @property
    def intensity(self) -> float:
        return self.flops / self.bytes if self.bytes else 0.0

    @property
    def least_intensity(self) -> float:
        """FLOP per byte if no intermediate went through memory."""
        return self.flops / self.least_bytes if self.least_bytes else 0.0

    @property
    def unknown(self) -> tuple[str, ...]:
        """Ops whose FLOPs no rule counts, each once: their bytes are in, their FLOPs are not."""
        return tuple(dict.fromkeys(op.op for op in self.ops if not op.known))

    def flops_with(self, special: float) -> float:
        """The FLOPs if a special function counted so many."""
        return sum(op.arithmetic + special * op.special for op in self.ops)


def count(f: Callable, *args, **kwargs) -> Work:
    """The work of `f(*args, **kwargs)`, which runs once. Raises what `f` raises; RuntimeError where torch cannot be watched."""
    from utils.measure import seams

    counter = Counter()
    with seams.watching_calls(counter.call):
        out = f(*args, **kwargs)
    return finished(counter, out)


def finished(counter: Counter, out: Any) -> Work:
    """The work that `counter` saw of a call that gave `out`."""
    from utils.measure import seams

    results = {_place(t): t for t in seams.tensors_in(out)}
    return Work(tuple(counter.ops), counter.given + sum(_bytes(t) for t in results.values()))


class Counter:
    """Counts op by op, for `seams.watching_calls`; `ops` are those so far, `given` the bytes read of what no op here has made."""

    def __init__(self):
        self.ops: list[OpWork] = []
        self.given = 0
        self._made: weakref.WeakSet = weakref.WeakSet()  # storages that an op here has written
        self._seen: set = set()

    def call(self, op: str, run: Callable, args: tuple, kwargs: dict) -> Any:
        """Runs one op and counts it."""
        out = run()
        self.note(op, args, kwargs, out)
        return out

    def note(self, op: str, args: tuple, kwargs: dict, out: Any) -> OpWork:
        """Counts an op that has run."""
        from utils.measure import seams

        name = op.removeprefix("aten::")
        given, results = seams.tensors_in((args, kwargs)), seams.tensors_in(out)
        work = measured(name, args, kwargs, out)
        if not work.view:
            for t in read_by(name, args, kwargs):
                key = (_place(t), tuple(t.shape), t.stride())
                if t.untyped_storage() not in self._made and key not in self._seen:
                    self._seen.add(key)
                    picked = name.split(".")[0] in _GATHERS and t is args[0]
                    self.given += min(_bytes(t), sum(_bytes(r) for r in results)) if picked else _bytes(t)
            changed = _changed(name, args)
            filled = [t for t in results if not any(t is g for g in given)]
            for t in [*filled, *changed, *seams.tensors_in(kwargs.get("out"))]:
                self._made.add(t.untyped_storage())
        self.ops.append(work)
        return work


def measured(name: str, args: tuple, kwargs: dict, out: Any) -> OpWork:
    """The work of one op that was called so and gave `out`; `name` is "add.Tensor"."""
    from utils.measure import seams

    given, results = seams.tensors_in((args, kwargs)), seams.tensors_in(out)
    first = next(iter(results or given), None)
    shape = tuple(first.shape) if first is not None else ()
    dtype = str(first.dtype).removeprefix("torch.") if first is not None else ""
    packet = name.split(".")[0]
    if _looks(packet, given, results):
        return OpWork(name, 0.0, 0.0, 0, 0, shape, dtype, view=True)
    flops = _flops(packet, args, kwargs, out)
    read = sum(_bytes(t) for t in read_by(name, args, kwargs))
    if packet in _GATHERS:  # rows are picked: what is read of the table is what comes out
        table = args[0]
        read = read - _bytes(table) + min(_bytes(table), sum(_bytes(t) for t in results))
    written = {_place(t): t for t in [*results, *_changed(name, args)]}
    arithmetic, special = flops or (0.0, 0.0)
    total = sum(_bytes(t) for t in written.values())
    return OpWork(name, float(arithmetic), float(special), read, total, shape, dtype, known=flops is not None)


# ------------------------------------------------------------------------------------------------ bytes

_GATHERS = {"embedding", "index_select", "gather", "index"}
_WRITES_ONLY = {"copy_", "fill_", "zero_", "normal_", "uniform_", "random_", "bernoulli_", "exponential_", "_foreach_copy_"}
_NOTHING = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "_local_scalar_dense", "record_stream"}
_LIKE_ONLY = {
    "zeros_like",
    "ones_like",
    "full_like",
    "rand_like",
    "randn_like",
    "randint_like",
    "new_zeros",
    "new_ones",
    "new_full",
}


def read_by(name: str, args: tuple, kwargs: dict) -> list:
    """The distinct tensors that an op reads: not the result it is told to fill, not one that it only overwrites."""
    from utils.measure import seams

    packet = name.split(".")[0]
    if packet in _LIKE_ONLY or packet in _NOTHING:
        return []
    read = seams.tensors_in(args[1:] if packet in _WRITES_ONLY else args)
    read += seams.tensors_in({key: value for key, value in kwargs.items() if not key.startswith("out")})
    distinct = {(_place(t), tuple(t.shape), t.stride()): t for t in read}
    return list(distinct.values())


def _changed(name: str, args: tuple) -> list:
    """Tensors that an op changes in place: the first argument of `add_`, of `_foreach_add_` a list, several of an optimiser."""
    from utils.measure import seams

    packet = name.split(".")[0]
    if packet in _FUSED_STATES:
        return seams.tensors_in([args[i] for i in _FUSED_STATES[packet] if i < len(args)])
    return seams.tensors_in(args[:1]) if packet.endswith("_") and not packet.endswith("__") else []


def _looks(packet: str, given: list, results: list) -> bool:
    """Whether an op only looks at memory that was there, or only takes memory: every result lies in what it was given."""
    if packet in _NOTHING or not (given or results):  # no tensor comes or goes: the profiler's marks, for one
        return True
    return bool(results) and all(
        not any(r is t for t in given) and any(r.untyped_storage() is t.untyped_storage() for t in given) for r in results
    )


def _place(t) -> tuple:
    """Where a tensor begins, as a key: its storage and its offset there (a meta tensor's storage is known by itself)."""
    return id(t.untyped_storage()), t.storage_offset()


def _bytes(t) -> int:
    """Bytes of the distinct elements of a tensor: a broadcast dimension (stride 0) is there once."""
    return prod(size for size, stride in zip(t.shape, t.stride(), strict=True) if stride or size <= 1) * t.element_size()


# ------------------------------------------------------------------------------------------------ FLOPs

# op → (arithmetic, special) for each element of the result.
ELEMENTWISE: dict[str, Counted] = {
    **dict.fromkeys(
        ("mul", "div", "neg", "abs", "relu", "maximum", "minimum", "reciprocal", "sign", "threshold", "hardtanh", "remainder"),
        (1, 0),
    ),
    **dict.fromkeys(("lt", "le", "gt", "ge", "eq", "ne", "clamp_min", "clamp_max", "threshold_backward", "masked_fill"), (1, 0)),
    **dict.fromkeys(("sqrt", "exp", "log", "sin", "cos", "tanh", "erf", "erfc", "log1p", "expm1", "exp2", "log2"), (0, 1)),
    "rsqrt": (1, 1),  # a root and a division
    "clamp": (2, 0),
    "leaky_relu": (2, 0),
    "sigmoid": (3, 1),  # 1 / (1 + exp(-x))
    "silu": (4, 1),  # x times a sigmoid
    "sigmoid_backward": (3, 0),  # g (1 - y) y
    "tanh_backward": (3, 0),  # g (1 - y y)
    "silu_backward": (8, 1),  # g s (1 + x (1 - s)), s a sigmoid
    "native_dropout": (2, 0),  # times the mask, times 1 / (1 - p)
    "native_dropout_backward": (2, 0),
    "lerp": (3, 0),  # a + w (b - a)
    **dict.fromkeys(
        ("copy", "clone", "_to_copy", "fill", "zero", "zeros", "ones", "full", "arange", "zeros_like", "ones_like", "full_like"),
        (0, 0),
    ),
    **dict.fromkeys(
        (
            "cat",
            "stack",
            "where",
            "embedding",
            "index_select",
            "gather",
            "index",
            "constant_pad_nd",
            "select_backward",
            "slice_backward",
        ),
        (0, 0),
    ),
    **dict.fromkeys(("bernoulli", "normal", "uniform", "random", "rand", "randn", "randint", "rand_like", "randn_like"), (0, 0)),
    **dict.fromkeys(("logical_and", "logical_or", "logical_not", "bitwise_and", "bitwise_or", "bitwise_not", "isnan"), (0, 0)),
    **dict.fromkeys(("contiguous", "repeat", "roll", "flip", "tril", "triu", "scalar_tensor", "lift_fresh", "empty"), (0, 0)),
}
# GELU by erf: 0.5 x (1 + erf(x / √2)): four and erf. By tanh: 0.5 x (1 + tanh(k (x + c x³))): eight and tanh.
_GELU = {"none": (4, 1), "tanh": (8, 1)}
# Its derivative adds x times the density exp(-x²/2) k: six more and exp, and the product with the gradient; by tanh: ten more.
_GELU_BACKWARD = {"none": (10, 2), "tanh": (18, 1)}
# Fused optimisers → the places of the lists that they change: parameters and states, not the gradients.
_FUSED_STATES = {"_fused_adamw_": (0, 2, 3), "_fused_adam_": (0, 2, 3), "_fused_sgd_": (0, 2)}


def _flops(packet: str, args: tuple, kwargs: dict, out: Any) -> Counted | None:
    """(arithmetic, special) of one call; None where no rule knows the op."""
    from utils.measure import seams

    if packet in _NOTHING:
        return 0, 0
    if packet.startswith("_foreach_"):
        return _foreach(packet, args, kwargs, out)
    if packet in _FUSED_STATES:
        n = sum(t.numel() for t in seams.tensors_in(args[0]))
        if packet == "_fused_sgd_":
            return (4 if len(args) > 2 and args[2] else 2) * n, 0  # p - lr g; with momentum m = mu m + g before
        return 13 * n, n  # decay 1, first moment 3, second moment 4, its root scaled and eps 2, the step 3
    name = packet[:-1] if packet.endswith("_") and not packet.endswith("__") else packet
    results = seams.tensors_in(out) or seams.tensors_in(args[:1])
    n = results[0].numel() if results else 0
    if name in ("add", "sub", "rsub"):
        return (1 if kwargs.get("alpha", args[2] if len(args) > 2 else 1) == 1 else 2) * n, 0
    if name in ("addcmul", "addcdiv"):
        return (2 if kwargs.get("value", args[3] if len(args) > 3 else 1) == 1 else 3) * n, 0
    if name == "pow":
        return (n, 0) if args[1:] and args[1] == 2 else (0, n)
    if name in ("gelu", "gelu_backward"):
        one = (_GELU if name == "gelu" else _GELU_BACKWARD)[kwargs.get("approximate", "none")]
        return one[0] * n, one[1] * n
    if name in ELEMENTWISE:
        one = ELEMENTWISE[name]
        return one[0] * n, one[1] * n
    if name in _REDUCTIONS:
        return _REDUCTIONS[name](args, kwargs, results)
    if formula := _library().get(name):
        return float(formula(*args, **kwargs, out_val=out)), 0
    return None


def _foreach(packet: str, args: tuple, kwargs: dict, out: Any) -> Counted | None:
    """A list op is the same op on each of its tensors."""
    from utils.measure import seams

    name = packet.removeprefix("_foreach_").removesuffix("_")
    total = [0.0, 0.0]
    for t in seams.tensors_in(args[0]):
        one = _flops(name, (t, *args[1:]), kwargs, t)
        if one is None:
            return None
        total = [total[0] + one[0], total[1] + one[1]]
    return total[0], total[1]


def _rows(x, dims) -> tuple[int, int]:
    """(rows, elements of a row) of a reduction over `dims`."""
    dims = range(x.dim()) if dims is None else [dims] if isinstance(dims, int) else list(dims) or range(x.dim())
    n = prod(x.shape[d] for d in dims) or 1
    return x.numel() // n, n


def _dims(args: tuple, kwargs: dict):
    return kwargs.get("dim", args[1] if len(args) > 1 and isinstance(args[1], int | list | tuple) else None)


def _fold(args, kwargs, results) -> Counted:
    """n - 1 additions or comparisons for each row."""
    rows, n = _rows(args[0], _dims(args, kwargs))
    return rows * (n - 1), 0


def _mean(args, kwargs, results) -> Counted:
    rows, n = _rows(args[0], _dims(args, kwargs))
    return rows * n, 0


def _var(args, kwargs, results) -> Counted:
    """The mean (n), the squares of the distances from it (2 n), their sum (n - 1) and a division."""
    rows, n = _rows(args[0], _dims(args, kwargs))
    return rows * 4 * n, 0


def _norm(args, kwargs, results) -> Counted:
    """Squares (n), their sum (n - 1) and a root, for each row."""
    x = args[0]
    rows, n = _rows(x, args[2] if len(args) > 2 else kwargs.get("dim"))
    return rows * (2 * n - 1), rows


def _softmax(args, kwargs, results) -> Counted:
    """A row of n: its largest (n - 1), subtracted (n), exp (n special), their sum (n - 1), a division of each (n)."""
    rows, n = _rows(args[0], args[1])
    return rows * (4 * n - 2), rows * n


def _log_softmax(args, kwargs, results) -> Counted:
    """As softmax, with one logarithm a row and a subtraction in place of the division."""
    rows, n = _rows(args[0], args[1])
    return rows * (4 * n - 2), rows * (n + 1)


def _softmax_backward(args, kwargs, results) -> Counted:
    """y (g - sum(g y)): a product (n), its sum (n - 1), a subtraction (n), a product (n)."""
    rows, n = _rows(args[0], args[2])
    return rows * (4 * n - 1), 0


def _log_softmax_backward(args, kwargs, results) -> Counted:
    """g - exp(y) sum(g): a sum (n - 1), exp (n special), a product (n), a subtraction (n)."""
    rows, n = _rows(args[0], args[2])
    return rows * (3 * n - 1), rows * n


def _layer_norm(args, kwargs, results) -> Counted:
    """A row of n: mean (n), distances (n), squares (n), their mean (n), eps, root, division, scaling (n), weight and bias (n)."""
    x, shape, weight, bias = args[:4]
    n = prod(shape)
    rows = x.numel() // n
    return rows * (5 * n + 2 + n * (weight is not None) + n * (bias is not None)), rows


def _layer_norm_backward(args, kwargs, results) -> Counted:
    """A row of n: x̂ (2 n), g w (n), its sum and that of g w x̂ (3 n), (g w - mean - x̂ mean) rstd (4 n); weight 2 n, bias n."""
    x = args[1]
    mask = args[7] if len(args) > 7 else kwargs.get("output_mask", (True, True, True))
    return x.numel() * (10 * bool(mask[0]) + 2 * bool(mask[1]) + bool(mask[2])), 0


def _batch_norm(args, kwargs, results) -> Counted:
    """As layer_norm, over everything but the channels."""
    x = args[0]
    channels = x.shape[1]
    return x.numel() * 7 + 2 * channels, channels


def _nll(args, kwargs, results) -> Counted:
    """Rows are picked and summed up, then divided by their number."""
    rows = args[0].numel() // args[0].shape[-1]
    return rows, 0


def _added(args, kwargs, results) -> Counted:
    """Each row of the gradient is added into its row of the table."""
    return args[0].numel(), 0


def _per_window(args, kwargs, results) -> Counted:
    """Pooling: a comparison or an addition for each element of each window, less one."""
    window = args[1] if isinstance(args[1], int) else prod(args[1])
    return results[0].numel() * (window - 1), 0


def _attention(args, kwargs, results) -> Counted:
    """The two products of fused attention: 4 b h q k d."""
    q, k, v = args[:3]
    b, h, s, d = q.shape
    return 2.0 * b * h * s * k.shape[-2] * (d + v.shape[-1]), 0


_REDUCTIONS: dict[str, Callable[[tuple, dict, list], Counted]] = {
    **dict.fromkeys(("sum", "amax", "amin", "max", "min", "argmax", "argmin", "prod", "cumsum", "any", "all"), _fold),
    "mean": _mean,
    **dict.fromkeys(("var", "var_mean", "std"), _var),
    **dict.fromkeys(("linalg_vector_norm", "norm"), _norm),
    **dict.fromkeys(("_softmax", "_safe_softmax"), _softmax),
    "_log_softmax": _log_softmax,
    "_softmax_backward_data": _softmax_backward,
    "_log_softmax_backward_data": _log_softmax_backward,
    "native_layer_norm": _layer_norm,
    "native_layer_norm_backward": _layer_norm_backward,
    **dict.fromkeys(("native_batch_norm", "_native_batch_norm_legit", "cudnn_batch_norm"), _batch_norm),
    "nll_loss_forward": _nll,
    "nll_loss_backward": lambda args, kwargs, results: (0, 0),
    "embedding_dense_backward": _added,
    "max_pool2d_with_indices": _per_window,
    "_scaled_dot_product_flash_attention_for_cpu": _attention,
    "_scaled_dot_product_flash_attention_for_cpu_backward": lambda args, kwargs, results: (
        2.5 * _attention(args[1:], kwargs, results)[0],  # five products for the two of forward
        0,
    ),
    "dot": lambda args, kwargs, results: (2 * args[0].numel() - 1, 0),
    "mv": lambda args, kwargs, results: (2 * args[0].numel(), 0),
}


@cache
def _library() -> dict[str, Callable]:
    """torch's own formulas by the op's name: products, convolutions, fused attention and their backward."""
    from torch.utils.flop_counter import flop_registry

    return {str(packet).rsplit(".", 1)[-1]: formula for packet, formula in flop_registry.items()}
