"""The toy block's scoreboard, counted and not timed: kernels, launches, bytes, FLOPs and memory of every way to run it.

Eager, planned, captured, fused, both, torch.compile. Eager ops are counted from the shapes they are called with, our kernel by
its form, compiled code by its text; memory is traced: what one step takes at most, and what a way holds all the time. An op is
taken for one kernel. Planned, dropout is more: its out= form makes both results elsewhere (its two requests) and copies them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from utils.measure import alloc_trace, generated_kernels, intensity, three_losses
from utils.measure.captured_block import BOTH, CAPTURED, COMPILED, EAGER, FUSED, Inputs, Step, as_module, steps_of
from utils.measure.device_clock import MeasurementError
from utils.measure.either_clock import Progress, need, settled
from utils.measure.placed_ops import usual_dtype
from utils.measure.record import in_words
from utils.measure.three_losses import KEYS, PLANNED
from utils.measure.toy_block import LARGE

SCALARS = 1024  # bytes: what is smaller is a number that an op, or a generator, keeps for itself


@dataclass(frozen=True)
class Counted:
    """Kernels of one step, launches that the host makes for it one by one, bytes moved, FLOPs of products and of all (None where
    the rest is not counted), and the kernels' names."""

    kernels: int
    launches: int
    bytes: int
    product_flops: float
    flops: float | None
    names: tuple[str, ...]


def board(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """The wide block's ways, counted:

    "rows": [{"way", "key", "kernels", "launches" (that the host makes in a step; copying an input in is left out), "bytes",
    "activations" (bytes over those of one activation), "flops" (None: not counted), "product_flops", "step_peak" and "held"
    (bytes that a step takes at most, and that the way holds all the time), "peak" (both), "requests" (a step's, of memory),
    "names"}], "missing" {way: why}, "shape", "numbers": "activation", "least" (activations that one kernel for it all would
    move), by way (KEYS) "…_kernels", "…_launches", "…_traffic" (activations), "…_peak" (activations), "…_requests";
    "traffic_ratio" (eager over compiled), "flops_ratio" and "product_ratio" (compiled over eager), "rest_ratio" (the same of
    what is no product). About 3 s, and what compiling takes. MeasurementError without the device.
    """
    need(device, "the block's scoreboard")
    import torch

    rows, missing = [], {}
    shape = LARGE[device]
    with settled(device) as notes, torch.no_grad():
        inputs = Inputs(device, shape)
        activation = inputs.x.nbytes
        whole = intensity.count(inputs.block, inputs.x, inputs.w, inputs.b)
        ways = _ways(inputs, whole)
        for at, (way, (count, make)) in enumerate(ways.items()):
            if progress:
                progress(at / len(ways), f"counting: {way}")
            try:
                counted = count()
                held, step = _held(make, device)
                found = _step(step, device)
            except Exception as error:  # a compiler or a driver that refuses: the others go on
                missing[way] = str(error) if isinstance(error, MeasurementError) else f"{type(error).__name__}: {in_words(error)}"
                continue
            rows.append(
                {
                    "way": way,
                    "key": KEYS[way],
                    "kernels": counted.kernels,
                    "launches": counted.launches,
                    "bytes": counted.bytes,
                    "activations": counted.bytes / activation,
                    "flops": counted.flops,
                    "product_flops": counted.product_flops,
                    "step_peak": found.peak,
                    "held": held,
                    "peak": found.peak + held,
                    "requests": len(found.blocks),
                    "names": list(counted.names),
                }
            )
    numbers = {"activation": float(activation), "least": whole.least_bytes / activation}
    for row in rows:
        key = row["key"]
        numbers |= {f"{key}_kernels": float(row["kernels"]), f"{key}_launches": float(row["launches"])}
        numbers |= {f"{key}_traffic": row["activations"], f"{key}_peak": row["peak"] / activation}
        numbers[f"{key}_requests"] = float(row["requests"])
    numbers |= _ratios({row["key"]: row for row in rows})
    notes += [usual_dtype(device), *(f"{way}: {why}" for way, why in missing.items())]
    return {"device": device, "rows": rows, "missing": missing, "shape": list(shape), "numbers": numbers, "notes": notes}


def _ratios(rows: dict[str, dict]) -> dict[str, float]:
    if not {"eager", "compiled"} <= set(rows):
        return {}
    eager, fast = rows["eager"], rows["compiled"]
    out = {"traffic_ratio": eager["bytes"] / fast["bytes"], "product_ratio": fast["product_flops"] / eager["product_flops"]}
    if fast["flops"] is not None:
        rest = eager["flops"] - eager["product_flops"]
        out |= {"flops_ratio": fast["flops"] / eager["flops"], "rest_ratio": (fast["flops"] - fast["product_flops"]) / rest}
    return out


def _ways(inputs: Inputs, whole: intensity.Work) -> dict[str, tuple[Callable[[], Counted], Callable[[], Step]]]:
    """By way: how it is counted, and how it is made."""
    import torch

    from utils.measure.graph_by_hand import captured

    def by_steps(way: str) -> Callable[[], Step]:
        def make() -> Step:
            found = steps_of(inputs, lost := {}, compilers=False, only=(way,))
            if way not in found:
                raise MeasurementError(lost.get(way, "it could not be made"))
            return found[way]

        return make

    made: dict = {}  # compiled once: its text is read in the first call, and its step is that very function's

    def generated() -> Counted:
        made["f"] = torch.compile(as_module(inputs), dynamic=False)
        return _generated(generated_kernels.first_call(made["f"], inputs.x), inputs)

    # No result is kept where each is new: the one before would be given back in the next step's trace.
    makers: dict[str, Callable[[], Step]] = {way: by_steps(way) for way in (CAPTURED, FUSED, BOTH)}
    makers[EAGER] = lambda: Step(lambda: inputs.block(inputs.x, inputs.w, inputs.b), lambda: None)
    makers[PLANNED] = lambda: three_losses.planned(inputs)
    makers[COMPILED] = lambda: Step(lambda: made["f"](inputs.x), lambda: None)

    def replayed() -> Counted:
        nodes = captured(lambda x: inputs.block(x, inputs.w, inputs.b), inputs.x).graph.nodes
        counted = _of(whole)
        return Counted(nodes or counted.kernels, 1, counted.bytes, counted.product_flops, counted.flops, counted.names)

    counts: dict[str, Callable[[], Counted]] = {
        EAGER: lambda: _of(whole),
        PLANNED: lambda: _of(intensity.count(makers[PLANNED]().run)),
        CAPTURED: replayed,
        FUSED: lambda: _by_hand(inputs, whole, 2),
        BOTH: lambda: _by_hand(inputs, whole, 1),
        COMPILED: generated,
    }
    return {way: (counts[way], makers[way]) for way in KEYS}


def _of(work: intensity.Work) -> Counted:
    ops = work.computing
    product = sum(op.flops for op in ops if op.product)
    return Counted(len(ops), len(ops), work.bytes, product, work.flops, tuple(op.op for op in ops))


def _by_hand(inputs: Inputs, whole: intensity.Work, launches: int) -> Counted:
    """The product as eager has it, and our kernel by its form; its polynomial and its draw are not counted as FLOPs."""
    product = [op for op in whole.computing if op.product]
    tail = inputs.form.nbytes(inputs.rows, inputs.side, usual_dtype(inputs.device))
    flops = sum(op.flops for op in product)
    return Counted(len(product) + 1, launches, sum(op.bytes for op in product) + tail, flops, None,
                   (*(op.op for op in product), "the fused tail"))  # fmt: skip


def _generated(found: tuple[generated_kernels.Launch, ...], inputs: Inputs) -> Counted:
    known = all(launch.flops is not None for launch in found)
    side = inputs.rows * inputs.side  # a product's bias, added in its epilogue, is no FLOP of the product
    products = sum(launch.flops - (side if launch.name == "addmm" else 0) for launch in found if launch.product)
    total = sum(launch.flops for launch in found) if known else None
    bytes_ = sum(launch.bytes for launch in found)
    return Counted(len(found), len(found), bytes_, products, total, tuple(launch.name for launch in found))


def _held(make: Callable[[], Step], device: str) -> tuple[int, Step]:
    """(bytes that stay taken after a step was made, the step); what a process makes once is made by a first one, which is
    dropped."""
    import gc

    import torch

    make()
    gc.collect()
    if device == "cuda":
        torch.cuda.synchronize()
        before = torch.cuda.memory_stats()["requested_bytes.all.current"]
        step = make()
        torch.cuda.synchronize()
        return max(0, torch.cuda.memory_stats()["requested_bytes.all.current"] - before), step
    made: list[Step] = []
    found = _traced(lambda: made.append(make()), device)
    return found.kept, made[0]


def _step(step: Step, device: str) -> alloc_trace.Trace:
    """What one step takes (a captured one without its copy), the result it leaves included; the result before is let go."""
    run = step.bare or step.run
    run()
    return _traced(run, device)


def _traced(f: Callable[[], object], device: str) -> alloc_trace.Trace:
    """The blocks of a kilobyte and more that `f` takes; beside it one byte is asked for, for a trace of nothing is refused."""
    import torch

    def both():
        return torch.empty(1, dtype=torch.uint8, device=device), f()

    return alloc_trace.trace(both, device).at_least(SCALARS)
