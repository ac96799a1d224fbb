"""Programmatic dependent launch in a graph: a node may start before the one before it has ended, and waits for its data itself.

The driver puts such an edge into a graph when a kernel is launched on a capturing stream with the attribute for it. Kernels of
torch's own never wait for themselves, so none of them may have it; ours is one add of one element, by NVRTC.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from utils.measure import seams
from utils.measure.device_clock import MeasurementError
from utils.measure.either_clock import Progress, need, within
from utils.measure.graph_by_hand import Graph
from utils.measure.lanes import node_price
from utils.measure.record import in_words
from utils.measure.stopwatch import time_device
from utils.model.readings import Reading

SHORT, LONG = 100, 1000
PROGRAMMATIC = 6  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
LEAST = (9, 0)  # compute capability: Hopper is the first with griddepcontrol
TORCH, PLAIN, WAITS, EARLY = "torch's add", "our add, plain edges", "programmatic", "programmatic, released early"
_BODY = {
    PLAIN: "",
    # Wait until the grid before has ended and its writes are seen; nothing of x may be read before.
    WAITS: 'asm volatile("griddepcontrol.wait;" : : : "memory");',
    # Let the next grid start now: it waits for this one's end all the same.
    EARLY: 'asm volatile("griddepcontrol.launch_dependents;\\n griddepcontrol.wait;" : : : "memory");',
}
NAMES = {PLAIN: "plain_add", WAITS: "waiting_add", EARLY: "early_add"}


def source(way: str) -> str:
    """The kernel of one way: x[0] += b[0]."""
    return f"""extern "C" __global__ void {NAMES[way]}(float* x, const float* b) {{
  {_BODY[way]}
  *(volatile float*)x = *(volatile float*)x + *b;
}}"""


class Value(ctypes.Union):
    """CUlaunchAttributeValue: 64 bytes, of which this attribute reads an int."""

    _fields_ = [("pad", ctypes.c_char * 64), ("allowed", ctypes.c_int)]


class Attribute(ctypes.Structure):
    """CUlaunchAttribute."""

    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", Value)]


class Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = [
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(Attribute)),
        ("count", ctypes.c_uint),
    ]


class Add:
    """Our add of one element, in place on x, launched on the current stream, with the attribute unless its edges are plain."""

    def __init__(self, way: str, x, b):
        import torch

        torch.cuda.synchronize()  # makes the context current on this thread
        try:
            self._kernel = seams.cuda_kernel(source(way), NAMES[way])
            function = seams.cuda_kernel_handle(self._kernel)
            self._launch = ctypes.CDLL("libcuda.so.1").cuLaunchKernelEx
        except Exception as error:  # NVRTC, its library, a driver without this launch: each fails in its own way
            raise MeasurementError(f"{NAMES[way]} cannot be made here: {in_words(error)}") from None
        self._kept = x, b
        self._values = [ctypes.c_void_p(t.data_ptr()) for t in (x, b)]
        self._arguments = (ctypes.c_void_p * 2)(*(ctypes.addressof(v) for v in self._values))
        self._attribute = Attribute(id=PROGRAMMATIC)
        self._attribute.value.allowed = 1
        self._count = 0 if way == PLAIN else 1
        self._function = ctypes.c_void_p(function)

    def __call__(self) -> None:
        """One launch. MeasurementError when the driver refuses it."""
        import torch

        ones = (ctypes.c_uint * 3)(1, 1, 1)
        config = Config(ones, ones, 0, torch.cuda.current_stream().cuda_stream, ctypes.pointer(self._attribute), self._count)
        if error := self._launch(ctypes.byref(config), self._function, self._arguments, None):
            raise MeasurementError(f"the CUDA driver refused a kernel with this launch (error {error})")


def pdl(device: str = "cuda", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """Graphs of 100 and of 1,000 dependent one-element adds, by ways that differ in their edges:

    "rows": [{"way", "node_ns" (one node more), "of_100_us" (a replay of 100), "right"}], "race" (ns a replay), "missing"
    {way: why}, "numbers": "torch", "plain", "programmatic", "early" (ns a node), "gain" (plain over the better of the two),
    "wrong", "aa_error". About 5 s. MeasurementError without a GPU of capability 9.0, NVRTC, or this launch in the driver.
    """
    need(device, "programmatic launches")
    if device == "cpu":
        raise MeasurementError("programmatic dependent launch is a GPU's: a CPU has no launches")
    import torch

    if torch.cuda.get_device_capability() < LEAST:
        raise MeasurementError(f"this GPU (capability {torch.cuda.get_device_capability()}) has no programmatic launch: 9.0 has")
    missing: dict[str, str] = {}
    graphs: dict[str, dict[int, Graph]] = {}
    right: dict[str, bool] = {}
    keep: list = []
    for at, way in enumerate((TORCH, PLAIN, WAITS, EARLY)):
        if progress:
            progress(0.4 * at / 4, f"capturing: {way}")
        try:
            graphs[way], right[way] = _made(way, keep)
        except (MeasurementError, RuntimeError) as error:
            missing[way] = in_words(error)
    if not {WAITS, EARLY} & set(graphs):
        raise MeasurementError("; ".join(f"{way}: {why}" for way, why in missing.items()))
    arms = {f"{way}, {n}": graph.replay for way, by_length in graphs.items() for n, graph in by_length.items()}
    found = time_device(
        arms, device=device, blocks=15 if quick else 40, at_most_s=4 if quick else 12, progress=within(progress, 0.4, 0.6)
    )
    each = {way: node_price(found[f"{way}, {SHORT}"], SHORT, found[f"{way}, {LONG}"], LONG) for way in graphs}
    rows = [
        {"way": way, "node_ns": each[way].ns, "of_100_us": found[f"{way}, {SHORT}"].ns * 1e-3, "right": right[way]}
        for way in graphs
    ]
    return {"device": device, "rows": rows, "race": found, "missing": missing,
            "numbers": _numbers(each, right) | {"aa_error": found.aa_error},
            "notes": [f"{way}: {why}" for way, why in missing.items()]}  # fmt: skip


def _numbers(each: dict[str, Reading], right: dict[str, bool]) -> dict[str, float]:
    keys = {TORCH: "torch", PLAIN: "plain", WAITS: "programmatic", EARLY: "early"}
    out = {keys[way]: reading.ns for way, reading in each.items()}
    better = [reading.ns for way, reading in each.items() if way in (WAITS, EARLY) and right[way]]
    if PLAIN in each and better:
        out["gain"] = each[PLAIN].ns / min(better)
    return out | {"wrong": float(sum(not good for good in right.values()))}


def _made(way: str, keep: list) -> tuple[dict[int, Graph], bool]:
    """({nodes: graph}, whether three replays gave the sums of as many adds op by op), in whole numbers, so that it is exact."""
    import torch

    x, b = torch.full((1,), 3.0, device="cuda"), torch.ones(1, device="cuda")
    keep += [x, b]
    graphs, right = {}, True
    for n in (SHORT, LONG):
        graph = Graph("cuda")
        run = _torchs(n, x, b) if way == TORCH else _ours(Add(way, x, b), n)
        keep.append(run)
        with graph.warm_up():
            run()
        with graph.capture():
            run()
        for _ in range(3):
            x.fill_(3.0)
            graph.replay()
            torch.cuda.synchronize()
            right &= float(x) == 3.0 + n
        graphs[n] = graph
    return graphs, right


def _ours(add: Add, n: int) -> Callable[[], None]:
    def run() -> None:
        for _ in range(n):
            add()

    return run


def _torchs(n: int, x, b) -> Callable[[], None]:
    def run() -> None:
        for _ in range(n):
            x.add_(b)

    return run
