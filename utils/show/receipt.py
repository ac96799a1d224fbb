"""The flagship figure: what one `c = a + b` costs, row by row and to scale, drawn from recordings (and the reader's rows).

`build()` reads `utils/recordings` and writes `figures/receipt-light.svg`, `receipt-dark.svg` and the table twin `receipt.md`.
`figure(rows)` is the same drawing for a notebook. Every bar carries its nanoseconds in `data-ns`, each row its recording in
`data-recording`, so that a test can hold the figure against the recordings. A row whose numbers were not recorded is left
out, and a sentence under the figure says so.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from utils import paths
from utils.model.readings import Receipt
from utils.show import theme
from utils.show.picture import Picture
from utils.show.receipt_rows import Lane, Row, Segment, recorded_rows, rows_of
from utils.show.tables import Table, format_ns, format_share

WIDTH, LEFT, RIGHT = 860, 52, 14  # SVG units; GitHub shows a README about 850 CSS pixels wide
BAR, LINE = 26, 15
INNER = WIDTH - LEFT - RIGHT
TITLE, SMALL = 14.0, 11.5
CHARACTER = 0.58  # width of an average character in font sizes, of the widest font that may be used


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
        y = _lines(body, sentence, y + 12, paint.muted, SMALL, style="italic")
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
    leaders = False
    if row.magnify:
        y, leaders = _magnified(body, row, y, scale, paint)
    for lane in row.lanes:
        body.append(_text(LEFT - 8, y + BAR / 2 + 4, lane.name, paint.muted, SMALL, anchor="end"))
        for segment in lane.segments:
            body.append(_rect(segment, LEFT + segment.start * scale, y, segment.ns * scale, BAR, paint))
            if not leaders:
                _inside(body, segment, y, scale, paint)
        y += BAR + 5
    if not leaders and len(row.lanes[0].segments) > 2:
        y = _small_names(body, row.lanes[0], y, scale, paint)
    missing = f" Not measured: {', '.join(row.missing)}." if row.missing else ""
    y = _lines(body, (row.sentence + missing).strip(), y + 10, paint.ink, 12.5)
    body.append("</g>")
    return y + 12


def _lines(body: list[str], words: str, y: float, fill: str, size: float, *, style: str = "") -> float:
    """`words` in as many lines as they need, the first at `y`; returns the y of the next one."""
    for line in textwrap.wrap(words, int(INNER / (size * CHARACTER))):
        body.append(_text(LEFT, y, line, fill, size, style=style))
        y += size + 4
    return y


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


def _magnified(body: list[str], row: Row, y: float, scale: float, paint: _Paint) -> tuple[float, bool]:
    """Names with leaders over the row's first lane, which is magnified for them when it is short; (next y, whether they fit).

    The magnified strip takes the whole width, or less when the names at its right end need room. A lane that fills the width
    as it is gets its leaders directly.
    """
    lane, extent = row.lanes[0], _extent(row)
    wide, places = _room_for_names(lane, INNER / extent)
    if wide / scale < 1.15:
        wide, places = _room_for_names(lane, scale, shrink=False)
    if not places:
        return y, False
    lines = max(place.level for place in places)
    top = y + LINE * (lines + 1) + 4
    for segment, place in zip(lane.segments, places, strict=True):
        at = y + LINE * (lines - place.level) + 10
        strong = "bold" if segment.part == "kernel" else ""
        x, anchor = (place.left, "") if place.left > place.x else (place.right, "end")
        leader = f"M{place.x:.2f} {at - 8:.1f}V{top:.1f}"
        body.append(f'<path d="{leader}" stroke="{paint.line}" stroke-width="0.6" fill="none" />')
        body.append(_text(x, at, _named(segment), paint.ink, SMALL, anchor=anchor, weight=strong))
    if wide == scale:
        return top, True
    for segment in lane.segments:
        body.append(_rect(segment, LEFT + segment.start * wide, top, segment.ns * wide, BAR + 4, paint, data=False))
    y = top + BAR + 4
    end, bottom = LEFT + extent * scale, y + 22
    body.append(
        f'<path d="M{LEFT} {y:.1f}L{LEFT} {bottom:.1f}M{LEFT + extent * wide:.2f} {y:.1f}L{end:.2f} {bottom:.1f}" '
        f'stroke="{paint.line}" stroke-width="0.6" stroke-dasharray="2 3" fill="none" />'
    )
    body.append(_text(LEFT + 8, y + 15, f"above: the same, magnified {wide / scale:.1f} times", paint.muted, SMALL))
    return bottom, True


def _room_for_names(lane: Lane, wide: float, *, shrink: bool = True) -> tuple[float, list[_Place] | None]:
    """(units a ns, a place for each name): as wide as asked, or, with `shrink`, as narrow as all names to the right need."""

    def names(wide: float) -> list[tuple[float, str]]:
        return [(LEFT + (s.start + s.ns / 2) * wide, _named(s)) for s in lane.segments]

    places = _places(names(wide))
    if places is None and shrink:
        room = [(WIDTH - 6 - LEFT - _wide(_named(s), SMALL)) / (s.start + s.ns / 2) for s in lane.segments]
        wide = min(wide, *room)
        places = _places(names(wide))
    return wide, places


def _small_names(body: list[str], lane: Lane, y: float, scale: float, paint: _Paint) -> float:
    """One line that names the pieces of a lane that are too narrow to carry their names."""
    narrow = [s for s in lane.segments if _wide(s.title, SMALL) + 12 > s.ns * scale]
    if not narrow:
        return y
    words = " · ".join(_named(s).replace(" ", "\u00a0") for s in narrow)  # a name and its price stay on one line
    return _lines(body, words, y + 9, paint.muted, SMALL) - 6


@dataclass(frozen=True)
class _Place:
    """Where a name stands: its leader's x, the text's left and right end, its line (0 is nearest the bar)."""

    x: float
    left: float
    right: float
    level: int

    def covers(self, x: float) -> bool:
        """True when a leader at `x` would run through this name or too near to it."""
        return self.left - 2 < x < self.right + 2


def _places(names: list[tuple[float, str]]) -> list[_Place] | None:
    """A place for each name: up to some name the text stands right of its leader, from there on left of it, like a V.

    Of all such turning points the one that needs the fewest lines is taken; None when there is none.
    """
    shapes = [shape for turn in range(len(names) + 1) if (shape := _v_shape(names, turn))]
    return min(shapes, key=lambda places: max(p.level for p in places), default=None)


def _v_shape(names: list[tuple[float, str]], turn: int) -> list[_Place] | None:
    """The places when the names before `turn` stand right of their leaders and the others left; None when that cannot be.

    A name must be on a higher line than every name whose leader it covers; it cannot be when two cover each other's, or when
    a name leaves the figure.
    """
    flat = []
    for at, (x, words) in enumerate(names):
        width = _wide(words, SMALL)
        left = x + 3 if at < turn else x - 3 - width
        flat.append(_Place(x, left, left + width, 0))
    if any(p.left < 2 or p.right > WIDTH - 2 for p in flat):
        return None
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
            distinct = {s.part: s for s in reversed(lane.segments)}
            whole = sum(s.ns for s in distinct.values())
            for part in dict.fromkeys(s.part for s in lane.segments):
                segment = distinct[part]
                out.append(
                    {
                        "row": row.heading,
                        "lane": lane.name,
                        "piece": segment.title,
                        "price": format_ns(segment.ns),
                        "share": format_share(segment.ns, whole),
                        "source": row.label,
                    }
                )
    columns = {
        "row": "row",
        "lane": "lane",
        "piece": "piece",
        "price": "price",
        "share": "share of the lane",
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
