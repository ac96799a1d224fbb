"""How long lesson 08's two panels take from a move to the new figure's HTML. Bar: the slowest of 200 moves under 50 ms.

Random moves of random controls; peer: a plain log-log line by matplotlib, as the other figures are drawn, in the same run.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.roofline_redraw import BAR_MS, by_matplotlib
from utils.show import controls, wave_explorer, worth_explorer


def moved(panel: controls.Panel, rng: random.Random) -> float:
    """Milliseconds of one random move: the arithmetic, the drawing, the table and the HTML that goes to the page."""
    name, control = rng.choice(list(panel.controls.items()))
    if isinstance(control, controls.slider):
        value = control.low + control.step * rng.randrange(round((control.high - control.low) / control.step))
    else:
        value = rng.choice(control.options)
    start = time.perf_counter()
    panel.fire(name, value)
    return (time.perf_counter() - start) * 1e3


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="no difference: nothing is computed on it")
    parser.add_argument("--runs", type=int, default=200)
    args = parser.parse_args(arguments)
    known = worth_explorer.speeds([], lambda batch: (2e8 * batch, 14e6 + 2e5 * batch), ops=60, host_us=8.0)
    panels = {"waves": wave_explorer.explorer(), "worth": worth_explorer.explorer(known)}
    rng, taken = random.Random(1), {"waves": [], "worth": [], "matplotlib": []}
    for panel in panels.values():
        panel._repr_mimebundle_()  # from here on a move also sets what the page shows
        moved(panel, rng)  # once unmeasured: imports, fonts
    by_matplotlib()
    for run in range(args.runs):
        for name, panel in panels.items():
            taken[name].append(moved(panel, rng))
        if run % 10 == 0:
            taken["matplotlib"].append(by_matplotlib())
    print("| redraw     | median ms | slowest ms |\n|------------|----------:|-----------:|")
    for name, times in taken.items():
        print(f"| {name:<10} | {statistics.median(times):9.1f} | {max(times):10.1f} |")
    slowest = max(taken["waves"] + taken["worth"])
    print(f"bar batch_redraw measured={slowest:.1f}ms wanted=<{BAR_MS:g}ms {'short' if slowest >= BAR_MS else 'pass'}")
    return 1 if slowest >= BAR_MS else 0


if __name__ == "__main__":
    sys.exit(main())
