"""What can be wrong with a fold, as checks that can fail: the sum cannot, since it is 100 % by construction."""

from __future__ import annotations

from dataclasses import dataclass

from utils.measure.fold_tree import UNEXPLAINED, CallTree, Fold, Rules, distribution, fold

LEAST = 0.005  # a function this large must be known
FROM_ONE = 0.95  # … or take at least this much of its cost from one stage


@dataclass(frozen=True)
class Unknown:
    """A function that no rule names and that takes its cost from several stages: a new name, or a new caller of an old one.

    `share` is its part of the whole op (0..1); `stage` is the stage that most of it comes from, `part` how much of it (0..1).
    """

    function: str
    share: float
    stage: str
    part: float


@dataclass(frozen=True)
class Moved:
    """Where a row's instructions went when the row was taken away; all in instructions per op.

    `gained` are the rows that rose, `astray` what went to rows that it is not called from (its siblings, say).
    """

    row: str
    lost: float
    gained: dict[str, float]
    astray: float


def unknown(tree: CallTree, rules: Rules, least: float = LEAST, from_one: float = FROM_ONE) -> list[Unknown]:
    """Functions of `least` of the whole or more that no rule names and that take under `from_one` of their cost from one
    stage, or that no rule reaches at all; the dearest first."""
    found = []
    stage_of = {row.id: row.stage for row in rules.rows} | {UNEXPLAINED: UNEXPLAINED}
    for function, spread in distribution(tree, rules).items():
        share = tree.self_cost[function] / tree.total
        if share < least or rules.row_of(function) is not None or rules.is_shared(function):
            continue
        parts: dict[str, float] = {}
        for row, part in spread.items():
            parts[stage_of[row]] = parts.get(stage_of[row], 0.0) + part
        stage, most = max(parts.items(), key=lambda item: item[1])
        if most < from_one or stage == UNEXPLAINED:
            found.append(Unknown(function, share, stage, most))
    return sorted(found, key=lambda u: -u.share)


def taken_away(tree: CallTree, rules: Rules, row_id: str) -> Moved:
    """Fold with and without one row: its cost must go to the rows it is called from (`under`), and to no other."""
    before, after = fold(tree, rules), fold(tree, rules.without(row_id))
    rose = {row.id: row.instructions - before.row(row.id).instructions for row in after.rows}
    rose[UNEXPLAINED] = after.unexplained - before.unexplained
    gained = {row: by for row, by in rose.items() if by > 1e-6}
    parents = rules.row(row_id).under or (UNEXPLAINED,)
    astray = sum(by for row, by in gained.items() if row not in parents) - sum(by for by in rose.values() if by < -1e-6)
    return Moved(row_id, before.row(row_id).instructions, gained, astray)


def differences(before: Fold, after: Fold) -> dict[str, float]:
    """By how many instructions per op each row rose from one fold to the other; UNEXPLAINED counts as a row."""
    out = {row.id: row.instructions - before.row(row.id).instructions for row in after.rows}
    out[UNEXPLAINED] = after.unexplained - before.unexplained
    return out


def runs(tree: CallTree, op: str) -> bool:
    """Whether the tree is one of this op ("aten::add.Tensor"): its C++ entry at the dispatcher must be in it."""
    entry = f"at::_ops::{op.removeprefix('aten::').replace('.', '_')}::call("
    return any(function.startswith(entry) for function in tree.self_cost)


def disagreement(a: CallTree, b: CallTree) -> float:
    """|total of b / total of a − 1|: how far two processes that counted the same statement are apart."""
    return abs(b.total / a.total - 1.0)
