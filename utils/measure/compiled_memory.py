"""The memory of the toy block under torch.compile: the buffers that its code takes, traced, beside eager's and beside a plan.

Three ways of one program: as it is written, compiled as torch does by itself, and compiled with its own planner of memory
switched on (an option that is off unless asked for)."""

from __future__ import annotations

from collections.abc import Callable

from utils.measure import tools
from utils.measure.alloc_trace import Trace, trace
from utils.measure.block_memory import FORWARD, SCALARS, TRAINING, Toy
from utils.measure.device_clock import MeasurementError
from utils.measure.either_clock import Progress, need, settled
from utils.model import memory_plan

SHAPE = {"cpu": (512, 256), "cuda": (8192, 4096)}
EAGER, COMPILED, POOLED = "eager", "compiled", "compiled, planned"
OPTIONS: dict[str, dict] = {COMPILED: {}, POOLED: {"memory_planning": True}}


def compiled(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """The block's buffers by case and way:

    "rows": [{"case", "way", "buffers", "sum", "peak", "largest", "kept", "planned" (bytes of the best offline plan of these
    buffers)}] (bytes), "traces": {case: {way: Trace as plain data}}, "missing": {way: why}, "numbers": by case ("forward",
    "training") "…_peak" and "…_sum" (compiled over eager), "…_eager_share", "…_compiled_share" (peak over sum),
    "…_compiled_over_largest" (peak over the largest buffer), "…_pooled_peak" (over compiled), "…_compiled_buffers",
    "…_eager_buffers", "…_planned" (best plan of eager's buffers over the compiled peak). 20 s of compiling at first, a second
    or two when the code is on disk. MeasurementError without a compiler. quick leaves out training and the planner's switch.
    """
    need(device, "the compiled block")
    if device == "cpu" and not (found := tools.compiler()).works:
        raise MeasurementError(f"torch.compile needs a C++ compiler: {found.why}")
    import torch

    rows, traces, missing, numbers = [], {}, {}, {}
    with settled(device) as notes:
        toy = Toy(device, SHAPE[device])
        cases = {FORWARD: toy.forward} if quick else {FORWARD: toy.forward, TRAINING: toy.training}
        for at, (case, eager) in enumerate(cases.items()):
            ways: dict[str, Callable] = {EAGER: eager}
            for way, options in OPTIONS.items():
                if way == POOLED and (quick or case == TRAINING):
                    continue
                ways[way] = _compiled(toy, case, options)
            found: dict[str, Trace] = {}
            for step, (way, f) in enumerate(ways.items()):
                if progress:
                    progress((at + step / len(ways)) / len(cases), f"{case}: {way}")
                try:
                    f()
                    f()
                    found[way] = trace(f, device).at_least(SCALARS)
                except Exception as error:  # whatever the compiler raises, in its own words; the other ways go on
                    if way == EAGER:
                        raise
                    missing[f"{case}: {way}"] = _first_line(error)
            if COMPILED not in found:
                raise MeasurementError(f"torch.compile gave no code here: {missing[f'{case}: {COMPILED}']}")
            traces[case] = {way: one.to_dict() for way, one in found.items()}
            rows += [_row(case, way, one) for way, one in found.items()]
            numbers |= _numbers(
                "forward" if case == FORWARD else "training", {row["way"]: row for row in rows if row["case"] == case}
            )
        notes = [*notes, f"{toy.dtype}, activation of {toy.activation >> 10:,} KiB"]
        torch.compiler.reset()
    return {
        "device": device,
        "rows": rows,
        "traces": traces,
        "missing": missing,
        "numbers": numbers,
        "notes": notes,
    }


def _compiled(toy: Toy, case: str, options: dict) -> Callable:
    """The block compiled anew, and what is traced of it."""
    import torch
    import torch.nn.functional as F

    from utils.measure.toy_block import DROPPED

    def block(x, w, b):
        return x + F.dropout(F.gelu(x @ w + b), DROPPED, training=True)

    fast = torch.compile(block, options=dict(options), dynamic=False)
    given = (toy.x, toy.w, toy.b)

    def forward():
        with torch.no_grad():
            return fast(*given)

    def training():
        y = fast(*given)
        return y, torch.autograd.grad(y, given, toy.onward)

    return forward if case == FORWARD else training


def _row(case: str, way: str, found: Trace) -> dict:
    buffers = found.buffers()
    return {
        "case": case,
        "way": way,
        "buffers": len(buffers),
        "sum": found.sum,
        "peak": found.peak,
        "largest": max(b.size for b in buffers),
        "kept": found.kept,
        "planned": memory_plan.best_of(buffers).size,
    }


def _numbers(short: str, rows: dict[str, dict]) -> dict[str, float]:
    eager, fast = rows[EAGER], rows[COMPILED]
    out = {
        f"{short}_peak": fast["peak"] / eager["peak"],
        f"{short}_sum": fast["sum"] / eager["sum"],
        f"{short}_eager_share": eager["peak"] / eager["sum"],
        f"{short}_compiled_share": fast["peak"] / fast["sum"],
        f"{short}_compiled_over_largest": fast["peak"] / fast["largest"],
        f"{short}_eager_over_largest": eager["peak"] / eager["largest"],
        f"{short}_eager_buffers": float(eager["buffers"]),
        f"{short}_compiled_buffers": float(fast["buffers"]),
        f"{short}_planned": eager["planned"] / fast["peak"],
    }
    if POOLED in rows:
        out[f"{short}_pooled_peak"] = rows[POOLED]["peak"] / fast["peak"]
        out[f"{short}_pooled_buffers"] = float(rows[POOLED]["buffers"])
    return out


def _first_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__
