"""Two figures of the dispatcher: how key sets become a first key, step by step, and who was reached, in which order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from utils.measure.key_sets import KeySets
from utils.show import theme
from utils.show.figures import _drawn, _headline
from utils.show.picture import Picture
from utils.show.tables import Table

IN, FIRST, OUT = "in", "first", ""
MARKS = {IN: "●", FIRST: "▲ first", OUT: "–"}


def steps_of(keys: KeySets, upto: int = 4) -> dict[str, tuple[str, ...]]:
    """Heading → the keys left after that step, lowest priority first; `upto` leaves later steps out (1: the union alone)."""
    arguments = {f"{name}'s keys": held for name, held in keys.arguments.items()}
    included = _in_order(keys, (*keys.union, *keys.included))
    steps = [
        ("united", keys.union),
        ("+ includes", included),
        ("− excludes", keys.with_thread),
        ("− fall-throughs", keys.final),
    ]
    return {**arguments, **dict(steps[:upto])}


def _in_order(keys: KeySets, wanted: Sequence[str]) -> tuple[str, ...]:
    """The wanted keys by priority: `priority` is the order of the op's table."""
    return tuple(key for key in keys.priority if key in set(wanted))


def grid(keys: KeySets, *, title: str, upto: int = 4, note: str = "") -> Picture:
    """A row for each key that occurs, highest priority on top; a column for each step. A dot: the key is in the set; a triangle:
    it is the highest of it, so this step would call it first."""
    steps = steps_of(keys, upto)
    occur = _in_order(keys, [key for held in steps.values() for key in held])[::-1]
    single = len(keys.arguments)

    def mark(at: int, held: tuple[str, ...], key: str) -> str:
        return OUT if key not in held else FIRST if at >= single and key == held[-1] else IN

    marks = {key: [mark(at, held, key) for at, held in enumerate(steps.values())] for key in occur}

    def paint(figure, axes) -> None:
        for y, key in enumerate(occur):
            axes.axhline(y, color=theme.GRID, linewidth=0.6, zorder=0)
            for x, found in enumerate(marks[key]):
                if found == FIRST:
                    axes.plot(x, y, "^", markersize=11, color=theme.VERMILION, markeredgecolor=theme.INK, markeredgewidth=0.6)
                elif found == IN:
                    axes.plot(x, y, "o", markersize=8, color=theme.SKY, markeredgecolor=theme.INK, markeredgewidth=0.6)
                else:
                    axes.plot(x, y, "_", markersize=6, color=theme.GREY)
        axes.set_yticks(range(len(occur)), occur)
        axes.set_xticks(range(len(steps)), list(steps))
        axes.xaxis.tick_top()
        axes.tick_params(length=0)
        axes.set_xlim(-0.5, len(steps) - 0.5)
        axes.set_ylim(len(occur) - 0.5, -0.5)
        axes.spines[["left", "bottom"]].set_visible(False)
        _headline(figure, title)

    rows = [{"key": key, **{name: MARKS[found] for name, found in zip(steps, marks[key], strict=True)}} for key in occur]
    said = "; ".join(f"{name}: {', '.join(held) or 'none'}" for name, held in steps.items())
    table = Table(rows, {"key": "key, highest priority first", **{name: name for name in steps}}, title, [note] if note else [])
    alt = f"{title}. Keys after each step, lowest priority first. {said}. {note}"
    return Picture(_drawn(paint, 1.1 + 0.32 * len(occur)), alt, table, note)


def reached(runs: Mapping[str, Sequence[tuple[str, str]]], layers: Sequence[str], *, title: str, source: str = "") -> Picture:
    """Who was reached, in order: a panel a run, the layers as rows (the outermost on top), the steps from left to right.

    `runs` maps a name to (layer, what arrived) pairs in order.
    """

    def paint(figure, axes) -> None:
        panels = list(axes) if len(runs) > 1 else [axes]
        for panel, (name, steps) in zip(panels, runs.items(), strict=True):
            at = [layers.index(layer) for layer, _ in steps]
            panel.plot(range(len(at)), at, color=theme.GREY, linewidth=1.4, zorder=1)
            for x, y in enumerate(at):
                panel.plot(x, y, "o", markersize=15, color=theme.SKY, markeredgecolor=theme.INK, markeredgewidth=0.7, zorder=2)
                panel.text(x, y, str(x + 1), ha="center", va="center", fontsize=8.5, zorder=3)
                panel.annotate(
                    steps[x][1].split(" ")[0],
                    (x, y),
                    xytext=(0, -11),
                    textcoords="offset points",
                    ha="center",
                    va="top",
                    fontsize=7,
                )
            for y in range(len(layers)):
                panel.axhline(y, color=theme.GRID, linewidth=0.6, zorder=0)
                if y not in at:
                    panel.text(-0.4, y, "not reached", va="center", fontsize=8, style="italic", color=theme.MUTED)
            panel.set_yticks(range(len(layers)), layers)
            panel.set_xticks([])
            panel.tick_params(length=0)
            panel.set_xlim(-0.5, max(len(s) for s in runs.values()) - 0.5)
            panel.set_ylim(len(layers) - 0.4, -0.6)
            panel.set_title(name, fontsize=9, fontweight="normal", color=theme.MUTED)
            panel.spines[["bottom"]].set_visible(False)
        _headline(figure, title)

    rows = [
        {"run": name, "step": str(number), "who": layer, "what": what}
        for name, steps in runs.items()
        for number, (layer, what) in enumerate(steps, start=1)
    ]
    columns = {"run": "run", "step": "step", "who": "who is reached", "what": "what arrives"}
    told = ". ".join(f"{name}: " + ", then ".join(f"{layer} ({what})" for layer, what in steps) for name, steps in runs.items())
    grid = {"nrows": len(runs)} if len(runs) > 1 else {}
    height = 0.6 + len(runs) * (0.5 + 0.38 * len(layers))
    table = Table(rows, columns, title, [source] if source else [])
    return Picture(_drawn(paint, height, **grid), f"{title}. {told}. {source}", table, source)
