"""The charts of lesson 10: variants of a kernel beside the two floors of their time, and a chain in a cache and from memory.

Each takes what was measured and the label of whose it is; it measures nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from utils.show import theme
from utils.show.figures import _drawn, _headline
from utils.show.picture import Picture
from utils.show.tables import NOTHING, Table, format_time, significant


def variants(rows: Sequence[Mapping], roof_us: float, title: str, label: str) -> Picture:
    """A bar for each variant's time, a diamond where its instructions alone would end, a line where its bytes would.

    `rows`: [{"name", "us", "instructions" (an element) or None, "issue_us" or None}], in the order shown; `roof_us`: a plain add.
    """

    def paint(figure, axes) -> None:
        places = range(len(rows))
        axes.barh(places, [row["us"] for row in rows], height=0.6, color=theme.BLUE, edgecolor=theme.INK, linewidth=0.5,
                  label="measured")  # fmt: skip
        counted = [(at, row["issue_us"]) for at, row in enumerate(rows) if row["issue_us"] is not None]
        if counted:
            style = {"marker": "D", "color": theme.ORANGE, "markeredgecolor": theme.INK, "linestyle": "none", "markersize": 7}
            axes.plot([us for _, us in counted], [at for at, _ in counted], label="its instructions, at the issue rate", **style)
        axes.axvline(roof_us, color=theme.INK, linestyle="--", linewidth=1.3, label="its bytes: a plain add")
        for at, row in enumerate(rows):
            axes.annotate(significant(row["us"]), (row["us"], at), xytext=(8, 0), textcoords="offset points", va="center",
                          fontsize=8)  # fmt: skip
        axes.set_yticks(places, [row["name"] for row in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlim(0, 1.15 * max([roof_us, *(row["us"] for row in rows), *(us for _, us in counted)]))
        axes.set_xlabel("µs")
        axes.legend(loc="upper center", bbox_to_anchor=(0.4, -0.1 - 0.5 / len(rows)), ncols=3, fontsize=8.5)
        axes.set_title(label, fontsize=9, fontweight="normal", color=theme.MUTED)
        _headline(figure, title)

    cells = [
        {
            "name": row["name"],
            "instructions": NOTHING if row["instructions"] is None else significant(row["instructions"]),
            "issue": NOTHING if row["issue_us"] is None else format_time(1e3 * row["issue_us"]),
            "bytes": format_time(1e3 * roof_us),
            "took": format_time(1e3 * row["us"]),
            "share": f"{significant(100 * roof_us / row['us'], 2)} %",
        }
        for row in rows
    ]
    columns = {
        "name": "variant",
        "instructions": "instructions an element",
        "issue": "issuing them",
        "bytes": "its bytes",
        "took": "measured",
        "share": "of the add's speed",
    }
    alt = f"Bars: {title}; a plain add takes {format_time(1e3 * roof_us)}. " + "; ".join(
        f"{c['name']} {c['took']}, its {c['instructions']} instructions an element {c['issue']}" for c in cells
    )
    return Picture(_drawn(paint, 1.6 + 0.36 * len(rows)), f"{alt}. {label}", Table(cells, columns, title, [label]))


def places(rows: Sequence[Mapping], title: str, label: str) -> Picture:
    """For each form of a chain two bars: ns an element in a cache, and from memory; beside them how many times the add's that is.

    `rows`: [{"where", "form", "ns" (an element), "times"}].
    """
    wheres = list(dict.fromkeys(row["where"] for row in rows))
    forms = list(dict.fromkeys(row["form"] for row in rows))
    ns = {(row["where"], row["form"]): row["ns"] for row in rows}
    words = {
        (row["where"], row["form"]): f"{significant(row['ns'])} ns, {significant(row['times'], 2)} times the add" for row in rows
    }

    def paint(figure, axes) -> None:
        for at, where in enumerate(wheres):
            spots = [row + 0.38 * (at - 0.5) for row in range(len(forms))]
            style = {"color": theme.SERIES[at], "hatch": theme.SERIES_HATCHES[at], "edgecolor": theme.INK, "linewidth": 0.5}
            values = [ns[where, form] for form in forms]
            axes.barh(spots, values, height=0.35, label=where, **style)
            for spot, value, form in zip(spots, values, forms, strict=True):
                axes.annotate(words[where, form], (value, spot), xytext=(4, 0), textcoords="offset points", va="center",
                              fontsize=8)  # fmt: skip
        axes.set_yticks(range(len(forms)), forms)
        axes.set_ylim(len(forms) - 0.4, -0.6)
        axes.set_xlim(0, 1.4 * max(ns.values()))
        axes.set_xlabel("ns an element")
        axes.legend(loc="upper right", fontsize=8.5, title="buffers")
        axes.set_title(label, fontsize=9, fontweight="normal", color=theme.MUTED)
        _headline(figure, title)

    cells = [{"form": form} | {where: words[where, form] for where in wheres} for form in forms]
    alt = f"Bars: {title}. " + "; ".join(
        f"{cell['form']} " + ", ".join(f"{where} {cell[where]}" for where in wheres) for cell in cells
    )
    table = Table(cells, {"form": "chain", **{where: where for where in wheres}}, title, [label])
    return Picture(_drawn(paint, 1.2 + 0.5 * len(forms)), f"{alt}. {label}", table)
