"""Lab 5's bench: ops to count, sweeps, a datasheet, kernels and training steps, all made up, another set for every name.

How the seed works: `bench(who)` draws every number from the text `who` (utils/labs/learner.py: any text will do, and none is
"nobody"); the same text gives the same numbers on every computer and every Python. Only numbers are drawn. Which ops there are,
how many readings, which of them cannot be trusted and why, and how far apart the roofs of a kernel are is the same for everybody,
so no name is easier than another. The lab's tests use other names, and small cases of their own. No answers are in this file,
no machine was measured for it, and each bench says so in its label.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from utils.labs.learner import seed_of

SIZES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2, "int64": 8, "uint8": 1, "bool": 1}  # bytes an element
MEGA = 1_000_000
HASTY = "large product, bf16"  # the kernel of which only the launch was timed


@dataclass(frozen=True)
class Tensor:
    """An operand of an op: its name (the same name is the same tensor), its shape, its dtype (a key of SIZES)."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Listed:
    """An op of the list: what it is, and the arguments of the function of the lab (`kind`) that counts it."""

    name: str
    kind: str
    arguments: dict


@dataclass(frozen=True)
class Pass:
    """One reading of a memory sweep. `op` is "sum" (reads one tensor; its result is one number), "copy" (reads one,
    writes one) or "add" (reads two, writes one); each tensor has `mib` MiB. `data` is "random" or "zeros". `result` is
    "given" where the output was there before, "allocated" where the timed region makes it. `blocks_us`: µs of one pass, block
    after block.
    """

    op: str
    mib: float
    data: str
    result: str
    blocks_us: tuple[float, ...]


@dataclass(frozen=True)
class Product:
    """One reading of a sweep of matrix products (m, k) @ (k, n). `precision` is what multiplied: "bf16", "tf32" (float32 tensors
    on tensor cores) or "fp32". `data` is "random" or "zeros". `blocks_us`: µs of one product, block after block."""

    m: int
    k: int
    n: int
    precision: str
    data: str
    blocks_us: tuple[float, ...]


@dataclass(frozen=True)
class Peak:
    """A line of a datasheet: `tera` is 1e12 a second, of FLOP or, for the engine "issue", of instructions. `sparse` is True where
    the sheet prints the rate with 2:4 sparsity, twice that of any dense tensor."""

    engine: str
    tera: float
    sparse: bool = False


@dataclass(frozen=True)
class Machine:
    """Roofs: `tera` of every engine (1e12 FLOP a second), `gbps` of every memory level (1e9 bytes a second), and `issue`, 1e12
    instructions a second (an instruction counts once for each of the lanes that it runs on)."""

    tera: dict[str, float]
    gbps: dict[str, float]
    issue: float


@dataclass(frozen=True)
class Work:
    """One kernel: `flops` on one `engine`, `nbytes` (compulsory) from and to one memory `level`, `instructions` in all."""

    name: str
    engine: str
    flops: int
    level: str
    nbytes: int
    instructions: int


@dataclass(frozen=True)
class Step:
    """One training step of a model on `devices` GPUs. `forward_flops`: of one forward pass, all devices together.
    `recomputed_flops`: ran again in backward, to save memory. `seconds`: the step on the wall's clock; `kernel_seconds`: of
    these, with a kernel running."""

    forward_flops: float
    recomputed_flops: float
    seconds: float
    kernel_seconds: float
    devices: int


@dataclass(frozen=True)
class Bench:
    """All that one name gets. `sheet_gbps` and `cache_mib` (the last-level cache) are the memory's datasheet, `peaks` the
    engines'; `measured_us` has the time that every kernel of `works` took, by name."""

    label: str
    ops: tuple[Listed, ...]
    sweep: tuple[Pass, ...]
    products: tuple[Product, ...]
    sheet_gbps: float
    cache_mib: int
    peaks: tuple[Peak, ...]
    machine: Machine
    works: tuple[Work, ...]
    measured_us: dict[str, float]
    step: Step


def bench(who: str) -> Bench:
    """The bench of a name: always the same for the same name, equally hard for all."""
    seed = seed_of(who, 5)
    rng = random.Random(seed)
    bf16 = rng.uniform(500.0, 950.0)  # TFLOP/s reached; tf32 is half of it on such chips, fp32 a sixteenth
    gbps, cache_mib = rng.uniform(2_000.0, 4_600.0), 4 * rng.randint(6, 15)
    tera = {"bf16": round(bf16, 1), "tf32": round(bf16 / 2, 1), "fp32": round(bf16 / 16, 1)}
    machine = Machine(tera, {"memory": round(gbps), "L2": round(gbps * rng.uniform(2.2, 2.8))}, round(bf16 / 26, 1))
    works, measured_us = _kernels(machine, random.Random(f"{seed}/kernels"))
    return Bench(
        label=f"made up by utils/labs/roofline.py for {who.strip()[:40]!r}: no machine was measured",
        ops=_ops(random.Random(f"{seed}/ops")),
        sweep=_sweep(gbps, cache_mib, random.Random(f"{seed}/sweep")),
        products=_products(tera, random.Random(f"{seed}/products")),
        sheet_gbps=round(gbps / rng.uniform(0.86, 0.90)),
        cache_mib=cache_mib,
        peaks=_datasheet(tera, machine.issue, rng),
        machine=machine,
        works=works,
        measured_us=measured_us,
        step=_step(tera["bf16"], random.Random(f"{seed}/step")),
    )


# ------------------------------------------------------------------------------------------------ what to count


def _ops(rng: random.Random) -> tuple[Listed, ...]:
    rows, wide = 512 * rng.randint(8, 40), 256 * rng.randint(8, 32)
    batch, length, groups = rng.randint(2, 24), 256 * rng.randint(4, 40), rng.choice([2, 4, 8])
    x = Tensor("x", (rows, wide), "bfloat16")
    elementwise = {
        "x + residual": ((x, Tensor("residual", x.shape, "bfloat16")), "bfloat16", 1),
        "x + bias": ((x, Tensor("bias", (wide,), "bfloat16")), "bfloat16", 1),
        "x * x": ((x, x), "bfloat16", 1),
        "x where mask, scaled, to float32": ((x, Tensor("mask", x.shape, "bool")), "float32", 2),
        "column + row": ((Tensor("column", (rows, 1), "float32"), Tensor("row", (wide,), "float32")), "float32", 1),
    }
    listed = [
        Listed(name, "elementwise", {"inputs": inputs, "out_dtype": dtype, "flops_each": each})
        for name, (inputs, dtype, each) in elementwise.items()
    ]
    listed += [
        Listed("sum over rows", "reduction", {"shape": x.shape, "dims": (0,), "size": 2}),
        Listed("x @ weight", "matmul", {"a": (4, rows, wide), "b": (wide, 4 * wide), "size": 2}),
        Listed("one row @ weight", "matmul", {"a": (1, wide), "b": (wide, 4 * wide), "size": 2}),
        Listed(
            "attention, one new token",
            "decode",
            {"batch": batch, "heads": 8 * groups, "kv_heads": 8, "length": length, "head_dim": 128, "size": 2},
        ),
    ]
    rng.shuffle(listed)
    return tuple(listed)


# ------------------------------------------------------------------------------------------------ sweeps, as a clock gives them


def _blocks(us: float, rng: random.Random) -> tuple[float, ...]:
    """23 blocks: the lower quartile is about `us`; most were disturbed, so the median is one of those, and one was lucky."""
    blocks = [us * rng.uniform(0.94, 0.96)]
    blocks += [us * rng.uniform(0.995, 1.005) for _ in range(9)]
    blocks += [us * rng.uniform(1.2, 2.2) for _ in range(13)]
    rng.shuffle(blocks)
    return tuple(round(t, 3) for t in blocks)


def _sweep(gbps: float, cache_mib: int, rng: random.Random) -> tuple[Pass, ...]:
    """Three ops at many sizes. Of one op no reading can be trusted; of the others the middle size is the best honest one, and the
    traps are faster: data in the cache, or half in it, and zeros that were never written (one page of zeros serves them all)."""
    tensors = {"sum": 1, "copy": 2, "add": 3}
    hopeless = rng.choice(list(tensors))
    made = []
    for op, many in tensors.items():
        best = gbps * rng.uniform(0.97, 1.0)
        # how large (in caches, all tensors together), how fast (of the best), data, result
        readings = [
            (0.3, rng.uniform(2.5, 3.5), "random", "given"),
            (0.7, rng.uniform(2.0, 2.5), "random", "given"),
            (1.6, rng.uniform(1.25, 1.4), "random", "given"),
            (rng.uniform(9.0, 11.0), rng.uniform(1.6, 2.2), "zeros", "given"),
        ]
        if op != "sum":  # its result is one number: nothing to allocate
            readings.append((rng.uniform(9.0, 11.0), rng.uniform(0.3, 0.5), "random", "allocated"))
        if op != hopeless:
            readings += [(4.5, 0.9, "random", "given"), (rng.uniform(8.0, 9.0), 1.0, "random", "given")]
            readings += [(rng.uniform(14.0, 18.0), 0.95, "random", "given")]
        for caches, speed, data, result in readings:
            mib = max(1, round(caches * cache_mib / many))
            us = many * mib * 2**20 / (best * speed * 1e3)
            made.append(Pass(op, mib, data, result, _blocks(us, rng)))
    rng.shuffle(made)
    return tuple(made)


def _products(tera: dict[str, float], rng: random.Random) -> tuple[Product, ...]:
    """Each precision at five sizes, not all of them square, best before the largest; and once with zeros, which run faster."""
    made = []
    for precision, peak in tera.items():
        shapes = [(256, 256, 256), (1_024, 1_024, 1_024), (2_048, 8_192, 2_048), (4_096, 4_096, 8_192), (8_192, 8_192, 8_192)]
        shares = [rng.uniform(0.04, 0.08), rng.uniform(0.5, 0.6), rng.uniform(0.8, 0.9), 1.0, rng.uniform(0.92, 0.97)]
        readings = [*zip(shapes, shares, ["random"] * 5), (shapes[3], rng.uniform(1.1, 1.2), "zeros")]
        for (m, k, n), share, data in readings:
            made.append(Product(m, k, n, precision, data, _blocks(2 * m * k * n / (peak * share * 1e6), rng)))
    rng.shuffle(made)
    return tuple(made)


def _datasheet(tera: dict[str, float], issue: float, rng: random.Random) -> tuple[Peak, ...]:
    """What a sheet prints for engines that reach `tera`: a fifth more, and the tensor cores' rates with sparsity."""
    more = rng.uniform(1.15, 1.3)
    printed = {"bf16": 2 * more * tera["bf16"], "tf32": 2 * more * tera["tf32"], "fp32": more * tera["fp32"], "issue": issue}
    return tuple(Peak(engine, round(rate, 1), engine in ("bf16", "tf32")) for engine, rate in printed.items())


# ------------------------------------------------------------------------------------------------ kernels and a step


def _kernels(machine: Machine, rng: random.Random) -> tuple[tuple[Work, ...], dict[str, float]]:
    """Eight kernels, and the µs that each took. Which roof binds which kernel, and by how much, the name does not decide.

    Made from multiples: of the ridge of its engine at its level, and of the instructions that could issue while its bytes move.
    Most times reach their roof or stay below; of one kernel only the launch was timed, and that is faster than every roof.
    """
    kinds = [
        # name, engine, level, intensity / ridge, issue time / memory time
        ("large product, bf16", "bf16", "memory", rng.uniform(2.0, 5.0), 0.3),
        ("attention, one new token", "bf16", "memory", rng.uniform(0.004, 0.02), 0.2),
        ("residual add", "fp32", "memory", rng.uniform(0.01, 0.03), 0.1),
        ("product, fp32", "fp32", "memory", rng.uniform(3.0, 8.0), 0.6),
        ("fused tail with a random draw", "fp32", "memory", rng.uniform(0.3, 0.4), rng.uniform(2.0, 2.6)),
        ("small add, still in L2", "fp32", "L2", rng.uniform(0.02, 0.05), 0.3),
        ("polynomial, still in L2", "fp32", "L2", rng.uniform(1.5, 1.7), 0.7),
        ("polynomial, from memory", "fp32", "memory", rng.uniform(0.6, 0.7), 0.5),
    ]
    works, took = [], {}
    for name, engine, level, of_ridge, of_issue in kinds:
        nbytes = MEGA * (rng.randint(6, 20) if level == "L2" else rng.randint(150, 600))
        us = nbytes / (machine.gbps[level] * 1e3)
        flops, instructions = of_ridge * us * machine.tera[engine] * 1e6, of_issue * us * machine.issue * 1e6
        works.append(Work(name, engine, round(flops), level, nbytes, round(instructions)))
        share = rng.uniform(1.6, 2.2) if name == HASTY else rng.uniform(0.62, 0.99)
        took[name] = round(us * max(1.0, of_ridge, of_issue) / share, 2)
    rng.shuffle(works)
    return tuple(works), took


def _step(tera: float, rng: random.Random) -> Step:
    devices, seconds = rng.choice([2, 4, 8]), rng.uniform(0.8, 4.0)
    forward = rng.uniform(0.3, 0.45) * devices * seconds * tera * 1e12 / 3
    return Step(round(forward), round(forward * rng.uniform(0.5, 0.9)), round(seconds, 3), round(seconds * 0.85, 3), devices)
