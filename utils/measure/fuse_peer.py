"""torch.compile beside the kernel by hand, on the same chain and into the same output; and the kernel that it writes."""

from __future__ import annotations

import time
from functools import partial

from utils.kernels import peer
from utils.kernels.forms import ADD, STEPS, Form
from utils.measure.device_clock import MeasurementError
from utils.measure.either_clock import Progress, need, race, settled, within
from utils.measure.fuse_arms import COLS, ROWS, buffers, by_hand, checked, each, eager, whose
from utils.measure.placed_ops import usual_dtype

FORM = STEPS["with bias"]
LONGEST = 40  # lines of the generated kernel that are kept
TORCH_ADD, EAGER, HAND, COMPILED = "a + b of torch", "op by op", "by hand", "torch.compile"


def against_compile(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """The chain of seven adds, bias and residual in three ways, each into the output that is there, beside torch's own add:

    "rows": [{"who", "us", "gbps" (of the fused chain's bytes), "share" (of the add's time: add over this), "faults" (pages a
    call), "wrong"}], "race" (ns), "numbers": "by_hand_share", "compiled_share", "against" (compiled over by hand), "kernels"
    (that torch.compile made of the chain), "kernel_lines", "wrong", "compile_s". "language", "kernel" (its text, cut).

    About 3 s quick and a compilation, which torch keeps on disk. MeasurementError where torch.compile or our own kernel does not
    work.
    """
    need(device, "torch.compile beside a kernel by hand")
    import torch

    with settled(device) as notes, torch.no_grad():
        sets = buffers(device)
        if progress:
            progress(0.05, "torch.compile writes a kernel")
        start = time.monotonic()
        written = peer.source(FORM, sets[0])
        compile_s = time.monotonic() - start
        arms = {
            TORCH_ADD: eager(ADD, sets),
            EAGER: eager(FORM, sets),
            HAND: each(partial(by_hand, FORM), sets),
            COMPILED: each(_compiled(FORM), sets),
        }
        forms = dict.fromkeys(arms, FORM) | {TORCH_ADD: ADD}
        found = race(
            device,
            arms,
            control=TORCH_ADD,
            blocks=10 if quick else 40,
            at_most_s=3.0 if quick else 12.0,
            progress=within(progress, 0.5, 0.5),
        )
        # afterwards, when malloc has for long had what each arm needs
        said = {name: checked(forms[name], calls[0], sets[0], ours=name == HAND) for name, calls in arms.items()}
    moved = FORM.nbytes(ROWS[device], COLS, usual_dtype(device))
    add = found[TORCH_ADD].ns
    rows = [
        {
            "who": name,
            "us": found[name].ns * 1e-3,
            "gbps": moved / found[name].ns,
            "share": add / found[name].ns,
            "faults": said[name][1],
            "wrong": said[name][0],
        }
        for name in arms
    ]
    lines = written["kernel"].splitlines()
    wrong = [f"{name}: {words}" for name, (words, _) in said.items() if words]
    numbers = {
        "by_hand_share": add / found[HAND].ns,
        "compiled_share": add / found[COMPILED].ns,
        "against": found.ratio(HAND, COMPILED),
        "kernels": float(written["kernels"]),
        "kernel_lines": float(len(lines)),
        "compile_s": compile_s,
        "wrong": float(len(wrong)),
        "aa_error": found.aa_error,
        "error": found.error,
    }
    notes += [f"by hand in {whose(device)}"]
    kept = "\n".join(lines[:LONGEST] + ([f"… {len(lines) - LONGEST} lines more"] if len(lines) > LONGEST else []))
    return {"device": device, "by": whose(device), "language": written["language"], "kernel": kept, "rows": rows, "race": found,
            "numbers": numbers, "notes": notes + wrong}  # fmt: skip


def _compiled(form: Form):
    """One compiled function for all sets: their shapes are the same, so it is compiled once."""
    import torch

    made = torch.compile(peer.function(form), dynamic=False)

    def bound(given):
        parts = (*given.parts(form), given.out)

        def call():
            made(*parts)

        try:
            call()
        except Exception as error:  # no C++ compiler, no Triton, a graph that it refuses: each in its own way
            raise MeasurementError(f"torch.compile failed: {' '.join(str(error).split())[:200]}") from None
        return call

    return bound
