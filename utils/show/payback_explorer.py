"""Controls over payback: a cure that costs seconds once and saves time in each step, and after how many steps it has paid.

Nothing is measured by a move: the cures come in with what they cost and save, measured or made up, each with its label. Every
shape that a program runs has to be captured or compiled anew, and inputs have to be copied to where a graph reads them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from utils.model import payback
from utils.show import controls, theme
from utils.show.cost_profiler import pick
from utils.show.picture import Picture
from utils.show.roofline_figure import _decades, _text
from utils.show.tables import Table, significant

WIDTH, LEFT, RIGHT, TOP, PLOT = 760, 76, 176, 56, 220
MOST = 9  # steps are drawn from 1 to 10 to the power of this
LINES = {"before": ("without it", theme.VERMILION, "7 4"), "after": ("with the cure", theme.BLUE, "")}


@dataclass(frozen=True)
class Cure:
    """What is paid once (s), and a step before and after it (ns); `label` says whose numbers these are."""

    name: str
    once_s: float
    before_ns: float
    after_ns: float
    label: str


MADE_UP = Cure("made-up numbers", 2.0, 100e3, 40e3, "made up: nothing measured")


def draw(known: Sequence[Cure], cure: str, shapes: int, copies: float, power: float) -> list:
    """The figure for one setting of the controls, and what it says, in words."""
    one = next(each for each in known if each.name == cure)
    return [figure(one, shapes, copies, power), words(one, shapes, copies, power)]


def paid(cure: Cure, shapes: int, copies_us: float) -> int | None:
    """The steps after which the cure has paid for `shapes` shapes, with so many µs of copies in each step; None when never."""
    return payback.steps(cure.once_s, cure.before_ns, cure.after_ns + 1e3 * copies_us, times=shapes)


def words(cure: Cure, shapes: int, copies_us: float, power: float) -> str:
    """When it has paid, and both totals at the chosen number of steps."""
    count, after = 10.0**power, cure.after_ns + 1e3 * copies_us
    found = paid(cure, shapes, copies_us)
    spent = [payback.total_s(count, 0.0, cure.before_ns), payback.total_s(count, cure.once_s, after, times=shapes)]
    head = (
        "It never pays: a step with the cure takes no less than a step without."
        if found is None
        else f"It has paid after {_count(found)} steps."
    )
    less = "without it" if spent[0] < spent[1] else "with it"
    return (
        f"{head} In µs: a step {significant(1e-3 * cure.before_ns)} without it, {significant(1e-3 * after)} with it. "
        f"{_count(count)} step{'s take' if count > 1 else ' takes'} {_seconds(spent[0])} without it and {_seconds(spent[1])} "
        f"with it: less {less}."
    )


def figure(cure: Cure, shapes: int, copies_us: float, power: float) -> Picture:
    """Seconds against steps, both logarithmic: a line for each way, marks where they cross and where the reader stands."""
    after = cure.after_ns + 1e3 * copies_us
    title = f"{cure.name}, paid for {shapes} shape{'s' if shapes > 1 else ''}; copies a step, in µs: {copies_us:g}"
    counts = sorted({*(10**k for k in range(MOST + 1)), round(10.0**power)})
    rows = [
        {
            "steps": _count(n),
            "before": _seconds(payback.total_s(n, 0.0, cure.before_ns)),
            "after": _seconds(payback.total_s(n, cure.once_s, after, times=shapes)),
        }
        for n in counts
    ]
    columns = {"steps": "steps", "before": LINES["before"][0], "after": LINES["after"][0]}
    alt = f"Two lines over the steps, logarithmic axes: {title}. {words(cure, shapes, copies_us, power)} {cure.label}"
    return Picture(
        lambda: _svg(cure, shapes, copies_us, power, title), alt, Table(rows, columns, f"Seconds in all: {title}", [cure.label])
    )


def _count(steps: float) -> str:
    return significant(steps, 2) if steps >= 10 else f"{steps:.0f}"


def _seconds(s: float) -> str:
    return f"{significant(s, 2)} s"


def _svg(cure: Cure, shapes: int, copies_us: float, power: float, title: str) -> str:
    after = cure.after_ns + 1e3 * copies_us
    ends = {
        "before": [payback.total_s(10.0**k, 0.0, cure.before_ns) for k in range(MOST + 1)],
        "after": [payback.total_s(10.0**k, cure.once_s, after, times=shapes) for k in range(MOST + 1)],
    }
    every = [s for line in ends.values() for s in line]
    low, high = min(every) / 2, max(every) * 2
    bottom, right = TOP + PLOT, WIDTH - RIGHT

    def x(count: float) -> float:
        return LEFT + (right - LEFT) * math.log10(count) / MOST

    def y(seconds: float) -> float:
        return bottom - PLOT * math.log(seconds / low) / math.log(high / low)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 42}" width="{WIDTH}" height="{bottom + 42}">',
        f"<style>text{{font-family:{theme.FONTS};font-size:11px;fill:{theme.INK}}}</style>",
        f'<rect width="{WIDTH}" height="{bottom + 42}" fill="{theme.CARD}"/>',
        _text(8, 17, title, size=13, bold=True),
        _text(8, 34, cure.label, colour=theme.MUTED),
        _text(LEFT - 6, TOP - 6, "seconds", anchor="end", colour=theme.MUTED),
    ]
    for value in _decades(low, high)[:: 2 if high / low > 1e7 else 1]:
        parts.append(f'<path d="M{LEFT} {y(value):.1f}H{right}" stroke="{theme.GRID}" stroke-width="0.7"/>')
        parts.append(_text(LEFT - 6, y(value) + 4, _plain(value), anchor="end", colour=theme.MUTED))
    for k in range(0, MOST + 1):
        parts.append(_text(x(10**k), bottom + 15, _power(k), anchor="middle", colour=theme.MUTED))
    parts.append(_text((LEFT + right) / 2, bottom + 32, "steps", anchor="middle", colour=theme.MUTED))
    fine = [k / 8 for k in range(8 * MOST + 1)]
    for name, (_, colour, dash) in LINES.items():
        once, step, times = (0.0, cure.before_ns, 1) if name == "before" else (cure.once_s, after, shapes)
        path = "L".join(f"{x(10**k):.1f} {y(payback.total_s(10**k, once, step, times=times)):.1f}" for k in fine)
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2.4"{dashed}/>')
    places = [y(ends[name][-1]) + 4 for name in LINES]
    if abs(places[0] - places[1]) < 14:
        upper = 0 if places[0] <= places[1] else 1
        places[upper], places[1 - upper] = places[upper] - 7, places[1 - upper] + 7
    parts += [_text(right + 8, place, LINES[name][0], bold=True) for name, place in zip(LINES, places, strict=True)]
    found = paid(cure, shapes, copies_us)
    if found is not None and 1 <= found <= 10**MOST:
        at = x(found)
        parts.append(f'<path d="M{at:.1f} {TOP}V{bottom}" stroke="{theme.INK}" stroke-width="1.2"/>')
        side = "end" if at > (LEFT + right) / 2 else "start"
        parts.append(_text(at + (-5 if side == "end" else 5), TOP + 10, f"paid: {_count(found)} steps", anchor=side, bold=True))
    at = x(10.0**power)
    mark = f'stroke="{theme.MUTED}" stroke-width="1.2" stroke-dasharray="2 3"'
    parts.append(f'<path d="M{at:.1f} {TOP}V{bottom}" {mark}/>')
    side = "end" if at > (LEFT + right) / 2 else "start"
    parts.append(_text(at + (-5 if side == "end" else 5), bottom - 6, "you", anchor=side, colour=theme.MUTED))
    return "".join(parts) + "</svg>"


def _plain(value: float) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:.9f}".rstrip("0")


def _power(k: int) -> str:
    return ("1", "10", "100", "1 k", "10 k", "100 k", "1 M", "10 M", "100 M", "1 G")[k]


def explorer(cures: Sequence[Cure] = ()) -> controls.Panel:
    """The controls with their figure, over `cures` and one that is made up, with which they start: the others tell an answer."""
    known = [MADE_UP, *cures]

    def shown(cure: str, shapes: int, copies: float, power: float) -> list:
        return draw(known, cure, shapes, copies, power)

    return controls.panel(
        shown,
        title="After how many steps has it paid? Choose a cure, move the sliders",
        cure=pick([one.name for one in known], label="the cure"),
        shapes=controls.slider(1, 64, 1, label="shapes, each captured or compiled anew"),
        copies=controls.slider(0, 100, 0, 0.5, label="copies into static inputs, a step", unit="µs"),
        power=controls.slider(0, MOST, 4, 0.1, label="steps that you will run, 10 to the power of"),
    )
