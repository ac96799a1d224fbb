"""Controls over throughput per cost: two devices, what an hour of each costs, and a batch size; who gives more for the money.

Prices are the reader's: those it starts with are made up. Speeds are measured here, recorded, or the max model over datasheet
peaks, and each line says which. Nothing is measured by a move, which redraws in milliseconds.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Mapping, Sequence

from utils.model import devices, worth
from utils.model.worth import Speed
from utils.show import controls, theme
from utils.show.picture import Picture
from utils.show.roofline_figure import _decades, _text
from utils.show.tables import Table, significant

SMALL, LARGE = "Tesla T4", "NVIDIA H100 SXM"
BATCHES = tuple(1 << k for k in range(11))
START_PRICES = (0.5, 3.0)  # made up, as every text around this says
WIDTH, LEFT, RIGHT, TOP, PLOT = 760, 76, 190, 72, 230
DASHES = ("", "7 4")
Work = Callable[[int], tuple[float, float]]


def speeds(measured: Sequence[Speed], work: Work, *, ops: int, host_us: float, dtype: str = "bf16") -> dict[str, Speed]:
    """By the name that the reader chooses: what was measured or recorded, then every datasheet's device in the model."""
    modelled = [worth.from_datasheet(device, work, BATCHES, ops=ops, host_us=host_us, dtype=dtype) for device in devices.load()]
    return {speed.name: speed for speed in [*measured, *modelled]}


def draw(known: Mapping[str, Speed], *, first: str, price_1: float, second: str, price_2: float, log2: int) -> list:
    """The figure for one setting of the controls, and what it says, in words."""
    pair, prices, batch = (known[first], known[second]), (price_1, price_2), 1 << log2
    return [figure(pair, prices, batch), words(pair, prices, batch)]


def figure(pair: tuple[Speed, Speed], prices: tuple[float, float], batch: int) -> Picture:
    """Samples for one unit of money over the batch, a line for each device, the chosen batch marked."""
    title = "Million samples for one unit of money"
    columns = {"batch": "batch", "first": f"1: {pair[0].name}", "second": f"2: {pair[1].name}", "winner": "more for the money"}
    best = worth.winners(*pair, prices)
    batches = sorted({b for speed in pair for b in _batches(speed)})
    rows = [
        {
            "batch": b,
            "first": _worth(pair[0], b, prices[0]),
            "second": _worth(pair[1], b, prices[1]),
            "winner": None if b not in best else best[b] or "alike",
        }
        for b in batches
    ]
    labels = [f"{speed.name}, {price:g} an hour: {speed.label}" for speed, price in zip(pair, prices, strict=True)]
    alt = f"Two lines over the batch, logarithmic axes: {title}. {words(pair, prices, batch)} {'; '.join(labels)}"
    return Picture(
        lambda: _svg(pair, prices, batch, title, labels), alt, Table(rows, columns, title, [*labels, "Prices: made up"])
    )


def words(pair: tuple[Speed, Speed], prices: tuple[float, float], batch: int) -> str:
    """Who gives more at this batch, and where it is another one."""
    if pair[0].name == pair[1].name:
        return "Twice the same device: only the prices differ. Choose another one."
    given = [_worth(speed, batch, price) for speed, price in zip(pair, prices, strict=True)]
    if None in given:
        missing = pair[given.index(None)]
        low, high = missing.batches
        return f"At batch {batch:,} no step of {missing.name} is known: its batches go from {low:,} to {high:,}."
    name = worth.winner(*pair, prices, batch)
    head = f"At batch {batch:,}: {given[0]} million samples against {given[1]} million for one unit of money"
    head += ", about alike." if not name else f"; {name} gives more."
    found = worth.winners(*pair, prices)
    others = {b: other for b, other in found.items() if other and other != name}
    if not others:
        return f"{head} No other batch that is known turns this round." if name else f"{head} No batch tells them apart."
    told = ", ".join(f"{b:,} ({other})" for b, other in others.items())
    return f"{head} Another answer at batch {told}: one batch size says nothing about the others."


def _batches(speed: Speed) -> list[int]:
    low, high = speed.batches
    return [1 << k for k in range(32) if low <= 1 << k <= high]


def _worth(speed: Speed, batch: int, price: float) -> str | None:
    found = speed.worth(batch, price)
    return None if found is None else significant(1e-6 * found)


def _svg(pair, prices, batch: int, title: str, labels: Sequence[str]) -> str:
    lines = [[(b, 1e-6 * speed.worth(b, price)) for b in sorted(speed.steps)] for speed, price in zip(pair, prices, strict=True)]
    every = [point for line in lines for point in line]
    low, high = min(y for _, y in every) / 1.5, max(y for _, y in every) * 1.5
    first, last = min(b for b, _ in every), max(b for b, _ in every)
    bottom = TOP + PLOT

    def x(value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log(value / first) / math.log(last / first)

    def y(value: float) -> float:
        return bottom - PLOT * math.log(value / low) / math.log(high / low)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 42}" width="{WIDTH}" height="{bottom + 42}">',
        f"<style>text{{font-family:{theme.FONTS};font-size:11px;fill:{theme.INK}}}</style>",
        f'<rect width="{WIDTH}" height="{bottom + 42}" fill="{theme.CARD}"/>',
        _text(8, 17, title, size=13, bold=True),
        *(_text(8, 33 + 14 * k, f"{k + 1}: {label}", colour=theme.MUTED) for k, label in enumerate(labels)),
    ]
    for value in _decades(low, high):
        parts.append(f'<path d="M{LEFT} {y(value):.1f}H{WIDTH - RIGHT}" stroke="{theme.GRID}" stroke-width="0.7"/>')
        parts.append(_text(LEFT - 6, y(value) + 4, f"{value:,g}", anchor="end", colour=theme.MUTED))
    for k in range(math.ceil(math.log2(first)), math.floor(math.log2(last)) + 1):
        parts.append(_text(x(1 << k), bottom + 15, f"{1 << k:,}", anchor="middle", colour=theme.MUTED))
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, bottom + 32, "samples in a batch", anchor="middle", colour=theme.MUTED))
    if first <= batch <= last:
        mark = f'stroke="{theme.INK}" stroke-width="1" stroke-dasharray="2 3"'
        parts.append(f'<path d="M{x(batch):.1f} {TOP}V{bottom}" {mark}/>')
    free = [bottom, TOP]
    for k, line in enumerate(lines):
        path = "L".join(f"{x(b):.1f} {y(v):.1f}" for b, v in line)
        dash = f' stroke-dasharray="{DASHES[k]}"' if DASHES[k] else ""
        parts.append(f'<path d="M{path}" fill="none" stroke="{theme.SERIES[k]}" stroke-width="2.2"{dash}/>')
        shape = _dot if k == 0 else _box
        parts += [shape(x(b), y(v), theme.SERIES[k]) for b, v in line]
        free[k] = y(line[-1][1]) + 4
    if abs(free[0] - free[1]) < 14:  # the two names at the right edge would touch
        upper = 0 if free[0] <= free[1] else 1
        free[upper] -= 7
        free[1 - upper] += 7
    parts += [_text(WIDTH - RIGHT + 10, free[k], f"{k + 1}: {speed.name}"[:30], bold=True) for k, speed in enumerate(pair)]
    return "".join(parts) + "</svg>"


def _dot(x: float, y: float, colour: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>'


def _box(x: float, y: float, colour: str) -> str:
    return f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8" fill="{html.escape(colour)}"/>'


def explorer(known: Mapping[str, Speed]) -> controls.Panel:
    """The controls with their figure, over what `speeds` gives. They start with one device twice: a pair tells an answer."""

    def shown(first: str, price_1: float, second: str, price_2: float, log2: int) -> list:
        return draw(known, first=first, price_1=price_1, second=second, price_2=price_2, log2=log2)

    return controls.panel(
        shown,
        title="Throughput per cost: choose devices, type in what an hour costs you, move the batch",
        first=controls.choice(list(known), start=LARGE, label="device 1"),
        price_1=controls.slider(0.1, 20, START_PRICES[0], 0.1, label="an hour of it (made up)"),
        second=controls.choice(list(known), start=LARGE, label="device 2"),
        price_2=controls.slider(0.1, 20, START_PRICES[1], 0.1, label="an hour of it (made up)"),
        log2=controls.slider(0, 10, 0, label="samples in a batch, 2 to the power of"),
    )
