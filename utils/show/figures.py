"""Every chart of the course, each as a `Picture`: drawing, alt text and table twin, readable without colour.

A figure only draws what it is handed (readings, races, receipts); it measures nothing. Live and recorded numbers are told
apart by hatch, edge and label, and never share an unlabelled axis. matplotlib is imported when a figure is first drawn.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

from utils.model.readings import Race, Reading, Receipt
from utils.model.recordings import receipt_label
from utils.show import catalogue, tables, theme
from utils.show.numbers import TIME_UNITS
from utils.show.picture import Picture, to_svg
from utils.show.tables import Table, format_band, format_ns, format_share

NOT_MEASURED = "not measured here"
HEADLINE = 80  # characters in a line of a headline


def _canvas(height: float, width: float = 7.9, **grid):
    """(matplotlib figure, axes…) outside pyplot, so that nothing is shown twice and nothing piles up."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with matplotlib.rc_context(theme.RC):
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.subplots(**grid)
    return figure, axes


def _drawn(paint, height: float, **grid):
    """A function that draws: makes the canvas, lets `paint(figure, axes)` fill it and returns the SVG text."""

    def draw() -> str:
        import matplotlib

        with matplotlib.rc_context(theme.RC):
            figure, axes = _canvas(height, **grid)
            paint(figure, axes)
            return to_svg(figure)

    return draw


def _ns(value) -> float | None:
    return value.ns if isinstance(value, Reading) else value


def _unit(values: Sequence[float | None]) -> tuple[float, str]:
    """(factor, unit) for an axis: ns while its largest value is below 1,000."""
    largest = max((abs(v) for v in values if v is not None), default=0.0)
    return (1.0, "ns") if largest < 1000 else (1e-3, "µs")


# ------------------------------------------------------------------------------------------------ horizontal bars


class _Row:
    """One bar: its name, its value (ns or another unit), its band, how it is painted, and the text at its end."""

    def __init__(self, name, value, band=None, colour=theme.BLUE, hatch="", edge=theme.INK, text=None):
        self.name, self.value, self.band, self.colour, self.hatch, self.edge, self.text = (
            name,
            value,
            band,
            colour,
            hatch,
            edge,
            text,
        )


def _paint_bars(axes, rows: list[_Row], *, factor: float, unit: str, title: str, log: bool = False, marks=()) -> None:
    shown = [r.value * factor for r in rows if r.value is not None]
    longest = max([*shown, *(m * factor for m, _ in marks)], default=1.0) or 1.0
    tips = [r.band[1] * factor for r in rows if r.band]
    far = max([longest, *(min(tip, 1.5 * longest) for tip in tips)])  # a band may reach out of the figure, not shrink the bars
    for at, row in enumerate(rows):
        if row.value is None:
            axes.text(
                far * 0.01 if not log else min(shown),
                at,
                row.text or NOT_MEASURED,
                va="center",
                color=theme.MUTED,
                style="italic",
            )
            continue
        value = row.value * factor
        axes.barh(at, value, height=0.62, color=row.colour, hatch=row.hatch, edgecolor=row.edge, linewidth=0.6)
        end = value
        if row.band:
            low, high = (b * factor for b in row.band)
            axes.plot([low, high], [at, at], color=theme.INK, linewidth=1.6, solid_capstyle="butt")
            for tip in (low, high):
                axes.plot([tip, tip], [at - 0.14, at + 0.14], color=theme.INK, linewidth=1.0)
            end = max(end, high)
        end = min(max(end, 0.0), far * (6 if log else 1.16))  # a band may reach past the axis; its text must not go with it
        axes.annotate(
            row.text, (end, at), xytext=(5, 0), textcoords="offset points", va="center", fontsize=8.5, annotation_clip=False
        )
    for mark, words in marks:
        axes.axvline(mark * factor, color=theme.PURPLE, linestyle="--", linewidth=1.4)
        axes.annotate(words, (mark * factor, -0.78), color=theme.INK, fontsize=8.5, ha="center", va="top", annotation_clip=False)
    axes.set_yticks(range(len(rows)), [r.name for r in rows])
    axes.set_ylim(len(rows) - 0.4, -0.8)
    axes.set_xlabel(unit)
    if title:
        axes.set_title(title, fontsize=9, fontweight="normal", color=theme.MUTED)
    if log:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set_xlim(min(shown) / 3, far * 6)
    else:
        axes.set_xlim(min([0.0, *shown]) * 1.05, far * 1.16)
    axes.grid(axis="x", color=theme.GRID, linewidth=0.6)
    axes.set_axisbelow(True)


def _headline(figure, title: str) -> None:
    """The figure's title over its whole width, in as many lines as it needs."""
    if title:
        figure.suptitle(textwrap.fill(title, HEADLINE), x=0.01, ha="left", fontsize=11, fontweight="bold")


def _height(rows: int, title: str = "") -> float:
    """Inches for a panel of `rows` bars under a headline of as many lines as it needs."""
    return 0.85 + 0.31 * rows + 0.19 * len(textwrap.wrap(title, HEADLINE))


def bar(
    parts: Mapping[str, float | Reading | None] | Race | Receipt,
    *,
    title: str = "",
    unit: str | None = None,
    guess=None,
    error_ns: float | None = None,
    source: str = "",
) -> Picture:
    """One bar for each named part; a Race gives its variants, a Receipt its groups.

    Plain numbers are ns unless `unit` says otherwise (then they are drawn as given). `error_ns` draws the A/A error as a grey
    bar (a Race brings its own). `guess` (a Guess in the same unit) is marked when it has an answer; `source` says where the
    numbers come from.
    """
    if isinstance(parts, Race):
        return compare(parts, title=title)
    if isinstance(parts, Receipt):
        titles = {**catalogue.groups(parts.device), "context": "context"}
        source = source or receipt_label(parts)
        error_ns = parts.aa_error * parts.total_ns if error_ns is None else error_ns
        ids = list(tables.group_prices(parts))
        colours = [theme.GROUP_COLOURS.get(i, theme.GREY) for i in ids]
        hatches = [theme.GROUP_HATCHES.get(i, "") for i in ids]
        parts = {titles.get(i, i): ns for i, ns in tables.group_prices(parts).items()}
    else:
        colours = [theme.SERIES[i % len(theme.SERIES)] for i in range(len(parts))]
        hatches = [theme.SERIES_HATCHES[i % len(theme.SERIES_HATCHES)] for i in range(len(parts))]

    def written(value) -> str:
        if value is None:
            return NOT_MEASURED
        return format_ns(value) if unit is None else f"{tables.significant(_ns(value))} {unit}"

    rows = [
        _Row(name, _ns(v), v.band if isinstance(v, Reading) else None, c, h, text=written(v))
        for (name, v), c, h in zip(parts.items(), colours, hatches, strict=True)
    ]
    if error_ns is not None:
        rows.append(_Row("same code twice (A/A)", error_ns, None, theme.GREY, text=f"differs by {written(error_ns)}"))
    factor, axis = _unit([r.value for r in rows]) if unit is None else (1.0, unit)

    def guessed() -> float | None:
        """The reader's number in the unit of the bars, once there is one."""
        if guess is None or guess.number is None:
            return None
        if unit is None:
            return guess.number * TIME_UNITS[guess.unit] if guess.unit in TIME_UNITS else None
        return guess.number if guess.unit == unit else None

    def paint(figure, axes) -> None:
        marks = [] if (number := guessed()) is None else [(number, "your guess")]
        _paint_bars(axes, rows, factor=factor, unit=axis, title=source, marks=marks)
        _headline(figure, title)

    table = Table(
        [
            {
                "part": r.name,
                "value": r.text,
                "band": format_band(parts.get(r.name)) if isinstance(parts.get(r.name), Reading) else None,
            }
            for r in rows
        ],
        _trim({"part": "part", "value": "value", "band": "p25–p75"}, rows),
        title,
        [source] if source else [],
    )
    alt = f"Bar chart{f': {title}' if title else ''}. " + "; ".join(f"{r.name} {r.text}" for r in rows) + f". {source}"
    return Picture(_drawn(paint, _height(len(rows), title)), alt, table, changes=guessed)


def _trim(columns: dict, rows: list[_Row]) -> dict:
    """The columns without the band when no row has one."""
    return columns if any(r.band for r in rows) else {k: v for k, v in columns.items() if k != "band"}


def stage_bars(receipt: Receipt, beside: Receipt | None = None, *, group: str | None = None, title: str = "") -> Picture:
    """The price of each stage with its p25–p75 band, then context and, in grey, the A/A error of the same run.

    `group` shows the stages of one group; a stage that was not measured says so. `beside` draws a second receipt in a panel of
    its own, with its own axis and label.
    """
    receipts = [receipt, *([beside] if beside is not None else [])]
    panels = [_stage_rows(r, group) for r in receipts]
    group_title = f": {catalogue.groups(receipt.device)[group]}" if group else ""
    heading = title or f"What each stage of {receipt.op} costs{group_title}"

    def paint(figure, axes) -> None:
        axes = list(axes) if len(receipts) > 1 else [axes]
        for ax, one, rows in zip(axes, receipts, panels, strict=True):
            factor, unit = _unit([r.value for r in rows])
            _paint_bars(ax, rows, factor=factor, unit=unit, title=receipt_label(one))
        _headline(figure, heading)

    alt = f"{heading}. " + " ".join(
        f"{receipt_label(one)}: " + "; ".join(f"{r.name} {r.text}" for r in rows) + "."
        for one, rows in zip(receipts, panels, strict=True)
    )
    table = tables.receipt_table(receipt, beside, group)
    height = sum(_height(len(rows)) for rows in panels) + _height(0, heading) - _height(0)
    grid = {"nrows": len(panels), "height_ratios": [len(p) + 2 for p in panels]} if len(panels) > 1 else {}
    return Picture(_drawn(paint, height, **grid), alt, table)


def _stage_rows(receipt: Receipt, group: str | None) -> list[_Row]:
    rows = []
    live = receipt.source == "live"
    for stage in receipt.stages:
        of = catalogue.group_of(stage.stage)
        if group and of != group:
            continue
        text = (
            NOT_MEASURED if stage.isolate is None else f"{format_ns(stage.isolate)} · {format_share(stage.ns, receipt.total_ns)}"
        )
        rows.append(
            _Row(
                catalogue.title(stage.stage, receipt.device),
                stage.ns,
                stage.isolate.band if stage.isolate else None,
                theme.GROUP_COLOURS.get(of, theme.GREY),
                theme.GROUP_HATCHES.get(of, "") if live else "",
                theme.INK if live else theme.MUTED,
                text,
            )
        )
    if not rows:
        raise ValueError(f"this receipt has no stage in the group {group!r}; groups: {list(catalogue.groups())}")
    if not group:
        share = format_share(receipt.context_ns, receipt.total_ns)
        rows.append(
            _Row(
                "context",
                receipt.context_ns,
                None,
                theme.GROUP_COLOURS["context"],
                text=f"{format_ns(receipt.context_ns)} · {share}",
            )
        )
    error = receipt.aa_error * receipt.total_ns
    rows.append(_Row("same code twice (A/A)", error, None, theme.GREY, text=f"differs by {format_ns(error)}"))
    return rows


def compare(race: Race, *, title: str = "", truth: str | None = None, source: str = "") -> Picture:
    """The variants of one race as bars with their bands; the A/A pair is grey. `truth` is the variant the others should equal.

    The axis is logarithmic, and says so, when the prices differ by more than thirty times.
    """
    again = race.control[1]
    values = [r.ns for r in race.readings.values()]
    positive = [v for v in values if v > 0]
    log = len(positive) == len(values) and max(positive) > 30 * min(positive)
    rows = []
    for at, (name, reading) in enumerate(r for r in race.readings.items() if r[0] != again):
        text = format_ns(reading)
        if truth and name != truth and race.readings[truth].ns > 0 and reading.ns > 0:
            seen = race.difference(truth, name).seen
            text += f" · {tables.significant(race.ratio(truth, name), 2)}× {truth}" if seen else " · no difference seen"
        colour, hatch = theme.SERIES[at % len(theme.SERIES)], theme.SERIES_HATCHES[at % len(theme.SERIES_HATCHES)]
        if truth:
            colour, hatch = (theme.GREEN, "") if name == truth else (theme.VERMILION, "///")
        rows.append(_Row(name, reading.ns, reading.band, colour, hatch, text=text))
    twin = race.readings[again]
    rows.append(
        _Row(
            again,
            twin.ns,
            twin.band,
            theme.GREY,
            text=f"{format_ns(twin)} · A/A error {tables.significant(100 * race.aa_error, 2)} %",
        )
    )
    factor, unit = _unit([r.value for r in rows])
    axis = f"{unit} a call, {race.clock} clock" + (", logarithmic axis" if log else "")

    def paint(figure, axes) -> None:
        _paint_bars(axes, rows, factor=factor, unit=axis, title=source, log=log)
        _headline(figure, title)

    alt = f"Bar chart{f': {title}' if title else ''}. " + "; ".join(f"{r.name} {r.text}" for r in rows) + "."
    table = tables.race_table(race, truth, title)
    return Picture(_drawn(paint, _height(len(rows), title)), alt, table)


# ------------------------------------------------------------------------------------------------ the strip


def price_strip(lit: Sequence[str] = (), receipt: Receipt | None = None, *, to_scale: bool = True) -> Picture:
    """One add as a thin strip, its stages in running order, the groups in `lit` coloured and the rest grey.

    Without `receipt` the best recording is used and labelled. `to_scale=False` gives every stage the same width and no number:
    for lessons that ask for these numbers further down; it needs no recording. ValueError for an unknown group, LookupError
    where there is neither a receipt nor a recording to be to scale with.
    """
    known = catalogue.groups(receipt.device if receipt else "cpu")
    unknown = [g for g in lit if g not in known]
    if unknown:
        raise ValueError(f"no such group of stages: {unknown}; there are {list(known)}")
    if receipt is None and to_scale:
        receipt = recorded_receipt("cpu")
    pieces, missing = _pieces(receipt) if receipt else ([(s.title, s.group, 1.0) for s in catalogue.stages().values()], [])
    widths = [ns if to_scale else 1.0 for _, _, ns in pieces]
    whole = sum(widths)

    def paint(figure, axes) -> None:
        left = 0.0
        for (_, group, _), width in zip(pieces, widths, strict=True):
            on = group in lit
            axes.barh(
                0,
                width,
                left=left,
                height=1,
                color=theme.GROUP_COLOURS.get(group, theme.GREY) if on else "#ECEFF2",
                hatch=theme.GROUP_HATCHES.get(group, "") if on else "",
                edgecolor=theme.INK if on else theme.GREY,
                linewidth=0.5,
            )
            left += width
        taken: list[tuple[float, float]] = []
        runs = _runs(pieces, widths)
        for group, (start, end) in sorted(runs, key=lambda run: (run[0] not in lit, run[0] == "context")):
            on = group in lit
            name = {**known, "context": "context"}.get(group, group)
            half = len(name) * (0.0046 if on else 0.0043) * whole
            middle = min(max((start + end) / 2, half), whole - half)
            if all(middle + half < low or middle - half > high for low, high in taken):
                taken.append((middle - half, middle + half))
                weight, colour = ("bold", theme.INK) if on else ("normal", theme.MUTED)
                axes.text(middle, -0.62, name, ha="center", va="top", fontsize=8, color=colour, fontweight=weight)
        axes.set_xlim(0, whole)
        axes.set_ylim(-1.5, 0.55)
        axes.axis("off")

    named = [known[g] for g in lit] or ["no part"]
    order = ", ".join(f"{title}{f' {format_ns(ns)}' if to_scale else ''}" for title, _, ns in pieces)
    op = receipt.op if receipt else "a + b"
    alt = f"Strip of one {op} with {', '.join(named)} lit. From left to right: {order}."
    if missing:
        alt += f" Not measured: {', '.join(missing)}."
    rows = [
        {
            "stage": title,
            "group": {**known, "context": ""}.get(group, group),
            "today": "◀ this lesson" if group in lit else "",
            **({"price": format_ns(ns)} if to_scale else {}),
        }
        for title, group, ns in pieces
    ]
    label = [receipt_label(receipt)] if receipt else []
    scale = f"to scale: {format_ns(receipt.end_to_end)} from end to end" if to_scale else "not to scale"
    return Picture(
        _drawn(paint, 0.62),
        alt,
        Table(rows, caption=f"One {op}, stage by stage", notes=label),
        " · ".join([f"One {op}, {scale}", *label]),
    )


def _pieces(receipt: Receipt) -> tuple[list[tuple[str, str, float]], list[str]]:
    """(title, group, ns) of each stage that was measured, and of a context above 0; the titles of those that were not."""
    pieces = [
        (catalogue.title(s.stage, receipt.device), catalogue.group_of(s.stage), s.ns) for s in receipt.stages if s.ns is not None
    ]
    if receipt.context_ns > 0:
        pieces.append(("context", "context", receipt.context_ns))
    return pieces, [catalogue.title(s.stage, receipt.device) for s in receipt.stages if s.ns is None]


def _runs(pieces, widths) -> list[tuple[str, tuple[float, float]]]:
    """Neighbouring pieces of one group joined: [(group, (start, end)), …]."""
    runs: list[tuple[str, tuple[float, float]]] = []
    left = 0.0
    for (_, group, _), width in zip(pieces, widths, strict=True):
        if runs and runs[-1][0] == group:
            runs[-1] = (group, (runs[-1][1][0], left + width))
        else:
            runs.append((group, (left, left + width)))
        left += width
    return runs


def recorded_receipt(kind: str = "cpu", grad: bool = False) -> Receipt:
    """The receipt of the best recording for "cpu" or "cuda". Raises LookupError, in words, where there is none."""
    from utils.model import recordings

    recording = recordings.best(kind)
    receipt = recording.receipt(kind, grad) if recording is not None else None
    if receipt is None:
        raise LookupError(f"no recording holds a receipt of {kind}{' with grad' if grad else ''}: `make record` makes one")
    return receipt


# ------------------------------------------------------------------------------------------------ curves, ladder, lanes


Points = Sequence[tuple[int, Reading]]


def curve(
    in_program: Points | Mapping[str, Points],
    recorded: Mapping[str, Points] | Points | None = None,
    *,
    title: str = "",
    x: str = "other ops run in between",
    source: str = "measured here",
    recorded_source: str = "recorded",
) -> Picture:
    """The price of one add after N other ops: points with their p25–p75 band, one marker and dash a series.

    `recorded` is drawn in a panel of its own with its own axis, titled `recorded_source`.
    """

    def named(points, name):
        return dict(points) if isinstance(points, Mapping) else {name: points}

    panels = [(source, named(in_program, "a + b"))]
    if recorded:
        panels.append((recorded_source, named(recorded, "a + b")))
    for where, series in panels:
        if not series or not all(series.values()):
            raise ValueError(f"no points to draw for {where!r}")

    def paint(figure, axes) -> None:
        axes = list(axes) if len(panels) > 1 else [axes]
        for ax, (where, series) in zip(axes, panels, strict=True):
            factor, unit = _unit([r.p75 for points in series.values() for _, r in points])
            for at, (name, points) in enumerate(series.items()):
                colour = theme.SERIES[at % len(theme.SERIES)]
                xs = [n for n, _ in points]
                ax.fill_between(
                    xs,
                    [r.ns * factor for _, r in points],
                    [r.p75 * factor for _, r in points],
                    color=colour,
                    alpha=0.22,
                    linewidth=0,
                )
                ax.plot(
                    xs,
                    [r.ns * factor for _, r in points],
                    color=colour,
                    marker=theme.MARKERS[at % len(theme.MARKERS)],
                    linestyle=("-", "--", ":", "-.")[at % 4],
                    markersize=4.5,
                    label=name,
                )
            ax.set_ylim(bottom=0)
            ax.set_xlabel(x)
            ax.set_ylabel(f"{unit} an add")
            ax.set_title(textwrap.fill(where, 92 // len(panels)), fontsize=9, fontweight="normal", color=theme.MUTED)
            ax.grid(color=theme.GRID, linewidth=0.6)
            if len(series) > 1:
                ax.legend()
        _headline(figure, title)

    rows = [
        {"where": where, "series": name, "n": n, "price": reading, "band": format_band(reading)}
        for where, series in panels
        for name, points in series.items()
        for n, reading in points
    ]
    table = Table(
        rows, {"where": "where", "series": "series", "n": x, "price": "price", "band": "p25–p75"}, title or f"Price against {x}"
    )
    alt = f"Curve{f': {title}' if title else ''} of the price of one add against {x}. " + " ".join(
        f"{where}, {name}: " + ", ".join(f"{format_ns(r)} at {n}" for n, r in points) + "."
        for where, series in panels
        for name, points in series.items()
    )
    grid = {"ncols": len(panels)} if len(panels) > 1 else {}
    return Picture(_drawn(paint, 3.0, **grid), alt, table)


def ladder(receipt: Receipt, *, title: str = "") -> Picture:
    """The same add entered at lower and lower doors, from Python to the kernel; the table twin sets steps beside isolates."""
    if not receipt.ladder:
        raise ValueError("this receipt has no ladder: it was measured without the compiled probe")
    rows = []
    for at, rung in enumerate(receipt.ladder):
        text = format_ns(rung)
        if at:
            step = rung.ns - receipt.ladder[at - 1].ns
            error = max(receipt.aa_error, 0.005) * max(rung.ns, receipt.ladder[at - 1].ns)
            text += (
                f" · {format_ns(abs(step))} {'below' if step < 0 else 'above'} the rung above"
                if abs(step) > error
                else " · no difference seen"
            )
        rows.append(
            _Row(rung.name, rung.ns, rung.band, theme.BLUE, theme.SERIES_HATCHES[at % len(theme.SERIES_HATCHES)], text=text)
        )
    error = receipt.aa_error * receipt.total_ns
    rows.append(_Row("same code twice (A/A)", error, None, theme.GREY, text=f"differs by {format_ns(error)}"))
    factor, unit = _unit([r.value for r in rows])
    heading = title or "The ladder down to the kernel"

    def paint(figure, axes) -> None:
        _paint_bars(axes, rows, factor=factor, unit=f"{unit} a call", title=receipt_label(receipt))
        _headline(figure, heading)
        axes.set_xlim(right=max(r.value * factor for r in rows) * 1.55)

    if receipt.ladder_groups:
        table = Table(
            [
                {
                    "step": g.name,
                    "from": g.upper,
                    "to": g.lower,
                    "difference": format_ns(g.difference_ns),
                    "isolates": format_ns(g.isolates_ns),
                    "allowed": format_ns(g.allowed_ns),
                    "agrees": g.agrees,
                }
                for g in receipt.ladder_groups
            ],
            {
                "step": "step",
                "from": "from",
                "to": "to",
                "difference": "by difference",
                "isolates": "sum of its stages",
                "allowed": "allowed gap",
                "agrees": "agrees",
            },
            "Each step of the ladder beside the stages that should fill it",
            [receipt_label(receipt)],
        )
    else:
        table = Table([{"rung": r.name, "price": r.text} for r in rows], caption=heading)
    alt = f"{heading}. " + "; ".join(f"{r.name} {r.text}" for r in rows) + "."
    return Picture(_drawn(paint, _height(len(rows), heading)), alt, table)


Span = tuple  # (start ns, end ns, label) or (start ns, end ns, label, kind); kind "wait" is drawn as a shaded gap


def timeline(host_lane: Sequence[Span], device_lane: Sequence[Span], *, title: str = "", source: str = "") -> Picture:
    """Two lanes to scale: what the host does and what the device does; spans of kind "wait" are shaded gaps.

    Spans are (start, end, label[, kind]) in ns from a common zero.
    """
    lanes = [("host", list(host_lane)), ("device", list(device_lane))]
    ends = [span[1] for _, spans in lanes for span in spans]
    if not ends:
        raise ValueError("a timeline needs at least one span")
    factor, unit = _unit(ends)
    far = max(ends) * factor
    labels = list(dict.fromkeys(s[2] for _, spans in lanes for s in spans if (s[3] if len(s) > 3 else "") != "wait"))

    def paint(figure, axes) -> None:
        for at, (_, spans) in enumerate(lanes):
            for span in spans:
                start, end, label = span[0] * factor, span[1] * factor, span[2]
                wait = len(span) > 3 and span[3] == "wait"
                index = labels.index(label) if not wait else 0
                axes.barh(
                    at,
                    end - start,
                    left=start,
                    height=0.6,
                    color="#F3F4F6" if wait else theme.SERIES[index % len(theme.SERIES)],
                    hatch="////" if wait else theme.SERIES_HATCHES[index % len(theme.SERIES_HATCHES)],
                    edgecolor=theme.GREY if wait else theme.INK,
                    linewidth=0.5,
                )
                if (end - start) / far > 0.012 * len(label):
                    axes.text(
                        (start + end) / 2,
                        at,
                        label,
                        ha="center",
                        va="center",
                        fontsize=8,
                        color=theme.INK,
                        bbox={"facecolor": theme.CARD, "edgecolor": "none", "pad": 1.2, "alpha": 0.9},
                    )
        axes.set_yticks(range(len(lanes)), [name for name, _ in lanes])
        axes.set_ylim(len(lanes) - 0.5, -0.5)
        axes.set_xlim(0, far * 1.02)
        axes.set_xlabel(unit)
        if source:
            axes.set_title(source, fontsize=9, fontweight="normal", color=theme.MUTED)
        _headline(figure, title)

    rows = [
        {
            "lane": name,
            "what": s[2] + (" (waiting)" if len(s) > 3 and s[3] == "wait" else ""),
            "start": format_ns(float(s[0])),
            "lasts": format_ns(float(s[1] - s[0])),
        }
        for name, spans in lanes
        for s in spans
    ]
    busy = {name: sum(s[1] - s[0] for s in spans if not (len(s) > 3 and s[3] == "wait")) for name, spans in lanes}
    alt = (
        f"Timeline{f': {title}' if title else ''} over {format_ns(float(max(ends)))}. "
        + " ".join(f"The {name} works {format_ns(float(ns))}." for name, ns in busy.items())
        + f" {source}"
    )
    return Picture(
        _drawn(paint, 2.0 if source else 1.75),
        alt,
        Table(rows, caption=title or "Timeline", notes=[source] if source else []),
        source,
    )
