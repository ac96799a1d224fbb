"""How near the fused tail comes to a plain add of the same bytes: the chain by hand, torch.compile and eager, in one race.

    python benchmarks/fused_tail.py [--device cpu|cuda] [--json FILE]

Bars on CUDA, as shares of `torch.add(out=)` on an activation of 256 MiB, cold: bias + GELU + residual at least 96 %, with dropout
at least 92 %. Bars on a CPU, over at least 1 GiB of buffers that take turns: the C++ chain (bias, GELU, residual; fp32) at least
70 % of the best add there is, stores past the caches included, and no slower than torch.compile given the same output buffer.

Every arm reads and writes the same buffers and is checked against float64, before the race and after it; page faults of one call
and the bytes met before a buffer comes round again stand beside it. A race whose A/A pair (one add twice) disagrees by more than
2 % is run again, and has no bar if it never settles.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from tabulate import tabulate

from benchmarks.roofline_peaks import SETTLED, Bars, settled
from utils.kernels import cpu_door, on_gpu, peer
from utils.kernels.data import Data
from utils.kernels.forms import ADD, BLOCK_TAIL, FIRST_TRY, STEPS, Form
from utils.measure import bandwidth, fuse_arms, malloc
from utils.measure.chain_on_cpu import in_turn
from utils.measure.device_clock import MeasurementError
from utils.measure.either_clock import MIB, last_cache, machine_name, race, threads
from utils.measure.fuse_arms import COLS, ROWS
from utils.measure.stopwatch import time_device
from utils.model.readings import Race
from utils.model.studies import plain

GELU = STEPS["with gelu"]
CPU_BAR, GPU_BARS = 0.70, {"bias_gelu_residual": 0.96, "with_dropout": 0.92}
LEAST = 1 << 30  # bytes of all buffers on a CPU
FIRST_CALLS = 5
TORCH_ADD, BEST_ADD = "torch add", "add, streaming stores"


@dataclass
class Arm:
    """One arm: a callable for each set of buffers, or `own`, which times itself; and the page faults of a call."""

    form: Form
    calls: list[Callable] | None = None
    own: Callable[[int], float] | None = None
    ours: bool = True  # the form's own arithmetic and draws; torch's otherwise
    first: Callable | None = None  # one call on the first set, where `own` times itself
    faults: int = 0

    def once(self) -> None:
        (self.first or self.calls[0])()


def plain_add(set_: Data) -> None:
    torch.add(set_.x, set_.residual, out=set_.out)


def checked(arms: dict[str, Arm], first: Data, when: str) -> list[str]:
    """What is wrong, by arm; counts the page faults of a call on the way."""
    said = []
    for name, arm in arms.items():
        wrong, arm.faults = fuse_arms.checked(arm.form, arm.once, first, ours=arm.ours)
        said += [f"{name} ({when}): {wrong}"] if wrong else []
    return said


def given(arms: dict[str, Arm], notes: list[str], name: str, form: Form, make: Callable[[], list], ours: bool = True) -> None:
    """Adds an arm of these calls, or says why it is not there."""
    try:
        arms[name] = Arm(form, make(), ours=ours)
    except MeasurementError as error:
        notes.append(f"{name}: {error}")


# ------------------------------------------------------------------------------------------------ CUDA


def on_cuda() -> tuple[dict[str, Arm], Race, list[str], int]:
    (buffers,) = fuse_arms.buffers("cuda")
    arms, notes = {TORCH_ADD: Arm(ADD, [partial(plain_add, buffers)])}, []
    for said, form in (("bias gelu residual", GELU), ("with dropout", BLOCK_TAIL)):
        for by in ("Triton", "CUDA C++"):
            given(arms, notes, f"{said}, {by}", form, lambda form=form, by=by: [on_gpu.fused(form, buffers, by=by)])
        given(arms, notes, f"{said}, torch.compile", form, lambda form=form: [peer.compiled(form, buffers)], ours=False)
        arms[f"{said}, eager"] = Arm(form, [peer.eager(form, buffers)], ours=False)
    given(arms, notes, "with dropout, first try", FIRST_TRY, lambda: [on_gpu.fused(FIRST_TRY, buffers)])
    said = checked(arms, buffers, "before")
    with torch.no_grad():
        found = settled(
            lambda bar: time_device(
                {name: arm.calls[0] for name, arm in arms.items()}, cold=True, blocks=40, at_most_s=25, progress=bar
            ),
            "fused tails",
        )
    said += checked(arms, buffers, "after")
    rotated = sum(t.numel() * t.element_size() for t in (buffers.x, buffers.residual, buffers.out)) + 2 * last_cache("cuda")
    return arms, found, notes + [f"WRONG: {s}" for s in said], rotated


def judge_cuda(bars: Bars, found: Race) -> None:
    add, resolved = found[TORCH_ADD].ns, found.aa_error <= SETTLED
    for said, wanted in GPU_BARS.items():
        words = said.replace("_", " ")
        ours = {name: r.ns for name, r in found.readings.items() if name in (f"{words}, Triton", f"{words}, CUDA C++")}
        if not ours:
            bars.add(said, "none_ran", f">={wanted:.0%}_of_add", False)
            continue
        best = min(ours, key=ours.get)
        share = add / ours[best]
        by = best.rpartition(", ")[2].replace(" ", "_")
        bars.add(said, f"{share:.1%}({ours[best] * 1e-3:.1f}us,{by})", f">={wanted:.0%}_of_add", share >= wanted, resolved)


# ------------------------------------------------------------------------------------------------ CPU


def sets_of_buffers() -> list[Data]:
    """Sets that take turns, at least 1 GiB together and four times what the last cache holds."""
    wanted = max(LEAST, 4 * last_cache("cpu"))
    return fuse_arms.buffers("cpu", sets=-(-wanted // (12 * ROWS["cpu"] * COLS)))


def settled_in(arm: Callable[[int], float]) -> Callable[[int], float]:
    """The arm after some calls outside the clock: the threads of torch's pool go on spinning for some milliseconds after their
    work, on the cores that the loop's own threads need; and a pause instead would let the clocks drop."""

    def timed(n: int) -> float:
        arm(FIRST_CALLS)
        return arm(n)

    return timed


def by_the_caller(chain: Callable[[int], float]) -> Callable[[int], float]:
    """The arm by the caller's clock, which what starting its threads takes is in."""

    def arm(n: int) -> float:
        start = time.perf_counter()
        chain(n)
        return time.perf_counter() - start

    return arm


def on_cpu() -> tuple[dict[str, Arm], Race, list[str], int]:
    pinned = malloc.pin()
    sets = sets_of_buffers()
    first = sets[0]
    flat = [tuple(t.view(-1) for t in (s.x, s.residual, s.out)) for s in sets]
    arms, notes = {}, ["malloc pinned" if pinned else "malloc could not be pinned: eager's temporaries fault"]
    arms[TORCH_ADD] = Arm(ADD, [partial(plain_add, s) for s in sets])
    try:
        from utils.measure.cpu_loops import loops

        found, n = loops(), first.x.numel()
        for kind in ("add", BEST_ADD):
            own = bandwidth.passes(found.run, kind, flat, n, threads())
            arms[kind] = Arm(ADD, own=settled_in(own), first=partial(found.run, kind, *flat[0], n=n, threads=threads()))
        for said, form in (("chain", GELU), ("chain with dropout", BLOCK_TAIL)):
            chains = [cpu_door.launch(form, s) for s in sets]
            arms[f"{said}, C++"] = Arm(form, own=settled_in(in_turn(chains)), first=chains[0])
            called = settled_in(by_the_caller(in_turn(chains)))
            arms[f"{said}, C++, by the caller's clock"] = Arm(form, own=called, first=chains[0])
        plain_chains = [cpu_door.launch(GELU, s, streaming=False) for s in sets]
        arms["chain, C++, plain stores"] = Arm(GELU, own=settled_in(in_turn(plain_chains)), first=plain_chains[0])
    except MeasurementError as error:
        notes.append(str(error))
    given(arms, notes, "chain, torch.compile", GELU, lambda: [peer.compiled(GELU, s) for s in sets], ours=False)
    arms["chain, eager"] = Arm(GELU, fuse_arms.eager(GELU, sets), ours=False)
    said = checked(arms, first, "before")
    control = BEST_ADD if BEST_ADD in arms else TORCH_ADD
    with torch.no_grad():
        result = settled(
            lambda bar: race(
                "cpu",
                {name: arm.calls for name, arm in arms.items() if arm.calls},
                arms={name: arm.own for name, arm in arms.items() if arm.own},
                control=control,
                blocks=40,
                block_ms=8,
                at_most_s=30,
                progress=bar,
            ),
            "fused chains",
        )
    said += checked(arms, first, "after")
    rotated = 12 * first.x.numel() * len(sets)
    return arms, result, notes + [f"WRONG: {s}" for s in said], rotated


def judge_cpu(bars: Bars, found: Race) -> None:
    resolved = found.aa_error <= SETTLED
    adds = {name: found[name].ns for name in (TORCH_ADD, "add", BEST_ADD) if name in found.readings}
    best = min(adds, key=adds.get)
    if "chain, C++" not in found.readings:
        bars.add("chain_of_best_add", "no_C++_chain_here", f">={CPU_BAR:.0%}", False, resolved=False)
        return
    share = adds[best] / found["chain, C++"].ns
    bars.add("chain_of_best_add", f"{share:.1%}(best={best.replace(' ', '_')})", f">={CPU_BAR:.0%}", share >= CPU_BAR, resolved)
    if "chain, torch.compile" in found.readings:
        ahead = found["chain, torch.compile"].ns / found["chain, C++, by the caller's clock"].ns
        bars.add("chain_against_compile", f"{ahead:.2f}x", ">=1x", ahead >= 1, resolved)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--json", type=Path, help="write the figures there")
    asked = parser.parse_args(arguments)
    if asked.device == "cuda" and not torch.cuda.is_available():
        parser.error("no CUDA device here")
    print(f"{machine_name(asked.device)}, torch {torch.__version__}, {threads()} threads\n")
    try:
        arms, found, notes, rotated = on_cuda() if asked.device == "cuda" else on_cpu()
    except MeasurementError as error:
        print(f"nobar fused_tail measured=not_measured({error})")
        return 0
    control = found.control[0]
    item = 4 if asked.device == "cpu" else 2
    rows = []
    for name, arm in arms.items():
        ns, moved = found[name].ns, arm.form.words(ROWS[asked.device], COLS) * item
        rows.append([name, ns * 1e-3, moved / ns, found[control].ns / ns, arm.faults, rotated / MIB])
    again = found[found.control[1]].ns
    rows.append([f"{control} again", again * 1e-3, None, found[control].ns / again, 0, rotated / MIB])
    headers = ["arm", "us", "GB/s, compulsory", f"share of {control}", "page faults", "MiB in turn"]
    print(tabulate(sorted(rows, key=lambda row: row[1]), headers=headers, floatfmt=("", ".1f", ".0f", ".1%", ".0f", ".0f")))
    print("; ".join([*notes, *found.notes, f"A/A error {found.aa_error:.1%}"]), end="\n\n")
    bars = Bars()
    wrong = [note for note in notes if note.startswith("WRONG")]
    bars.add("arms_correct", f"{len(arms) - len(wrong)}_of_{len(arms)}", "all,_before_and_after", not wrong)
    (judge_cuda if asked.device == "cuda" else judge_cpu)(bars, found)
    if asked.json:
        asked.json.write_text(json.dumps(plain({"race": found, "rows": rows, "notes": notes, "bars": bars.lines})))
    print("\n".join(bars.lines))
    return 0 if bars.passed else 1


if __name__ == "__main__":
    sys.exit(main())
