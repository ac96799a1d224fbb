// The ceilings of a CPU: streams past memory and the caches, multiply-adds and integer work in registers, instruction issue.
//
// Every loop runs on several threads, each on its own slice, from a common start to the last one's end; seconds come back.
// The widest vectors of this CPU are chosen when the unit is loaded, whatever the compiler's own target is. No torch header.
#include <cstdint>
#include <vector>

#include "together.h"

namespace {
struct Slice {
  const float* a;
  const float* b;
  float* c;
  int64_t n; // elements; a multiple of WHOLE
  int64_t k; // operations an element, or rounds in registers
};
using Loop = void (*)(const Slice&);
constexpr int64_t WHOLE = 128; // elements: eight vectors of the widest kind

// The order is the `kind` of roof_run.
struct Loops {
  int lanes;
  Loop kinds[13];
  template <class... L>
  constexpr Loops(int lanes, L... l) : lanes(lanes), kinds{l...} {}
};

template <class T>
inline void keep(const T& value) {
  asm volatile("" : : "g"(&value) : "memory");
}

// Twelve results of an unrolled loop are told apart from dead code by `keep`, which takes an address: outside the loops only.
#define VEC 16
namespace narrow {
#if defined(__x86_64__)
#define FMA(x, a, b) ((x) * (a) + (b))
#define STREAM(p, x) _mm_stream_ps(p, (__m128)(x))
#else
#define FMA(x, a, b) ((x) * (a) + (b))
#if defined(__clang__)
#define STREAM(p, x) __builtin_nontemporal_store(x, reinterpret_cast<Floats*>(p))
#else
#define STREAM(p, x) (*reinterpret_cast<Floats*>(p) = (x))
#endif
#endif
#include "roofline_loops.h"
#undef FMA
#undef STREAM
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
#define FMA(x, a, b) _mm256_fmadd_ps((__m256)(x), (__m256)(a), (__m256)(b))
#define STREAM(p, x) _mm256_stream_ps(p, (__m256)(x))
namespace wide {
#include "roofline_loops.h"
} // namespace wide
#undef VEC
#undef FMA
#undef STREAM
#if defined(__clang__)
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx512f"))), apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f")
#endif
#define VEC 64
#define FMA(x, a, b) _mm512_fmadd_ps((__m512)(x), (__m512)(a), (__m512)(b))
#define STREAM(p, x) _mm512_stream_ps(p, (__m512)(x))
namespace widest {
#include "roofline_loops.h"
} // namespace widest
#undef VEC
#undef FMA
#undef STREAM
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

const Loops& best() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return widest::loops;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return wide::loops;
#endif
  return narrow::loops;
}

// k rounds of 48 additions that depend on nothing but themselves, four of integers for two of vectors, and the loop's own two.
void issue(const Slice& s) {
  int64_t k = s.k;
#if defined(__x86_64__)
  asm volatile(
      "1:\n\t.rept 4\n\t"
      "addq %%rax, %%rax\n\taddq %%rcx, %%rcx\n\tpaddd %%xmm0, %%xmm0\n\taddq %%rdx, %%rdx\n\taddq %%rsi, %%rsi\n\tpaddd %%xmm1, %%xmm1\n\t"
      "addq %%r8, %%r8\n\taddq %%r9, %%r9\n\tpaddd %%xmm2, %%xmm2\n\taddq %%r10, %%r10\n\taddq %%r11, %%r11\n\tpaddd %%xmm3, %%xmm3\n\t"
      ".endr\n\tdecq %0\n\tjnz 1b"
      : "+D"(k) : : "cc", "rax", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "xmm0", "xmm1", "xmm2", "xmm3");
#elif defined(__aarch64__)
  asm volatile(
      "1:\n\t.rept 4\n\t"
      "add x9, x9, x9\n\tadd x10, x10, x10\n\tadd v0.4s, v0.4s, v0.4s\n\tadd x11, x11, x11\n\tadd x12, x12, x12\n\tadd v1.4s, v1.4s, v1.4s\n\t"
      "add x13, x13, x13\n\tadd x14, x14, x14\n\tadd v2.4s, v2.4s, v2.4s\n\tadd x15, x15, x15\n\tadd x16, x16, x16\n\tadd v3.4s, v3.4s, v3.4s\n\t"
      ".endr\n\tsubs %0, %0, #1\n\tb.ne 1b"
      : "+r"(k) : : "cc", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "v0", "v1", "v2", "v3");
#endif
}

// k rounds of 64 additions, each waiting for the one before: a cycle each on every CPU that this unit knows.
void chain(const Slice& s) {
  int64_t k = s.k, x = 1, y = 3;
#if defined(__x86_64__)
  asm volatile("1:\n\t.rept 64\n\taddq %2, %1\n\t.endr\n\tdecq %0\n\tjnz 1b" : "+r"(k), "+r"(x) : "r"(y) : "cc");
#elif defined(__aarch64__)
  asm volatile("1:\n\t.rept 64\n\tadd %1, %1, %2\n\t.endr\n\tsubs %0, %0, #1\n\tb.ne 1b" : "+r"(k), "+r"(x) : "r"(y) : "cc");
#endif
  keep(x);
}

// Seconds of `times` runs of each thread's own slice.
double on_threads(Loop loop, const std::vector<Slice>& slices, int64_t times) {
  return together(static_cast<int>(slices.size()), [&](int i) {
    for (int64_t t = 0; t < times; ++t) loop(slices[i]);
  });
}
} // namespace

extern "C" {
// Floats in a vector of the loops that run here.
int roof_lanes() { return best().lanes; }

// 1 where the issue and clock loops are written for this CPU.
int roof_counts_instructions() {
#if defined(__x86_64__) || defined(__aarch64__)
  return 1;
#else
  return 0;
#endif
}

// 1 where stores past the caches are stores past the caches.
int roof_streams() {
#if defined(__x86_64__) || defined(__clang__)
  return 1;
#else
  return 0;
#endif
}

// Seconds of `times` passes of loop `kind` (see Loops) over n elements, shared out among `threads`; -1 for what cannot be run.
double roof_run(int kind, const float* a, const float* b, float* c, int64_t n, int64_t k, int threads, int64_t times) {
  if (kind < 0 || kind >= 13 || threads < 1 || n % (WHOLE * threads) || times < 1) return -1;
  const int64_t each = n / threads;
  std::vector<Slice> slices;
  for (int i = 0; i < threads; ++i) slices.push_back({a + i * each, b + i * each, c + i * each, each, k});
  return on_threads(best().kinds[kind], slices, times);
}

// Seconds of k rounds on each of `threads`: what = 0 issue (50 instructions a round), 1 dependent additions (64 cycles a round).
double roof_rounds(int what, int64_t k, int threads) {
  if (what < 0 || what > 1 || threads < 1 || k < 1 || !roof_counts_instructions()) return -1;
  return on_threads(what ? chain : issue, std::vector<Slice>(threads, Slice{nullptr, nullptr, nullptr, 0, k}), 1);
}
}
