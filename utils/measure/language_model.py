"""A small language model for the census and for MFU: embedding, transformer layers, a head; random weights and tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Size:
    """What a model and its batch are: `batch` sequences of `tokens`, `layers` of `width` with four times that inside."""

    name: str
    width: int
    layers: int
    heads: int
    vocabulary: int
    batch: int
    tokens: int

    @property
    def words(self) -> str:
        return f"{self.layers} layers of {self.width:,}, {self.batch} × {self.tokens:,} tokens"


@dataclass(frozen=True)
class Training:
    """One training step as three phases, to be called in this order; `step()` is all of it. `parameters`: how many numbers."""

    forward: Callable[[], None]
    backward: Callable[[], None]
    optimizer: Callable[[], None]
    parameters: int
    tokens: int

    def step(self) -> None:
        self.forward()
        self.backward()
        self.optimizer()

    def phases(self) -> dict[str, Callable[[], None]]:
        return {"forward": self.forward, "backward": self.backward, "optimizer": self.optimizer}


Layer = Callable[[int, int, str, Any], Any]  # (width, heads, device, dtype) -> a module that takes (batch, tokens, width)


def shipped(width: int, heads: int, device: str, dtype):
    """The layer that torch ships: LayerNorm in front, attention without a mask as one op, a GELU between two linear layers."""
    from torch import nn

    how = {"dropout": 0.0, "activation": "gelu", "batch_first": True, "norm_first": True, "device": device, "dtype": dtype}
    return nn.TransformerEncoderLayer(width, heads, 4 * width, **how)


def model(size: Size, device: str, dtype, layer: Layer = shipped):
    """Embedding, layers, a last LayerNorm and the head, in training mode: (batch, tokens) of whole numbers to logits."""
    from torch import nn

    embed = nn.Embedding(size.vocabulary, size.width, device=device, dtype=dtype)
    layers = [layer(size.width, size.heads, device, dtype) for _ in range(size.layers)]
    head = nn.Linear(size.width, size.vocabulary, bias=False, device=device, dtype=dtype)
    return nn.Sequential(embed, *layers, nn.LayerNorm(size.width, device=device, dtype=dtype), head)


def tokens(size: Size, device: str):
    """A batch of random tokens, (batch, tokens)."""
    import torch

    return torch.randint(size.vocabulary, (size.batch, size.tokens), device=device)


def training(size: Size, device: str, dtype, layer: Layer = shipped, *, foreach: bool | None = None) -> Training:
    """The model in training mode (no dropout), its AdamW as torch chooses it for the device, and one fixed batch.

    `foreach=True`: the optimizer's ops take all parameters at once, as torch chooses it on a GPU; False: one parameter after the
    other, as on a CPU.
    """
    import torch
    import torch.nn.functional as F

    module = model(size, device, dtype, layer)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4, foreach=foreach)
    given, wanted = (tokens(size, device) for _ in range(2))
    state: dict = {}

    def forward() -> None:
        optimizer.zero_grad()
        state["loss"] = F.cross_entropy(module(given).flatten(0, 1), wanted.flatten())

    def backward() -> None:
        state.pop("loss").backward()

    parameters = sum(p.numel() for p in module.parameters())
    return Training(forward, backward, optimizer.step, parameters, size.batch * size.tokens)
