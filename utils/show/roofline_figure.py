"""Rooflines drawn as SVG by hand, because sliders redraw them: the bandwidth's slope, a flat roof for each engine, ops as points.

Both axes are logarithmic. One figure holds one machine: measured, recorded and promised (datasheet) roofs never share one.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from utils.measure.roofline import Roofline
from utils.show import theme
from utils.show.picture import Picture
from utils.show.tables import Table, significant

WIDTH, LEFT, RIGHT, TOP, PLOT = 760, 66, 214, 54, 270
FIRST, LAST = 0.03, 4000.0  # FLOP per byte, where the axis begins and ends unless a point lies beyond
DASHES = ("", "7 4", "2 3", "9 3 2 3", "4 2", "1 4", "12 3")
LEAST_GAP = 13  # pixels between two words at the right edge
BESIDE = ((9, 4), (-15, 4), (-3, -8), (-3, 17), (8, -7), (8, 16), (-16, -7), (-16, 16), (20, 4))  # where a number may stand


@dataclass(frozen=True)
class Point:
    """One piece of work: FLOP per byte, the name of the roof over it, and the rate it reached (1e12 a second), if measured."""

    name: str
    intensity: float
    roof: str
    tera: float | None = None


def figure(line: Roofline, points: Sequence[Point] = (), title: str = "", *, lit: str | None = None, roofs=None) -> Picture:
    """The roofline with its points, numbered; `lit` draws one roof strongly, `roofs` names those that are drawn (default all).

    A point that was not measured stands on its roof, hollow: the most that the roofline allows. ValueError without a roof.
    """
    names = [name for name in line.roofs if roofs is None or name in roofs]
    if not names:
        raise ValueError(f"{line.label} has none of the roofs that were asked for")
    kept = [p for p in points if p.roof in names and p.intensity > 0]
    title = title or "Roofline"
    return Picture(_svg(line, names, kept, title, lit), _alt(line, names, kept, title), table(line, names, kept, title))


def table(line: Roofline, names: Sequence[str], points: Sequence[Point], title: str) -> Table:
    """Each roof with its peak and its ridge, then each point with its intensity, its rate and what the roofline allows."""
    rows = [
        {
            "what": line.roofs[name].title,
            "intensity": f"ridge {significant(line.ridge(name))}",
            "reached": None,
            "allowed": significant(line.roofs[name].peak),
        }
        for name in names
    ]
    for number, point in enumerate(points, 1):
        rows.append(
            {
                "what": f"{number}: {point.name}",
                "intensity": significant(point.intensity),
                "reached": None if point.tera is None else significant(point.tera),
                "allowed": significant(line.attainable(point.roof, point.intensity)),
            }
        )
    columns = {
        "what": "roof or op",
        "intensity": "FLOP per byte",
        "reached": "reached, 1e12 a second",
        "allowed": "at most, 1e12 a second",
    }
    return Table(rows, columns, title, [f"Memory: {significant(line.gbps)} GB/s", line.label])


def _alt(line: Roofline, names: Sequence[str], points: Sequence[Point], title: str) -> str:
    roofs = "; ".join(
        f"{line.roofs[n].title} {significant(line.roofs[n].peak)} in 1e12 {line.roofs[n].unit} a second, "
        f"ridge at {significant(line.ridge(n))}"
        for n in names
    )
    ops = "; ".join(
        f"{p.name} at {significant(p.intensity)} FLOP per byte "
        + (f"reached {significant(p.tera)}" if p.tera is not None else "")
        + f" of {significant(line.attainable(p.roof, p.intensity))}"
        for p in points
    )
    words = f"Roofline: {title}. Memory {significant(line.gbps)} GB/s; {roofs}."
    return f"{words} {f'Ops: {ops}.' if ops else ''} {line.label}"


# ------------------------------------------------------------------------------------------------ drawing


@dataclass(frozen=True)
class _Axes:
    """Where an intensity and a rate stand, in pixels; both axes logarithmic."""

    lo: float
    hi: float
    low: float
    high: float

    def x(self, intensity: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log(intensity / self.lo) / math.log(self.hi / self.lo)

    def y(self, tera: float) -> float:
        tera = max(tera, self.low)
        return TOP + PLOT * (1 - math.log(tera / self.low) / math.log(self.high / self.low))


def _axes(line: Roofline, names: Sequence[str], points: Sequence[Point]) -> _Axes:
    at = [p.intensity for p in points] + [line.ridge(name) for name in names]
    lo, hi = min(FIRST, 0.7 * min(at)), max(LAST, 1.4 * max(at))
    rates = [line.attainable(p.roof, p.intensity) for p in points] + [p.tera for p in points if p.tera]
    low = min([*rates, *(line.roofs[n].peak for n in names), lo * line.gbps * 1e-3])
    high = max(*rates, *(line.roofs[n].peak for n in names), low)
    return _Axes(lo, hi, 10 ** math.floor(math.log10(0.8 * low)), 2.5 * high)


def _svg(line: Roofline, names: Sequence[str], points: Sequence[Point], title: str, lit: str | None) -> str:
    axes = _axes(line, names, points)
    rows = -(-len(points) // 3)
    bottom = TOP + PLOT
    height = bottom + 44 + 15 * rows
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">',
        f"<style>text{{font-family:{theme.FONTS};font-size:11px;fill:{theme.INK}}}</style>",
        f'<rect width="{WIDTH}" height="{height}" fill="{theme.CARD}"/>',
        _text(8, 17, title, size=13, bold=True),
        _text(8, 33, line.label, colour=theme.MUTED),
    ]
    for value in _decades(axes.lo, axes.hi):
        x = axes.x(value)
        parts.append(f'<path d="M{x:.1f} {TOP}V{bottom}" stroke="{theme.GRID}" stroke-width="0.7"/>')
        parts.append(_text(x, bottom + 15, f"{value:,g}", anchor="middle", colour=theme.MUTED))
    for value in _decades(axes.low, axes.high):
        y = axes.y(value)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="{theme.GRID}" stroke-width="0.7"/>')
        parts.append(_text(LEFT - 6, y + 4, f"{value:,g}", anchor="end", colour=theme.MUTED))
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, bottom + 30, "work per byte", anchor="middle", colour=theme.MUTED))
    parts.append(_text(8, TOP - 6, "1e12 a second", colour=theme.MUTED))
    parts.append(_memory(line, axes, names))
    parts += [_roof(line, axes, name, names.index(name), lit) for name in names]
    parts += _roof_names(line, axes, names)
    parts += _points(line, axes, names, points)
    parts += [_key(number, point, bottom + 46) for number, point in enumerate(points)]
    return "".join(parts) + "</svg>"


def _memory(line: Roofline, axes: _Axes, names: Sequence[str]) -> str:
    """The slope that all roofs share, up to the highest ridge, with its name along it."""
    top = max(line.ridge(name) for name in names)
    x, y, x2, y2 = axes.x(axes.lo), axes.y(axes.lo * line.gbps * 1e-3), axes.x(top), axes.y(top * line.gbps * 1e-3)
    angle = math.degrees(math.atan2(y2 - y, x2 - x))
    words = f"memory, {significant(line.gbps)} GB/s"
    at = f'transform="translate({x2:.1f} {y2:.1f}) rotate({angle:.1f})"'
    slope = f'<path d="M{x:.1f} {y:.1f}L{x2:.1f} {y2:.1f}" stroke="{theme.INK}" stroke-width="2"/>'
    name = _text(-26, -6, words, anchor="end", size=9)
    return f"{slope}<g {at}>{name}</g>"


def _roof(line: Roofline, axes: _Axes, name: str, place: int, lit: str | None) -> str:
    """A flat line from its ridge on, and a thin one down to the axis there."""
    ridge, y = axes.x(line.ridge(name)), axes.y(line.roofs[name].peak)
    width = 2.6 if lit in (None, name) else 1.1
    foot = f'<path d="M{ridge:.1f} {y:.1f}V{TOP + PLOT}" stroke="{theme.GREY}" stroke-width="0.8"/>' if width > 2 else ""
    return foot + f'<path d="M{ridge:.1f} {y:.1f}H{WIDTH - RIGHT}" stroke-width="{width}" {_style(place)}/>'


def _style(place: int) -> str:
    dash = DASHES[place % len(DASHES)]
    return f'stroke="{theme.SERIES[place % len(theme.SERIES)]}"' + (f' stroke-dasharray="{dash}"' if dash else "")


def _roof_names(line: Roofline, axes: _Axes, names: Sequence[str]) -> list[str]:
    """The roofs' names at the right edge, from the top down, pushed apart where they would overlap."""
    out, free = [], TOP - LEAST_GAP
    for name in sorted(names, key=lambda n: -line.roofs[n].peak):
        roof = line.roofs[name]
        y = max(axes.y(roof.peak) + 4, free + LEAST_GAP)
        free = y
        mark = _sample(WIDTH - RIGHT + 6, y - 4, names.index(name))
        words = f"{roof.title}: {significant(roof.peak)}, ridge {significant(line.ridge(name))}"
        out.append(mark + _text(WIDTH - RIGHT + 30, y, words, size=9))
    return out


def _sample(x: float, y: float, place: int) -> str:
    return f'<path d="M{x} {y:.1f}h20" stroke-width="2" {_style(place)}/>'


def _points(line: Roofline, axes: _Axes, names: Sequence[str], points: Sequence[Point]) -> list[str]:
    """Numbered dots: full where it was measured, hollow where one stands on its roof; each number where there is room."""
    places, out = [], []
    for point in points:
        rate = point.tera if point.tera is not None else line.attainable(point.roof, point.intensity)
        places.append((axes.x(point.intensity), axes.y(rate)))
    taken = list(places)
    for number, ((x, y), point) in enumerate(zip(places, points, strict=True), 1):
        colour = theme.SERIES[names.index(point.roof) % len(theme.SERIES)]
        fill = colour if point.tera is not None else theme.CARD
        shape = _circle(x, y) if names.index(point.roof) % 2 == 0 else _square(x, y)
        out.append(f'{shape} fill="{fill}" stroke="{colour}" stroke-width="2"/>')
        at = max(((x + dx, y + dy) for dx, dy in BESIDE), key=lambda at: min(12.0, _room(at, taken)))
        taken.append(at)
        out.append(_text(*at, str(number), bold=True))
    return out


def _circle(x: float, y: float) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5"'


def _square(x: float, y: float) -> str:
    return f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8"'


def _room(at: tuple[float, float], taken: Sequence[tuple[float, float]]) -> float:
    """Pixels from the middle of a number that begins at `at` to the nearest thing that is there already."""
    return min(math.hypot(at[0] + 4 - x, at[1] - 4 - y) for x, y in taken)


def _key(index: int, point: Point, top: float) -> str:
    return _text(LEFT + 225 * (index % 3), top + 15 * (index // 3), f"{index + 1}: {point.name}")


def _decades(low: float, high: float) -> list[float]:
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    return [10.0**k for k in range(first, last + 1)]


def _text(
    x: float, y: float, words: str, *, anchor: str = "start", size: int = 11, bold: bool = False, colour: str = theme.INK
) -> str:
    style = f"font-size:{size}px;fill:{colour}" + (";font-weight:bold" if bold else "")
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" style="{style}">{html.escape(words)}</text>' if words else ""


def points_of(rows: Sequence[Mapping], spare: str = "vector_fp32") -> list[Point]:
    """The rows of the study's part "ops" as points; a row without a roof of its own stands under `spare`."""
    return [Point(row["title"], row["intensity"], row["roof"] or spare, row["tera"]) for row in rows]
