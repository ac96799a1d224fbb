"""First calls on a GPU, each in the order in which a fresh process meets them: driver, context, kernels loaded lazily, libraries.

A first call happens once, so it is measured in a child process; once as CUDA is by default (a kernel is loaded when it is first
launched) and once with everything loaded at the start (CUDA_MODULE_LOADING=EAGER). The device is waited for after each step.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Callable

from utils.measure import children, first_call
from utils.measure.device_clock import MeasurementError

Progress = Callable[[float, str], None]
LAZY, EAGER = "LAZY", "EAGER"


def first_calls(device: str = "cpu", progress: Progress | None = None) -> dict:
    """Plain data: "steps" are [step, ns], on "cpu" those of `first_call`, on "cuda" the ladder of this file. "eager" is the same
    with all kernels loaded at the start (empty where that failed; then "why" says so). "numbers" (µs) has the steps by name;
    "notes", where there are any, say in what state they were taken.
    Raises MeasurementError when the child process fails. About 5 s on the CPU, 30 s on a GPU.
    """
    report = progress or (lambda done, text: None)
    if device != "cpu":
        import torch

        if not torch.cuda.is_available():
            raise MeasurementError("no CUDA device here, so none has a first call: the recordings hold a GPU's")
    try:
        if device == "cpu":
            steps = [list(step) for step in first_call.first_calls("cpu", progress=report)]
            return {"steps": steps, "eager": [], "why": "", "numbers": numbers(steps), "notes": ["a process with one thread"]}
        steps = _child(LAZY, lambda done, text: report(0.5 * done, text))
    except RuntimeError as error:
        raise MeasurementError(f"first calls could not be measured: {error}") from None
    eager, why = [], ""
    try:
        eager = _child(EAGER, lambda done, text: report(0.5 + 0.5 * done, text))
    except RuntimeError as error:
        why = f"not with everything loaded at the start: {error}"
    return {"steps": steps, "eager": eager, "why": why, "numbers": numbers(steps)}


def numbers(steps: list[list]) -> dict:
    """The steps in µs by name, "first x @ x" → "first_x_matmul_x_us": nothing that an expression over them would trip over."""
    words = str.maketrans({"(": "_", ")": "", " ": "_", "+": "plus", "@": "matmul"})
    return {f"{name.translate(words)}_us": ns * 1e-3 for name, ns in steps}


def _child(loading: str, progress: Progress) -> list[list]:
    return children.in_child("utils.measure.first_gpu_calls", (loading,), progress)["steps"]


def _measure(loading: str, progress: Progress) -> dict:
    os.environ["CUDA_MODULE_LOADING"] = loading  # the driver reads it when it starts, below
    steps: list[list] = []

    def step(name: str, work: Callable[[], object]) -> object:
        start = time.perf_counter_ns()
        made = work()
        steps.append([name, float(time.perf_counter_ns() - start)])
        progress(min(0.9, 0.05 * len(steps)), name)
        return made

    def start_driver() -> None:
        if error := ctypes.CDLL("libcuda.so.1").cuInit(0):
            raise RuntimeError(f"the CUDA driver did not start (error {error})")

    def then_wait(work: Callable[[], object]) -> Callable[[], object]:
        def both() -> object:
            made = work()
            torch.cuda.synchronize()
            return made

        return both

    step("start of the driver", start_driver)
    start = time.perf_counter_ns()
    import torch

    steps.append(["import torch", float(time.perf_counter_ns() - start)])
    if not torch.cuda.is_available():
        raise RuntimeError("no CUDA device that torch can use")
    step("context", then_wait(torch.cuda.init))
    a = step("first allocation", then_wait(lambda: torch.empty(1, device="cuda")))
    b = step("second allocation", then_wait(lambda: torch.empty(1, device="cuda")))
    for name in ("first fill", "second fill"):
        step(name, then_wait(lambda: (a.fill_(1.5), b.fill_(2.5))))
    for name in ("first a + b", "second a + b"):
        step(name, then_wait(lambda: a + b))
    for name in ("first sin(a)", "second sin(a)"):
        step(name, then_wait(lambda: torch.sin(a)))
    x = step("random 512 x 512", then_wait(lambda: torch.rand(512, 512, device="cuda")))
    for name in ("first x @ x", "second x @ x"):
        step(name, then_wait(lambda: x @ x))
    half = x.half()
    for name in ("first x @ x in fp16", "second x @ x in fp16"):
        step(name, then_wait(lambda: half @ half))
    return {"steps": steps}


if __name__ == "__main__":
    children.serve(lambda progress: _measure(sys.argv[1], progress))
