"""Forms in Triton's interpreter, in a process of its own: their correctness on a machine without a GPU, never their speed.

The interpreter must be chosen before the kernels are imported, and a process that has imported them once cannot change its mind.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from utils.kernels import data, triton_door
from utils.kernels.data import SEED
from utils.kernels.forms import Form
from utils.measure.children import in_child, serve
from utils.measure.device_clock import MeasurementError

SWITCH = "TRITON_INTERPRET"
SHAPES = ((16, 128), (13, 100))  # whole tiles; odd in both directions
LIMIT_S = 300.0


def check(
    forms: Mapping[str, Form], *, shapes: Sequence[tuple[int, int]] = SHAPES, dtype: str = "fp32", seed: int = SEED, progress=None
) -> dict[str, dict]:
    """Each form run on each shape and compared with float64 and with the mask recomputed from the seed:

    {name: {"wrong": "" or what is wrong, in words, "kept": the share that dropout kept (None without), "seconds"}}. A few
    seconds. MeasurementError, in words, without Triton or when its process fails.
    """
    if not triton_door.installed():
        raise MeasurementError(triton_door.MISSING)
    asked = {"forms": {n: asdict(f) for n, f in forms.items()}, "shapes": list(shapes), "dtype": dtype, "seed": seed}
    try:
        return in_child("utils.kernels.interpreted", (json.dumps(asked),), progress or (lambda done, text: None), LIMIT_S)
    except RuntimeError as error:
        raise MeasurementError(f"Triton's interpreter failed: {error}") from None


def _run(asked: dict, progress) -> dict:
    out: dict[str, dict] = {}
    for i, (name, parts) in enumerate(asked["forms"].items()):
        form, start, said, kept = Form(**parts), time.monotonic(), [], None
        for rows, cols in asked["shapes"]:
            if form.bias == "mask" and cols & (cols - 1):
                continue  # an AND finds the column of a power of two only
            given = data.random(rows, cols, asked["dtype"], seed=asked["seed"])
            data.poison(given)
            triton_door.launch(form, given)()
            if wrong := data.wrong(form, given, truncates=asked["dtype"] == "bf16"):
                said.append(f"{rows} x {cols}: {wrong}")
            if form.draw:
                plain = data.poisoned_copy(given)
                triton_door.launch(form.with_(residual=False), plain)()
                kept = float((plain.out != 0).double().mean())
        out[name] = {"wrong": "; ".join(said), "kept": kept, "seconds": time.monotonic() - start}
        progress((i + 1) / len(asked["forms"]), name)
    return out


if __name__ == "__main__":
    os.environ[SWITCH] = "1"
    request = json.loads(sys.argv[1])
    serve(lambda progress: _run(request, progress))
