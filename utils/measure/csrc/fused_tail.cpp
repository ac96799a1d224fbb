// The fused chain on a CPU: vectors, threads, stores past the caches; the same arithmetic and the same draws as on a GPU.
//
// y = residual + dropout(gelu(x + shift + … + bias)), fp32, rows x cols, contiguous. Eight rows at a time, two cache lines
// of each: lines are written whole, and the eight rows spend all the bits of one call of the generator. No torch header.
#include <cstdint>
#include <cstring>
#include <utility>

#include "together.h"

namespace {
constexpr int ROWS = 8, COLUMNS = 32, TERMS = 10; // rows of a group, columns of a line (two cache lines), coefficients

constexpr int AHEAD = 512; // floats that a line's loads are asked for in advance
constexpr int STRIP = 1024; // columns whose draws are made before the rows are walked; their words stay in a cache
#define ALWAYS __attribute__((always_inline)) inline

// As `Job` of utils/kernels/cpu_door.py.
struct Job {
  const float* x;
  const float* bias;
  const float* residual;
  float* out;
  int64_t rows, cols;
  int64_t adds;
  float shift, scale, reach;
  int32_t gelu;
  float p[TERMS]; // lowest first
  uint64_t seed;
  uint32_t threshold; // draws of 16 bits below it are dropped
  int32_t drop, streaming, threads;
};

using Walk = void (*)(const Job&, int64_t first, int64_t last); // groups of rows

#define VEC 16
namespace narrow {
#if defined(__x86_64__)
#define FMA(x, a, b) ((x) * (a) + (b))
#define STREAM(p, x) _mm_stream_ps(p, (__m128)(x))
#define MIN(a, b) (Floats) _mm_min_ps((__m128)(a), (__m128)(b))
#define MAX(a, b) (Floats) _mm_max_ps((__m128)(a), (__m128)(b))
#define WIDE(a, b) (Longs) _mm_mul_epu32((__m128i)(a), (__m128i)(b))
#else
#define FMA(x, a, b) ((x) * (a) + (b))
#define STREAM(p, x) (*reinterpret_cast<Floats*>(p) = (x))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define WIDE(a, b) (((Longs)(a) & 0xffffffffull) * ((Longs)(b) & 0xffffffffull))
#endif
#include "fused_tail_loops.h"
#undef FMA
#undef STREAM
#undef WIDE
#undef MIN
#undef MAX
} // namespace narrow
#undef VEC

#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
#define VEC 32
#define FMA(x, a, b) (Floats) _mm256_fmadd_ps((__m256)(x), (__m256)(a), (__m256)(b))
#define STREAM(p, x) _mm256_stream_ps(p, (__m256)(x))
#define MIN(a, b) (Floats) _mm256_min_ps((__m256)(a), (__m256)(b))
#define MAX(a, b) (Floats) _mm256_max_ps((__m256)(a), (__m256)(b))
#define WIDE(a, b) (Longs) _mm256_mul_epu32((__m256i)(a), (__m256i)(b))
namespace wide {
#include "fused_tail_loops.h"
} // namespace wide
#undef VEC
#undef FMA
#undef STREAM
#undef WIDE
#undef MIN
#undef MAX
#if defined(__clang__)
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx512f"))), apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f")
#endif
#define VEC 64
#define FMA(x, a, b) (Floats) _mm512_fmadd_ps((__m512)(x), (__m512)(a), (__m512)(b))
#define STREAM(p, x) _mm512_stream_ps(p, (__m512)(x))
#define MIN(a, b) (Floats) _mm512_min_ps((__m512)(a), (__m512)(b))
#define MAX(a, b) (Floats) _mm512_max_ps((__m512)(a), (__m512)(b))
#define WIDE(a, b) (Longs) _mm512_mul_epu32((__m512i)(a), (__m512i)(b))
namespace widest {
#include "fused_tail_loops.h"
} // namespace widest
#undef VEC
#undef FMA
#undef STREAM
#undef WIDE
#undef MIN
#undef MAX
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

Walk walk_of(const Job& job) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return widest::walk_of(job);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return wide::walk_of(job);
#endif
  return narrow::walk_of(job);
}

int words_of(uint64_t first, uint64_t seed, uint32_t* out) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return widest::words_of(first, seed, out);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return wide::words_of(first, seed, out);
#endif
  return narrow::words_of(first, seed, out);
}
} // namespace

extern "C" {
// The generator's words for the counters from `first` on, 64 of them at most, in four rows; how many counters that were.
int tail_words(uint64_t first, uint64_t seed, uint32_t* out) { return words_of(first, seed, out); }

// Seconds of `times` passes of the job, from the threads' common start to the last one's end; -1 for a job that cannot be run.
double tail_run(const Job* given, int64_t times) {
  Job job = *given;
  const int n = job.threads;
  if (n < 1 || times < 1 || job.rows < 0 || job.cols < 0 || job.adds < 0) return -1;
  // a store past the caches needs whole aligned vectors
  if (job.cols % COLUMNS || reinterpret_cast<uintptr_t>(job.out) % 64) job.streaming = 0;
  const Walk walk = walk_of(job);
  const int64_t groups = (job.rows + ROWS - 1) / ROWS;
  return together(n, [&](int i) {
    for (int64_t t = 0; t < times; ++t) walk(job, groups * i / n, groups * (i + 1) / n);
  });
}
}
