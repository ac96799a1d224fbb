"""The two lanes of a GPU op to scale: each launch on the host joined to its kernel on the device by correlation id.

The profiler gives every launch and the kernel that it started the same number. It also slows what it watches: a launch reads
some tens of microseconds where the true cost is a few, and once CUPTI runs in a process all its later launches are slower. So
the recording is made in a process of its own, and its times are for seeing order, overlap and waiting, not for pricing.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from utils import paths
from utils.model import files

Progress = Callable[[float, str], None]
FORMAT, VERSION = "one-add-priced/timeline", 1
FOLDER = paths.RECORDINGS / "timelines"
CHAIN, SIDE = 20, 512
LIMIT_S = 300


@dataclass(frozen=True)
class Launch:
    """One launch and the kernel it started; times in µs from the segment's begin.

    `op` is the innermost op around the launch, `call` the runtime's name for it. `wait_us` is what the kernel waited from the
    launch's return until it began: negative where it began before the launch returned.
    """

    op: str
    call: str
    correlation: int
    launch_start_us: float
    launch_us: float
    kernel: str
    kernel_start_us: float
    kernel_us: float

    @property
    def wait_us(self) -> float:
        return self.kernel_start_us - (self.launch_start_us + self.launch_us)


@dataclass(frozen=True)
class OpSpan:
    """One op as the profiler saw it on the host, µs from the segment's begin; `depth` counts the ops around it."""

    name: str
    start_us: float
    us: float
    depth: int


@dataclass(frozen=True)
class Segment:
    """What ran for one expression: its ops on the host, its launches joined to kernels, its length in µs.

    `what` says which tensors it ran on. `unjoined` counts launches whose kernel the profiler did not report, and kernels
    without a launch.
    """

    name: str
    what: str
    us: float
    ops: tuple[OpSpan, ...]
    launches: tuple[Launch, ...]
    unjoined: int = 0

    @property
    def device_us(self) -> float:
        """Time in kernels, in µs."""
        return sum(launch.kernel_us for launch in self.launches)


@dataclass(frozen=True)
class Timeline:
    """Segments of one process on one machine; `where` is its fingerprint, `source` "live" or "recorded"."""

    segments: dict[str, Segment]
    where: dict
    date: str
    source: str = "recorded"

    def label(self) -> str:
        """One line that says whose timeline it is, for captions."""
        where = self.where
        parts = (where.get("gpu"), f"driver {where.get('driver')}", f"torch {where.get('torch')}", self.date[:10])
        return f"{self.source}, under the profiler: " + ", ".join(str(part) for part in parts)

    def to_dict(self) -> dict:
        return {
            "format": FORMAT,
            "version": VERSION,
            "date": self.date,
            "where": dict(self.where),
            "command": "python -m utils.measure.timeline",
            "segments": [asdict(segment) for segment in self.segments.values()],
        }

    @classmethod
    def from_dict(cls, data: dict, source: str = "recorded") -> Timeline:
        segments = {}
        for raw in data["segments"]:
            ops = tuple(OpSpan(**op) for op in raw["ops"])
            launches = tuple(Launch(**launch) for launch in raw["launches"])
            segments[raw["name"]] = Segment(raw["name"], raw["what"], raw["us"], ops, launches, raw["unjoined"])
        return cls(segments, dict(data["where"]), data["date"], source)


class TimelineError(RuntimeError):
    """No timeline could be recorded; the message is the reason in words."""


def timeline() -> tuple[Timeline | None, str]:
    """(the committed timeline of a GPU, words): None with the reason where none is committed."""
    found = sorted(FOLDER.glob("*.json"))
    if not found:
        return None, "no timeline of a GPU is recorded yet"
    data = json.loads(found[-1].read_text(encoding="utf-8"))
    return Timeline.from_dict(data), ""


# ------------------------------------------------------------------------------------------------ recording


def record_timeline(path: Path | str, progress: Progress | None = None) -> Timeline:
    """Profile `a + b`, `x @ w` and a chain of adds on the GPU, in a process of its own, and write the timeline to `path`.

    About 20 s. Raises TimelineError in words without CUDA, or when the profiler saw no kernel (CUPTI could not start).
    """
    path = Path(path)
    if progress:
        progress(0.1, "profiling in a process of its own")
    command = [sys.executable, "-m", "utils.measure.timeline", str(path.resolve())]
    try:
        done = subprocess.run(command, cwd=paths.REPO, capture_output=True, text=True, errors="replace", timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        raise TimelineError(f"the profiled process did not end within {LIMIT_S} s") from None
    if done.returncode != 0:
        said = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise TimelineError(said[-1].strip() if said else f"the profiled process ended with {done.returncode} and said nothing")
    if progress:
        progress(1.0, "recorded")
    return Timeline.from_dict(json.loads(path.read_text(encoding="utf-8")), "live")


def profile_here() -> Timeline:
    """The timeline, profiled in this process, which is slower afterwards (CUPTI): `record_timeline` starts one for it."""
    import torch
    from torch.profiler import ProfilerActivity, profile, record_function

    from utils.measure.fingerprints import fingerprint

    if not torch.cuda.is_available():
        raise TimelineError("no CUDA device that torch can use: a timeline needs one")
    a, b = (torch.rand(1, device="cuda") for _ in range(2))
    x, w = (torch.rand(SIDE, SIDE, device="cuda") for _ in range(2))

    def chain() -> None:
        c = a
        for _ in range(CHAIN):
            c = c + b

    one, square = "float32, one element each", f"float32, {SIDE} x {SIDE} each"
    runs = {"a + b": (one, lambda: a + b), "x @ w": (square, lambda: x @ w), f"{CHAIN} adds": (one, chain)}
    for _, run in runs.values():
        run()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        for _, run in runs.values():  # the profiler's own first event of a kind takes milliseconds
            run()
        torch.cuda.synchronize()
        for name, (_, run) in runs.items():
            with record_function(_mark(name)):
                run()
                torch.cuda.synchronize()
    with tempfile.TemporaryDirectory(prefix="one-add-timeline-") as folder:
        file = Path(folder) / "trace.json"
        seen.export_chrome_trace(str(file))
        events = json.loads(file.read_text(encoding="utf-8"))["traceEvents"]
    segments = {name: join(events, name, what) for name, (what, _) in runs.items()}
    if not any(segment.launches for segment in segments.values()):
        raise TimelineError("the profiler ran but saw no kernel: CUPTI could not start here")
    return Timeline(segments, fingerprint(), datetime.now(UTC).isoformat(timespec="seconds"), "live")


def _mark(name: str) -> str:
    return f"segment: {name}"


def join(events: Iterable[dict], name: str, what: str) -> Segment:
    """One segment of a profiler's trace (its "traceEvents"): the events inside the mark, launches joined to kernels.

    Raises TimelineError when the mark is not in the trace.
    """
    whole = [event for event in events if event.get("ph") == "X" and "ts" in event]
    marks = [e for e in whole if e.get("name") == _mark(name) and not str(e.get("cat")).startswith("gpu")]
    if not marks:
        raise TimelineError(f"the trace holds no segment {name!r}")
    mark = marks[-1]
    begin, end = float(mark["ts"]), float(mark["ts"]) + float(mark["dur"])

    def inside(event: dict) -> bool:
        return begin <= float(event["ts"]) <= end

    ops = [event for event in whole if event.get("cat") == "cpu_op" and inside(event)]
    ops.sort(key=lambda op: (float(op["ts"]), -float(op["dur"])))
    calls = {}
    for event in whole:
        number = event.get("args", {}).get("correlation")
        if event.get("cat") in ("cuda_runtime", "cuda_driver") and inside(event) and "aunch" in event["name"] and number:
            calls[int(number)] = event
    kernels = {}
    for event in whole:
        number = event.get("args", {}).get("correlation")
        if event.get("cat") == "kernel" and number:
            kernels[int(number)] = event
    joined = [(number, call, kernels[number]) for number, call in calls.items() if number in kernels]
    # A launch of the runtime may show the driver's launch inside it: one of the two has the kernel, the other lacks nothing.
    lost = [
        number
        for number, call in calls.items()
        if number not in kernels and not any(_around(call, other) or _around(other, call) for _, other, _ in joined)
    ]
    # Kernels that began inside the segment's time and have no launch here belong to nothing that we can show.
    strangers = [n for n, k in kernels.items() if n not in calls and begin <= float(k["ts"]) <= end]
    launches = tuple(
        Launch(
            op=_innermost(ops, call),
            call=call["name"],
            correlation=number,
            launch_start_us=round(float(call["ts"]) - begin, 3),
            launch_us=round(float(call["dur"]), 3),
            kernel=kernel["name"],
            kernel_start_us=round(float(kernel["ts"]) - begin, 3),
            kernel_us=round(float(kernel["dur"]), 3),
        )
        for number, call, kernel in sorted(joined, key=lambda j: float(j[1]["ts"]))
    )
    spans = tuple(
        OpSpan(op["name"], round(float(op["ts"]) - begin, 3), round(float(op["dur"]), 3), sum(_around(o, op) for o in ops))
        for op in ops
    )
    last = max([0.0, *(launch.kernel_start_us + launch.kernel_us for launch in launches), *(s.start_us + s.us for s in spans)])
    return Segment(name, what, round(last, 3), spans, launches, len(lost) + len(strangers))


def _around(outer: dict, inner: dict) -> bool:
    """Whether one event of a thread encloses another."""
    if outer is inner:
        return False
    start, end = float(outer["ts"]), float(outer["ts"]) + float(outer["dur"])
    return start <= float(inner["ts"]) and float(inner["ts"]) + float(inner.get("dur", 0.0)) <= end


def _innermost(ops: list[dict], call: dict) -> str:
    around = [op for op in ops if _around(op, call)]
    return min(around, key=lambda op: float(op["dur"]))["name"] if around else ""


# ------------------------------------------------------------------------------------------------ Perfetto


def to_perfetto(recorded: Timeline, path: Path | str) -> Path:
    """Write the timeline as Chrome's trace JSON, which ui.perfetto.dev opens: a process per segment, two lanes, and an arrow
    from each launch to its kernel. Returns the path."""
    path = Path(path)
    events: list[dict] = []
    for process, segment in enumerate(recorded.segments.values(), start=1):
        events.append(_name("process_name", process, 0, f"{segment.name} ({recorded.label()})"))
        events += [_name("thread_name", process, 1, "host"), _name("thread_name", process, 2, "device")]
        events += [_span(process, 1, op.name, "op", op.start_us, op.us) for op in segment.ops]
        for launch in segment.launches:
            arguments = {"correlation": launch.correlation, "wait_us": round(launch.wait_us, 3)}
            start, kernel_start = launch.launch_start_us, launch.kernel_start_us
            events.append(_span(process, 1, launch.call, "launch", start, launch.launch_us, **arguments))
            events.append(_span(process, 2, launch.kernel, "kernel", kernel_start, launch.kernel_us, **arguments))
            arrow = {"id": f"{process}.{launch.correlation}", "name": "launch", "cat": "launch", "pid": process}
            events.append({**arrow, "ph": "s", "tid": 1, "ts": start})
            events.append({**arrow, "ph": "f", "bp": "e", "tid": 2, "ts": kernel_start})
    files.write_atomically(path, files.to_json({"traceEvents": events, "displayTimeUnit": "ns"}, compact=True))
    return path


def _name(what: str, process: int, thread: int, name: str) -> dict:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}}


def _span(process: int, thread: int, name: str, category: str, start: float, length: float, **arguments) -> dict:
    event = {"ph": "X", "name": name, "cat": category, "pid": process, "tid": thread, "ts": start, "dur": length}
    return {**event, "args": arguments} if arguments else event


def _main(path: str) -> int:
    """The other end of `record_timeline`: profile in this process and write the file."""
    try:
        data = profile_here().to_dict()
    except TimelineError as error:
        print(error, file=sys.stderr)
        return 1
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    files.write_atomically(Path(path), files.to_json(data, compact=True))
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1]))
