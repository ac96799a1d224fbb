"""A diagnosis of a program from its trace: what takes its step, why, and the cure that fits. No torch, no clock.

Each diagnosis of `utils/data/diagnoses.yml` has a rule: the share of the step that it explains, and the reason in words, or
nothing. The largest share is the diagnosis, others that explain enough are named beside it. Where nothing explains a third of
the step the answer is "none of these", with what was seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

from utils.model import schemas
from utils.model.limits import in_lockstep
from utils.model.trace_features import Features, features

NONE = "none_of_these"
ENOUGH = 0.3  # of the step: a diagnosis that explains less is none
BESIDE = 0.2  # of the step: what is worth naming beside it
IDLE = 0.2  # as in `limits`: a device that stands still for less than that is called busy
WAITS = 0.1  # of the step that the host waits, from which read-outs set its pace
FEW_ROWS = 8  # a product of so few rows is bound by its weights on every machine of the course
WEIGHTS = 1 << 18  # bytes of them, from which reading them is what a product waits for
MANY_OPS = 20  # in a step: fewer are not "many small ops"
TINY_KERNEL_NS = 5_000  # a launch takes about as long


@dataclass(frozen=True)
class Entry:
    """What the answer key says of one diagnosis."""

    id: str
    name: str
    looks: str
    misleading: str
    reason: str
    cure: str
    confirm: str
    on_a_cpu: str
    lessons: tuple[str, ...]
    healthy: bool = False


@dataclass(frozen=True)
class Finding:
    """A diagnosis that the trace supports: the share of the step that it explains (0 to 1), and why, in this trace's numbers."""

    id: str
    share: float
    reason: str


@dataclass(frozen=True)
class Diagnosis:
    """The finding that explains most (None: nothing on the list explains enough), those beside it, and what was seen."""

    finding: Finding | None
    also: tuple[Finding, ...]
    features: Features
    saw: str

    @property
    def id(self) -> str:
        return self.finding.id if self.finding else NONE

    @property
    def entry(self) -> Entry:
        return key()[self.id]

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def reason(self) -> str:
        """Why, in words: what this trace shows, and what the key says of the mechanism."""
        seen = self.finding.reason if self.finding else f"Nothing on the list explains {ENOUGH:.0%} of the step. {self.saw}"
        return f"{seen} {self.entry.reason}"

    @property
    def cure(self) -> str:
        return self.entry.cure

    @property
    def confirm(self) -> str:
        return self.entry.confirm

    def to_dict(self) -> dict:
        """As plain JSON."""
        rows = [{"id": f.id, "share": f.share, "reason": f.reason} for f in self.also]
        return {
            "diagnosis": self.id,
            "name": self.name,
            "share": self.finding.share if self.finding else 0.0,
            "reason": self.reason,
            "cure": self.cure,
            "confirm": self.confirm,
            "also": rows,
            "saw": self.saw,
            "features": self.features.to_dict(),
        }


@cache
def key() -> dict[str, Entry]:
    """The answer key: id → entry, in the file's order."""
    rows = schemas.load("diagnoses")["diagnoses"]
    return {row["id"]: Entry(**{**row, "lessons": tuple(row["lessons"])}) for row in rows}


def diagnose(trace: Iterable[dict] | Features) -> Diagnosis:
    """The diagnosis of a trace (its events, or its features). Raises ValueError without an event."""
    seen = trace if isinstance(trace, Features) else features(trace)
    order = list(key())
    found = [Finding(name, min(1.0, share), reason) for name, rule in RULES.items() for share, reason in rule(seen)]
    found.sort(key=lambda f: (-round(f.share, 2), order.index(f.id)))
    first = found[0] if found and found[0].share >= ENOUGH else None
    also = tuple(f for f in found if f is not first and f.share >= BESIDE)
    return Diagnosis(first, also, seen, saw(seen))


def saw(f: Features) -> str:
    """What the trace shows, in a sentence or two, without a judgement."""
    each = "a step" if f.marked else "in the whole trace (no step is marked)"
    parts = [f"{_n(f.ops)} ops {each}" if f.ops else f"No op {each}"]
    parts.append(f"{f.step_ns * 1e-6:.3g} ms long")
    if f.device == "cuda":
        parts.append(f"{_n(f.kernels)} kernels of {f.kernel_ns * 1e-3:.3g} µs on average, the device busy for {f.busy:.0%}")
    else:
        parts.append(f"ops for {f.busy:.0%} of it")
    if f.top_op:
        parts.append(f"most of it in {f.top_op[:60]} ({f.top_share:.0%})")
    if f.outside >= BESIDE:
        parts.append(f"nothing named on the host for {f.outside:.0%}")
    return ", ".join(parts) + "."


# ------------------------------------------------------------------------------------------------ rules

Rule = Callable[[Features], Iterable[tuple[float, str]]]


def _in_the_way(f: Features, share: float) -> float:
    """A stretch of the host stands in the way of a GPU only as far as the GPU stands still."""
    return share if f.device == "cpu" else min(share, f.idle)


def _recompiles(f: Features):
    if f.compiles and not (f.same_shapes is True and f.steps > 1):
        yield (
            _in_the_way(f, f.compile),
            f"{_take(f.compiles, 'compilation')} {f.compile:.0%} of it, and the shapes are not always the same.",
        )


def _recaptures(f: Features):
    if f.compiles and f.same_shapes is True and f.steps > 1:
        yield (
            _in_the_way(f, f.compile),
            f"{_take(f.compiles, 'compilation')} {f.compile:.0%} of it, with the same shapes in every step.",
        )
    elif f.captures and f.device == "cuda":
        # Before a capture begins torch waits for the device, collects garbage and gives memory back: that is its price as well.
        before = f.malloc + f.wait + f.long_gaps if f.captures >= 0.5 else 0.0
        yield (
            _in_the_way(f, min(1.0, f.capture + before)),
            f"{_take(f.captures, 'capture')} {f.capture:.0%} of it, with what goes before {f.capture + before:.0%}.",
        )
    elif f.captures:
        yield f.capture, f"{_take(f.captures, 'recording', ', op by op in Python,')} {f.capture:.0%} of it."


def _waits_for_data(f: Features):
    if f.loader:
        yield _in_the_way(f, f.loader), f"The loader's __next__ takes {f.loader:.0%} of the step."


def _crosses_the_bus(f: Features):
    if f.bus_copies:
        # The host waits in a pageable copy for longer than the copy runs: with large copies these waits are the copies'.
        large = f.bus_bytes / f.bus_copies >= 1 << 16
        share = max(f.bus, min(f.wait, f.idle) if large else 0.0)
        yield (
            share,
            f"{_n(f.bus_copies)} copies of {f.bus_bytes / f.bus_copies / 1e6:.2g} MB each between host and device in a step; "
            f"they run for {f.bus:.0%} of it, and the host waits for {f.wait:.0%}.",
        )


def _reads(f: Features) -> float:
    """Waits of a GPU's host that the program asks for, a step; each capture waits once before it begins."""
    return f.read_outs or sum(f.waits.values()) - f.captures


def _reads_out(f: Features):
    if f.device == "cuda":
        small = not f.bus_copies or f.bus_bytes / f.bus_copies < 1 << 16
        sets_the_pace = (_reads(f) > 0.1 and f.wait >= WAITS) or in_lockstep(_reads(f), f.kernels)
        if sets_the_pace and f.idle >= IDLE and small:
            # While the host waits the device ends its work: what is lost is the standing still that nothing else explains.
            lost = max(0.0, f.idle - max(f.long_gaps, f.loader, f.compile, f.capture, f.malloc))
            yield (
                lost,
                f"The host waits {_some(sum(f.waits.values()), 'time')} a step, for {f.wait:.0%} of it, and the device stands "
                f"still for {f.idle:.0%}.",
            )
    elif f.read_outs >= 4:
        around = f.small * min(1.0, f.read_outs / max(1.0, f.ops))
        reason = (
            f"{_some(f.read_outs, 'value')} read out a step; with the calls around them that is {max(f.read_out, around):.0%}."
        )
        yield max(f.read_out, around), reason


def _allocates_anew(f: Features):
    if f.mallocs:
        yield (
            max(f.malloc, min(f.malloc * 2, f.idle)),
            f"{_take(f.mallocs, 'call', ' to get memory from the driver or give it back')} {f.malloc:.0%} of it.",
        )
    if f.big["fill"]:
        yield f.big["fill"], f"Filling large new tensors takes {f.big['fill']:.0%} of the step."


def _needless_copies(f: Features):
    if f.big["copy"] and f.bus < f.big["copy"] / 2:
        yield f.big["copy"], f"Copies of large tensors take {f.big['copy']:.0%} of the step."


def _wide_dtype(f: Features):
    if f.wide:
        yield f.wide, f"{f.wide:.0%} of the step computes in {f.dtype or 'a wide dtype'}."


def _small_batch(f: Features):
    if f.big["product"] and f.rows is not None and f.rows <= FEW_ROWS and (f.weight_bytes or 0) >= WEIGHTS:
        yield (
            f.big["product"],
            f"Products of {_some(f.rows, 'row')} with {f.weight_bytes / 1e6:.3g} MB of weights each "
            f"take {f.big['product']:.0%} of the step.",
        )


def _bandwidth_bound(f: Features):
    if f.big["elementwise"]:
        replayed = f", replayed by {_some(f.replays, 'call')} a step" if f.replays else ""
        yield (
            f.big["elementwise"],
            f"Elementwise ops and reductions on large tensors take {f.big['elementwise']:.0%} of the step{replayed}.",
        )


def _outside_torch(f: Features):
    share = _in_the_way(f, f.long_gaps)
    if share:
        yield (
            share,
            f"For {f.outside:.0%} of the step the trace names nothing on the host; the longest gap is "
            f"{f.longest_gap_ns * 1e-6:.3g} ms.",
        )


def _launch_bound(f: Features):
    if f.device == "cuda":
        if f.kernels >= MANY_OPS and f.kernel_ns < TINY_KERNEL_NS * 4 and not f.replays:
            tiny = f.busy if f.kernel_ns < TINY_KERNEL_NS and not in_lockstep(_reads(f), f.kernels) else 0.0
            rest = max(0.0, f.idle - max(f.long_gaps, f.loader, f.compile, f.wait))
            words = f"{_n(f.kernels)} kernels a step, {f.kernel_ns * 1e-3:.2g} µs each; the device stands still for {f.idle:.0%}."
            yield min(1.0, rest + tiny), words
    elif f.ops >= MANY_OPS:
        yield (
            f.small,
            f"{_n(f.ops)} ops a step, half of them shorter than {f.median_op_ns * 1e-3:.2g} µs, are {f.small:.0%} of it.",
        )


def _compute_bound(f: Features):
    # A product that is too wide or has too few rows is busy as well; what is wrong with it is the diagnosis then.
    wrong = any(share >= ENOUGH for rule in (_wide_dtype, _small_batch) for share, _ in rule(f))
    if f.big["product"] and not wrong:
        yield f.big["product"], f"Large products take {f.big['product']:.0%} of the step."


RULES: dict[str, Rule] = {
    "recompiles": _recompiles,
    "recaptures": _recaptures,
    "waits_for_data": _waits_for_data,
    "crosses_the_bus": _crosses_the_bus,
    "reads_out": _reads_out,
    "allocates_anew": _allocates_anew,
    "needless_copies": _needless_copies,
    "wide_dtype": _wide_dtype,
    "small_batch": _small_batch,
    "bandwidth_bound": _bandwidth_bound,
    "outside_torch": _outside_torch,
    "launch_bound": _launch_bound,
    "compute_bound": _compute_bound,
}


def _some(count: float, word: str) -> str:
    """A count with its noun, in the plural where it is not one."""
    return f"{_n(count)} {word}" if abs(count - 1) < 0.05 else f"{_n(count)} {word}s"


def _take(count: float, word: str, more: str = "") -> str:
    """The beginning of a sentence: "1 capture a step takes", "6 calls a step take"."""
    some = _some(count, word)
    return f"{some} a step{more} {'take' if some.endswith('s') else 'takes'}"


def _n(count: float) -> str:
    """A count a step: whole where it is, else with one decimal."""
    return f"{count:,.0f}" if abs(count - round(count)) < 0.05 else f"{count:,.1f}"
