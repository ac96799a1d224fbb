"""The numbers worth knowing, on one page, from the claims ledger: yours, recorded on a GPU, cited; each with its verdict.

What is a number with a settled verdict and a unit that can be said aloud is a row; nothing is written here by hand. A study that
no GPU has been recorded for gives a CPU's number, which says so.
"""

from __future__ import annotations

from utils.model import ledger, recordings, results, schemas
from utils.model.ledger import Claim
from utils.show.tables import Table, format_time, significant

SAID_ALOUD = (*ledger.COUNTS, "FLOP/byte", "ms")  # units of claims whose metric is the number itself, and no ratio of two times
COLUMNS = {
    "what": "what a text says",
    "lesson": "lesson",
    "yours": "yours",
    "recorded": "recorded GPU",
    "cited": "cited",
    "verdict": "verdict",
}
ON_A_PAGE = 40  # rows that fit a printed page


def rows() -> list[dict[str, str]]:
    """A dict a number, in the order of the lessons. At most ON_A_PAGE of them, so that it stays one page."""
    found = [c for c in ledger.claims() if _worth(c)]
    found.sort(key=lambda c: schemas.LESSONS.index(c.lesson))
    return [_row(claim) for claim in found[:ON_A_PAGE]]


def table(*, yours: bool = True) -> Table:
    """The page as a table; without `yours` for a page that has no reader."""
    best = recordings.best("cuda")
    mine = "Yours: receipts that you measured on this machine (lesson 05); what only a study measures stands in its lesson."
    notes = [
        *([mine] if yours else []),
        f"Recorded: {best.label()}; studies of the same machine" if best else "Recorded: no GPU has been recorded yet",
    ]
    columns = {key: words for key, words in COLUMNS.items() if yours or key != "yours"}
    return Table(rows(), columns, "Numbers to know", notes)


def _worth(claim: Claim) -> bool:
    if claim.kind != "number" or claim.metric is None or claim.verdict == "open" or claim.metric["measure"] == "cited.rows":
        return False
    return claim.metric["unit"] != "ratio" or claim.unit in SAID_ALOUD


def _row(claim: Claim) -> dict[str, str]:
    grad = bool(claim.metric.get("grad"))
    mine = results.latest_receipt("cuda", grad) or results.latest_receipt("cpu", grad)
    if "study" in claim.metric:
        yours, device = None, claim.metric.get("device", "cuda")
        from utils.model import studies

        theirs = studies.best(claim.metric["study"], device)
        on_a_cpu = None if theirs else studies.best(claim.metric["study"], "cpu")
    else:
        yours, theirs, on_a_cpu = mine, recordings.best("cuda"), None
    return {
        "what": claim.claim,
        "lesson": f"{schemas.LESSONS.index(claim.lesson):02d} {claim.lesson.replace('_', ' ')}",
        "yours": _said(claim, yours),
        "recorded": f"{_said(claim, on_a_cpu)} (a CPU)" if on_a_cpu else _said(claim, theirs),
        "cited": claim.cited,
        "verdict": ledger.WORDS[claim.verdict],
    }


def _said(claim: Claim, measured) -> str:
    value = None if measured is None else ledger.measure(claim, measured)
    if value is None:
        return "not measured"
    unit = claim.metric["unit"]
    if unit in ("us", "ns"):
        return format_time(value * (1e3 if unit == "us" else 1.0))
    return f"{value:,.0f} {claim.unit}" if claim.unit in ledger.COUNTS else f"{significant(value)} {claim.unit}"
