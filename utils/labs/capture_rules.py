"""What no capture can record: ops whose value or size the host has to wait for, tensors that move, read-outs that are no op."""

from __future__ import annotations

import torch

from utils.measure.seams import tensors_in

READ_OUTS = (
    "tolist",
    "numpy",
    "__array__",
    "__dlpack__",
    "__repr__",
    "__format__",
)  # functions of a tensor that show its numbers
MASKS = (torch.bool, torch.uint8)  # dtypes that index as a mask


def refusal(func, args: tuple, kwargs: dict | None = None) -> str:
    """Why a call of the op `func` (an overload such as `torch.ops.aten.nonzero.default`) cannot be recorded, "" when it can.

    `args` and `kwargs` are what it is called with: an index is a mask or it is not. Torch itself tags what depends on data.
    """
    tags, kwargs = func.tags, kwargs or {}
    if torch.Tag.data_dependent_output in tags:
        return f"{func} hands a value to Python: the host would have to wait for it, and a replay would not ask again"
    if torch.Tag.inplace_view in tags:
        return f"{func} changes where or how a tensor lies, and a replay would do it to the same tensor once more"
    if torch.Tag.dynamic_output_shape in tags and not _of_a_known_size(func, args, kwargs):
        return f"{func} has a result whose size depends on numbers: no buffer can wait for it"
    if func.overloadpacket in (torch.ops.aten.index_put_, torch.ops.aten.index_put) and _has_mask(args[1]):
        values, accumulate = args[2], args[3] if len(args) > 3 else kwargs.get("accumulate", False)
        if values.numel() != 1 or accumulate:
            return f"{func} through a mask needs as many values as the mask has hits, and only the device knows how many"
    return ""


def read_out(func) -> str:
    """Why a torch function (as a TorchFunctionMode sees it) must not be called while a capture runs, "" when it may.

    These show numbers to Python, or give a tensor other memory, and no op tells of it: a dispatch mode cannot see them.
    """
    name = getattr(func, "__name__", "")
    if name in READ_OUTS:
        return f"{name} shows numbers to Python, and no op tells of it"
    if name == "__set__" and getattr(func, "__self__", None) is torch.Tensor.data:
        return ".data = gives a tensor other memory, and no op tells of it: a replay would go on with the old one"
    return ""


def _of_a_known_size(func, args: tuple, kwargs: dict) -> bool:
    """Some ops that are tagged have a size all the same: an index without a mask, repeats whose sum is told."""
    if func.overloadpacket is torch.ops.aten.index:
        return not _has_mask(args[1])
    return func.overloadpacket is torch.ops.aten.repeat_interleave and kwargs.get("output_size") is not None


def _has_mask(indices) -> bool:
    return any(index.dtype in MASKS for index in tensors_in(list(indices)))
