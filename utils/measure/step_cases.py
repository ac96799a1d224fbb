"""Steps to predict and steps to learn prices from, built of torch ops and timed together in windows.

A *window* is one pass over all programs, a block of each in a few stretches, all in a new random order. Calibration and cases
stand in the same windows, since the host's own price of an op drifts within a minute; the price of a step is the lower quartile
of its windows. A step begins on an idle device and ends when the device is idle again. On a CPU torch runs on one thread, or on
those that its programs ask for, and glibc's malloc is pinned for every program: left alone, its history moves a step's price
fourfold.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cache

from utils.measure import cgroups, malloc
from utils.measure.either_clock import Progress, calls_a_block, need
from utils.measure.fingerprints import gpu
from utils.measure.gemm_peak import torch_dtype
from utils.measure.stopwatch import Arm, interleave
from utils.measure.torch_threads import torch_threads
from utils.measure.wall_arms import until_idle
from utils.model.readings import quantile
from utils.model.step_model import Program

BLOCK_MS = {"cpu": 4.0, "cuda": 4.0}
STRETCHES = 4  # of a block: its least disturbed one counts, as in the stopwatch
SIDES = {"cpu": (256, 1024), "cuda": (1024, 4096)}
MIXED = ("add", "relu", "mul", "sigmoid", "view", "scale", "gelu")
LENGTHS = (1, 2, 4, 8, 16, 32, 64)
CASES, SEED = 48, 20
# A step longer than this is left out: elements times ops, and FLOPs of its products.
MOST_ELEMENTS = {"cpu": 1 << 27, "cuda": 1 << 32}
MOST_FLOPS = {("cpu", "fp32"): 2e9, ("cpu", "bf16"): 4e7, ("cuda", "fp32"): 1e12, ("cuda", "bf16"): 1e13, ("cuda", "fp16"): 1e13}
MOST_STEPS = 2000  # of a block
MOST_TAPE = {"cpu": 2 << 30, "cuda": 24 << 30}  # bytes that a tape may keep, and a sixth of the memory at most


def half(device: str) -> str:
    """The two-byte dtype: bf16, or fp16 on a GPU without it."""
    from utils.measure.placed_ops import usual_dtype

    return "bf16" if device == "cpu" else usual_dtype(device)


def fits(program: Program, device: str) -> bool:
    """Whether a step is short and small enough to be timed again and again."""
    ops = len(program.kinds)
    products = 2.0 * program.elements * program.side * program.kinds.count("mm")
    return (
        program.elements * ops <= max(MOST_ELEMENTS[device], program.elements)
        and products <= MOST_FLOPS[device, program.dtype]
        and (not program.grad or program.tensor_bytes * ops <= min(MOST_TAPE[device], _memory(device) // 6))
        and program.tensor_bytes <= _memory(device) // 12
    )


@cache
def _memory(device: str) -> int:
    """Bytes in all, so that the same machine always gets the same cases; of a GPU that is not here, an H200's."""
    import psutil

    if device == "cpu":
        return min(psutil.virtual_memory().total, cgroups.memory_limit() or 1 << 60)
    if not gpu().usable:
        return 140 << 30
    import torch

    return torch.cuda.get_device_properties(0).total_memory


def on_threads(programs: Sequence[Program], threads: int) -> list[Program]:
    """The same programs on so many threads of a CPU."""
    return [replace(program, threads=threads) for program in programs]


def cases(device: str, count: int = CASES, seed: int = SEED) -> list[Program]:
    """The steps to predict: lengths 1 to 64, 2^8 to 2^27 elements, both dtypes, with a tape or not, one kind or many, with a
    product or not; each property in about half of them, all sizes and lengths met. The same seed gives the same cases."""
    draw = random.Random(seed)
    known = set(calibration(device))
    found: list[Program] = []
    sizes = [8 + (19 * i) // (count - 1) for i in range(count)]
    for i, exponent in enumerate(sizes):
        for _ in range(200):
            length = draw.choice(LENGTHS) if i % 7 else LENGTHS[(i // 7) % len(LENGTHS)]
            if draw.random() < 0.5:
                kinds = [draw.choice(MIXED[:5])] * length
                kinds = ["add"] * length if kinds[0] == "view" else kinds
            else:
                kinds = [draw.choice(MIXED) for _ in range(length)]
            side = 0
            if draw.random() < 0.35 and exponent >= 12:
                side = draw.choice(SIDES[device])
                kinds[0] = "mm"
                if length > 8:
                    kinds[length // 2] = "mm"
            dtype = half(device) if draw.random() < 0.5 else "fp32"
            one = (
                Program(tuple(kinds), 1 << exponent, dtype, draw.random() < 0.4, side)
                if any(k != "view" for k in kinds)
                else None
            )
            if one is not None and fits(one, device) and one not in known:
                known.add(one)
                found.append(one)
                break
    return found


def calibration(device: str) -> list[Program]:
    """The steps that prices are learned from: chains of one kind at a few sizes, products of each side, tapes, changes of
    kind."""
    out: list[Program] = []
    sizes = (8, 13, 16, 19, 22, 25) if device == "cpu" else (8, 18, 22, 24, 26)
    for dtype in ("fp32", half(device)):
        for kind in MIXED:
            if kind == "view":
                continue
            chosen = sizes if kind in ("add", "relu") else sizes[::2]
            out += [Program((kind,) * (6 if s < 20 else 3), 1 << s, dtype) for s in chosen]
        for side in SIDES[device]:
            out += [
                p
                for s in ((14, 17, 20) if device == "cpu" else (16, 21, 24))
                if fits(p := Program(("mm", "mm"), 1 << s, dtype, side=side), device)
            ]
        out += [Program(("add", "relu", "mul", "scale") * 2, 1 << s, dtype) for s in (9, 15)]
        out += [Program((kind,) * 6, 1 << 9, dtype, grad=True) for kind in ("add", "relu", "gelu")]
        out += [Program(("relu",) * 6, 1 << s, dtype, grad=True) for s in ((16, 20) if device == "cpu" else (20, 24))]
    out += [
        Program(("relu", "view") * 6, 1 << 10, "fp32"),
        Program(("add",), 1 << 8, "fp32"),
        Program(("relu",) * 40, 1 << 8, "fp32"),
    ]
    out += [Program(("add",), 1 << 27, "fp32"), Program(("relu",), 1 << 27, half(device))]
    return out


# ------------------------------------------------------------------------------------------------ running them


class Bench:
    """Programs as torch code on one device, over inputs that programs of one dtype share."""

    def __init__(self, device: str, programs: Sequence[Program]):
        import torch

        self.device, self._torch = device, torch
        self._data: dict[str, tuple] = {}
        self._weights: dict[tuple[str, int], object] = {}
        largest: dict[str, int] = {}
        for p in programs:
            largest[p.dtype] = max(largest.get(p.dtype, 0), p.elements)
        for dtype, n in largest.items():
            kind = torch_dtype(dtype)
            one = torch.randn(min(n, 1 << 20), device=device)
            times = -(-n // one.numel())
            x = one.to(kind).repeat(times)[:n]
            self._data[dtype] = x, (0.9 + 0.2 * torch.rand_like(one)).to(kind).repeat(times)[:n]

    def _weight(self, dtype: str, side: int):
        if (dtype, side) not in self._weights:
            w = self._torch.randn(side, side, device=self.device) / math.sqrt(side)
            self._weights[dtype, side] = w.to(torch_dtype(dtype))
        return self._weights[dtype, side]

    def step(self, program: Program) -> Callable[[], None]:
        """A callable that runs one step: issues all of it, and on a GPU does not wait."""
        torch = self._torch
        f = torch.nn.functional
        shape = (-1, program.side) if program.side else (-1,)
        x, other = (t[: program.elements].view(shape) for t in self._data[program.dtype])
        weight = self._weight(program.dtype, program.side) if program.side else None
        if program.grad:
            x = x.detach().requires_grad_()
        table: dict[str, Callable] = {
            "add": lambda h: h + other,
            "mul": lambda h: h * other,
            "scale": lambda h: h * 0.99,
            "relu": torch.relu,
            "sigmoid": torch.sigmoid,
            "gelu": f.gelu,
            "mm": lambda h: h @ weight,
            "view": lambda h: h.view(shape),
        }
        chain = [table[kind] for kind in program.kinds]

        def run() -> None:
            h = x
            for op in chain:
                h = op(h)

        return run

    def arm(self, program: Program) -> Arm:
        """n steps one after the other, each from an idle device to an idle device; one more before the clock starts."""
        return until_idle(self.step(program), self.device, each=True, lead=True)


def timed(
    device: str,
    programs: Sequence[Program],
    progress: Progress | None = None,
    *,
    windows: int = 40,
    at_most_s: float = 120.0,
    seed: int | None = None,
) -> dict:
    """Every program's step in the same windows:

    "us" (the lower quartile of its windows, in the order given), "spread" (its p75 over p25), "windows": {"s": [when each began],
    "us": [a list a program]}, "aa": relative disagreement of one program that ran as two, "notes". µs. MeasurementError without
    the device.
    """
    need(device, "a step")
    threads = max(p.threads for p in programs)
    notes = []
    if device == "cpu":
        pinned = malloc.pin()
        notes.append("malloc pinned in every arm" if pinned else "malloc could not be pinned: its history is in the prices")
        notes.append(f"torch on {threads} thread{'s' if threads > 1 else ''}")
    with torch_threads(threads) if device == "cpu" else nullcontext():
        bench = Bench(device, programs)
        arms = {str(i): bench.arm(p) for i, p in enumerate(programs)}
        again = max(range(len(programs)), key=lambda i: len(programs[i].kinds) / programs[i].elements)
        arms["again"] = bench.arm(programs[again])
        calls = {name: calls_a_block(arm, BLOCK_MS[device] * 1e-3, MOST_STEPS) for name, arm in arms.items()}
        calls["again"] = calls[str(again)]
        began: list[float] = []
        found = interleave(
            arms,
            blocks=windows,
            calls=calls,
            stretches=STRETCHES,
            seed=seed,
            at_most_s=at_most_s,
            progress=progress,
            after_round=lambda i: began.append(time.monotonic()),
        )
    every = [[ns * 1e-3 for ns in found[str(i)].samples] for i in range(len(programs))]
    us = [quantile(samples, 0.25) for samples in every]
    return {
        "device": device,
        "us": us,
        "spread": [quantile(samples, 0.75) / low for samples, low in zip(every, us, strict=True)],
        "windows": {"s": [t - began[0] for t in began[1:]], "us": every},
        "aa": abs(quantile(list(found["again"].samples), 0.25) * 1e-3 / us[again] - 1),
        "notes": notes,
    }
