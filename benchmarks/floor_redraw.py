"""How long lesson 10's sliders take from a move to the new figure's HTML. Bar: the slowest of 200 moves under 50 ms.

Random moves of random sliders, as in `queue_redraw.py`; nothing of it depends on the device.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.queue_redraw import BAR_MS, moved
from utils.show import floor_explorer


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="no difference: nothing is computed on it")
    parser.add_argument("--runs", type=int, default=200)
    args = parser.parse_args(arguments)
    panel, rng = floor_explorer.explorer(), random.Random(1)
    panel._repr_mimebundle_()  # from here on a move also sets what the page shows
    moved(panel, rng)  # once unmeasured: imports
    times = [moved(panel, rng) for _ in range(args.runs)]
    print("| redraw  | median ms | slowest ms |\n|---------|----------:|-----------:|")
    print(f"| sliders | {statistics.median(times):9.1f} | {max(times):10.1f} |")
    print(f"bar floor_redraw measured={max(times):.1f}ms wanted=<{BAR_MS:g}ms {'short' if max(times) >= BAR_MS else 'pass'}")
    return 1 if max(times) >= BAR_MS else 0


if __name__ == "__main__":
    sys.exit(main())
