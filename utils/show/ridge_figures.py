"""The charts of lesson 06 that are no rooflines: shares of a step by count and by time, reading rate over the working set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from utils.show import theme
from utils.show.figures import _drawn, _headline
from utils.show.picture import Picture
from utils.show.tables import Table, significant


def shares(groups: Mapping[str, tuple[float, float]], title: str, label: str) -> Picture:
    """For each group two bars in percent: its share of the ops, and of their time."""
    names, bars = list(groups), {"of the ops": 0, "of their time": 1}
    written = {name: [f"{significant(100 * share, 2)} %" for share in pair] for name, pair in groups.items()}

    def paint(figure, axes) -> None:
        for at, (words, which) in enumerate(bars.items()):
            places = [row + 0.38 * (at - 0.5) for row in range(len(names))]
            style = {"color": theme.SERIES[at], "hatch": theme.SERIES_HATCHES[at], "edgecolor": theme.INK, "linewidth": 0.5}
            values = [100 * groups[name][which] for name in names]
            axes.barh(places, values, height=0.35, label=words, **style)
            for place, value, name in zip(places, values, names, strict=True):
                beside = {"xytext": (4, 0), "textcoords": "offset points", "va": "center", "fontsize": 7.5}
                axes.annotate(written[name][which], (value, place), **beside)
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.set_xlim(0, 112)
        axes.set_xlabel("%")
        axes.legend(loc="lower right", fontsize=8.5)
        axes.set_title(label, fontsize=9, fontweight="normal", color=theme.MUTED)
        _headline(figure, title)

    rows = [{"group": name, "ops": ops, "time": time} for name, (ops, time) in written.items()]
    alt = f"Bars: {title}. " + "; ".join(f"{r['group']} {r['ops']} of the ops, {r['time']} of the time" for r in rows)
    table = Table(rows, {"group": "group", "ops": "of the ops", "time": "of their time"}, title, [label])
    return Picture(_drawn(paint, 1.1 + 0.42 * len(names)), f"{alt}. {label}", table)


def levels(points: Sequence[Mapping], caches: Mapping[str, int], label: str) -> Picture:
    """GB/s of reading a working set again and again, over its size; lines where a cache is full."""
    title = "Reading a working set again and again"
    kb, rate = [p["kb"] for p in points], [p["gbps"] for p in points]

    def paint(figure, axes) -> None:
        axes.plot(kb, rate, color=theme.BLUE, marker="o", markersize=4.5)
        axes.set_xscale("log", base=2)
        axes.set_ylim(0, 1.15 * max(rate))
        for name, size in caches.items():
            axes.axvline(size / 1024, color=theme.MUTED, linestyle="--", linewidth=0.9)
            axes.annotate(f"{name} full", (size / 1024, 1.1 * max(rate)), ha="right", fontsize=8, rotation=90, va="top")
        axes.set_xlabel("working set, KiB")
        axes.set_ylabel("GB/s")
        axes.grid(color=theme.GRID, linewidth=0.6)
        axes.set_title(label, fontsize=9, fontweight="normal", color=theme.MUTED)
        _headline(figure, title)

    rows = [{"kb": f"{p['kb']:,.0f}", "fits": p["fits"], "gbps": significant(p["gbps"])} for p in points]
    alt = f"Curve: {title}. " + "; ".join(f"{r['kb']} KiB ({r['fits']}) {r['gbps']} GB/s" for r in rows)
    table = Table(rows, {"kb": "working set, KiB", "fits": "fits", "gbps": "GB/s"}, title, [label])
    return Picture(_drawn(paint, 3.0), f"{alt}. {label}", table)
