"""What the units beside the matrix units reach: vector fp32, integer arithmetic, instruction issue, and the clock they run at.

All in registers, so that no memory is in the way. On a CPU by loops of our own on torch's number of threads, on a GPU by kernels
on all SMs. An instruction of a GPU is counted for each thread: 32 for one of a warp.
"""

from __future__ import annotations

from functools import partial

from utils.measure.device_clock import MeasurementError
from utils.measure.either_clock import Progress, need, race, threads
from utils.model.readings import Race

ROUNDS = 20_000  # of a CPU's loop in one call, about 0.1 ms
GPU_ROUNDS = 1_000
FMA_PORTS = (
    2  # vector multiply-adds a cycle and core: x86 server and desktop cores since 2013 (AVX2), Neoverse and Apple have more
)


def engines(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """ "numbers" in 1e12 a second: "vector_fp32" (FLOP), "integer" (32-bit operations), "issue" (instructions); on a CPU "ghz"
    too.

    "missing" says in words what could not be measured (no compiler), "race" holds the readings. On a CPU "paper" works out what
    its clock, lanes and two multiply-adds a cycle would give: {"ghz", "lanes", "cores", "fp32_tflops", "why"}. About 1 s.
    """
    need(device, "the peak of vector units")
    try:
        return (_gpu if device == "cuda" else _cpu)(progress, quick)
    except MeasurementError as error:
        why = str(error)
        return {
            "device": device,
            "race": None,
            "numbers": {},
            "missing": dict.fromkeys(("vector_fp32", "integer", "issue"), why),
            "paper": None,
            "notes": [why],
        }


def _cpu(progress: Progress | None, quick: bool) -> dict:
    from utils.measure.cpu_loops import CYCLES, INSTRUCTIONS, PER_ROUND, loops

    found, many = loops(), threads()

    def in_registers(kind: str, times: int) -> float:
        return found.run(kind, k=ROUNDS * times, threads=many)

    def counted(what: str, on: int, times: int) -> float:
        return found.rounds(what, ROUNDS * times, on)

    arms = {kind: partial(in_registers, kind) for kind in ("fma registers", "integer registers")}
    missing = {}
    if found.counts_instructions:
        arms |= {"issue": partial(counted, "issue", many), "chain": partial(counted, "chain", 1)}
    else:
        missing["issue"] = "the loop that counts instructions is written for x86-64 and arm64"
    run = race("cpu", {}, arms=arms, blocks=20 if quick else 60, at_most_s=1.5 if quick else 6, progress=progress)
    lanes = found.lanes * many * PER_ROUND * ROUNDS
    numbers = {"vector_fp32": _tera(run, "fma registers", lanes), "integer": _tera(run, "integer registers", lanes)}
    paper = None
    if found.counts_instructions:
        numbers["issue"] = _tera(run, "issue", INSTRUCTIONS * many * ROUNDS)
        ghz = CYCLES * ROUNDS / run["chain"].ns
        numbers["ghz"] = ghz
        paper = {
            "ghz": ghz,
            "lanes": found.lanes,
            "cores": many,
            "fp32_tflops": ghz * 1e-3 * many * found.lanes * 2 * FMA_PORTS,
            "why": "clock measured by additions that wait for each other; two vector multiply-adds a cycle and core assumed",
        }
    return {"device": "cpu", "race": run, "numbers": numbers, "missing": missing, "paper": paper, "notes": []}


def _gpu(progress: Progress | None, quick: bool) -> dict:
    import torch

    from utils.measure import gpu_loops

    out = torch.empty(1, device="cuda")
    calls = {kind: gpu_loops.registers(kind, GPU_ROUNDS, out) for kind in ("fma", "integer", "mixed")}
    run = race("cuda", calls, blocks=15 if quick else 40, at_most_s=1.5 if quick else 6, progress=progress)
    rates = {kind: _tera(run, kind, launch.work) for kind, launch in calls.items()}
    issue = max(rates["fma"] / 2, rates["integer"], rates["mixed"])  # a multiply-add is one instruction
    numbers = {"vector_fp32": rates["fma"], "integer": rates["integer"], "issue": issue, "mixed": rates["mixed"]}
    return {"device": "cuda", "race": run, "numbers": numbers, "missing": {}, "paper": None, "notes": list(run.notes)}


def _tera(run: Race, name: str, work: float) -> float:
    return work / run[name].ns * 1e-3
