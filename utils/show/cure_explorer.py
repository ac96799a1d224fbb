"""Controls over a program on the scoreboard: make its batch larger, its host slower, let it read out; verdict and cures follow.

Nothing is measured by a move: the facts of a board, measured or made up, are scaled and judged by `utils.model.limits`. That is
the null experiment on paper: more rows are more bytes and FLOPs, and as many launches as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from utils.model.limits import Facts, Roofs, Verdict, floors, judge
from utils.show import controls, theme
from utils.show.cost_profiler import pick
from utils.show.lanes_figure import _text
from utils.show.picture import Picture
from utils.show.tables import Table, significant

WIDTH, LEFT, RIGHT, TOP, ROW, BAR = 760, 200, 120, 62, 30, 20
MOST = 10  # the batch goes up to two to the power of this


@dataclass(frozen=True)
class Known:
    """A program's facts on a device with these roofs; `label` says whose numbers these are."""

    name: str
    facts: Facts
    roofs: Roofs
    label: str


MADE_UP = Known(
    "a made-up step on a GPU",
    Facts(
        step_ns=4.2e6, host_ns=4.2e6, device_ns=0.9e6, launches=600, products=96, bytes=2.4e9, least_bytes=1.1e9, flops=1.9e11,
        product_flops=1.85e11,
    ),
    Roofs(gbps=4000.0, products=700.0, vector=60.0),
    "made up: nothing measured",
)  # fmt: skip


def scaled(known: Known, power: int, host: float, reads: int) -> Facts:
    """The facts with a batch of two to the power of `power`, a host so many times as slow, and so many read-outs in a step.

    Bytes, FLOPs and what the device is busy grow with the batch, and never below what the roofs allow; launches do not grow. A
    read-out makes the host wait for what it has issued so far: the step is then the sum of both sides.
    """
    facts, times = known.facts, 2.0**power
    work = {name: getattr(facts, name) * times for name in ("bytes", "least_bytes", "flops", "product_flops")}
    least = replace(facts, **work)
    device = max(facts.device_ns * times, floors(least, known.roofs).largest)
    issued = facts.host_ns * host
    apart = facts.serial or reads > 0
    step = issued + device if apart else max(issued, device)
    waits = {"waits": reads, "wait_ns": device} if reads and not facts.serial else {"waits": 0, "wait_ns": 0.0}
    return replace(least, host_ns=issued, device_ns=device, step_ns=step, **waits)


def draw(known: Sequence[Known], program: str, power: int, host: float, reads: int) -> list:
    """The figure for one setting of the controls, and what it says, in words."""
    one = next(each for each in known if each.name == program)
    facts = scaled(one, power, host, reads)
    verdict = judge(facts, one.roofs)
    return [figure(one, facts, verdict, power), words(facts, verdict)]


def words(facts: Facts, verdict: Verdict) -> str:
    """The verdict with its reason, and the cure with the most leverage."""
    cure = verdict.cure
    best = "No cure on the list could save a twentieth of it."
    if cure is not None:
        best = f"Most leverage: {cure.name}; the step could fall to {_us(cure.best_ns)} at best."
    kind, reason = verdict.kind[:1].upper() + verdict.kind[1:], verdict.reason.replace("%", " percent")
    return f"{kind}: {reason}. In µs: the step takes {_us(facts.step_ns)}. {best}"


def _us(ns: float) -> str:
    """µs without their unit, which the words and the table's heading say once."""
    return significant(1e-3 * ns)


def figure(known: Known, facts: Facts, verdict: Verdict, power: int) -> Picture:
    """Bars: the step, its two sides, and the step that each cure leaves at best."""
    bars = [("the step", facts.step_ns, 0), ("host, issuing", facts.host_ns, 1), ("device, busy", facts.device_ns, 2)]
    bars += [(f"at best: {cure.name}", cure.best_ns, 3) for cure in verdict.cures]
    title = f"{known.name}, batch × {2**power:,}: {verdict.kind}"
    rows = [{"what": name, "us": _us(ns)} for name, ns, _ in bars]
    alt = (
        f"Bars: {title}. " + "; ".join(f"{row['what']} {row['us']}" for row in rows) + f". {words(facts, verdict)} {known.label}"
    )
    table = Table(rows, {"what": "what", "us": "in µs"}, title, [known.label])
    return Picture(lambda: _svg(bars, title, known.label), alt, table)


def _svg(bars: Sequence[tuple[str, float, int]], title: str, label: str) -> str:
    height = TOP + ROW * len(bars) + 10
    most = max(ns for _, ns, _ in bars)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">',
        f"<style>text{{font-family:{theme.FONTS};font-size:11px;fill:{theme.INK}}}</style>",
        f'<rect width="{WIDTH}" height="{height}" fill="{theme.CARD}"/>',
        _text(8, 17, title, size=13, bold=True),
        _text(8, 34, label, colour=theme.MUTED),
    ]
    for at, (name, ns, shade) in enumerate(bars):
        y, long = TOP + ROW * at, (WIDTH - LEFT - RIGHT) * ns / most
        parts.append(_text(LEFT - 8, y + 14, name, anchor="end"))
        shape = f'x="{LEFT}" y="{y}" width="{long:.1f}" height="{BAR}"'
        parts.append(f'<rect {shape} fill="{theme.SERIES[shade]}" stroke="{theme.INK}" stroke-width="0.6"/>')
        parts.append(_text(LEFT + long + 6, y + 14, f"{_us(ns)} µs", bold=True))
    return "".join(parts) + "</svg>"


def explorer(known: Sequence[Known] = ()) -> controls.Panel:
    """The controls with their figure, over one made-up program, with which they start, and the boards in `known`."""
    every = [MADE_UP, *known]

    def shown(program: str, power: int, host: float, reads: int) -> list:
        return draw(every, program, power, host, reads)

    return controls.panel(
        shown,
        title="Which cure first? Choose a program, make its batch larger, its host slower (nothing is measured)",
        program=pick([one.name for one in every], label="the program"),
        power=controls.slider(0, MOST, 0, label="batch, two to the power of"),
        host=controls.slider(0.25, 4, 1, 0.25, label="the host, times as slow"),
        reads=controls.slider(0, 10, 0, label="read-outs in a step"),
    )
