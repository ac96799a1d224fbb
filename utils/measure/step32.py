"""A training step of 32 layers, counted without running it, and beside it what a run says; and the host's time for such a step.

The count runs on fake tensors: they have shapes and dtypes and no data, so the wide model costs no memory and nothing is
computed. They pretend to be on the CPU, so what is counted is what a CPU build of torch would do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from utils.measure import profiled, seams
from utils.measure.device_clock import MeasurementError
from utils.measure.either_clock import Progress, need, one_thread, race, within
from utils.measure.gemm_peak import torch_dtype
from utils.measure.language_model import Size, Training, shipped, training
from utils.measure.layer_ops import row
from utils.measure.op_counts import counted
from utils.measure.placed_ops import usual_dtype
from utils.measure.spelled_layer import spelled
from utils.measure.wall_arms import issuing

LAYERS, FEW, MORE = 32, 2, 5
WIDE = Size("a 7B-class model", 4096, LAYERS, 32, 32_000, 1, 2048)
NARROW = Size("narrow", 64, LAYERS, 4, 64, 2, 16)
WIDER = 512
STYLES = {"shipped": shipped, "spelled": spelled}
LABEL = "counted on fake CPU tensors: nothing ran"
WHY_NEVER = (
    "Never with fake tensors that say they are on cuda and need a gradient: in a torch built without CUDA, autograd's node for "
    "the parameter asks for a device that is not there, the exception has nowhere to go, and the whole process is aborted, "
    "notebook and all. Fake CPU tensors are safe, and that is why the label says CPU."
)


def _training(style: str, size: Size, device: str, dtype, *, foreach: bool | None = None) -> Training:
    """A step of this style; `foreach` as in `training`."""
    make = STYLES[style] if style == "shipped" else partial(spelled, positions=size.tokens)
    return training(size, device, dtype, make, foreach=foreach)


def works(device: str) -> dict[str, Callable[[], None]]:
    """For the profiler: a whole step of each style."""
    dtype = torch_dtype(usual_dtype(device))
    return {f"{style} step": _training(style, NARROW, device, dtype).step for style in STYLES}


PHASES = ("forward", "backward", "optimizer")


def count(one: Training, style: str, phases: tuple[str, ...] = PHASES) -> list[dict]:
    """The ops of a step's phases as rows (see `step32`); the optimizer's are those of a second step, whose state is there."""
    rows = []
    for phase in phases:
        f = one.phases()[phase]
        if phase == "optimizer":
            f()
        ops = counted(f)
        rows.append(row(f"{style} {phase}", ops.computing, ops.views, None) | {"how": "counted"})
    return rows


def fake(style: str, size: Size, phases: tuple[str, ...] = PHASES) -> list[dict]:
    """`count` of a step that never runs, in bf16, on fake CPU tensors; its optimizer takes all parameters at once, as torch has
    it on a GPU. Never on cuda: see WHY_NEVER."""
    with seams.fake_mode():
        return count(_training(style, size, "cpu", torch_dtype("bf16"), foreach=True), style, phases)


def drawn_on(style: str, layers: int) -> list[dict]:
    """`fake` of so many layers without counting them all: two and three layers are counted, and each further one has the same
    ops as the third (a test holds it to that). Rows say "drawn on"."""
    small, large = (fake(style, replace(WIDE, layers=n)) for n in (FEW, FEW + 1))
    return [
        {**a, "how": "drawn on"} | {key: a[key] + (layers - FEW) * (b[key] - a[key]) for key in ("calls", "ops", "views")}
        for a, b in zip(small, large, strict=True)
    ]


def quickly(style: str) -> list[dict]:
    """The step of 32 layers within 3 s: forward and backward of the shipped style are counted whole, the rest is drawn on."""
    drawn = drawn_on(style, WIDE.layers)
    if style != "shipped":
        return drawn
    return fake(style, WIDE, PHASES[:2]) + [one for one in drawn if one["phase"] == "optimizer"]


def total(rows: list[dict], style: str, key: str) -> int:
    """The sum of one column over the phases of one style."""
    return sum(r[key] for r in rows if r["style"] == style)


def step32(
    device: str = "cpu", progress: Progress | None = None, *, quick: bool = False, events: Callable = profiled.events
) -> dict:
    """The step counted and, narrow, run:

    "fake": {"label", "words", "rows": [{"style", "phase": "forward" | "backward" | "optimizer", "calls", "ops", "views", "how":
    "counted" | "drawn on" (quick, see `quickly`)}]} for 32 layers of 4,096, the optimizer as torch
    has it on a GPU; "real": {"words", "rows", "kernels": {style: n} | None (not quick)} counted while
    32 narrow layers ran here, the optimizer as torch has it here; "one_by_one": the optimizer's rows when it takes one parameter
    after the other, as torch has it on a CPU (real too); "check": {"layers", "fake", "real"}: calls of two narrow layers counted
    both ways on the CPU, which must be the same; "time": [{"style", "width", "ops", "ns"}] host's time of the step; "why_never".
    "numbers": "fake_<style>_calls", "_ops", "_<phase>_ops"; "real_<style>_calls", "_ops", "_kernels";
    "one_by_one_<style>_ops"; "check_difference"; "step_<style>" (ns), "wider_<style>" (ratio: the same at a greater width; on a
    GPU, not quick); "price_<style>" (ns an op, by steps of two and five layers), "estimate_<style>" (ns: an ESTIMATE, from that
    price and the ops that ran narrow), "estimate_error_<style>" (against its measured time). About 8 s quick. MeasurementError
    without the device.
    """
    need(device, "a step of 32 layers")
    notes = ["timed on one thread"] if device == "cpu" else []
    dtype = torch_dtype(usual_dtype(device))
    guessed, real, one_by_one, kernels = [], [], [], None
    check = {"layers": FEW, "fake": 0, "real": 0}
    few = _sized(FEW, NARROW.width)
    for style in STYLES:
        if progress:
            progress(0.05 + 0.15 * (style == "spelled"), f"counting on fake tensors: {style}")
        guessed += quickly(style) if quick else fake(style, WIDE)
    with one_thread(device):
        for style in STYLES:
            check["fake"] += total(fake(style, few), style, "calls")
            there = _training(style, few, "cpu", torch_dtype("bf16"), foreach=True)
            check["real"] += total(count(there, style), style, "calls")
        steps = {style: _training(style, NARROW, device, dtype) for style in STYLES}
        for style, one in steps.items():
            real += count(one, style)
            if device == "cpu":
                one_by_one += [r for r in real if r["style"] == style and r["phase"] == "optimizer"]
            elif not quick:
                one_by_one += count(_training(style, NARROW, device, dtype, foreach=False), style, PHASES[2:])
        timed, price = _times(device, dtype, steps, real, quick, within(progress, 0.5, 0.3))
    if device == "cuda" and not quick:
        try:
            kernels = profiled.kernels(events("step32", within(progress, 0.8, 0.2)), [f"{style} step" for style in STYLES])
            kernels = {name.split()[0]: n for name, n in kernels.items()}
        except MeasurementError as error:
            notes.append(f"kernels not counted: {error}")
    return {
        "device": device,
        "dtype": usual_dtype(device),
        "fake": {"label": LABEL, "words": WIDE.words, "rows": guessed},
        "real": {"words": NARROW.words, "rows": real, "kernels": kernels},
        "one_by_one": one_by_one,
        "check": check,
        "time": timed,
        "why_never": WHY_NEVER,
        "numbers": numbers(guessed, real, one_by_one, check, timed, price, kernels),
        "notes": notes,
    }


def numbers(
    guessed: list[dict],
    real: list[dict],
    one_by_one: list[dict],
    check: dict,
    timed: list[dict],
    price: dict[str, tuple[float, float]],
    kernels: dict[str, int] | None,
) -> dict[str, float]:
    """Figures by name, see `step32`."""
    out: dict[str, float] = {"check_difference": float(check["fake"] - check["real"])}
    for style in STYLES:
        for source, rows in (("fake", guessed), ("real", real)):
            out |= {f"{source}_{style}_{key}": float(total(rows, style, key)) for key in ("calls", "ops")}
        out |= {f"fake_{style}_{r['phase']}_ops": float(r["ops"]) for r in guessed if r["style"] == style}
        if one_by_one:
            out[f"one_by_one_{style}_ops"] = float(total(one_by_one, style, "ops"))
        narrow, *wider = (t for t in timed if t["style"] == style)
        estimated = price[style][0] + price[style][1] * narrow["ops"]
        out |= {
            f"step_{style}": narrow["ns"],
            f"price_{style}": price[style][1],
            f"estimate_{style}": estimated,
            f"estimate_error_{style}": estimated / narrow["ns"] - 1,
        }
        out |= {f"wider_{style}": t["ns"] / narrow["ns"] for t in wider}
        if kernels:
            out[f"real_{style}_kernels"] = float(kernels[style])
    return out


def _sized(layers: int, width: int) -> Size:
    return Size("narrow", width, layers, NARROW.heads, NARROW.vocabulary, NARROW.batch, NARROW.tokens)


def _times(
    device: str, dtype, steps: dict[str, Training], real: list[dict], quick: bool, progress: Progress | None
) -> tuple[list[dict], dict[str, tuple[float, float]]]:
    """(the host's time of each step, on a GPU at a greater width as well; by style (ns of a step without any op, ns an op more),
    the line through steps of two and of five layers)."""
    runs, ops = {}, {}
    for style in STYLES:
        for layers in (FEW, MORE):
            runs[layers, style] = one = _training(style, _sized(layers, NARROW.width), device, dtype)
            ops[layers, style] = total(count(one, style), style, "ops")
        runs["narrow", style] = steps[style]
        if device == "cuda" and not quick:  # on a CPU a wider step takes longer, since the host does its arithmetic too
            runs["wider", style] = _training(style, _sized(LAYERS, WIDER), device, dtype)
    arms = {f"{style}, {what}": issuing(one.step, device) for (what, style), one in runs.items()}
    found = race("cpu", {}, arms=arms, blocks=5 if quick else 12, at_most_s=1.5 if quick else 4, progress=progress)
    widths = {"narrow": NARROW.width, "wider": WIDER}
    timed = [
        {"style": style, "width": widths[what], "ops": total(real, style, "ops"), "ns": found[f"{style}, {what}"].ns}
        for what, style in runs
        if what in widths
    ]
    price = {}
    for style in STYLES:
        few, more = (found[f"{style}, {layers}"].ns for layers in (FEW, MORE))
        each = (more - few) / (ops[MORE, style] - ops[FEW, style])
        price[style] = (few - each * ops[FEW, style], each)
    return timed, price
