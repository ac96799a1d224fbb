"""glibc's malloc: pinned, so that two prices are not told apart by its history; and the page faults of this process.

A large block comes fresh from the kernel, page by page on first touch, unless malloc kept one; and from which size on a block is
"large" depends on what was freed before (its threshold follows). Pinned, no block is given back and every later one is warm.
"""

from __future__ import annotations

import ctypes
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
MOST_KEPT, LARGEST = 2**31 - 1, 1 << 30


def pin() -> bool:
    """From now on this process keeps what it frees: True where glibc is the allocator and took both settings.

    It cannot be undone within the process. Tensors above 1 GiB still come fresh.
    """
    return _set((M_MMAP_THRESHOLD, LARGEST), (M_TRIM_THRESHOLD, MOST_KEPT))


def give_back(above: int) -> bool:
    """From now on every block of more than `above` bytes is mapped for itself and unmapped when it is freed: the address space
    then holds what lives, and no more. True where glibc took the setting; it cannot be undone within the process."""
    return _set((M_MMAP_THRESHOLD, above))


def _set(*settings: tuple[int, int]) -> bool:
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return all([bool(mallopt(name, value)) for name, value in settings])


def page_faults() -> int:
    """Pages that this process has touched for the first time (minor faults) since it began."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
