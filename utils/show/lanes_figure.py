"""Host and device as two lanes to scale, with the queue between them: drawn as SVG by hand, because sliders redraw it.

A picture by matplotlib takes longer than a slider may; this one takes a few milliseconds. Live, recorded and simulated lanes
look alike but for their label and the dashed frame of what is simulated; no two of them share an axis.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from utils.show import theme
from utils.show.picture import Picture
from utils.show.tables import Table, significant

WIDTH, LEFT, RIGHT = 760, 74, 12
TOP, LANE, GAP, CURVE = 44, 34, 12, 56
ROWS = 48  # launches that the table names one by one: a longer run is summed up below them
TICKS = 8
SHADES = {  # what a span is: (words, colour, hatch, or "" for none)
    "launch": ("launch call", theme.BLUE, ""),
    "full": ("host waits: queue full", theme.ORANGE, "rising"),
    "wait": ("host waits for the device", theme.GREY, "falling"),
    "kernel": ("kernel", theme.VERMILION, ""),
    "idle": ("device idle", "#F3F4F6", "dots"),
}


@dataclass(frozen=True)
class Lanes:
    """What host and device did, in µs from a common zero.

    `host` holds (start, end, kind) with kind "launch", "full" (a launch that waits for a place) or "wait" (a synchronisation);
    each kernel has one span of kind "launch". `device` holds (start, end) of each kernel in the order of the launches. `label`
    says whose lanes these are, `cut` that they are a part of a longer run: the queue is then not drawn, since others are in it.
    """

    host: tuple[tuple[float, float, str], ...]
    device: tuple[tuple[float, float], ...]
    label: str
    simulated: bool = False
    cut: str = ""

    def __post_init__(self):
        launched = sum(kind == "launch" for _, _, kind in self.host)
        if not self.device or launched != len(self.device):
            raise ValueError(
                f"{launched} launches and {len(self.device)} kernels: lanes need one launch a kernel, and at least one"
            )

    @classmethod
    def of(
        cls, columns: Mapping[str, Sequence[float]], label: str, *, price_us: float, full_from: int | None, waits: bool, **how
    ) -> Lanes:
        """From columns as `utils.measure.queue_lanes` writes them (ns).

        `price_us` is a launch call without waiting: what a call takes beyond it, from launch `full_from` on (None: never), is a
        wait for a place. `waits`: the host waited for the device in between, so a hole between two calls is such a wait.
        """
        host: list[tuple[float, float, str]] = []
        for number, began, took in zip(*(columns[name] for name in ("i", "host_start_ns", "host_ns")), strict=True):
            start, end = began * 1e-3, (began + took) * 1e-3
            if waits and host and start - host[-1][1] > 0.5 * price_us:
                host.append((host[-1][1], start, "wait"))
            if full_from is not None and number >= full_from and end - start > 1.02 * price_us:
                host.append((start, end - price_us, "full"))
                start = end - price_us
            host.append((start, end, "launch"))
        device = zip(columns["start_ns"], columns["end_ns"], strict=True)
        return cls(tuple(host), tuple((start * 1e-3, end * 1e-3) for start, end in device), label, **how)

    @property
    def calls(self) -> list[tuple[float, float]]:
        """(called, returned) of each launch, its wait for a place included."""
        out, began = [], None
        for start, end, kind in self.host:
            if kind == "full":
                began = start
            elif kind == "launch":
                out.append((start if began is None else began, end))
                began = None
        return out

    @property
    def end(self) -> float:
        return max(self.device[-1][1], max(end for _, end, _ in self.host))

    def spent(self, kind: str) -> float:
        """µs that the host spent in spans of this kind."""
        return sum(end - start for start, end, one in self.host if one == kind)

    @property
    def busy(self) -> float:
        """µs in which the device had a kernel."""
        return sum(end - start for start, end in self.device)

    @property
    def idle(self) -> list[tuple[float, float]]:
        """The stretches in which the device had nothing to do, between the first launch's return and the last kernel's end."""
        edges = [(0.0, 0.0), *sorted(self.device)]
        return [(before[1], after[0]) for before, after in pairwise(edges) if after[0] > before[1]]

    def queue(self) -> list[tuple[float, int]]:
        """(time, kernels launched and not yet ended) at each change, in order."""
        steps = sorted([(end, 1) for _, end in self.calls] + [(end, -1) for _, end in self.device], key=lambda s: (s[0], s[1]))
        out, depth = [(0.0, 0)], 0
        for at, step in steps:
            depth += step
            out.append((at, max(0, depth)))
        return out

    @property
    def most_queued(self) -> int:
        return max(depth for _, depth in self.queue())

    @property
    def ahead(self) -> int:
        """Launches that had returned before the first kernel ended."""
        return sum(end <= self.device[0][1] for _, end in self.calls)


def figure(lanes: Lanes, title: str = "") -> Picture:
    """The lanes to scale, the queue below them, and every launch in the table."""
    return Picture(_svg(lanes, title), _alt(lanes, title), table(lanes, title))


def table(lanes: Lanes, title: str = "") -> Table:
    """Each launch: when it was called and returned, when its kernel began and ended, µs; a long run is cut, and says so."""
    rows = []
    for number, ((called, returned), (began, ended)) in enumerate(zip(lanes.calls, lanes.device, strict=True), 1):
        rows.append(
            {
                "launch": number,
                "called": significant(called),
                "took": significant(returned - called),
                "began": significant(began),
                "ran": significant(ended - began),
            }
        )
    columns = {
        "launch": "launch",
        "called": "called at, µs",
        "took": "call took, µs",
        "began": "kernel began at, µs",
        "ran": "ran, µs",
    }
    notes = [lanes.label, *([f"Shown: {lanes.cut}"] if lanes.cut else []), _sum(lanes)]
    if len(rows) > ROWS:
        notes.insert(0, f"The first {ROWS} of {len(rows)} launches")
    return Table(rows[:ROWS], columns, title or "Host and device", notes)


def _sum(lanes: Lanes) -> str:
    """The lanes in numbers; the unit stands once, at the end."""
    waits = [f"{SHADES[kind][0]} {significant(spent)}" for kind in ("full", "wait") if (spent := lanes.spent(kind)) > 0]
    return (
        f"All {significant(lanes.end)}; launch calls {significant(lanes.spent('launch'))}; "
        + "".join(f"{wait}; " for wait in waits)
        + f"kernels {significant(lanes.busy)} (in µs)"
        + ("" if lanes.cut else f"; at most {lanes.most_queued} in the queue")
    )


def _alt(lanes: Lanes, title: str) -> str:
    return (
        f"Two lanes{f': {title}' if title else ''}, {lanes.cut or f'{len(lanes.device)} launches'}. {_sum(lanes)}. "
        f"{lanes.ahead} launches had returned when the first kernel ended. {lanes.label}"
    )


# ------------------------------------------------------------------------------------------------ drawing


def _svg(lanes: Lanes, title: str) -> str:
    far = lanes.end or 1.0
    scale = (WIDTH - LEFT - RIGHT) / far
    device_top, curve_top = TOP + LANE + GAP, TOP + 2 * (LANE + GAP)
    bottom = device_top + LANE + 4 if lanes.cut else curve_top + CURVE
    height = bottom + 64
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">',
        _PATTERNS,
    ]
    parts.append(f"<style>text{{font-family:{theme.FONTS};font-size:11px;fill:{theme.INK}}}</style>")
    frame = f'stroke="{theme.INK}" stroke-dasharray="7 4"' if lanes.simulated else 'stroke="none"'
    parts.append(f'<rect x="1" y="1" width="{WIDTH - 2}" height="{height - 2}" fill="{theme.CARD}" {frame}/>')
    parts.append(
        _text(8, 17, title, size=13, bold=True)
        + _text(8, 33, " · ".join(filter(None, [lanes.label, lanes.cut])), colour=theme.MUTED)
    )
    for tick in ticks(far):
        x = LEFT + tick * scale
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{bottom}" stroke="{theme.GRID}" stroke-width="0.7"/>')
        parts.append(_text(x, bottom + 15, significant(tick) if tick else "0", anchor="middle", colour=theme.MUTED))
    parts.append(_text(WIDTH - RIGHT, bottom + 29, "µs", anchor="end", colour=theme.MUTED))
    parts += [_rect(s, e, kind, TOP, scale) for s, e, kind in lanes.host]
    parts += [_rect(s, e, "idle", device_top, scale) for s, e in lanes.idle]
    parts += [_rect(s, e, "kernel", device_top, scale) for s, e in lanes.device]
    parts.append(
        _text(LEFT - 8, TOP + LANE / 2 + 4, "host", anchor="end")
        + _text(LEFT - 8, device_top + LANE / 2 + 4, "device", anchor="end")
    )
    parts.append("" if lanes.cut else _curve(lanes, curve_top, scale))
    parts.append(_legend(lanes, bottom + 48))
    return "".join(parts) + "</svg>"


def _rect(start: float, end: float, kind: str, top: float, scale: float) -> str:
    _, colour, hatch = SHADES[kind]
    width = (end - start) * scale
    edge = f'stroke="{theme.CARD}" stroke-width="0.5"' if width > 3 else ""
    at = f'x="{LEFT + start * scale:.2f}" y="{top}" width="{max(width, 0.3):.2f}" height="{LANE}"'
    return f'<rect {at} fill="{colour}" {edge}/>' + (f'<rect {at} fill="url(#{hatch})"/>' if hatch and width > 1.5 else "")


def _curve(lanes: Lanes, top: float, scale: float) -> str:
    """How many kernels are launched and not yet ended, as steps."""
    most = lanes.most_queued or 1
    height = CURVE - 10
    path, level = [f"M{LEFT} {top + CURVE:.1f}"], top + CURVE
    for at, depth in lanes.queue():
        x, y = LEFT + at * scale, top + CURVE - height * depth / most
        path.append(f"L{x:.1f} {level:.1f}L{x:.1f} {y:.1f}")
        level = y
    line = f'<path d="{"".join(path)}" fill="none" stroke="{theme.GREEN}" stroke-width="1.6"/>'
    words = _text(LEFT - 8, top + 14, "in the", anchor="end") + _text(LEFT - 8, top + 27, "queue", anchor="end")
    return line + words + _text(LEFT - 8, top + 44, f"most: {most}", anchor="end", colour=theme.MUTED)


def _legend(lanes: Lanes, y: float) -> str:
    kinds = ["launch", *dict.fromkeys(k for _, _, k in lanes.host if k != "launch"), "kernel", *(["idle"] if lanes.idle else [])]
    out, x = [], float(LEFT)
    for kind in kinds:
        words, colour, hatch = SHADES[kind]
        box = f'x="{x:.0f}" y="{y - 10:.0f}" width="18" height="12"'
        out.append(f'<rect {box} fill="{colour}" stroke="{theme.MUTED}" stroke-width="0.5"/>')
        out.append(f'<rect {box} fill="url(#{hatch})"/>' if hatch else "")
        out.append(_text(x + 23, y, words))
        x += 38 + 6.1 * len(words)
    return "".join(out)


def ticks(far: float) -> list[float]:
    """At most TICKS round numbers from 0 to `far` (1, 2 or 5 times a power of ten apart)."""
    step = 10.0**-3
    while far / step > TICKS:
        step *= 2.5 if f"{step:e}"[0] == "2" else 2.0
    return [step * i for i in range(int(far / step) + 1)]


def _text(
    x: float, y: float, words: str, *, anchor: str = "start", size: int = 11, bold: bool = False, colour: str = theme.INK
) -> str:
    style = f"font-size:{size}px;fill:{colour}" + (";font-weight:bold" if bold else "")
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" style="{style}">{html.escape(words)}</text>' if words else ""


def _hatch(name: str, path: str, size: int = 6) -> str:
    lines = f'<path d="{path}" stroke="{theme.INK}" stroke-width="0.8" fill="none"/>'
    return f'<pattern id="{name}" width="{size}" height="{size}" patternUnits="userSpaceOnUse">{lines}</pattern>'


_DOTS = (
    '<pattern id="dots" width="6" height="6" patternUnits="userSpaceOnUse">'
    f'<circle cx="2" cy="2" r="0.8" fill="{theme.MUTED}"/></pattern>'
)
_PATTERNS = f"<defs>{_hatch('rising', 'M0 6L6 0')}{_hatch('falling', 'M0 0L6 6')}{_DOTS}</defs>"
