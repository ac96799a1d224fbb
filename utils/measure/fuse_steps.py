"""The chain fused step by step: what bytes predict of each step, what it took op by op and as one kernel; and ever more adds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from utils.kernels.forms import ADD, STEPS, Form
from utils.measure.either_clock import Progress, need, race, settled, within
from utils.measure.fuse_arms import COLS, ROWS, buffers, by_hand, checked, each, eager, spelled, whose
from utils.measure.placed_ops import usual_dtype
from utils.model.quantities import noise_of
from utils.model.readings import Race, Reading, ratio_error
from utils.model.step_model import BYTES

PLAIN = "plain stores"  # of the kernel by hand on a CPU: the caches fetch a line before it is written
NAMES = {"a + b": "add", "two ops": "two", "eight ops": "eight", "with bias": "bias", "with gelu": "gelu"}
ADDS = {"cpu": (1, 2, 4, 8, 16, 32, 64, 128), "cuda": (1, 2, 4, 8, 16, 32, 64, 128)}
QUICK_ADDS = {"cpu": (1, 4, 8, 16, 64), "cuda": (1, 4, 8, 16, 64)}
SPELLED = 8  # adds up to which the chain is also run op by op: its line is straight
FREE = 1.1  # a time within this factor of a single add's


def steps(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """Every form of `forms.STEPS`, op by op and fused, on the same buffers, all into outputs that are there:

    "rows": [{"step", "ops", "eager_tensors", "fused_tensors" (moved, in activations), "eager_us", "fused_us", "plain_us" (fused,
    with plain stores; CPU), "eager_paper_us", "fused_paper_us" (bytes at the plain add's own rate), "predicted" (ratio of
    bytes), "gain" (ratio of times), "eager_faults", "fused_faults" (pages a call), "wrong" (words, or "")}], "race" (ns),
    "numbers" (by the short names of NAMES: "eight_gain", "eight_predicted" …; "bias_extra", "flat": fused steps over fused
    steps; "eight_error", "bias_error": relative, by the arms' own scatter; "wrong": how many arms), "by". About 5 s quick.
    MeasurementError without a kernel of our own here.
    """
    need(device, "fused chains")
    with settled(device) as notes:
        arms, said = _arms(device, within(progress, 0, 0.4))
        found = race(
            device,
            arms,
            control="a + b, eager",
            blocks=8 if quick else 30,
            at_most_s=4.0 if quick else 15.0,
            progress=within(progress, 0.4, 0.6),
        )
    rows = [_row(device, name, form, found, said) for name, form in STEPS.items()]
    by = whose(device)
    notes += [f"{ROWS[device]:,} x {COLS:,} {usual_dtype(device)}", f"fused by hand in {by}"]
    wrong = [f"{arm}: {words}" for arm, (words, _) in said.items() if words]
    numbers = _numbers(rows, found) | {"wrong": float(len(wrong))}
    return {"device": device, "by": by, "rows": rows, "race": found, "numbers": numbers, "notes": notes + wrong}


def _arms(device: str, progress: Progress | None) -> tuple[dict[str, list[Callable]], dict[str, tuple[str, int]]]:
    """The arms by name, their calls taking turns on their buffers; and of each what is wrong and its page faults."""
    sets = buffers(device)
    arms: dict[str, list[Callable]] = {}
    said = {}
    for at, (name, form) in enumerate(STEPS.items()):
        if progress:
            progress(at / len(STEPS), f"compiling and checking {name}")
        made = {"eager": eager(form, sets), "fused": each(partial(by_hand, form), sets)}
        if device == "cpu":
            made[PLAIN] = each(partial(by_hand, form, streaming=False), sets)
        for arm, calls in made.items():
            arms[f"{name}, {arm}"] = calls
            said[f"{name}, {arm}"] = checked(form, calls[0], sets[0], ours=arm != "eager")
    return arms, said


def _row(device: str, name: str, form: Form, found: Race, said: dict[str, tuple[str, int]]) -> dict:
    dtype, rows = usual_dtype(device), ROWS[device]
    activation = rows * COLS * BYTES[dtype]
    rate = ADD.nbytes(rows, COLS, dtype) / found["a + b, eager"].ns  # bytes a ns of torch's own add, in this race
    moved = {"eager": form.eager_nbytes(rows, COLS, dtype), "fused": form.nbytes(rows, COLS, dtype)}
    ns = {arm: found[f"{name}, {arm}"].ns for arm in moved}
    plain = found.readings.get(f"{name}, {PLAIN}")
    return {
        "step": name,
        "ops": form.ops,
        **{f"{arm}_tensors": nbytes / activation for arm, nbytes in moved.items()},
        **{f"{arm}_us": ns[arm] * 1e-3 for arm in moved},
        "plain_us": None if plain is None else plain.ns * 1e-3,
        **{f"{arm}_paper_us": nbytes / rate * 1e-3 for arm, nbytes in moved.items()},
        "predicted": moved["eager"] / moved["fused"],
        "gain": ns["eager"] / ns["fused"],
        **{f"{arm}_faults": said[f"{name}, {arm}"][1] for arm in moved},
        "wrong": "; ".join(words for arm, (words, _) in said.items() if arm.startswith(f"{name}, ") and words),
    }


def _numbers(rows: list[dict], found: Race) -> dict[str, float]:
    out = {"aa_error": found.aa_error, "error": found.error}
    for row in rows:
        short = NAMES[row["step"]]
        out |= {f"{short}_gain": row["gain"], f"{short}_predicted": row["predicted"]}
        if row["plain_us"]:
            out[f"{short}_plain_gain"] = row["eager_us"] / row["plain_us"]
    us = {NAMES[row["step"]]: row["fused_us"] for row in rows}
    step = {NAMES[row["step"]]: row["step"] for row in rows}
    out["eight_error"] = own_error(found[f"{step['eight']}, eager"], found[f"{step['eight']}, fused"])
    out["bias_error"] = own_error(found[f"{step['bias']}, fused"], found[f"{step['eight']}, fused"])
    return out | {"bias_extra": us["bias"] / us["eight"], "flat": us["eight"] / us["two"]}


def own_error(a: Reading, b: Reading) -> float:
    """The relative error of the ratio of two arms, by their own blocks: a neighbour that holds one of two cores meets a kernel on
    both of them, and not the short A/A pair."""
    return noise_of(a) + noise_of(b) + ratio_error(a.samples, b.samples)


def chain(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """1, 2, 4 … scalar adds on one tensor, fused, and up to 8 of them op by op:

    "rows": [{"adds", "fused_us", "eager_us" (None above 8), "fused_intensity", "eager_intensity" (FLOP a byte)}], "numbers":
    "free" (most adds that a fused chain did in at most a tenth more than one takes), "intensity_free" (its FLOP a byte),
    "eager_rise", "fused_rise" (eight adds over one), "longest" (of the adds tried), "longest_rise". About 3 s quick.
    """
    need(device, "a longer chain")
    tried = (QUICK_ADDS if quick else ADDS)[device]
    dtype = usual_dtype(device)
    with settled(device) as notes:
        sets = buffers(device)
        arms, wrong = {}, []
        for at, k in enumerate(tried):
            if progress:
                progress(0.4 * at / len(tried), f"compiling {k} adds")
            form = Form(adds=k)
            arms[f"fused {k}"] = each(partial(by_hand, form), sets)
            if k <= SPELLED:
                arms[f"eager {k}"] = each(partial(spelled, form), sets)
            if said := checked(form, arms[f"fused {k}"][0], sets[0], ours=True)[0]:
                wrong.append(f"{k} adds: {said}")
        found = race(
            device,
            arms,
            control="fused 1",
            blocks=8 if quick else 25,
            at_most_s=3.0 if quick else 10.0,
            progress=within(progress, 0.4, 0.6),
        )
    one = found["fused 1"].ns
    rows = [
        {
            "adds": k,
            "fused_us": found[f"fused {k}"].ns * 1e-3,
            "eager_us": found[f"eager {k}"].ns * 1e-3 if k <= SPELLED else None,
            "fused_intensity": k / (2 * BYTES[dtype]),
            "eager_intensity": 1 / (2 * BYTES[dtype]),
        }
        for k in tried
    ]
    free = 1
    for row in rows:
        if row["fused_us"] * 1e3 > FREE * one:
            break
        free = row["adds"]
    numbers = {
        "free": float(free),
        "intensity_free": free / (2 * BYTES[dtype]),
        "eager_rise": found.ratio("eager 1", f"eager {SPELLED}"),
        "fused_rise": found.ratio("fused 1", f"fused {SPELLED}"),
        "longest": float(tried[-1]),
        "longest_rise": found.ratio("fused 1", f"fused {tried[-1]}"),
        "wrong": float(len(wrong)),
        "aa_error": found.aa_error,
    }
    return {"device": device, "by": whose(device), "rows": rows, "numbers": numbers, "notes": [*notes, dtype, *wrong]}
