"""What a device gives for its price: samples for each unit of money at a batch size, from the time of a step. No torch, no clock.

A `Speed` knows how long a step takes at each batch. It comes from a measured sweep, or from a datasheet and counted work by the
max model of `costmodel`: the same host issues the same ops in front of every device, and the longer of the two sets the step.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from utils.model.costmodel import Op, total_max
from utils.model.devices import Device

ALIKE = 1.02  # two devices within 2 % of each other are called alike


@dataclass(frozen=True)
class Speed:
    """A device by `name`; `label` says whose numbers they are and `kind` "measured", "recorded" or "datasheet"; `steps` is batch
    → µs of a step, at two batches or more."""

    name: str
    label: str
    kind: str
    steps: Mapping[int, float]

    def __post_init__(self):
        if len(self.steps) < 2 or min(self.steps.values()) <= 0:
            raise ValueError(f"{self.name}: a speed needs the steps of two batches at least, each longer than nothing")

    @property
    def batches(self) -> tuple[int, int]:
        """The smallest and the largest batch that is known."""
        return min(self.steps), max(self.steps)

    def step_us(self, batch: float) -> float | None:
        """µs of a step at `batch`, on a straight line between the batches that are known; None beyond them."""
        known = sorted(self.steps)
        if not known[0] <= batch <= known[-1]:
            return None
        right = max(1, bisect_left(known, batch))
        low, high = known[right - 1], known[right]
        share = (batch - low) / (high - low)
        return self.steps[low] * (1 - share) + self.steps[high] * share

    def worth(self, batch: float, price_an_hour: float) -> float | None:
        """Samples for one unit of money at so much an hour; None where the step is not known. ValueError without a price."""
        if price_an_hour <= 0:
            raise ValueError("a price is above 0")
        step = self.step_us(batch)
        return None if step is None else batch / step * 3.6e9 / price_an_hour


def from_datasheet(
    device: Device, work: Callable[[int], tuple[float, float]], batches: Iterable[int], *, ops: int, host_us: float, dtype: str
) -> Speed:
    """The model's Speed: `work(batch)` gives (FLOP, bytes) of a step, `ops` kernels each cost the host `host_us` µs.

    The device takes the longer of FLOPs over the sheet's peak in `dtype` (fp16 where it has no bf16) and bytes over its
    bandwidth: no real kernel is that good, so a real device leaves its flat part at a smaller batch.
    """
    peak = device.tflops.get(dtype) or device.tflops["fp16"]
    steps = {}
    for batch in batches:
        flops, nbytes = work(batch)
        device_us = max(flops / (peak.value * 1e6), nbytes / (device.gbps.value * 1e3))
        steps[batch] = total_max([Op(ops * host_us, device_us=device_us)])
    label = f"model: datasheet peaks, the host in µs for each of {ops:,} kernels: {host_us:.3g}"
    return Speed(device.name, label, "datasheet", steps)


def winner(first: Speed, second: Speed, prices: tuple[float, float], batch: float) -> str | None:
    """The name of the device that gives more for its price at `batch`, "" for alike, None where one of them is not known."""
    one, other = first.worth(batch, prices[0]), second.worth(batch, prices[1])
    if one is None or other is None:
        return None
    if max(one, other) <= ALIKE * min(one, other):
        return ""
    return first.name if one > other else second.name


def winners(first: Speed, second: Speed, prices: tuple[float, float]) -> dict[int, str]:
    """The winner at each batch, a power of two, that is known of both."""
    low = max(first.batches[0], second.batches[0])
    high = min(first.batches[1], second.batches[1])
    found = {1 << k: winner(first, second, prices, 1 << k) for k in range(32) if low <= 1 << k <= high}
    return {batch: name for batch, name in found.items() if name is not None}
