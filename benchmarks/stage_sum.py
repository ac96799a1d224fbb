"""Does the receipt add up, and can it fail? Sums, ladder, stages left out, costs planted in one stage.

    python benchmarks/stage_sum.py [--device cpu|cuda] [--blocks N] [--json FILE]

Bars. The isolates sum to 88-102 % of `c = a + b` on CPU, with and without grad (85-105 % on an H200). Each step of the ladder
agrees with the isolates that fill it within max(60 ns, 25 %), the C++ kernel entry within 5 %. Leaving out any of the three
largest stages throws the sum out of its band, or a step of the ladder off its isolates. A cost planted in the real Autograd
kernel, and (on CPU) in the allocator, raises that row by what the whole rose (within 20 %), no other row by a fifth of it.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path

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


class Bars:
    """Collects the bars, prints them last, knows whether all passed. Without a class's bar the figure stands alone."""

    def __init__(self, applies: bool):
        self.applies, self.lines, self.passed = applies, [], True

    def add(self, name: str, measured: str, wanted: str, good: bool) -> None:
        if self.applies:
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


def judge(receipt: Receipt, band: tuple[float, float], bars: Bars) -> None:
    """The bars of one receipt."""
    kind = "grad" if receipt.grad else "nograd"
    wanted = f"{band[0]:.0%}..{band[1]:.0%}"
    bars.add(f"sum_{kind}", f"{receipt.coverage:.1%}", wanted, band[0] <= receipt.coverage <= band[1])
    for g in receipt.ladder_groups:
        name = f"ladder_{g.name.replace(' ', '_').replace('+', 'p').lower()}_{kind}"
        off = g.isolates_ns - g.difference_ns
        if g.name == "C++ kernel entry":
            bars.add(name, f"{off / g.difference_ns:+.1%}", f"within {KERNEL_ENTRY:.0%}", agrees(g))
        else:
            bars.add(name, f"{off:+.0f}ns", f"within {g.allowed_ns:.0f}ns", agrees(g))
    for stage in sorted((s for s in receipt.stages if s.ns), key=lambda s: -s.ns)[:3]:
        lost = without(receipt, stage.stage)
        steps = [g.name for g in lost.ladder_groups if not agrees(g)]
        measured = f"{lost.coverage:.1%},{len(steps)}_steps_off"
        bars.add(f"left_out_{stage.stage}_{kind}", measured, f"outside {wanted} or a step off", not adds_up(lost, band))


def judge_plant(stage: str, before: Receipt, after: Receipt, bars: Bars) -> list[list]:
    """The bars of one planted cost; returns the table of what each row rose by."""
    whole = after.total_ns - before.total_ns
    rose = {
        s.stage: after.stage(s.stage).ns - s.ns for s in before.stages if s.ns is not None and after.stage(s.stage).ns is not None
    }
    other = max((abs(ns), name) for name, ns in rose.items() if name != stage)
    bars.add(
        f"planted_{stage}_rises",
        f"{rose[stage] / whole:.0%}",
        "80%..120% of the rise of the whole",
        0.8 <= rose[stage] / whole <= 1.2,
    )
    bars.add(
        f"planted_{stage}_alone",
        f"{other[0] / whole:.0%}({other[1]})",
        "<=20% in any other row",
        other[0] / whole <= 0.2,
    )
    return [[stage, name, ns, f"{ns / whole:.0%}"] for name, ns in [("(the whole)", whole), *rose.items()]]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--blocks", type=int, default=80, help="blocks of about 2 ms for each arm (default 80)")
    parser.add_argument("--json", type=Path, help="write the receipts there")
    asked = parser.parse_args(arguments)
    if asked.device == "cuda" and not torch.cuda.is_available():
        parser.error("no CUDA device here")
    if not probe_status(asked.device).available:
        parser.error(f"the stages cannot be priced without a compiler: {probe_status(asked.device).why}")
    torch.set_num_threads(1)
    with progress.bar("compiling the probe") as bar:
        build_probe(asked.device, bar)

    def price(grad: bool) -> Receipt:
        return price_stages(asked.device, grad, blocks=asked.blocks, in_program=False, first_call=False)

    where = fingerprint()
    kind = device_class(where, asked.device)
    band = BANDS.get(kind, (0.85, 1.05))
    bars = Bars(applies=kind in BANDS)
    with progress.bar("pricing") as bar:
        receipts = []
        for i, grad in enumerate((False, True)):
            bar(0.2 * i, "with grad" if grad else "without grad")
            receipts.append(price(grad))
        plants = []
        for i, stage in enumerate(("autograd_key", "allocator")):
            bar(0.4 + 0.3 * i, f"a cost planted in {stage}")
            if asked.device == "cuda" and stage == "allocator":
                continue  # only the CPU's allocator can be exchanged
            before = price(False)  # just before, so that the weather is the same
            with planted(stage, PLANT_NS[asked.device]):
                plants.append((stage, before, price(False)))
        bar(1.0, "priced")
    print(f"{where['gpu'] if asked.device == 'cuda' else where['cpu']}, torch {where['torch']}, {asked.blocks} blocks; ns a call")
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
    for r in receipts:
        for s in r.stages:
            if s.why_missing:
                print(f"{s.stage} is missing: {s.why_missing}")
        judge(r, band, bars)
    moved = []
    for stage, before, after in plants:
        moved += judge_plant(stage, before, after, bars)
    print(tabulate(moved, headers=["planted in", "row", "rose by", "of the rise"], floatfmt=".0f"))
    if asked.json:
        asked.json.write_text(json.dumps([r.to_dict() for r in receipts]))
    print("\n".join(bars.lines))
    return 0 if bars.passed else 1


if __name__ == "__main__":
    sys.exit(main())
