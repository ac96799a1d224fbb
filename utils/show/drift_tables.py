"""What changed since the recordings, as text for a terminal: claims with their verdicts then and now, stages with their drift."""

from __future__ import annotations

from collections.abc import Iterable

from utils.model import ledger
from utils.model.drift import Drift, Judged
from utils.model.recordings import Recording
from utils.show.tables import significant


def claims(rows: Iterable[Judged], recording: Recording | None) -> str:
    """One line a claim: then, now, and "changed" where the verdict is another one; under the label of the recording."""
    from tabulate import tabulate

    lines = [
        [
            row.claim.id,
            row.claim.lesson,
            row.claim.claim if len(row.claim.claim) <= 60 else row.claim.claim[:59] + "…",
            _value(row, row.before_value),
            _value(row, row.value),
            ledger.WORDS[row.now] if row.now == row.before or row.before_value is None else f"CHANGED: {ledger.WORDS[row.now]}",
        ]
        for row in rows
    ]
    beside = recording.label() if recording else "recorded: nothing of this device"
    return f"{tabulate(lines, ['claim', 'lesson', 'what is claimed', 'recorded', 'here', 'verdict here'])}\n{beside}\n"


def stages(rows: Iterable[Drift]) -> str:
    """One line a stage of each receipt: then, now, ratio."""
    from tabulate import tabulate

    lines = [[r.receipt, r.stage, significant(r.before_ns), significant(r.ns), f"{significant(r.ratio, 2)}×"] for r in rows]
    return tabulate(lines, ["receipt", "stage", "recorded, ns", "here, ns", "here / recorded"], disable_numparse=True) + "\n"


def _value(row: Judged, value: float | None) -> str:
    return "not measured" if value is None else ledger.worded(row.claim, value)
