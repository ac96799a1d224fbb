"""The only file that touches private torch API: each seam with its version range, a probe, a fallback and a test."""

from __future__ import annotations

# ------------------------------------------------------------------ stopwatch: a kernel that spins for a number of cycles
# torch.cuda._sleep: torch 1.0 to 2.13 at least. Probe: `has_cuda_spin()`. Fallback: none; without it device_clock cannot hold
# the queue, and its caller is told so.


def has_cuda_spin() -> bool:
    """Whether this torch still has the spinning kernel (its name, not a device to run it on)."""
    import torch

    return callable(getattr(torch.cuda, "_sleep", None))


def cuda_spin(cycles: int) -> None:
    """Enqueue a kernel on the current stream that spins for `cycles` of the SM clock. RuntimeError where torch lost it."""
    import torch

    if not has_cuda_spin():
        raise RuntimeError(f"torch {torch.__version__} has no torch.cuda._sleep any more: device time cannot be gated here")
    torch.cuda._sleep(int(cycles))


# ------------------------------------------------------------------ lesson 05: a pybind11 call that does next to nothing
# torch._C._is_cow_tensor: seen in torch 2.13. It takes one tensor and reads one flag, so that its price is a lower bound
# for a pybind11 call with two. Probe: `pybind_call()`. Fallback: None; the lesson then shows no price for pybind11.


def pybind_call():
    """torch's own pybind11 function of one tensor that reads a flag, or None where torch lost it or binds it otherwise."""
    import torch

    function = getattr(torch._C, "_is_cow_tensor", None)
    return function if "pybind11" in repr(type(getattr(function, "__self__", None))) or _in_capsule(function) else None


def _in_capsule(function) -> bool:
    """pybind11 before 3.0 keeps its record of a function in a PyCapsule."""
    return type(getattr(function, "__self__", None)).__name__ == "PyCapsule"


# ------------------------------------------------------------------ stages: the TensorImpl behind a Python tensor
# Tensor._cdata: the address of the TensorImpl, torch 0.4 to 2.13 at least. Probe: `has_impl_address()`. Fallback: none; the
# probe's C++ stages are then reported as missing, since a handle passed the ordinary way would take a reference and change
# what is measured.


def has_impl_address() -> bool:
    """Whether this torch still gives out the address of a tensor's TensorImpl."""
    import torch

    return isinstance(getattr(torch.ones(1), "_cdata", None), int)


def impl_address(tensor) -> int:
    """The address of the TensorImpl behind `tensor`, without taking a reference to it. RuntimeError where torch lost it."""
    if not has_impl_address():
        import torch

        raise RuntimeError(f"torch {torch.__version__} has no Tensor._cdata any more: the C++ stages cannot borrow their inputs")
    return tensor._cdata
