"""Where an op's instructions go, as a reader sees it: the call tree as an indented table, rows as bars, rows to scale in a strip.

Everything here draws a `CallTree` or its `Fold` (`utils.measure.trace`); nothing is counted. Instructions are no time: the
captions say whose they are (torch version, machine, live or recorded).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from utils.measure.fold_tree import CallTree, Fold, FoldRow, Rules
from utils.show import catalogue, theme
from utils.show.figures import _drawn, _headline, _height, _paint_bars
from utils.show.figures import _Row as Bar
from utils.show.picture import Picture
from utils.show.tables import Table, format_share

UNIT = "instructions an op"
BAR_CELLS = 16  # characters of the longest bar in the table of the tree
PASSES_ON = 0.01  # a function with less than this share of its own, and one callee, only passes the call on
NAMELESS = re.compile(r"\[clone [^\]]*\]|\(anonymous namespace\)::|@@?\w[\w.]*$")


def count(instructions: float) -> str:
    """Instructions as text: whole ones, thousands separated."""
    return f"{instructions:,.0f}"


# ------------------------------------------------------------------------------------------------ names


def short(function: str) -> str:
    """A demangled C++ name without arguments, template arguments, return type and outer namespaces.

    "at::native::structured_ufunc_add_CPU::impl(at::Tensor const&, …)" → "structured_ufunc_add_CPU::impl".
    """
    name = NAMELESS.sub("", function).strip()
    held = re.search(r"^c10::intrusive_ptr<(?:\w+::)*(\w+)", name)  # whose handle it is says more than "intrusive_ptr"
    if handed := re.search(r"::callback_fn<(?:\w+::)*?(\w+::\w+)<", name):  # what is called back is the template's argument
        return handed[1]
    name = re.sub(r"\{lambda[^}]*\}", "{lambda}", _without(_without(name, "<", ">"), "(", ")"))
    name = name.split(" const")[0].strip().split(" ")[-1].removesuffix("::operator")
    parts = [part for part in name.split("::") if part]
    if held:
        return f"intrusive_ptr<{held[1]}>::{parts[-1]}"
    keep = 3 if "_ops" in parts else 2
    return "::".join(parts[-keep:])


def _without(name: str, opening: str, closing: str) -> str:
    """The name without what stands between matching brackets."""
    out, depth = [], 0
    for at, letter in enumerate(name):
        if letter == opening:
            depth += 1
        elif letter == closing and depth and name[at - 1] != "-":
            depth -= 1
        elif not depth:
            out.append(letter)
    return "".join(out)


# ------------------------------------------------------------------------------------------------ the tree


@dataclass(frozen=True)
class Line:
    """One line of the tree as shown: `depth` among the lines shown, `passed` functions above it that only pass the call on.

    `together` marks a function that stands here for all its callers, after the tree in which they are.
    """

    depth: int
    function: str
    instructions: float
    own: float
    row: str
    passed: int
    together: bool = False


def tree_lines(tree: CallTree, rules: Rules, least: float = 0.025) -> list[Line]:
    """The tree's lines of at least that share, those left out that only pass the call on: little of their own, one callee, and
    no row rooted at them."""
    lines = tree.lines(least)
    out: list[Line] = []
    rows: dict[str, str] = {}
    shown_at: dict[int, tuple[int, str]] = {-1: (-1, "")}  # depth in the tree → (depth shown, row), along the current path
    passed: dict[int, int] = {-1: 0}
    for at, (depth, function, cost, own) in enumerate(lines):
        above, inherited = shown_at[depth - 1]
        root = rules.row_of(function)
        row = rows.setdefault(function, root or inherited)
        below = _callees_shown(lines, at)
        one_below = len(below) == 1 and below[0] >= 0.8 * cost and own < PASSES_ON * tree.total
        twin = out and short(out[-1].function) == short(function)  # one overload of a function calling the next
        if depth and one_below and (root is None or twin):
            shown_at[depth], passed[depth] = (above, row), passed[depth - 1] + 1
            continue
        out.append(Line(above + 1, function, cost, own, row, passed[depth - 1], not depth and bool(tree.callers(function))))
        shown_at[depth], passed[depth] = (above + 1, row), 0
    return out


def _callees_shown(lines: list[tuple[int, str, float, float]], at: int) -> list[float]:
    """What the callees of line `at` cost, of those that have a line."""
    depth, out = lines[at][0], []
    for below, _, cost, _ in lines[at + 1 :]:
        if below <= depth:
            break
        if below == depth + 1:
            out.append(cost)
    return out


def tree_table(tree: CallTree, rules: Rules, least: float = 0.025) -> Table:
    """The call tree as an indented table: a line a call, a bar to scale, the stage of the receipt that it belongs to."""
    lines, rows = tree_lines(tree, rules, least), []
    titles = {row.id: catalogue.title(row.stage) for row in rules.rows}
    for line in lines:
        rows.append(
            {
                "function": f"{'· ' * line.depth}{short(line.function)}{', all its callers' if line.together else ''}",
                "instructions": count(line.instructions),
                "share": format_share(line.instructions, tree.total),
                "bar": _bar(line.instructions / tree.total),
                "own": count(line.own),
                "stage": titles.get(line.row, ""),
            }
        )
    columns = {"function": "function, one · a call deeper", "instructions": "instructions", "share": "share"}
    columns |= {"bar": "to scale", "own": "its own", "stage": "stage"}
    left_out = sum(line.passed for line in lines)
    notes = [tree.label(), *tree.notes, f"Calls below {100 * least:g} % are left out, and {left_out} that only pass the call on."]
    if any(line.together for line in lines):
        notes.append(
            "Where several call one function, what it calls cannot be told apart: it follows at the end, for all its callers."
        )
    return Table(rows, columns, f"The call tree of {tree.statement}: {count(tree.total)} {UNIT}", notes)


def _bar(share: float) -> str:
    """A bar of block characters, an eighth of a character fine."""
    eighths = max(1, round(8 * BAR_CELLS * share))
    return "█" * (eighths // 8) + ("▏▎▍▌▋▊▉"[eighths % 8 - 1] if eighths % 8 else "")


def path_to_loop(tree: CallTree, rules: Rules) -> list[str]:
    """The functions from the interpreter down to the one in which the elements are added: the last of the dearest callees
    below the kernel's root. Empty where the tree has no kernel."""
    path: list[str] = []
    for depth, function, _, _ in tree.lines(0.005):
        path = [*path[:depth], function]
        if rules.row_of(function) == "kernel":
            while below := tree.callees(path[-1]):
                dearest = max(below, key=below.__getitem__)
                if dearest in path:
                    break
                path.append(dearest)
            return path
    return []


# ------------------------------------------------------------------------------------------------ rows as bars


def _shown(fold: Fold) -> list[FoldRow]:
    return [row for row in fold.rows if round(row.instructions) > 0]


def rows_figure(fold: Fold, source: str, *, title: str = "") -> Picture:
    """The instructions of each row of the fold in running order, coloured by the group of its stage."""
    rows = _shown(fold)
    bars = [
        Bar(
            row.title,
            row.instructions,
            None,
            theme.GROUP_COLOURS[catalogue.group_of(row.stage)],
            theme.GROUP_HATCHES[catalogue.group_of(row.stage)],
            text=f"{count(row.instructions)} · {format_share(row.instructions, fold.total)}",
        )
        for row in rows
    ]
    heading = title or f"{fold.statement}: {count(fold.total)} instructions, row by row"

    def paint(figure, axes) -> None:
        _paint_bars(axes, bars, factor=1.0, unit=UNIT, title="")
        _headline(figure, heading)

    alt = f"{heading}. " + "; ".join(f"{bar.name} {bar.text}" for bar in bars) + f". {source}"
    return Picture(_drawn(paint, _height(len(bars), heading)), alt, rows_table(fold, source, title=heading), source)


def rows_table(fold: Fold, source: str, *, title: str = "") -> Table:
    """The same as a table, with the stage and the group of each row and the dearest function in it."""
    groups = catalogue.groups()
    rows = [
        {
            "row": row.title,
            "instructions": count(row.instructions),
            "share": format_share(row.instructions, fold.total),
            "group": groups[catalogue.group_of(row.stage)],
            "dearest": short(row.top[0][0]) if row.top else None,
        }
        for row in _shown(fold)
    ]
    if round(fold.unexplained) > 0:
        rows.append(
            {"row": "no row", "instructions": count(fold.unexplained), "share": format_share(fold.unexplained, fold.total)}
        )
    columns = {"row": "row", "instructions": "instructions", "share": "share", "group": "group", "dearest": "dearest function"}
    return Table(rows, columns, title or f"{fold.statement} in rows", [source])


def strip(fold: Fold, source: str, *, lit: tuple[str, ...] = (), title: str = "") -> Picture:
    """The rows side by side, in about the order in which they begin, their widths to scale in instructions.

    The groups in `lit` are coloured; all are when none is named.
    """
    rows = _shown(fold)
    lit = lit or tuple(catalogue.groups())
    heading = title or f"{fold.statement}: its rows side by side, to scale in instructions"

    def paint(figure, axes) -> None:
        left = 0.0
        for row in rows:
            group = catalogue.group_of(row.stage)
            on = group in lit
            axes.barh(
                0,
                row.instructions,
                left=left,
                height=1,
                color=theme.GROUP_COLOURS[group] if on else "#ECEFF2",
                hatch=theme.GROUP_HATCHES[group] if on else "",
                edgecolor=theme.INK if on else theme.GREY,
                linewidth=0.5,
            )
            left += row.instructions
        _labels(axes, rows, fold.total)
        axes.set_xlim(0, fold.total)
        axes.set_ylim(-2.2, 0.6)
        axes.set_yticks([])
        axes.spines[["left", "bottom"]].set_visible(False)
        axes.set_xticks([])
        _headline(figure, heading)

    alt = f"{heading}: " + ", ".join(f"{row.title} {count(row.instructions)}" for row in rows) + f". {source}"
    return Picture(_drawn(paint, 1.25), alt, rows_table(fold, source, title=heading), source)


def _labels(axes, rows: list[FoldRow], whole: float) -> None:
    """Names under the wide pieces, in two lines by turns, so that neighbours do not run into each other."""
    left, line = 0.0, 0
    for row in rows:
        if row.instructions >= 0.035 * whole:
            name = row.title.split(":")[0].split(",")[0]
            middle = left + row.instructions / 2
            half = 0.0042 * len(name) * whole
            at = min(max(middle, half), whole - half)
            axes.text(at, -0.7 - 0.75 * line, name, ha="center", va="top", fontsize=8, color=theme.INK)
            if line:
                axes.plot([middle, middle], [-0.55, -1.35], color=theme.GRID, linewidth=0.7)
            line = 1 - line
        left += row.instructions


def compare_rows(folds: Mapping[str, Fold], source: str, *, title: str) -> Picture:
    """The rows of two ops side by side, a pair of bars a row, on one axis: both are counted on the same machine."""
    (first, a), (second, b) = folds.items()
    pairs = list(_pairs(a, b))

    def paint(figure, axes) -> None:
        longest = max(max(one, other) for _, one, other in pairs)
        for at, (_, one, other) in enumerate(pairs):
            for value, shift, colour, hatch in ((one, -0.2, theme.BLUE, ""), (other, 0.2, theme.ORANGE, "///")):
                axes.barh(at + shift, value, height=0.38, color=colour, hatch=hatch, edgecolor=theme.INK, linewidth=0.5)
                axes.annotate(
                    count(value), (value, at + shift), xytext=(4, 0), textcoords="offset points", va="center", fontsize=7.5
                )
        axes.set_yticks(range(len(pairs)), [row.title for row, _, _ in pairs])
        axes.set_ylim(len(pairs) - 0.4, -0.8)
        axes.set_xlim(0, longest * 1.12)
        axes.set_xlabel(UNIT)
        axes.grid(axis="x", color=theme.GRID, linewidth=0.6)
        axes.set_axisbelow(True)
        from matplotlib.patches import Patch

        marks = ((first, theme.BLUE, ""), (second, theme.ORANGE, "///"))
        axes.legend(handles=[Patch(facecolor=c, hatch=h, edgecolor=theme.INK, label=n) for n, c, h in marks], loc="lower right")
        _headline(figure, title)

    rows = [{"row": row.title, "first": count(one), "second": count(other)} for row, one, other in pairs]
    rows.append({"row": "all rows", "first": count(a.total), "second": count(b.total)})
    table = Table(rows, {"row": "row", "first": first, "second": second}, title, [source])
    alt = f"{title}. " + "; ".join(f"{row.title} {count(one)} and {count(other)}" for row, one, other in pairs) + f". {source}"
    return Picture(_drawn(paint, 0.9 + 0.42 * len(pairs)), alt, table, source)


def _pairs(a: Fold, b: Fold) -> Iterator[tuple[FoldRow, float, float]]:
    others = {row.id: row.instructions for row in b.rows}
    for row in a.rows:
        if round(row.instructions) > 0 or round(others.get(row.id, 0.0)) > 0:
            yield row, row.instructions, others.get(row.id, 0.0)
