"""The charts of lesson 04 that are not lanes: what each call took, clocks over time, what nvidia-smi reads, profiled steps.

Each takes a part of the launch study as `utils.measure.launch` gives it and the label of whose it is; it measures nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from utils.show import figures, theme
from utils.show.figures import _drawn, _headline
from utils.show.picture import Picture
from utils.show.tables import Table, format_time, significant

ROWS = 16  # a curve of hundreds of points gives a table of so many
LONGEST = 24  # characters of a name in a lane


def calls(case: Mapping, label: str) -> Picture:
    """What each launch call took, by its number, over the kernels in the queue when it was called."""
    points = case["points"]
    number = [i + 1 for i in points["i"]]
    took = [ns * 1e-3 for ns in points["host_ns"]]
    kernel_us = case["numbers"]["kernel_us"]
    title = f"What a launch call takes: {case['what']}"

    def paint(figure, axes) -> None:
        upper, lower = axes
        upper.plot(number, took, color=theme.BLUE, linewidth=1.6, label="a launch call")
        upper.axhline(kernel_us, color=theme.VERMILION, linestyle="--", linewidth=1.2, label="a kernel")
        top = 1.4 * max(sorted(took)[int(0.99 * (len(took) - 1))], kernel_us)
        upper.set_ylim(0, top or 1.0)
        upper.set_ylabel("µs")
        upper.legend(loc="upper left", ncols=2, fontsize=8.5)
        upper.set_title(label, fontsize=9, fontweight="normal", color=theme.MUTED)
        lower.step(number, points["depth"], where="post", color=theme.GREEN, linewidth=1.6)
        lower.set_ylim(bottom=0)
        lower.set_ylabel("in the queue")
        lower.set_xlabel("number of the launch")
        for ax in axes:
            ax.grid(color=theme.GRID, linewidth=0.6)
        _headline(figure, title)

    shown = sorted({round(k * (len(number) - 1) / (ROWS - 1)) for k in range(ROWS)})
    rows = [{"launch": number[at], "took": format_time(1e3 * took[at]), "depth": points["depth"][at]} for at in shown]
    columns = {"launch": "launch", "took": "the call took", "depth": "kernels in the queue"}
    notes = [label, f"{len(shown)} of {case['n']:,} launches; a kernel takes {format_time(1e3 * kernel_us)}"]
    alt = (
        f"Two curves: {title}. From {format_time(1e3 * took[0])} at launch {number[0]} to {format_time(1e3 * took[-1])} at "
        f"launch {number[-1]:,}; a kernel takes {format_time(1e3 * kernel_us)}. Below, kernels in the queue: up to "
        f"{max(points['depth']):,}. {label}"
    )
    return Picture(_drawn(paint, 3.4, nrows=2, sharex=True), alt, Table(rows, columns, title, notes))


def over_time(panels: Sequence[Mapping[str, Mapping[str, Sequence[float]]]], label: str) -> Picture:
    """The SM clock over time, a panel for each span of time, in it one line a state: {"t_ms": …, "mhz": …} by name."""
    title = "The SM clock"
    everything = {name: one for panel in panels for name, one in panel.items()}

    def paint(figure, axes) -> None:
        axes = list(axes) if len(panels) > 1 else [axes]
        highest = max(max(one["mhz"]) for one in everything.values())
        at = 0
        for ax, panel in zip(axes, panels, strict=True):
            for name, one in panel.items():
                style = {"linestyle": ("-", "--", ":")[at % 3], "linewidth": 2.0}
                ax.plot(one["t_ms"], one["mhz"], color=theme.SERIES[at % len(theme.SERIES)], label=name, **style)
                at += 1
            ax.set_ylim(0, 1.12 * highest)
            ax.set_xlabel("ms")
            ax.legend(loc="lower right", fontsize=8.5)
            ax.grid(color=theme.GRID, linewidth=0.6)
        axes[0].set_ylabel("MHz")
        axes[0].set_title(label, fontsize=9, fontweight="normal", color=theme.MUTED)
        _headline(figure, title)

    rows = []
    for name, one in everything.items():
        last = len(one["mhz"]) - 1
        shown = sorted({round(k * last / 7) for k in range(8)})
        rows += [{"state": name, "ms": float(one["t_ms"][at]), "mhz": significant(float(one["mhz"][at]), 4)} for at in shown]
    columns = {"state": "state", "ms": "ms", "mhz": "MHz"}
    alt = f"Curves: {title} over time. " + " ".join(
        f"{name}: from {significant(float(one['mhz'][0]), 4)} to {significant(float(one['mhz'][-1]), 4)} MHz."
        for name, one in everything.items()
    )
    grid = {"ncols": len(panels), "sharey": True} if len(panels) > 1 else {}
    return Picture(_drawn(paint, 2.8, **grid), f"{alt} {label}", Table(rows, columns, title, [label]))


def utilisation(rows: Sequence[Mapping], names: Mapping[str, str], sms: int, label: str) -> Picture:
    """For each workload three shares in percent: the reading, the time in which a kernel ran, the SMs in use."""
    title = "What nvidia-smi calls utilisation, and what it is not"
    bars = {
        "utilisation, as read": [row["utilisation"] for row in rows],
        "time with a kernel": [None if row["busy_share"] is None else 100 * row["busy_share"] for row in rows],
        "SMs in use": [None if row.get("sms_used") is None else 100 * row["sms_used"] / sms for row in rows],
    }
    called = [names.get(row["workload"], row["what"]) for row in rows]

    def paint(figure, axes) -> None:
        for at, (name, values) in enumerate(bars.items()):
            places = [row + 0.27 * (at - 1) for row in range(len(rows))]
            style = {"color": theme.SERIES[at], "hatch": theme.SERIES_HATCHES[at], "edgecolor": theme.INK, "linewidth": 0.5}
            axes.barh(places, [value or 0.0 for value in values], height=0.25, label=name, **style)
            for place, value in zip(places, values, strict=True):
                words = "not known" if value is None else f"{significant(value, 3)} %"
                axes.annotate(words, (value or 0.0, place), xytext=(4, 0), textcoords="offset points", va="center", fontsize=7.5)
        axes.set_yticks(range(len(rows)), called)
        axes.set_ylim(len(rows) - 0.5, -0.6)
        axes.set_xlim(0, 118)
        axes.set_xlabel("%")
        axes.legend(loc="upper center", bbox_to_anchor=(0.4, -0.14), ncols=3, fontsize=8.5)
        axes.set_title(label, fontsize=9, fontweight="normal", color=theme.MUTED)
        _headline(figure, title)

    cells = [
        {"workload": name, **{key: None if v[at] is None else f"{significant(v[at], 3)} %" for key, v in bars.items()}}
        for at, name in enumerate(called)
    ]
    alt = f"Bars: {title}. " + "; ".join(
        f"{row['workload']}: " + ", ".join(f"{key} {row[key] or 'not known'}" for key in bars) for row in cells
    )
    return Picture(_drawn(paint, 1.3 + 0.62 * len(rows)), f"{alt}. {label}", Table(cells, None, title, [label]))


def profiled(lanes: Mapping, title: str, label: str) -> Picture:
    """Steps as a profiler saw them: host and device to scale; calls that wait, and the device's holes, are shaded."""
    host = [(start, start + ns, _short(name), *(["wait"] if "Synchronize" in name else [])) for start, ns, name in lanes["host"]]
    device: list[tuple] = []
    free = 0.0
    for start, ns, name in sorted(lanes["device"]):
        if start > free:
            device.append((free, start, "nothing to run", "wait"))
        device.append((start, start + ns, _short(name)))
        free = max(free, start + ns)
    return figures.timeline(host, device, title=title, source=f"{label}; under a profiler; waits shaded")


def _short(name: str) -> str:
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"
