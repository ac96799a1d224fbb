"""Controls over arenas: a traced program, a planner, and a moment; where each buffer lies, and who is alive.

The traces were measured, here or in a recording; the plans are worked out. A move measures nothing and redraws in milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping

from utils.show import arena_figure, controls
from utils.show.arena_figure import Laid, mib
from utils.show.tables import significant

START = "no reuse"


def explorer(programs: Mapping[str, dict], label: str) -> controls.Panel:
    """The panel over the programs of the part "arena" (name → buffers, ops, plans); `label` says where they were traced."""
    laid = {
        (name, planner): Laid.of(program, planner, _bound(program))
        for name, program in programs.items()
        for planner in program["plans"]
    }
    longest = max(one.moments for one in laid.values())

    def draw(program: str, planner: str, moment: int) -> list:
        one = laid[program, planner]
        at = min(moment, one.moments - 1)
        return [arena_figure.figure(one, f"{program}: {planner}", f"traced: {label}", at), words(one, at)]

    first = next(iter(programs))
    return controls.panel(
        draw,
        title="An arena: choose a program and a planner, move the moment (nothing is measured by it)",
        program=controls.choice(list(programs), label="program"),
        planner=controls.choice(list(programs[first]["plans"]), start=START, label="planner"),
        moment=controls.slider(0, longest - 1, 0, label="moment"),
    )


def words(laid: Laid, moment: int) -> str:
    """Who lives at the moment, how many bytes that is, and what the arena takes beside the most that lives at once."""
    alive = laid.alive(moment)
    nbytes = sum(laid.buffers[n][0] for n in alive)
    over = laid.size / laid.bound
    held = "as small as any arena can be" if over == 1 else f"over the most that lives at once: {significant(over, 4)}"
    return f"At moment {moment}: {len(alive)} of {len(laid.buffers)} buffers, {mib(nbytes)}. The arena: {mib(laid.size)}, {held}."


def _bound(program: dict) -> int:
    from utils.model import memory_plan
    from utils.model.memory_plan import Buffer

    return memory_plan.peak([Buffer(n, *b) for n, b in enumerate(program["buffers"])])
