"""What `import utils` and the imports of a lesson cost beyond torch's own import. Bar: each under 0.3 s (median).

Each of 9 runs of an arm is a fresh process, the arms interleaved; peer: `import torch` alone in the same run.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
ROOMS = "utils.measure.stopwatch, utils.measure.stages, utils.measure.machine, utils.model.expected, utils.model.results"
# Each arm prints the seconds of its own import, after torch where torch is not what is timed.
ARMS = {
    "import torch": ("", "import torch"),
    "import utils": ("import torch", "import utils"),
    "the rooms of a lesson": ("import torch", f"import {ROOMS}, utils.show.predict, utils.show.figures, utils.show.tables"),
}
BARS = {"import_utils": "import utils", "import_rooms": "the rooms of a lesson"}
BAR_S = 0.3


def seconds(before: str, timed: str) -> float:
    code = f"{before}\nimport time\nt = time.perf_counter()\n{timed}\nprint(time.perf_counter() - t)"
    return float(subprocess.run([sys.executable, "-c", code], cwd=REPO, capture_output=True, text=True, check=True).stdout)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="no difference: nothing is computed")
    parser.add_argument("--runs", type=int, default=9)
    args = parser.parse_args(arguments)
    taken: dict[str, list[float]] = {arm: [] for arm in ARMS}
    for arm in ARMS:  # once unmeasured: bytecode and disk caches
        seconds(*ARMS[arm])
    for _ in range(args.runs):
        for arm in ARMS:
            taken[arm].append(seconds(*ARMS[arm]))
    print(f"| {'import':<24} | median s | min s | max s |\n|{'-' * 26}|---------:|------:|------:|")
    for arm, times in taken.items():
        print(f"| {arm:<24} | {statistics.median(times):8.3f} | {min(times):5.3f} | {max(times):5.3f} |")
    short = False
    for name, arm in BARS.items():
        measured = statistics.median(taken[arm])
        short |= measured >= BAR_S
        print(f"bar {name} measured={measured:.3f}s wanted=<{BAR_S}s {'short' if measured >= BAR_S else 'pass'}")
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
