"""The SM's clock, counted by a kernel: cycles of the SM against nanoseconds of the device, after idling and under load.

`clock64` counts the cycles of one SM, %globaltimer does not change with its clock: their ratio is the clock that the SM really
ran at. nvidia-smi's own reading stands beside it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

from utils.measure import smi
from utils.measure.device_clock import MeasurementError

Progress = Callable[[float, str], None]
IDLE_S = 3.0
SAMPLES, FINE_NS, COARSE_NS = 150, 200_000, 5_000_000  # after idling: 30 ms in steps of 0.2 ms; under load: 0.75 s


def sm_clock(device: str = "cuda", progress: Progress | None = None, *, idle_s: float = IDLE_S) -> dict:
    """The clock of one SM as three curves {"t_ms": […], "mhz": […]}, and "numbers" and "notes" (words):

    "after_idle" in steps of 0.2 ms after seconds without work; "alone" in steps of 5 ms while one block spins; "under_gemm" in
    steps of 5 ms beside matrix products on all SMs. "numbers": "idle_s", "first_mhz" (the first step after idling), "settled_mhz"
    (the median of the last third), "ramp_ms" (until 95 % of that; 0.0 when it was there from the first step), "alone_mhz",
    "gemm_mhz", "launch_after_idle_us" and "launch_busy_us" (host: a launch and a wait), and nvidia-smi's
    "max_mhz", "smi_untouched_mhz" (before this process had a context), "smi_idle_mhz" (idle, with one), "smi_busy_mhz" (beside
    the products; None each without it). Raises MeasurementError without CUDA or torch's run-time compiler. About 10 s.
    """
    import torch

    from utils.measure.stamp_kernels import Launcher

    report = progress or (lambda done, text: None)
    notes: list[str] = []
    untouched = None
    if torch.cuda.is_available() and not torch.cuda.is_initialized():  # soon this process has a context, and the GPU stays awake
        untouched = _smi("clocks.sm", "0", notes)[0] if torch.cuda.device_count() == 1 else None
    launcher = Launcher()
    gpu = smi.this_gpu()
    fine_out, coarse_out = launcher.poisoned(SAMPLES + 1, 2), launcher.poisoned(SAMPLES + 1, 2)
    fine = launcher.kernel("clocks", fine_out, SAMPLES + 1, FINE_NS)
    coarse = launcher.kernel("clocks", coarse_out, SAMPLES + 1, COARSE_NS)
    empty = launcher.kernel("empty")
    fine.once()  # loads the kernel, so that it starts at once below
    empty.once()
    launcher.read(fine_out)
    fine_out.fill_(-1)
    torch.cuda.synchronize()
    report(0.1, "idling")
    time.sleep(idle_s)
    woken = empty.loop(1, waiting=True) * 1e-3
    fine.once()
    after_idle = clock_of(launcher.read(fine_out))
    report(0.6, "one block alone")
    coarse.once()
    alone = clock_of(launcher.read(coarse_out))
    busy = median(empty.loop(1, waiting=True) * 1e-3 for _ in range(50))
    report(0.7, "beside matrix products")
    under, smi_busy = _beside_gemm(launcher, coarse_out, gpu, notes)
    report(0.9, "idling again, for nvidia-smi")
    time.sleep(idle_s)
    asked = _smi("clocks.sm,clocks.max.sm", gpu, notes)
    report(1.0, "measured")
    numbers = ramp(after_idle) | {
        "idle_s": idle_s,
        "alone_mhz": median(alone["mhz"]),
        "gemm_mhz": median(under["mhz"][len(under["mhz"]) // 3 :]),
        "launch_after_idle_us": woken,
        "launch_busy_us": busy,
        "smi_untouched_mhz": untouched,
        "smi_idle_mhz": asked[0],
        "max_mhz": asked[1],
        "smi_busy_mhz": smi_busy,
    }
    return {"after_idle": after_idle, "alone": alone, "under_gemm": under, "numbers": numbers, "notes": notes}


def clock_of(stamps: list) -> dict:
    """From (ns, cycles) of each step to {"t_ms": middle of the step since the first stamp, "mhz": cycles a µs in it}."""
    t_ms, mhz = [], []
    for (t0, c0), (t1, c1) in zip(stamps, stamps[1:], strict=False):
        if t1 > t0:
            t_ms.append(((t0 + t1) / 2 - stamps[0][0]) * 1e-6)
            mhz.append((c1 - c0) / (t1 - t0) * 1e3)
    if not mhz:
        raise MeasurementError("the device's clock stood still, so no frequency can be told")
    return {"t_ms": t_ms, "mhz": mhz}


def ramp(curve: dict) -> dict:
    """How the clock began and settled: "first_mhz", "settled_mhz" (median of the last third), "ramp_ms" until 95 % of that."""
    mhz, t_ms = curve["mhz"], curve["t_ms"]
    settled = median(mhz[-max(1, len(mhz) // 3) :])
    reached = next((i for i, value in enumerate(mhz) if value >= 0.95 * settled), len(mhz) - 1)
    return {"first_mhz": mhz[0], "settled_mhz": settled, "ramp_ms": t_ms[reached] if reached else 0.0}


def _beside_gemm(launcher, out, gpu: str, notes: list[str]) -> tuple[dict, float | None]:
    """(the clock of one SM while matrix products run beside the counting kernel, nvidia-smi's reading meanwhile)."""
    import torch

    side = torch.cuda.Stream()
    x, w = (torch.randn(8192, 8192, device="cuda", dtype=torch.float16) for _ in range(2))
    product = torch.mm(x, w)
    out.fill_(-1)
    torch.cuda.synchronize()
    kernel = launcher.kernel("clocks", out, SAMPLES + 1, COARSE_NS, stream=side.cuda_stream)
    kernel.once()
    end, reading = time.monotonic() + SAMPLES * COARSE_NS * 1e-9, None
    # The default stream waits for no other unless one is a blocking stream: torch's streams are not.
    while time.monotonic() < end:
        ask = reading is None and time.monotonic() > end - SAMPLES * COARSE_NS * 0.5e-9
        for _ in range(200 if ask else 5):  # so many that the device is still at it when nvidia-smi has started
            torch.mm(x, w, out=product)
        if ask:
            reading = _smi("clocks.sm", gpu, notes)[0]
        torch.cuda.current_stream().synchronize()
    side.synchronize()
    return clock_of(launcher.read(out)), reading


def _smi(query: str, gpu: str, notes: list[str]) -> list[float | None]:
    """nvidia-smi's numbers; None each, with a note, where it does not answer."""
    try:
        return [smi.number(part.strip()) for part in smi.one(query, gpu).split(",")]
    except MeasurementError as error:
        if str(error) not in notes:
            notes.append(str(error))
        return [None] * len(query.split(","))
