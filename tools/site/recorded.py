"""What stands under a lesson: its claims and what its study timed, the recorded CPU beside the recorded H200."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from utils.model import drift, ledger, recordings, studies
from utils.model.readings import Race
from utils.show import ledger_page
from utils.show.tables import Table, format_time, receipt_table

ID = "cpu-and-h200"
HEADING = "The same on a CPU and on an H200"
CLAIMS = {
    "claim": "what is claimed",
    "cited": "cited",
    "cpu": "CPU",
    "h200": "H200",
    "verdict": "verdict",
    "because": "because",
}
SIZES = "Each device's study takes sizes that suit it: where they differ, a row is of the same kind and not of the same size."
CLOCKS = {"host": "what the host pays", "device": "what the device takes"}


def panel(stem: str) -> str:
    """The section of the lesson `stem` ("launch"), as HTML."""
    parts = [f'<h2 id="{ID}">{HEADING}</h2>', *(f"<p>{escape(words)}</p>" for words in _sources(stem))]
    if table := claims_table(stem):
        parts.append(table._repr_html_())
    if stem == "price_each_stage" and (receipts := _receipts()):
        parts.append(receipts._repr_html_())
    timed = list(timed_tables(stem))
    if timed:
        parts.append(f"<p>{escape(SIZES)}</p>")
    for title, table in timed:
        parts.append(f"<details><summary>{escape(title)}</summary>{table._repr_html_()}</details>")
    return f'<section class="recorded">{"".join(parts)}</section>'


def measured(stem: str, device: str) -> tuple[Mapping[str, Any], str] | None:
    """(the parts that were recorded for a lesson on "cpu" or "cuda", their label), or None: not measured.

    A lesson without a study has what the recording of receipts keeps for it: lesson 00 its traps.
    """
    if study := studies.best(stem, device):
        return study.parts, study.label()
    if stem in _with_study():
        return None
    best = recordings.best(device)
    if best is None:
        return None
    return studies.revived(best.extras.get("traps", {})) if stem == "start_here" else {}, best.label(device)


def _with_study() -> set[str]:
    from utils.measure.study import STUDIES

    return set(STUDIES)


def _sources(stem: str) -> Iterator[str]:
    for name, device in (("CPU", "cpu"), ("H200", "cuda")):
        found = measured(stem, device)
        if found is not None:
            yield f"{name}: {found[1]}."
        else:
            yield (
                f"{name}: not measured. Nobody has recorded this lesson's study on a {'GPU' if device == 'cuda' else 'CPU'} yet; "
                f"`python -m utils add-machine --study {stem}` makes the recording."
            )


def claims_table(stem: str) -> Table | None:
    """The lesson's claims with both figures; None for a lesson that settles none."""
    cpu, gpu = drift.nearest("cpu"), drift.nearest("cuda")
    rows = [
        {
            "claim": c.claim,
            "cited": ledger.cited(c),
            "cpu": ledger_page.figure(c, cpu),
            "h200": ledger_page.figure(c, gpu),
            "verdict": ledger.WORDS[c.verdict],
            "because": c.sentence,
        }
        for c in ledger.claims()
        if c.lesson == stem
    ]
    return Table(rows, CLAIMS, "Claims and verdicts") if rows else None


def _receipts() -> Table | None:
    """The CPU's receipt with the GPU's prices beside it."""
    cpu, gpu = recordings.best("cpu"), recordings.best("cuda")
    one, other = cpu and cpu.receipt("cpu"), gpu and gpu.receipt("cuda")
    return receipt_table(one, other) if one is not None else None


def timed_tables(stem: str) -> Iterator[tuple[str, Table]]:
    """(title, table) for each part of the study in which something was timed: every reading, CPU beside H200."""
    sides = [found[0] if (found := measured(stem, device)) else {} for device in ("cpu", "cuda")]
    for part in dict.fromkeys(name for side in sides for name in side):
        cpu, gpu = (dict(_readings(side.get(part))) for side in sides)
        rows = [
            {"what": what, "cpu": _price(cpu.get(what)), "h200": _price(gpu.get(what))} for what in dict.fromkeys([*cpu, *gpu])
        ]
        if rows:
            title = part.replace("_", " ")
            yield (
                title,
                Table(rows, {"what": "what was timed", "cpu": "CPU", "h200": "H200"}, f"Timed: {title}", _clocks(cpu, gpu)),
            )


def _readings(thing: Any, under: str = "") -> Iterator[tuple[str, tuple[Race, str]]]:
    """(name, (race, reading)) of every Race in a part, at any depth; a race below a name bears that name."""
    if isinstance(thing, Race):
        for name in thing.readings:
            yield (f"{under}: {name}" if under else name), (thing, name)
    elif isinstance(thing, Mapping):
        for key, value in thing.items():
            yield from _readings(value, under if key in ("race", "races") else f"{under}: {key}" if under else str(key))


def _price(found: tuple[Race, str] | None) -> str:
    return "not measured" if found is None else format_time(found[0][found[1]].ns)


def _clocks(cpu: Mapping, gpu: Mapping) -> list[str]:
    """A line for each side that says whose time its prices are."""
    return [
        f"{name}: {', '.join(sorted({CLOCKS[race.clock] for race, _ in side.values()}))}"
        for name, side in (("CPU", cpu), ("H200", gpu))
        if side
    ]
