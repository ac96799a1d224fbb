"""What the caches save: the same add on warm and on cold data, and an intermediate that is read while it is still in the cache.

In both, the ops, their sizes and their counted bytes are the same in every arm; only which data they meet, and when, differs.
"""

from __future__ import annotations

from collections.abc import Callable

from utils.measure.bandwidth import roof_streams
from utils.measure.either_clock import MIB, Progress, filled, free_bytes, last_cache, need, one_thread, race

TIMES = {"warm_cold": 4, "intermediate": 2}  # a vector of all pieces, in last caches; three of them go round
MOST_PIECES = 256


def _pieces(device: str, times: int) -> tuple[int, int]:
    """(elements of a piece, pieces): one vector of all pieces fills `times` last caches, as memory allows."""
    cache = last_cache(device)
    # A GPU needs longer kernels to be about its data; of a CPU's last cache a neighbour may hold most.
    share, most = (5, 16 * MIB) if device == "cuda" else (32, 2 * MIB)
    piece = max(MIB // 4, min(cache // share, most)) // 4096 * 4096
    room = free_bytes(device) // 16
    count = max(8, min(-(-times * cache // piece), MOST_PIECES, room // piece))
    return piece // 4, count


def warm_cold(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """`torch.add(a, b, out=c)` on one set of vectors again and again, and on so many sets in turn that each was driven out:

    "race" (readings "warm" and "cold", ns), "elements", "sets", "numbers": "ratio" (cold over warm), "warm_gbps", "cold_gbps".
    A set is small enough for the last cache and large enough that the call itself hardly matters. About 2 s.
    """
    import torch

    need(device, "warm against cold data")
    n, count = _pieces(device, TIMES["warm_cold"])
    sets = [tuple(filled(n, device) for _ in range(3)) for _ in range(count)]
    turn = [_adding(torch.add, *three) for three in sets]
    with one_thread(device) as on:
        found = race(
            device, {"warm": turn[0], "cold": turn}, blocks=20 if quick else 60, at_most_s=1.5 if quick else 6, progress=progress
        )
    rate = {name: 12.0 * n / found[name].ns for name in ("warm", "cold")}
    return {
        "device": device,
        "race": found,
        "elements": n,
        "sets": count,
        "numbers": {
            "ratio": found["cold"].ns / found["warm"].ns,
            "warm_gbps": rate["warm"],
            "cold_gbps": rate["cold"],
            "aa_error": found.aa_error,
        },
        "notes": [
            on,
            f"{count} sets of three vectors of {4 * n / MIB:g} MiB; last cache as reported: {last_cache(device) / MIB:g} MiB",
        ],
    }


def _adding(add: Callable, a, b, c) -> Callable:
    return lambda: add(a, b, out=c)


def intermediate(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """Two ops, t = -x and y = |t|, on many pieces of a large vector; the same calls, and only their order differs:

    "late"    first every piece's t, then every piece's y: each intermediate has left the cache before it is read
    "soon"    each piece's y right after its t: the intermediate is read from the cache, and still written to memory some day
    "reused"  as "soon", with one and the same small t for all pieces, as an allocator hands the block out again: it never leaves

    "race" (ns for all pieces), "elements" (of a piece), "pieces", "bytes" (counted: the same for all), "numbers": "soon_ratio"
    and "reused_ratio" (late over it), "late_gbps", "soon_gbps", "reused_gbps" (counted bytes over time), "roof_gbps" (the best
    stream of this race), "reused_over_roof". About 3 s.
    """
    import torch

    need(device, "an intermediate in the cache")
    n, count = _pieces(device, TIMES["intermediate"])
    x, t, y = ([filled(n, device) for _ in range(count)] for _ in range(3))
    neg, take = torch.neg, torch.abs

    def late() -> None:
        for i in range(count):
            neg(x[i], out=t[i])
        for i in range(count):
            take(t[i], out=y[i])

    def soon() -> None:
        for i in range(count):
            neg(x[i], out=t[i])
            take(t[i], out=y[i])

    def reused() -> None:
        one = t[0]
        for i in range(count):
            neg(x[i], out=one)
            take(one, out=y[i])

    with one_thread(device) as on:
        calls, own, nbytes, notes = roof_streams(device, n * count)
        arms = {"late": late, "soon": soon, "reused": reused} | calls
        found = race(device, arms, arms=own, blocks=12 if quick else 30, at_most_s=1.5 if quick else 8, progress=progress)
    counted = 16.0 * n * count
    roof = max(nbytes[name] / found[name].ns for name in nbytes)
    rate = {name: counted / found[name].ns for name in ("late", "soon", "reused")}
    return {
        "device": device,
        "race": found,
        "elements": n,
        "pieces": count,
        "bytes": counted,
        "numbers": {
            "soon_ratio": found["late"].ns / found["soon"].ns,
            "reused_ratio": found["late"].ns / found["reused"].ns,
            **{f"{name}_gbps": value for name, value in rate.items()},
            "roof_gbps": roof,
            "reused_over_roof": rate["reused"] / roof,
            "aa_error": found.aa_error,
        },
        "notes": [on, *notes],
    }
