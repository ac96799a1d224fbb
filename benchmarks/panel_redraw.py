"""How long the panels of the lessons take from a move to the new figure's HTML. Bar: the slowest of 200 moves under 50 ms, each.

Random moves of random controls, panels taking turns; peer: one line on two logarithmic axes by matplotlib, as the other figures
are drawn, in the same run.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tabulate import tabulate

from utils.model import memory_plan
from utils.model.memory_plan import Buffer
from utils.show import (
    arena_explorer,
    controls,
    cost_profiler,
    cure_explorer,
    figures,
    floor_explorer,
    lesson14,
    payback_explorer,
    price_seeds,
    progress,
    queue_explorer,
    recompute_explorer,
    roofline_explorer,
    wave_explorer,
    worth_explorer,
)

BAR_MS = 50.0
EACH = 10  # moves of every panel for one figure of the peer


def panels() -> dict[str, controls.Panel]:
    """Every panel that draws, by name, as its lesson makes it; its speeds are made up or recorded, and nothing is measured."""
    speeds = worth_explorer.speeds([], lambda batch: (2e8 * batch, 14e6 + 2e5 * batch), ops=60, host_us=8.0)
    buffers = [Buffer(n, 4096 * (1 + n % 7), n, n + 2 + n % 5) for n in range(80)]  # as many as a layer's training step has
    plans = {name: plan(buffers) for name, plan in memory_plan.PLANNERS.items()}
    step = {
        "buffers": [[b.size, b.start, b.end] for b in buffers],
        "ops": ["made up"] * len(buffers),
        "plans": {name: {"offsets": [plan.offsets[b.id] for b in buffers], "size": plan.size} for name, plan in plans.items()},
    }
    return {
        "arena": arena_explorer.explorer({"a step": step}, "made up"),
        "recompute": recompute_explorer.explorer(),
        "queue": queue_explorer.explorer(),
        "roofline": roofline_explorer.explorer(),
        "profiler": cost_profiler.profiler(price_seeds.seeds()),
        "waves": wave_explorer.explorer(),
        "worth": worth_explorer.explorer(speeds),
        "floors": floor_explorer.explorer(),
        "payback": payback_explorer.explorer([payback_explorer.Cure("captured", 2e-3, 90e3, 5e3, "made up")]),
        "cures": cure_explorer.explorer(),
        "schedule": lesson14.one_question(),
    }


def moved(panel: controls.Panel, rng: random.Random) -> float:
    """Milliseconds of one random move: the model, the drawing, the table and the HTML that goes to the page."""
    name, control = rng.choice(list(panel.controls.items()))
    if isinstance(control, controls.slider):
        value = control.low + control.step * rng.randrange(round((control.high - control.low) / control.step) + 1)
        value = min(value, control.high)
    else:
        value = rng.choice([True, False]) if isinstance(control, controls.switch) else rng.choice(control.options)
    start = time.perf_counter()
    panel.fire(name, value)
    return (time.perf_counter() - start) * 1e3


def by_matplotlib() -> float:
    """Milliseconds of one line on two logarithmic axes."""

    def paint(figure, axes) -> None:
        axes.loglog([0.03, 20, 4000], [0.1, 67, 67])

    start = time.perf_counter()
    figures._drawn(paint, 3.0)()
    return (time.perf_counter() - start) * 1e3


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="no difference: nothing is computed on it")
    parser.add_argument("--runs", type=int, default=200, help="moves of each panel (200)")
    args = parser.parse_args(arguments)
    made, rng = panels(), random.Random(1)
    taken: dict[str, list[float]] = {name: [] for name in (*made, "matplotlib")}
    for panel in made.values():
        panel._repr_mimebundle_()  # from here on a move also sets what the page shows
        moved(panel, rng)  # once unmeasured: imports, fonts
    by_matplotlib()
    with progress.bar("moves") as bar:
        for run in range(args.runs):
            for name, panel in made.items():
                taken[name].append(moved(panel, rng))
            if run % EACH == 0:
                taken["matplotlib"].append(by_matplotlib())
            bar((run + 1) / args.runs, "moves")
    rows = [[name, statistics.median(times), max(times)] for name, times in taken.items()]
    print(tabulate(rows, headers=["redraw", "median ms", "slowest ms"], floatfmt=".1f"), end="\n\n")
    short = 0
    for name in made:
        slowest = max(taken[name])
        short |= slowest >= BAR_MS
        print(f"bar {name}_redraw measured={slowest:.1f}ms wanted=<{BAR_MS:g}ms {'short' if slowest >= BAR_MS else 'pass'}")
    return int(short)


if __name__ == "__main__":
    sys.exit(main())
