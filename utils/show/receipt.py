"""The flagship figure: what one `c = a + b` costs, row by row and to scale, drawn from recordings (and the reader's rows).

`build()` reads `utils/recordings` and writes `figures/receipt-light.svg`, `receipt-dark.svg` and the table twin `receipt.md`.
`figure(rows)` is the same drawing for a notebook. Every bar carries its nanoseconds in `data-ns`, each row its recording in
`data-recording`, so that a test can hold the figure against the recordings. A row whose numbers were not recorded is left
out, and a sentence under the figure says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from utils import paths
from utils.model.readings import Receipt
from utils.model.recordings import receipt_label
from utils.show import catalogue, theme
from utils.show.picture import Picture
from utils.show.tables import Table, format_ns, format_share

WIDTH, LEFT, RIGHT = 860, 52, 14  # SVG units; GitHub shows a README about 850 CSS pixels wide
BAR, LINE = 26, 15
INNER = WIDTH - LEFT - RIGHT
TITLE, SMALL = 14.0, 11.5
CHARACTER = 0.58  # width of an average character in font sizes, of the widest font that may be used


@dataclass(frozen=True)
class Segment:
    """A piece of a lane: `ns` long, starting at `start` (ns from the row's zero). `part` is a stage id or a word like "wait"."""

    part: str
    group: str
    title: str
    start: float
    ns: float


@dataclass(frozen=True)
class Lane:
    name: str
    segments: tuple[Segment, ...]


@dataclass(frozen=True)
class Row:
    """One row of the receipt: a heading, lanes, one sentence, where its numbers come from."""

    id: str
    heading: str
    lanes: tuple[Lane, ...]
    total_ns: float
    sentence: str
    label: str
    recording: str = ""
    magnify: bool = False
    missing: tuple[str, ...] = field(default=())


# ------------------------------------------------------------------------------------------------ rows from receipts


def rows_of(receipt: Receipt, *, recording: str = "", who: str = "") -> list[Row]:
    """The rows that a receipt can fill: hot and in a program for a CPU; host and device lanes, and captured, for a GPU."""
    prefix = f"{who} · " if who else ""
    make = _gpu_rows if receipt.device == "cuda" else _cpu_rows
    return make(receipt, recording, prefix)


def _stage_segments(receipt: Receipt) -> tuple[Segment, ...]:
    """The stages one after the other, then what no stage explains; the addition (or its launch) before the context."""
    out, at = [], 0.0
    for stage in receipt.stages:
        if stage.ns is None:
            continue
        group, title = catalogue.group_of(stage.stage), catalogue.title(stage.stage, receipt.device)
        if stage.stage == "kernel":  # on a GPU the host only launches it; the addition runs in the other lane
            group, title = ("launch", title) if receipt.device == "cuda" else (group, "the addition itself")
        out.append(Segment(stage.stage, group, title, at, stage.ns))
        at += stage.ns
    if receipt.context_ns > 0:
        out.append(Segment("context", "context", "context", at, receipt.context_ns))
    return tuple(out)


def _missing(receipt: Receipt) -> tuple[str, ...]:
    return tuple(catalogue.title(s.stage, receipt.device) for s in receipt.stages if s.ns is None)


def _cpu_rows(receipt: Receipt, recording: str, prefix: str) -> list[Row]:
    label, total = receipt_label(receipt), receipt.total_ns
    kernel = next((s.ns for s in receipt.stages if s.stage == "kernel"), None)
    share = "" if kernel is None else f"The addition itself is {format_share(kernel, total)} of it."
    over = receipt.stage_sum_ns - total
    if over > 0:
        share += f" The stages add up to {format_ns(over)} more than the whole."
    rows = [
        Row(
            "cpu_hot",
            f"{prefix}on the CPU, hot: {format_ns(total)}",
            (Lane("host", _stage_segments(receipt)),),
            max(total, total + over),
            share.strip(),
            label,
            recording,
            magnify=True,
            missing=_missing(receipt),
        )
    ]
    if receipt.in_program:
        n, reading = receipt.in_program[-1]
        segments = [Segment("hot", "hot", "as much as hot", 0.0, min(total, reading.ns))]
        if reading.ns > total:
            segments.append(Segment("cold", "cold", "more, after other ops", total, reading.ns - total))
        rows.append(
            Row(
                "cpu_in_program",
                f"{prefix}the same add after {n} other ops: {format_ns(reading)}",
                (Lane("host", tuple(segments)),),
                reading.ns,
                f"{reading.ns / total:.1f} times the hot price: a price has a context.",
                label,
                recording,
            )
        )
    return rows


def _gpu_rows(receipt: Receipt, recording: str, prefix: str) -> list[Row]:
    label, total = receipt_label(receipt), receipt.total_ns
    times = receipt.device_time
    kernel, captured, replay = (times.get(name) for name in ("kernel", "captured per node", "replay host"))
    period = times["period"].ns if "period" in times else total
    host = Lane("host", _stage_segments(receipt))
    lanes, sentence = [host], "The kernel's own time was not recorded."
    if kernel is not None:
        wait = max(0.0, period - kernel.ns)
        lanes.append(
            Lane(
                "GPU",
                (Segment("wait", "wait", "the GPU waits", 0.0, wait), Segment("gpu_kernel", "kernel", "kernel", wait, kernel.ns)),
            )
        )
        sentence = (
            f"The GPU works {format_ns(kernel)} of each {format_ns(period)} and waits for {format_share(wait, period)} of it."
        )
    rows = [
        Row(
            "gpu",
            f"{prefix}on a GPU, one add after the other: {format_ns(total)}",
            tuple(lanes),
            max(total, receipt.stage_sum_ns, period),
            sentence,
            label,
            recording,
            missing=_missing(receipt),
        )
    ]
    if captured is not None:
        count = max(1, int(total // captured.ns))
        nodes = tuple(Segment("captured", "kernel", "add", i * captured.ns, captured.ns) for i in range(count))
        many = f"{count} adds fit in the time of one" if count > 1 else "no more than one add fits in that time"
        host_part = f" The host pays {format_ns(replay)} for a replay of 100." if replay is not None else ""
        rows.append(
            Row(
                "gpu_captured",
                f"{prefix}captured in a CUDA graph: {format_ns(captured)} an add",
                (Lane("GPU", nodes),),
                captured.ns,
                f"Replayed from a graph, {many}.{host_part}",
                label,
                recording,
            )
        )
    return rows


WANTED = {
    "cpu_hot": "the CPU, hot",
    "cpu_in_program": "the CPU in a program",
    "gpu": "a GPU with its host",
    "gpu_captured": "the GPU with the add captured in a graph",
}


def recorded_rows() -> tuple[list[Row], list[str]]:
    """(rows from the best recordings of a CPU and of a GPU, one sentence for each row that is missing)."""
    from utils.model import recordings

    rows = []
    for kind in ("cpu", "cuda"):
        recording = recordings.best(kind)
        if recording is not None and kind in recording.receipts:
            rows += rows_of(recording.receipts[kind], recording=recording.stem)
    have = {row.id for row in rows}
    return rows, [
        f"The row for {words} is left out: it has not been recorded yet." for id, words in WANTED.items() if id not in have
    ]


# ------------------------------------------------------------------------------------------------ the drawing


@dataclass(frozen=True)
class _Paint:
    ink: str
    muted: str
    line: str
    fills: dict[str, str]
    hatch: str
    plate: str


_LIGHT_EXTRA = {"launch": theme.BLUE, "hot": "#C9D1D9", "cold": "#E4EBF1", "wait": "none"}
_LIGHT = _Paint("#1B1F24", "#57606A", "#57606A", {**theme.GROUP_COLOURS, **_LIGHT_EXTRA}, "#1B1F24", "#FFFFFF")
_DARK = _Paint(
    "#E6EDF3",
    "#9DA7B1",
    "#9DA7B1",
    {
        "front_end": "#C98500",
        "dispatch": "#4A9FD0",
        "shapes": "#00926A",
        "output": "#CFC63A",
        "kernel": "#FF6A1F",
        "context": "#3A424B",
        "launch": "#3B8FD4",
        "hot": "#59636E",
        "cold": "#2E3B47",
        "wait": "none",
    },
    "#0D1117",
    "#0D1117",
)

_HATCH = {
    "front_end": '<path d="M0 6L6 0" />',
    "dispatch": '<path d="M0 0L6 6" />',
    "shapes": '<path d="M3 0V6" />',
    "output": '<path d="M0 6L6 0M0 0L6 6" />',
    "cold": '<path d="M0 3H6" />',
    "wait": '<path d="M-1 7L7 -1" />',
}


def svg(rows: Sequence[Row], *, dark: bool = False, left_out: Sequence[str] = ()) -> str:
    """The whole figure as SVG text: no script, no font file, no date; the same rows give the same bytes."""
    if not rows:
        raise ValueError("the receipt has no rows: nothing was recorded")
    paint = _DARK if dark else _LIGHT
    scale = INNER / max(_extent(row) for row in rows)
    body: list[str] = []
    y = _head(body, scale, paint)
    for number, row in enumerate(rows, 1):
        y = _row(body, row, number, y, scale, paint)
    for sentence in left_out:
        body.append(_text(LEFT, y + 12, sentence, paint.muted, SMALL, style="italic"))
        y += 18
    height = round(y + 6)
    tone = "dark" if dark else "light"
    patterns = "".join(
        f'<pattern id="{tone}-{group}" width="6" height="6" patternUnits="userSpaceOnUse">'
        f'<g stroke="{paint.muted if group == "wait" else paint.hatch}" stroke-width="0.8" '
        f'stroke-opacity="{0.9 if group == "wait" else 0.45}" fill="none">{mark}</g></pattern>'
        for group, mark in _HATCH.items()
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" '
        f'aria-label="{escape(alt(rows, left_out), quote=True)}" font-family="-apple-system, \'Segoe UI\', Helvetica, Arial, '
        f'\'DejaVu Sans\', sans-serif" data-scale="{scale:.6f}" data-tone="{tone}"><defs>{patterns}</defs>\n'
        + "\n".join(body)
        + "\n</svg>\n"
    )


def _extent(row: Row) -> float:
    return max(s.start + s.ns for lane in row.lanes for s in lane.segments)


def _head(body: list[str], scale: float, paint: _Paint) -> float:
    """The title and the scale bar; returns the next free y."""
    body.append(_text(LEFT, 22, "c = a + b, one element: where the time goes", paint.ink, 17, weight="bold"))
    unit = next((u for u in (100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0) if u * scale >= 70), 10000.0)
    x = WIDTH - RIGHT - unit * scale
    body.append(f'<path d="M{x:.2f} 12v8M{x:.2f} 16H{WIDTH - RIGHT}M{WIDTH - RIGHT} 12v8" stroke="{paint.line}" fill="none" />')
    body.append(_text(x - 6, 20, f"to scale: {format_ns(unit, 1)}", paint.muted, SMALL, anchor="end"))
    return 46.0


def _row(body: list[str], row: Row, number: int, y: float, scale: float, paint: _Paint) -> float:
    body.append(f'<g data-row="{row.id}" data-recording="{escape(row.recording)}" data-total-ns="{row.total_ns:.3f}">')
    body.append(_text(LEFT, y, f"{number} · {row.heading}", paint.ink, TITLE, weight="bold"))
    y += 16
    body.append(_text(LEFT, y, row.label, paint.muted, SMALL))
    y += 8
    if row.magnify:
        y = _magnified(body, row, y, scale, paint)
    for lane in row.lanes:
        body.append(_text(LEFT - 8, y + BAR / 2 + 4, lane.name, paint.muted, SMALL, anchor="end"))
        for segment in lane.segments:
            body.append(_rect(segment, LEFT + segment.start * scale, y, segment.ns * scale, BAR, paint))
            if not row.magnify:
                _inside(body, segment, y, scale, paint)
        y += BAR + 5
    if not row.magnify and len(row.lanes) > 1:
        y = _small_names(body, row.lanes[0], y, scale, paint)
    missing = f" Not measured: {', '.join(row.missing)}." if row.missing else ""
    body.append(_text(LEFT, y + 10, row.sentence + missing, paint.ink, 12.5))
    body.append("</g>")
    return y + 38


def _rect(segment: Segment, x: float, y: float, width: float, height: float, paint: _Paint, *, data: bool = True) -> str:
    tone = "dark" if paint is _DARK else "light"
    marks = f' data-part="{segment.part}" data-ns="{segment.ns:.3f}" data-start-ns="{segment.start:.3f}"' if data else ""
    dash = ' stroke-dasharray="3 3"' if segment.group in ("wait", "context") else ""
    box = f'x="{x:.2f}" y="{y:.1f}" width="{width:.2f}" height="{height}"'
    style = f'fill="{paint.fills.get(segment.group, paint.muted)}" stroke="{paint.line}" stroke-width="0.6"'
    out = f"<rect {box} {style}{dash}{marks}><title>{escape(_named(segment))}</title></rect>"
    if segment.group in _HATCH:
        out += f'<rect {box} fill="url(#{tone}-{segment.group})" pointer-events="none" />'
    return out


def _named(segment: Segment) -> str:
    return f"{segment.title} {format_ns(segment.ns)}"


def _inside(body: list[str], segment: Segment, y: float, scale: float, paint: _Paint) -> None:
    """The segment's name inside its bar, on a plate, when it fits."""
    for words in (_named(segment), segment.title):
        width = _wide(words, SMALL)
        if width + 12 <= segment.ns * scale:
            x = LEFT + (segment.start + segment.ns / 2) * scale
            box = f'x="{x - width / 2 - 3:.2f}" y="{y + 5:.1f}" width="{width + 6:.2f}" height="16" rx="3"'
            body.append(f'<rect {box} fill="{paint.plate}" fill-opacity="0.88" />')
            body.append(_text(x, y + 17, words, paint.ink, SMALL, anchor="middle"))
            return


def _magnified(body: list[str], row: Row, y: float, scale: float, paint: _Paint) -> float:
    """The row's lane stretched over the whole width, its names above it, joined to the bar to scale below it."""
    lane = row.lanes[0]
    extent = _extent(row)
    wide = INNER / extent
    if wide / scale < 1.15:
        wide = scale
    places = _places([(LEFT + (s.start + s.ns / 2) * wide, _named(s)) for s in lane.segments])
    lines = max(place.level for place in places)
    top = y + LINE * (lines + 1) + 4
    for segment, place in zip(lane.segments, places, strict=True):
        at = y + LINE * (lines - place.level) + 10
        strong = "bold" if segment.part == "kernel" else ""
        side = "end" if place.x - place.left > place.right - place.x else ""
        x = place.right if side else place.left
        body.append(f'<path d="M{place.x:.2f} {at + 3:.1f}V{top:.1f}" stroke="{paint.line}" stroke-width="0.6" fill="none" />')
        body.append(_text(x, at, _named(segment), paint.ink, SMALL, anchor=side, weight=strong))
        body.append(_rect(segment, LEFT + segment.start * wide, top, segment.ns * wide, BAR + 4, paint, data=False))
    y = top + BAR + 4
    if wide == scale:
        return y
    end, bottom = LEFT + extent * scale, y + 22
    body.append(
        f'<path d="M{LEFT} {y:.1f}L{LEFT} {bottom:.1f}M{LEFT + extent * wide:.2f} {y:.1f}L{end:.2f} {bottom:.1f}" '
        f'stroke="{paint.line}" stroke-width="0.6" stroke-dasharray="2 3" fill="none" />'
    )
    body.append(_text(LEFT + 8, y + 15, f"above: the same, magnified {wide / scale:.1f} times", paint.muted, SMALL))
    return bottom


def _small_names(body: list[str], lane: Lane, y: float, scale: float, paint: _Paint) -> float:
    """One line that names the pieces of a lane that are too narrow to carry their names."""
    narrow = [s for s in lane.segments if _wide(s.title, SMALL) + 12 > s.ns * scale]
    if not narrow:
        return y
    line, lines = "", []
    for words in [f"{_named(s)}" for s in narrow]:
        joined = f"{line} · {words}" if line else words
        if _wide(joined, SMALL) > INNER:
            lines.append(line)
            joined = words
        line = joined
    for text in [*lines, line]:
        body.append(_text(LEFT, y + 9, text, paint.muted, SMALL))
        y += 15
    return y + 3


@dataclass(frozen=True)
class _Place:
    """Where a name stands: its leader's x, the text's left and right end, its line (0 is nearest the bar)."""

    x: float
    left: float
    right: float
    level: int

    def covers(self, x: float) -> bool:
        """True when a leader at `x` would run through this name."""
        return self.left - 4 < x < self.right + 4


def _places(names: list[tuple[float, str]]) -> list[_Place]:
    """A place for each name: up to some name the text stands right of its leader, from there on left of it, like a V.

    Of all such turning points the one that needs the fewest lines is taken.
    """
    shapes = [shape for turn in range(len(names) + 1) if (shape := _v_shape(names, turn))]
    return min(shapes, key=lambda places: max(p.level for p in places))


def _v_shape(names: list[tuple[float, str]], turn: int) -> list[_Place] | None:
    """The places when the names before `turn` stand right of their leaders and the others left; None when that cannot be.

    A name must be on a higher line than every name whose leader it covers; it cannot be when two cover each other's.
    """
    flat = []
    for at, (x, words) in enumerate(names):
        width = _wide(words, SMALL)
        left = x - 3 if at < turn else x - width + 3
        flat.append(_Place(x, max(2.0, min(left, WIDTH - 2 - width)), max(2.0, min(left, WIDTH - 2 - width)) + width, 0))
    placed: dict[int, _Place] = {}
    while len(placed) < len(flat):
        free = [
            i
            for i, p in enumerate(flat)
            if i not in placed and all(j in placed or j == i or not p.covers(q.x) for j, q in enumerate(flat))
        ]
        if not free:
            return None
        for i in free:
            p = flat[i]
            level = max((q.level + 1 for q in placed.values() if p.covers(q.x)), default=0)
            while any(q.level == level and p.left - 8 < q.right and q.left - 8 < p.right for q in placed.values()):
                level += 1
            placed[i] = _Place(p.x, p.left, p.right, level)
    return [placed[i] for i in range(len(flat))]


def _wide(words: str, size: float) -> float:
    return len(words) * size * CHARACTER


def _text(x: float, y: float, words: str, fill: str, size: float, *, anchor: str = "", weight: str = "", style: str = "") -> str:
    extra = "".join(
        f' {name}="{value}"' for name, value in (("text-anchor", anchor), ("font-weight", weight), ("font-style", style)) if value
    )
    return f'<text x="{x:.2f}" y="{y:.1f}" font-size="{size}" fill="{fill}"{extra}>{escape(words)}</text>'


# ------------------------------------------------------------------------------------------------ alt text, table, files


def alt(rows: Sequence[Row], left_out: Sequence[str] = ()) -> str:
    """The figure in words: each row's heading, its pieces, its sentence and where it comes from."""
    words = ["What one c = a + b costs, to scale."]
    for row in rows:
        pieces = ", ".join(_named(s) for s in row.lanes[0].segments) if row.id in ("cpu_hot", "gpu") else ""
        words.append(f"{row.heading}{f' ({pieces})' if pieces else ''}. {row.sentence} {row.label}.")
    return " ".join([*words, *left_out])


def table(rows: Sequence[Row], left_out: Sequence[str] = ()) -> Table:
    """The table twin: a line for each piece of each lane; repeated pieces (a replayed node) once."""
    out = []
    for row in rows:
        for lane in row.lanes:
            for part in dict.fromkeys(s.part for s in lane.segments):
                segment = next(s for s in lane.segments if s.part == part)
                out.append(
                    {
                        "row": row.heading,
                        "lane": lane.name,
                        "piece": segment.title,
                        "price": format_ns(segment.ns),
                        "share": format_share(segment.ns, row.total_ns),
                        "source": row.label,
                    }
                )
    columns = {
        "row": "row",
        "lane": "lane",
        "piece": "piece",
        "price": "price",
        "share": "share of the row",
        "source": "where and when",
    }
    return Table(out, columns, "What one c = a + b costs", [row.sentence for row in rows if row.sentence] + list(left_out))


def figure(rows: Sequence[Row] | None = None, *, yours: Sequence[Receipt] = ()) -> Picture:
    """The receipt for a notebook: the recorded rows (or `rows`), then the rows of the reader's own receipts."""
    left_out: list[str] = []
    if rows is None:
        rows, left_out = recorded_rows()
    rows = [*rows, *(row for receipt in yours for row in rows_of(receipt, who="yours"))]
    return Picture(lambda: svg(rows, left_out=left_out), alt(rows, left_out), table(rows, left_out), width=WIDTH)


def build(out_dir: str | Path = paths.REPO / "figures") -> list[Path]:
    """Write the flagship from the committed recordings: light and dark SVG and the table twin. Returns the files."""
    rows, left_out = recorded_rows()
    if not rows:
        raise LookupError("no recording has a receipt yet: run `make record` first")
    out = Path(out_dir)
    out.mkdir(parents=True, exist_ok=True)
    twin = table(rows, left_out).text("github") + "\n\nMade by `make figures` from `utils/recordings`.\n"
    files = {
        "receipt-light.svg": svg(rows, left_out=left_out),
        "receipt-dark.svg": svg(rows, dark=True, left_out=left_out),
        "receipt.md": twin,
    }
    for name, text in files.items():
        (out / name).write_text(text, encoding="utf-8")
    return [out / name for name in files]
