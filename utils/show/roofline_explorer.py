"""Sliders over rooflines: where one op of a size and dtype stands, on a datasheet's roofline or on the one measured here.

Nothing is measured and nothing is computed on data: work is counted from shapes, so a move redraws in milliseconds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

from utils.measure.intensity import Work
from utils.measure.op_table import HEAD_DIM, HEADS, OPS, work_of
from utils.measure.roofline import Roofline, from_datasheet
from utils.model import devices
from utils.show import controls, roofline_figure
from utils.show.roofline_figure import Point
from utils.show.tables import significant

DTYPES = ("fp32", "tf32", "bf16", "fp16")
START = "NVIDIA H100 SXM"


def rooflines(measured: Roofline | None = None) -> dict[str, Roofline]:
    """By the name that the reader chooses: the measured roofline first, where there is one, then every datasheet's."""
    own = {"this machine, measured": measured} if measured else {}
    return own | {device.name: from_datasheet(device) for device in devices.load()}


def size_of(op: str, elements: int) -> int:
    """The op's own size for a largest operand of about so many elements: elements, side of a square, or cached tokens."""
    if OPS[op].engine == "gemm":
        return max(1, math.isqrt(elements))
    return max(1, elements // (HEADS * HEAD_DIM)) if op == "decode" else elements


@lru_cache(maxsize=512)
def counted(op: str, log2: int, dtype: str) -> Work:
    """The op's work for a largest operand of 2^log2 elements."""
    return work_of(op, size_of(op, 1 << log2), dtype)


def draw(lines: Mapping[str, Roofline], *, log2: int, dtype: str, op: str, device: str) -> list:
    """The figure for one setting of the controls, and what it says, in words."""
    line, work, roof = lines[device], counted(op, log2, dtype), OPS[op].roof(dtype)
    engines = [name for name in line.roofs if not name.startswith("gemm_") or name == f"gemm_{dtype}"]
    shape = f"{OPS[op].title}, {dtype}: {OPS[op].shape(size_of(op, 1 << log2))}"
    if roof not in line.roofs:
        plain = roofline_figure.figure(line, [], shape, roofs=engines)
        return [plain, f"No peak of products in {dtype} is known of this device. {_work(work)}"]
    point = Point(OPS[op].title, work.intensity, roof)
    return [roofline_figure.figure(line, [point], shape, lit=roof, roofs=engines), words(line, work, roof, _l2(device))]


def words(line: Roofline, work: Work, roof: str, l2_bytes: float | None = None) -> str:
    """What bounds this work here, and its least time; µs and MB said once."""
    floor = line.floor(roof, work.flops, work.bytes)
    ridge, title = line.ridge(roof), line.roofs[roof].title
    side = "left of" if work.intensity < ridge else "right of"
    bound = "bytes" if floor.bound == "memory" else f"the roof of {title}"
    out = [
        _work(work),
        f"That is {side} the ridge of {title} ({significant(ridge)}): {bound} set the least time"
        if floor.bound == "memory"
        else f"That is {side} the ridge of {title} ({significant(ridge)}): {bound} sets the least time",
    ]
    out[-1] += f". In µs: {significant(1e6 * floor.seconds)}; memory alone {significant(1e6 * floor.memory_s)}, "
    out[-1] += f"arithmetic alone {significant(1e6 * floor.arithmetic_s)}."
    if l2_bytes and work.bytes < l2_bytes:
        out.append("All of it fits this device's L2: data that is still there can beat this roofline.")
    return " ".join(out)


def _work(work: Work) -> str:
    return (
        f"{significant(work.flops * 1e-6)} million FLOP over {significant(work.bytes * 1e-6)} million bytes: "
        f"{significant(work.intensity)} FLOP per byte."
    )


def _l2(device: str) -> float | None:
    return next((d.l2_mb.value * 1e6 for d in devices.load() if d.name == device), None)


def explorer(measured: Roofline | None = None) -> controls.Panel:
    """The controls with their figure: one figure, whatever is moved and however often."""
    lines = rooflines(measured)

    def shown(log2: int, dtype: str, op: str, device: str) -> list:
        by_title = {one.title: key for key, one in OPS.items()}
        return draw(lines, log2=log2, dtype=dtype, op=by_title[op], device=device)

    return controls.panel(
        shown,
        title="Where does an op stand? Move a control (nothing is measured by it)",
        log2=controls.slider(10, 30, 24, label="elements of the largest operand, 2 to the power of"),
        dtype=controls.choice(DTYPES, start="bf16", label="dtype"),
        op=controls.choice([one.title for one in OPS.values()], label="op"),
        device=controls.choice(list(lines), start=START, label="device"),
    )
