"""Do the three losses add up to eager minus compiled? The toy block with each cure alone and with all: planned, captured, fused.

Planning leaves out the allocator (the same ops write into buffers that are there), capture the host's part of each op, fusing
the traffic between ops. All three measured in one race, small and wide, and the wide block once more without its draw of random
numbers: what a fused kernel saves there and not here is no traffic, but the work of the draw itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from utils.kernels.forms import BLOCK_TAIL, Form
from utils.measure.captured_block import BARE, BOTH, CAPTURED, COMPILED, EAGER, FUSED, Inputs, Step, said, steps_of, timed
from utils.measure.either_clock import Progress, need, settled, within
from utils.measure.graph_by_hand import WARM_UPS
from utils.measure.placed_ops import usual_dtype
from utils.measure.record import in_words
from utils.measure.toy_block import DROPPED, LARGE, SMALL
from utils.model.readings import Race

PLANNED = "planned"
KEYS = {EAGER: "eager", PLANNED: "planned", CAPTURED: "captured", FUSED: "fused", BOTH: "both", COMPILED: "compiled"}
DRAWLESS = BLOCK_TAIL.with_(draw="")
SMALL_BLOCK, WIDE, WIDE_DRAWLESS = "small", "wide", "wide_drawless"
PROGRAMS: dict[str, tuple[dict, Form]] = {
    SMALL_BLOCK: (SMALL, BLOCK_TAIL),
    WIDE: (LARGE, BLOCK_TAIL),
    WIDE_DRAWLESS: (LARGE, DRAWLESS),
}
CURES = {PLANNED: "plan", CAPTURED: "capture", FUSED: "fuse"}  # each alone, as the texts name them


def losses(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """The block's step (ns, input in place) by program ("small", "wide", "wide_drawless") and way:

    "rows": [{"program", "way", "key", "ns", "saves" (eager's step less this one's), "seen" (whether that is more than the A/A
    error), "wrong" (words, or "")}], "races" {program: ns}, "shapes" {program: [rows, side]}, "missing" {way: why},
    "numbers" by program "…_eager", "…_planned", "…_captured", "…_fused", "…_both", "…_compiled" (ns); "…_plan", "…_capture",
    "…_fuse" (ns that each cure saves alone), "…_cures" (their sum), "…_all" (what all together save), "…_overlap" (sum over
    all), "…_left_by_capture" and "…_alone" (ns that fusing saves after capture, and before), "…_to_compiled" (eager less
    compiled); "draw" (ns of the wide block's saving that its twin without the draw does not show), "draw_share" (of all),
    "wrong", "aa_error" (small). About 8 s quick, and what compiling takes. MeasurementError without the device.
    """
    need(device, "the block's losses")
    import torch

    rows, races, shapes, missing, numbers = [], {}, {}, {}, {}
    with settled(device) as notes, torch.no_grad():
        for at, (program, (sizes, form)) in enumerate(PROGRAMS.items()):
            bar = within(progress, at / len(PROGRAMS), 1 / len(PROGRAMS))
            if bar:
                bar(0.0, f"{program.replace('_', ', ')}: capturing, fusing, compiling")
            inputs = Inputs(device, sizes[device], form)
            lost: dict[str, str] = {}
            steps = steps_of(inputs, lost, compilers=form.draw != "" or not quick)
            steps = {EAGER: steps.pop(EAGER), **_planned(inputs, lost), **{w: s for w, s in steps.items() if w in KEYS}}
            missing |= {f"{way}, {program}": why for way, why in lost.items()}
            words = {way: said(step, inputs) for way, step in steps.items()}
            short = quick or program != SMALL_BLOCK  # a wide step is long, and its blocks are as many in less time
            took, race = _timed(device, steps, inputs, short, within(bar, 0.4, 0.6))
            races[program], shapes[program] = race, list(sizes[device])
            for way in steps:
                one = {"program": program, "way": way, "key": KEYS[way], "ns": took[way], "saves": took[EAGER] - took[way]}
                rows.append(one | {"seen": way != EAGER and _seen(race, took, way), "wrong": words[way]})
            numbers |= {f"{program}_{name}": value for name, value in _numbers(took).items()}
    wrongs = [f"{row['way']}, {row['program']}: {row['wrong']}" for row in rows if row["wrong"]]
    numbers |= _draw(numbers) | {"wrong": float(len(wrongs)), "aa_error": races[SMALL_BLOCK].aa_error}
    notes += [usual_dtype(device), *wrongs, *(f"{way}: {why}" for way, why in missing.items())]
    return {"device": device, "rows": rows, "races": races, "shapes": shapes, "missing": missing, "numbers": numbers,
            "notes": notes}  # fmt: skip


def planned(inputs: Inputs) -> Step:
    """The block's ops, each writing into a buffer that is there: no memory is asked for, nothing else changes."""
    import torch

    start = time.perf_counter()
    x, w, b = inputs.x, inputs.w, inputs.b
    gelu = torch.nn.functional.gelu
    h, t, out = (torch.empty_like(x) for _ in range(3))
    drop = _dropping(h, t, out) if inputs.form.draw else None

    def run() -> None:
        torch.mm(x, w, out=h)
        torch.add(h, b, out=t)
        gelu(t, out=h)
        torch.add(x, h if drop is None else drop(), out=out)

    for _ in range(WARM_UPS):
        run()
    if inputs.device == "cuda":
        torch.cuda.synchronize()
    return Step(run, lambda: out, time.perf_counter() - start)


def _dropping(h, t, free) -> Callable:
    """Dropout of h into t, by the ops that torch runs for it on this device; `free` may be written meanwhile."""
    import torch

    if h.is_cuda:
        mask, dropout = torch.empty_like(h, dtype=torch.bool), torch.ops.aten.native_dropout.out

        def on_gpu():
            dropout(h, DROPPED, True, out0=t, out1=mask)
            return t

        return on_gpu

    def on_cpu():  # its mask is as wide as an activation
        free.bernoulli_(1 - DROPPED)
        free.div_(1 - DROPPED)
        return torch.mul(h, free, out=t)

    return on_cpu


def _planned(inputs: Inputs, lost: dict[str, str]) -> dict[str, Step]:
    try:
        return {PLANNED: planned(inputs)}
    except Exception as error:  # an op without a form that writes into what is there: the other ways go on
        lost[PLANNED] = f"{type(error).__name__}: {in_words(error)}"
        return {}


def _timed(device: str, steps: dict[str, Step], inputs: Inputs, quick: bool, progress: Progress | None) -> tuple[dict, Race]:
    """(ns of each way's step, a captured one's with its input in place, and the race)."""
    runs = {way: step.run for way, step in steps.items()}
    bare = {BARE.format(way): step.bare for way, step in steps.items() if step.bare}
    took, race, _ = timed(device, runs, bare, inputs, quick, progress)
    return {way: took.get(BARE.format(way), took[way]) for way in steps}, race


def _seen(race: Race, took: dict[str, float], way: str) -> bool:
    """Whether what this way saves is more than what the same code differs by when it is timed twice."""
    return abs(took[EAGER] - took[way]) > race.aa_error * max(took[EAGER], took[way])


def _numbers(took: dict[str, float]) -> dict[str, float]:
    out = {KEYS[way]: ns for way, ns in took.items()}
    saved = {CURES[way]: took[EAGER] - took[way] for way in CURES if way in took}
    out |= saved
    if COMPILED in took:
        out["to_compiled"] = took[EAGER] - took[COMPILED]
    if BOTH in took:
        out["all"] = took[EAGER] - took[BOTH]
        if CAPTURED in took and FUSED in took:
            out |= {"left_by_capture": took[CAPTURED] - took[BOTH], "alone": took[EAGER] - took[FUSED]}
        if len(saved) == len(CURES):
            out |= {"cures": sum(saved.values()), "overlap": sum(saved.values()) / out["all"]}
    return out


def _draw(numbers: dict[str, float]) -> dict[str, float]:
    """What of the wide block's saving is gone when nothing is drawn."""
    try:
        draw = numbers[f"{WIDE}_all"] - numbers[f"{WIDE_DRAWLESS}_all"]
        return {"draw": draw, "draw_share": draw / numbers[f"{WIDE}_all"]}
    except KeyError:
        return {}
