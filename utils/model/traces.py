"""What a profiler's trace says of a program: how long the device was busy, how many kernels ran, where the host waited. No torch.

Reads the Chrome JSON that `torch.profiler` writes (`export_chrome_trace`, plain or gzipped), from whatever program: events with
"ph": "X", times in µs. Under the profiler the host is slower than without it, its calls of the runtime above all; kernels keep
their length.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
RUNTIME = ("cuda_runtime", "cuda_driver")
WAITS = re.compile(r"Synchronize|^cudaMemcpy$|^cuMemcpy[DH]to[DH]")
LAUNCHES = re.compile(r"Launch(Cooperative)?Kernel")
REPLAYS = re.compile(r"GraphLaunch")


WANTED = "a trace is the file that torch.profiler's export_chrome_trace wrote"


class NoTrace(ValueError):
    """The file is no profiler's trace that can be read; the message says why, and names it."""


@dataclass(frozen=True)
class Seen:
    """One stretch of a trace. Times in ns; `span_ns` from its first event to the end of its last one.

    `busy_ns`: some kernel or copy ran (where several ran at once, counted once). `kernels` ran; `launches` are the host's calls
    that started one, `replays` those that started a whole graph. `waits`: synchronising call → how often; `wait_ns` in them.
    `idle_ns`: gaps between work of the device, from its first to its last. `by_kernel`: name → (how many, ns), longest first.
    `ops`: the top-level ops that the host ran.
    """

    span_ns: float
    busy_ns: float
    idle_ns: float
    kernels: int
    copies: int
    launches: int
    replays: int
    waits: dict[str, int]
    wait_ns: float
    by_kernel: dict[str, tuple[int, float]]
    ops: dict[str, int]

    @property
    def busy(self) -> float:
        """Share of the span in which the device did something."""
        return self.busy_ns / self.span_ns if self.span_ns else 0.0

    @property
    def kernel_ns(self) -> float:
        """The mean length of a kernel; 0 without one."""
        return sum(ns for _, ns in self.by_kernel.values()) / self.kernels if self.kernels else 0.0


def read(file: str | Path) -> list[dict]:
    """The events of a trace file. Raises NoTrace in words for a file that is none."""
    path = Path(file)
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise NoTrace(f"{path}: cannot be read ({error})") from error
    try:
        content = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    except (OSError, EOFError, zlib.error) as error:
        raise NoTrace(f"{path}: cannot be read, its gzip is damaged ({error})") from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = ""
    if text.lstrip()[:1] not in ("{", "["):
        raise NoTrace(f"{path}: holds {'no JSON' if content else 'nothing'}; {WANTED}")
    try:
        found = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        cut = " it ends in the middle: was the program stopped while it wrote?" if text.strip()[-1:] not in ("}", "]") else ""
        raise NoTrace(f"{path}: not a trace (its JSON is damaged:{cut} {error})") from error
    events = found.get("traceEvents") if isinstance(found, dict) else found
    if not isinstance(events, list):
        raise NoTrace(f"{path}: not a trace (no list of traceEvents); {WANTED}")
    kept = [e for e in events if isinstance(e, dict) and e.get("ph") == "X" and _number(e.get("ts")) and _number(e.get("dur"))]
    if not kept:
        raise NoTrace(f"{path}: a trace without a single event that has a begin and a length")
    return kept


def _number(value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def seen(events: Iterable[dict], *, last_wait: bool = True) -> Seen:
    """What a stretch of a trace holds (`read`, or `profiled.inside` without its mark).

    last_wait=False: the last synchronisation is not the program's own (it closed the measurement) and does not count as a wait.
    Raises ValueError without an event.
    """
    events = sorted(events, key=lambda e: float(e["ts"]))
    if not events:
        raise ValueError("a stretch of a trace without an event")
    work = [(float(e["ts"]), float(e["ts"]) + float(e["dur"])) for e in events if e.get("cat") in DEVICE]
    calls = [e for e in events if e.get("cat") in RUNTIME]
    waits = [e for e in calls if WAITS.search(e["name"])]
    if not last_wait:
        waits = waits[:-1]
    begin = float(events[0]["ts"])
    end = max(float(e["ts"]) + float(e["dur"]) for e in events)
    busy = covered(work)
    kernels = [e for e in events if e.get("cat") == "kernel"]
    return Seen(
        span_ns=(end - begin) * 1e3,
        busy_ns=busy * 1e3,
        idle_ns=(max(stop for _, stop in work) - min(start for start, _ in work) - busy) * 1e3 if work else 0.0,
        kernels=len(kernels),
        copies=sum(e.get("cat") in DEVICE[1:] for e in events),
        launches=sum(bool(LAUNCHES.search(e["name"])) for e in calls),
        replays=sum(bool(REPLAYS.search(e["name"])) for e in calls),
        waits=dict(Counter(e["name"] for e in waits).most_common()),
        wait_ns=sum(float(e["dur"]) for e in waits) * 1e3,
        by_kernel=_by_name(kernels),
        ops=dict(Counter(e["name"] for e in _outermost(events)).most_common()),
    )


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """The length that intervals cover together: where they overlap, once."""
    total, reached = 0.0, float("-inf")
    for start, stop in sorted(spans):
        total += max(0.0, stop - max(start, reached))
        reached = max(reached, stop)
    return total


def _by_name(kernels: list[dict]) -> dict[str, tuple[int, float]]:
    found: dict[str, tuple[int, float]] = {}
    for e in kernels:
        count, ns = found.get(e["name"], (0, 0.0))
        found[e["name"]] = count + 1, ns + float(e["dur"]) * 1e3
    return dict(sorted(found.items(), key=lambda item: -item[1][1]))


def _outermost(events: list[dict]) -> list[dict]:
    """The ops that no other op of their thread encloses; events in the order of their begin."""
    out, open_until = [], {}
    for e in events:
        if e.get("cat") == "cpu_op" and float(e["ts"]) >= open_until.get(e.get("tid"), float("-inf")):
            out.append(e)
            open_until[e.get("tid")] = float(e["ts"]) + float(e["dur"])
    return out
