"""The scoreboard on models that nobody here wrote: GPT-2 (transformers), a ResNet (timm), random weights; launches counted twice.

    python benchmarks/real_models.py [--device cpu|cuda] [--json FILE]

Bar: the board's launches equal the profiler's, for every model; on a GPU both are kernels, on a CPU ops that compute. The small
transformer of the course is always among them. A library that is not installed is told and left out: it is no dependency.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from tabulate import tabulate

from utils.measure import known_models
from utils.measure.either_clock import machine_name
from utils.model.studies import plain
from utils.show import progress

COLUMNS = (
    "model",
    "launches",
    "profiler",
    "MB moved",
    "GFLOP",
    "peak MB",
    "step ms",
    "host ms",
    "device ms",
    "verdict",
    "first cure",
)


def lines(found: dict) -> list[list]:
    """A line of the table for each model."""
    return [
        [row["name"], row["launches"], row["profiled"], row["bytes"] * 1e-6, row["flops"] * 1e-9, row["peak"] * 1e-6]
        + [row[key] * 1e-6 for key in ("step_ns", "host_ns", "device_ns")]
        + [row["verdict"], row["cures"][0]["name"] if row["cures"] else "none"]
        for row in found["rows"]
    ]


def bar_lines(found: dict) -> list[str]:
    """A bar for each model: the difference between the two counts, none wanted."""
    out = []
    for row in found["rows"]:
        name = row["name"].split(" (")[0].lower().replace(" ", "_")
        if not row["profiled"] or not row["launches"]:
            out.append(f"bar {name}_launches measured=not_counted wanted=equal short")
            continue
        off = row["launches"] - row["profiled"]
        out.append(f"bar {name}_launches measured={off:+d} wanted=0 {'pass' if off == 0 else 'short'}")
    return out


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--json", type=Path, help="write the figures there")
    asked = parser.parse_args(arguments)
    if asked.device == "cuda" and not torch.cuda.is_available():
        parser.error("no CUDA device here")
    print(f"{machine_name(asked.device)}, torch {torch.__version__}\n")
    with progress.bar("models") as bar:
        found = known_models.models(asked.device, bar)
    for row in found["rows"]:
        print(f"{row['name']}: {row['reason']}")
    print("\n" + tabulate(lines(found), headers=COLUMNS, floatfmt=".3g"), end="\n\n")
    for name, why in found["missing"].items():
        print(f"skipped {name}: {why}")
    if asked.json:
        asked.json.write_text(json.dumps(plain(found)), encoding="utf-8")
    told = bar_lines(found)
    print("\n".join(told))
    return int(any(line.endswith("short") for line in told))


if __name__ == "__main__":
    sys.exit(main())
