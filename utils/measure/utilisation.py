"""What nvidia-smi calls utilisation, while one block spins on one SM, while tiny kernels run, while nothing does.

Each workload runs for some seconds; the readings of its first second are left out, since the driver's window still holds what ran
before. Beside the reading stands how busy the device was by what ran: kernels' own time over the whole time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from utils.measure import smi
from utils.measure.device_clock import MeasurementError

Progress = Callable[[float, str], None]
SECONDS, SETTLE = 2.6, 1.2
BURST = 500  # launches between two looks at the clock


@dataclass(frozen=True)
class Workload:
    """`run(seconds)` keeps the device at it and returns how many kernels ran; one kernel takes `kernel_us`, on `sms` SMs.

    `kernel_us` and `sms` are None where they are not known.
    """

    name: str
    what: str
    run: Callable[[float], int]
    kernel_us: float | None
    sms: int | None


def utilisation(
    device: str = "cuda", progress: Progress | None = None, *, seconds: float = SECONDS, names: tuple[str, ...] = ()
) -> dict:
    """One row for each workload: "workload", "what", "sms_used" of "sms" (None where not known), "busy_share" (kernels' time over
    the time; None where not known), "utilisation" (the median reading, %), "low" and "high", "mhz" (median SM clock), "watts",
    "samples" ([seconds, utilisation, MHz, W]). "numbers" has "<workload>_utilisation" again, and "<workload>_busy_percent".
    Each workload runs for `seconds` (at least 2: the driver's window must have passed); `names` are those to run, all if empty.
    Raises MeasurementError, in words, without CUDA, nvidia-smi, or torch's run-time compiler. About 25 s.
    """
    import torch

    from utils.measure.stamp_kernels import Launcher

    report = progress or (lambda done, text: None)
    launcher = Launcher()
    todo = [work for work in workloads(launcher) if not names or work.name in names]
    gpu = smi.this_gpu()
    smi.one("utilization.gpu", gpu)  # told at once, and not after half a minute
    rows = []
    for done, work in enumerate(todo):
        report(done / len(todo), work.name)
        work.run(0.05)
        torch.cuda.synchronize()
        with smi.sampling(gpu) as samples:
            start = time.monotonic()
            count = work.run(seconds)
            torch.cuda.synchronize()
            took = time.monotonic() - start
        rows.append(row(work, samples.since(SETTLE), count, took))
        time.sleep(0.3)
    if all(r["utilisation"] is None for r in rows):
        raise MeasurementError("nvidia-smi tells no utilisation of this GPU")
    report(1.0, "measured")
    numbers = {f"{r['workload']}_utilisation": r["utilisation"] for r in rows}
    numbers |= {f"{r['workload']}_busy_percent": 100 * r["busy_share"] for r in rows if r["busy_share"] is not None}
    sms = torch.cuda.get_device_properties(torch.device(device)).multi_processor_count
    return {"sms": sms, "rows": rows, "numbers": numbers}


def row(work: Workload, samples: list[tuple], kernels: int, seconds: float) -> dict:
    """A workload and its readings as one row of plain data."""

    def column(k: int) -> list[float]:
        return [s[k] for s in samples if s[k] is not None]

    use, mhz, watts = column(1), column(2), column(3)
    busy = None if work.kernel_us is None else min(1.0, kernels * work.kernel_us * 1e-6 / seconds)
    return {
        "workload": work.name,
        "what": work.what,
        "seconds": seconds,
        "kernels": kernels,
        "sms_used": work.sms,
        "busy_share": busy,
        "utilisation": median(use) if use else None,
        "low": min(use, default=None),
        "high": max(use, default=None),
        "mhz": median(mhz) if mhz else None,
        "watts": median(watts) if watts else None,
        "samples": [list(s) for s in samples],
    }


def workloads(launcher) -> list[Workload]:
    """The workloads of the table, on the current CUDA device."""
    import torch

    long_ms = 100.0
    spin = launcher.kernel("stamp", launcher.poisoned(1, 2), 0, round(long_ms * 1e6))
    tiny = launcher.kernel("stamp", launcher.poisoned(1, 2), 0, 2_000)
    a, b = (torch.randn(1, device="cuda") for _ in range(2))
    x, w = (torch.randn(8192, 8192, device="cuda", dtype=torch.float16) for _ in range(2))
    out = torch.empty_like(x)

    def idle(seconds: float) -> int:
        time.sleep(seconds)
        return 0

    def one_sm(seconds: float) -> int:
        return _until(seconds, lambda: (spin.once(), torch.cuda.synchronize()), 1)

    def back_to_back(seconds: float) -> int:
        return _until(seconds, lambda: tiny.loop(BURST), BURST)

    def with_host_work(pause_us: int) -> Callable[[float], int]:
        burst = max(1, BURST * 10 // pause_us)
        return lambda seconds: _until(seconds, lambda: tiny.loop(burst, pause_ns=pause_us * 1000), burst)

    def eager(seconds: float) -> int:
        def adds() -> None:
            for _ in range(BURST):
                c = a + b
            del c

        return _until(seconds, adds, BURST)

    def gemm(seconds: float) -> int:
        def some() -> None:
            for _ in range(5):
                torch.mm(x, w, out=out)
            torch.cuda.synchronize()

        return _until(seconds, some, 5)

    paused = {us: f"a kernel of 2 µs on one SM, then {us:,} µs of work on the host" for us in (10, 100)}
    return [
        Workload("idle", "nothing runs", idle, 0.0, 0),
        Workload("one_sm", f"one block spins on one SM, {long_ms:g} ms a kernel", one_sm, long_ms * 1e3, 1),
        Workload("tiny", "a kernel of 2 µs on one SM, as fast as the host launches", back_to_back, 2.0, 1),
        *(Workload(f"tiny_{us}us", what, with_host_work(us), 2.0, 1) for us, what in paused.items()),
        Workload("eager", "a + b of one element in a Python loop", eager, None, 1),
        Workload("gemm", "a matrix product of 8,192 x 8,192 in fp16", gemm, None, None),
    ]


def _until(seconds: float, burst: Callable[[], object], kernels: int) -> int:
    """Bursts until the time is over; how many kernels that were."""
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        burst()
        count += kernels
    return count
