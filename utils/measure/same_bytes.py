"""Whether a captured block moves the bytes that it moved before: the same ops on the same shapes, the same kernels, and the time.

On a CPU both are watched as they call their ops, and bytes are counted from shapes. On CUDA a profiler counts the kernels of both
with their grids. On both, one add so large that it is all bandwidth is timed either way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from utils.measure import op_record, op_replay, profiled
from utils.measure.captured_block import SMALL, Inputs, block
from utils.measure.device_clock import MeasurementError
from utils.measure.either_clock import Progress, filled, need, race, settled, within
from utils.measure.graph_by_hand import captured
from utils.model.readings import Race

LARGE = {"cpu": 1 << 22, "cuda": 1 << 27}  # numbers of the large add, fp32
PROGRAM, EAGER, CAPTURED = "captured", "block, eager", "block, captured"  # the profiler's program and its segments


def same_bytes(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """The small block, op by op and captured; and one large add:

    "rows": [{"op" (CPU: the op; CUDA: the kernel and its grid), "eager", "captured" (how often), "bytes" (of one, from shapes;
    None on CUDA)}], "race" (ns, the large add), "numbers": "eager_calls", "captured_calls", "eager_bytes", "captured_bytes"
    (CUDA: "eager_blocks", "captured_blocks" of threads), "same" (1.0: every op, or kernel, of the eager block is in the replay
    as often), "extra_calls" (of the replay alone: on CUDA what hands a graph its random numbers), "large_eager",
    "large_captured" (ns), "large_ratio" (captured over eager), "large_seen" (1.0: a difference beyond the error), "large_wrong",
    "aa_error". About 2 s; on CUDA a profiler, 10 s more. Without the profiler CUDA's counts are missing, and a note says why.
    """
    need(device, "what a captured block moves")
    import torch

    with settled(device) as notes, torch.no_grad():
        if device == "cpu":
            rows, numbers = _watched()
        else:
            try:
                rows, numbers = _profiled(within(progress, 0, 0.5))
            except (MeasurementError, RuntimeError) as error:
                rows, numbers = [], {}
                notes.append(f"kernels could not be counted: {error}")
        found, wrong = _large(device, quick, within(progress, 0.5, 0.5))
    eager, replay = found["eager"].ns, found["captured"].ns
    numbers |= {
        "large_eager": eager,
        "large_captured": replay,
        "large_ratio": replay / eager,
        "large_seen": float(found.difference("eager", "captured").seen),
        "large_wrong": float(wrong),
        "aa_error": found.aa_error,
        "error": found.error,
    }
    return {"device": device, "rows": rows, "race": found, "numbers": numbers, "notes": notes}


def _watched() -> tuple[list[dict], dict[str, float]]:
    """Both as they call their ops. The replay watched is Python's: the C++ list has the same calls and asks no dispatcher."""
    from utils.measure.intensity import count

    inputs = Inputs("cpu", SMALL["cpu"])
    op_record.ready()
    with op_record.recording() as record:
        block(inputs.x, inputs.w, inputs.b)
    works = {
        "eager": count(lambda: block(inputs.x, inputs.w, inputs.b)),
        "captured": count(op_replay.PythonReplay(record.calls)),
    }
    kinds = {who: Counter((one.op.partition(".")[0], one.bytes) for one in work.computing) for who, work in works.items()}
    rows = [
        {"op": op, "bytes": nbytes, "eager": kinds["eager"][op, nbytes], "captured": kinds["captured"][op, nbytes]}
        for op, nbytes in dict.fromkeys([*kinds["eager"], *kinds["captured"]])
    ]
    numbers = {f"{who}_calls": float(len(work.computing)) for who, work in works.items()}
    numbers |= {f"{who}_bytes": float(sum(one.bytes for one in work.computing)) for who, work in works.items()}
    return rows, numbers | _compared(kinds)


def _compared(kinds: Mapping[str, Counter]) -> dict[str, float]:
    kept = {kind: kinds["captured"][kind] for kind in kinds["eager"]}
    return {"same": float(kept == dict(kinds["eager"])), "extra_calls": float((kinds["captured"] - kinds["eager"]).total())}


def works() -> dict[str, Callable]:
    """What the profiler runs: the small block op by op, and captured, with its input copied in by no op."""
    inputs = Inputs("cuda", SMALL["cuda"])
    made = captured(lambda x: block(x, inputs.w, inputs.b), inputs.x)
    return {EAGER: lambda: block(inputs.x, inputs.w, inputs.b), CAPTURED: made.replay}


def _profiled(progress: Progress | None) -> tuple[list[dict], dict[str, float]]:
    return counted(profiled.events(PROGRAM, progress))


def counted(events: list[dict]) -> tuple[list[dict], dict[str, float]]:
    """Rows and numbers from the profiler's events: kernels by name and grid. MeasurementError when a segment has none."""
    kinds = {}
    for who, segment in (("eager", EAGER), ("captured", CAPTURED)):
        kernels = [e for e in profiled.inside(events, segment) if e["cat"] == "kernel"]
        if not kernels:
            raise MeasurementError(f"the profiler saw no kernel of {segment!r}")
        kinds[who] = Counter((e["name"], tuple(e["args"].get("grid", ()))) for e in kernels)
    rows = [
        {"op": f"{name[:80]} {list(grid)}", "bytes": None, **{who: kinds[who][name, grid] for who in kinds}}
        for name, grid in dict.fromkeys([*kinds["eager"], *kinds["captured"]])
    ]
    numbers = {f"{who}_calls": float(sum(found.values())) for who, found in kinds.items()}
    for who, found in kinds.items():
        numbers[f"{who}_blocks"] = float(sum(_blocks(grid) * many for (_, grid), many in found.items()))
    return rows, numbers | _compared(kinds)


def _blocks(grid: tuple) -> int:
    many = 1
    for side in grid:
        many *= int(side)
    return many


def _large(device: str, quick: bool, progress: Progress | None) -> tuple[Race, bool]:
    """(one large add into an output that is there, eager and captured, on the same tensors; whether a replay's sum is wrong)."""
    import torch

    a, b, out = (filled(LARGE[device], device) for _ in range(3))

    def add(x):
        torch.add(x, b, out=out)
        return out

    made = captured(add, a)
    made.inputs[0].copy_(a)
    out.zero_()
    made.replay()
    wrong = not torch.equal(out, a + b)
    x = made.inputs[0]
    arms = {"eager": lambda: torch.add(x, b, out=out), "captured": made.replay}
    budget = {"blocks": 12 if quick else 30, "at_most_s": 1.5 if quick else 4.0}
    return race(device, arms, control="eager", progress=progress, **budget), wrong
