"""The charts of lesson 07 that are not the profiler: models beside measurements, where two ceilings cross, a price that drifts.

Each takes a part of the study "two_ceilings" and the label of whose it is; it measures nothing.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from statistics import median

from utils.show import theme
from utils.show.figures import _drawn, _headline
from utils.show.picture import Picture
from utils.show.tables import Table, format_ns, format_time, significant

MODELS = {"sum": "sum", "max": "maximum", "queue": "queue"}
LONGEST = 22  # characters of the ops in a case's name
NARROW = 62  # characters of a label over axes that leave room for the cases' names
DRAWN = 12  # cases of many


def models(rows: Sequence[Mapping], title: str, label: str) -> Picture:
    """Each case's prediction over its measured time, one marker a model, on a logarithmic axis with a line at 1."""
    every_row, rows = rows, some(rows)
    cases = [short(row["case"]) for row in rows]
    ratios = {key: [_ratio(row, key) for row in rows] for key in MODELS}
    every = [value for values in ratios.values() for value in values]

    def paint(figure, axes) -> None:
        for at, (key, name) in enumerate(MODELS.items()):
            places = [row + 0.22 * (at - 1) for row in range(len(rows))]
            style = {"marker": theme.MARKERS[at], "color": theme.SERIES[at], "linestyle": "none", "markersize": 6}
            axes.plot(ratios[key], places, label=name, markeredgecolor=theme.INK, markeredgewidth=0.5, **style)
        axes.axvline(1.0, color=theme.INK, linewidth=1.2)
        axes.axvspan(0.9, 1.1, color=theme.GRID, alpha=0.5, zorder=0)
        axes.set_xscale("log")
        low, high = min(0.45, 0.9 * min(every)), max(2.2, 1.1 * max(every))
        axes.set_xlim(low, high)
        axes.set_xticks([tick for tick in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50) if low <= tick <= high])
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.xaxis.set_minor_locator(_nothing())
        axes.set_yticks(range(len(rows)), cases)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        for row in range(len(rows) - 1):
            axes.axhline(row + 0.5, color=theme.GRID, linewidth=0.6)
        axes.set_xlabel("predicted time / measured time (grey: within a tenth)")
        axes.legend(loc="upper center", bbox_to_anchor=(0.4, -0.12 - 0.4 / len(rows)), ncols=3, fontsize=8.5)
        axes.set_title(textwrap.fill(label, NARROW), fontsize=9, fontweight="normal", color=theme.MUTED)
        _headline(figure, title)

    cells = [
        {"case": short(row["case"]), "measured": format_time(1e3 * row["measured_us"])}
        | {key: f"{format_time(1e3 * row[f'{key}_us'])} ({_off(_ratio(row, key))})" for key in MODELS}
        for row in every_row
    ]
    alt = f"Markers: {title}. " + "; ".join(
        f"{row['case']} measured {row['measured']}, " + ", ".join(f"{name} {row[key]}" for key, name in MODELS.items())
        for row in cells
    )
    notes = [label] if len(rows) == len(every_row) else [label, f"Drawn: {len(rows)} of {len(every_row)}, by length"]
    table = Table(cells, {"case": "case", "measured": "measured", **MODELS}, title, notes)
    return Picture(_drawn(paint, 1.5 + 0.36 * len(rows)), f"{alt}. {label}", table)


def some(rows: Sequence[Mapping]) -> list[Mapping]:
    """The rows that are drawn: all of a few, of many a dozen, from the shortest chain to the longest."""
    if len(rows) <= DRAWN:
        return list(rows)
    ordered = sorted(rows, key=lambda row: (row["length"], row["elements"]))
    return [ordered[round(k * (len(ordered) - 1) / (DRAWN - 1))] for k in range(DRAWN)]


def short(case: str) -> str:
    """A case's name, short: what it repeats said once, and of a long mixture only how many ops there are of how many kinds."""
    once = re.sub(r"\b((?:[a-z]+ ){1,4}?)\1+", lambda m: f"{len(m[0]) // len(m[1])} × ({m[1].strip()}) ", case)
    ops, on, rest = once.partition(" on ")
    if len(ops) > LONGEST and on:
        named = [re.fullmatch(r"(?:(\d+)x)?(.+)", word).groups() for word in case.partition(" on ")[0].split()]
        many, kinds = sum(int(times or 1) for times, _ in named), {kind for _, kind in named}
        once = f"{many} ops of {len(kinds)} kinds{on}{rest}"
    return re.sub(r"\b(\d+)x([a-z])", r"\1 × \2", once)


def _ratio(row: Mapping, model: str) -> float:
    return row[f"{model}_us"] / row["measured_us"]


def _nothing():
    from matplotlib.ticker import NullLocator

    return NullLocator()


def _off(ratio: float) -> str:
    """How far a prediction is off, signed: "+12 %"."""
    return f"{'+' if ratio >= 1 else '−'}{significant(abs(100 * (ratio - 1)), 2)} %"


def crossing(rows: Sequence[Mapping], break_even: float | None, label: str) -> Picture:
    """One op by size, both axes logarithmic: what the host needs to issue it, what its kernel takes, what a step grows by."""
    title = "One add by its size: who takes longer?"
    elements = [row["elements"] for row in rows]
    curves = {"host": "host, to issue it", "device": "kernel, or what the size adds", "step": "one more op of a long chain"}

    def paint(figure, axes) -> None:
        for at, (key, name) in enumerate(curves.items()):
            points = [(n, row[f"{key}_us"]) for n, row in zip(elements, rows, strict=True) if (row[f"{key}_us"] or 0) > 0]
            style = {"color": theme.SERIES[at], "marker": theme.MARKERS[at], "linestyle": ("--", ":", "-")[at], "markersize": 4.5}
            axes.plot([n for n, _ in points], [us for _, us in points], label=name, **style)
        if break_even:
            axes.axvline(break_even, color=theme.PURPLE, linestyle="-.", linewidth=1.4)
            axes.annotate(
                f"break-even, {significant(break_even, 2)} elements", (break_even, 1), xycoords=("data", "axes fraction"),
                xytext=(-4, -12), textcoords="offset points", fontsize=8.5, ha="right",
            )  # fmt: skip
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set_xlabel("elements")
        axes.set_ylabel("µs")
        axes.legend(loc="upper left", bbox_to_anchor=(0, 0.9), fontsize=8.5)
        axes.grid(color=theme.GRID, linewidth=0.6)
        axes.set_title(label, fontsize=9, fontweight="normal", color=theme.MUTED)
        _headline(figure, title)

    cells = [
        {"elements": f"{row['elements']:,}", "bound": row["bound"]}
        | {key: None if row[f"{key}_us"] is None else format_time(1e3 * max(row[f"{key}_us"], 0.0)) for key in curves}
        for row in rows
    ]
    alt = f"Curves: {title} " + "; ".join(
        f"{row['elements']} elements: host {row['host']}, kernel {row['device'] or 'not measured'}, one more op {row['step']}"
        for row in cells
    )
    end = f" Break-even at {significant(break_even, 2)} elements." if break_even else " They did not cross."
    table = Table(cells, {"elements": "elements", **curves, "bound": "longer"}, title, [label])
    return Picture(_drawn(paint, 3.4), f"{alt}.{end} {label}", table)


def by_second(points: Sequence[Mapping]) -> list[list[float]]:
    """The prices of the points in ns, second by second from the first point on."""
    seconds: dict[int, list[float]] = {}
    for point in points:
        seconds.setdefault(int(point["s"] - points[0]["s"]), []).append(point["ns"])
    return [seconds[k] for k in sorted(seconds)]


def drift(points: Sequence[Mapping], label: str) -> Picture:
    """The price of one add through time: each block of calls a point."""
    title = "The price of the same add, through time"
    seconds, price = [p["s"] for p in points], [p["ns"] for p in points]
    factor, unit = (1e-3, "µs") if max(price) >= 1000 else (1.0, "ns")

    def paint(figure, axes) -> None:
        axes.plot(seconds, [ns * factor for ns in price], color=theme.BLUE, marker="o", markersize=2.5, linewidth=0.8)
        ordered = sorted(price)
        axes.set_ylim(0, 1.25 * factor * ordered[int(0.98 * (len(ordered) - 1))])  # a stray block may leave the figure
        axes.set_xlabel("s")
        axes.set_ylabel(unit)
        axes.grid(color=theme.GRID, linewidth=0.6)
        axes.set_title(label, fontsize=9, fontweight="normal", color=theme.MUTED)
        _headline(figure, title)

    rows = [
        {"second": k, "median": format_ns(median(ns)), "low": format_ns(min(ns)), "high": format_ns(max(ns)), "blocks": len(ns)}
        for k, ns in enumerate(by_second(points), 1)
    ]
    alt = (
        f"Curve: {title}, {len(points)} blocks over {significant(seconds[-1] - seconds[0], 2)} s, between "
        f"{format_ns(min(price))} and {format_ns(max(price))}; median of each second: {', '.join(row['median'] for row in rows)}"
    )
    columns = {"second": "second", "median": "median", "low": "lowest block", "high": "highest block", "blocks": "blocks"}
    table = Table(rows, columns, title, [label])
    return Picture(_drawn(paint, 2.9), f"{alt}. {label}", table)
