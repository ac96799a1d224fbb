"""Instructions of the fused tail's variants, counted in the machine code of an H100 or H200, on any machine that has Triton.

The count is static; what it says of time is a floor: the instructions of all elements over the rate at which a GPU can issue
them. Beside it stand the FLOPs among them, which are what the usual ridge is about.
"""

from __future__ import annotations

from collections.abc import Mapping

from utils.kernels import sass
from utils.kernels.forms import ABLATIONS, Form
from utils.kernels.ladder import rungs
from utils.measure.either_clock import Progress

ARCH = 90
FLOPS = {"FFMA": 2, "FADD": 1, "FMUL": 1, "MUFU": 1}  # of one instruction; MUFU: exp2, 1/x and the like
ALONE = "dropout alone"
FIRST = "first try"
IN_LESSON = (FIRST, "without the draw", "with neither", ALONE)


def variants() -> dict[str, tuple[Form, object]]:
    """(form, cut) of each variant by name: the first try taken apart, the rungs, and a dropout that nothing is fused with."""
    found: dict[str, tuple[Form, object]] = {name: (form, None) for name, form in ABLATIONS.items()}
    found |= {rung.name: (rung.form, rung.triton) for rung in rungs()}
    return found | {ALONE: (Form(draw="rand"), None)}


def instructions(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """What each variant's kernel is made of, compiled for compute capability 9.0 whatever machine this is:

    "rows": [{"name", "total" (instructions an element), "kinds" (the same in groups), "flops" (an element), "bytes" (an element,
    the bias left out), "per_byte", "flops_per_byte"}], "triton" (its version), "arch"; "numbers": "first", "finished",
    "first_per_byte", "flops_per_byte" (of the first try), "draw" and "erf" (instructions that go with them), where counted. The
    first try and three variants alone when quick, about 10 s. MeasurementError, in words, without Triton.
    """
    wanted = {name: it for name, it in variants().items() if not quick or name in IN_LESSON}
    rows, version = [], ""
    for at, (name, (form, cut)) in enumerate(wanted.items()):
        found = sass.counted(form, "bf16", cut, ARCH)
        version = found["triton"]
        flops = flops_of(found["opcodes"])
        rows.append(
            {"name": name, "total": found["total"], "kinds": found["kinds"], "flops": flops, "bytes": found["bytes"]}
            | {"per_byte": found["per_byte"], "flops_per_byte": flops / found["bytes"]}
        )
        if progress is not None:
            progress((at + 1) / len(wanted), name)
    numbers = _numbers({row["name"]: row for row in rows})
    notes = [f"machine code for capability {ARCH // 10}.{ARCH % 10} by Triton {version}; each instruction counted once"]
    return {"device": device, "rows": rows, "triton": version, "arch": ARCH, "numbers": numbers, "notes": notes}


def flops_of(opcodes: Mapping[str, float]) -> float:
    """Floating-point operations an element among these instructions, a multiply-add counted as two."""
    return sum(n * FLOPS.get(name.split(".")[0], 0) for name, n in opcodes.items())


def _numbers(rows: Mapping[str, Mapping]) -> dict[str, float]:
    first = rows[FIRST]
    numbers = {"first": first["total"], "first_per_byte": first["per_byte"], "flops_per_byte": first["flops_per_byte"]}
    if last := rows.get(rungs()[-1].name):
        numbers["finished"] = last["total"]
    for part, without in (("draw", "without the draw"), ("erf", "without erf"), ("remainder", "bias by mask")):
        if without in rows:
            numbers[part] = first["total"] - rows[without]["total"]
    return numbers
