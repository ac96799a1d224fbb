"""CUDA kernels that find a GPU's ceilings, compiled at run time: streams, multiply-adds, integer work, both mixed, chains.

Each `Launch` knows what it moves or computes, so that its time gives a rate. Counts are of the source; that the compiler kept
them shows in the rates, which can never exceed what the device's schedulers issue.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from utils.measure import seams
from utils.measure.device_clock import MeasurementError

BLOCK = 256
PER_ROUND = 64  # operations a thread in one round of the kernels in registers: eight registers, eight times
_INDEX = "const int step = gridDim.x * blockDim.x; for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)"
_STREAMS = {  # n: vectors of four floats
    "write": "c[i] = make_float4(0.5f, 0.25f, 0.125f, 1.0f);",
    "copy": "c[i] = a[i];",
    "add": "float4 x = a[i], y = b[i]; c[i] = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);",
    "triad": "float4 x = a[i], y = b[i];"
    " c[i] = make_float4(x.x + 0.5f * y.x, x.y + 0.5f * y.y, x.z + 0.5f * y.z, x.w + 0.5f * y.w);",
}
WORDS = {"read": 1, "write": 1, "copy": 2, "add": 3, "triad": 3}
_EIGHT = range(8)
_REGISTERS = {
    # A multiply-add counts two operations in FLOP; integer additions feed each other in a ring, so that none can be left out.
    "fma": "".join(f"x{j} = fmaf(x{j}, 0.999f, 0.001f);" for j in _EIGHT),
    "integer": "".join(f"y{j} += y{(j + 1) % 8};" for j in _EIGHT),
    "mixed": "".join(f"x{j} = fmaf(x{j}, 0.999f, 0.001f); y{j} += y{(j + 1) % 4};" for j in range(4)),
}


def _stream(name: str, body: str) -> str:
    return f"""extern "C" __global__ void {name}(const float4* __restrict__ a, const float4* __restrict__ b, float4* __restrict__
    c, int n) {{
  {_INDEX} {{ {body} }}
}}"""


_READ = f"""extern "C" __global__ void read(const float4* __restrict__ a, const float4* b, float4* c, int n) {{
  float t = 0.0f;
  {_INDEX} {{ float4 x = a[i]; t += (x.x + x.y) + (x.z + x.w); }}
  if (t == -1.0f) c[0] = make_float4(t, t, t, t);
}}"""

# Several passes in one launch, past the first cache (which belongs to one SM): a set that fits the L2 stays there.
_REREAD = f"""extern "C" __global__ void reread(const float4* a, float* out, int n, int times) {{
  float t = 0.0f;
  for (int again = 0; again < times; ++again) {{
    {_INDEX} {{ float4 x = __ldcg(a + i); t += (x.x + x.y) + (x.z + x.w); }}
  }}
  if (t == -1.0f) out[0] = t;
}}"""


def _registers(name: str, body: str) -> str:
    floats = "".join(f"float x{j} = 0.1f * (threadIdx.x + {j});" for j in _EIGHT)
    words = "".join(f"unsigned y{j} = threadIdx.x + {j}u + n;" for j in _EIGHT)
    used = " + ".join(f"x{j}" for j in _EIGHT), " ^ ".join(f"y{j}" for j in _EIGHT)
    return f"""extern "C" __global__ void {name}(float* out, int n) {{
  {floats} {words}
  for (int i = 0; i < n; ++i) {{
    #pragma unroll
    for (int u = 0; u < 8; ++u) {{ {body} }}
  }}
  const float f = {used[0]};
  const unsigned w = {used[1]};
  if (f == -1.0f && w == 7u) out[0] = f;
}}"""


def _chain(name: str, k: int, integer: bool) -> str:
    """k operations an element between one load and one store of it: 8 bytes, and 2 k FLOP or k integer operations."""
    if integer:
        one = "y.{0} = (y.{0} + 0x9e3779b9u) ^ (y.{0} >> 7);"  # an addition, a shift, an exclusive or
        body = "".join(one.format(p) for p in "xyzw")
        return f"""extern "C" __global__ void {name}(uint4* a, int n) {{
  {_INDEX} {{ uint4 y = a[i];
    #pragma unroll
    for (int u = 0; u < {k // 3}; ++u) {{ {body} }}
    a[i] = y; }}
}}"""
    body = "".join(f"x.{p} = fmaf(x.{p}, 0.999f, 0.001f);" for p in "xyzw")
    return f"""extern "C" __global__ void {name}(float4* a, int n) {{
  {_INDEX} {{ float4 x = a[i];
    #pragma unroll
    for (int u = 0; u < {k}; ++u) {{ {body} }}
    a[i] = x; }}
}}"""


@cache
def compiled(source: str, name: str):
    """torch's callable for a kernel. Raises MeasurementError, in words, where it cannot be compiled."""
    try:
        return seams.cuda_kernel(source, name)
    except Exception as error:  # NVRTC, its library, the toolkit's headers: each fails in its own way
        said = " ".join(str(error).split())[:200]
        raise MeasurementError(f"the kernel {name!r} cannot be compiled at run time here: {said}") from None


@dataclass(frozen=True)
class Launch:
    """One kernel with its arguments: call it to launch it. `work`: operations of one launch (0 for a stream)."""

    kernel: Callable
    grid: int
    arguments: tuple
    work: float = 0.0

    def __call__(self) -> None:
        self.kernel(grid=(self.grid, 1, 1), block=(BLOCK, 1, 1), args=list(self.arguments))


def _sms() -> int:
    import torch

    return torch.cuda.get_device_properties(0).multi_processor_count


def stream(kind: str, a, b, c, blocks_an_sm: int = 16) -> Launch:
    """A pass over vectors of fp32: "read", "write", "copy", "add" or "triad"; n must be a multiple of 4."""
    n = (c if a is None else a).numel() // 4
    source = _READ if kind == "read" else _stream(kind, _STREAMS[kind])
    grid = max(1, min(-(-n // BLOCK), _sms() * blocks_an_sm))
    given = [c if t is None else t for t in (a, b, c)]
    return Launch(compiled(source, kind), grid, (*given, n))


def reread(a, times: int) -> Launch:
    """`times` passes of reading over the vector in one launch."""
    n = a.numel() // 4
    grid = max(1, min(-(-n // BLOCK), _sms() * 8))
    return Launch(compiled(_REREAD, "reread"), grid, (a, a, n, times))


def registers(kind: str, rounds: int, out) -> Launch:
    """Rounds of work in registers on all SMs: "fma" (128 FLOP a thread and round), "integer", "mixed" (64 instructions each)."""
    grid = _sms() * 8
    per = PER_ROUND * (2 if kind == "fma" else 1)
    name = f"registers_{kind}"
    return Launch(compiled(_registers(name, _REGISTERS[kind]), name), grid, (out, rounds), float(per) * rounds * grid * BLOCK)


def chain(k: int, a, integer: bool = False) -> Launch:
    """k multiply-adds, or k integer operations (k a multiple of 3), on each element of `a`, in place."""
    name = f"chain_{'integer' if integer else 'fma'}_{k}"
    n = a.numel() // 4
    grid = max(1, min(-(-n // BLOCK), _sms() * 16))
    return Launch(compiled(_chain(name, k, integer), name), grid, (a, n), float(a.numel()) * k * (1 if integer else 2))
