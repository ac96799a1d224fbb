"""One add over twenty sizes: the host's time to issue it, its kernel's, what one more adds to a step; and a thousand adds.

On a GPU the break-even size is where the kernel takes as long as the host needs for the next one (claim A13). On a CPU host and
kernel are one thread, so it is where the kernel's own time exceeds the fixed price of the op.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import cycle, islice

from utils.measure.either_clock import Progress, filled, free_bytes, need, one_thread, race, settled, within
from utils.measure.programs import other_ops
from utils.measure.stopwatch import AGAIN, interleave, time_host, timer_overhead_ns
from utils.measure.wall_arms import issuing, until_idle
from utils.model.readings import Race

EXPONENTS = {"cpu": range(8, 26), "cuda": range(8, 28)}
QUICK = {"cpu": range(8, 23, 2), "cuda": range(8, 28, 2)}
BYTES_AN_ELEMENT = 12  # fp32: two read, one written
CHAIN = 100  # adds in a row
THOUSAND = 1000
ADDS, KINDS = "1,000 adds", "1,000 ops of 20 kinds"


def sweep(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """`a + b` in fp32 from 2^8 elements on:

    "rows": [{"elements", "bytes", "host_us" (issuing one), "device_us" (its kernel), "step_us" (what one more adds to a row),
    "bound" ("host", "device")}], "numbers": "fixed" (ns: the host's price; a CPU's whole price of the smallest add), "break_even"
    (elements, where device_us reaches host_us, between two sizes on log axes), "break_even_bytes"; both are left out, and a note
    says so, where they do not meet. About 4 s quick. MeasurementError without the device.
    """
    need(device, "the sweep")
    exponents = [e for e in (QUICK if quick else EXPONENTS)[device] if 16 * 2**e < free_bytes(device) // 3]
    with settled(device) as notes:
        a, b = (filled(1 << exponents[-1], device) for _ in range(2))

        def add(n: int) -> Callable:
            x, y = a[:n], b[:n]
            return lambda: x + y

        calls = {str(1 << e): add(1 << e) for e in exponents}
        if device == "cuda":
            host = time_host(calls, device=device, blocks=12, at_most_s=3 if quick else 8, progress=within(progress, 0, 0.4))
            kernel = race(device, calls, blocks=12, at_most_s=3 if quick else 8, progress=within(progress, 0.4, 0.3))
            steps = _rows_of_adds(calls, device, 2.0 if quick else 6.0, within(progress, 0.7, 0.3))
            rows = [_row(int(n), host[n].ns, kernel[n].ns, steps[n].ns) for n in calls]
        else:
            found = race(device, calls, blocks=15, at_most_s=3 if quick else 4, progress=progress)
            fixed = min(found[n].ns for n in calls)
            rows = [_row(int(n), fixed, max(0.0, found[n].ns - fixed), found[n].ns) for n in calls]
    numbers = {"fixed": rows[0]["host_us"] * 1e3}
    where = meets([(row["elements"], row["host_us"], row["device_us"]) for row in rows])
    if where is None:
        notes.append("host and device do not meet between these sizes")
    else:
        numbers |= {"break_even": where, "break_even_bytes": where * BYTES_AN_ELEMENT}
    return {"device": device, "rows": rows, "numbers": numbers, "notes": notes}


def _row(n: int, host_ns: float, device_ns: float, step_ns: float) -> dict:
    return {
        "elements": n,
        "bytes": BYTES_AN_ELEMENT * n,
        "host_us": host_ns * 1e-3,
        "device_us": device_ns * 1e-3,
        "step_us": step_ns * 1e-3,
        "bound": "host" if host_ns >= device_ns else "device",
    }


def _rows_of_adds(calls: dict[str, Callable], device: str, at_most_s: float, progress: Progress | None) -> dict:
    """What one more add takes in a row of 100 and one wait, by size."""
    arms = {name: until_idle(f, device, lead=True) for name, f in calls.items()}
    counts = dict.fromkeys(arms, CHAIN)
    return interleave(arms, blocks=12, calls=counts, stretches=1, at_most_s=at_most_s, progress=progress)


def meets(points: list[tuple[float, float, float]]) -> float | None:
    """Where the second of two curves reaches the first, from (size, first, second) in order of size: between the last size at
    which it is below and the next one, on log axes. None where it is never above or never below."""
    for (x0, a0, b0), (x1, a1, b1) in reversed(list(zip(points, points[1:], strict=False))):
        if b0 < a0 and b1 >= a1:
            tiny = 1e-9
            gap0, gap1 = math.log(max(b0, tiny) / a0), math.log(max(b1, tiny) / a1)
            return math.exp(math.log(x0) + (math.log(x1) - math.log(x0)) * -gap0 / (gap1 - gap0))
    return None


def thousand(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """A thousand ops on small tensors, as the host issues them (claim A17):

    "race" (ns a thousand), "rows": [{"what", "ms", "us_an_op"}], "numbers": "thousand" (ns, of a thousand adds; "thousand_ms"),
    "per_op" (ns), "thousand_kinds" (ns, of 20 kinds in turn), "kinds_ratio". On a GPU they are issued into an empty queue that
    has room for them. About 2 s quick. MeasurementError without the device.
    """
    need(device, "a thousand ops")
    import torch

    x, y = (torch.rand(1, device=device) for _ in range(2))
    programs = {ADDS: [lambda: x + y] * THOUSAND, KINDS: list(islice(cycle(other_ops(device)[:20]), THOUSAND))}
    programs[ADDS + AGAIN] = programs[ADDS]

    def run(program: list[Callable]) -> Callable[[], None]:
        def all_of_it() -> None:
            for op in program:
                op()

        return all_of_it

    with one_thread(device):
        found = interleave(
            {name: issuing(run(program), device) for name, program in programs.items()},
            blocks=30 if quick else 80,
            calls=dict.fromkeys(programs, 1),
            stretches=1,
            at_most_s=2 if quick else 3,
            pair=(ADDS, ADDS + AGAIN),
            progress=progress,
        )
    done = Race(found, (ADDS, ADDS + AGAIN), "host", device, timer_ns=timer_overhead_ns())
    return {
        "device": device,
        "race": done,
        "rows": [{"what": name, "ms": done[name].ns * 1e-6, "us_an_op": done[name].ns * 1e-6} for name in (ADDS, KINDS)],
        "numbers": {
            "thousand": done[ADDS].ns,
            "thousand_ms": done[ADDS].ns * 1e-6,
            "per_op": done[ADDS].ns / THOUSAND,
            "thousand_kinds": done[KINDS].ns,
            "kinds_ratio": done.ratio(ADDS, KINDS),
            "aa_error": done.aa_error,
        },
        "notes": [],
    }
