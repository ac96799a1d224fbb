"""Sliders over the two floors of an elementwise kernel: its bytes over a bandwidth, its instructions over an issue rate.

Nothing is measured: four numbers in, the longer floor and the ridge out. Times are of 134 million elements, the lesson's tensor.
"""

from __future__ import annotations

from utils.measure.roofline import Roof, Roofline
from utils.show import controls, theme
from utils.show.picture import Picture
from utils.show.tables import Table, significant

LABEL = "worked out from the sliders: nothing measured"
ELEMENTS = 1 << 27
WIDTH, LEFT, RIGHT, HEIGHT = 760, 150, 90, 132
BARS = {"bytes": (theme.BLUE, ""), "instructions": (theme.ORANGE, "url(#strokes)")}


def floors(instructions: float, nbytes: float, gbps: float, issue: float) -> dict[str, float]:
    """{"bytes", "instructions"}: µs of each floor. `gbps` in GB/s, `issue` in 1e12 instructions a second."""
    return {"bytes": nbytes * ELEMENTS / gbps * 1e-3, "instructions": instructions * ELEMENTS / issue * 1e-6}


def draw(instructions: int, nbytes: int, gbps: int, issue: int) -> list:
    """Both floors as bars, and in words which is the longer one and where the ridge lies."""
    found = floors(instructions, nbytes, gbps, issue)
    longer = max(found, key=found.get)
    ridge = Roofline(LABEL, gbps, {"issue": Roof("issue", issue)}).ridge("issue")
    title = f"An element: instructions {instructions}, bytes {nbytes}. The GPU: {gbps:,} GB/s, issue {issue} × 10¹² a second"
    rows = [
        {"floor": name, "us": significant(us), "longer": "◀ the longer" if name == longer else ""} for name, us in found.items()
    ]
    table = Table(rows, {"floor": "floor", "us": "µs", "longer": ""}, title, [LABEL])
    said = f"In µs: bytes {significant(found['bytes'])}, instructions {significant(found['instructions'])}."
    words = (
        f"{said} The {longer} set the least time. Instructions a byte: {significant(instructions / nbytes, 2)}; the ridge: "
        f"{significant(ridge, 2)}."
    )
    return [Picture(_svg(found, longer, title), f"Bars: {title}. {said} The longer floor: {longer}. {LABEL}", table), words]


def _svg(found: dict[str, float], longer: str, title: str) -> str:
    scale = (WIDTH - LEFT - RIGHT) / max(found.values())
    body = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}">',
        f"<style>text{{font-family:{theme.FONTS};font-size:12px;fill:{theme.INK}}}</style>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="{theme.CARD}"/>',
        '<defs><pattern id="strokes" width="6" height="6" patternUnits="userSpaceOnUse"><path d="M0 6L6 0" '
        f'stroke="{theme.INK}" stroke-width="1"/></pattern></defs>',
        f'<text x="8" y="20" font-weight="bold">{title}</text>',
    ]
    for row, (name, us) in enumerate(found.items()):
        colour, hatch = BARS[name]
        y, width = 38 + 38 * row, max(1.0, us * scale)
        weight = "bold" if name == longer else "normal"
        place = f'x="{LEFT}" y="{y}" width="{width:.1f}" height="24"'
        body.append(f'<rect {place} fill="{colour}" stroke="{theme.INK}"/>')
        if hatch:
            body.append(f'<rect {place} fill="{hatch}"/>')
        body.append(f'<text x="{LEFT - 8}" y="{y + 16}" text-anchor="end" font-weight="{weight}">its {name}</text>')
        body.append(f'<text x="{LEFT + width + 6:.1f}" y="{y + 16}" font-weight="{weight}">'
                    f"{significant(us)} µs</text>")  # fmt: skip
    body.append(f'<text x="8" y="{HEIGHT - 8}" style="font-size:10.5px;fill:{theme.MUTED}">{LABEL}</text></svg>')
    return "".join(body)


def explorer() -> controls.Panel:
    """The four sliders with their figure; they start at round figures that are no machine's and no kernel's."""
    return controls.panel(
        draw,
        title="Two floors of one kernel: move a slider (nothing here is measured)",
        instructions=controls.slider(1, 200, 20, 1, label="instructions an element"),
        nbytes=controls.slider(2, 24, 6, 2, label="bytes an element"),
        gbps=controls.slider(200, 10_000, 4000, 100, label="bandwidth", unit="GB/s"),
        issue=controls.slider(2, 80, 30, 1, label="issue rate", unit="10¹² a second"),
    )
