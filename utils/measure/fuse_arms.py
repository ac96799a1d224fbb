"""What the races about fused chains share: buffers that take turns, the kernel by hand, and a check of each arm."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from utils.kernels import cpu_door, data, on_gpu, peer
from utils.kernels.data import Data
from utils.kernels.forms import SHIFT, Form
from utils.measure import malloc
from utils.measure.device_clock import MeasurementError
from utils.measure.either_clock import filled, free_bytes
from utils.measure.gemm_peak import torch_dtype
from utils.measure.placed_ops import usual_dtype

# rows x columns of one activation: 16 MiB of fp32 on a CPU, 256 MiB of two-byte numbers on a GPU, both far beyond the caches
ROWS, COLS = {"cpu": 1024, "cuda": 32_768}, 4096
SETS = {"cpu": 4, "cuda": 1}  # a CPU's take turns, so that none is met again in the cache; a GPU's is larger than its cache


def buffers(device: str, *, sets: int | None = None, rows: int | None = None, cols: int = COLS) -> list[Data]:
    """`sets` of random x, residual and output, and a bias for all, in the dtype that models have on this device.

    MeasurementError, in words, where they do not fit into the memory that is free.
    """
    import torch

    sets, rows = sets or SETS[device], rows or ROWS[device]
    kind = torch_dtype(usual_dtype(device))
    n = sets * rows * cols
    if free_bytes(device) < 2 * 3 * n * kind.itemsize:  # twice: what the ops put between them has to fit as well
        raise MeasurementError(f"{3 * n * kind.itemsize >> 20:,} MiB of buffers do not fit into the memory that is free")
    x, residual, out = (filled(n, device, kind).sub_(0.5).mul_(4).view(sets, rows, cols) for _ in range(3))
    bias = torch.randn(cols, device=device).to(kind)
    return [Data(x[i], bias, residual[i], out[i]) for i in range(sets)]


def by_hand(form: Form, given: Data, *, streaming: bool = True) -> Callable[[], object]:
    """The form as the course's own kernel: C++ on a CPU, on as many threads as torch has now; Triton or CUDA C++ on a GPU.

    MeasurementError, in words, without it."""
    if given.x.is_cuda:
        return on_gpu.fused(form, given)
    return partial(cpu_door.launch(form, given, streaming=streaming), 1)


def whose(device: str) -> str:
    """In which language the kernel by hand is written here; on a GPU, what stood in Triton's way."""
    if device == "cpu":
        return "C++"
    why = on_gpu.why_no_triton()
    return f"CUDA C++, for want of Triton ({why})" if why else "Triton"


def each(make: Callable[[Data], Callable], sets: Iterable[Data]) -> list[Callable]:
    return [make(one) for one in sets]


def eager(form: Form, sets: Iterable[Data]) -> list[Callable]:
    """The form's ops one by one on each set, the last one into the output that is there."""
    return each(partial(peer.eager, form), sets)


def spelled(form: Form, given: Data) -> Callable[[], None]:
    """Scalar adds and perhaps a residual as torch spells them, the last op into the output that is there; nothing else in
    between, where a Python call more would count (on small tensors). ValueError for another form."""
    import torch

    if form.with_(adds=0, residual=False) != Form() or not form.ops:
        raise ValueError(f"only adds and a residual are spelled out, not {form}")
    x, out, add = given.x, given.out, torch.add
    last, before = (given.residual, form.adds) if form.residual else (SHIFT, form.adds - 1)

    def call():
        y = x
        for _ in range(before):
            y = y + SHIFT
        add(y, last, out=out)

    return call


def wait(device: str) -> None:
    if device == "cuda":
        import torch

        torch.cuda.synchronize()


def checked(form: Form, call: Callable, given: Data, *, ours: bool) -> tuple[str, int]:
    """(what is wrong with what the call leaves in the output, or ""; the page faults of a later call)."""
    device = "cuda" if given.x.is_cuda else "cpu"
    data.poison(given)
    call()
    wait(device)
    said = data.wrong(form, given) if ours else data.wrong_eager(form, given, given.out)
    call()  # malloc has what this arm needs from here on
    before = malloc.page_faults()
    call()
    wait(device)
    return said, malloc.page_faults() - before
