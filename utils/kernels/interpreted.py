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

from utils.kernels import data, gelu, triton_door
from utils.kernels.data import SEED
from utils.kernels.forms import Form
from utils.measure.children import in_child, serve
from utils.measure.device_clock import MeasurementError

SWITCH = "TRITON_INTERPRET"
SHAPES = ((16, 128), (13, 100))  # whole tiles; odd in both directions
LIMIT_S = 300.0


GELU_SHAPE = (255, 256)  # 65,280 elements: every finite bf16 number once


def gelu_everywhere(*, progress=None) -> dict:
    """The two-byte kernel's cheap GELU of every finite bf16 number, in the interpreter, before it is rounded: `gelu.errors`."""
    return ask([{"everywhere": True}], progress)[0]


def check(
    forms: Mapping[str, Form], *, shapes: Sequence[tuple[int, int]] = SHAPES, dtype: str = "fp32", seed: int = SEED, progress=None
) -> dict[str, dict]:
    """Each form run on each shape and compared with float64 and with the mask recomputed from the seed:

    {name: {"wrong": "" or what is wrong, in words, "kept": the share that dropout kept (None without), "seconds"}}. A few
    seconds. MeasurementError, in words, without Triton or when its process fails.
    """
    asked = request(forms, shapes, dtype, seed)
    return ask([asked], progress)[0]


def request(forms: Mapping[str, Form], shapes=SHAPES, dtype: str = "fp32", seed: int = SEED) -> dict:
    """What `check` asks for, to be put together with others into one `ask`."""
    return {"forms": {n: asdict(f) for n, f in forms.items()}, "shapes": list(shapes), "dtype": dtype, "seed": seed}


def ask(requests: Sequence[dict], progress=None) -> list[dict]:
    """The answers to several requests, in one process: most of a short check is its start. MeasurementError as `check`."""
    if not triton_door.installed():
        raise MeasurementError(triton_door.MISSING)
    try:
        return in_child(
            "utils.kernels.interpreted", (json.dumps(list(requests)),), progress or (lambda done, text: None), LIMIT_S
        )
    except RuntimeError as error:
        raise MeasurementError(f"Triton's interpreter failed: {error}") from None


def _everywhere() -> dict:
    """x is bf16, the output fp32: the interpreter would cut off where a GPU rounds."""
    import torch

    x = gelu.all_bf16()
    given = torch.from_numpy(x.copy()).to(torch.bfloat16).view(GELU_SHAPE)
    out = torch.full(GELU_SHAPE, float("nan"))
    triton_door.launch(Form(gelu="cheap"), data.Data(given, given[0], given, out))()
    return gelu.errors(x, out.view(-1).numpy())


def _run(asked: dict, progress) -> dict:
    if asked.get("everywhere"):
        return _everywhere()
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
    serve(lambda progress: [_run(asked, progress) for asked in json.loads(sys.argv[1])])
