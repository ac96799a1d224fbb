"""How many threads torch's ops use on the CPU: set to one for a measurement, and put back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Inside, torch's ops stay on the thread that calls them; afterwards they use what they used before.

    An op on two threads waits for both: where a neighbour had one of the cores, one took 8 ms instead of 50 µs.
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
