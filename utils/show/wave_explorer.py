"""Sliders over waves: a grid of blocks on the SMs of a chosen device, round by round, and what the last round leaves idle.

Nothing is measured: SMs are the datasheets', rounds are counted by `utils.model.waves`, so a move redraws in milliseconds.
"""

from __future__ import annotations

from functools import lru_cache

from utils.model import devices
from utils.model.waves import Waves
from utils.show import controls, theme
from utils.show.picture import Picture
from utils.show.roofline_figure import _text
from utils.show.tables import Table, significant

START = "NVIDIA H100 SXM"
OTHERS = ("Tesla T4", "NVIDIA A100 80 GB SXM", "NVIDIA H100 SXM", "NVIDIA B200")  # small to large, for the table of the same grid
WIDTH, LEFT, TOP, PLOT, FOOT = 760, 66, 56, 190, 46
MOST = 12  # rounds that are drawn; of more, the first ones and the last
LABEL = "counted from the datasheet's SMs: nothing measured, blocks equally long"


@lru_cache(maxsize=1)
def sms() -> dict[str, int]:
    """SMs by the device's name."""
    return {device.name: int(device.sms.value) for device in devices.load()}


def draw(blocks: int, per_sm: int, device: str) -> list:
    """The figure for one setting of the controls, what it says in words, and the same grid on other devices."""
    waves = Waves(blocks, sms()[device], per_sm)
    return [figure(waves, device), words(waves), beside(blocks, per_sm, device)]


def figure(waves: Waves, device: str) -> Picture:
    """A column for each round: filled as far as its blocks reach, hatched where places stay empty."""
    title = f"{waves.blocks:,} blocks on the {waves.sms} SMs of {device}, {waves.per_sm} at once on each"
    filled = waves.filled()
    rows = [{"round": f"{k + 1}", "blocks": n, "empty": waves.places - n} for k, n in _shown(filled)]
    columns = {"round": "round", "blocks": "blocks", "empty": "empty places"}
    left_out = [f"{waves.count - len(rows):,} full rounds are left out"] if len(rows) < waves.count else []
    alt = (
        f"Columns: {title}. {waves.count:,} rounds of {waves.places:,} places; the last has {waves.last:,} blocks and leaves "
        f"{waves.places - waves.last:,} places and {waves.idle_sms:,} SMs empty; empty of all places: {_share(waves)}. "
        f"{LABEL}"
    )
    return Picture(lambda: _svg(waves, title), alt, Table(rows, columns, title, [*left_out, LABEL]))


def words(waves: Waves) -> str:
    """What this grid loses here."""
    if waves.count == 1 and waves.blocks <= waves.sms:
        head = (
            f"One round: {waves.blocks:,} of {waves.sms:,} SMs have a block, {waves.idle_sms:,} have none for the whole kernel."
        )
    elif waves.last == waves.places:
        return f"All {waves.count:,} rounds are full: nothing is lost."
    else:
        on = min(waves.last, waves.sms)
        head = f"Rounds: {waves.count:,}. Blocks in the last one: {waves.last:,}, on {on:,} of {waves.sms:,} SMs."
    return f"{head} Of all places and rounds {_share(waves)} stay empty."


def beside(blocks: int, per_sm: int, device: str) -> Table:
    """The same grid on small and large devices, by SMs; the chosen one among them."""
    names = sorted({*OTHERS, device}, key=lambda name: sms()[name])
    rows = []
    for name in names:
        waves = Waves(blocks, sms()[name], per_sm)
        rows.append(
            {
                "device": name,
                "sms": waves.sms,
                "rounds": waves.count,
                "last": f"{waves.last:,} of {waves.places:,}",
                "idle": waves.idle_sms,
                "lost": _share(waves),
            }
        )
    columns = {
        "device": "device",
        "sms": "SMs",
        "rounds": "rounds",
        "last": "blocks in the last",
        "idle": "SMs idle in it",
        "lost": "share left empty",
    }
    return Table(rows, columns, "The same grid elsewhere", [LABEL])


def _share(waves: Waves) -> str:
    return f"{significant(waves.lost, 2)}" if waves.lost else "0"


def _shown(filled: list[int]) -> list[tuple[int, int]]:
    """(number, blocks) of the rounds that are drawn."""
    everything = list(enumerate(filled))
    return everything if len(filled) <= MOST else [*everything[: MOST - 1], everything[-1]]


def _svg(waves: Waves, title: str) -> str:
    shown, bottom, height = _shown(waves.filled()), TOP + PLOT, TOP + PLOT + FOOT
    step = min(170.0, (WIDTH - LEFT - 16) / len(shown))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">',
        f"<style>text{{font-family:{theme.FONTS};font-size:11px;fill:{theme.INK}}}</style>",
        '<defs><pattern id="empty" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        f'<path d="M0 0V7" stroke="{theme.VERMILION}" stroke-width="2"/></pattern></defs>',
        f'<rect width="{WIDTH}" height="{height}" fill="{theme.CARD}"/>',
        _text(8, 17, title, size=13, bold=True),
        _text(8, 33, LABEL, colour=theme.MUTED),
        _text(LEFT - 6, TOP + 8, f"{waves.places:,}", anchor="end", colour=theme.MUTED),
        _text(LEFT - 6, bottom, "0", anchor="end", colour=theme.MUTED),
        _text(LEFT - 6, TOP + PLOT / 2, "places", anchor="end", colour=theme.MUTED),
    ]
    for place, (number, blocks) in enumerate(shown):
        x, top = LEFT + step * place, bottom - PLOT * blocks / waves.places
        frame = f'x="{x + 2:.1f}" width="{step - 6:.1f}"'
        parts.append(f'<rect {frame} y="{TOP}" height="{top - TOP:.1f}" fill="url(#empty)" stroke="{theme.GREY}"/>')
        parts.append(f'<rect {frame} y="{top:.1f}" height="{bottom - top:.1f}" fill="{theme.BLUE}"/>')
        parts.append(_text(x + step / 2, bottom + 15, f"{number + 1:,}", anchor="middle", colour=theme.MUTED))
        if number > place:
            parts.append(_text(x, TOP - 5, "…", anchor="middle", bold=True))
    parts.append(_text(LEFT, bottom + 33, "round; filled: blocks that run, striped: places that stay empty", colour=theme.MUTED))
    return "".join(parts) + "</svg>"


def explorer() -> controls.Panel:
    """The controls with their figure: one figure, whatever is moved and however often."""
    return controls.panel(
        draw,
        title="Blocks, SMs, rounds: move a control (nothing is measured by it)",
        blocks=controls.slider(1, 2000, 133, label="blocks of the kernel"),
        per_sm=controls.slider(1, 16, 1, label="blocks at once on an SM"),
        device=controls.choice(list(sms()), start=START, label="device"),
    )
