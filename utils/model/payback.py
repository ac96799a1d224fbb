"""When a cure that is paid once has paid: seconds of capture or of compiling over what each step saves."""

from __future__ import annotations

import math


def steps(once_s: float, before_ns: float, after_ns: float, *, times: int = 1) -> int | None:
    """The first whole number of steps after which `once_s` seconds, paid `times` times, are earned back; None when never.

    A step took `before_ns` and takes `after_ns` from then on. Raises ValueError for a negative price.
    """
    if min(once_s, before_ns, after_ns) < 0 or times < 1:
        raise ValueError(f"no price is negative, and all is paid at least once: {(once_s, before_ns, after_ns, times)}")
    saving = before_ns - after_ns
    return math.ceil(times * once_s * 1e9 / saving) if saving > 0 else None


def total_s(count: float, once_s: float, step_ns: float, *, times: int = 1) -> float:
    """Seconds that `count` steps take, with what is paid before them."""
    return times * once_s + 1e-9 * count * step_ns
