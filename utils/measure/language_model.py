"""A small language model for the census and for MFU: embedding, transformer layers, a head; random weights and tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


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


def training(size: Size, device: str, dtype) -> Training:
    """The model in training mode (no dropout, no mask), its AdamW as torch chooses it for the device, and one fixed batch."""
    import torch
    import torch.nn.functional as F
    from torch import nn

    how = {"dropout": 0.0, "activation": "gelu", "batch_first": True, "norm_first": True, "device": device, "dtype": dtype}
    embed = nn.Embedding(size.vocabulary, size.width, device=device, dtype=dtype)
    layers = [nn.TransformerEncoderLayer(size.width, size.heads, 4 * size.width, **how) for _ in range(size.layers)]
    head = nn.Linear(size.width, size.vocabulary, bias=False, device=device, dtype=dtype)
    model = nn.Sequential(embed, *layers, nn.LayerNorm(size.width, device=device, dtype=dtype), head)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    given, wanted = (torch.randint(size.vocabulary, (size.batch, size.tokens), device=device) for _ in range(2))
    state: dict = {}

    def forward() -> None:
        optimizer.zero_grad()
        state["loss"] = F.cross_entropy(model(given).flatten(0, 1), wanted.flatten())

    def backward() -> None:
        state.pop("loss").backward()

    parameters = sum(p.numel() for p in model.parameters())
    return Training(forward, backward, optimizer.step, parameters, size.batch * size.tokens)
