"""The eager cost profiler: sliders for a step and a machine, a launch bar and a memory bar, and the step by three models.

Nothing is measured by a move: `utils.model.costmodel.Profile` is worked out and drawn by hand as SVG, within milliseconds. One
click on a machine sets its three prices (dispatch, launch, bandwidth) on the sliders; every figure says whose they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from utils.model.costmodel import SMALL, Profile
from utils.show import controls, theme
from utils.show.lanes_figure import _hatch, _text, ticks
from utils.show.picture import Picture
from utils.show.price_seeds import STOCK, Seed
from utils.show.tables import Table, significant

BYTES = {"bf16": 2, "fp32": 4}
WIDTH, LEFT, RIGHT, TOP = 760, 96, 112, 46
BAR, ROW = 24, 40  # pixels: a bar, and from one to the next
MODELS = {"sum": "sum", "max": "maximum", "queue": "queue"}
PIECES = 66  # more segments than a bar can show: then it is drawn whole

# The sliders of a machine: (field of Prices, low, high, step, label, unit).
MACHINE = {
    "dispatch": ("dispatch_us", 0, 60, 0.05, "dispatch of an op", "µs"),
    "launch": ("launch_us", 0, 30, 0.05, "launch of a kernel", "µs"),
    "bandwidth": ("gbps", 1, 8000, 1, "bandwidth", "GB/s"),
}


@dataclass(frozen=True)
class pick(controls.choice):
    """One of several, each with a button of its own: one click."""

    def widget(self, name: str, on_release: bool):
        import ipywidgets as w

        style = {"description_width": "initial"}
        kind = {"options": list(self.options), "value": self.start or self.options[0], "description": self.label or name}
        return w.RadioButtons(**kind, style=style, layout=w.Layout(width="auto"))


def on_sliders(seed: Seed) -> dict[str, float]:
    """Where a seed sets the machine's sliders: its prices, rounded to their steps and kept within their ends."""
    out = {}
    for name, (field, low, high, step, _, _) in MACHINE.items():
        value = min(max(getattr(seed.prices, field), low), high)
        out[name] = round(step * round(value / step), 6)
    return out


def profile_of(seed: Seed, machine: Mapping[str, float], *, millions: float, ops: int, dtype: str, **switches: bool) -> Profile:
    """The profile that the controls describe: the machine's sliders (by their names here) over the rest of the seed's prices."""
    prices = replace(seed.prices, **{MACHINE[name][0]: float(value) for name, value in machine.items()})
    return Profile(millions * 1e6, ops, BYTES[dtype], prices, **switches)


def whose(seed: Seed, machine: Mapping[str, float]) -> str:
    """The label of the prices: the seed's, unless somebody moved one."""
    moved = [MACHINE[name][4] for name, value in on_sliders(seed).items() if abs(value - machine[name]) > 1e-9]
    return f"{seed.label} · set by hand: {', '.join(moved)}" if moved else seed.label


def eager(profile: Profile) -> Profile:
    """The same profile without the switches."""
    return replace(profile, capture=False, fuse=False)


def step_of(profile: Profile, device: str) -> tuple[str, float]:
    """(model, µs) that says how long the step takes: on a CPU one thread does both halves, elsewhere the queue is played."""
    model = "sum" if device == "cpu" else "queue"
    return model, profile.totals()[model]


# ------------------------------------------------------------------------------------------------ what is shown


def draw(profile: Profile, label: str, device: str = "cuda") -> list:
    """The figure of one profile and what it says, in words."""
    return [figure(profile, label, device), words(profile, device)]


def figure(profile: Profile, label: str, device: str = "cuda") -> Picture:
    """Two bars in µs, dashed what they were without the switches, and below them the step by three models."""
    title = title_of(profile)
    return Picture(_svg(profile, title, label, device), _alt(profile, title, label, device), table(profile, title, label, device))


def title_of(profile: Profile) -> str:
    switched = [word for word, on in (("captured", profile.capture), ("fused", profile.fuse)) if on]
    size = f"{significant(profile.elements / (SMALL if profile.small else 1))} elements"
    return f"A product and {profile.ops} elementwise ops on {size}{', ' + ' and '.join(switched) if switched else ''}"


def table(profile: Profile, title: str, label: str, device: str) -> Table:
    """Every readout: launches, kernels, bytes, both bars, three models, bottleneck."""
    plain, model = eager(profile), step_of(profile, device)[0]
    rows = [
        {"what": "launches by the host", "now": profile.launches, "eager": plain.launches},
        {"what": "kernels", "now": profile.kernels, "eager": plain.kernels},
        {"what": "bytes moved, in millions", "now": _millions(profile), "eager": _millions(plain)},
        {"what": "launch bar, µs", "now": significant(profile.launch_us), "eager": significant(plain.launch_us)},
        {"what": "memory bar, µs", "now": significant(profile.memory_us), "eager": significant(plain.memory_us)},
    ]
    now, before = profile.totals(), plain.totals()
    for key, name in MODELS.items():
        chosen = " = the step's wall-time" if key == model else ""
        rows.append({"what": f"{name}, µs{chosen}", "now": significant(now[key]), "eager": significant(before[key])})
    rows.append({"what": "bottleneck: the longer bar", "now": profile.bottleneck, "eager": plain.bottleneck})
    columns = {"what": "readout", "now": "with the switches as they are", "eager": "both switches off"}
    return Table(rows, columns, title, [label])


def words(profile: Profile, device: str) -> str:
    """Who is the longer bar, what the step takes, and what the switches took off which bar; µs throughout, said once."""
    plain, (model, wall) = eager(profile), step_of(profile, device)
    longer = "launches" if profile.bottleneck == "launch" else "memory"
    out = [
        f"In µs: launch bar {significant(profile.launch_us)}, memory bar {significant(profile.memory_us)}: the bottleneck is "
        f"{longer}.",
        f"By the {MODELS[model]} the step takes {significant(wall)}.",
    ]
    if profile.capture or profile.fuse:
        took = {
            "launch bar": plain.launch_us - profile.launch_us,
            "memory bar": plain.memory_us - profile.memory_us,
            "step": step_of(plain, device)[1] - wall,
        }
        told = [f"{significant(us) if us > 1e-9 else 'nothing'} off the {what}" for what, us in took.items()]
        out.append(f"The switches take {', '.join(told[:2])} and {told[2]}.")
    if device == "cpu":
        out.append("On a CPU one thread does both halves, so the step is the sum; nothing can be captured by CUDA there.")
    return " ".join(out)


def _millions(profile: Profile) -> str:
    return significant(profile.nbytes * 1e-6)


def _alt(profile: Profile, title: str, label: str, device: str) -> str:
    plain = eager(profile)
    totals = ", ".join(f"{name} {significant(profile.totals()[key])}" for key, name in MODELS.items())
    before = f"; without the switches {significant(plain.launch_us)} and {significant(plain.memory_us)}"
    return (
        f"Two bars in µs: {title}. Launch bar {significant(profile.launch_us)} for {profile.launches} launches, memory bar "
        f"{significant(profile.memory_us)} for {_millions(profile)} million bytes"
        f"{before if profile.capture or profile.fuse else ''}. The step by model: {totals}. "
        f"Bottleneck: {profile.bottleneck}. {label}"
    )


# ------------------------------------------------------------------------------------------------ drawing


def _svg(profile: Profile, title: str, label: str, device: str) -> str:
    plain, totals = eager(profile), profile.totals()
    far = max(plain.launch_us, plain.memory_us, *totals.values(), *plain.totals().values()) or 1.0
    scale = (WIDTH - LEFT - RIGHT) / far
    bottom = TOP + 2 * ROW + 14 + 3 * 20
    height = bottom + 38
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">',
        f"<defs>{_hatch('rising', 'M0 6L6 0')}</defs>",
        f"<style>text{{font-family:{theme.FONTS};font-size:11px;fill:{theme.INK}}}</style>",
        f'<rect width="{WIDTH}" height="{height}" fill="{theme.CARD}"/>',
        _text(8, 17, title, size=13, bold=True) + _text(8, 34, label, colour=theme.MUTED),
    ]
    for tick in ticks(far):
        x = LEFT + tick * scale
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{bottom}" stroke="{theme.GRID}" stroke-width="0.7"/>')
        parts.append(_text(x, bottom + 15, significant(tick) if tick else "0", anchor="middle", colour=theme.MUTED))
    parts.append(_text(WIDTH - 8, bottom + 15, "µs", anchor="end", colour=theme.MUTED))
    host = [op.host_us for op in profile.step() if op.host_us]
    memory = [profile.prices.memory_us(nbytes) for _, nbytes in profile.moved()]
    longer = profile.bottleneck
    parts += _bar("launch bar", TOP + 6, scale, host, plain.launch_us, theme.BLUE, "", longer == "launch")
    parts += _bar("memory bar", TOP + 6 + ROW, scale, memory, plain.memory_us, theme.ORANGE, "rising", longer == "memory")
    y, model = TOP + 2 * ROW + 18, step_of(profile, device)[0]
    for key, name in MODELS.items():
        parts += _total(name, y, scale, totals[key], key == model)
        y += 20
    return "".join(parts) + "</svg>"


def _bar(name: str, top: float, scale: float, pieces: list[float], before: float, colour: str, hatch: str, longer: bool) -> list:
    """One bar, a segment an op; dashed behind it what it was without the switches; its name bold where it is the longer one."""
    total = sum(pieces)
    out = [_text(LEFT - 8, top + BAR / 2 + 4, name, anchor="end", bold=longer)]
    at = f'x="{LEFT}" y="{top}" width="{max(total * scale, 0.5):.2f}" height="{BAR}"'
    out.append(f'<rect {at} fill="{colour}"/>' + (f'<rect {at} fill="url(#{hatch})"/>' if hatch else ""))
    x = float(LEFT)
    for piece in pieces[:-1] if len(pieces) <= PIECES else []:
        x += piece * scale
        out.append(f'<line x1="{x:.2f}" x2="{x:.2f}" y1="{top}" y2="{top + BAR}" stroke="{theme.CARD}" stroke-width="1.2"/>')
    if before > total * (1 + 1e-9):
        out.append(
            f'<rect x="{LEFT}" y="{top}" width="{before * scale:.2f}" height="{BAR}" fill="none" stroke="{theme.INK}" '
            'stroke-dasharray="5 3" stroke-width="1"/>'
        )
    end = LEFT + max(total, before) * scale
    out.append(_text(end + 6, top + BAR / 2 + 4, significant(total), bold=longer))
    return out


def _total(name: str, y: float, scale: float, total: float, chosen: bool) -> list:
    """One model's time as a thin bar; bold the one that says how long the step takes."""
    fill = theme.INK if chosen else theme.GREY
    return [
        _text(LEFT - 8, y + 8, name, anchor="end", bold=chosen),
        f'<rect x="{LEFT}" y="{y}" width="{max(total * scale, 0.5):.2f}" height="9" fill="{fill}"/>',
        _text(LEFT + total * scale + 6, y + 8.5, significant(total) + (", the step" if chosen else ""), bold=chosen),
    ]


# ------------------------------------------------------------------------------------------------ the controls


class SeededPanel(controls.Panel):
    """A panel in which choosing a machine also sets the machine's sliders; the figure is drawn once for such a click."""

    def __init__(self, draw, named: Mapping[str, controls.slider], title: str, seeds: Mapping[str, Seed]):
        self.seeds, self._seeding = seeds, False
        super().__init__(draw, dict(named), False, title)

    def _move(self, name: str, value) -> None:
        self.values[name] = value
        if self._seeding:
            return  # a slider that the click below moves
        if name == "prices":
            self._seeding = True
            try:
                for other, at in on_sliders(self.seeds[value]).items():
                    self.values[other] = at
                    if other in self._widgets:
                        self._widgets[other].value = at
            finally:
                self._seeding = False
        self._redraw()


def profiler(seeds: Mapping[str, Seed], start: str = STOCK) -> SeededPanel:
    """The controls with their figure: one figure, whatever is moved and however often. `start` names the first prices."""
    first = on_sliders(seeds[start])

    def shown(prices: str, **values) -> list:
        seed, machine = seeds[prices], {name: values.pop(name) for name in MACHINE}
        return draw(profile_of(seed, machine, **values), whose(seed, machine), seed.device)

    machine = {
        name: controls.slider(low, high, first[name], step, label=words, unit=unit)
        for name, (_, low, high, step, words, unit) in MACHINE.items()
    }
    named = {
        "prices": pick(list(seeds), start=start, label="prices of:"),
        "millions": controls.slider(1, 256, 16, label="elements of the activation, in millions"),
        "ops": controls.slider(0, 64, 4, label="elementwise ops behind the product"),
        "dtype": controls.choice(list(BYTES), label="dtype"),
        **machine,
        "small": controls.switch(label=f"small model: the activation has one element in {SMALL:,}"),
        "capture": controls.switch(label="capture: the step is launched as one graph"),
        "fuse": controls.switch(label="fuse: the elementwise ops are one kernel"),
    }
    return SeededPanel(shown, named, "The eager cost profiler: move anything (nothing is measured by it)", seeds)
