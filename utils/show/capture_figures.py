"""The charts of lesson 11: a replay against its nodes, ways to run one hundred adds, gains of two blocks, a call's inputs.

Each takes what was measured and the label of whose it is; it measures nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from utils.show import theme
from utils.show.figures import _drawn, _headline
from utils.show.fuse_figures import lines
from utils.show.picture import Picture
from utils.show.tables import NOTHING, Table, format_ns, format_time, significant

KINDS = {"Python": 0, "C++": 1, "compiler": 2, "graph": 3}  # which colour and hatch a way has


def nodes(rows: Sequence[Mapping], label: str) -> Picture:
    """A replay against its nodes, the fitted F + n·c, the ops issued one by one, and where they differ the host's part."""
    series = {
        "one by one": {row["nodes"]: row["eager_us"] for row in rows if row.get("eager_us")},
        "a replay": {row["nodes"]: row["device_us"] for row in rows},
        "F + n · c, fitted": {row["nodes"]: row["fit_us"] for row in rows if row["fit_us"] > 0},
    }
    if any(abs(row["host_us"] - row["device_us"]) > 1e-9 for row in rows):
        series["the host, for a replay"] = {row["nodes"]: row["host_us"] for row in rows}
    return lines({name: points for name, points in series.items() if points}, "nodes", "A replay against its nodes", label)


def ways(rows: Sequence[Mapping], title: str, label: str) -> Picture:
    """A bar for each way to run the same adds: ns an op. `rows`: [{"way", "kind", "ns", "gain"}], in the order shown."""

    def paint(figure, axes) -> None:
        for at, row in enumerate(rows):
            shade = KINDS.get(row["kind"], 0)
            style = {"color": theme.SERIES[shade], "hatch": theme.SERIES_HATCHES[shade], "edgecolor": theme.INK, "linewidth": 0.5}
            axes.barh(at, row["ns"], height=0.66, **style)
            text = f"{format_ns(row['ns'])} · {significant(row['gain'], 2)}"
            axes.annotate(text, (row["ns"], at), xytext=(5, 0), textcoords="offset points", va="center", fontsize=8)
        axes.set_yticks(range(len(rows)), [f"{row['way']} ({row['kind']})" for row in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlim(0, 1.2 * max(row["ns"] for row in rows))
        axes.set_xlabel("ns an op; behind it how many times as fast as eager")
        axes.set_title(label, fontsize=9, fontweight="normal", color=theme.MUTED)
        _headline(figure, title)

    cells = [
        {"way": row["way"], "kind": row["kind"], "ns": format_ns(row["ns"]), "gain": significant(row["gain"], 2)} for row in rows
    ]
    columns = {"way": "way", "kind": "walked by", "ns": "an op", "gain": "times as fast as eager"}
    alt = f"Bars: {title}. " + "; ".join(f"{c['way']} {c['ns']}, {c['gain']} times as fast as eager" for c in cells)
    return Picture(_drawn(paint, 1.1 + 0.31 * len(rows)), f"{alt}. {label}", Table(cells, columns, title, [label]))


def gains(rows: Sequence[Mapping], names: Mapping[str, str], title: str, label: str) -> Picture:
    """For each way a bar a block: how many times as fast as op by op. `rows`: [{"size", "way", "gain"}], `names` of the sizes."""
    found = list(dict.fromkeys(row["way"] for row in rows))
    by = {(row["size"], row["way"]): row["gain"] for row in rows}
    sizes = [size for size in names if any(size == row["size"] for row in rows)]

    def paint(figure, axes) -> None:
        for at, size in enumerate(sizes):
            known = [(place, by[size, way]) for place, way in enumerate(found) if (size, way) in by]
            spots = [place + 0.38 * (at - (len(sizes) - 1) / 2) for place, _ in known]
            style = {"color": theme.SERIES[at], "hatch": theme.SERIES_HATCHES[at], "edgecolor": theme.INK, "linewidth": 0.5}
            axes.barh(spots, [gain for _, gain in known], height=0.35, label=names[size], **style)
            for spot, (_, gain) in zip(spots, known, strict=True):
                axes.annotate(significant(gain, 2), (gain, spot), xytext=(4, 0), textcoords="offset points", va="center",
                              fontsize=8)  # fmt: skip
        axes.axvline(1.0, color=theme.INK, linestyle="--", linewidth=1.2)
        axes.set_yticks(range(len(found)), found)
        axes.set_ylim(len(found) - 0.4, -0.6)
        axes.set_xlim(0, 1.15 * max(by.values()))
        axes.set_xlabel("times as fast as op by op (dashed: no gain)")
        axes.legend(loc="upper left", bbox_to_anchor=(0, -0.2), ncols=2, fontsize=8.5)
        axes.set_title(label, fontsize=9, fontweight="normal", color=theme.MUTED)
        _headline(figure, title)

    cells = [
        {"way": way} | {size: significant(by[size, way], 2) if (size, way) in by else NOTHING for size in sizes} for way in found
    ]
    alt = f"Bars: {title}. " + "; ".join(
        f"{cell['way']} " + ", ".join(f"{names[size]} {cell[size]} times" for size in sizes) for cell in cells
    )
    table = Table(cells, {"way": "way", **{size: f"{names[size]}, times as fast" for size in sizes}}, title, [label])
    return Picture(_drawn(paint, 1.5 + 0.5 * len(found)), f"{alt}. {label}", table)


def inputs(rows: Sequence[Mapping], label: str) -> Picture:
    """A compiled call against its number of inputs, an empty graph's, and that with its guards left out, both axes from 0."""
    title = "A compiled call against its inputs"
    keys = {"us": "a compiled sum", "nothing_us": "an empty graph", "unguarded_us": "an empty graph, guards left out (unsafe)"}
    series = {name: {row["inputs"]: row[key] for row in rows if row.get(key) is not None} for key, name in keys.items()}
    series = {name: points for name, points in series.items() if points}

    def paint(figure, axes) -> None:
        for at, (name, points) in enumerate(series.items()):
            style = {"color": theme.SERIES[at], "marker": theme.MARKERS[at], "linestyle": ("-", "--", ":")[at]}
            axes.plot(list(points), list(points.values()), label=name, markersize=5, **style)
        axes.set_xlim(0, 1.05 * max(row["inputs"] for row in rows))
        axes.set_ylim(0, 1.12 * max(us for points in series.values() for us in points.values()))
        axes.set_xlabel("input tensors")
        axes.set_ylabel("µs a call")
        axes.grid(color=theme.GRID, linewidth=0.6)
        axes.legend(loc="upper left", fontsize=8.5)
        axes.set_title(label, fontsize=9, fontweight="normal", color=theme.MUTED)
        _headline(figure, title)

    cells = []
    for k in (row["inputs"] for row in rows):
        told = {name: format_time(1e3 * points[k]) if k in points else NOTHING for name, points in series.items()}
        cells.append({"inputs": f"{k}"} | told)
    alt = f"Lines: {title}. " + "; ".join(
        f"{cell['inputs']} inputs " + ", ".join(f"{name} {cell[name]}" for name in series) for cell in cells
    )
    table = Table(cells, {"inputs": "inputs", **{name: name for name in series}}, title, [label])
    return Picture(_drawn(paint, 2.9), f"{alt}. {label}", table)
