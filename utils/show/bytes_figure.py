"""Draws bytes against the size of a batch, one line a model, with level lines for what does not grow; and its table twin."""

from __future__ import annotations

from collections.abc import Mapping

from utils.show import theme
from utils.show.figures import _drawn, _headline
from utils.show.picture import Picture
from utils.show.tables import Table


def against_batch(
    series: Mapping[str, Mapping[int, float]], levels: Mapping[str, float], *, title: str, source: str = ""
) -> Picture:
    """`series` are name → {batch: bytes}, drawn with a marker each; `levels` are name → bytes. Both axes are logarithmic."""

    def paint(figure, axes) -> None:
        for at, (name, points) in enumerate(series.items()):
            style = {"color": theme.SERIES[at], "marker": theme.MARKERS[at], "markersize": 5}
            axes.plot(list(points), [size / 1024 for size in points.values()], label=name, **style)
        for at, (name, size) in enumerate(levels.items()):
            axes.axhline(size / 1024, color=theme.SERIES[at], linestyle=("--", ":")[at % 2], linewidth=1.3, label=name)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        batches = sorted({n for points in series.values() for n in points})
        axes.set_xticks(batches, [str(n) for n in batches])
        axes.set_xlabel("batch")
        axes.set_ylabel("KiB")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.grid(color=theme.GRID, linewidth=0.6)
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        _headline(figure, title)

    rows = [{"what": name, "batch": n, "bytes": int(size)} for name, points in series.items() for n, size in points.items()]
    rows += [{"what": name, "batch": None, "bytes": int(size)} for name, size in levels.items()]
    told = [f"{name}: " + ", ".join(f"{size:,.0f} bytes at {n}" for n, size in points.items()) for name, points in series.items()]
    told += [f"{name}: {size:,.0f} bytes, level" for name, size in levels.items()]
    alt = f"Lines of bytes against the batch, logarithmic axes. {title}. " + "; ".join(told) + f". {source}"
    return Picture(_drawn(paint, 3.0), alt, Table(rows, caption=title, notes=[source] if source else []), source)
