"""The charts of lesson 09: what bytes predict beside what was measured, ever more adds in one kernel, and gains by size."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from utils.show import theme
from utils.show.batch_figures import STYLES
from utils.show.figures import _drawn, _headline
from utils.show.picture import Picture
from utils.show.tables import Table, format_time, significant


def predicted(rows: Sequence[Mapping], label: str) -> Picture:
    """Each step's gain as its bytes predict it and as it was measured: two bars a step, and a third where stores are plain."""
    title = "One kernel instead of one an op: how many times faster?"
    names = {"predicted": "bytes predict", "gain": "measured"}
    if any(row.get("plain_us") for row in rows):
        names["plain"] = "measured, with plain stores"
    values = [{**row, "plain": row["eager_us"] / row["plain_us"] if row.get("plain_us") else None} for row in rows]

    def paint(figure, axes) -> None:
        tall = 0.8 / len(names)
        for at, (key, name) in enumerate(names.items()):
            places = [place + tall * (at - (len(names) - 1) / 2) for place, row in enumerate(values) if row[key]]
            widths = [row[key] for row in values if row[key]]
            style = {"color": theme.SERIES[at], "hatch": theme.SERIES_HATCHES[at], "edgecolor": theme.INK, "linewidth": 0.6}
            axes.barh(places, widths, height=tall, label=name, **style)
            for place, width in zip(places, widths, strict=True):
                axes.annotate(
                    significant(width), (width, place), xytext=(4, 0), textcoords="offset points", va="center", fontsize=8
                )
        axes.axvline(1.0, color=theme.INK, linewidth=1.0, linestyle="--")
        axes.set_yticks(range(len(rows)), [row["step"] for row in rows])
        axes.invert_yaxis()
        axes.set_xlim(0, 1.15 * max(row[key] for row in values for key in names if row[key]))
        axes.set_xlabel("times as fast as op by op (dashed: no gain)")
        axes.legend(loc="upper left", bbox_to_anchor=(0, -0.16), ncols=3, fontsize=8.5)
        axes.set_title(label, fontsize=9, fontweight="normal", color=theme.MUTED)
        _headline(figure, title)

    cells = [{"step": row["step"]} | {key: significant(row[key]) if row[key] else None for key in names} for row in values]
    told = "; ".join(f"{row['step']} " + ", ".join(f"{name} {row[key]}" for key, name in names.items()) for row in cells)
    table = Table(cells, {"step": "step", **names}, title, [label])
    return Picture(_drawn(paint, 4.0), f"Bars: {title} {told}. {label}", table)


def lines(series: Mapping[str, Mapping[int, float]], x: str, title: str, label: str, *, marks: Mapping[str, float] | None = None,
          unit: str = "µs") -> Picture:  # fmt: skip
    """name → {n: µs, or a ratio with `unit` ""}: a line each, both axes logarithmic; `marks` are vertical lines by name."""
    factor = 1e3 if unit else None

    def written(value: float) -> str:
        return significant(value) if factor is None else format_time(factor * value)

    def paint(figure, axes) -> None:
        for at, (name, points) in enumerate(series.items()):
            style = {"color": theme.SERIES[at % len(theme.SERIES)], "marker": theme.MARKERS[at % len(theme.MARKERS)]}
            axes.plot(list(points), list(points.values()), label=name, linestyle=STYLES[at % 4], markersize=4.5, **style)
        for name, at in (marks or {}).items():
            axes.axvline(at, color=theme.MUTED, linestyle="--", linewidth=0.9)
            axes.annotate(name, (at, 0.98), xycoords=("data", "axes fraction"), ha="right", va="top", rotation=90, fontsize=8)
        if not unit:
            axes.axhline(1.0, color=theme.INK, linewidth=1.0)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        _ticks(axes, [value for points in series.values() for value in points.values()] + ([] if unit else [1.0]))
        axes.xaxis.set_major_formatter(lambda value, _: _short(value))
        axes.set_xlabel(x)
        axes.set_ylabel(unit or "times as fast as op by op")
        axes.grid(color=theme.GRID, linewidth=0.6)
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8.5)
        axes.set_title(label, fontsize=9, fontweight="normal", color=theme.MUTED)
        _headline(figure, title)

    every = sorted({n for points in series.values() for n in points})
    cells = [
        {"n": f"{n:,}"} | {name: written(points[n]) if n in points else None for name, points in series.items()} for n in every
    ]
    told = "; ".join(
        f"{name}: " + ", ".join(f"{written(v)} at {n:,}" for n, v in points.items()) for name, points in series.items()
    )
    table = Table(cells, {"n": x} | {name: name for name in series}, title, [label])
    return Picture(_drawn(paint, 3.2), f"Lines against {x}: {title}. {told}. {label}", table)


def _short(n: float) -> str:
    """A count on an axis: 512, 131 k, 8.4 M."""
    for size, letter in ((1e6, "M"), (1e4, "k")):
        if n >= size:
            return f"{n / (1e6 if letter == 'M' else 1e3):.3g} {letter}"
    return f"{n:,.0f}"


def _ticks(axes, values: Sequence[float]) -> None:
    """The logarithmic axis of these values, with 1, 2 and 5 of each decade written out."""
    from matplotlib.ticker import FixedLocator, NullLocator

    low, high = 0.8 * min(values), 1.25 * max(values)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    axes.set_ylim(low, high)
    axes.yaxis.set_major_locator(FixedLocator([m * 10.0**d for d in decades for m in (1, 2, 5) if low <= m * 10.0**d <= high]))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
