"""The ladder of first calls: what the first tensor, the first add, the first matrix product cost, and what the next ones do.

Run in a fresh process, since a first call happens once: `python -m utils.measure.first_call [cpu|cuda]` prints the ladder as
JSON. On CUDA the device is waited for after each step, so that what a step starts is in its price. On a CPU the process works
with one thread: where another program has the second core, two threads wait for each other in every product, first or not.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable

from utils import paths

Progress = Callable[[float, str], None]
TIMEOUT_S = 120


def first_calls(device: str = "cpu", *, progress: Progress | None = None) -> tuple[tuple[str, float], ...]:
    """(step, ns) in the order in which a fresh process meets them. Raises RuntimeError when that process fails."""
    if progress:
        progress(0.0, "first calls, in a fresh process")
    try:
        run = subprocess.run(
            [sys.executable, "-m", "utils.measure.first_call", device],
            cwd=paths.REPO,
            env={**os.environ, **({"OMP_NUM_THREADS": "1"} if device == "cpu" else {})},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"the process that measures first calls took longer than {error.timeout:.0f} s") from None
    if run.returncode != 0:
        raise RuntimeError(
            f"the process that measures first calls failed: {(run.stderr.strip().splitlines() or ['no message'])[-1]}"
        )
    if progress:
        progress(1.0, "first calls measured")
    return tuple((name, float(ns)) for name, ns in json.loads(run.stdout.splitlines()[-1]))


def _measure(device: str) -> list[tuple[str, float]]:
    ladder: list[tuple[str, float]] = []

    def step(name: str, work: Callable[[], object]) -> object:
        start = time.perf_counter_ns()
        made = work()
        if device == "cuda":
            torch.cuda.synchronize()
        ladder.append((name, float(time.perf_counter_ns() - start)))
        return made

    start = time.perf_counter_ns()
    import torch

    ladder.append(("import torch", float(time.perf_counter_ns() - start)))
    if device == "cuda":
        step("CUDA context", torch.cuda.init)
    a = step("first tensor", lambda: torch.ones(1, device=device))
    b = step("second tensor", lambda: torch.ones(1, device=device))
    for name in ("first", "second", "third"):
        step(f"{name} a + b", lambda: a + b)
    for _ in range(100):
        a + b
    step("a + b after 100 more", lambda: a + b)
    x = step("random 64 × 64", lambda: torch.rand(64, 64, device=device))
    for name in ("first", "second", "third"):
        step(f"{name} x @ x", lambda: x @ x)
    return ladder


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1] if len(sys.argv) > 1 else "cpu")))
