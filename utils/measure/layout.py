"""Layout: an add with a transposed operand, copies of every k-th element. The counted bytes stay; the lines touched do not."""

from __future__ import annotations

from utils.measure.either_clock import Progress, filled, need, one_thread, race

SIDE = {"cpu": (2048, 4096), "cuda": (8192, 8192)}
STEPS = (1, 2, 4, 16)


def layout(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """One race (ns) of adds of n × n fp32 into a given result, and of copies of as many elements as a vector has:

    "contiguous", "one transposed", "both transposed" (and the result too: then nothing is out of step), "copied first" (the
    transposed operand is made contiguous, then added); "every 1st", "every 2nd", "every 4th", "every 16th" (n elements of a k
    times longer vector). "bytes": counted, by reading; "gbps"; "numbers": "transposed_ratio", "both_ratio", "copied_ratio" (over
    contiguous), "every_2_ratio" … (over every 1st), "gbps_…". About 3 s.
    """
    import torch

    need(device, "layouts")
    n = SIDE[device][not quick]
    a, b, c, spare = (filled(n * n, device).view(n, n) for _ in range(4))
    add = torch.add

    def copied_first():
        spare.copy_(b.t())
        return add(a, spare, out=c)

    picked = n * n // 4
    long = filled(picked * max(STEPS), device)
    short = filled(picked, device)

    def every(step: int):
        view = long[: picked * step : step]
        return lambda: short.copy_(view)

    at, bt, ct = a.t(), b.t(), c.t()
    arms = {
        "contiguous": lambda: add(a, b, out=c),
        "one transposed": lambda: add(a, bt, out=c),
        "both transposed": lambda: add(at, bt, out=ct),
        "copied first": copied_first,
    } | {f"every {_th(step)}": every(step) for step in STEPS}
    counted = {name: 12.0 * n * n for name in list(arms)[:4]} | {f"every {_th(step)}": 8.0 * picked for step in STEPS}
    counted["copied first"] += 8.0 * n * n
    with one_thread(device) as on:
        found = race(device, arms, blocks=12 if quick else 30, at_most_s=2.5 if quick else 8, progress=progress)
    over, one = found["contiguous"].ns, found["every 1st"].ns
    ratios = {
        "transposed_ratio": found["one transposed"].ns / over,
        "both_ratio": found["both transposed"].ns / over,
        "copied_ratio": found["copied first"].ns / over,
    } | {f"every_{step}_ratio": found[f"every {_th(step)}"].ns / one for step in STEPS[1:]}
    return {
        "device": device,
        "race": found,
        "side": n,
        "picked": picked,
        "bytes": counted,
        "gbps": {name: counted[name] / found[name].ns for name in counted},
        "numbers": ratios | {"aa_error": found.aa_error},
        "notes": [on],
    }


def _th(step: int) -> str:
    return {1: "1st", 2: "2nd"}.get(step, f"{step}th")
