"""The null experiment: the same step at more and more samples a batch; whether its time follows the work or the number of ops.

A step is timed on the wall clock until its device is done. What the host alone pays for issuing it, and what the device alone
takes for its kernels, stand beside it on a GPU; on a CPU, where both are one thread, the same code on next to no data does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from math import log2

from utils.measure import profiled
from utils.measure.device_clock import MeasurementError
from utils.measure.either_clock import Progress, free_bytes, need, one_thread, race, within
from utils.measure.gemm_peak import torch_dtype
from utils.measure.language_model import Size, model, tokens
from utils.measure.op_counts import counted
from utils.measure.placed_ops import usual_dtype
from utils.measure.stopwatch import time_device, time_host
from utils.measure.wall_arms import until_idle
from utils.model.readings import Race, ratio_error

TRAINING, INFERENCE, WIDE, WEIGHTS = "training", "inference", "wide", "weights"
SHADOW_WIDTH = 8
# Of a step that the added ops should take, and the most of them. Less on a GPU, where the wide step's host must stay ahead.
EXTRA_SHARE, MOST_EXTRA = {"cpu": 0.8, "cuda": 0.4}, 20_000
FIRST = 2  # the smallest batch
GIB = 1 << 30


@dataclass(frozen=True)
class Kind:
    """One model whose batch grows: `size` at a batch of 1, the batches (quick ones, all), whether a step goes backward."""

    size: Size
    quick: tuple[int, ...]
    batches: tuple[int, ...]
    backward: bool

    @property
    def words(self) -> str:
        tokens = f"{self.size.tokens:,} tokens" if self.size.tokens > 1 else "one token"
        what = "forward and backward" if self.backward else "forward alone"
        return f"{self.size.layers} layers of {self.size.width:,}, {tokens} a sample, {what}"


def _powers(most: int) -> tuple[int, ...]:
    """2, 4, … most. Not 1: torch then skips copies that a larger batch needs, and the steps would not have the same ops."""
    return tuple(1 << k for k in range(1, most.bit_length()))


KINDS: dict[str, dict[str, Kind]] = {
    "cpu": {
        TRAINING: Kind(Size("small", 64, 2, 4, 256, 1, 8), (2, 4, 8, 32), _powers(128), True),
        INFERENCE: Kind(Size("small", 64, 2, 4, 256, 1, 8), (2, 4, 8, 32), _powers(128), False),
        WIDE: Kind(Size("wide", 256, 2, 4, 256, 1, 32), (2, 4), _powers(8), True),
        WEIGHTS: Kind(Size("weights", 768, 2, 8, 256, 1, 1), (2, 4), _powers(16), False),
    },
    "cuda": {
        TRAINING: Kind(Size("small", 512, 4, 8, 4096, 1, 64), (2, 4, 16, 256), (2, 4, 8, 16, 64, 256, 512), True),
        INFERENCE: Kind(Size("small", 512, 4, 8, 4096, 1, 64), (2, 4, 256), (2, 4, 16, 64, 256, 512), False),
        WIDE: Kind(Size("wide", 4096, 2, 32, 4096, 1, 1024), (2, 4), (2, 4), True),
        WEIGHTS: Kind(Size("weights", 8192, 4, 64, 4096, 1, 1), (2, 4), (2, 4, 16, 64), False),
    },
}
LITTLE = {WIDE: 2048, WEIGHTS: 4096}  # the widths where less than 24 GiB of a GPU are free


def kinds(device: str) -> dict[str, Kind]:
    """The models for this device, smaller ones where its memory is small."""
    found = dict(KINDS[device])
    if device == "cuda" and free_bytes(device) < 24 * GIB:
        found |= {name: replace(found[name], size=replace(found[name].size, width=width)) for name, width in LITTLE.items()}
    return found


def steps(kind: Kind, batches: tuple[int, ...], device: str, dtype) -> dict[int, Callable[[], None]]:
    """Batch → one step of this kind: forward, and backward into fresh gradients where the kind has it. One model for all."""
    import torch
    import torch.nn.functional as F

    module = model(kind.size, device, dtype)

    def step(batch: int) -> Callable[[], None]:
        given, wanted = (tokens(replace(kind.size, batch=batch), device) for _ in range(2))

        def forward() -> None:
            with torch.no_grad():
                module(given)

        def both() -> None:
            module.zero_grad()
            F.cross_entropy(module(given).flatten(0, 1), wanted.flatten()).backward()

        return both if kind.backward else forward

    return {batch: step(batch) for batch in batches}


def shadow(kind: Kind) -> Kind:
    """The same code and the same ops on next to no data: narrow layers, two tokens at most."""
    small = {"width": SHADOW_WIDTH, "heads": 4, "vocabulary": SHADOW_WIDTH, "tokens": min(2, kind.size.tokens)}
    return replace(kind, size=replace(kind.size, **small))


def name_of(kind: str, batch: int) -> str:
    return f"{kind}, batch {batch}"


def named_steps(device: str, *, quick: bool = False) -> dict[str, Callable[[], None]]:
    """Every step of the experiment by its name, for the profiler (which warms each up)."""
    dtype = torch_dtype(usual_dtype(device))
    found = {}
    for name, kind in kinds(device).items():
        batches = kind.quick if quick else kind.batches
        found |= {name_of(name, batch): step for batch, step in steps(kind, batches, device, dtype).items()}
    return found


def null_experiment(
    device: str = "cpu", progress: Progress | None = None, *, quick: bool = False, events: Callable = profiled.events
) -> dict:
    """Steps of four models at growing batches:

    "rows": [{"kind", "words", "batch", "tokens", "ops" (that compute), "views", "kernels" | None (by the profiler, not quick),
    "step_ns" (wall), "host_ns" | None (issuing alone, the queue empty before), "device_ns" | None (its kernels alone, the queue
    held; both on a GPU, and quick at the smallest and the largest batch only)}] with the kinds "training" and "inference" of a
    small transformer, "wide" (training, where the work sets the time) and "weights" (one token a sample through layers so wide
    that reading them sets the time: flat as well, and not launch bound).
    "shadow": {kind: ns} of the same ops on next to no data. "extra": {"rows": [{"kind", "batch", "adds", "alone_ns", "step_ns",
    "with_ns", "error_ns", "seen"}]}: one-element adds put into the step, so many that alone they take EXTRA_SHARE of it.
    "race" (wall), "dtype", "numbers" (see `numbers`, and "doubling_error", of its growth). On a CPU all on one thread. About 5 s
    quick. MeasurementError without the device.
    """
    need(device, "the null experiment")
    dtype = usual_dtype(device)
    table = kinds(device)
    notes = ["on one thread"] if device == "cpu" else []
    with one_thread(device):
        work: dict[tuple[str, int], Callable[[], None]] = {}
        for name, kind in table.items():
            made = steps(kind, kind.quick if quick else kind.batches, device, torch_dtype(dtype))
            work |= {(name, batch): step for batch, step in made.items()}
        ops = {}
        for key, step in work.items():
            step()
            ops[key] = counted(step)
        added = {name: _adds(work[name, FIRST], device) for name in (TRAINING, WIDE)}
        shadows = {name: steps(shadow(kind), (FIRST,), device, torch_dtype(dtype))[FIRST] for name, kind in table.items()}
        calls = {name_of(*key): step for key, step in work.items()}
        calls |= {f"{name}, next to no data": step for name, step in shadows.items()}
        calls |= {f"{name}: adds alone": adds for name, (_, adds) in added.items()}
        calls |= {f"{name} and adds": _and(work[name, FIRST], adds) for name, (_, adds) in added.items()}
        short = _wall(device, calls, (TRAINING, INFERENCE), quick, within(progress, 0.0, 0.25))
        long = _wall(device, calls, (WIDE, WEIGHTS), quick, within(progress, 0.25, 0.25))
        both_sides = {name_of(*key): step for key, step in work.items() if not quick or key in _ends(work)}
        totals = _totals(device, both_sides, progress) if device == "cuda" else {}
    races = {TRAINING: short, WIDE: long}
    found = replace(short, readings=short.readings | long.readings)
    kernels: dict[str, int] = {}
    if device == "cuda" and not quick:
        try:
            seen = events("sweep", within(progress, 0.8, 0.2))
            kernels = profiled.kernels(seen, [name_of(*key) for key in work])
        except MeasurementError as error:
            notes.append(f"kernels not counted: {error}")
    rows = [
        {
            "kind": name,
            "words": table[name].words,
            "batch": batch,
            "tokens": batch * table[name].size.tokens,
            "ops": len(ops[name, batch].computing),
            "views": len(ops[name, batch].views),
            "kernels": kernels.get(name_of(name, batch)),
            "step_ns": found[name_of(name, batch)].ns,
            "host_ns": totals.get("host", {}).get(name_of(name, batch)),
            "device_ns": totals.get("device", {}).get(name_of(name, batch)),
        }
        for name, batch in work
    ]
    extra = [_extra_row(races[name], name, count) for name, (count, _) in added.items()]
    shadow_ns = {name: found[f"{name}, next to no data"].ns for name in table}
    return {
        "device": device,
        "dtype": dtype,
        "rows": rows,
        "shadow": shadow_ns,
        "extra": {"rows": extra},
        "race": replace(found, device=device),
        "numbers": numbers(rows, shadow_ns, extra) | {"aa_error": found.aa_error, "doubling_error": doubling_error(found)},
        "notes": [*notes, *found.notes],
    }


def bound(row: dict) -> str | None:
    """Whose total is the longer one: "host" or "device"; None where there are no two totals (on a CPU)."""
    if row["host_ns"] is None or row["device_ns"] is None:
        return None
    return "host" if row["host_ns"] >= row["device_ns"] else "device"


def numbers(rows: list[dict], shadow_ns: dict[str, float], extra: list[dict]) -> dict[str, float]:
    """Figures by name, for each kind: "_double" (the step at the second batch, twice the first, over that at the first),
    "_last_double" (the last batch over the one before, per doubling), "_largest" (largest batch over smallest), "_ops_ratio"
    (their ops), "_ops", "_step" (ns, smallest batch), "_fixed_share" and "_fixed_share_largest" (the same ops on next to no data,
    over the step at the smallest and the largest batch); on a GPU "_host", "_device" (ns, smallest batch), "_device_over_host"
    there and "_device_over_host_largest", "_kernels". "extra_training", "extra_wide": what the added ops lengthened the step by,
    over the same ops alone.
    """
    out = {}
    for kind in shadow_ns:
        of = sorted((row for row in rows if row["kind"] == kind), key=lambda row: row["batch"])
        first, second, before, last = of[0], of[1], of[-2], of[-1]
        doublings = log2(last["batch"] / before["batch"])
        out |= {
            f"{kind}_double": second["step_ns"] / first["step_ns"],
            f"{kind}_last_double": (last["step_ns"] / before["step_ns"]) ** (1 / doublings),
            f"{kind}_largest": last["step_ns"] / first["step_ns"],
            f"{kind}_ops_ratio": last["ops"] / first["ops"],
            f"{kind}_ops": float(first["ops"]),
            f"{kind}_step": first["step_ns"],
            f"{kind}_fixed_share": shadow_ns[kind] / first["step_ns"],
            f"{kind}_fixed_share_largest": shadow_ns[kind] / last["step_ns"],
        }
        if first["host_ns"] is not None and first["device_ns"] is not None:
            out |= {
                f"{kind}_host": first["host_ns"],
                f"{kind}_device": first["device_ns"],
                f"{kind}_device_over_host": first["device_ns"] / first["host_ns"],
                f"{kind}_device_over_host_largest": last["device_ns"] / last["host_ns"],
            }
        if first["kernels"]:
            out[f"{kind}_kernels"] = float(first["kernels"])
    for row in extra:
        out[f"extra_{row['kind']}"] = (row["with_ns"] - row["step_ns"]) / row["alone_ns"]
    return out


def doubling_error(found: Race) -> float:
    """Three standard errors of the training steps' growth at twice the batch: the larger of the wide and the small step's.

    The A/A pair is two short steps. A neighbour on the same core takes its turns in the middle of the long ones, and their growth
    was seen 20 % off beside a pair 4 % apart.
    """
    pairs = [[found[name_of(kind, batch)].samples for batch in (FIRST, 2 * FIRST)] for kind in (TRAINING, WIDE)]
    return max(3.0 * ratio_error(*pair) for pair in pairs)


def _adds(step: Callable[[], None], device: str) -> tuple[int, Callable[[], None]]:
    """(how many one-element adds take EXTRA_SHARE of a step, a callable that runs them)."""
    import torch

    a, b = (torch.randn(1, device=device) for _ in range(2))

    def adds(n: int) -> None:
        for _ in range(n):
            c = a + b
        del c

    took, one = (min(until_idle(f, device)(1) for _ in range(3)) for f in (step, lambda: adds(500)))
    count = min(MOST_EXTRA, max(20, round(EXTRA_SHARE[device] * took / one * 500)))
    return count, lambda: adds(count)


def _extra_row(found: Race, kind: str, adds: int) -> dict:
    grown = found.difference(name_of(kind, FIRST), f"{kind} and adds")
    return {
        "kind": kind,
        "batch": FIRST,
        "adds": adds,
        "alone_ns": found[f"{kind}: adds alone"].ns,
        "step_ns": found[name_of(kind, FIRST)].ns,
        "with_ns": found[f"{kind} and adds"].ns,
        "error_ns": grown.error_ns,
        "seen": grown.seen,
    }


def _and(step: Callable[[], None], more: Callable[[], None]) -> Callable[[], None]:
    def both() -> None:
        step()
        more()

    return both


def _ends(work: Iterable[tuple[str, int]]) -> set[tuple[str, int]]:
    """The smallest and the largest batch of each kind: where host and device are told apart even when time is short."""
    batches: dict[str, list[int]] = {}
    for name, batch in work:
        batches.setdefault(name, []).append(batch)
    return {(name, end(of)) for name, of in batches.items() for end in (min, max)}


def _wall(device: str, calls: dict[str, Callable], of: tuple[str, ...], quick: bool, progress: Progress | None) -> Race:
    """One race of the calls of these kinds, each until the device is done. The short steps and the long ones race apart, so that
    the short ones have more blocks."""
    arms = {name: until_idle(step, device) for name, step in calls.items() if name.startswith(of)}
    return race("cpu", {}, arms=arms, blocks=20 if quick else 40, at_most_s=1.8 if quick else 5, progress=progress)


def _totals(device: str, steps: dict[str, Callable], progress: Progress | None) -> dict[str, dict[str, float]]:
    """Host and device, each alone (ns)."""
    how = {"device": device, "blocks": 6, "at_most_s": 3}
    host = time_host(steps, progress=within(progress, 0.5, 0.15), **how)
    there = time_device(steps, progress=within(progress, 0.65, 0.15), **how)
    return {"host": {n: host[n].ns for n in steps}, "device": {n: there[n].ns for n in steps}}
