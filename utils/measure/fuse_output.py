"""The fused chain into an output that is there, and into a fresh one: page faults, on a CPU, in a process as it starts."""

from __future__ import annotations

import sys
import time
from dataclasses import replace

from utils.kernels import cpu_door
from utils.kernels.forms import STEPS
from utils.measure import children, malloc
from utils.measure.device_clock import MeasurementError
from utils.measure.either_clock import MIB, Progress
from utils.measure.fuse_arms import buffers
from utils.model.readings import quantile

ROWS, COLS = 4096, 4096  # 64 MiB of fp32: above the size from which glibc always asks the system
GIVEN, FRESH = "output given", "fresh output"


def fresh_output(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """The same kernel, its output given or fresh, in a process of its own whose malloc is as it comes:

    "rows": [{"arm", "us", "faults" (pages a call), "pages" (of the output)}], "numbers": "ratio" (fresh over given),
    "fresh_faults", "given_faults", "pages". About 3 s. MeasurementError on a GPU, whose allocator keeps what is freed, and
    without a compiler.
    """
    if device != "cpu":
        raise MeasurementError(
            "a GPU's outputs come from torch's own allocator, which keeps what is freed: no page is touched anew"
        )
    if not sys.platform.startswith("linux"):
        raise MeasurementError("page faults follow glibc's malloc, which this system does not have")
    if why := cpu_door.why_not():
        raise MeasurementError(why)
    asked = ("quick" if quick else "full",)
    return children.in_child("utils.measure.fuse_output", asked, progress or (lambda done, text: None))


def measure(progress: Progress, calls: int) -> dict:
    """What the process of its own does; call it in a fresh one."""
    import resource

    import torch

    torch.set_num_threads(1)  # a team's waits are not what is compared
    given = buffers("cpu", sets=1, rows=ROWS, cols=COLS)[0]
    form = STEPS["eight ops"]

    def fresh():
        out = torch.empty(ROWS, COLS)
        cpu_door.launch(form, replace(given, out=out))(1)
        return out

    chain = cpu_door.launch(form, given)
    arms = {GIVEN: lambda: chain(1), FRESH: fresh}
    kept, samples, faults = None, {name: [] for name in arms}, dict.fromkeys(arms, 0)
    for turn in range(calls + 1):  # the first turn warms up
        for name, run in arms.items():
            before = malloc.page_faults()
            start = time.perf_counter_ns()
            kept = run()
            took = time.perf_counter_ns() - start
            if turn:
                samples[name].append(float(took))
                faults[name] += malloc.page_faults() - before
            del kept
        progress(turn / calls, "into an output that is there, and into a fresh one")
    pages = ROWS * COLS * 4 / resource.getpagesize()
    rows = [
        {"arm": name, "us": quantile(samples[name], 0.25) * 1e-3, "faults": faults[name] / calls, "pages": pages} for name in arms
    ]
    by = {row["arm"]: row for row in rows}
    numbers = {
        "ratio": by[FRESH]["us"] / by[GIVEN]["us"],
        "fresh_faults": by[FRESH]["faults"],
        "given_faults": by[GIVEN]["faults"],
        "pages": pages,
    }
    notes = ["malloc as it comes", f"an output of {ROWS * COLS * 4 // MIB} MiB"]
    return {"device": "cpu", "rows": rows, "numbers": numbers, "notes": notes}


if __name__ == "__main__":
    children.serve(lambda progress: measure(progress, 10 if sys.argv[1] == "quick" else 30))
