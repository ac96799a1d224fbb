"""The claims ledger as one page of Markdown: every claim with its figures, its verdict and the lesson that settles it.

Written by `python -m utils ledger` from `utils/data/claims.yml` and the committed recordings; the committed page has no column of
a reader, a page that a reader writes has one, from what was recorded on that machine.
"""

from __future__ import annotations

from collections.abc import Iterable

from utils import paths
from utils.model import ledger, recordings, schemas, studies
from utils.model.drift import Measured, nearest
from utils.model.ledger import Claim
from utils.model.recordings import Recording
from utils.model.studies import Study

FILE = "ledger.md"
SOURCES = {
    "A": "text A, on what eager mode does for each op",
    "B": "text B, on the eager baseline and its ceilings",
    "ours": "found by ourselves",
}


def page(yours: Measured | None = None, *, notebooks: str = "../notebooks") -> str:
    """The page; `yours` adds the reader's column, `notebooks` is where the lessons are, seen from the page."""
    cpu, gpu = nearest("cpu"), nearest("cuda")
    rows = ledger.claims()
    lines = [
        "# Claims ledger",
        "",
        "Generated from `utils/data/claims.yml` and the committed recordings by `python -m utils ledger`; not written by hand. "
        "A figure is in the unit of its claim. Where a claim has no number, its lesson tries the mechanism, and the sentence "
        "says what was found. " + ledger.RULE,
        "",
        *_summary(rows),
        "",
        *(f"- {text}" for text in _labels(cpu, gpu, yours)),
    ]
    for stem in schemas.LESSONS:
        own = [c for c in rows if c.lesson == stem]
        if own:
            lines += ["", f"## {_title(stem, notebooks)}", "", *_table(own, cpu, gpu, yours)]
    return "\n".join(lines) + "\n"


def _title(stem: str, notebooks: str) -> str:
    """The lesson's number and name, as a link once there is one."""
    number = f"{schemas.LESSONS.index(stem):02d}"
    title = f"{number} {stem.replace('_', ' ')}"
    there = (paths.REPO / "notebooks" / f"{number}_{stem}.ipynb").is_file()
    return f"[{title}]({notebooks}/{number}_{stem}.ipynb)" if there else f"{title} (planned)"


def _summary(rows: list[Claim]) -> Iterable[str]:
    yield "| verdict | claims |"
    yield "|---|---|"
    for verdict, words in ledger.WORDS.items():
        if count := sum(c.verdict == verdict for c in rows):
            yield f"| {words} | {count} |"


def _labels(cpu: Measured, gpu: Measured, yours: Measured | None) -> Iterable[str]:
    for column, measured in (("CPU", cpu), ("H200", gpu), *([("yours", yours)] if yours else [])):
        found = [m for m in (measured.recording, *measured.studies.values()) if m is not None]
        dates = sorted({m.date[:10] for m in found if m.date})
        if not found:
            yield f"{column}: nothing recorded"
            continue
        label = found[0].label() if column != "yours" else found[0].label().removeprefix("recorded · ").removeprefix("live · ")
        yield f"{column}: {label}" + (f", and studies to {dates[-1]}" if len(dates) > 1 else "")
    yield f"claims: {'; '.join(f'{key}: {text}' for key, text in SOURCES.items())}"


def _table(rows: list[Claim], cpu: Measured, gpu: Measured, yours: Measured | None) -> Iterable[str]:
    heads = ["claim", "what is claimed", "cited", "CPU", "H200", *(["yours"] if yours else []), "verdict", "because", "torch"]
    yield f"| {' | '.join(heads)} |"
    yield "|" + "---|" * len(heads)
    for c in rows:
        figures = [figure(c, m) for m in (cpu, gpu, *([yours] if yours else []))]
        because = c.sentence + (f" ({c.note})" if c.note else "")
        cells = [c.id, c.claim, ledger.cited(c), *figures, ledger.WORDS[c.verdict], because, ", ".join(c.torch)]
        yield f"| {' | '.join(text.replace('|', chr(92) + '|') for text in cells)} |"


def figure(claim: Claim, measured: Measured) -> str:
    """The claim's number by these measurements, as text; a dash where the claim has none, or speaks of another device."""
    found = measured.of(claim)
    if claim.metric is None or (found is not None and claim.metric.get("device", found.device) != found.device):
        return "–"
    return ledger.shown(claim, found) if found is not None else "not measured"


def of_reader() -> Measured | None:
    """What this reader recorded (`python -m utils record`, with and without --study) into the own folder; None without any.

    A file that cannot be used is passed over.
    """
    mine: list[Recording] = []
    found: dict[str, Study] = {}
    for path in sorted(paths.home().glob("*.json")):
        try:
            if study := studies.read(path):
                found[study.name] = study
            else:
                mine.append(recordings.load(path.stem, path.parent))
        except recordings.RecordingError:
            continue
    best = max(mine, key=lambda r: (r.device == "cuda", r.date), default=None)
    return Measured(best, found) if best or found else None
