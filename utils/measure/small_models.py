"""The models of lesson 03: an MLP, the same with wide layers, and a transformer block as in a language model; random weights."""

from __future__ import annotations

MLP, WIDE, BLOCK = "MLP", "wide MLP", "transformer block"
WIDTH, HIDDEN, TOKENS, HEADS = 64, 256, 16, 4
WIDE_HIDDEN = {"cpu": 1024, "cuda": 2048}  # wide enough that the products, and no longer the host, set the time of a step


def make(name: str, device: str = "cpu"):
    """The model, in training mode and without dropout (which would draw random numbers). ValueError for another name."""
    from torch import nn

    if name in (MLP, WIDE):
        wide = HIDDEN if name == MLP else WIDE_HIDDEN[device]
        layers = (nn.Linear(WIDTH, wide), nn.ReLU(), nn.Linear(wide, wide), nn.ReLU(), nn.Linear(wide, WIDTH))
        return nn.Sequential(*layers).to(device)
    if name == BLOCK:
        how = {"dropout": 0.0, "activation": "gelu", "batch_first": True, "norm_first": True}
        return nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, **how).to(device)
    raise ValueError(f"there is no model {name!r}; there are {MLP!r}, {WIDE!r} and {BLOCK!r}")


def batch(name: str, size: int, device: str = "cpu"):
    """An input of `size` rows for an MLP, of `size` sequences for the block."""
    import torch

    return torch.randn((size, TOKENS, WIDTH) if name == BLOCK else (size, WIDTH), device=device)


def parameter_bytes(model) -> int:
    """What the parameters take."""
    return sum(p.numel() * p.element_size() for p in model.parameters())
