"""Records sick programs: each in a process of its own, timed without the profiler first, then some marked steps under it.

What is kept is small: the events that a diagnosis reads, times from the first step on, shapes where they were recorded. Of many
steps the quietest run is kept: a neighbour that takes the core in the middle of an op would look like an illness. On a CPU one
thread, so that the trace shows the program and not a team's waits; malloc as it is, for fresh pages are one of the illnesses,
unless the program says otherwise.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from utils.measure import children, malloc, smi
from utils.measure.device_clock import MeasurementError
from utils.measure.either_clock import need
from utils.measure.fingerprints import fingerprint
from utils.measure.sick import PROGRAMS, Program, Step
from utils.measure.torch_threads import one_torch_thread
from utils.measure.wall_arms import until_idle, wall_race
from utils.model import sick_traces, traces
from utils.model.sick_traces import HEALTHY, SICK, Recorded
from utils.model.trace_features import COMPILED, COMPILES, LOADER, STEP, step_marks

Progress = Callable[[float, str], None]
KEPT = ("cpu_op", "user_annotation", *traces.RUNTIME, *traces.DEVICE)
ARGS = ("Input Dims", "Input type", "correlation", "stream", "grid", "block", "bytes", "est. achieved occupancy %")
UTILISATION_S = 2.0
TRIES = 8  # runs of steps, of which the quietest is kept
LIMIT_S = 240  # the longest program takes a tenth of it


def record(
    program: str,
    form: str = SICK,
    device: str = "cpu",
    *,
    size: float = 1.0,
    seed: int = 0,
    progress: Progress | None = None,
) -> Recorded:
    """One program's trace and facts, from a fresh process; some 10 s, most of them for starting torch.

    Raises KeyError for a program that there is not, MeasurementError in words where it has no such form, does not run on this
    device, or fails.
    """
    found = PROGRAMS[program]
    if form == HEALTHY and found.healthy is None:
        raise MeasurementError(f"{program} has no healthier twin: nothing is wrong with it")
    if device not in found.devices:
        raise MeasurementError(f"{program} does not run on {device}: it is a program for {', '.join(found.devices)}")
    need(device, f"the trace of {program}")
    arguments = (program, form, device, str(size), str(seed))
    try:
        answer = children.in_child("utils.measure.sick_recorder", arguments, progress or (lambda done, text: None), LIMIT_S)
    except RuntimeError as error:
        raise MeasurementError(f"{program} ({form}) could not be recorded: {error}") from None
    return Recorded(
        program=program,
        form=form,
        variant={"size": size, "seed": seed},
        device=device,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        where=fingerprint(),
        steps=answer["steps"],
        facts=answer["facts"],
        events=tuple(answer["events"]),
        command=f"python -m utils record --sick {program} --device {device}",
        source="live",
    )


def record_all(
    programs: Iterable[str], device: str, *, size: float = 1.0, seed: int = 0, progress: Progress | None = None
) -> Iterator[tuple[str, Recorded | Exception]]:
    """(name, recording or the reason why there is none) of every form of every program that runs on the device, as they come."""
    todo = [
        (name, form)
        for name in programs
        for form in (SICK, HEALTHY)
        if device in PROGRAMS[name].devices and (form == SICK or PROGRAMS[name].healthy is not None)
    ]
    for done, (name, form) in enumerate(todo):
        if progress:
            progress(done / len(todo), f"{name} ({form})")
        try:
            yield sick_traces.name_of(name, form, size, seed), record(name, form, device, size=size, seed=seed)
        except Exception as reason:  # one program that fails must not cost the others
            yield sick_traces.name_of(name, form, size, seed), reason


# ------------------------------------------------------------------------------------------------ the other end


def profile_here(program: Program, form: str, device: str, size: float, seed: int, progress: Progress) -> dict:
    """Facts and events of one program, in this process, whose later launches on a GPU are slower."""
    import torch

    if program.pinned and device == "cpu":
        malloc.pin()
    with one_torch_thread() if device == "cpu" else nullcontext(), torch.no_grad():
        step = (program.sick if form == SICK else program.healthy)(device, size=size, seed=seed)
        other = program.healthy if form == SICK else program.sick
        twin = other(device, size=size, seed=seed) if other else None
        progress(0.3, "timing without the profiler")
        facts = _facts(step, twin, device)
        progress(0.7, "under the profiler")
        events = _profiled(step, device, program.steps)
    events, steps = fitting(events, sick_traces.MOST_BYTES)
    return {"facts": facts, "events": events, "steps": steps}


def _facts(step: Step, twin: Step | None, device: str) -> dict:
    """What the profiler cannot see; a fact that cannot be had is None, and costs no other."""
    import torch

    wait = torch.cuda.synchronize if device == "cuda" else (lambda: None)
    for _ in range(2):
        step()
        if twin:
            twin()
    wait()
    facts = dict.fromkeys(("step_ns", "twin_step_ns", "aa_error", "cpu_share", "peak_bytes", "threads", "utilisation"))
    facts["threads"] = torch.get_num_threads() if device == "cpu" else None
    arms = {"step": until_idle(step, device)} | ({"twin": until_idle(twin, device)} if twin else {})
    try:
        race = wall_race(arms, device, blocks=10, at_most_s=3.0)
        facts |= {"step_ns": race["step"].ns, "aa_error": race.aa_error, "twin_step_ns": race["twin"].ns if twin else None}
    except Exception as error:
        print(f"not timed: {error}", file=sys.stderr)
    try:
        facts["cpu_share"] = _cpu_share(step, wait)
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
            step()
            wait()
            facts["peak_bytes"] = float(torch.cuda.max_memory_allocated())
            facts["utilisation"] = _utilisation(step, wait)
    except Exception as error:
        print(f"a fact is missing: {error}", file=sys.stderr)
    return facts


def _cpu_share(step: Step, wait: Callable[[], None]) -> float:
    """CPU time of this process over time on the wall: what a monitor of processes would show."""
    begin, spent = time.perf_counter(), time.process_time()
    while time.perf_counter() - begin < 0.4:
        step()
    wait()
    return (time.process_time() - spent) / (time.perf_counter() - begin)


def _utilisation(step: Step, wait: Callable[[], None]) -> float | None:
    """What nvidia-smi says of the GPU while the steps follow each other (%, median)."""
    import statistics

    with smi.sampling(smi.this_gpu()) as samples:
        begin = time.monotonic()
        while time.monotonic() - begin < UTILISATION_S:
            step()
            wait()  # so that a fast host does not fill the queue for minutes
    seen = [row[1] for row in samples.since(UTILISATION_S / 2) if row[1] is not None]
    return float(statistics.median(seen)) if seen else None


def _profiled(step: Step, device: str, steps: int) -> list[dict]:
    """The events of the quietest run of so many marked steps.

    Before them are two left out: the profiler's own first event of a kind takes milliseconds.
    """
    import torch
    from torch.profiler import ProfilerActivity, profile, record_function

    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if device == "cuda" else [])
    wait = torch.cuda.synchronize if device == "cuda" else (lambda: None)
    with profile(activities=activities, record_shapes=True) as seen:
        for _ in range(2):
            with record_function("left out"):
                begin = time.monotonic()
                step()
            wait()
        tries = max(1, min(TRIES, int(1.5 / max(steps * (time.monotonic() - begin), 1e-6))))
        for number in range(steps * tries):
            if number % steps == 0:
                wait()  # so that no run begins with the device's work of the one before
            with record_function(f"ProfilerStep#{number}"):
                step()
        wait()
    with tempfile.TemporaryDirectory(prefix="one-add-sick-") as folder:
        file = Path(folder) / "trace.json"
        seen.export_chrome_trace(str(file))
        found = traces.read(file)
    kept = reduced(found, steps)
    if device == "cuda" and not any(e["cat"] in traces.DEVICE for e in kept):
        raise MeasurementError("the profiler ran but saw no work of the device: CUPTI could not start here")
    return kept


def reduced(events: list[dict], steps: int) -> list[dict]:
    """What matters of the shortest run of `steps` marked steps, without anything of the machine: times from its begin on, lanes
    numbered.

    Runs begin at every `steps`-th mark. Of a compilation its own frames stay, not the thousand ops that it runs on shapes alone.
    """
    marks = step_marks(events)
    runs = [marks[at : at + steps] for at in range(0, len(marks) - steps + 1, steps)]
    quietest = min(runs, key=lambda run: run[-1][1] - run[0][0])
    begin, end = quietest[0][0], quietest[-1][1]
    whole = [e for e in events if e.get("cat") in KEPT and "_data: " not in e["name"]]
    launched = {
        (e.get("args") or {}).get("correlation") for e in whole if e["cat"] in traces.RUNTIME and begin <= float(e["ts"]) < end
    } - {None}
    kept = [
        e
        for e in whole
        if begin <= float(e["ts"]) < end or (e["cat"] in traces.DEVICE and (e.get("args") or {}).get("correlation") in launched)
    ]
    compiles = [(float(e["ts"]), float(e["ts"]) + float(e["dur"])) for e in kept if COMPILED.search(e["name"])]
    lanes: dict[tuple, int] = {}
    out = []
    for e in sorted(kept, key=lambda e: (float(e["ts"]), -float(e["dur"]))):
        start = float(e["ts"])
        inside = any(a < start < b for a, b in compiles)
        if e["cat"] == "cpu_op" and inside and not COMPILES.search(e["name"]):
            continue
        if e["cat"] == "user_annotation" and not (
            STEP.search(e["name"]) or LOADER.search(e["name"]) or "Optimizer" in e["name"] or "Call CompiledFxGraph" in e["name"]
        ):
            continue
        device = e["cat"] in traces.DEVICE
        lane = lanes.setdefault((device, e.get("pid"), e.get("tid")), sum(k[0] == device for k in lanes) + 1)
        args = {k: v for k, v in (e.get("args") or {}).items() if k in ARGS}
        if not any(args.get("Input Dims") or ()):
            args = {k: v for k, v in args.items() if not k.startswith("Input")}
        name = "CompiledFxGraph" if "Call CompiledFxGraph" in e["name"] else e["name"]
        out.append(
            {"ph": "X", "cat": e["cat"], "name": name, "ts": round(start - begin, 3), "dur": round(float(e["dur"]), 3)}
            | {"pid": 0 if device else 1, "tid": lane}
            | ({"args": args} if args else {})
        )
    return out


def fitting(events: list[dict], most_bytes: int) -> tuple[list[dict], int]:
    """(the events, how many steps they are): the first steps only where all of them would be too large a file."""
    marks = step_marks(events)
    for steps in range(len(marks), 0, -1):
        end = marks[steps - 1][1]
        kept = [e for e in events if float(e["ts"]) < end] if steps < len(marks) else events
        if len(sick_traces.packed_bytes({"traceEvents": kept})) < 0.95 * most_bytes:  # the facts come on top
            return kept, steps
    raise MeasurementError(f"a single step is more than {most_bytes:,} bytes of events: make the program smaller")


def _main(program: str, form: str, device: str, size: str, seed: str) -> None:
    children.serve(partial(profile_here, PROGRAMS[program], form, device, float(size), int(seed)))


if __name__ == "__main__":
    _main(*sys.argv[1:6])
