"""Recorded traces of sick programs in the form of lab 10: a CPU's one lane, taken apart into a host and a device. No torch.

On a CPU one thread is host and device, one after the other. So each op of a recorded trace is split here: what an op on a few
numbers takes is its issue, with the Python in front of it; what it takes beyond that is its work. Two lanes that never overlap.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from utils.labs.diagnose_traces import NONE, Event, Roofs, Trace
from utils.model import sick_traces, trace_features, traces

ISSUE_US = 3.0  # what an op on a few numbers takes under the profiler on the machine of the recordings
DIAGNOSES = {
    "one_by_one": "launch_bound",
    "element_by_element": "launch_bound",
    "loop_optimizer": "launch_bound",
    "slow_loader": "waits_for_data",
    "new_shapes": "recompiles",
    "captured_again": "recaptures",
    "giant_product": NONE,
    "batch_of_one.healthy": NONE,
}
MACHINE = "cpu-2core-torch2.13"


def label(name: str) -> str:
    """Where and when it was recorded: stands beside its numbers."""
    return sick_traces.load(f"{MACHINE}/{name}").label()


@lru_cache(maxsize=16)
def recorded(name: str) -> Trace:
    """A recorded trace (DIAGNOSES has the names) as host and device. Bytes, FLOPs and roofs were not counted: 0 and 1."""
    events = traces.read(sick_traces.FOLDER / MACHINE / f"{name}{sick_traces.ENDING}")
    marks = trace_features.step_marks(events)
    steps = [(begin, following) for (begin, _), (following, _) in zip(marks, [*marks[1:], (marks[-1][1], 0.0)])]
    thread = next(e["tid"] for e in events if trace_features.STEP.search(e["name"]))
    lane = sorted((e for e in events if e.get("tid") == thread), key=lambda e: (float(e["ts"]), -float(e["dur"])))
    found = sorted(_taken_apart(lane, steps[0][0], steps[-1][1]), key=lambda e: (e.start, -e.end))
    return Trace(tuple(found), tuple(steps), Roofs(1.0, {"bf16": 1.0, "fp32": 1.0}, 0.0))


def _taken_apart(lane: Sequence[dict], begin: float, end: float) -> Iterator[Event]:
    """The outermost ops and other doings of one thread between two moments, each op as its issue and its work."""
    reached, link = begin, 0
    for e, following in zip(lane, [*lane[1:], {"name": ""}]):
        start, stop = float(e["ts"]), float(e["ts"]) + float(e["dur"])
        kind = _kind(e["name"], following["name"]) or ("op" if e.get("cat") == "cpu_op" else "")
        if not kind or start < reached or start >= end:
            continue
        if kind != "op":
            yield Event("host", kind, e["name"], start, stop)
        else:
            link += 1
            way = reached if start - reached < trace_features.LONG_GAP_US else start
            issued = min(stop, start + ISSUE_US)
            yield Event("host", "op", e["name"], way, issued)
            yield Event("host", "launch", "call", start, issued, link)
            if stop > issued:
                yield Event("device", "kernel", f"{e['name']}'s work", issued, stop, link)
        reached = stop


@lru_cache(maxsize=1024)
def _kind(name: str, inside: str) -> str:
    """What the host does in an event of this name, the next event's being known; "" for an op, and for what is nothing of ours.

    An op whose first part is a dispatch mode is run once more in Python, to be written down: a graph is recorded.
    """
    if trace_features.LOADER.search(name):
        return "load"
    if trace_features.COMPILES.search(name):
        return "compile"
    return "record" if trace_features.TRACES.search(name) or trace_features.TRACES.search(inside) else ""
