"""The one figure of lesson 13, launches, bytes, memory and time of every way to run a block, and bars of what cures save.

Each takes what was counted and measured, and the label of whose it is; it measures nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from utils.show import theme
from utils.show.figures import _drawn, _headline
from utils.show.picture import Picture
from utils.show.tables import NOTHING, Table, format_time, significant

# key of a row → heading
PANELS = {"kernels": "kernels\nthat run", "launches": "launches\nby the host"}
PANELS |= {"activations": "bytes moved,\nin activations", "peak": "memory,\nin activations"}
TIMES = {"small": "small block", "wide": "wide block"}


def board(rows: Sequence[Mapping], title: str, label: str) -> Picture:
    """`rows`: [{"way", "kernels", "launches", "activations", "peak" (activations), "small", "wide" (ns, None where not timed)}],
    a line of bars each: four counts, and the two times on one logarithmic axis."""
    timed = [size for size in TIMES if any(row.get(size) for row in rows)]

    def paint(figure, axes) -> None:
        for at, (axis, (key, heading)) in enumerate(zip(axes, PANELS.items(), strict=False)):
            style = {
                "color": theme.SERIES[at % 4],
                "hatch": theme.SERIES_HATCHES[at % 4],
                "edgecolor": theme.INK,
                "linewidth": 0.5,
            }
            axis.barh(range(len(rows)), [row[key] for row in rows], height=0.62, **style)
            for place, row in enumerate(rows):
                _value(axis, row[key], place, f"{row[key]:.3g}")
            axis.set_xlim(0, 1.35 * max(row[key] for row in rows))
            axis.set_xlabel(heading, fontsize=8)
        if timed:
            _times(axes[len(PANELS)], rows, timed)
        for axis in axes:
            axis.set_ylim(len(rows) - 0.4, -0.6)
            axis.set_yticks(range(len(rows)), [row["way"] for row in rows] if axis is axes[0] else [""] * len(rows))
            axis.tick_params(axis="x", labelsize=7)
            axis.locator_params(axis="x", nbins=4) if axis.get_xscale() == "linear" else None
        figure.supxlabel(label, fontsize=8.5, color=theme.MUTED)
        _headline(figure, title)

    table = _table(rows, timed, title, label)
    alt = f"Bars: {title}. " + "; ".join(
        f"{cell['way']}: kernels {cell['kernels']}, launches {cell['launches']}, {cell['activations']} activations moved, "
        f"{cell['peak']} activations of memory" + "".join(f", {TIMES[size]} {cell[size]}" for size in timed)
        for cell in table.rows
    )
    return Picture(_drawn(paint, 1.6 + 0.36 * len(rows), ncols=len(PANELS) + bool(timed)), f"{alt}. {label}", table)


def _table(rows: Sequence[Mapping], timed: Sequence[str], title: str, label: str) -> Table:
    cells = [
        {"way": row["way"], "kernels": f"{row['kernels']:,}", "launches": f"{row['launches']:,}"}
        | {"activations": significant(row["activations"]), "peak": significant(row["peak"])}
        | {size: format_time(row[size]) if row.get(size) else NOTHING for size in timed}
        for row in rows
    ]
    columns = (
        {"way": "way"}
        | {key: heading.replace("\n", " ") for key, heading in PANELS.items()}
        | {size: TIMES[size] for size in timed}
    )
    return Table(cells, columns, title, [label])


def _times(axis, rows: Sequence[Mapping], timed: Sequence[str]) -> None:
    for at, size in enumerate(timed):
        known = [(place + 0.32 * (at - 0.5), row[size] * 1e-3) for place, row in enumerate(rows) if row.get(size)]
        style = {"color": theme.SERIES[at + 1], "marker": theme.MARKERS[at], "linestyle": "", "markersize": 6}
        axis.plot([us for _, us in known], [place for place, _ in known], label=size, **style)
    axis.set_xscale("log")
    axis.set_xlabel("time of a step,\nµs", fontsize=8)
    axis.grid(color=theme.GRID, linewidth=0.6)
    axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, fontsize=7.5, handletextpad=0.2, columnspacing=0.8)


def _value(axis, value: float, place: float, text: str) -> None:
    axis.annotate(text, (value, place), xytext=(3, 0), textcoords="offset points", va="center", fontsize=8)


def savings(bars: Sequence[tuple[str, float]], title: str, label: str) -> Picture:
    """Bars of ns, to the right what is saved, to the left what is lost: [(name, ns)]."""

    def paint(figure, axes) -> None:
        style = {"edgecolor": theme.INK, "linewidth": 0.5}
        for place, (_, ns) in enumerate(bars):
            at = 0 if ns >= 0 else 1
            axes.barh(place, ns * 1e-3, height=0.62, color=theme.SERIES[at], hatch=theme.SERIES_HATCHES[at], **style)
            axes.annotate(
                signed(ns), (max(0.0, ns * 1e-3), place), xytext=(4, 0), textcoords="offset points", va="center", fontsize=8
            )
        axes.axvline(0, color=theme.INK, linewidth=1)
        most = max(abs(ns) for _, ns in bars) * 1e-3
        axes.set_xlim(min(0.0, 1.1e-3 * min(ns for _, ns in bars)), 1.25 * most)
        axes.set_yticks(range(len(bars)), [name for name, _ in bars])
        axes.set_ylim(len(bars) - 0.4, -0.6)
        axes.set_xlabel("µs saved of eager's step (left of the line: lost)")
        axes.set_title(label, fontsize=9, fontweight="normal", color=theme.MUTED)
        _headline(figure, title)

    cells = [{"what": name, "ns": signed(ns)} for name, ns in bars]
    alt = f"Bars: {title}. " + "; ".join(f"{cell['what']} {cell['ns']}" for cell in cells)
    table = Table(cells, {"what": "what", "ns": "saved of eager's step"}, title, [label])
    return Picture(_drawn(paint, 1.2 + 0.34 * len(bars)), f"{alt}. {label}", table)


def signed(ns: float) -> str:
    """A saving as text; below nothing it is a loss."""
    return format_time(ns) if ns >= 0 else f"−{format_time(-ns)}"
