"""Sliders over store and recompute: layers, how often an input is stored, bytes of an activation, and what a forward costs.

Nothing is measured by a move: the peak is `utils.model.recompute`'s; what was traced can be laid over it as points.
"""

from __future__ import annotations

from collections.abc import Mapping

from utils.model import recompute
from utils.show import controls, theme
from utils.show.arena_figure import mib
from utils.show.picture import Picture
from utils.show.roofline_figure import _text
from utils.show.tables import Table, significant

LABEL = "worked out: layers / k + saved · k activations; nothing measured"
WIDTH, LEFT, RIGHT, TOP, PLOT, FOOT = 760, 84, 150, 56, 200, 44


def draw(layers: int, every: int, saved: int, activation_mib: int, forward: int) -> list:
    """The peak over k, the chosen k marked, storing as a dashed line; in words what is saved and what it costs."""
    every = min(every, layers)
    unit = activation_mib << 20
    peaks = {k: recompute.peak(layers, k, saved) * unit for k in range(1, layers + 1)}
    store = recompute.peak(layers, 0, saved) * unit
    title = f"{layers} layers, {saved} activations of {activation_mib} MiB saved in each"
    rows = [{"every": "all stored", "peak": mib(store), "share": "1"}]
    rows += [
        {"every": f"{k}{' ◀' if k == every else ''}", "peak": mib(n), "share": significant(n / store, 2)}
        for k, n in peaks.items()
    ]
    table = Table(rows, {"every": "one input stored in … layers", "peak": "peak", "share": "over storing all"}, title, [LABEL])
    said = words(layers, every, saved, unit, forward)
    alt = f"A line of the peak over k, a dashed line where all is stored: {title}. {said} {LABEL}"
    return [Picture(lambda: _svg(peaks, store, every, title), alt, table), said]


def words(layers: int, every: int, saved: float, unit: int, forward: int) -> str:
    """What this choice saves, what it costs, and which k needs least."""
    store = recompute.peak(layers, 0, saved)
    mine = recompute.peak(layers, every, saved)
    best, least = recompute.least(layers, saved)
    which = "the least there is" if mine == least else f"least at every {best}: {mib(least * unit)}"
    return (
        f"One input stored in {every}: a peak of {mib(mine * unit)} in place of {mib(store * unit)}, {which}. With one more "
        f"forward a step takes, over storing: {significant(recompute.time(every, forward / 100))}."
    )


def _svg(peaks: Mapping[int, float], store: float, every: int, title: str) -> str:
    bottom, height, last, top = TOP + PLOT, TOP + PLOT + FOOT, max(peaks), 1.05 * max(store, *peaks.values())

    def x(k: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (k - 1) / max(1, last - 1)

    def y(nbytes: float) -> float:
        return bottom - PLOT * nbytes / top

    path = "L".join(f"{x(k):.1f} {y(n):.1f}" for k, n in peaks.items())
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">',
        f"<style>text{{font-family:{theme.FONTS};font-size:11px;fill:{theme.INK}}}</style>",
        f'<rect width="{WIDTH}" height="{height}" fill="{theme.CARD}"/>',
        _text(8, 17, title, size=13, bold=True),
        _text(8, 34, LABEL, colour=theme.MUTED),
        f'<path d="M{LEFT} {TOP}V{bottom}H{WIDTH - RIGHT}" fill="none" stroke="{theme.MUTED}"/>',
        _text(LEFT - 6, bottom, "0", anchor="end", colour=theme.MUTED),
        f'<path d="M{LEFT} {y(store):.1f}H{WIDTH - RIGHT}" stroke="{theme.INK}" stroke-width="1.4" stroke-dasharray="7 4"/>',
        _text(WIDTH - RIGHT + 8, y(store) + 4, f"all stored: {mib(store)}"),
        f'<path d="M{path}" fill="none" stroke="{theme.BLUE}" stroke-width="2.2"/>',
    ]
    parts += [f'<circle cx="{x(k):.1f}" cy="{y(n):.1f}" r="3" fill="{theme.BLUE}"/>' for k, n in peaks.items()]
    mark = f'fill="none" stroke="{theme.VERMILION}" stroke-width="2.4"'
    parts.append(f'<circle cx="{x(every):.1f}" cy="{y(peaks[every]):.1f}" r="8" {mark}/>')
    parts.append(_text(LEFT - 6, y(peaks[every]) + 4, mib(peaks[every]), anchor="end", bold=True))
    for k in sorted({1, every, last}):
        parts.append(_text(x(k), bottom + 16, f"{k}", anchor="middle", colour=theme.MUTED, bold=k == every))
    foot = "k: one input is stored in k layers (circle: the chosen one)"
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, bottom + 34, foot, anchor="middle", colour=theme.MUTED))
    return "".join(parts) + "</svg>"


def explorer() -> controls.Panel:
    """The sliders with their figure: one figure, whatever is moved and however often."""
    return controls.panel(
        draw,
        title="Store or recompute: move a slider (nothing is measured by it)",
        layers=controls.slider(2, 96, 12, label="layers"),
        every=controls.slider(1, 96, 1, label="layers between two stored inputs (k)"),
        saved=controls.slider(1, 16, 3, label="activations that a layer keeps"),
        activation_mib=controls.slider(1, 512, 64, label="an activation", unit="MiB"),
        forward=controls.slider(5, 90, 33, label="forward, share of a step that stores", unit="%"),
    )
