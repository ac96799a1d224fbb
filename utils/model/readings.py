"""The measured quantities that every other room passes around: Reading, Race, StagePrice, Receipt.

Data flows one way: `utils.measure` makes these, `utils.model` keeps and judges them, `utils.show` draws them. They hold
nanoseconds as plain floats, know nothing of torch, and survive a round trip through JSON (`to_dict` / `from_dict`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import stdev


def quantile(samples: list[float], q: float) -> float:
    """The q-quantile (0..1) of `samples` by linear interpolation, as numpy's default does.

    Raises ValueError when there are no samples: a price without a measurement must never look like 0.
    """
    if not samples:
        raise ValueError("no samples: nothing was measured")
    ordered = sorted(samples)
    place = q * (len(ordered) - 1)
    low = math.floor(place)
    high = math.ceil(place)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def ratio_error(a: Sequence[float], b: Sequence[float]) -> float:
    """The standard error of p25(b) / p25(a), from its values in eight interleaved parts of the blocks; 0 for a single block."""
    parts = min(8, len(a), len(b))
    if parts < 2:
        return 0.0
    ratios = [quantile(list(b[i::parts]), 0.25) / quantile(list(a[i::parts]), 0.25) for i in range(parts)]
    return stdev(ratios) / math.sqrt(parts)


@dataclass(frozen=True)
class Reading:
    """One measured price: the per-call nanoseconds of every block, in the order in which the blocks ran."""

    name: str
    samples: tuple[float, ...]
    calls_per_block: int = 1

    @property
    def ns(self) -> float:
        """The price: the lower quartile of the blocks (noise on a shared machine only ever adds)."""
        return quantile(list(self.samples), 0.25)

    @property
    def median(self) -> float:
        return quantile(list(self.samples), 0.5)

    @property
    def p75(self) -> float:
        return quantile(list(self.samples), 0.75)

    @property
    def band(self) -> tuple[float, float]:
        """(p25, p75) in ns."""
        return self.ns, self.p75

    def scaled(self, factor: float) -> Reading:
        """The same reading with every block multiplied: what planted faults and unit changes use."""
        return Reading(self.name, tuple(s * factor for s in self.samples), self.calls_per_block)

    def minus(self, ns: float) -> Reading:
        """The same reading with a fixed overhead (an empty loop, say) taken off every block."""
        return Reading(self.name, tuple(s - ns for s in self.samples), self.calls_per_block)

    def to_dict(self) -> dict:
        return {"name": self.name, "calls_per_block": self.calls_per_block, "samples_ns": [round(s, 2) for s in self.samples]}

    @classmethod
    def from_dict(cls, d: dict) -> Reading:
        return cls(d["name"], tuple(float(s) for s in d["samples_ns"]), int(d.get("calls_per_block", 1)))


@dataclass(frozen=True)
class Difference:
    """b − a in ns, and whether it is larger than the error that the A/A pair of the same loop showed."""

    a: str
    b: str
    ns: float
    error_ns: float

    @property
    def seen(self) -> bool:
        return abs(self.ns) > self.error_ns

    def __str__(self) -> str:
        if not self.seen:
            return f"no difference seen between {self.a} and {self.b}"
        return f"{self.b} costs {abs(self.ns):,.0f} ns {'more' if self.ns > 0 else 'less'} than {self.a}"


@dataclass(frozen=True)
class Race:
    """Several variants timed in one loop, in random order, with an A/A pair among them.

    `control` names the two readings that ran identical code: their disagreement is the error of this race.
    `clock` is "host" (what the CPU pays) or "device" (what the GPU takes). `loop_ns` is the price of the empty loop,
    already taken off when `loop_removed`; `timer_ns` is one reading of the clock.
    """

    readings: dict[str, Reading]
    control: tuple[str, str]
    clock: str = "host"
    device: str = "cpu"
    block_ms: float = 2.0
    timer_ns: float = 0.0
    loop_ns: float = 0.0
    loop_removed: bool = False
    throttled_blocks: int = 0
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Reading:
        return self.readings[name]

    @property
    def aa_error(self) -> float:
        """|ratio − 1| of the A/A pair: the relative error below which nothing is called a difference."""
        a, b = (self.readings[n].ns for n in self.control)
        return abs(b / a - 1.0)

    @property
    def noisy(self) -> bool:
        """True when the A/A pair disagrees by more than 5 %, or its blocks spread (p75/p25) by more than 30 %."""
        spread = max(self.readings[n].p75 / self.readings[n].ns for n in self.control)
        return self.aa_error > 0.05 or spread > 1.30

    @property
    def error(self) -> float:
        """The relative error below which no difference is claimed: the largest of the A/A disagreement, 3 standard errors
        of that ratio, and 0.5 %.

        One A/A pair can agree by luck: judged by `aa_error` alone, identical code was called different in 32 of 100 comparisons
        on a 2-core machine (57 with a neighbour loading one core), so judged in none (4).
        """
        a, b = (self.readings[n].samples for n in self.control)
        return max(self.aa_error, 3.0 * ratio_error(a, b), 0.005)

    def difference(self, a: str, b: str) -> Difference:
        """b − a, with `error` of the larger of the two as its error."""
        ra, rb = self.readings[a].ns, self.readings[b].ns
        return Difference(a, b, rb - ra, self.error * max(abs(ra), abs(rb)))

    def ratio(self, a: str, b: str) -> float:
        """b / a."""
        return self.readings[b].ns / self.readings[a].ns

    def to_dict(self) -> dict:
        return {
            "readings": {k: r.to_dict() for k, r in self.readings.items()},
            "control": list(self.control),
            "clock": self.clock,
            "device": self.device,
            "block_ms": self.block_ms,
            "timer_ns": self.timer_ns,
            "loop_ns": self.loop_ns,
            "loop_removed": self.loop_removed,
            "throttled_blocks": self.throttled_blocks,
            "notes": list(self.notes),
        }

    @classmethod
    def from_dict(cls, d: dict) -> Race:
        return cls(
            readings={k: Reading.from_dict(r) for k, r in d["readings"].items()},
            control=tuple(d["control"]),
            clock=d["clock"],
            device=d["device"],
            block_ms=d["block_ms"],
            timer_ns=d["timer_ns"],
            loop_ns=d["loop_ns"],
            loop_removed=d["loop_removed"],
            throttled_blocks=d["throttled_blocks"],
            notes=tuple(d["notes"]),
        )


@dataclass(frozen=True)
class StagePrice:
    """The price of one stage of the op: measured alone (`isolate`), and by difference of two rungs where both exist.

    `stage` is an id of `utils/data/stages.yml`. `isolate` is None where the piece could not be measured alone on this
    machine (no compiler); then `why_missing` says so in words. `difference_ns` is None where no two rungs bracket it.
    `alone_ns` is the same piece repeated in a tight loop of its own, where it has the CPU's front end to itself: mostly less
    than the isolate, which is taken with the other pieces of the op running between.
    """

    stage: str
    isolate: Reading | None
    difference_ns: float | None = None
    why_missing: str = ""
    alone_ns: float | None = None

    @property
    def ns(self) -> float | None:
        """What the receipt counts for this stage: the isolate (never the larger or the nicer of the two)."""
        return None if self.isolate is None else self.isolate.ns

    def to_dict(self) -> dict:
        return {
            "stage": self.stage,
            "isolate": None if self.isolate is None else self.isolate.to_dict(),
            "difference_ns": self.difference_ns,
            "why_missing": self.why_missing,
            "alone_ns": self.alone_ns,
        }

    @classmethod
    def from_dict(cls, d: dict) -> StagePrice:
        iso = d["isolate"]
        return cls(
            d["stage"],
            None if iso is None else Reading.from_dict(iso),
            d["difference_ns"],
            d.get("why_missing", ""),
            d.get("alone_ns"),
        )


@dataclass(frozen=True)
class LadderGroup:
    """One step of the ladder (rung `upper` minus rung `lower`) beside the sum of the isolates that should fill it.

    `parts` says what it counts of each of its `stages`, in ns: the whole price, or a part where steps share a stage.
    """

    name: str
    upper: str
    lower: str
    difference_ns: float
    isolates_ns: float
    stages: tuple[str, ...]
    parts: tuple[tuple[str, float], ...] = ()

    @property
    def allowed_ns(self) -> float:
        """max(60 ns, 25 % of the step)."""
        return max(60.0, 0.25 * abs(self.difference_ns))

    @property
    def agrees(self) -> bool:
        return abs(self.difference_ns - self.isolates_ns) <= self.allowed_ns

    def to_dict(self) -> dict:
        return {**self.__dict__, "stages": list(self.stages), "parts": [list(p) for p in self.parts]}

    @classmethod
    def from_dict(cls, d: dict) -> LadderGroup:
        parts = tuple((stage, float(ns)) for stage, ns in d.get("parts", ()))
        return cls(**{**d, "stages": tuple(d["stages"]), "parts": parts})


@dataclass(frozen=True)
class Receipt:
    """The whole price of one `c = a + b` on one machine, cut into stages, with what is left as its own row, *context*.

    All prices in ns a call. `end_to_end` has the empty Python loop already taken off (`loop` is that loop).
    `state` says in words in which state the op was priced. `arms` are the same op in other states ("view alive",
    "result dropped"). `ladder` are the entry points from Python down to the kernel; `ladder_groups` compares its steps
    with the isolates. `in_program` is the price after N other ops as (N, Reading); `first_call` a list of (name, ns).
    `device_time` (CUDA) holds kernel, gap and captured prices by name. `where` is the machine's fingerprint
    (`utils.measure.machine.fingerprint()`), `source` is "live" or "recorded", `date` is ISO (UTC).
    """

    device: str
    grad: bool
    source: str
    date: str
    where: dict
    state: tuple[str, ...]
    end_to_end: Reading
    loop: Reading
    stages: tuple[StagePrice, ...]
    control: tuple[Reading, Reading]
    ladder: tuple[Reading, ...] = ()
    ladder_groups: tuple[LadderGroup, ...] = ()
    arms: dict[str, Reading] = field(default_factory=dict)
    in_program: tuple[tuple[int, Reading], ...] = ()
    first_call: tuple[tuple[str, float], ...] = ()
    device_time: dict[str, Reading] = field(default_factory=dict)
    op: str = "a + b"
    notes: tuple[str, ...] = ()

    @property
    def aa_error(self) -> float:
        a, b = (r.ns for r in self.control)
        return abs(b / a - 1.0)

    @property
    def total_ns(self) -> float:
        return self.end_to_end.ns

    @property
    def stage_sum_ns(self) -> float:
        """Sum of the isolates that exist; stages that could not be measured count nothing and are named in the rows."""
        return sum(s.ns for s in self.stages if s.ns is not None)

    @property
    def coverage(self) -> float:
        """stage_sum / end_to_end."""
        return self.stage_sum_ns / self.total_ns

    @property
    def context_ns(self) -> float:
        """What no stage explains: cold front-end code, mostly. May be negative, and is printed as it is."""
        return self.total_ns - self.stage_sum_ns

    @property
    def complete(self) -> bool:
        return bool(self.stages) and all(s.isolate is not None for s in self.stages)

    def stage(self, stage_id: str) -> StagePrice:
        for s in self.stages:
            if s.stage == stage_id:
                return s
        raise KeyError(f"no stage {stage_id!r} in this receipt; it has {[s.stage for s in self.stages]}")

    def without(self, stage_id: str) -> Receipt:
        """The receipt with one stage left out (for bars that must go red)."""
        return self._with(stages=tuple(s for s in self.stages if s.stage != stage_id))

    def scaled_stage(self, stage_id: str, factor: float) -> Receipt:
        """The receipt with one stage's price multiplied (for bars that must go red)."""
        out = tuple(
            StagePrice(s.stage, s.isolate.scaled(factor), s.difference_ns) if s.stage == stage_id and s.isolate else s
            for s in self.stages
        )
        return self._with(stages=out)

    def _with(self, **changes) -> Receipt:
        from dataclasses import replace

        return replace(self, **changes)

    def to_dict(self) -> dict:
        return {
            "op": self.op,
            "device": self.device,
            "grad": self.grad,
            "source": self.source,
            "date": self.date,
            "where": dict(self.where),
            "state": list(self.state),
            "end_to_end": self.end_to_end.to_dict(),
            "loop": self.loop.to_dict(),
            "stages": [s.to_dict() for s in self.stages],
            "control": [r.to_dict() for r in self.control],
            "ladder": [r.to_dict() for r in self.ladder],
            "ladder_groups": [g.to_dict() for g in self.ladder_groups],
            "arms": {k: r.to_dict() for k, r in self.arms.items()},
            "in_program": [[n, r.to_dict()] for n, r in self.in_program],
            "first_call": [[n, ns] for n, ns in self.first_call],
            "device_time": {k: r.to_dict() for k, r in self.device_time.items()},
            "notes": list(self.notes),
        }

    @classmethod
    def from_dict(cls, d: dict) -> Receipt:
        return cls(
            op=d["op"],
            device=d["device"],
            grad=d["grad"],
            source=d["source"],
            date=d["date"],
            where=dict(d["where"]),
            state=tuple(d["state"]),
            end_to_end=Reading.from_dict(d["end_to_end"]),
            loop=Reading.from_dict(d["loop"]),
            stages=tuple(StagePrice.from_dict(s) for s in d["stages"]),
            control=tuple(Reading.from_dict(r) for r in d["control"]),
            ladder=tuple(Reading.from_dict(r) for r in d["ladder"]),
            ladder_groups=tuple(LadderGroup.from_dict(g) for g in d["ladder_groups"]),
            arms={k: Reading.from_dict(r) for k, r in d["arms"].items()},
            in_program=tuple((int(n), Reading.from_dict(r)) for n, r in d["in_program"]),
            first_call=tuple((n, float(ns)) for n, ns in d["first_call"]),
            device_time={k: Reading.from_dict(r) for k, r in d["device_time"].items()},
            notes=tuple(d["notes"]),
        )
