"""What forward leaves in memory, and what it needs at most: with grad, under no_grad and in inference_mode, batch by batch.

Bytes of tensors are counted by `live_storages` on every device; on CUDA the allocator's own statistics stand beside them.
"""

from __future__ import annotations

from collections.abc import Callable

from utils.measure import small_models
from utils.measure.live_storages import storages
from utils.measure.saved_tensors import kept, memory

GRAD, NO_GRAD, INFERENCE = "grad", "no_grad", "inference_mode"
ACTIVATION_BATCHES = (1, 4, 16, 64)


def modes() -> dict:
    """The three states of the thread, by name, each a context to enter."""
    import torch

    return {GRAD: torch.enable_grad, NO_GRAD: torch.no_grad, INFERENCE: torch.inference_mode}


def activations(device: str = "cpu", batches: tuple[int, ...] = ACTIVATION_BATCHES) -> dict[str, dict]:
    """For each model: "parameters", and by batch the bytes that live when forward has returned ("held", the result included), the
    bytes of what its ops saved, without parameters and input ("saved"), and the result's own ("result")."""
    found = {}
    for name in (small_models.MLP, small_models.BLOCK):
        model = small_models.make(name, device)
        by_batch = {str(size): _activations(model, small_models.batch(name, size, device)) for size in batches}
        found[name] = {"parameters": small_models.parameter_bytes(model), "batches": by_batch}
    return found


def _activations(model, x) -> dict[str, int]:
    with storages() as counted:
        result = model(x)
    held, of_result = counted.live(), result.untyped_storage().nbytes()
    there = {f"there {at}": t for at, t in enumerate((x, *model.parameters()))}
    result, saved = kept(lambda: model(x), there)
    return {"held": held, "saved": memory(saved, there), "result": of_result}


def peaks(device: str = "cpu", batches: tuple[int, ...] = ACTIVATION_BATCHES) -> dict:
    """Peak bytes of the MLP's forward by batch and mode ("tensors", and on CUDA "allocator"), and of an add, the counter-case."""
    import torch

    model = small_models.make(small_models.MLP, device)
    a, b = (torch.randn(1024, device=device).requires_grad_() for _ in range(2))
    work = {f"batch {size}": (model, (small_models.batch(small_models.MLP, size, device),)) for size in batches}
    work["a + b"] = (torch.add, (a, b))
    return {
        "parameters": small_models.parameter_bytes(model),
        "peaks": {
            name: {mode: _peak(f, inputs, enter, device) for mode, enter in modes().items()} for name, (f, inputs) in work.items()
        },
    }


def _peak(f: Callable, inputs: tuple, enter: Callable, device: str) -> dict[str, int]:
    """The most bytes that lived at a time while f ran, beyond what was there before it."""
    with enter(), storages() as counted:
        result = f(*inputs)
    del result
    found = {"tensors": counted.peak}
    if device == "cuda":
        found["allocator"] = _allocator_peak(f, inputs, enter)
    return found


def _allocator_peak(f: Callable, inputs: tuple, enter: Callable) -> int:
    """The same by the CUDA allocator, in bytes as requested (it rounds up); libraries took their workspace in a run before."""
    import torch

    with enter():
        result = f(*inputs)
        del result
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_stats()["requested_bytes.all.current"]
        result = f(*inputs)
        torch.cuda.synchronize()
        at_most = torch.cuda.memory_stats()["requested_bytes.all.peak"]
    del result
    return at_most - before
