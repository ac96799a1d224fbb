"""What a profiler's trace shows of a program, as numbers a diagnosis can be made from. No torch, no clock.

Takes events as `traces.read` gives them, ours or a reader's. Where steps are marked (`ProfilerStep#`, which `profiler.step()`
writes), all is per step; else the whole trace is one step. On a CPU one thread is host and device: what an op takes is its work
and its issue in one, and nobody can see from outside which. On a GPU the kernels say what the device did.
"""

from __future__ import annotations

import re
import statistics
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from math import prod

from utils.model import traces

STEP = re.compile(r"^ProfilerStep#?\s*\d+")
LOADER = re.compile(r"DataLoader")
COMPILES = re.compile(r"compile_inner|^dynamo$|^entire_frame_compile|CompileTime|\(dynamo_timed\)")
COMPILED = re.compile(r"^_compile\.compile_inner")  # one a compilation, on torch 2.6 to 2.13
TRACES = re.compile(r"^PythonDispatchMode$")  # make_fx and its kin run every op once more, in Python
CAPTURES = re.compile(r"StreamBeginCapture|GraphInstantiate|GraphCreate|StreamEndCapture|GraphExecDestroy")
BEGINS = re.compile(r"StreamBeginCapture")
MALLOCS = re.compile(r"^(cuda|cuMem)(Malloc|Free|HostAlloc|FreeHost|Alloc)\w*$")
BUS = re.compile(r"HtoD|DtoH")

PRODUCT = re.compile(
    r"^aten::(mm|addmm|bmm|baddbmm|addbmm|mv|addmv|dot|_int_mm|_scaled_mm|linear|matmul|convolution\w*|_convolution\w*|cudnn_conv\w*|"
    r"mkldnn_conv\w*|mkldnn_linear\w*|slow_conv\w*|thnn_conv\w*|_?scaled_dot_product\w*|_flash_attention\w*|_efficient_attention\w*)$"
)
COPY = re.compile(
    r"^aten::(copy_|clone|contiguous|cat|_cat|stack|repeat|_to_copy|to|index_select|index|flip|roll|pad|constant_pad_nd|_pin_memory)$"
)
FILL = re.compile(r"^aten::(fill_|zero_|zeros|zeros_like|ones|ones_like|full|full_like|new_zeros|new_ones)$")
READ_OUT = re.compile(r"^aten::(item|_local_scalar_dense|nonzero|is_nonzero|equal|allclose|_unique2?|masked_select)$")
ONE_READ_OUT = re.compile(r"^aten::(_local_scalar_dense|nonzero|equal|_unique2?|masked_select)$")
NO_WORK = re.compile(
    r"^aten::(as_strided|view|_unsafe_view|_reshape_alias|reshape|t|transpose|permute|expand|select|slice|narrow|unbind|split\w*|chunk|"
    r"squeeze|unsqueeze|flatten|detach_?|alias|numpy_T|empty\w*|new_empty\w*|resize_|set_|resolve_\w+|is_same_size|result_type|"
    r"lift_fresh|item|_local_scalar_dense|is_nonzero|linear|matmul|to|_to_copy|contiguous|clone|zeros\w*|ones\w*|full\w*|"
    r"new_zeros|new_ones|stack|rand\w*|conv\dd|convolution|layer_norm|dropout|cross_entropy_loss|record_stream|pin_memory)$"
)
KERNEL_PRODUCT = re.compile(r"gemm|gemv|cutlass|xmma|nvjet|convolve|_conv|wgrad|dgrad|flash|fmha|\bmma", re.I)
KERNEL_COPY = re.compile(r"copy|CatArray|transpose|nchwToNhwc|nhwcToNchw", re.I)
KERNEL_FILL = re.compile(r"Fill", re.I)

KINDS = ("product", "elementwise", "copy", "fill", "read_out", "other")
BYTES = {
    "double": 8,
    "long int": 8,
    "long": 8,
    "float": 4,
    "int": 4,
    "c10::BFloat16": 2,
    "c10::Half": 2,
    "short": 2,
    "bool": 1,
    "unsigned char": 1,
    "signed char": 1,
    "c10::complex<float>": 8,
    "c10::complex<double>": 16,
}
DTYPES = {"double": "fp64", "float": "fp32", "c10::BFloat16": "bf16", "c10::Half": "fp16"}
LONG_GAP_US = (
    100.0  # Python between two ops of a loop takes a few µs, under the profiler some ten: a longer gap is work of its own
)
SMALL_BYTES = 1 << 16  # an op on less is over about when it has been issued
SMALL_US = 50.0
ROUNDING_US = 2e-3  # files round to a nanosecond
PREEMPTED_US = 1000.0  # an op on a few bytes that takes longer computes much, or lost its core for a while
BIG_BYTES = 1 << 20  # more than a core's nearer caches hold


@dataclass(frozen=True)
class Features:
    """One step of a program, as its trace shows it: times in ns, shares of the step from 0 to 1, counts a step.

    `in_ops`: some op runs on the host; `outside`: the trace names nothing on the host; `long_gaps`: the part of that in gaps
    of LONG_GAP_US and more. `busy`: the device does something; on a CPU an op runs that is no compilation and no loader's.
    `kinds`: what the busy time goes to; `big` the same of ops on BIG_BYTES and more (on a GPU of kernels from 10 µs), as shares
    of the step. `small`: ops on a few bytes, with the short gaps between them. `wide`: ops in fp64, and products in fp32 on a
    GPU without TF32. `rows`: of a typical product, how many rows its smaller operand has; `weight_bytes` its larger one's.
    None: not in the trace.
    """

    device: str
    steps: int
    marked: bool
    step_ns: float
    ops: float
    median_op_ns: float
    op_bytes: float | None
    in_ops: float
    outside: float
    long_gaps: float
    longest_gap_ns: float
    by_op: dict[str, tuple[float, float]]
    kinds: dict[str, float]
    big: dict[str, float]
    small: float
    wide: float
    dtype: str | None
    rows: float | None
    weight_bytes: float | None
    product_flops: float
    busy: float
    kernels: float
    kernel_ns: float
    launches: float
    replays: float
    waits: dict[str, float]
    wait: float
    read_outs: float
    read_out: float
    loader: float
    compiles: float
    compile: float
    captures: float
    capture: float
    same_shapes: bool | None
    bus_copies: float
    bus_bytes: float
    bus: float
    mallocs: float
    malloc: float

    @property
    def top_op(self) -> str:
        """The op, or the kernel, that most of the busy time goes to; "" where none ran."""
        return next(iter(self.by_op), "")

    @property
    def top_share(self) -> float:
        """Its share of the step."""
        return self.by_op[self.top_op][1] / self.step_ns if self.by_op and self.step_ns else 0.0

    @property
    def idle(self) -> float:
        return max(0.0, 1.0 - self.busy)

    def to_dict(self) -> dict:
        """As plain JSON."""
        return asdict(self) | {"top_op": self.top_op, "top_share": self.top_share, "idle": self.idle}


class _Op:
    """An op of the host with what it spent itself; times in µs."""

    __slots__ = ("name", "start", "end", "own", "dims", "types", "parent", "bytes")

    def __init__(self, event: dict):
        self.name, self.start = event["name"], float(event["ts"])
        self.end = self.start + float(event["dur"])
        self.own = self.end - self.start
        args = event.get("args") or {}
        self.dims, self.types = args.get("Input Dims"), args.get("Input type")
        self.parent: _Op | None = None
        self.bytes = self._bytes()

    def outermost(self) -> _Op:
        """The furthest of the ops of torch around it, one in the other; itself where none is."""
        op = self
        while op.parent is not None and op.parent.name.startswith("aten::"):
            op = op.parent
        return op

    def _bytes(self) -> float | None:
        """Bytes of its tensor inputs and, again, of what it is taken to write: the largest of them, or a whole list of them.

        In a list (of cat, stack, foreach ops) the trace has shapes and no dtype, so 4 bytes a number. None without shapes.
        """
        if not isinstance(self.dims, list) or not isinstance(self.types, list):
            return None
        read = [prod(d) * BYTES[t] for d, t in zip(self.dims, self.types, strict=False) if _shape(d) and t in BYTES]
        lists = [d for d in self.dims if isinstance(d, list) and d and all(_shape(one) for one in d)]
        listed = float(sum(prod(one) * 4 for d in lists for one in d))
        return float(sum(read)) + listed + max([listed, *read], default=0.0)

    def type(self) -> str | None:
        """The C++ name of its first input tensor's numbers."""
        if not isinstance(self.dims, list) or not isinstance(self.types, list):
            return None
        return next((t for d, t in zip(self.dims, self.types, strict=False) if _shape(d) and d and t in DTYPES), None)


def _shape(dims) -> bool:
    return isinstance(dims, list) and all(isinstance(n, int) and not isinstance(n, bool) for n in dims)


def features(events: Iterable[dict]) -> Features:
    """What the events show; see `Features`. Raises ValueError without an event that can be placed in time."""
    events = [e for e in events if isinstance(e.get("name"), str) and e.get("cat") != "Trace"]
    if not events:
        raise ValueError("a trace without an event")
    begin, host_end, end, steps, marked = _window(events)
    # What the host does after the last step is not the program's, such as the wait that closes the recording.
    until = {cat: end for cat in traces.DEVICE}
    events = [
        e
        for e in events
        if begin - ROUNDING_US <= float(e["ts"]) < until.get(e.get("cat"), host_end - ROUNDING_US) or begin == end
    ]
    span = max(end - begin, 1e-9)
    ops = _ops(events)
    loader = [_span(e) for e in events if e.get("cat") in ("user_annotation", "cpu_op") and LOADER.search(e["name"])]
    compiles = [(o.start, o.end) for o in ops if COMPILES.search(o.name)]
    compiles += [_span(e) for e in events if e.get("cat") == "user_annotation" and "dynamo_timed" in e["name"]]
    apart = _inside(ops, loader + compiles)
    calls = [e for e in events if e.get("cat") in traces.RUNTIME]
    work = [e for e in events if e.get("cat") in traces.DEVICE]
    device = "cuda" if work else "cpu"
    real = [o for o in ops if id(o) not in apart]
    handed_on = {o.outermost() for o in real if TRACES.search(o.name)}  # ops that Python runs once more inside
    traced = [(o.start, o.end) for o in handed_on]
    recorded = _inside(real, traced)
    host = [(o.start, o.end) for o in ops] + loader + compiles + [_span(e) for e in calls]
    gaps = _gaps(host, begin, host_end)
    captured = [_span(e) for e in calls if CAPTURES.search(e["name"])]
    named, big, wide, by, products = _device_time(work, calls, real) if work else _host_time(real)
    busy = traces.covered(_span(e) for e in work) if work else traces.covered((o.start, o.end) for o in real)
    computing = [o for o in real if o.name.startswith("aten::") and not NO_WORK.search(o.name) and o not in handed_on]
    waits = [e for e in calls if traces.WAITS.search(e["name"])]
    bus = [e for e in work if e.get("cat") == "gpu_memcpy" and BUS.search(e["name"])]
    mallocs = [e for e in calls if MALLOCS.search(e["name"])]
    kernels = [e for e in work if e.get("cat") == "kernel"]
    sizes = [b for o in computing if (b := o.bytes) is not None]
    small = sum(o.own for o in real if _small(o) and id(o) not in recorded) + sum(
        stop - start for start, stop in gaps if stop - start < LONG_GAP_US
    )
    total = sum(named.values()) or 1.0
    return Features(
        device=device,
        steps=steps,
        marked=marked,
        step_ns=span * 1e3 / steps,
        ops=len(computing) / steps,
        median_op_ns=statistics.median(o.end - o.start for o in computing) * 1e3 if computing else 0.0,
        op_bytes=statistics.median(sizes) if sizes else None,
        in_ops=traces.covered((o.start, o.end) for o in ops) / span,
        outside=sum(stop - start for start, stop in gaps) / span,
        long_gaps=sum(stop - start for start, stop in gaps if stop - start >= LONG_GAP_US) / span,
        longest_gap_ns=max((stop - start for start, stop in gaps), default=0.0) * 1e3,
        by_op={name: (n / steps, us * 1e3 / steps) for name, (n, us) in sorted(by.items(), key=lambda item: -item[1][1])},
        kinds={kind: named.get(kind, 0.0) / total for kind in KINDS},
        big={kind: big.get(kind, 0.0) / span for kind in KINDS},
        small=min(1.0, small / span),
        wide=min(1.0, wide / span),
        dtype=_dtype(real),
        rows=_typical(products, 0),
        weight_bytes=_typical(products, 1),
        product_flops=sum(p[2] for o in real if (p := _product(o))) / steps,
        busy=min(1.0, busy / span),
        kernels=len(kernels) / steps,
        kernel_ns=statistics.fmean(float(e["dur"]) for e in kernels) * 1e3 if kernels else 0.0,
        launches=sum(bool(traces.LAUNCHES.search(e["name"])) for e in calls) / steps,
        replays=sum(bool(traces.REPLAYS.search(e["name"])) for e in calls) / steps,
        waits={name: n / steps for name, n in Counter(e["name"] for e in waits).most_common()},
        wait=traces.covered(_span(e) for e in waits) / span,
        read_outs=sum(bool(ONE_READ_OUT.search(o.name)) for o in real) / steps,
        read_out=traces.covered((o.start, o.end) for o in real if READ_OUT.search(o.name)) / span,
        loader=traces.covered(loader) / span,
        compiles=sum(bool(COMPILED.search(o.name)) for o in ops) / steps,
        compile=traces.covered(compiles) / span,
        captures=(sum(bool(BEGINS.search(e["name"])) for e in calls) or bool(traced) * steps) / steps,
        capture=_capture_share(traced, captured, calls, span),
        same_shapes=_same_shapes(events, real, steps, marked),
        bus_copies=len(bus) / steps,
        bus_bytes=sum(float((e.get("args") or {}).get("bytes") or 0) for e in bus) / steps,
        bus=traces.covered(_span(e) for e in bus) / span,
        mallocs=len(mallocs) / steps,
        malloc=traces.covered(_span(e) for e in mallocs) / span,
    )


def step_marks(events: Iterable[dict]) -> list[tuple[float, float]]:
    """(begin, end) in µs of each marked step, in order; empty where no step is marked."""
    return sorted(_span(e) for e in events if e.get("cat") == "user_annotation" and STEP.search(str(e.get("name"))))


@cache
def kind_of(name: str) -> str:
    """Which of KINDS an op of the host is, by its name; "other" for what is no work (views, wrappers, autograd's frames)."""
    if PRODUCT.search(name):
        return "product"
    if FILL.search(name):
        return "fill"
    if READ_OUT.search(name):
        return "read_out"
    if COPY.search(name):
        return "copy"
    return "elementwise" if name.startswith("aten::") and not NO_WORK.search(name) else "other"


def kind_of_kernel(event: dict, op: str = "") -> str:
    """Which of KINDS a piece of the device's work is, by its own name and by the op that launched it ("" where none is known)."""
    if event.get("cat") == "gpu_memset":
        return "fill"
    if event.get("cat") == "gpu_memcpy":
        return "copy"
    name = event["name"]
    if KERNEL_PRODUCT.search(name):
        return "product"
    if KERNEL_FILL.search(name):
        return "fill"
    if KERNEL_COPY.search(name):
        return "copy"
    known = kind_of(op) if op else "elementwise"
    return known if known in ("copy", "fill") else "elementwise"


# ------------------------------------------------------------------------------------------------ one thing each


def _span(event: dict) -> tuple[float, float]:
    return float(event["ts"]), float(event["ts"]) + float(event["dur"])


def _window(events: Sequence[dict]) -> tuple[float, float, float, int, bool]:
    """(begin, end on the host, end of the work that the device was left with) of the marked steps; how many; whether marked."""
    marks = step_marks(events)
    if not marks:
        spans = [_span(e) for e in events]
        last = max(e for _, e in spans)
        return min(s for s, _ in spans), last, last, 1, False
    begin, end = marks[0][0], max(stop for _, stop in marks)
    launched = {_number(e) for e in events if e.get("cat") in traces.RUNTIME and begin <= float(e["ts"]) <= end} - {None}
    late = [_span(e)[1] for e in events if e.get("cat") in traces.DEVICE and _number(e) in launched]
    return begin, end, max([end, *late]), len(marks), True


def _number(event: dict):
    return (event.get("args") or {}).get("correlation")


def _ops(events: Iterable[dict]) -> list[_Op]:
    """The host's ops in the order of their begin, each with the time that no op inside it spent, and the op around it."""
    lanes: dict[tuple, list[_Op]] = defaultdict(list)
    for e in events:
        if e.get("cat") == "cpu_op":
            lanes[e.get("pid"), e.get("tid")].append(_Op(e))
    for lane in lanes.values():
        lane.sort(key=lambda o: (o.start, -o.end))
        around: list[_Op] = []
        for op in lane:
            while around and around[-1].end <= op.start + ROUNDING_US:
                around.pop()
            if around:
                op.parent = around[-1]
                around[-1].own = max(0.0, around[-1].own - (min(op.end, around[-1].end) - op.start))
            around.append(op)
    return sorted((op for lane in lanes.values() for op in lane), key=lambda o: o.start)


def _inside(ops: list[_Op], spans: list[tuple[float, float]]) -> set[int]:
    """Ids of the ops (in the order of their begin) that run inside one of the spans: a compilation's, a loader's, a recording's.

    They are its work, and not the step's.
    """
    merged: list[list[float]] = []
    for start, stop in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], stop)
        else:
            merged.append([start, stop])
    at, found = 0, set()
    for op in ops:
        while at < len(merged) and merged[at][1] <= op.start:
            at += 1
        if at < len(merged) and merged[at][0] <= op.start and op.end <= merged[at][1] + ROUNDING_US:
            found.add(id(op))
    return found


def _gaps(spans: list[tuple[float, float]], begin: float, end: float) -> list[tuple[float, float]]:
    """The stretches of the window that no span covers."""
    out, reached = [], begin
    for start, stop in sorted(spans):
        if start > reached:
            out.append((reached, min(start, end)))
        reached = max(reached, stop)
    if reached < end:
        out.append((reached, end))
    return [(a, b) for a, b in out if b > a]


def _small(op: _Op) -> bool:
    """Whether the op is over about when it has been issued: few bytes, or, without shapes, little time."""
    moved = op.bytes
    return op.end - op.start <= SMALL_US if moved is None else moved <= SMALL_BYTES and op.end - op.start <= PREEMPTED_US


def _host_time(ops: list[_Op]):
    """By the ops' own time, a CPU's work: µs by kind, the same of big ops, µs of wide ops, op → (n, µs), products with µs."""
    named, big, by, wide, products = Counter(), Counter(), {}, 0.0, []
    for op in ops:
        kind = kind_of(op.name)
        named[kind] += op.own
        moved = _bytes_within(op)
        if (moved is None and op.own >= LONG_GAP_US) or (moved or 0) >= BIG_BYTES:
            big[kind] += op.own
        if _type_within(op) == "double":
            wide += op.own
        n, us = by.get(op.name, (0, 0.0))
        by[op.name] = n + 1, us + op.own
        products += [(*found, op.own)] if (found := _product(op)) else []
    return named, big, wide, by, products


def _bytes_within(op: _Op) -> float | None:
    """Its bytes, or those of the nearest op around it that names tensors."""
    moved = op.bytes
    while not moved and op.parent is not None and op.parent.name.startswith("aten::"):
        op = op.parent
        moved = op.bytes
    return moved


def _type_within(op: _Op) -> str | None:
    return op.type() or (op.parent.type() if op.parent is not None else None)


def _device_time(work: list[dict], calls: list[dict], ops: list[_Op]):
    """The same by the device's work: each kernel joined by its number to the call, and to the innermost op around that call."""
    by_number = {n: e for e in calls if (n := _number(e)) is not None}
    around = _innermost([e for e in by_number.values()], ops)
    named, big, by, wide, products = Counter(), Counter(), {}, 0.0, []
    for e in work:
        call = by_number.get(_number(e))
        op = around.get(id(call)) if call is not None else None
        us = float(e["dur"])
        kind = kind_of_kernel(e, op.name if op else "")
        named[kind] += us
        if us >= 10.0:
            big[kind] += us
        if _wide_kernel(e, op, kind):
            wide += us
        n, spent = by.get(e["name"], (0, 0.0))
        by[e["name"]] = n + 1, spent + us
        products += [(*found, us)] if op and (found := _product(op)) else []
    return named, big, wide, by, products


def _typical(products: list[tuple], which: int) -> float | None:
    """The value that half of the products' time lies at or below; None without a product whose shapes are known."""
    whole, reached = sum(p[-1] for p in products), 0.0
    for p in sorted(products, key=lambda p: p[which]):
        reached += p[-1]
        if reached >= whole / 2:
            return p[which]
    return None


def _wide_kernel(event: dict, op: _Op | None, kind: str) -> bool:
    """Whether a kernel computes wider than its unit needs: fp64 anywhere, fp32 in a product without TF32."""
    name, type_ = event["name"], _type_within(op) if op else None
    if type_ == "double" or re.search(r"\bdgemm|<double|d884|f64", name):
        return True
    if kind != "product" or re.search(r"tf32|bf16|f16|s1688|half|bfloat", name, re.I):
        return False
    return type_ == "float" or bool(re.search(r"sgemm|ffma|f32f32", name))


def _innermost(calls: list[dict], ops: list[_Op]) -> dict[int, _Op]:
    """id of a call → the innermost op that was open when it began (by time: ops of one thread are nested)."""
    found, open_ops, at = {}, [], 0
    ops = sorted(ops, key=lambda o: (o.start, -o.end))
    for call in sorted(calls, key=lambda e: float(e["ts"])):
        now = float(call["ts"])
        while at < len(ops) and ops[at].start <= now:
            open_ops.append(ops[at])
            at += 1
        open_ops = [o for o in open_ops if o.end >= now]
        if open_ops:
            found[id(call)] = min(open_ops, key=lambda o: o.end - o.start)
    return found


def _product(op: _Op) -> tuple[float, float, float] | None:
    """(rows of the operand that has fewer, bytes of the other, FLOPs) of a matrix product whose shapes were recorded."""
    name = op.name.removeprefix("aten::")
    if name not in ("mm", "addmm", "bmm", "baddbmm", "mv", "addmv") or not isinstance(op.dims, list):
        return None
    shapes = [d for d in op.dims if _shape(d) and d]
    shapes = shapes[-2:] if len(shapes) >= 2 else []
    if len(shapes) < 2 or not all(len(s) >= 1 for s in shapes):
        return None
    size = BYTES.get(op.type() or "", 4)
    left, right = shapes
    if name in ("mv", "addmv"):
        return 1.0, prod(left) * size, 2.0 * prod(left)
    m, k, n = left[-2], left[-1], right[-1]
    batch = left[0] if len(left) == 3 else 1
    weights = max(prod(left), prod(right)) / batch * size
    return float(min(m, n)), weights, 2.0 * batch * m * k * n


def _dtype(ops: list[_Op]) -> str | None:
    """The dtype that most of the products' time goes to, of most ops where no product ran; None where none is recorded."""
    products, all_ops = Counter(), Counter()
    for op in ops:
        if type_ := op.type():
            all_ops[type_] += op.own
            if PRODUCT.search(op.name):
                products[type_] += op.own
    known = products or all_ops
    return DTYPES[known.most_common(1)[0][0]] if known else None


def _capture_share(traced, captured, calls, span: float) -> float:
    """Time spent on making graphs: from the begin of each capture to its graph's being ready; ops run again in Python."""
    spans, begun = list(traced), None
    for start, stop in sorted(captured):
        begun = start if begun is None else begun
        spans.append((start, stop))
    begins = sorted(float(e["ts"]) for e in calls if BEGINS.search(e["name"]))
    ready = sorted(_span(e)[1] for e in calls if re.search(r"GraphInstantiate|StreamEndCapture", e["name"]))
    for at, start in enumerate(begins):
        following = begins[at + 1] if at + 1 < len(begins) else float("inf")
        ends = [stop for stop in ready if start < stop <= following]
        if ends:
            spans.append((start, max(ends)))
    return traces.covered(spans) / span


def _same_shapes(events: list[dict], ops: list[_Op], steps: int, marked: bool) -> bool | None:
    """Whether every marked step gave the same shapes to the same ops; None where that cannot be said."""
    marks = step_marks(events)
    if not marked or steps < 2 or not any(isinstance(o.dims, list) for o in ops):
        return None
    starts, seen = [o.start for o in ops], []
    for start, stop in marks:
        mine = ops[bisect_left(starts, start - ROUNDING_US) : bisect_left(starts, stop - ROUNDING_US)]
        seen.append(Counter(str(o.dims) for o in mine if o.bytes))
    return all(one == seen[0] for one in seen)
