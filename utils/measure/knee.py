"""The roof traced: one load, k operations and one store an element, for growing k, with multiply-adds and with integer work.

While k is small the time is that of the bytes and does not move; from the ridge on it grows with k. The integer chain has no FLOP
at all, so that whatever bends its line is no FLOP roof.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle, islice

from utils.measure.bandwidth import buffer_bytes
from utils.measure.either_clock import Progress, filled, need, race, threads
from utils.model.readings import Race

FMA = {"cpu": (1, 2, 4, 8, 16, 32, 64, 128), "cuda": (1, 2, 4, 8, 16, 32, 64, 128, 256)}
INTEGER = {"cpu": (2, 4, 8, 16, 32, 64, 128), "cuda": (3, 6, 12, 24, 48, 96, 192)}
BYTES = 8  # an element: read once, written once
SLICES = 8  # of a CPU's vector, which take turns, and more where a pass has more to do: one of a millisecond is seldom disturbed
BLOCK_MS = 4.0  # a few passes, of which the least disturbed counts


def knee(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """ "points": {"fma": [{"k", "work" (FLOP or operations an element), "intensity" (work per byte), "ns" (all elements), "tera",
    "gbps"}], "integer": […]}, "elements" (of a pass), "race", "numbers": "ridge_fma" (FLOP per byte) and "ridge_integer"
    (operations per byte) where the flat part of the line meets the steep one, "gbps" (the flat part), "fma" and "integer" (1e12 a
    second, the steep part). About 3 s. Raises MeasurementError without a compiler.
    """
    need(device, "a traced roof")
    n = buffer_bytes(device, quick) // (1 if device == "cuda" else 2) // 4
    data = filled(n, device)
    calls, arms = {}, {}
    if device == "cuda":
        from utils.measure import gpu_loops

        calls = {f"fma {k}": gpu_loops.chain(k, data) for k in FMA[device]}
        words = data.view(dtype=_int32())
        calls |= {f"integer {k}": gpu_loops.chain(k, words, integer=True) for k in INTEGER[device]}
    else:
        from utils.measure.cpu_loops import WHOLE, loops

        run, many = loops().run, threads()
        whole = _slices(max(*FMA[device], *INTEGER[device])) * WHOLE * many
        n = n // whole * whole
        arms = {f"fma {k}": _in_turn(run, "fma chain", data, n, k, many) for k in FMA[device]}
        ints = filled(data.numel(), device)  # its bits are turned upside down: not the floats of the other chain
        arms |= {f"integer {k}": _in_turn(run, "integer chain", ints, n, k, many) for k in INTEGER[device]}
    budget = {"blocks": 10 if quick else 30, "at_most_s": 2 if quick else 10, "block_ms": BLOCK_MS}
    found = race(device, calls, arms=arms, progress=progress, **budget)
    points = {
        "fma": [_point(found, "fma", k, 2, n, _parts(device, k)) for k in FMA[device]],
        "integer": [_point(found, "integer", k, 1, n, _parts(device, k)) for k in INTEGER[device]],
    }
    return {"device": device, "elements": n, "points": points, "race": found, "numbers": numbers(points, n), "notes": []}


def _int32():
    import torch

    return torch.int32


def _slices(k: int) -> int:
    return SLICES * max(1, k // 16)


def _parts(device: str, k: int) -> int:
    """How many timed passes make one over all elements."""
    return _slices(k) if device == "cpu" else 1


def _in_turn(run: Callable, kind: str, data, n: int, k: int, many: int) -> Callable[[int], float]:
    """An arm whose calls go over slices in turn: before one is met again, the others have passed the cache."""
    count = _slices(k)
    each = n // count
    slices = cycle([data[i * each : (i + 1) * each] for i in range(count)])

    def arm(times: int) -> float:
        return sum(run(kind, c=x, a=x, b=x, n=each, k=k, threads=many) for x in islice(slices, times))

    return arm


def _point(found: Race, engine: str, k: int, per: int, n: int, parts: int) -> dict:
    ns = found[f"{engine} {k}"].ns * parts
    work = per * k
    return {"k": k, "work": work, "intensity": work / BYTES, "ns": ns, "tera": work * n / ns * 1e-3, "gbps": BYTES * n / ns}


def numbers(points: dict[str, list[dict]], n: int) -> dict[str, float]:
    """Where flat and steep meet: the least time of a line, over what one operation more an element costs at its end."""
    out = {}
    flat = min(p["ns"] for line in points.values() for p in line)
    for engine, line in points.items():
        before, last = line[-2:]
        slope = (last["ns"] - before["ns"]) / (last["work"] - before["work"])  # ns for one operation more on every element
        if slope > 0:
            out[f"ridge_{engine}"] = flat / slope / BYTES
            out[engine] = n / slope * 1e-3
    return out | {"gbps": BYTES * n / flat}
