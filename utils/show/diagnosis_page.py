"""The answer key of the traces as one page of Markdown: each diagnosis, and what the recorded programs show of it.

Written by `python -m utils diagnose --key` from `utils/data/diagnoses.yml`, the programs and their recordings.
"""

from __future__ import annotations

from collections.abc import Iterator

from utils.measure.sick import PROGRAMS, Program
from utils.model import schemas, sick_traces
from utils.model.diagnosis import ENOUGH, Entry, diagnose, key
from utils.model.sick_traces import HEALTHY, Recorded
from utils.show.tables import format_ns

FILE = "diagnoses.md"
DEVICES = {"cpu": "CPU", "cuda": "GPU"}


def page() -> str:
    """The whole page."""
    lines = [
        "# What ails a program, by its trace",
        "",
        "Generated from `utils/data/diagnoses.yml`, the sick programs of `utils/measure/sick.py` and their recorded traces by "
        "`python -m utils diagnose --key`; not written by hand. `python -m utils diagnose FILE` reads your own trace by the same "
        f"rules: a diagnosis is what explains most of the step, and at least {ENOUGH:.0%} of it. Times of a step are without the "
        "profiler; shares are of the trace, in which the host is slower.",
        "",
        *(f"- {DEVICES[device]}: {_labels(device)}" for device in DEVICES),
    ]
    for entry in key().values():
        lines += ["", f"## {entry.name}", "", *_entry(entry)]
        programs = [p for p in PROGRAMS.values() if p.diagnosis == entry.id]
        if programs:
            lines += ["", *_table(programs)]
    return "\n".join(lines) + "\n"


def _labels(device: str) -> str:
    """Whose recordings these are; words where there is none."""
    labels = dict.fromkeys(sick_traces.load(name).label() for name in sick_traces.available(device))
    return "; ".join(labels) or "nothing is recorded yet"


def _entry(entry: Entry) -> Iterator[str]:
    lessons = ", ".join(f"{schemas.LESSONS.index(stem):02d}" for stem in entry.lessons)
    yield f"- What it looks like: {entry.looks}"
    yield f"- What misleads: {entry.misleading}"
    yield f"- Why it is what it is: {entry.reason}"
    yield f"- The cure: {entry.cure}"
    yield f"- To be sure: {entry.confirm}"
    yield f"- On a CPU, where one thread is host and device: {entry.on_a_cpu}"
    yield f"- Lessons: {lessons}"


def _table(programs: list[Program]) -> Iterator[str]:
    yield "| program | its twin | device | what the trace shows | a step | the twin's |"
    yield "|---|---|---|---|---|---|"
    for program in programs:
        for device in program.devices:
            cells = _recorded(program, device)
            yield f"| {program.title} (`{program.id}`) | {program.twin or 'none: it is healthy'} | {DEVICES[device]} | {cells} |"


def _recorded(program: Program, device: str) -> str:
    """The cells of one program on one device: the finding in the trace's numbers, the two times, the twin's own diagnosis."""
    recorded = sick_traces.of(program.id, device=device)
    if recorded is None:
        return "not recorded | – | –"
    found = diagnose(recorded.events)
    said = found.finding.reason if found.finding else found.saw
    twin = sick_traces.of(program.id, HEALTHY, device)
    return f"{said} | {_step(recorded)} | {_twin(twin)}"


def _step(recorded: Recorded) -> str:
    return format_ns(recorded.facts["step_ns"]) if recorded.facts["step_ns"] else "not timed"


def _twin(twin: Recorded | None) -> str:
    return "–" if twin is None else f"{_step(twin)}: {diagnose(twin.events).name}"
