"""A transformer layer with every op written out, as an eager language model runs it: forward over a prompt, and one token.

RMSNorm from its powers, rotary positions from halves, attention as product, mask, softmax and product, SwiGLU from three
products. Nothing is fused but what a single op of torch is. It computes what the fused ops compute (a test holds it to them).
"""

from __future__ import annotations

POSITIONS = 2048


def spelled(width: int, heads: int, device: str, dtype, positions: int = POSITIONS):
    """The layer as a module: `layer(x)` over (batch, tokens, width), causal; `layer(x, cache)` of new tokens behind a cache.

    `cache` is a dict with "k" and "v" of (batch, heads, past, width / heads); the call puts the longer ones in their place.
    Angles and mask are made once, for so many positions, as models make them. ValueError for a width that its heads cannot share
    out in halves.
    """
    import torch
    from torch import nn

    if width % (2 * heads):
        raise ValueError(f"{heads} heads of two halves each do not share out a width of {width}")
    how = {"bias": False, "device": device, "dtype": dtype}

    class Norm(nn.Module):
        """RMSNorm; the sum in fp32, as language models have it."""

        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(width, device=device, dtype=dtype))

        def forward(self, x):
            wide = x.float()
            mean = wide.pow(2).mean(-1, keepdim=True)
            return self.weight * (wide * torch.rsqrt(mean + 1e-6)).to(x.dtype)

    class Spelled(nn.Module):
        def __init__(self):
            super().__init__()
            self.before_attention, self.before_mlp = Norm(), Norm()
            self.q, self.k, self.v, self.o = (nn.Linear(width, width, **how) for _ in range(4))
            self.gate, self.up = (nn.Linear(width, 4 * width, **how) for _ in range(2))
            self.down = nn.Linear(4 * width, width, **how)
            rates = 10_000.0 ** (-torch.arange(0, width // heads, 2, device=device).float() / (width // heads))
            turns = torch.outer(torch.arange(positions, device=device).float(), rates)
            both = torch.cat((turns, turns), dim=-1)
            hidden = torch.ones(positions, positions, dtype=torch.bool, device=device).triu(1)
            for name, table in {"cos": both.cos().to(dtype), "sin": both.sin().to(dtype), "hidden": hidden}.items():
                self.register_buffer(name, table, persistent=False)

        def forward(self, x, cache: dict | None = None):
            x = x + self.attention(self.before_attention(x), cache)
            return x + self.mlp(self.before_mlp(x))

        def mlp(self, x):
            return self.down(nn.functional.silu(self.gate(x)) * self.up(x))

        def attention(self, x, cache):
            batch, new, _ = x.shape
            q, k, v = (f(x).view(batch, new, heads, width // heads).transpose(1, 2) for f in (self.q, self.k, self.v))
            past = cache["k"].shape[2] if cache else 0
            here = slice(past, past + new)
            cos, sin = self.cos[here], self.sin[here]
            q, k = (t * cos + turned(t) * sin for t in (q, k))
            if cache:
                k, v = torch.cat((cache["k"], k), dim=2), torch.cat((cache["v"], v), dim=2)
                cache.update(k=k, v=v)
            scores = torch.matmul(q, k.transpose(2, 3)) * (width // heads) ** -0.5
            if new > 1:  # one new token sees all that came before it
                scores = scores.masked_fill(self.hidden[here, : past + new], float("-inf"))
            weights = torch.softmax(scores.float(), dim=-1).to(x.dtype)
            mixed = torch.matmul(weights, v).transpose(1, 2).reshape(batch, new, width)
            return self.o(mixed)

    def turned(t):
        first, second = t.chunk(2, dim=-1)
        return torch.cat((-second, first), dim=-1)

    return Spelled()


def cache_of(batch: int, heads: int, past: int, head: int, device: str, dtype) -> dict:
    """A layer's cache of `past` random tokens."""
    import torch

    return {name: torch.randn(batch, heads, past, head, device=device).to(dtype) for name in ("k", "v")}
