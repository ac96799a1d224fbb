"""How many threads torch's ops use on the CPU: set for a measurement, and put back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager


@contextmanager
def torch_threads(many: int) -> Iterator[None]:
    """Inside, torch's ops use so many threads; afterwards they use what they used before."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(many)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def one_torch_thread() -> AbstractContextManager[None]:
    """Inside, torch's ops stay on the thread that calls them.

    An op on two threads waits for both: where a neighbour had one of the cores, one took 8 ms instead of 50 µs.
    """
    return torch_threads(1)
