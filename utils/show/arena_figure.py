"""Buffers as rectangles: from left to right the moments at which they live, from bottom to top the bytes where they lie."""

from __future__ import annotations

import html
from dataclasses import dataclass

from utils.show import theme
from utils.show.picture import Picture
from utils.show.roofline_figure import _text
from utils.show.tables import Table, significant

WIDTH, LEFT, RIGHT, TOP, PLOT, FOOT = 760, 84, 20, 58, 250, 40
WIDE, HIGH = 15, 11  # pixels that a number needs


@dataclass(frozen=True)
class Laid:
    """Buffers and where each lies: `buffers` are (bytes, first moment, moment from which it is gone), `ops` who took them."""

    buffers: tuple[tuple[int, int, int], ...]
    ops: tuple[str, ...]
    offsets: tuple[int, ...]
    size: int
    bound: int

    @classmethod
    def of(cls, program: dict, planner: str, bound: int) -> Laid:
        """A program of the part "arena" under one of its planners."""
        plan = program["plans"][planner]
        return cls(
            tuple(tuple(b) for b in program["buffers"]), tuple(program["ops"]), tuple(plan["offsets"]), plan["size"], bound
        )

    @property
    def moments(self) -> int:
        return max(end for _, _, end in self.buffers)

    def alive(self, moment: int) -> list[int]:
        """The numbers of the buffers that live at this moment, from 0."""
        return [n for n, (_, start, end) in enumerate(self.buffers) if start <= moment < end]


def mib(nbytes: float) -> str:
    """Bytes for people: 4 MiB, 300 KiB, 12 bytes."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if nbytes >= size:
            return f"{significant(nbytes / size)} {unit}"
    return f"{significant(nbytes)} bytes"


def _over(laid: Laid) -> str:
    return significant(laid.size / laid.bound, 4)


def figure(laid: Laid, title: str, label: str, moment: int | None = None) -> Picture:
    """The rectangles, numbered in the order in which they were taken; a dashed line at the most that lives at once."""
    rows = [
        {"number": n + 1, "op": op, "bytes": f"{size:,}", "from": start, "until": end, "at": f"{offset:,}"}
        for n, ((size, start, end), op, offset) in enumerate(zip(laid.buffers, laid.ops, laid.offsets, strict=True))
    ]
    columns = {
        "number": "buffer",
        "op": "taken by",
        "bytes": "bytes",
        "from": "from moment",
        "until": "until moment",
        "at": "lies at byte",
    }
    over = "as high as that line" if laid.size == laid.bound else f"the first over the second is {_over(laid)}"
    alt = (
        f"Rectangles over time and address: {title}. Buffers: {len(laid.buffers)}; the highest reaches {mib(laid.size)}; the "
        "most "
        f"that lives at once, a dashed line, is {mib(laid.bound)}: {over}. {label}"
    )
    return Picture(lambda: _svg(laid, title, label, moment), alt, Table(rows, columns, title, [label]))


def _svg(laid: Laid, title: str, label: str, moment: int | None) -> str:
    top, bottom, height = max(laid.size, laid.bound), TOP + PLOT, TOP + PLOT + FOOT
    across, up = (WIDTH - LEFT - RIGHT) / laid.moments, PLOT / top
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + FOOT}" width="{WIDTH}" '
        f'height="{bottom + FOOT}">',
        f"<style>text{{font-family:{theme.FONTS};font-size:11px;fill:{theme.INK}}}</style>",
        f'<rect width="{WIDTH}" height="{height}" fill="{theme.CARD}"/>',
        _text(8, 17, title, size=13, bold=True),
        _text(8, 34, label, colour=theme.MUTED),
        f'<path d="M{LEFT} {TOP}V{bottom}H{WIDTH - RIGHT}" fill="none" stroke="{theme.MUTED}"/>',
        _text(LEFT - 6, bottom, "0", anchor="end", colour=theme.MUTED),
        _text(LEFT - 6, bottom - up * laid.size + 4, mib(laid.size), anchor="end", colour=theme.MUTED),
    ]
    for n, ((size, start, end), op, offset) in enumerate(zip(laid.buffers, laid.ops, laid.offsets, strict=True)):
        x, wide, high = LEFT + across * start, across * (end - start), up * size
        y = bottom - up * offset - high
        colour = theme.SERIES[n % len(theme.SERIES)]
        lit = moment is None or start <= moment < end
        parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{max(high, 0.6):.1f}" fill="{colour}" '
            f'fill-opacity="{0.45 if lit else 0.1}" stroke="{theme.INK}" '
            f'stroke-width="0.8"><title>{html.escape(op)}</title></rect>'
        )
        if wide >= WIDE and high >= HIGH:
            parts.append(_text(x + wide / 2, y + high / 2 + 4, f"{n + 1}", anchor="middle", bold=lit))
    line = bottom - up * laid.bound
    dash = f'stroke="{theme.INK}" stroke-width="1.4" stroke-dasharray="7 4"'
    parts.append(f'<path d="M{LEFT} {line:.1f}H{WIDTH - RIGHT}" {dash}/>')
    if abs(line - (bottom - up * laid.size)) > 14:
        parts.append(_text(LEFT - 6, line + 4, mib(laid.bound), anchor="end", bold=True))
    if moment is not None:
        at = LEFT + across * (moment + 0.5)
        parts.append(f'<path d="M{at:.1f} {TOP}V{bottom}" stroke="{theme.VERMILION}" stroke-width="1.6"/>')
    parts.append(_text(LEFT, bottom + 16, "0", anchor="middle", colour=theme.MUTED))
    parts.append(_text(WIDTH - RIGHT, bottom + 16, f"{laid.moments}", anchor="end", colour=theme.MUTED))
    foot = "moments (each taking or giving back is one); dashed: the most that lives at once"
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, bottom + 32, foot, anchor="middle", colour=theme.MUTED))
    return "".join(parts) + "</svg>"
