"""Waves: in how many rounds a grid of blocks runs on so many SMs, and what the last round leaves idle. No torch, no clock.

The simplest case is counted: blocks that all take equally long, so many of them at once on an SM, a new one as soon as a place
is free. Blocks that differ in length, or that wait for one memory, do not run in step, and lose less than is counted here.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Waves:
    """`blocks` on `sms` SMs with `per_sm` places each. ValueError for a grid or a device without any."""

    blocks: int
    sms: int
    per_sm: int = 1

    def __post_init__(self):
        if min(self.blocks, self.sms, self.per_sm) < 1:
            raise ValueError("at least one block, one SM and one place on it")

    @property
    def places(self) -> int:
        """Blocks that run at the same time when the device is full."""
        return self.sms * self.per_sm

    @property
    def count(self) -> int:
        """Rounds: the time of the grid, in times of one block."""
        return -(-self.blocks // self.places)

    @property
    def last(self) -> int:
        """Blocks in the last round, 1 to `places`."""
        return self.blocks - (self.count - 1) * self.places

    @property
    def idle_sms(self) -> int:
        """SMs without a block in the last round: blocks are dealt out one to each SM before any SM gets a second."""
        return max(0, self.sms - self.last)

    @property
    def lost(self) -> float:
        """The share of places times rounds in which no block ran; less than 1 / `count`, whatever the device."""
        return 1 - self.blocks / (self.count * self.places)

    def filled(self) -> list[int]:
        """Blocks of each round."""
        return [self.places] * (self.count - 1) + [self.last]
