"""Expected ranges: is what was measured what a sound run would measure? `expect(metric_id, thing)` says so or raises.

The ranges are `utils/data/expected_ranges.yml`: per metric and device class, each with its reason. Most are ratios (to an
empty Python call of the same run, to another stage, to the end-to-end price), so that they hold on a slower or faster
machine. A judged band is widened by the noise that the run itself shows, so that a loaded machine does not fail a sound
run. On a device class that has no ranges only the structure is judged: what must be true of any measurement at all.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from utils.model import quantities, schemas
from utils.model.readings import Race, Reading, Receipt, ratio_error

SCALE = {"ns": 1.0, "us": 1e-3, "ratio": 1.0}
SHOWN = {"ns": " ns", "us": " µs", "ratio": ""}
LEAST_WIDENING = 0.01
MOST_WIDENING = 0.50
SHARED_SLACK = 0.15  # parts of a stage that are timed in loops of their own add up to it only so well
ALONE_SLACK = 0.30  # on a machine without a cold front end the two are equal, and each has its noise
LAP_ERROR = 0.02  # of the whole: 32 ns of 1,586 on an Intel host, where each reading of the clock adds 15 ns to a lap
# Share of the whole by which a step between rungs was off on an Intel host (torch 2.11): 300 of 7,800 ns, 26 of 1,800 on CPU.
RUNG_NOISE = {"cuda": 0.04, "cpu": 0.02}
BLOCK_NS = (2e4, 2e9)  # a block of many calls that takes less than 20 µs or more than 2 s: the samples are not in ns per call
MANY_CALLS = 100  # blocks of fewer calls are short on purpose (the price after other ops is taken a few calls at a time)


class ExpectationError(AssertionError):
    """A measurement is not what a sound run gives. The message: what was measured, the range, the likely causes."""


@dataclass(frozen=True)
class Judgement:
    """What `judge` found. `lo` and `hi` are the written range, `widening` the relative amount by which it was stretched.

    `value` is None where nothing was compared with a range: `note` says why (no range for this class, not measured here).
    """

    metric: str
    what: str
    device_class: str
    problems: tuple[str, ...] = ()
    value: float | None = None
    unit: str = "ratio"
    lo: float | None = None
    hi: float | None = None
    widening: float = 0.0
    why: str = ""
    note: str = ""

    @property
    def holds(self) -> bool:
        return not self.problems

    @property
    def ends(self) -> tuple[float | None, float | None]:
        """The range as it was judged: `lo` and `hi`, moved outwards by `widening`."""
        return (
            None if self.lo is None else self.lo * (1 - self.widening),
            None if self.hi is None else self.hi / (1 - self.widening),
        )


def expect(
    metric_id: str, thing: Receipt | Race | Mapping[str, Any], *, live: bool = False, device_class: str | None = None
) -> None:
    """Print `✔ <metric_id>: holds` when the metric is what a sound run gives, else raise ExpectationError.

    The line is the same on every device, whatever the number, the range or the noise. `thing` is what the metric takes: a
    Receipt, a Race, or a mapping of names to numbers (ns) or Readings with a "device". `live=True` refuses a recording:
    for cells that claim to have measured on this machine. `device_class` overrides the class that the fingerprint gives.

    Raises ValueError for a metric that does not exist.
    """
    found = judge(metric_id, thing, live=live, device_class=device_class)
    if not found.holds:
        raise ExpectationError(_message(found, _metric(metric_id)))
    print(f"✔ {metric_id}: holds")


def judge(metric_id: str, thing: Any, *, live: bool = False, device_class: str | None = None) -> Judgement:
    """The same judgement as a value, for tables: never prints, raises only ValueError for an unknown metric."""
    metric = _metric(metric_id)
    family = family_of(thing)
    klass = device_class or class_of(thing)
    base = {"metric": metric_id, "what": metric["what"], "device_class": klass}
    problems = _wrong_thing(metric, thing, family) or [*structure(thing), *_not_live(thing, live)]
    if problems:
        return Judgement(**base, problems=tuple(problems))
    for check in metric.get("checks", ()):
        problems += CHECKS[check](thing, metric)
    row = _range_for(metric, thing, klass, family)
    if "measure" not in metric or row is None:
        note = "" if "measure" not in metric else f"no range for {klass}: only the structure was judged"
        return Judgement(**base, problems=tuple(problems), note=note)
    try:
        found = quantities.evaluate(row.get("measure", metric["measure"]), thing)
    except quantities.NotMeasured as reason:
        return Judgement(**base, problems=tuple(problems), note=f"not measured here: {reason}")
    except quantities.NoSuchQuantity as reason:
        return Judgement(**base, problems=(*problems, str(reason)))
    unit = row.get("unit", metric["unit"])
    value = found.value * SCALE[unit]
    own = float(thing.get(metric["scatter"], 0.0)) if "scatter" in metric else 0.0
    widening = min(MOST_WIDENING, max(LEAST_WIDENING, own, error_of(thing) + found.noise))
    lo, hi, note = row.get("lo"), row.get("hi"), ""
    if isinstance(thing, Receipt) and not thing.complete and "stages.sum" in quantities.names(metric["measure"]):
        lo, note = None, "some stages could not be measured here: their sum is judged from above only"
    if not _inside(value, lo, hi, widening):
        problems.append(f"measured {_show(value, unit)}, expected {_range_text(lo, hi, unit)}")
    return Judgement(
        **base, problems=tuple(problems), value=value, unit=unit, lo=lo, hi=hi, widening=widening, why=row["why"], note=note
    )


def metrics(lesson: str | None = None) -> list[dict]:
    """The metrics of `expected_ranges.yml` in their order, all or one lesson's."""
    return [m for m in schemas.load("ranges")["metrics"] if lesson in (None, m["lesson"])]


def class_of(thing: Any) -> str:
    """The device class whose ranges apply: from the fingerprint of a receipt or mapping, else the family ("cpu", "cuda")."""
    from utils.measure.machine import device_class  # imports no torch; here, so that ranges can be read without it

    where = thing.where if isinstance(thing, Receipt) else thing.get("where") if isinstance(thing, Mapping) else None
    family = family_of(thing)
    return device_class(where, family) if where and family != "simulated" else family


def family_of(thing: Any) -> str:
    """ "cpu", "cuda" or "simulated": the side of the machine that was measured."""
    device = thing.get("device", "cpu") if isinstance(thing, Mapping) else getattr(thing, "device", "cpu")
    return str(device).split(":")[0]


def error_of(thing: Any) -> float:
    """The relative error that a measurement claims for itself (its A/A pair), 0 for a plain mapping without one.

    Of the pair both what it disagrees by and three standard errors of that: one pair can agree by luck.
    """
    if isinstance(thing, Race):
        return thing.error
    if isinstance(thing, Receipt):
        return max(thing.aa_error, 3.0 * ratio_error(*(r.samples for r in thing.control)))
    return float(thing.get("aa_error", 0.0))


# ---- what must be true of any measurement ---------------------------------------------------------------------------


def structure(thing: Any) -> list[str]:
    """What is wrong with the shape of a measurement on whatever device, in words; empty when nothing is."""
    if isinstance(thing, Receipt):
        return _receipt_structure(thing)
    if isinstance(thing, Race):
        return _race_structure(thing)
    return [p for name, value in thing.items() if isinstance(value, Reading) for p in _reading_structure(name, value)]


def _reading_structure(name: str, reading: Reading, *, own_block: bool = True, fine_clock: bool = True) -> list[str]:
    """What is wrong with a reading by itself.

    A piece timed in its place has no block of its own (`own_block`): its calls are those of the whole. A GPU's events tick so
    coarsely that all blocks may read the same (`fine_clock`).
    """
    samples = reading.samples
    if not samples:
        return [f"{name}: no samples, so nothing was measured"]
    if not all(math.isfinite(s) for s in samples):
        return [f"{name}: a sample is not a number"]
    out = []
    if fine_clock and len(samples) >= 8 and len(set(samples)) == 1:
        out.append(f"{name}: all {len(samples)} blocks took exactly {samples[0]:g} ns: the result was kept, or no clock was read")
    block = reading.median * reading.calls_per_block
    if own_block and reading.calls_per_block > MANY_CALLS and not BLOCK_NS[0] <= block <= BLOCK_NS[1]:
        out.append(
            f"{name}: {reading.calls_per_block} calls of {reading.median:g} ns make a block of {block * 1e-6:g} ms: wrong unit?"
        )
    return out


def _race_structure(race: Race) -> list[str]:
    out = [p for name, reading in race.readings.items() for p in _reading_structure(name, reading)]
    missing = [n for n in race.control if n not in race.readings]
    if missing or race.control[0] == race.control[1]:
        return [*out, f"the race has no A/A pair: control is {race.control}"]
    a, b = (race.readings[n].samples for n in race.control)
    if a == b and len(a) > 1:
        out.append("both arms of the A/A pair have the same samples: one was copied, not measured")
    return out + [f"{n}: a price of {r.ns:g} ns is not above zero" for n, r in race.readings.items() if r.samples and r.ns <= 0]


def _receipt_structure(receipt: Receipt) -> list[str]:
    whole = [receipt.end_to_end, receipt.loop, *receipt.control, *receipt.ladder]
    whole += [*receipt.arms.values(), *(r for _, r in receipt.in_program)]
    on_device = [*receipt.device_time.values()]
    isolates = [s.isolate for s in receipt.stages if s.isolate is not None]
    out = [p for reading in whole for p in _reading_structure(reading.name, reading)]
    out += [p for reading in isolates for p in _reading_structure(reading.name, reading, own_block=False)]
    out += [p for reading in on_device for p in _reading_structure(reading.name, reading, fine_clock=False)]
    if out:
        return out
    out += [f"{r.name}: a price of {r.ns:g} ns is not above zero" for r in whole if r.ns <= 0]
    if receipt.control[0].samples == receipt.control[1].samples:
        out.append("both arms of the A/A pair have the same samples: one was copied, not measured")
    if receipt.device == "cuda" and not receipt.where.get("gpu"):
        out.append("a CUDA receipt whose fingerprint names no GPU: wrong device's recording?")
    return out + _partition_problems(receipt) + _group_problems(receipt) + _recording_problems(receipt)


def _partition_problems(receipt: Receipt) -> list[str]:
    """The stages must be exactly those of stages.yml: one left out, one twice or one unknown is no partition."""
    wanted = [s["id"] for s in schemas.load("stages")["stages"] if receipt.grad or s["id"] != "autograd_node"]
    have = [s.stage for s in receipt.stages]
    out = [f"stage {s} is missing from the receipt" for s in wanted if s not in have]
    out += [f"stage {s} is no stage of this op" for s in have if s not in wanted]
    out += [f"stage {s} is counted twice" for s in sorted({s for s in have if have.count(s) > 1})]
    out += [f"stage {s.stage} has no price and no reason" for s in receipt.stages if s.isolate is None and not s.why_missing]
    return out


def _group_problems(receipt: Receipt) -> list[str]:
    """What the ladder's groups counted of each stage must be its price: else one of the two was changed later.

    A stage that steps share (the boundary: its slot and its entry glue) is given by its parts together, as far as parts that
    were timed in loops of their own add up.
    """
    out, parts = [], {}
    for group in receipt.ladder_groups:
        total = sum(ns for _, ns in group.parts)
        if group.parts and not _same(total, group.isolates_ns):
            out.append(f"the group {group.name!r} stores {group.isolates_ns:,.0f} ns, but its parts add up to {total:,.0f} ns")
        within = any(set(group.parts) < set(other.parts) for other in receipt.ladder_groups)
        for stage, ns in () if within else group.parts:  # a group within another counts the same parts again
            parts.setdefault(stage, []).append(ns)
    for stage, counted in parts.items():
        price = next((s.ns for s in receipt.stages if s.stage == stage), None)
        if price is None or any(_same(part, price) for part in counted):
            continue
        if abs(sum(counted) - price) > 10.0 + SHARED_SLACK * abs(price) or len(counted) == 1:
            out.append(f"the groups count {sum(counted):,.0f} ns of {stage}, but its price is {price:,.0f} ns")
    return out


def _same(a: float, b: float) -> bool:
    """Equal but for the rounding of a recording (four significant digits of each number)."""
    return abs(a - b) <= 1.0 + 0.001 * max(abs(a), abs(b))


def _recording_problems(receipt: Receipt) -> list[str]:
    """A receipt that calls itself recorded must be one of the committed recordings, unchanged."""
    if receipt.source != "recorded":
        return []
    from utils.model import recordings

    return (
        []
        if recordings.is_committed(receipt)
        else ["this recorded receipt is not (or no longer) what the committed recording holds"]
    )


def _not_live(thing: Any, live: bool) -> list[str]:
    if live and isinstance(thing, Receipt) and thing.source != "live":
        return [
            f"a recording ({thing.where.get('gpu') or thing.where.get('cpu')}, {thing.date[:10]}) was given as a live measurement"
        ]
    return []


# ---- checks that are more than one number ----------------------------------------------------------------------------


def _ladder(receipt: Receipt, metric: dict) -> list[str]:
    """Every step of the ladder agrees with the isolates that should fill it, within max(60 ns, 25 %) and the run's noise.

    A step is the difference of two whole loops, so the noise is that of the whole: the A/A error, and at least RUNG_NOISE. To it
    comes what disturbed blocks moved the quartile of the two rungs and of the stages: on a host that most blocks met in its
    slower state, some quartiles lie in the one state and some in the other, and a step was seen 300 ns off.
    The narrow bar is `benchmarks/stage_sum.py`'s; here a sound run must pass on any machine and a wrong one must not.
    """
    out = []
    noise = max(receipt.aa_error, RUNG_NOISE.get(receipt.device, 0.0)) * receipt.total_ns
    rungs = {rung.name: rung for rung in receipt.ladder}
    isolates = {stage.stage: stage.isolate for stage in receipt.stages if stage.isolate is not None}
    for group in receipt.ladder_groups:
        of_it = [rungs.get(group.upper), rungs.get(group.lower), *map(isolates.get, group.stages)]
        moved = sum(quantities.noise_of(reading) * abs(reading.ns) for reading in of_it if reading is not None)
        allowed = group.allowed_ns + noise + moved
        if abs(group.difference_ns - group.isolates_ns) > allowed:
            out.append(
                f"{group.name}: the step {group.upper} − {group.lower} is {group.difference_ns:,.0f} ns, its stages measured "
                f"in place {group.isolates_ns:,.0f} ns; allowed difference {allowed:,.0f} ns"
            )
    if receipt.complete and not receipt.ladder_groups:
        out.append("every stage was measured, but no step of the ladder was compared with them")
    return out


def _aa(race: Race, metric: dict) -> list[str]:
    """The A/A pair ran interleaved: as many blocks in both arms, and enough of them for a quartile."""
    a, b = (race.readings[n].samples for n in race.control)
    if len(a) != len(b):
        return [f"the A/A pair has {len(a)} and {len(b)} blocks: it did not run in one loop"]
    return [] if len(a) >= 10 else [f"{len(a)} blocks are too few for a lower quartile"]


def _first_call(receipt: Receipt, metric: dict) -> list[str]:
    """Every rung of the first-call ladder took time."""
    return [f"first call, {name}: {ns:g} ns is not above zero" for name, ns in receipt.first_call if not ns > 0]


def _in_place(receipt: Receipt, metric: dict) -> list[str]:
    """A piece costs at least about as much in its place, among cold neighbours, as in a tight loop that has the CPU to itself."""
    stage = receipt.stage(metric["id"].removeprefix("stages."))
    if stage.ns is None or stage.alone_ns is None:
        return []
    least = (1 - ALONE_SLACK) * stage.alone_ns - LAP_ERROR * receipt.total_ns
    if stage.ns >= least:
        return []
    return [f"{stage.stage} costs {stage.ns:,.0f} ns in its place, but {stage.alone_ns:,.0f} ns alone: one of the two is wrong"]


CHECKS = {"dearer_in_place": _in_place, "ladder_agrees": _ladder, "interleaved_pair": _aa, "first_calls_take_time": _first_call}


# ---- ranges ------------------------------------------------------------------------------------------------------------


def _metric(metric_id: str) -> dict:
    rows = {m["id"]: m for m in metrics()}
    if metric_id not in rows:
        near = difflib.get_close_matches(metric_id, rows, n=3)
        raise ValueError(f"there is no metric {metric_id!r}" + (f"; did you mean {', '.join(near)}?" if near else ""))
    return rows[metric_id]


def _wrong_thing(metric: dict, thing: Any, family: str) -> list[str]:
    kind = "receipt" if isinstance(thing, Receipt) else "race" if isinstance(thing, Race) else "mapping"
    if kind == "mapping" and not isinstance(thing, Mapping):
        raise TypeError(f"{metric['id']} takes a {' or '.join(metric['takes'])}, not a {type(thing).__name__}")
    if kind not in metric["takes"]:
        return [f"this metric takes a {' or '.join(metric['takes'])}, not a {kind}"]
    devices = metric.get("devices", ("cpu", "cuda"))
    if family not in devices:
        return [f"this metric is about {' or '.join(devices)}; what was given was measured on {family}"]
    if "grad" in metric and isinstance(thing, Receipt) and thing.grad != metric["grad"]:
        return [f"this metric needs a receipt {'with' if metric['grad'] else 'without'} grad"]
    return []


def _range_for(metric: dict, thing: Any, klass: str, family: str) -> dict | None:
    """The first row for this class, else for its family (when the class is known), else for any device."""
    version = torch_minor(thing.where["torch"]) if isinstance(thing, Receipt) and thing.where.get("torch") else None
    grad = getattr(thing, "grad", None)
    order = [klass, "any"] if klass == "unknown" else [klass, family, "any"]
    for wanted in order:
        for row in metric["ranges"]:
            if row["class"] == wanted and row.get("grad", grad) == grad and _version_fits(row.get("torch"), version):
                return row
    return None


def torch_minor(version: str) -> tuple[int, int]:
    """ "2.13.0+cpu" → (2, 13). Raises ValueError when it is no version."""
    found = re.match(r"(\d+)\.(\d+)", version)
    if not found:
        raise ValueError(f"{version!r} is not a torch version")
    return int(found[1]), int(found[2])


def _version_fits(condition: str | None, version: tuple[int, int] | None) -> bool:
    """ ">=2.10 <2.14" against (2, 13). A measurement without a version fits no condition."""
    if condition is None:
        return True
    if version is None:
        return False
    for part in condition.split():
        at_least, bound = part.startswith(">="), torch_minor(part.lstrip(">=<"))
        if (version >= bound) != at_least:
            return False
    return True


def _inside(value: float, lo: float | None, hi: float | None, widening: float) -> bool:
    """Is the value within the ends, moved outwards? A price disturbed by the share w of itself is up to 1 / (1 − w) times the
    true one: so the upper end is divided by 1 − w and the lower multiplied, and a lower end of 0 stays 0."""
    return (lo is None or value >= lo * (1 - widening)) and (hi is None or value <= hi / (1 - widening))


def _show(value: float, unit: str) -> str:
    return f"{value:.3g}{SHOWN[unit]}" if abs(value) < 1000 else f"{value:,.0f}{SHOWN[unit]}"


def _range_text(lo: float | None, hi: float | None, unit: str) -> str:
    if lo is None:
        return f"at most {_show(hi, unit)}"
    if hi is None:
        return f"at least {_show(lo, unit)}"
    return f"{_show(lo, unit)} to {_show(hi, unit)}"


def _message(found: Judgement, metric: dict) -> str:
    lines = [f"✘ {found.metric} ({found.what}) on {found.device_class}:"]
    lines += [f"  {problem}" for problem in found.problems]
    if found.value is not None:
        lines.append(f"  (widened by {found.widening:.1%}, the noise of this run; the range: {found.why})")
    lines += ["  Likely causes:", *(f"  - {cause}" for cause in metric["causes"])]
    return "\n".join(lines)
