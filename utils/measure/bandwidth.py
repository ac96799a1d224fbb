"""Peak bandwidth of the memory, by streams of our own and by torch's copy and add in one race; and of each cache, by a sweep.

Bytes are counted as the program moves them: a copy reads and writes each element once. A CPU's plain store first reads the line
that it writes to, which is traffic nobody asked for and nobody counts; a streaming store does not, and is the better ceiling.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import cycle, islice

from utils.measure.device_clock import MeasurementError
from utils.measure.either_clock import MIB, Progress, caches, filled, free_bytes, last_cache, machine_name, need, race, threads
from utils.model import devices
from utils.model.readings import Race

ROOF = ("copy", "add", "triad")  # what the roof is taken from: loops that read and write, as ops do
FEW = ("torch copy", "torch add", "copy, streaming stores", "add, streaming stores", "copy", "add")
LEAST = 1 << 20  # floats of a vector whose stream is still about memory and not about starting threads
SLICE = 4 << 20  # bytes of one vector that a pass on a CPU takes
WORDS = {"read": 1, "write": 1, "copy": 2, "add": 3, "triad": 3}
MOST, QUICK = 1 << 30, 256 * MIB  # bytes of one buffer
GPU_QUICK = 512 * MIB
A_LAUNCH = 256 * MIB  # bytes read by one launch of a sweep over working sets, so that starting it is a small part


def buffer_bytes(device: str, quick: bool) -> int:
    """Of one of three buffers: four times the last cache or 64 MiB where memory and budget allow it, a multiple of 1 MiB."""
    most = (GPU_QUICK if device == "cuda" else QUICK) if quick else MOST
    wanted = most if device == "cuda" else max(64 * MIB, 4 * last_cache(device))
    return max(8 * MIB, min(wanted, most, free_bytes(device) // 12) // MIB * MIB)


def streams(device: str, a, b, c) -> tuple[dict, dict, dict, list[str]]:
    """(torch's variants, our own, bytes of one call by name, what is missing in words) of passes over three equal buffers.

    On a CPU a call passes over one slice of the buffers, and the slices take turns: a pass below a millisecond is seldom
    disturbed, and a slice that is met again has left the caches as surely.
    """
    import torch

    n, notes = a.numel(), []
    parts = max(1, 4 * n // SLICE) if device == "cpu" else 1
    each = n // parts // 1024 * 1024
    sets = [tuple(t[i * each : (i + 1) * each] for t in (a, b, c)) for i in range(parts)]
    calls: dict[str, Callable | list[Callable]] = {
        "torch copy": [partial(three[2].copy_, three[0]) for three in sets],
        "torch add": [partial(torch.add, three[0], three[1], out=three[2]) for three in sets],
    }
    nbytes = {"torch copy": 8 * each, "torch add": 12 * each}
    own: dict[str, Callable] = {}
    try:
        if device == "cuda":
            from utils.measure import gpu_loops

            calls |= {kind: gpu_loops.stream(kind, *sets[0]) for kind in WORDS}
            nbytes |= {kind: 4 * words * each for kind, words in WORDS.items()}
        else:
            from utils.measure.cpu_loops import KINDS, loops, shared_out

            found, many = loops(), threads()
            even = shared_out(each, many)
            for kind in KINDS:
                words = WORDS.get(kind.split(",")[0])
                if words is None or ("streaming" in kind and not found.streams):
                    continue
                own[kind] = passes(found.run, kind, sets, even, many)
                nbytes[kind] = 4 * words * even
            if not found.streams:
                notes.append("this compiler has no streaming stores for this CPU: every store reads its line first")
    except MeasurementError as error:
        notes.append(f"torch's own copy and add are the only streams: {error}")
    return calls, own, nbytes, notes


def passes(run: Callable, kind: str, sets: list[tuple], n: int, many: int) -> Callable[[int], float]:
    """An arm whose calls pass over the first n elements of the sets of vectors in turn."""
    turns = cycle(sets)

    def arm(times: int) -> float:
        return sum(run(kind, *three, n=n, threads=many) for three in islice(turns, times))

    return arm


def roof_streams(device: str, elements: int, *, reading: bool = False) -> tuple[dict, dict, dict, list[str]]:
    """As `streams`, over vectors of about so many floats: the few that are ever the best, for a roof beside ops, named "stream
    …".

    `reading`: with the stream that only reads, for ops that hardly write.
    """
    n = max(LEAST, elements // 1024 * 1024)
    calls, own, nbytes, notes = streams(device, *(filled(n, device) for _ in range(3)))
    names = [name for name in (*FEW, *(("read",) if reading else ())) if name in nbytes]
    return (
        {f"stream {name}": calls[name] for name in names if name in calls},
        {f"stream {name}": own[name] for name in names if name in own},
        {f"stream {name}": nbytes[name] for name in names},
        notes,
    )


def bandwidth(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """The race of all streams over buffers far larger than any cache, as plain data with the Race in it:

    "race" (ns a pass), "bytes" and "gbps" by arm, "best" (the fastest of those that read and write), "buffer_mb", "threads",
    "numbers": "gbps" (of the best), "copy_gbps", "add_gbps" (the best of their kind), "read_gbps", "write_gbps" (where measured),
    "datasheet_gbps" and "share_gbps" where a datasheet is known. About 3 s quick, 10 s else. MeasurementError without a device.
    """
    need(device, "bandwidth")
    size = buffer_bytes(device, quick)
    a, b, c = (filled(size // 4, device) for _ in range(3))
    calls, own, nbytes, notes = streams(device, a, b, c)
    found = race(device, calls, arms=own, blocks=20 if quick else 40, at_most_s=2 if quick else 10, progress=progress)
    return described(device, found, nbytes, size, notes)


def described(device: str, found: Race, nbytes: dict[str, int], size: int, notes: list[str]) -> dict:
    """What `bandwidth` gives, of a race and the bytes of one call of each of its arms."""
    gbps = {name: count / found[name].ns for name, count in nbytes.items()}
    best = max((name for name in gbps if _kind(name) in ROOF), key=gbps.__getitem__)
    numbers = {"gbps": gbps[best]}
    for kind in WORDS:
        if rates := [rate for name, rate in gbps.items() if _kind(name) == kind]:
            numbers[f"{kind}_gbps"] = max(rates)
    numbers["torch_copy_gbps"], numbers["torch_add_gbps"] = gbps["torch copy"], gbps["torch add"]
    if sheet := devices.find(machine_name("cuda")) if device == "cuda" else None:
        numbers |= {"datasheet_gbps": sheet.gbps.value, "share_gbps": gbps[best] / sheet.gbps.value}
    return {
        "device": device,
        "race": found,
        "bytes": dict(nbytes),
        "gbps": gbps,
        "best": best,
        "buffer_mb": size / MIB,
        "threads": threads() if device == "cpu" else None,
        "numbers": numbers,
        "notes": notes,
    }


def _kind(name: str) -> str:
    return name.removeprefix("torch ").split(",")[0]


# ------------------------------------------------------------------------------------------------ level by level


def levels(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """Reading working sets from far below the first cache to far above the last, again and again:

    "points": [{"kb", "gbps", "fits": "L1" … "memory"}] ("kb": all threads together), "caches": bytes of each level as reported
    (of all threads' own caches together where a level is one core's), "numbers": the best "L1_gbps" … "memory_gbps" (sets that
    fill less than half of a level, or more than four times the last). On a CPU by loops of our own, on a GPU by our own kernel,
    whose first level is L2. About 3 s. Raises MeasurementError without a compiler.
    """
    need(device, "bandwidth per cache level")
    own = caches(device)
    if device == "cuda":
        points, known = _gpu_points(own, progress), own
    else:
        many = threads()
        known = {level: size * (many if level in ("L1", "L2") else 1) for level, size in own.items()}
        points = _cpu_points(known, many, quick, progress)
    for point in points:
        point["fits"] = _fits(point["kb"] * 1024, known)
    numbers = {}
    for level in (*known, "memory"):
        inside = [p["gbps"] for p in points if p["fits"] == level and _clearly(p["kb"] * 1024, level, known)]
        if inside:
            numbers[f"{level}_gbps"] = max(inside)
    return {
        "device": device,
        "points": points,
        "caches": known,
        "numbers": numbers,
        "notes": [] if known else ["no cache sizes are reported here"],
    }


def _fits(size: float, known: dict[str, int]) -> str:
    """The first level that holds so many bytes."""
    return next((level for level, most in known.items() if size <= most), "memory")


def _clearly(size: float, level: str, known: dict[str, int]) -> bool:
    """Whether a set of this size says something about a level: at most half of it, or for memory four times the last cache."""
    if level == "memory":
        return size >= 4 * max(known.values(), default=0)
    return size <= known[level] / 2 or level == "L1"


def _cpu_points(known: dict[str, int], many: int, quick: bool, progress: Progress | None) -> list[dict]:
    from utils.measure.cpu_loops import loops, shared_out

    run = loops().run
    largest = min(max(4 * max(known.values(), default=0), 64 * MIB), QUICK if quick else MOST, free_bytes("cpu") // 4)
    sizes, size = [], 16 << 10
    while size <= largest:
        sizes.append(size)
        size *= 2
    data = filled(sizes[-1] // 4, "cpu")
    arms = {}
    for size in sizes:
        n = shared_out(size // 4, many)
        once = max(1, (4 * MIB) // size)  # so that the threads' common start is a small part
        arms[f"{size >> 10} KiB"] = partial(_again, run, data, n, many, once)
    found = race("cpu", {}, arms=arms, blocks=12 if quick else 40, at_most_s=1.5 if quick else 8.0, progress=progress)
    points = []
    for size in sizes:
        once = max(1, (4 * MIB) // size)
        n = shared_out(size // 4, many)
        points.append({"kb": size / 1024, "gbps": 4.0 * n * once / found[f"{size >> 10} KiB"].ns})
    return points


def _again(run: Callable, data, n: int, many: int, once: int, times: int) -> float:
    return run("read", data, n=n, threads=many, times=once * times)


def _gpu_points(known: dict[str, int], progress: Progress | None) -> list[dict]:
    from utils.measure import gpu_loops

    largest = min(16 * max(known.values(), default=64 * MIB), free_bytes("cuda") // 4)
    data = filled(largest // 4, "cuda")
    sizes = [size for step in range(20) for size in (MIB << step, 3 * MIB << step) if size <= largest]
    calls, moved = {}, {}
    for size in sorted(sizes):
        times = max(1, A_LAUNCH // size)
        calls[f"{size >> 10} KiB"] = gpu_loops.reread(data[: size // 4], times)
        moved[size] = size * times
    found = race("cuda", calls, blocks=12, at_most_s=4.0, progress=progress)
    return [{"kb": size / 1024, "gbps": nbytes / found[f"{size >> 10} KiB"].ns} for size, nbytes in moved.items()]
