"""Small programs under the profiler, each in a process of its own, and the events that the profiler wrote of them.

Once CUPTI runs in a process, all its later launches are slower: so the caller's process never profiles. `PROGRAMS` are what
can be run; each marks its segments with `record_function`, and `inside` finds what happened in one.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from utils.measure import children
from utils.measure.device_clock import MeasurementError

Progress = Callable[[float, str], None]
KEPT = ("cpu_op", "cuda_runtime", "cuda_driver", "kernel", "gpu_memcpy", "gpu_memset", "user_annotation")
ARGS = (
    "correlation",
    "grid",
    "block",
    "blocks per SM",
    "warps per SM",
    "est. achieved occupancy %",
    "registers per thread",
    "shared memory",
    "bytes",
)
ADDS = 200


def events(program: str, progress: Progress | None = None) -> list[dict]:
    """The events ("ph": "X", times in µs) of one of `PROGRAMS`, profiled in a fresh process; about 10 s.

    Raises KeyError for another program, MeasurementError, in words, without CUDA or when that process fails.
    """
    return _events((program,), progress or (lambda done, text: None))


def shared(program: str, progress: Progress | None = None) -> list[dict]:
    """The same from a process that profiles all programs of the same lesson, one after the other, the first time that one is
    asked for.

    Starting a process costs more than the programs do: a lesson that wants several of them pays it once. The events of the other
    programs are among them: ask `inside`. Raises KeyError for a program that no lesson has.
    """
    together = next((names for names in TOGETHER if program in names), None)
    if together is None:
        raise KeyError(f"there is no program {program!r} that a lesson shares")
    if together not in _kept:
        _kept[together] = _events(together, progress or (lambda done, text: None))
    return _kept[together]


_kept: dict[tuple[str, ...], list[dict]] = {}
TOGETHER = (("adds", "shapes", "steps"),)  # of lesson 04


def _events(programs: tuple[str, ...], progress: Progress) -> list[dict]:
    import torch

    for program in programs:
        if program not in PROGRAMS:
            raise KeyError(f"there is no program {program!r} to profile; there are {', '.join(PROGRAMS)}")
    if not torch.cuda.is_available():
        raise MeasurementError("no CUDA device here, so there is nothing to profile: the recordings hold a GPU's timeline")
    try:
        return children.in_child("utils.measure.profiled", programs, progress)["events"]
    except RuntimeError as error:
        raise MeasurementError(f"the profiled process failed: {error}") from None


def kernels(found: Iterable[dict], segments: Iterable[str]) -> dict[str, int]:
    """How many kernels ran within each segment. Raises MeasurementError as `inside` does, and where one saw none at all."""
    found = list(found)
    counts = {name: sum(e["cat"] == "kernel" for e in inside(found, name)) for name in segments}
    if empty := [name for name, count in counts.items() if not count]:
        raise MeasurementError(f"the profiler ran but saw no kernel of {empty[0]!r}: CUPTI could not start here")
    return counts


def inside(found: Iterable[dict], segment: str) -> list[dict]:
    """The events that began within the segment of this mark, in the order of their begin; the mark itself comes first.

    A kernel that the segment launched and that ended later is in it; `timeline.join` follows launches by their number instead.
    Raises MeasurementError when the mark is not there.
    """
    whole = [e for e in found if e.get("cat") in KEPT]
    marks = [e for e in whole if e["cat"] == "user_annotation" and e["name"] == segment]
    if not marks:
        raise MeasurementError(f"the profiler's trace holds no segment {segment!r}")
    mark = marks[-1]
    begin, end = float(mark["ts"]), float(mark["ts"]) + float(mark["dur"])
    there = [e for e in whole if e is not mark and e["cat"] != "user_annotation" and begin <= float(e["ts"]) <= end]
    return [mark, *sorted(there, key=lambda e: float(e["ts"]))]


# ------------------------------------------------------------------------------------------------ the other end


def _adds(run: Callable[[str, Callable], None]) -> None:
    """One element, as often as `small_kernel` asks: the kernel's length by the profiler."""
    import torch

    a, b = (torch.randn(1, device="cuda") for _ in range(2))

    def many() -> None:
        for _ in range(ADDS):
            c = a + b
        del c

    run("adds", many)


def _shapes(run: Callable[[str, Callable], None]) -> None:
    """Ops of several sizes, for how many blocks and warps each gives to the device."""
    from utils.measure.occupancy import works

    for name, work in works().items():
        run(name, work)


def _steps(run: Callable[[str, Callable], None]) -> None:
    """Training steps, each with another line in it that may wait for the device."""
    from utils.measure.hidden_syncs import variants

    for name, work in variants().items():
        run(name, work)


def _toy(run: Callable[[str, Callable], None]) -> None:
    """The five ops of lesson 07's block, for how many kernels they are."""
    from utils.measure.toy_block import paper

    run("toy block", paper("cuda").run)


def _sweep(run: Callable[[str, Callable], None]) -> None:
    """The steps of lesson 08's null experiment, each model at each batch: how many kernels each has."""
    from utils.measure.null_experiment import named_steps

    for name, work in named_steps("cuda").items():
        run(name, work)


def _layers(run: Callable[[str, Callable], None]) -> None:
    """One transformer layer of each style, forward, backward and for one token."""
    from utils.measure.layer_ops import works

    for name, work in works("cuda").items():
        run(name, work)


def _step32(run: Callable[[str, Callable], None]) -> None:
    """A training step of 32 layers of each style."""
    from utils.measure.step32 import works

    for name, work in works("cuda").items():
        run(name, work)


def _captured(run: Callable[[str, Callable], None]) -> None:
    """The toy block op by op and replayed, for whether the kernels are the same."""
    from utils.measure.same_bytes import works

    for name, work in works().items():
        run(name, work)


PROGRAMS: dict[str, Callable] = {
    "adds": _adds,
    "shapes": _shapes,
    "steps": _steps,
    "toy": _toy,
    "sweep": _sweep,
    "layers": _layers,
    "step32": _step32,
    "captured": _captured,
}


def profile_here(*programs: str) -> list[dict]:
    """Run the programs once to warm up and twice under the profiler, in this process. Their events, each with what is used."""
    works: list[tuple[str, Callable]] = []
    for program in programs:
        PROGRAMS[program](lambda name, work: works.append((name, work)))
    return profile_works(works)


def profile_works(works: list[tuple[str, Callable]]) -> list[dict]:
    """The same of callables of the caller's own, each in a segment of its name. Later launches of this process are slower."""
    import torch
    from torch.profiler import ProfilerActivity, profile, record_function

    for _, work in works:
        work()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        for _, work in works:  # the profiler's own first event of a kind takes milliseconds
            work()
        torch.cuda.synchronize()
        for name, work in works:
            with record_function(name):
                work()
                torch.cuda.synchronize()
    with tempfile.TemporaryDirectory(prefix="one-add-profiled-") as folder:
        file = Path(folder) / "trace.json"
        seen.export_chrome_trace(str(file))
        found = json.loads(file.read_text(encoding="utf-8"))["traceEvents"]
    kept = [e for e in found if e.get("ph") == "X" and e.get("cat") in KEPT and "ts" in e]
    return [_used(e) for e in kept]


def _used(event: dict) -> dict:
    """What is read of an event: the rest would travel in vain."""
    arguments = event.get("args", {})
    return {k: event.get(k) for k in ("cat", "name", "ts", "dur", "tid")} | {
        "args": {k: arguments[k] for k in ARGS if k in arguments}
    }


def _main(*programs: str) -> None:
    def measure(progress: Progress) -> dict:
        progress(0.2, f"profiling: {', '.join(programs)}")
        return {"events": profile_here(*programs)}

    children.serve(measure)


if __name__ == "__main__":
    _main(*sys.argv[1:])
