"""Does the receipt add up, and can it fail? Sums, ladder, stages left out, costs planted in one stage.

    python benchmarks/stage_sum.py [--device cpu|cuda] [--processes N] [--blocks N] [--json FILE]

Bars. The isolates sum to 88-102 % of `c = a + b` on CPU, with and without grad (85-105 % on an H200). Each step of the ladder
agrees with the isolates that fill it within max(60 ns, 25 %), the C++ kernel entry within 5 %. Leaving out any of the three
largest stages throws the sum out of its band, or a step of the ladder off its isolates. A cost planted in the real Autograd
kernel, and (on CPU) in the allocator, raises that row by what the whole rose (within 20 %), no other row by a fifth of it.

Each receipt is priced in several fresh processes and the bars judge the median: where code and data happen to lie is settled
once a process and moves a step of the ladder. A step on which the processes disagree by more than twice its tolerance was not
resolved by the measurement, and has no bar in that run. A receipt during which the host changed its speed is priced anew. A
planted cost is measured between two receipts without it, in one process, and anew when those differ by more than a fifth of it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from tabulate import tabulate

from utils.measure.machine import device_class, fingerprint
from utils.measure.plants import planted
from utils.measure.stages import build_probe, price_stages, probe_status
from utils.model.readings import LadderGroup, Receipt
from utils.show import progress

BANDS = {"cpu-x86-64": (0.88, 1.02), "cpu-arm64": (0.88, 1.02), "h200": (0.85, 1.05)}
KERNEL_ENTRY = 0.05
PLANT_NS = {"cpu": 400.0, "cuda": 2500.0}  # well above what the price of the whole drifts by
DRIFT = 0.2  # of the planted cost, between the receipts before and after it: above, the host drifted
STEADY = 1.25  # p75 over p25 of the whole: above, the host changed its speed within the race, and quartiles of laps do not add up
TRIES = 3  # how often a receipt or a plant is measured until it is steady


class Bars:
    """Collects the bars, prints them last, knows whether all passed. Without a class's bar the figure stands alone."""

    def __init__(self, applies: bool):
        self.applies, self.lines, self.passed = applies, [], True

    def add(self, name: str, measured: str, wanted: str, good: bool, resolved: bool = True) -> None:
        if self.applies and resolved:
            self.passed &= good
            self.lines.append(f"bar {name} measured={measured} wanted={wanted} {'pass' if good else 'short'}")
        else:
            self.lines.append(f"nobar {name} measured={measured}")


def without(receipt: Receipt, stage: str) -> Receipt:
    """The receipt with a stage forgotten: in the list and in the ladder's isolates."""
    groups = []
    for g in receipt.ladder_groups:
        parts = tuple(p for p in g.parts if p[0] != stage)
        groups.append(replace(g, parts=parts, isolates_ns=sum(ns for _, ns in parts)))
    return replace(receipt.without(stage), ladder_groups=tuple(groups))


def agrees(group: LadderGroup) -> bool:
    """The step's bar: 5 % for the C++ kernel entry, else max(60 ns, 25 %)."""
    if group.name == "C++ kernel entry":
        return abs(group.isolates_ns / group.difference_ns - 1) <= KERNEL_ENTRY
    return group.agrees


def adds_up(receipt: Receipt, band: tuple[float, float]) -> bool:
    return band[0] <= receipt.coverage <= band[1] and all(agrees(g) for g in receipt.ladder_groups)


def judge(receipts: list[Receipt], band: tuple[float, float], bars: Bars) -> None:
    """The bars of one kind of receipt, priced in several processes."""
    kind = "grad" if receipts[0].grad else "nograd"
    wanted = f"{band[0]:.0%}..{band[1]:.0%}"
    middle = sorted(receipts, key=lambda r: r.coverage)[len(receipts) // 2]
    coverage = median(r.coverage for r in receipts)
    bars.add(f"sum_{kind}", f"{coverage:.1%}", wanted, band[0] <= coverage <= band[1])
    for steps in zip(*(r.ladder_groups for r in receipts), strict=True):
        judge_step(f"ladder_{steps[0].name.replace(' ', '_').replace('+', 'p').lower()}_{kind}", steps, bars)
    for stage in sorted((s for s in middle.stages if s.ns), key=lambda s: -s.ns)[:3]:
        lost = without(middle, stage.stage)
        off = {g.name for g in lost.ladder_groups if not agrees(g)} - {g.name for g in middle.ladder_groups if not agrees(g)}
        seen = bool(off) or not band[0] <= lost.coverage <= band[1]
        measured = f"{lost.coverage:.1%},{len(off)}_more_steps_off"
        bars.add(f"left_out_{stage.stage}_{kind}", measured, f"outside {wanted} or a step off", seen)


def judge_step(name: str, steps: tuple[LadderGroup, ...], bars: Bars) -> None:
    """The bar of one step of the ladder: the median of what the processes say, if they agree well enough to say anything."""
    if steps[0].name == "C++ kernel entry":
        offs, allowed, unit = [100 * (g.isolates_ns / g.difference_ns - 1) for g in steps], 100 * KERNEL_ENTRY, "%"
    else:
        offs, allowed, unit = [g.isolates_ns - g.difference_ns for g in steps], median(g.allowed_ns for g in steps), "ns"
    off, spread = median(offs), max(offs) - min(offs)
    digits = 1 if unit == "%" else 0
    measured = f"{off:+.{digits}f}{unit}({min(offs):+.{digits}f}..{max(offs):+.{digits}f})"
    bars.add(name, measured, f"within {allowed:.0f}{unit}", abs(off) <= allowed, resolved=spread <= 2 * allowed)


def judge_plant(stage: str, before: Receipt, during: Receipt, after: Receipt, bars: Bars) -> list[list]:
    """The bars of one planted cost, against the mean of what stood before and after; the table of what each row rose by."""

    def rise(price) -> float:
        return price(during) - (price(before) + price(after)) / 2

    whole, drift = rise(lambda r: r.total_ns), abs(after.total_ns - before.total_ns)
    priced = [s.stage for s in before.stages if all(r.stage(s.stage).ns is not None for r in (before, during, after))]
    rose = {name: rise(lambda r, name=name: r.stage(name).ns) for name in priced}
    other = max((abs(ns), name) for name, ns in rose.items() if name != stage)
    share, steady = rose[stage] / whole, drift <= DRIFT * whole
    bars.add(f"planted_{stage}_rises", f"{share:.0%}", "80%..120% of the rise of the whole", 0.8 <= share <= 1.2, steady)
    bars.add(
        f"planted_{stage}_alone", f"{other[0] / whole:.0%}({other[1]})", "<=20% in any other row", other[0] / whole <= 0.2, steady
    )
    whole_rows = [("(the whole)", whole), ("(drift of the host)", drift), *rose.items()]
    return [[stage, name, ns, f"{ns / whole:.0%}"] for name, ns in whole_rows]


# ------------------------------------------------------------------------------------------------ pricing, in fresh processes


def price_here(kind: str, device: str, blocks: int) -> list[Receipt]:
    """What a child prices: "nograd" or "grad" one receipt; a stage: before, during and after a cost planted in it."""

    def price(grad: bool = False) -> Receipt:
        return price_stages(device, grad, blocks=blocks, in_program=False, first_call=False)

    torch.set_num_threads(1)
    if kind in ("nograd", "grad"):
        for _ in range(TRIES):
            receipt = price(kind == "grad")
            if receipt.end_to_end.p75 <= STEADY * receipt.end_to_end.ns:
                break
        return [receipt]
    for _ in range(TRIES):
        before = price()
        with planted(kind, PLANT_NS[device]):
            during = price()
        after = price()
        if abs(after.total_ns - before.total_ns) <= DRIFT * PLANT_NS[device]:
            break
    return [before, during, after]


def price_apart(kind: str, device: str, blocks: int) -> list[Receipt]:
    """The same in a process of its own. Raises RuntimeError with the last line that it said when it fails."""
    command = [sys.executable, __file__, "--device", device, "--blocks", str(blocks), "--here", kind]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"pricing {kind}: {(done.stderr.strip().splitlines() or ['the process said nothing'])[-1]}")
    return [Receipt.from_dict(r) for r in json.loads(done.stdout.splitlines()[-1])]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--blocks", type=int, default=80, help="blocks of about 2 ms for each arm (default 80)")
    parser.add_argument("--processes", type=int, default=3, help="fresh processes for each receipt (default 3)")
    parser.add_argument("--json", type=Path, help="write the receipts there")
    parser.add_argument("--here", help=argparse.SUPPRESS)  # a child of this script: price that, print it as JSON
    asked = parser.parse_args(arguments)
    if asked.here:
        print(json.dumps([r.to_dict() for r in price_here(asked.here, asked.device, asked.blocks)]))
        return 0
    if asked.processes < 1:
        parser.error("--processes: at least 1")
    if asked.device == "cuda" and not torch.cuda.is_available():
        parser.error("no CUDA device here")
    if not probe_status(asked.device).available:
        parser.error(f"the stages cannot be priced without a compiler: {probe_status(asked.device).why}")
    with progress.bar("compiling the probe") as bar:
        build_probe(asked.device, bar)
    where = fingerprint()
    kind = device_class(where, asked.device)
    band = BANDS.get(kind, (0.85, 1.05))
    bars = Bars(applies=kind in BANDS)
    plantable = ["autograd_key", "allocator"] if asked.device == "cpu" else ["autograd_key"]  # CUDA's allocator stays as it is
    todo = [k for _ in range(asked.processes) for k in ("nograd", "grad")] + plantable
    priced: dict[str, list[list[Receipt]]] = {}
    with progress.bar("pricing") as bar:
        for i, one in enumerate(todo):
            bar(i / len(todo), f"process {i + 1} of {len(todo)}: {one}")
            priced.setdefault(one, []).append(price_apart(one, asked.device, asked.blocks))
        bar(1.0, "priced")
    runs = [[receipts[0] for receipts in priced[k]] for k in ("nograd", "grad")]
    receipts = [sorted(of_kind, key=lambda r: r.coverage)[len(of_kind) // 2] for of_kind in runs]
    device = where["gpu"] if asked.device == "cuda" else where["cpu"]
    print(f"{device}, torch {where['torch']}, {asked.blocks} blocks; ns a call, of the middle process of {asked.processes}")
    rows = []
    for name in (s.stage for s in receipts[1].stages):
        row = [name]
        for r in receipts:
            s = next((s for s in r.stages if s.stage == name), None)
            row += [None, None] if s is None else [s.ns, s.alone_ns]
        rows.append(row)
    rows.append(["sum", *(x for r in receipts for x in (r.stage_sum_ns, sum(s.alone_ns or 0.0 for s in r.stages)))])
    rows.append(["context", *(x for r in receipts for x in (r.context_ns, None))])
    rows.append(["c = a + b", *(x for r in receipts for x in (r.total_ns, None))])
    print(tabulate(rows, headers=["stage", "no grad", "(alone)", "grad", "(alone)"], floatfmt=".0f"))
    print(f"A/A error: {receipts[0].aa_error:.1%} without grad, {receipts[1].aa_error:.1%} with\n")
    steps = [[g.name, "grad" if r.grad else "no grad", g.difference_ns, g.isolates_ns] for r in receipts for g in r.ladder_groups]
    print(tabulate(steps, headers=["step of the ladder", "", "step", "isolates"], floatfmt=".0f"), end="\n\n")
    for of_kind in runs:
        for s in of_kind[0].stages:
            if s.why_missing:
                print(f"{s.stage} is missing: {s.why_missing}")
        judge(of_kind, band, bars)
    moved = [row for stage in plantable for row in judge_plant(stage, *priced[stage][0], bars)]
    print(tabulate(moved, headers=["planted in", "row", "rose by", "of the rise"], floatfmt=".0f"))
    if asked.json:
        asked.json.write_text(json.dumps([r.to_dict() for of_kind in runs for r in of_kind]))
    print("\n".join(bars.lines))
    return 0 if bars.passed else 1


if __name__ == "__main__":
    sys.exit(main())
