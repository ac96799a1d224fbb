"""The end of a lesson that has a study: the numbers of its checks as measured here, and its claims beside the recordings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from utils.measure.launch_here import Found
from utils.measure.study_here import NOT_YET, Both
from utils.model import ledger, studies
from utils.model.quantities import NotMeasured
from utils.show.tables import Table

COLUMNS = {
    "id": "claim",
    "claim": "what is claimed",
    "yours": "yours",
    "recorded": "recorded",
    "cited": "cited",
    "verdict": "verdict",
    "sentence": "because",
}


def judged_here(device: str, found: Found, wanted: Iterable[str], numbers: Callable[[Mapping], Mapping]) -> dict:
    """What `expect` takes of one part: its `numbers`, and NotMeasured, with the reason, in place of each wanted one without."""
    if found.value is None:
        return {"device": device} | dict.fromkeys(wanted, NotMeasured(found.why or "it was not measured here"))
    return {number: NotMeasured(f"{number} was not measured here") for number in wanted} | dict(numbers(found.value))


def verdicts(study: str, device: str, found: Mapping[str, Both]) -> Table:
    """The claims of this study's lesson: yours (the parts `found` live, by name), recorded, cited, the verdict, its sentence."""
    from utils.measure import machine

    live = {name: one.here.value for name, one in found.items() if one.here.live and one.here.value is not None}
    yours = studies.live(study, device, machine.fingerprint(), live) if live else None
    rows = ledger.verdict_table(study, yours=yours)
    notes = [one.label() for one in ledger.recorded_studies(study)]
    if studies.best(study, "cuda") is None:
        notes.append(f"Recorded: {NOT_YET['cuda']}")
    return Table(rows, COLUMNS, "Claims and verdicts", [*notes, ledger.RULE])
