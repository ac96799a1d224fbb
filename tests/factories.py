"""Random but plausible measurements for tests: `make_receipt()` and `make_race()`, the same for the same seed.

The shapes are those of real runs (a 2-core x86 machine, an H200 host): block times have one-sided noise with a few
preempted blocks, the stages cover 88-98 % of the end-to-end price, the A/A pair differs by about a percent.
"""

from __future__ import annotations

import random
from dataclasses import replace

from utils.model.readings import LadderGroup, Race, Reading, Receipt, StagePrice

CPU_STAGES = {
    "python_boundary": 62.0,
    "arg_parser": 84.0,
    "dispatcher_hop": 47.0,
    "autograd_key": 31.0,
    "autograd_node": 279.0,
    "handle_copies_gil": 188.0,
    "tensor_iterator": 272.0,
    "allocator": 82.0,
    "output_tensor": 131.0,
    "wrap_free": 112.0,
    "kernel": 43.0,
}
CUDA_STAGES = {
    "python_boundary": 150.0,
    "arg_parser": 130.0,
    "dispatcher_hop": 90.0,
    "autograd_key": 60.0,
    "autograd_node": 520.0,
    "handle_copies_gil": 330.0,
    "tensor_iterator": 320.0,
    "allocator": 400.0,
    "output_tensor": 610.0,
    "wrap_free": 330.0,
    "kernel": 4000.0,
}
PYTHON_CALL_NS = 45.0

WHERE = {
    "cpu": {
        "device": "cpu",
        "cpu": "AMD EPYC",
        "machine": "x86_64",
        "cores": 2,
        "gpu": None,
        "capability": None,
        "driver": None,
        "torch": "2.13.0+cpu",
        "python": "3.11.7",
        "os": "Linux",
    },
    "cuda": {
        "device": "cuda",
        "cpu": "Intel(R) Xeon(R) Platinum 8468",
        "machine": "x86_64",
        "cores": 16,
        "gpu": "NVIDIA H200",
        "capability": "9.0",
        "driver": "570.86.15",
        "torch": "2.11.0+cu130",
        "python": "3.12.9",
        "os": "Linux",
    },
}


def make_reading(
    name: str,
    ns: float,
    *,
    rng: random.Random,
    blocks: int = 80,
    noise: float = 0.01,
    preempted: float = 0.03,
    calls: int | None = None,
) -> Reading:
    """A reading whose lower quartile is about `ns`: one-sided noise, a share of the blocks preempted, blocks of about 2 ms."""
    samples = []
    for _ in range(blocks):
        factor = 1.0 + abs(rng.gauss(0.0, noise))
        if rng.random() < preempted:
            factor *= rng.uniform(1.5, 3.0)
        samples.append(round(ns * factor, 2))
    return Reading(name, tuple(samples), calls or max(1, round(2e6 / ns)))


def make_race(
    *, seed: int = 7, device: str = "cpu", clock: str = "host", prices: dict[str, float] | None = None, **changes
) -> Race:
    """A race of `prices` (name → ns), the first of which is also the A/A control ("<name> (again)").

    `changes` replace fields of the Race. Default: a Python call, an add and an add with grad.
    """
    rng = random.Random(seed)
    prices = prices or {"a + b": 1150.0, "a + b, grad": 1390.0, "python_call": PYTHON_CALL_NS}
    readings = {name: make_reading(name, ns, rng=rng) for name, ns in prices.items()}
    first = next(iter(prices))
    again = f"{first} (again)"
    readings[again] = make_reading(again, prices[first], rng=rng)
    race = Race(readings, (first, again), clock=clock, device=device, timer_ns=rng.uniform(30, 80), loop_ns=rng.uniform(5, 12))
    return replace(race, **changes)


def make_receipt(
    device: str = "cpu",
    grad: bool = False,
    *,
    seed: int = 7,
    compiler: bool = True,
    noise: float = 0.01,
    preempted: float = 0.03,
    **changes,
) -> Receipt:
    """A whole receipt. `compiler=False` leaves only what Python can measure; `preempted` is the share of disturbed blocks
    (0.6: a loaded machine); `changes` replace fields of the Receipt."""
    rng = random.Random(f"{seed}-{device}-{grad}")
    speed = rng.uniform(0.9, 1.2)
    table = CPU_STAGES if device == "cpu" else CUDA_STAGES

    def reading(name: str, ns: float) -> Reading:
        return make_reading(name, ns * speed, rng=rng, noise=noise, preempted=preempted)

    stages, total = [], 0.0
    for stage, ns in table.items():
        if stage == "autograd_node" and not grad:
            continue
        ns *= rng.uniform(0.95, 1.05)
        total += ns
        if compiler:
            stages.append(
                StagePrice(
                    stage, reading(stage, ns), round(ns * speed * rng.uniform(0.9, 1.1), 2), "", round(ns * speed * 0.65, 2)
                )
            )
        else:
            stages.append(StagePrice(stage, None, None, "no C++ compiler was found"))
    total /= rng.uniform(0.91, 0.96)

    ladder, groups = [reading("a + b", total)], ()
    if compiler:
        ladder += [reading("_ops::add_Tensor::call", total * 0.7), reading(f"at::{device}::add", total * 0.5)]
        groups = _groups({s.stage: s.ns for s in stages}, device, rng)
    live = 0.82 if device == "cpu" else 0.95
    receipt = Receipt(
        device=device,
        grad=grad,
        source="live",
        date="2026-11-29T12:00:00+00:00",
        where=dict(WHERE[device]),
        state=("result kept", "inputs held by Python names", "one element, float32"),
        end_to_end=reading("a + b", total),
        loop=reading("empty loop", 8.0),
        stages=tuple(stages),
        control=(reading("a + b", total), reading("a + b (again)", total)),
        ladder=tuple(ladder),
        ladder_groups=groups,
        arms={
            "view alive": reading("view alive", total * live),
            "result dropped": reading("result dropped", total * (1.42 if grad else 1.0)),
            "python call": reading("python call", PYTHON_CALL_NS),
            **({"without grad": reading("without grad", total * 0.8)} if grad else {}),
        },
        in_program=tuple(
            (n, reading(f"after {n} ops", total * f)) for n, f in ((0, 1.0), (5, 1.5), (20, 2.0), (40, 2.3), (79, 2.4))
        ),
        first_call=(
            ("import torch", 1.4e9),
            ("first a + b", 4.8e5),
            ("second a + b", 9.7e3),
            ("a + b after 100 more", total * 2),
        ),
        device_time=(
            {
                "kernel": reading("kernel", 1200.0),
                "gap": reading("gap", 800.0),
                "captured per node": reading("captured per node", 1020.0),
            }
            if device == "cuda"
            else {}
        ),
        notes=() if compiler else ("no C++ compiler: only the Python rungs were measured",),
    )
    return replace(receipt, **changes)


def _groups(prices: dict[str, float], device: str, rng: random.Random) -> tuple[LadderGroup, ...]:
    """The steps that the real ladder has: two stages are shared by neighbours, one group lies within another."""
    boundary, copies = prices["python_boundary"], prices["handle_copies_gil"]
    entry, node = f"at::{device}::add", ["autograd_node"] if "autograd_node" in prices else []
    output = {s: prices[s] for s in ("allocator", "output_tensor")}
    front = {"python_boundary": 0.37 * boundary, "handle_copies_gil": 0.55 * copies}
    steps = [
        ("slots and arguments", "PyNumber_Add", "THPVariable_add", {"python_boundary": 0.63 * boundary}),
        (
            "front end",
            "THPVariable_add",
            "_ops::add_Tensor::call",
            {**front, "arg_parser": prices["arg_parser"], "wrap_free": prices["wrap_free"]},
        ),
        (
            "dispatch and autograd",
            "_ops::add_Tensor::call",
            entry,
            {"handle_copies_gil": 0.43 * copies, **{s: prices[s] for s in ("dispatcher_hop", "autograd_key", *node)}},
        ),
        ("output", "making the output", "", output),
        ("C++ kernel entry", entry, "", {**output, **{s: prices[s] for s in ("tensor_iterator", "kernel")}}),
    ]
    return tuple(
        LadderGroup(
            name, upper, lower, sum(of.values()) * rng.uniform(0.95, 1.08), sum(of.values()), tuple(of), tuple(of.items())
        )
        for name, upper, lower, of in steps
    )
