"""What changed between two measurements of the claims: verdicts that turned, and stages of the add that drifted. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from utils.model import ledger, recordings, studies
from utils.model.ledger import Claim
from utils.model.readings import Receipt
from utils.model.recordings import Recording
from utils.model.studies import Study

SETTLED = ("holds", "does_not_hold")


@dataclass(frozen=True)
class Measured:
    """What one machine measured of the claims: a recording of receipts and extras, and studies by name; either may lack."""

    recording: Recording | None
    studies: Mapping[str, Study]

    def of(self, claim: Claim) -> Recording | Study | None:
        """What the claim's metric speaks of."""
        metric = claim.metric or {}
        return self.studies.get(metric["study"]) if "study" in metric else self.recording


@dataclass(frozen=True)
class Judged:
    """One claim by number, then and now: verdicts in the ledger's words for a single measurement, values in the metric's unit."""

    claim: Claim
    before: str
    before_value: float | None
    now: str
    value: float | None

    @property
    def changed(self) -> bool:
        """Both were measured, and they say different things."""
        return self.before in SETTLED and self.now in SETTLED and self.before != self.now


@dataclass(frozen=True)
class Drift:
    """One stage of the add, in ns: then, now, and the ratio."""

    receipt: str
    stage: str
    before_ns: float
    ns: float

    @property
    def ratio(self) -> float:
        return self.ns / self.before_ns if self.before_ns > 0 else float("inf")


def nearest(device: str) -> Measured:
    """The committed measurements that a machine of this device is held against: the best recording, the best of each study."""
    names = {c.metric["study"] for c in ledger.claims() if c.metric and "study" in c.metric}
    found = {name: study for name in sorted(names) if (study := studies.best(name, device)) is not None}
    return Measured(recordings.best(device), found)


def judged(before: Measured, now: Measured) -> list[Judged]:
    """Every claim with a metric that `now` could measure, in the ledger's order."""
    rows = []
    for claim in ledger.claims():
        fresh, old = now.of(claim), before.of(claim)
        if claim.metric is None or fresh is None:
            continue
        verdict, value = ledger.judge(claim, fresh)
        if verdict not in SETTLED or value is None:
            continue
        earlier = ledger.judge(claim, old) if old is not None else ("not_measurable_here", None)
        rows.append(Judged(claim, *earlier, verdict, value))
    return rows


def stages(before: Recording | None, now: Recording | None) -> list[Drift]:
    """Every stage that both priced, receipt by receipt, in the order of the receipt."""
    if before is None or now is None:
        return []
    rows = []
    for key, receipt in now.receipts.items():
        old = before.receipts.get(key)
        if old is not None:
            rows += [Drift(key, stage, was, ns) for stage, was, ns in _both(old, receipt)]
    return rows


def _both(old: Receipt, new: Receipt):
    was = {s.stage: s.ns for s in old.stages if s.isolate is not None}
    for s in new.stages:
        if s.isolate is not None and s.stage in was:
            yield s.stage, was[s.stage], s.ns
    if old.end_to_end and new.end_to_end:
        yield "the whole add", old.end_to_end.ns, new.end_to_end.ns
