"""The way from the first fused tail back to the roof, one change a rung: each a form with the way it is cut, and why it pays."""

from __future__ import annotations

from dataclasses import dataclass

from utils.kernels import cuda_door, on_gpu, sass, triton_door
from utils.kernels.data import Data
from utils.kernels.forms import BLOCK_TAIL, LADDER, Form
from utils.kernels.on_gpu import Fused

# As the kernel of rows was first written: sixteen bytes a load, four rows ahead.
WIDE_TRITON = triton_door.Tuning(block=1024, warps=4, batch=4)
WIDE_CUDA = cuda_door.Tuning(vector=8, threads=128, batch=4)
LAST = "four wide, eight ahead"


@dataclass(frozen=True)
class Rung:
    """One variant of the tail: its form, and how it is cut by Triton and as CUDA C++ (None: the door's own way)."""

    name: str
    form: Form
    triton: triton_door.Tuning | None
    cuda: cuda_door.Tuning | None

    def fused(self, buffers: Data, *, by: str = "") -> Fused:
        """The rung's kernel on these buffers; as `on_gpu.fused`."""
        return on_gpu.fused(self.form, buffers, by=by, tuning={"Triton": self.triton, "CUDA C++": self.cuda})

    def counted(self, dtype: str = "bf16") -> dict:
        """Its instructions; as `sass.counted`."""
        return sass.counted(self.form, dtype, self.triton)


def rungs() -> tuple[Rung, ...]:
    """All of them, from the first try up; the last one changes nothing but the cut."""
    first = tuple(Rung(n, f, None if f.flat else WIDE_TRITON, None if f.flat else WIDE_CUDA) for n, f in LADDER.items())
    return (*first, Rung(LAST, BLOCK_TAIL, None, None))
