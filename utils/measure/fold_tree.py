"""Folding a call graph's instructions into the rows of `stages.yml`: pure arithmetic, no torch and no valgrind.

A row is rooted at the functions that its patterns name. Every other function's own instructions are split over its callers in
proportion to what callgrind charged along each edge, and theirs over theirs, until a root is reached. The rows therefore sum
to the whole by construction, which proves nothing; what can fail is in `utils.measure.fold_checks`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

UNEXPLAINED = ""  # the row of what no rule reaches
ONE_CALLER = 0.95


@dataclass(frozen=True)
class CallTree:
    """Which function called which in one op, and how many instructions each took; all counts are per op.

    `self_cost` is what a function executed itself, `edges[(caller, callee)]` what the callee and everything under it executed
    on behalf of that caller. Recursion is merged into one function, and a function's calls of itself are left out. `where`
    names the machine and the versions, `source` is "live" or "recorded", `date` is ISO (UTC), `notes` say what is special.
    """

    statement: str
    self_cost: dict[str, float]
    edges: dict[tuple[str, str], float]
    libraries: dict[str, str]
    where: dict
    date: str
    source: str = "recorded"
    notes: tuple[str, ...] = ()

    @cached_property
    def total(self) -> float:
        """Instructions of the whole op."""
        return sum(self.self_cost.values())

    @cached_property
    def _callers(self) -> dict[str, dict[str, float]]:
        out: dict[str, dict[str, float]] = {}
        for (caller, callee), cost in self.edges.items():
            out.setdefault(callee, {})[caller] = cost
        return out

    @cached_property
    def _callees(self) -> dict[str, dict[str, float]]:
        out: dict[str, dict[str, float]] = {}
        for (caller, callee), cost in self.edges.items():
            out.setdefault(caller, {})[callee] = cost
        return out

    def callers(self, function: str) -> dict[str, float]:
        """Who called it, with what its calls cost each of them."""
        return self._callers.get(function, {})

    def callees(self, function: str) -> dict[str, float]:
        """What it called, with what those calls cost."""
        return self._callees.get(function, {})

    def inclusive(self, function: str) -> float:
        """Its own instructions and those of everything that it called."""
        return self.self_cost.get(function, 0.0) + sum(self.callees(function).values())

    @property
    def roots(self) -> tuple[str, ...]:
        """The functions that nobody was seen calling, the dearest first."""
        return tuple(sorted((f for f in self.self_cost if not self.callers(f)), key=self.inclusive, reverse=True))

    def label(self) -> str:
        """One line that says whose numbers these are, for captions."""
        where = self.where
        words = [f"torch {where.get('torch')}", f"Python {where.get('python')}", f"valgrind {where.get('valgrind')}"]
        words += [f"glibc {where.get('glibc')}", f"{where.get('cpu_capability_traced')} under valgrind", self.date[:10]]
        return f"{self.source}: {self.statement}, " + ", ".join(words)

    def merged(self, function: str) -> bool:
        """Whether several functions call it and none of them for 95 % of its cost: what it calls is then counted for all its
        callers together, and which of them caused what cannot be told."""
        costs = self.callers(function).values()
        return bool(costs) and max(costs) < ONE_CALLER * sum(costs)

    def lines(self, least: float = 0.01) -> list[tuple[int, str, float, float]]:
        """The tree to show: (depth, function, instructions with everything below, of them its own), the dearest callee first.

        Under a `merged` function nothing is shown where it is called, since its callees are not that caller's alone; it
        follows once as a root of its own, with the cost of all its callers. Parts under `least` of the whole are left out.
        """
        out: list[tuple[int, str, float, float]] = []
        waiting = [root for root in self.roots if self.inclusive(root) >= least * self.total]
        shown: set[str] = set()

        def visit(function: str, cost: float, depth: int) -> None:
            whole = self.inclusive(function)
            part = cost / whole if whole else 0.0
            out.append((depth, function, cost, self.self_cost.get(function, 0.0) * part))
            if depth and self.merged(function):
                if function not in shown and self.callees(function):
                    waiting.append(function)
                return
            shown.add(function)
            for callee, below in sorted(self.callees(function).items(), key=lambda item: -item[1]):
                if below * part >= least * self.total and callee not in shown:
                    visit(callee, below * part, depth + 1)

        while waiting:
            function = waiting.pop(0)
            if function not in shown:
                visit(function, self.inclusive(function), 0)
        return out

    def to_dict(self) -> dict:
        """Plain JSON, with the names written once."""
        names = sorted(set(self.self_cost) | {f for edge in self.edges for f in edge})
        place = {name: i for i, name in enumerate(names)}
        return {
            "statement": self.statement,
            "functions": [[n, self.libraries.get(n, ""), round(self.self_cost.get(n, 0.0), 3)] for n in names],
            "edges": [[place[a], place[b], round(cost, 3)] for (a, b), cost in sorted(self.edges.items())],
            "notes": list(self.notes),
        }

    @classmethod
    def from_dict(cls, data: dict, *, where: dict, date: str, source: str) -> CallTree:
        names = [row[0] for row in data["functions"]]
        return cls(
            statement=data["statement"],
            self_cost={name: float(own) for name, _, own in data["functions"]},
            edges={(names[a], names[b]): float(cost) for a, b, cost in data["edges"]},
            libraries={name: library for name, library, _ in data["functions"]},
            where=dict(where),
            date=date,
            source=source,
            notes=tuple(data["notes"]),
        )


# ------------------------------------------------------------------------------------------------ the rules


@dataclass(frozen=True)
class Row:
    """One row of the fold: the functions it is rooted at (`patterns`, searched in the demangled name), the stage of the
    receipt it belongs to, and the rows it is called from (`under`), which get its cost when the row is taken away."""

    id: str
    stage: str
    title: str
    under: tuple[str, ...]
    patterns: tuple[str, ...]


@dataclass(frozen=True)
class Rules:
    """The rows in the order in which they are tried, and the helpers (malloc and the like) that many rows call: `shared`."""

    rows: tuple[Row, ...]
    shared: tuple[str, ...] = ()

    @cached_property
    def _compiled(self) -> list[tuple[str, re.Pattern]]:
        return [(row.id, re.compile("|".join(row.patterns))) for row in self.rows if row.patterns]

    @cached_property
    def _shared(self) -> re.Pattern | None:
        return re.compile("|".join(self.shared)) if self.shared else None

    def row_of(self, function: str) -> str | None:
        """The id of the row that is rooted at this function, or None."""
        return next((row for row, pattern in self._compiled if pattern.search(function)), None)

    def is_shared(self, function: str) -> bool:
        """Whether it is known as a helper of many rows."""
        return bool(self._shared and self._shared.search(function))

    def row(self, row_id: str) -> Row:
        for row in self.rows:
            if row.id == row_id:
                return row
        raise KeyError(f"no row {row_id!r}; there are {[r.id for r in self.rows]}")

    def without(self, row_id: str) -> Rules:
        """The rules with one row taken away: its functions go to whoever called them."""
        self.row(row_id)
        return replace(self, rows=tuple(r for r in self.rows if r.id != row_id))


def rules_from(stages: dict, torch_version: str) -> Rules:
    """The rules of `stages.yml` (as loaded) for this torch: patterns under "any" and under each range it lies in."""
    minor = _minor(torch_version)
    rows = tuple(
        Row(row["id"], row["stage"], row["title"], tuple(row["under"]), _patterns(row["cxx"], minor)) for row in stages["rows"]
    )
    return Rules(rows, tuple(pattern for helper in stages["shared"] for pattern in helper["cxx"]))


def _patterns(cxx: dict, minor: tuple[int, int]) -> tuple[str, ...]:
    found: list[str] = []
    for versions, patterns in cxx.items():
        first, _, last = versions.partition("-")
        if versions == "any" or _minor(first) <= minor <= _minor(last or first):
            found += patterns
    return tuple(found)


def _minor(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


# ------------------------------------------------------------------------------------------------ the fold


@dataclass(frozen=True)
class FoldRow:
    """Instructions of one row per op, its share of the whole (0..1), and the functions it consists of, dearest first."""

    id: str
    stage: str
    title: str
    instructions: float
    share: float
    top: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Fold:
    """A call tree's instructions, each in exactly one row; `unexplained` are those that no rule reaches."""

    statement: str
    total: float
    rows: tuple[FoldRow, ...]
    unexplained: float

    def row(self, row_id: str) -> FoldRow:
        for row in self.rows:
            if row.id == row_id:
                return row
        raise KeyError(f"no row {row_id!r} in this fold; it has {[r.id for r in self.rows]}")

    def by_stage(self) -> dict[str, float]:
        """Instructions of each stage of the receipt that has a row, in the order of the rows."""
        out: dict[str, float] = {}
        for row in self.rows:
            out[row.stage] = out.get(row.stage, 0.0) + row.instructions
        return out

    def to_dict(self) -> dict:
        return {
            "statement": self.statement,
            "total": round(self.total, 1),
            "unexplained": round(self.unexplained, 1),
            "rows": [
                {"id": r.id, "stage": r.stage, "instructions": round(r.instructions, 1), "share": round(r.share, 4)}
                for r in self.rows
            ],
        }


def fold(tree: CallTree, rules: Rules) -> Fold:
    """Every instruction of the tree in one row of the rules (or unexplained). Rows that are not met stand with 0."""
    spread = distribution(tree, rules)
    costs: dict[str, dict[str, float]] = {row.id: {} for row in rules.rows}
    costs[UNEXPLAINED] = {}
    for function, own in tree.self_cost.items():
        for row, part in spread[function].items():
            costs[row][function] = costs[row].get(function, 0.0) + own * part
    whole = tree.total or 1.0
    rows = tuple(
        FoldRow(
            row.id,
            row.stage,
            row.title,
            sum(costs[row.id].values()),
            sum(costs[row.id].values()) / whole,
            tuple(sorted(costs[row.id].items(), key=lambda item: -item[1])),
        )
        for row in rules.rows
    )
    return Fold(tree.statement, tree.total, rows, sum(costs[UNEXPLAINED].values()))


def distribution(tree: CallTree, rules: Rules) -> dict[str, dict[str, float]]:
    """For each function, the share (0..1) of its own instructions that belongs to each row; shares sum to 1."""
    spread: dict[str, dict[str, float]] = {}
    open_functions = []
    for function in tree.self_cost:
        row = rules.row_of(function)
        if row is None and sum(tree.callers(function).values()) > 0:
            spread[function] = {}
            open_functions.append(function)
        else:
            spread[function] = {row if row is not None else UNEXPLAINED: 1.0}
    for _ in range(10 * len(open_functions) + 1):  # a chain of n callers is settled in n rounds, a cycle geometrically
        change = 0.0
        for function in open_functions:
            new = dict(_mixed(tree.callers(function), spread))
            change = max([change, *(abs(new[r] - spread[function].get(r, 0.0)) for r in new)])
            spread[function] = new
        if change < 1e-12:
            break
    for function in open_functions:  # a cycle that nothing outside calls has no row at all
        missing = 1.0 - sum(spread[function].values())
        if missing > 1e-9:
            spread[function][UNEXPLAINED] = spread[function].get(UNEXPLAINED, 0.0) + missing
    return spread


def _mixed(callers: dict[str, float], spread: dict[str, dict[str, float]]) -> Iterator[tuple[str, float]]:
    """The callers' shares, weighted by what the calls from each of them cost."""
    whole = sum(callers.values())
    rows = {row for caller in callers for row in spread[caller]}
    for row in rows:
        yield row, sum(cost * spread[caller].get(row, 0.0) for caller, cost in callers.items()) / whole
