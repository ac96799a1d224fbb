"""Is every instruction of the call tree in the right row, and can that fail? A partition's sum is 100 % by construction.

    python benchmarks/trace_sum.py [--device cpu|cuda] [--json FILE]

Bars, for `a + b` without and with grad and for `x @ w`. Each function of 0.5 % or more is found by a rule or takes 95 % of its
cost from one stage (new names are printed). A row taken away goes to the rows that call it, never to a sibling. 1,000
instructions planted in a stage rise in its row within 2 %, and nowhere else by more than that. Two processes of one program
agree within 0.5 % (counted in another order, `x @ w` moves by up to 0.8 %: where malloc's chunks lie decides how they are
cut). With --device cuda also: each launch of a recorded timeline has its kernel. Takes about two minutes.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from tabulate import tabulate

from utils.measure import callgrind, fold_checks, trace
from utils.measure.callgrind import Statement
from utils.measure.fold_tree import UNEXPLAINED, CallTree
from utils.measure.plant_instructions import PLANTS, planting_library
from utils.measure.probe import ProbeError
from utils.measure.timeline import CHAIN
from utils.show import progress

PLANTED, WITHIN = 1000, 0.02
REPEAT = 0.005
ASTRAY = 0.005  # of the row, or one instruction
NO_ITERATOR = ("tensor_iterator", "kernel")  # planted in functions that a matrix product does not call
KINDS = {"a + b": "nograd", "a + b, grad": "grad", "x @ w": "matmul"}


class Bars:
    """Collects the bars, prints them last, knows whether all passed."""

    def __init__(self):
        self.lines, self.passed = [], True

    def add(self, name: str, measured: str, wanted: str, good: bool) -> None:
        self.passed &= good
        self.lines.append(f"bar {name} measured={measured} wanted={wanted} {'pass' if good else 'short'}")


def judge_rules(tree: CallTree, kind: str, bars: Bars) -> None:
    """Whether the rules know this tree's functions, and whether each row hangs where `stages.yml` says."""
    rules = trace.load_rules(str(tree.where["torch"]))
    op = "aten::matmul" if kind == "matmul" else "aten::add.Tensor"
    bars.add(f"statement_{kind}", str(fold_checks.runs(tree, op)), f"True: {op} is in it", fold_checks.runs(tree, op))
    new = fold_checks.unknown(tree, rules)
    for one in new:
        print(f"{kind}: new name, {one.share:.1%} of the op, {one.part:.0%} of it from {one.stage or 'no rule'}: {one.function}")
    bars.add(f"known_{kind}", f"{len(new)}_new", "0 functions of 0.5% unknown", not new)
    left = trace.fold(tree, rules).unexplained / tree.total
    bars.add(f"explained_{kind}", f"{1 - left:.2%}", ">=99.5% reached by a rule", left <= 0.005)
    worst = (0.0, "none")
    for row in rules.rows:
        moved = fold_checks.taken_away(tree, rules, row.id)
        if moved.lost >= 1.0:
            worst = max(worst, (moved.astray / max(moved.lost, 1.0 / ASTRAY), row.id))
            if moved.astray > max(1.0, ASTRAY * moved.lost):
                print(f"{kind}: without {row.id} its {moved.lost:.0f} instructions went to {moved.gained}")
    bars.add(f"parent_{kind}", f"{worst[0]:.2%}({worst[1]})", f"<={ASTRAY:.1%} of a row astray", worst[0] <= ASTRAY)


def planted_statements() -> list[Statement]:
    """Each statement with each plant set to nothing and to PLANTED instructions: the same path, so that only they differ."""
    out = []
    for expression, grad in trace.RECORDED:
        plants = [plant for row, plant in PLANTS.items() if expression != "x @ w" or row not in NO_ITERATOR]
        plain = trace.statement_of(expression, grad)
        out.append(replace(plain, plants=tuple((plant, n) for plant in plants for n in (0, PLANTED))))
    return out


def judge_plants(trees: dict[str, CallTree], bars: Bars) -> list[list]:
    """The bars of the planted instructions; returns a table of what rose."""
    rows = []
    for name in (n for n in trees if n.endswith(f"| {PLANTED}")):
        statement, plant, _ = name.split(" | ")
        row = next(row for row, function in PLANTS.items() if function == plant)
        before, after = (trace.fold(trees[f"{statement} | {plant} | {n}"]) for n in (0, PLANTED))
        rose = fold_checks.differences(before, after)
        other = max((abs(by), r or "unexplained") for r, by in rose.items() if r != row)
        kind, off = KINDS[statement], abs(rose[row] - PLANTED) / PLANTED
        bars.add(f"planted_{row}_{kind}", f"{rose[row]:.1f}", f"{PLANTED} within {WITHIN:.0%}", off <= WITHIN)
        good = other[0] <= WITHIN * PLANTED
        bars.add(f"planted_{row}_{kind}_alone", f"{other[0]:.1f}({other[1]})", f"<={WITHIN * PLANTED:.0f} in any other row", good)
        rows.append([statement, row, rose[row], other[1], other[0], after.total - before.total])
    return rows


def judge_timeline(bars: Bars) -> None:
    """On CUDA: each launch of the timeline has its kernel, and the chain has one for each add."""
    with tempfile.TemporaryDirectory() as folder:
        seen = trace.record_timeline(Path(folder) / "timeline.json")
    lost = sum(segment.unjoined for segment in seen.segments.values())
    bars.add("timeline_joined", f"{lost}_alone", "0 launches or kernels without the other", lost == 0)
    launches = len(seen.segments[f"{CHAIN} adds"].launches)
    bars.add("timeline_chain", f"{launches}", f"{CHAIN} launches", launches == CHAIN)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="cuda adds the timeline's bars")
    parser.add_argument("--json", type=Path, help="write the folds there")
    asked = parser.parse_args(arguments)
    if asked.device == "cuda" and not torch.cuda.is_available():
        parser.error("no CUDA device here")
    bars = Bars()
    if why := callgrind.missing():
        if asked.device == "cpu":
            parser.error(f"no instructions can be counted here: {why}")
        print(f"no instructions can be counted here: {why}")
    else:
        judge_trees(bars, asked.json, parser)
    if asked.device == "cuda":
        judge_timeline(bars)
    print("\n".join(bars.lines))
    return 0 if bars.passed else 1


def judge_trees(bars: Bars, out: Path | None, parser: argparse.ArgumentParser) -> None:
    """Count everything twice and once more with costs planted; print the folds and add the bars."""
    statements = [trace.statement_of(*one) for one in trace.RECORDED]
    with progress.bar("counting instructions") as bar:
        first, second = (
            callgrind.count(statements, lambda done, text, n=n: bar(0.3 * (n + 0.99 * done), f"process {n + 1}: {text}"))
            for n in range(2)
        )
        try:
            library = planting_library()
        except ProbeError as error:
            parser.error(f"no cost can be planted without a compiler: {error}")
        planted = callgrind.count(
            planted_statements(), lambda done, text: bar(0.6 + 0.39 * done, f"planted: {text}"), library=library
        )
        bar(1.0, "counted")
    where = first["a + b"].where
    print(f"{where['cpu']}, torch {where['torch']}, valgrind {where['valgrind']}; instructions an op")
    folds = {name: trace.fold(tree) for name, tree in first.items()}
    table = [[row.id, row.stage, *(fold.row(row.id).instructions for fold in folds.values())] for row in folds["a + b"].rows]
    table.append(["unexplained", UNEXPLAINED, *(fold.unexplained for fold in folds.values())])
    table.append(["whole", "", *(fold.total for fold in folds.values())])
    print(tabulate(table, headers=["row", "stage", *folds], floatfmt=".0f"), end="\n\n")
    for name, kind in KINDS.items():
        judge_rules(first[name], kind, bars)
    moved = judge_plants(planted, bars)
    headers = ["statement", "planted in", "rose by", "largest other", "by", "whole rose by"]
    print(tabulate(moved, headers=headers, floatfmt=".1f"))
    for name, kind in KINDS.items():
        apart = fold_checks.disagreement(first[name], second[name])
        bars.add(f"repeat_{kind}", f"{apart:.3%}", f"<={REPEAT:.1%} between two processes", apart <= REPEAT)
    if out:
        out.write_text(json.dumps({name: fold.to_dict() for name, fold in folds.items()}))


if __name__ == "__main__":
    sys.exit(main())
