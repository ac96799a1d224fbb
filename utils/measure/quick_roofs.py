"""The roofs of this machine in a few seconds, for measurements that only need to know what is above them; once a process
and number of threads."""

from __future__ import annotations

from functools import cache

from utils.measure.bandwidth import bandwidth
from utils.measure.either_clock import threads
from utils.measure.engines import engines
from utils.measure.gemm_peak import gemm
from utils.measure.placed_ops import usual_dtype


def quick_roofs(device: str, dtype: str | None = None) -> dict[str, float]:
    """{"gbps": GB/s, "gemm_<dtype>" (left out: the device's usual one) and, where loops of our own can be built, "vector_fp32":
    1e12 FLOP/s}, on as many threads as torch has now."""
    return dict(_found(device, dtype or usual_dtype(device), threads()))


@cache
def _found(device: str, dtype: str, on_threads: int) -> dict[str, float]:
    roofs = {"gbps": bandwidth(device, quick=True)["numbers"]["gbps"]}
    found = gemm(device, quick=True, dtypes=(dtype,))["numbers"]
    roofs |= {name: value for name, value in found.items() if name.startswith("gemm_")}
    vector = engines(device, quick=True)["numbers"].get("vector_fp32")
    return roofs | ({"vector_fp32": vector} if vector else {})
