"""The claims ledger: what the two source texts assert, and what the recordings say about it.

`claims()` reads `utils/data/claims.yml`. A claim with a `metric` is judged by number: `judge` against one recording,
`computed_verdict` against all that the row names; a test holds the verdict in the file equal to it, so that it cannot rot.
A metric speaks of a receipt, of another instrument of the same recording (`extra`), or of a part of a lesson's study.
`verdict_table` puts three columns side by side: yours, recorded, cited.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from utils.model import quantities, recordings, schemas, studies
from utils.model.readings import Race, Receipt
from utils.model.recordings import Recording
from utils.model.studies import Study

Measured = Recording | Receipt | Study

ROUNDING = 0.05  # figures cited with one digit are not finer than this
AROUND = 1.5  # "about x" holds from x / 1.5 to x · 1.5
RULE = (
    f'A range holds with {100 * ROUNDING:g} % on either side, "about x" from x / {AROUND:g} to {AROUND:g} x; where no figure is '
    "cited, ends of our own do."
)
SCALE = {"us": 1e-3, "ns": 1.0, "ratio": 1.0}
UNITS = {"us": "µs", "ns": "ns", "ms": "ms", "percent": "%", "x": "×", "ratio": "×"}
COUNTS = ("ops", "kernels", "launches", "elements")  # units of claims whose metric is a count: shown as one, not as a ratio
STAGE_ROWS = ("A01", "A02", "A03", "A04", "A05", "A06", "A07")  # the stage table whose own total is A08
WORDS = {
    "holds": "holds",
    "holds_when": "holds, but not everywhere",
    "does_not_hold": "does not hold",
    "not_measurable_here": "cannot be measured here",
    "open": "not settled yet",
}


@dataclass(frozen=True)
class Claim:
    """One row of the ledger; `lo`, `hi` and `around` are the source's figures in `unit`."""

    id: str
    source: str
    kind: str
    lesson: str
    claim: str
    verdict: str
    sentence: str
    recordings: tuple[str, ...]
    torch: tuple[str, ...]
    lo: float | None = None
    hi: float | None = None
    around: float | None = None
    unit: str = ""
    note: str = ""
    metric: Mapping[str, Any] | None = None

    @property
    def cited(self) -> str:
        """The source's figure as text ("1–2 µs", "about 0.5 µs", "at most 1 %"), empty when it gives none."""
        unit = UNITS.get(self.unit, self.unit)
        if self.around is not None:
            text = f"about {self.around:,.12g}"
        elif self.lo is not None and self.hi is not None:
            text = f"{self.lo:,.12g}–{self.hi:,.12g}"
        elif self.lo is not None or self.hi is not None:
            text = f"at least {self.lo:,.12g}" if self.hi is None else f"at most {self.hi:,.12g}"
        else:
            return ""
        return f"{text} {unit}"

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """What the measured value is compared with: the metric's own ends where it has them, else the source's figures."""
        if self.metric and ("lo" in self.metric or "hi" in self.metric):
            return self.metric.get("lo"), self.metric.get("hi")
        if self.around is not None:
            return self.around / AROUND, self.around * AROUND
        return self.lo, self.hi


def claims(lesson: str | None = None) -> list[Claim]:
    """The claims in the file's order: all, or those that one lesson settles (by its stem)."""
    rows = schemas.load("claims")["claims"]
    return [_claim(row) for row in rows if lesson in (None, row["lesson"])]


def find(claim_id: str) -> Claim:
    """The claim of this id. Raises KeyError when there is none."""
    for claim in claims():
        if claim.id == claim_id:
            return claim
    raise KeyError(f"there is no claim {claim_id!r}")


def judge(claim: Claim, measured: Measured) -> tuple[str, float | None]:
    """(verdict, value) of one claim by one recording, study or receipt; the value is in the metric's unit.

    "open" for a claim without a metric, "not_measurable_here" when this measurement does not have what it takes.
    """
    if claim.metric is None:
        return "open", None
    if claim.metric["measure"] == "cited.rows":
        low, high = cited_sum()
        inside = _inside(low, *claim.bounds) and _inside(high, *claim.bounds)
        return ("holds" if inside else "does_not_hold"), high
    value = measure(claim, measured)
    if value is None:
        return "not_measurable_here", None
    return ("holds" if _inside(value, *claim.bounds) else "does_not_hold"), value


def computed_verdict(claim: Claim, among: Iterable[Recording | Study] | None = None) -> str:
    """What the recordings that the row names say together: all one way, or "holds_when" where they differ, or where the metric
    covers only a part of what is claimed."""
    among = [_recorded(name) for name in claim.recordings] if among is None else among
    verdicts = {judge(claim, r)[0] for r in among} - {"not_measurable_here"}
    if not verdicts:
        return "not_measurable_here"
    if verdicts == {"holds"} and (claim.metric or {}).get("covers") == "part":
        return "holds_when"
    return verdicts.pop() if len(verdicts) == 1 else "holds_when"


def _recorded(name: str) -> Recording | Study:
    """The recording "h200-torch2.11", or the study "studies/launch/h200-torch2.11"."""
    folder, _, rest = name.partition("/")
    return studies.load(*rest.split("/")) if folder == studies.IN_FOLDER else recordings.load(name)


def measure(claim: Claim, measured: Measured) -> float | None:
    """The claim's metric in its unit, or None where this measurement cannot give it."""
    metric = claim.metric
    if metric is None or metric["measure"] == "cited.rows":
        return None
    thing = _thing(metric, measured)
    if thing is None:
        return None
    try:
        return quantities.evaluate(metric["measure"], thing).value * SCALE[metric["unit"]]
    except (quantities.NotMeasured, quantities.NoSuchQuantity):
        return None


def cited_sum() -> tuple[float, float]:
    """(lowest, highest) total in µs that the source's own stage table adds up to."""
    low = high = 0.0
    for claim_id in STAGE_ROWS:
        claim = find(claim_id)
        low += claim.around if claim.lo is None else claim.lo
        high += claim.around if claim.hi is None else claim.hi
    return low, high


def verdict_table(
    lesson: str,
    receipt: Receipt | None = None,
    *,
    receipt_grad: Receipt | None = None,
    recording: Recording | None = None,
    yours: Study | None = None,
    study: Study | None = None,
) -> list[dict[str, str]]:
    """One dict a claim of the lesson: id, claim, yours, recorded, cited, verdict, sentence; all of them text.

    `receipt` (and `receipt_grad` for the claims about grad) is what this reader measured, `yours` the parts of the lesson's
    study that this reader measured (`studies.live`); `recording` and `study` default to the best ones of a GPU. A claim whose
    metric names a device is shown of a recording of that device. Where a column has nothing to show it says so; put the label
    of what is shown beside the table.
    """
    recording = recording or recordings.best("cuda")
    rows = []
    for claim in claims(lesson):
        metric = claim.metric or {}
        mine = yours if "study" in metric else receipt_grad if metric.get("grad") else receipt
        theirs = _study_of(metric, study) if "study" in metric else recording
        rows.append(
            {
                "id": claim.id,
                "claim": claim.claim,
                "yours": shown(claim, mine),
                "recorded": shown(claim, theirs),
                "cited": cited(claim),
                "verdict": WORDS[claim.verdict],
                "sentence": claim.sentence,
            }
        )
    return rows


def _study_of(metric: Mapping[str, Any], study: Study | None) -> Study | None:
    """The recorded study that a claim is shown of: the given one where it is of the metric's device, else the best; a CPU's
    where the metric names no device and no GPU has been recorded."""
    device = metric.get("device", "cuda")
    if study is not None and study.device == device:
        return study
    return studies.best(metric["study"], device) or (None if "device" in metric else studies.best(metric["study"], "cpu"))


def recorded_studies(lesson: str) -> list[Study]:
    """The recorded studies that the table of this lesson's verdicts shows numbers of, each once."""
    shown = [_study_of(claim.metric, None) for claim in claims(lesson) if "study" in (claim.metric or {})]
    return list({one.label(): one for one in shown if one is not None}.values())


def cited(claim: Claim) -> str:
    """What the source says, as text: its figure, for a sum also what its own rows add up to, or "no figure"; and what a ratio in
    the columns beside it is of."""
    if claim.metric and claim.metric["measure"] == "cited.rows":
        low, high = cited_sum()
        return f"{claim.cited}; its rows give {low:,.3g}–{high:,.3g} µs"
    says = (claim.metric or {}).get("says")
    return (claim.cited or "no figure") + (f"; shown: {says}" if says else "")


def _claim(row: dict) -> Claim:
    return Claim(**{**row, "recordings": tuple(row["recordings"]), "torch": tuple(row["torch"])})


def _thing(metric: Mapping[str, Any], measured: Measured) -> Receipt | Race | dict | None:
    """The receipt, the other instrument's numbers, or the part of a study, that a metric speaks of."""
    if isinstance(measured, Study) or "study" in metric:
        return _part(metric, measured)
    if isinstance(measured, Receipt):
        return None if "extra" in metric else measured
    if "extra" in metric:
        extra = measured.extras.get(metric["extra"])
        return None if extra is None else _flat(extra)
    return measured.receipt(grad=bool(metric.get("grad")))


def _part(metric: Mapping[str, Any], measured: Measured) -> Race | dict | None:
    if not isinstance(measured, Study) or metric.get("study") != measured.name:
        return None
    if metric.get("device", measured.device) != measured.device:
        return None
    try:
        part = measured.part(metric["part"])
    except quantities.NotMeasured:
        return None
    return _flat(part) if isinstance(part, Mapping) else part


def _flat(nested: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """{"a": {"b": 1}} → {"a.b": 1}; a Race gives its readings by name."""
    out: dict[str, Any] = {}
    for key, value in nested.items():
        name = f"{before}{key}"
        value = value.readings if isinstance(value, Race) else value
        out.update(_flat(value, name + ".") if isinstance(value, Mapping) else {name: value})
    return out


def _inside(value: float, lo: float | None, hi: float | None) -> bool:
    return (lo is None or value >= lo * (1 - ROUNDING)) and (hi is None or value <= hi * (1 + ROUNDING))


def shown(claim: Claim, measured: Measured | None) -> str:
    """The claim's number by this measurement as text, with its unit; "no number" and "not measured" in words."""
    if claim.metric is None:
        return "no number"
    if claim.metric["measure"] == "cited.rows":
        return _sum_shown(measured)
    value = None if measured is None else measure(claim, measured)
    if value is None:
        return "not measured"
    return worded(claim, value)


def worded(claim: Claim, value: float) -> str:
    """A value of the claim's metric as text, in the claim's own unit: counts as such, shares in percent, ratios with ×."""
    if claim.unit in COUNTS:
        return f"{value:,.0f} {claim.unit}"
    unit = claim.metric["unit"]
    if unit == "ratio" and claim.unit == "percent":
        value, unit = 100 * value, claim.unit
    elif unit == "ratio" and claim.unit not in ("", "x"):  # a number in the claim's own unit, not a ratio of two
        unit = claim.unit
    rounded = float(f"{value:.3g}")  # in two steps: ":,.3g" alone writes 1060 as 1.06e+03
    return f"{rounded:,.12g} {UNITS.get(unit, unit)}"


def _sum_shown(measured: Measured | None) -> str:
    """Whether the measured stages add up, for the claim that the cited ones do."""
    receipt = measured.receipt() if isinstance(measured, Recording) else measured
    if receipt is None or not receipt.complete:
        return "not measured"
    return f"{receipt.stage_sum_ns * 1e-3:,.3g} of {receipt.total_ns * 1e-3:,.3g} µs"
