"""A form on a GPU by the best way there is: Triton tried once, on failure the same kernel through NVRTC, else the reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from utils.kernels import cuda_door, data, triton_door
from utils.kernels.data import Data
from utils.kernels.forms import BLOCK_TAIL, Form
from utils.measure.device_clock import MeasurementError

_failed: dict[str, str] = {}  # {"triton": why}: tried once a process


@dataclass(frozen=True)
class Fused:
    """A form's kernel on its data: call it to launch it. `by` is "Triton" or "CUDA C++", `why` what stood in Triton's way."""

    form: Form
    by: str
    why: str
    call: Callable[[], object]

    def __call__(self) -> None:
        self.call()


def why_no_triton() -> str:
    """Why Triton's kernels do not run on this GPU, found by running one; "" where they do. Tried once a process."""
    if "triton" not in _failed:
        _failed["triton"] = _try_triton()
    return _failed["triton"]


def _try_triton() -> str:
    import torch

    if not torch.cuda.is_available():
        return "no CUDA device here"
    try:
        small = data.random(16, 256, "fp32", "cuda")
        data.poison(small)
        triton_door.launch(BLOCK_TAIL, small)()
        torch.cuda.synchronize()
        wrong = data.wrong(BLOCK_TAIL, small)
        return f"Triton's kernel computes something else: {wrong}" if wrong else ""
    except MeasurementError as error:
        return str(error)
    except Exception as error:  # a GPU that it does not serve, no C compiler for its launcher, an old driver: each in its own way
        major, minor = torch.cuda.get_device_capability()
        return f"Triton does not work here (capability {major}.{minor}): {' '.join(str(error).split())[:160]}"


def fused(form: Form, buffers: Data, *, by: str = "", tuning: Mapping | None = None) -> Fused:
    """The form's kernel on these buffers, by Triton if it works here, else by NVRTC; `by` asks for one of them, `tuning` gives
    the cut by the name of each. MeasurementError with both reasons where neither works."""
    tuning = tuning or {}
    why = why_no_triton() if by != "CUDA C++" else ""
    if not why and by != "CUDA C++":
        return Fused(form, "Triton", "", triton_door.launch(form, buffers, tuning.get("Triton")))
    if by == "Triton":
        raise MeasurementError(why)
    try:
        return Fused(form, "CUDA C++", why, cuda_door.launch(form, buffers, tuning.get("CUDA C++")))
    except MeasurementError as error:
        raise MeasurementError("; ".join(filter(None, [why, str(error)]))) from None
