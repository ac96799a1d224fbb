"""How long lesson 04's sliders take from a move to the new figure's HTML. Bar: the slowest of 200 moves under 50 ms.

Random moves of random sliders; peer: the same lanes drawn by matplotlib, as the other figures are, in the same run.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from utils.show import figures, queue_explorer

BAR_MS = 50.0


def moved(panel, rng: random.Random) -> float:
    """Milliseconds of one random move: the model, the drawing, the table and the HTML that goes to the page."""
    name = rng.choice(list(panel.controls))
    control = panel.controls[name]
    value = control.low + control.step * rng.randrange(round((control.high - control.low) / control.step) + 1)
    start = time.perf_counter()
    panel.fire(name, value)
    return (time.perf_counter() - start) * 1e3


def by_matplotlib(panel) -> float:
    """Milliseconds of drawing the lanes that the panel stands at with matplotlib."""
    at = dict(panel.values)
    lanes = queue_explorer.simulate(at.pop("launch_us"), at.pop("kernel_us"), **at)
    start = time.perf_counter()
    host = [(1e3 * s, 1e3 * e, kind, *(["wait"] if kind != "launch" else [])) for s, e, kind in lanes.host]
    figures.timeline(host, [(1e3 * s, 1e3 * e, "kernel") for s, e in lanes.device], title="The same lanes")._repr_html_()
    return (time.perf_counter() - start) * 1e3


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="no difference: nothing is computed on it")
    parser.add_argument("--runs", type=int, default=200)
    args = parser.parse_args(arguments)
    panel, rng = queue_explorer.explorer(), random.Random(1)
    panel._repr_mimebundle_()  # from here on a move also sets what the page shows
    moved(panel, rng), by_matplotlib(panel)  # once unmeasured: imports, fonts
    taken = {"sliders": [], "matplotlib": []}
    for run in range(args.runs):
        taken["sliders"].append(moved(panel, rng))
        if run % 10 == 0:
            taken["matplotlib"].append(by_matplotlib(panel))
    print("| redraw     | median ms | slowest ms |\n|------------|----------:|-----------:|")
    for name, times in taken.items():
        print(f"| {name:<10} | {statistics.median(times):9.1f} | {max(times):10.1f} |")
    slowest = max(taken["sliders"])
    print(f"bar slider_redraw measured={slowest:.1f}ms wanted=<{BAR_MS:g}ms {'short' if slowest >= BAR_MS else 'pass'}")
    return 1 if slowest >= BAR_MS else 0


if __name__ == "__main__":
    sys.exit(main())
