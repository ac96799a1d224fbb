"""The chain as CUDA C++ text for NVRTC: the same two kernels as in Triton, for GPUs and machines where Triton does not work.

A form's parts are macros, so that what is left out is not compiled. bf16 and fp16 are taken apart by hand: NVRTC has no headers.
"""

from __future__ import annotations

from utils.kernels import gelu
from utils.kernels.forms import SHIFT, Form
from utils.kernels.philox import GROUP

ROWS = 8  # rows of a program where the draw does not set them
TYPES = {"bf16": 0, "fp16": 1, "fp32": 2}

_COMMON = r"""
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

// ---- loads and stores of V contiguous elements (V * ITEM is 2, 4, 8 or 16 bytes)
template <int BYTES> struct Pack;
template <> struct Pack<2> { typedef unsigned short T; };
template <> struct Pack<4> { typedef u32 T; };
template <> struct Pack<8> { typedef uint2 T; };
template <> struct Pack<16> { typedef uint4 T; };
#if DTYPE == 2
typedef float Item;
#else
typedef unsigned short Item;
#endif
union Piece {
  Pack<V * sizeof(Item)>::T all;
  Item item[V];
};

__device__ __forceinline__ float widen(Item v) {
#if DTYPE == 0
  return __uint_as_float((u32)v << 16);
#elif DTYPE == 1
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(v));
  return f;
#else
  return v;
#endif
}

__device__ __forceinline__ Piece fetch(const Item* p) {
  Piece piece;
#if CACHE == 1
  piece.all = __ldcs((const Pack<V * sizeof(Item)>::T*)p);
#else
  piece.all = *(const Pack<V * sizeof(Item)>::T*)p;
#endif
  return piece;
}

__device__ __forceinline__ void put(Item* p, const float (&y)[V]) {
  Piece piece;
#if DTYPE == 2
  for (int i = 0; i < V; ++i) piece.item[i] = y[i];
#elif DTYPE == 1
  for (int i = 0; i < V; ++i) asm("cvt.rn.f16.f32 %0, %1;" : "=h"(piece.item[i]) : "f"(y[i]));
#elif V == 1
  const u32 bits = __float_as_uint(y[0]);
  piece.item[0] = y[0] != y[0] ? 0x7fff : (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
#else
  u32* two = (u32*)&piece;
  #pragma unroll
  for (int i = 0; i < V / 2; ++i) {
#if __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(two[i]) : "f"(y[2 * i + 1]), "f"(y[2 * i]));
#else
    u32 half[2];
    for (int j = 0; j < 2; ++j) {
      const u32 bits = __float_as_uint(y[2 * i + j]);
      half[j] = y[2 * i + j] != y[2 * i + j] ? 0x7fff : (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    }
    two[i] = half[0] | (half[1] << 16);
#endif
  }
#endif
#if CACHE == 1
  __stcs((Pack<V * sizeof(Item)>::T*)p, piece.all);
#else
  __stwb((Pack<V * sizeof(Item)>::T*)p, piece.all);  // an assignment is taken apart into stores of four bytes
#endif
}

// ---- GELU
__device__ __forceinline__ float erf_gelu(float x) { return 0.5f * x * (1.0f + erff(x * 0.7071067811865476f)); }

// max(x, 0) - t 2^p(t), t = min(|x|, REACH); a NaN comes through the sum that stands for the max below compute capability 8.0
__device__ __forceinline__ float cheap_gelu(float x) {
  const float t = fminf(fabsf(x), REACH);
  float p = TOP;
  POLYNOMIAL
  float q, positive;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(q) : "f"(p));
#if __CUDA_ARCH__ >= 800
  asm("max.NaN.f32 %0, %1, 0f00000000;" : "=f"(positive) : "f"(x));
#else
  positive = x != x ? x : fmaxf(x, 0.0f);
#endif
  return fmaf(-t, q, positive);
}

// ---- Philox4x32-10 for the counter (n, 0): each product once, 64 bits wide
__device__ __forceinline__ uint4 philox(u64 n, u64 seed) {
  u32 c0 = (u32)n, c1 = (u32)(n >> 32), c2 = 0, c3 = 0, k0 = (u32)seed, k1 = (u32)(seed >> 32);
  #pragma unroll
  for (int i = 0; i < 10; ++i) {
    u32 al, ah, bl, bh;
    asm("{ .reg .u64 t; mul.wide.u32 t, %2, 0xD2511F53; mov.b64 {%0, %1}, t; }" : "=r"(al), "=r"(ah) : "r"(c0));
    asm("{ .reg .u64 t; mul.wide.u32 t, %2, 0xCD9E8D57; mov.b64 {%0, %1}, t; }" : "=r"(bl), "=r"(bh) : "r"(c2));
    c0 = bh ^ c1 ^ k0;
    c1 = bl;
    c2 = ah ^ c3 ^ k1;
    c3 = al;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return make_uint4(c0, c1, c2, c3);
}
"""

_FLAT = r"""
// The first try: V elements a thread, and each by itself its column, its erf and its call of the generator.
extern "C" __global__ void NAME(const Item* x, const Item* bias, const Item* residual, Item* out, int rows, int columns,
                                u32 seed_low, u32 seed_high, u32, double p, double by) {
  const i64 cols = columns, n = rows * cols;
  const u64 seed = seed_low | (u64)seed_high << 32;
  const float scale = by;
  const i64 first = ((i64)blockIdx.x * blockDim.x + threadIdx.x) * V;
  if (first >= n) return;
  const Piece xs = fetch(x + first);
#if RESIDUAL
  const Piece rs = fetch(residual + first);
#endif
  float y[V];
  #pragma unroll
  for (int i = 0; i < V; ++i) {
    const i64 o = first + i;
    y[i] = widen(xs.item[i]);
#if BIAS == 1
    y[i] += widen(bias[o % cols]);
#elif BIAS == 2
    y[i] += widen(bias[o & (cols - 1)]);
#endif
#if GELU == 1
    y[i] = erf_gelu(y[i]);
#elif GELU == 2
    y[i] = cheap_gelu(y[i]);
#endif
#if DRAW == 1
    const int word = (int)philox(o, seed).x;
    y[i] = (word < 0 ? ~word : word) * 4.6566127342e-10f > (float)p ? y[i] * scale : 0.0f;
#endif
#if RESIDUAL
    y[i] += widen(rs.item[i]);
#endif
  }
  put(out + first, y);
}
"""

_ROWS = r"""
// A thread walks down ROWS rows of its V columns; with DRAW 3 (4 rows) or 4 (8 rows) it spends every bit of its calls.
extern "C" __global__ void __launch_bounds__(THREADS) NAME(const Item* x, const Item* bias, const Item* residual, Item* out,
                                                           int n_rows, int columns, u32 seed_low, u32 seed_high, u32 threshold,
                                                           double, double by) {
  const i64 rows = n_rows, cols = columns;
  const u64 seed = seed_low | (u64)seed_high << 32;
  const float scale = by;
  const i64 column = ((i64)blockIdx.x * THREADS + threadIdx.x) * V;
  if (column >= cols) return;
#if BIAS
  float b[V];
  const Piece bs = fetch(bias + column);
  #pragma unroll
  for (int i = 0; i < V; ++i) b[i] = widen(bs.item[i]);
#endif
  const i64 groups = (rows + ROWS - 1) / ROWS;
  for (i64 g = blockIdx.y; g < groups; g += gridDim.y) {
    const i64 first = g * ROWS;
    uint4 w[V];
    #pragma unroll
    for (int start = 0; start < ROWS; start += BATCH) {
      Piece xs[BATCH], rs[BATCH];
      #pragma unroll
      for (int j = 0; j < BATCH; ++j)
        if (first + start + j < rows) {
          xs[j] = fetch(x + (first + start + j) * cols + column);
#if RESIDUAL
          rs[j] = fetch(residual + (first + start + j) * cols + column);
#endif
        }
#if DRAW >= 3
      if (start == 0)
        #pragma unroll
        for (int i = 0; i < V; ++i) w[i] = philox(g * cols + column + i, seed);
#endif
      #pragma unroll
      for (int j = 0; j < BATCH; ++j) {
        const i64 row = first + start + j;
        if (row >= rows) continue;
        float y[V];
        #pragma unroll
        for (int i = 0; i < V; ++i) {
          y[i] = widen(xs[j].item[i]);
          #pragma unroll
          for (int a = 0; a < ADDS; ++a) y[i] += SHIFT;
#if BIAS
          y[i] += b[i];
#endif
#if GELU == 1
          y[i] = erf_gelu(y[i]);
#elif GELU == 2
          y[i] = cheap_gelu(y[i]);
#endif
#if DRAW == 2
          y[i] = philox(row * cols + column + i, seed).x >= threshold ? y[i] : 0.0f;
#elif DRAW == 3
          y[i] = (&w[i].x)[start + j] >= threshold ? y[i] : 0.0f;
#elif DRAW == 4
          const u32 word = (&w[i].x)[(start + j) / 2];  // the low half moved up; the high half may keep its low bits
          y[i] = ((start + j) % 2 ? word : word << 16) >= threshold ? y[i] : 0.0f;
#endif
#if DRAW && RESIDUAL
          y[i] = fmaf(y[i], scale, widen(rs[j].item[i]));
#elif DRAW
          y[i] *= scale;
#elif RESIDUAL
          y[i] += widen(rs[j].item[i]);
#endif
        }
        put(out + row * cols + column, y);
      }
    }
  }
}
"""


def source(
    form: Form, dtype: str, *, vector: int = 1, threads: int = 128, batch: int = 4, cache: bool = False, whole: bool = False
) -> tuple[str, str]:
    """(the CUDA text of the form's kernel, its name). `vector` elements a thread and row, `batch` rows loaded before the first is
    used, `cache`: loads and stores marked as streaming. ValueError for a dtype that has no kernel."""
    if dtype not in TYPES:
        raise ValueError(f"no kernel for {dtype}: there is one for {', '.join(TYPES)}")
    rows = rows_of(form)
    degree, reach = gelu.for_dtype(dtype)
    c = gelu.coefficients(degree, reach)
    steps = " ".join(f"p = fmaf(p, t, {_literal(k)});" for k in reversed(c[:-1]))
    name = "flat" if form.flat else "rows_of"
    macros = {
        "NAME": name,
        "DTYPE": TYPES[dtype],
        "V": vector,
        "ROWS": rows,
        "BATCH": min(batch, rows),
        "THREADS": threads,
        "CACHE": int(cache),
        "ADDS": form.adds,
        "SHIFT": _literal(SHIFT),
        "BIAS": {"": 0, "modulo": 1, "mask": 2, "rows": 3}[form.bias],
        "GELU": {"": 0, "erf": 1, "cheap": 2}[form.gelu],
        "DRAW": {"": 0, "rand": 1, "one": 2, "four": 3, "eight": 4}[form.draw],
        "RESIDUAL": int(form.residual),
        "REACH": _literal(reach),
        "TOP": _literal(c[-1]),
        "POLYNOMIAL": steps,
    }
    text = "".join(f"#define {key} {value}\n" for key, value in macros.items())
    return text + _COMMON + (_FLAT if form.flat else _ROWS), name


def rows_of(form: Form) -> int:
    """Rows that one program walks down."""
    return GROUP[form.draw] if form.draw in ("four", "eight") else ROWS


def _literal(value: float) -> str:
    return f"{value!r}f"
