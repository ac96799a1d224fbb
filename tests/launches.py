"""Random but plausible parts of the launch study, as a GPU would give them; each the same for the same seed."""

from __future__ import annotations

import random

from tests.factories import make_race
from utils.measure.launch_here import Found
from utils.measure.queue_lanes import describe

LABEL = "recorded · NVIDIA H200 · driver 570.86 · torch 2.11.0+cu130 · 2026-11-30"
SMS = 132


def found(value, label: str = LABEL, live: bool = False, why: str = "there is no GPU here") -> Found:
    return Found(value, label, "" if live else why, live)


def nothing(why: str = "there is no GPU here; no GPU has been recorded yet") -> Found:
    return Found(None, "", why)


def lanes_case(launch_us: float, kernel_us: float, n: int = 3000, *, places: int = 1022, every: int = 0, seed: int = 5) -> dict:
    """One case as `queue_lanes.lanes` measures it: launches with jitter, a queue of `places`, kernels in order."""
    rng = random.Random(seed)
    before, after, starts, ends = [], [], [], []
    now = busy = 0.0
    for i in range(n):
        before.append(now)
        if i >= places and ends[i - places] > now:
            now = ends[i - places]
        now += 1e3 * launch_us * rng.uniform(0.97, 1.08)
        after.append(now)
        starts.append(max(busy + 900.0, now + 2500.0))
        busy = starts[-1] + 1e3 * max(kernel_us, 0.8) * rng.uniform(0.99, 1.01)
        ends.append(busy)
        if every:
            now = busy + 6000.0
    what = f"{n:,} launches of a kernel of {kernel_us:g} µs from a C++ loop"
    return describe(before, after, starts, ends, label="measured", what=what, kernel_us=kernel_us, sync_every=every)


def lanes() -> dict:
    return {
        "fast": lanes_case(2.1, 0.0),
        "slow": lanes_case(2.1, 20.0),
        "synchronised": lanes_case(2.1, 20.0, 300, every=1),
        "alignment": {"clock_error_us": 0.8, "timer_resolution_ns": 32, "rounds": 64},
    }


def floor(**ns: float):
    prices = {
        "empty launch": 2100.0,
        "launch by torch": 2900.0,
        "launch from Python": 6400.0,
        "c = a + b": 6900.0,
        "launch and wait": 9800.0,
        "back to back": 2300.0,
        "empty loop": 2.0,
    }
    return make_race(prices=prices | ns, clock="host", device="cuda")


def small_kernel(**ns: float):
    prices = {
        "back to back": 1900.0,
        "own kernel, back to back": 1850.0,
        "event pair": 15_500.0,
        "event pair, queue held": 3070.0,
        "empty event pair, queue held": 1300.0,
        "host's pace": 6900.0,
        "graph node": 1030.0,
        "profiler": 880.0,
        "own stamps": 700.0,
    }
    return make_race(prices=prices | ns, clock="device", device="cuda")


def sm_clock() -> dict:
    rng = random.Random(8)

    def curve(n: int, step: float, low: float, high: float) -> dict:
        mhz = [(high if i > n // 3 else low + (high - low) * 3 * i / n) * rng.uniform(0.998, 1.002) for i in range(n)]
        return {"t_ms": [step * i for i in range(n)], "mhz": mhz}

    return {
        "after_idle": curve(150, 0.2, 345, 1980),
        "alone": curve(150, 5.0, 1980, 1980),
        "under_gemm": curve(150, 5.0, 1980, 1500),
        "numbers": {
            "idle_s": 4.0,
            "first_mhz": 345.0,
            "settled_mhz": 1980.0,
            "ramp_ms": 9.6,
            "alone_mhz": 1980.0,
            "gemm_mhz": 1500.0,
            "launch_after_idle_us": 40.0,
            "launch_busy_us": 9.0,
            "smi_untouched_mhz": 345.0,
            "smi_idle_mhz": 1200.0,
            "max_mhz": 1980.0,
            "smi_busy_mhz": 1530.0,
        },
        "notes": [],
    }


def utilisation(**readings: float) -> dict:
    """Rows by workload; `readings` exchanges what nvidia-smi read for some of them."""
    read = {
        "idle": 0.0,
        "one_sm": 100.0,
        "tiny": 99.0,
        "tiny_10us": 27.0,
        "tiny_100us": 4.0,
        "eager": 28.5,
        "gemm": 100.0,
    } | readings
    busy = {"idle": 0.0, "one_sm": 0.99, "tiny": 0.58, "tiny_10us": 0.145, "tiny_100us": 0.019, "eager": None, "gemm": None}
    rows = [
        {
            "workload": name,
            "what": f"the workload {name}",
            "seconds": 3.0,
            "kernels": 100,
            "sms_used": 0 if name == "idle" else None if name == "gemm" else 1,
            "busy_share": busy[name],
            "utilisation": value,
            "low": value,
            "high": value,
            "mhz": 1980.0,
            "watts": 130.0,
            "samples": [[1.5, value, 1980.0, 130.0]],
        }
        for name, value in read.items()
    ]
    return {"sms": SMS, "rows": rows, "numbers": {f"{name}_utilisation": value for name, value in read.items()}}


def occupancy() -> dict:
    def kernel(what: str, blocks: int, threads: int, us: float) -> dict:
        return {
            "what": what,
            "kernel": "kernel",
            "grid": [blocks],
            "block": [threads],
            "blocks": blocks,
            "threads": threads,
            "blocks_per_sm": blocks / SMS,
            "warps_per_sm": blocks * threads / 32 / SMS,
            "occupancy": None,
            "registers": 20,
            "us": us,
        }

    return {
        "sms": SMS,
        "max_warps_per_sm": 64,
        "kernels": [kernel("a + b, 1 element", 1, 128, 0.9), kernel("a + b, 67,108,864 elements", 131_072, 128, 190.0)],
        "residency": [
            {
                "blocks": blocks,
                "sms_used": min(SMS, blocks),
                "at_once": blocks,
                "fits": 8,
                "warps_share": blocks * 8 / SMS / 64,
                "us": 200.0,
            }
            for blocks in (1, 66, 132, 264)
        ],
        "why": [],
        "numbers": {"sms_of_1": 1.0},
    }


def hidden_syncs(waiting: tuple[str, ...] = ("loss.item()", "print(loss)", "if loss > 0: …", "h[h > 0]")) -> dict:
    lines = {"none": "(nothing)", "item": "loss.item()", "print": "print(loss)", "if": "if loss > 0: …", "mask": "h[h > 0]"}
    lines |= {"where": "torch.where(h > 0, h, 0)"}
    rows = [
        {
            "variant": name,
            "code": code,
            "syncs": {"cudaStreamSynchronize": 1.0} if code in waiting else {},
            "sync_us": 900.0 if code in waiting else 0.0,
            "copy_us": 0.0,
            "held_us": 900.0 if code in waiting else 0.0,
            "idle_us": 60.0 if code in waiting else None,
            "step_us": 1260.0 if code in waiting else 1200.0 + len(code),
            "waits": code in waiting,
            "warned": code in waiting,
        }
        for name, code in lines.items()
    ]

    def steps(wait: bool) -> dict:
        host, device, now = [], [], 0
        for _ in range(3):
            for k in range(6):
                host.append([now, 5000, "cudaLaunchKernel"])
                start = max(now + 8000, device[-1][0] + device[-1][1] if device else 0)
                device.append([start, 60_000, ("gemm", "vectorized_elementwise_kernel", "reduce_kernel")[k % 3]])
                now += 7000
            if wait:
                end = device[-1][0] + device[-1][1]
                host.append([now, end - now, "cudaStreamSynchronize"])
                now = end + 10_000
        return {"host": host, "device": device, "ns": device[-1][0] + device[-1][1]}

    return {"steps": 3, "what": "steps", "rows": rows, "timelines": {"none": steps(False), "item": steps(True)}, "numbers": {}}


def first_calls() -> dict:
    steps = [
        ["start of the driver", 9e7],
        ["import torch", 2.1e9],
        ["context", 2.4e8],
        ["first a + b", 4e6],
        ["second a + b", 2e4],
    ]
    steps += [["first x @ x", 5.1e7], ["second x @ x", 3e4]]
    return {"steps": steps, "eager": [[name, 2 * ns] for name, ns in steps[:5]], "why": "", "numbers": {}}


def gil_threads(ratio: float = 1.85, gil: float = 1.0) -> dict:
    numbers = {"cores": 2.0, "gil": gil, "alone_us": 1.15, "together_us": 1.15 * ratio, "ratio": ratio}
    numbers |= {"inference_alone_us": 0.95, "inference_together_us": 1.6, "inference_ratio": 1.6 / 0.95}
    return {"numbers": numbers, "notes": ["one element, cpu"]}


def openmp(wake: float = 1.8, seen: float = 1.0) -> dict:
    numbers = {"below_1_us": 6.1, "below_2_us": 6.2, "above_1_us": 6.1, "above_2_us": 3.1 + wake, "far_1_us": 114.0}
    numbers |= {"far_2_us": 82.0, "wake_us": wake, "wake_error_us": 0.1, "wake_seen": seen}
    return {"sizes": {"below": 32_768, "above": 32_769, "far": 524_288}, "threads": 2, "numbers": numbers, "notes": []}
