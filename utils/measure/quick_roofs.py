"""The roofs of this machine in a few seconds, for measurements that only need to know what is above them; once a process."""

from __future__ import annotations

from functools import cache

from utils.measure.bandwidth import bandwidth
from utils.measure.engines import engines
from utils.measure.gemm_peak import gemm
from utils.measure.placed_ops import usual_dtype


@cache
def quick_roofs(device: str) -> dict[str, float]:
    """{"gbps": GB/s, "gemm_<usual dtype>" and, where loops of our own can be built, "vector_fp32": 1e12 FLOP/s}."""
    roofs = {"gbps": bandwidth(device, quick=True)["numbers"]["gbps"]}
    found = gemm(device, quick=True, dtypes=(usual_dtype(device),))["numbers"]
    roofs |= {name: value for name, value in found.items() if name.startswith("gemm_")}
    vector = engines(device, quick=True)["numbers"].get("vector_fp32")
    return roofs | ({"vector_fp32": vector} if vector else {})
