"""The charts of lesson 08: times of a step against its batch, and times of a kernel against its blocks; each with its twin."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from utils.show import theme
from utils.show.figures import _drawn, _headline
from utils.show.picture import Picture
from utils.show.tables import Table, format_time

STYLES = ("-", "--", ":", "-.")


def against_batch(
    series: Mapping[str, Mapping[int, float]], title: str, label: str, *, x: str = "samples in a batch", short: str = "batch"
) -> Picture:
    """name → {batch: ns}, a line each; both axes logarithmic, so that twice as long is as far up everywhere. `x` and `short` name
    what stands in the place of a batch."""

    def paint(figure, axes) -> None:
        from matplotlib.ticker import LogLocator, NullFormatter

        _lines(axes, {name: {b: ns * 1e-6 for b, ns in points.items()} for name, points in series.items()})
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        batches = sorted({b for points in series.values() for b in points})
        axes.set_xticks(batches, [f"{b:,}" for b in batches])
        every = [ns * 1e-6 for points in series.values() for ns in points.values()]
        low = math.floor(math.log10(min(every)))
        axes.set_ylim(10**low, 10 ** max(low + 1, math.ceil(math.log10(max(every)))))  # whole decades: flat lines look flat
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
        _finish(figure, axes, x, "ms", title, label)

    return _picture(paint, series, "batch", short, title, label)


def against_blocks(series: Mapping[str, Mapping[int, float]], marks: Mapping[str, int], title: str, label: str) -> Picture:
    """name → {blocks: ns}, a line each, from nothing up; `marks` are vertical lines by name."""

    def paint(figure, axes) -> None:
        _lines(axes, {name: {b: ns * 1e-3 for b, ns in points.items()} for name, points in series.items()})
        top = 1.25 * max(ns for points in series.values() for ns in points.values()) * 1e-3
        for name, at in marks.items():
            axes.axvline(at, color=theme.MUTED, linestyle="--", linewidth=0.9)
            axes.annotate(name, (at, 0.98 * top), ha="right", va="top", rotation=90, fontsize=8)
        axes.set_ylim(0, top)
        axes.set_xlim(left=0)
        _finish(figure, axes, "blocks of the kernel", "µs", title, label)

    return _picture(paint, series, "blocks", "blocks", title, label)


def _lines(axes, series: Mapping[str, Mapping[int, float]]) -> None:
    for at, (name, points) in enumerate(series.items()):
        style = {"color": theme.SERIES[at % len(theme.SERIES)], "marker": theme.MARKERS[at % len(theme.MARKERS)]}
        axes.plot(list(points), list(points.values()), label=name, linestyle=STYLES[at % 4], markersize=4.5, **style)


def _finish(figure, axes, x: str, y: str, title: str, label: str) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(color=theme.GRID, linewidth=0.6)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8.5)
    axes.set_title(label, fontsize=9, fontweight="normal", color=theme.MUTED)
    _headline(figure, title)


def _picture(paint, series: Mapping[str, Mapping[int, float]], key: str, words: str, title: str, label: str) -> Picture:
    told = "; ".join(
        f"{name}: " + ", ".join(f"{format_time(ns)} at {n:,}" for n, ns in points.items()) for name, points in series.items()
    )
    every: Sequence[int] = sorted({n for points in series.values() for n in points})
    rows = [
        {key: f"{n:,}"} | {name: format_time(points[n]) if n in points else None for name, points in series.items()}
        for n in every
    ]
    table = Table(rows, {key: words} | {name: name for name in series}, title, [label])
    return Picture(_drawn(paint, 3.0), f"Lines against {words}: {title}. {told}. {label}", table)
