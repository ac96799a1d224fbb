"""Made-up but plausible parts of the study "memory_plan", as a CPU or a GPU would give them."""

from __future__ import annotations

from tests.factories import make_race
from tests.ridges import HERE, THERE, both, part
from utils.measure import arena_traffic, fragmentation, stream_reuse
from utils.measure.alloc_trace import from_events
from utils.measure.block_memory import FORWARD, KEEPING, SHORT, TRAINING
from utils.measure.recompute import name_of
from utils.model import memory_plan

__all__ = ["HERE", "THERE", "both"]

MIB = 1 << 20
NAMES = ("matmul: mm", "add", "gelu", "dropout", "dropout: mul", "add")


def chain(kept: tuple[int, ...] = (5,), overlap: int = 1, size: int = 4 * MIB):
    """The trace of six buffers in a row; each goes `overlap` buffers after it was taken, except those that are kept."""
    events = []
    for n, name in enumerate(NAMES):
        events.append({"address": n, "bytes": size, "op": name})
        gone = n - overlap
        if gone >= 0 and gone not in kept:
            events.append({"address": gone, "bytes": -size, "op": ""})
    return from_events(events, "made up")


def liveness(
    device: str = "cpu",
    *,
    forward: int = 1,
    keeping: tuple[int, ...] = (1, 3, 5),
    off: int = 0,
    workspace: int = 0,
    training=None,
) -> dict:
    """`forward` is how many buffers later one goes without gradients, `keeping` which stay with them."""
    traces = {FORWARD: chain(overlap=forward), KEEPING: chain(keeping), TRAINING: training or chain(keeping, 2)}
    rows, numbers = [], {"activation": 4 * MIB, "again_off": 0.0}
    for case, seen in traces.items():
        rows.append(
            {
                "case": case,
                "buffers": len(seen.blocks),
                "sum": seen.sum,
                "peak": seen.peak,
                "kept": seen.kept,
                "largest": 4 * MIB,
                "scalars": 2,
                "counted_sum": seen.sum + off,
                "counted_peak": seen.peak,
                "requests": len(seen.blocks) + 2,
            }
        )
        short = SHORT[case]
        numbers |= {f"{short}_{name}": rows[-1][name] / (4 * MIB) for name in ("sum", "peak", "kept")}
        numbers |= {f"{short}_buffers": 6.0, f"{short}_share": seen.peak / seen.sum, f"{short}_off": float(off)}
    workspaces = [{"what": "cuBLAS's workspace", "bytes": workspace}] if workspace else []
    return part(numbers, device, rows=rows, traces={c: t.to_dict() for c, t in traces.items()}, workspaces=workspaces)


def requests(device: str = "cpu", hit: float = 3000.0, miss: float = 36e6) -> dict:
    name = "segments" if device == "cuda" else "faults"
    rows = [
        {"state": "kept", "bytes": size, "what": "asked for", "ns": hit, name: 0.0 if state else 16_385.0}
        for size in (64 << 10, 64 * MIB)
        for state in (True, False)
    ]
    steps = [{"state": "kept", "step": n, "ms": 10.0 / n, name: 1000 // n, "requests": 14} for n in (1, 2, 3)]
    numbers = {
        "hit": hit,
        "miss": miss,
        "miss_over_hit": miss / hit,
        "first_faults": 1000.0,
        "later_faults": 333.0,
        "hit_small": 1500.0,
    }
    cuda = {"requests": 14.0}
    cpu = {"asked_large": 13_700.0, "fresh_faults": 16_385.0, "per_page": miss / 16_385}
    return part(numbers | (cuda if device == "cuda" else cpu), device, rows=rows, steps=steps)


def arena(
    device: str = "cpu",
    *,
    online: float = 1.25,
    offline: float = 1.0,
    same: bool = True,
    overlapped: bool = True,
    asked: float = 0.0,
) -> dict:
    seen = chain((1, 3, 5), 2)
    buffers = seen.buffers()
    bound = memory_plan.peak(buffers)
    plans = {name: plan(buffers) for name, plan in memory_plan.PLANNERS.items()}
    programs = {
        name: {
            "buffers": [[b.size, b.start, b.end] for b in buffers],
            "ops": list(NAMES),
            "plans": {p: {"offsets": [plan.offsets[b.id] for b in buffers], "size": plan.size} for p, plan in plans.items()},
        }
        for name in ("the block, forward", "the block, forward and backward")
    }
    rows = [
        {"program": "the block, forward", "buffers": 6, "sum": seen.sum, "bound": bound, "planner": name, "size": plan.size}
        | {"over": plan.size / bound}
        for name, plan in plans.items()
    ]
    numbers = {"training_first_fit": online, "training_by_size": offline, "training_best": offline, "training_sum": 2.75}
    numbers |= {"layer_first_fit": 1.155, "layer_by_size": 1.004, "layer_best": 1.0, "layer_sum": 3.0}
    numbers |= {"same": float(same), "overlapped": float(overlapped), "requests_before": 6.0, "requests_in_arena": asked}
    return part(numbers, device, rows=rows, programs=programs)


def compiled(device: str = "cpu", *, peak: int = 8, largest: int = 4, training: bool = True) -> dict:
    """Sizes in MiB; eager has a peak of 12 in 24."""

    def row(case: str, way: str, buffers: int, total: int, top: int, big: int) -> dict:
        sizes = {"sum": total, "peak": top, "largest": big, "kept": big, "planned": top}
        return {"case": case, "way": way, "buffers": buffers} | {name: n * MIB for name, n in sizes.items()}

    rows = [row(FORWARD, "eager", 6, 24, 12, 4), row(FORWARD, "compiled", 2, 8, peak, largest)]
    if training:
        rows += [row(TRAINING, "eager", 12, 40, 16, 4), row(TRAINING, "compiled", 6, 15, 14, 4)]
    numbers = {"forward_peak": peak / 12, "forward_sum": 8 / 24, "forward_compiled_over_largest": peak / largest}
    return part(numbers, device, rows=rows, missing={})


def traffic(
    device: str = "cpu", over: tuple[float, ...] = (1.05, 1.9, 1.02), moved: float = 1.0, eager: float = 1.03, placed: float = 6.0
) -> dict:
    sizes = (64 << 10, 4 * MIB, 16 * MIB)
    rows = []
    for size, ratio in zip(sizes, over, strict=True):
        for way, times in ((arena_traffic.APART, ratio), (arena_traffic.ARENA, 1.0), (arena_traffic.EAGER, eager)):
            read = 36 * size * (moved if way == arena_traffic.APART else 1)
            rows.append(
                {
                    "activation": size,
                    "way": way,
                    "ops": 12,
                    "moved": read,
                    "placed": None,
                    "us": 1e-4 * size * times,
                    "over": times,
                }
                | {"seen": times > 1.1}
            )
    numbers = {"moved_ratio": moved, "moved_eager": 1.0, "placed_ratio": placed, "most": max(over), "largest": over[-1]}
    numbers |= {"most_at": sizes[over.index(max(over))], "smallest": over[0], "wrong": 0.0, "aa_error": 0.02}
    return part(numbers, device, rows=rows, caches={"L2": MIB, "L3": 32 * MIB})


def recompute(
    device: str = "cpu", least: int = 2, *, same: bool = True, careless: bool = False, ops: float = 1.46, peak: float = 0.34
) -> dict:
    choices = (0, 1, 2, 12)
    rows = [
        {"every": every, "peak": int(37 * MIB * (peak if every == least else 0.42 if every else 1.0)), "kept": 12 * MIB}
        | {"ns": 2e7 if every else 1e7, "ops": round(156 * (ops if every else 1)), "over": 2.0 if every else 1.0}
        for every in choices
    ]
    race = make_race(prices={name_of(every): 2e7 if every else 1e7 for every in choices})
    numbers = {"least_peak": peak, "least_every": float(least), "least_time": 2.0, "ops_ratio": ops, "saved": 3.0}
    numbers |= {"same": float(same), "same_without": float(careless)}
    return part(numbers, device, rows=rows, race=race, layers=12, activation=MIB)


def out_of_memory(
    device: str = "cpu", *, failed: bool = True, asked: int = MIB, again: bool = False, after: bool = False
) -> dict:
    said = f"DefaultCPUAllocator: can't allocate memory: you tried to allocate {asked} bytes" if failed else ""
    row = {"way": "store", "limit": 24 * MIB, "peak": 37 * MIB, "failed": failed, "error": "RuntimeError", "said": said}
    other = {"way": "recompute", "limit": 24 * MIB, "peak": 12 * MIB, "failed": again, "error": "", "said": "", "asked": 0}
    numbers = {"stored_failed": float(failed), "recompute_failed": float(again), "after_failed": float(after), "asked": asked}
    if device == "cpu":
        numbers |= {"untouched": 1 << 30, "resident": 4096, "written": 128 * MIB, "resident_written": 128 * MIB}
    return part(numbers, device, rows=[row | {"asked": asked}, other])


def gaps(device: str = "cpu", larger: float = 1.0, fitting: float = 0.0, offline: float = 1.0) -> dict:
    grew = {fragmentation.GAPS: fitting, fragmentation.LARGER: larger, fragmentation.JOINED: 0.1}
    rows = [{"what": what, "asked": 32 * MIB, "free": 32 * MIB, "grew": int(share * 32 * MIB)} for what, share in grew.items()]
    numbers = {"gaps_grew": fitting, "larger_grew": larger, "joined_grew": 0.1, "offline_over": offline, "online_over": 1.48}
    return part(numbers, device, rows=rows)


def reuse(untold_right: bool = False) -> dict:
    """A GPU's, where the reader on the other stream came too late, or (a fault) in time."""
    found = stream_reuse.simulated()
    rows = [{**row, "right": untold_right} if row["case"] == stream_reuse.UNTOLD else row for row in found["rows"]]
    numbers = found["numbers"] | {"untold_right": float(untold_right), "pool_apart": 1.0, "pool_again": 1.0}
    return {**found, "device": "cuda", "rows": rows, "numbers": numbers, "label": "measured"}


def study(**wrong: dict) -> dict:
    """All parts as a lesson has them on a CPU with a compiler; `wrong` replaces some."""
    parts = {
        "liveness": liveness(),
        "requests": requests(),
        "arena": arena(),
        "compiled": compiled(),
        "traffic": traffic(),
        "recompute": recompute(),
        "out_of_memory": out_of_memory(),
        "fragmentation": gaps(),
        "reuse": stream_reuse.simulated(),
    }
    return {name: both(value) for name, value in (parts | wrong).items()}
