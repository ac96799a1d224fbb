// The loops of roofline.cpp for one vector width; included once for each, inside a namespace of its own.
//
// Before it: VEC (bytes of a vector), FMA(x, a, b) = x * a + b, STREAM(p, x): a store that goes past the caches.
// Eight or twelve registers are written out by hand, so that no compiler's unrolling decides about a peak.

typedef float Floats __attribute__((vector_size(VEC), may_alias));
typedef uint32_t Words __attribute__((vector_size(VEC), may_alias));
constexpr int LANES = VEC / 4;

template <bool streaming>
inline void put(float* p, Floats x) {
  if constexpr (streaming) {
    STREAM(p, x);
  } else {
    *reinterpret_cast<Floats*>(p) = x;
  }
}

inline Floats get(const float* p) { return *reinterpret_cast<const Floats*>(p); }

#define FOUR(F) F(0) F(1) F(2) F(3)
#define EIGHT(F) FOUR(F) F(4) F(5) F(6) F(7)
#define TWELVE(F) EIGHT(F) F(8) F(9) F(10) F(11)

void read(const Slice& s) {
  Floats t0 = {}, t1 = {}, t2 = {}, t3 = {}, t4 = {}, t5 = {}, t6 = {}, t7 = {};
  for (int64_t i = 0; i < s.n; i += 8 * LANES) {
#define STEP(j) t##j += get(s.a + i + j * LANES);
    EIGHT(STEP)
#undef STEP
  }
  keep(t0 + t1 + t2 + t3 + t4 + t5 + t6 + t7);
}

// What each element of c becomes of a and b.
struct Fill { static Floats of(const float*, const float*, int64_t, Floats s) { return s; } };
struct Copy { static Floats of(const float* a, const float*, int64_t i, Floats) { return get(a + i); } };
struct Add { static Floats of(const float* a, const float* b, int64_t i, Floats) { return get(a + i) + get(b + i); } };
struct Triad { static Floats of(const float* a, const float* b, int64_t i, Floats s) { return get(a + i) + s * get(b + i); } };

template <class What, bool streaming>
void stream(const Slice& s) {
  const Floats factor = Floats{} + 0.5f;
  for (int64_t i = 0; i < s.n; i += 4 * LANES) {
#define STEP(j) put<streaming>(s.c + i + j * LANES, What::of(s.a, s.b, i + j * LANES, factor));
    FOUR(STEP)
#undef STEP
  }
  if constexpr (streaming) fence();
}

// k multiply-adds an element, in place: 8 bytes of memory and 2 k FLOP.
void fma_chain(const Slice& s) {
  const Floats a = Floats{} + 0.999f, b = Floats{} + 0.001f;
  for (int64_t i = 0; i < s.n; i += 8 * LANES) {
#define STEP(j) Floats x##j = get(s.c + i + j * LANES);
    EIGHT(STEP)
#undef STEP
    for (int64_t k = 0; k < s.k; ++k) {
#define STEP(j) x##j = FMA(x##j, a, b);
      EIGHT(STEP)
#undef STEP
    }
#define STEP(j) put<false>(s.c + i + j * LANES, x##j);
    EIGHT(STEP)
#undef STEP
  }
}

// k integer operations an element (k even: an addition and an exclusive or, by turns), in place; no FLOP at all.
void integer_chain(const Slice& s) {
  const Words a = Words{} + 0x9e3779b9u, b = Words{} + 0x85ebca6bu;
  for (int64_t i = 0; i < s.n; i += 8 * LANES) {
#define STEP(j) Words x##j = reinterpret_cast<Words>(get(s.c + i + j * LANES));
    EIGHT(STEP)
#undef STEP
    for (int64_t k = 0; k < s.k; k += 2) {
#define STEP(j) x##j = (x##j + a) ^ b;
      EIGHT(STEP)
#undef STEP
    }
#define STEP(j) put<false>(s.c + i + j * LANES, reinterpret_cast<Floats>(x##j));
    EIGHT(STEP)
#undef STEP
  }
}

// k rounds of twelve multiply-adds in registers: 24 LANES FLOP a round.
void fma_registers(const Slice& s) {
  const Floats a = Floats{} + 0.999f, b = Floats{} + 0.001f;
#define STEP(j) Floats x##j = Floats{} + (0.1f * j);
  TWELVE(STEP)
#undef STEP
  for (int64_t k = 0; k < s.k; ++k) {
#define STEP(j) x##j = FMA(x##j, a, b);
    TWELVE(STEP)
#undef STEP
  }
#define STEP(j) keep(x##j);
  TWELVE(STEP)
#undef STEP
}

// k rounds of twelve additions and twelve exclusive ors in registers: 24 LANES integer operations a round.
void integer_registers(const Slice& s) {
  const Words a = Words{} + 0x9e3779b9u, b = Words{} + 0x85ebca6bu;
#define STEP(j) Words x##j = Words{} + (uint32_t)j;
  TWELVE(STEP)
#undef STEP
  for (int64_t k = 0; k < s.k; ++k) {
#define STEP(j) x##j = (x##j + a) ^ b;
    TWELVE(STEP)
#undef STEP
  }
#define STEP(j) keep(x##j);
  TWELVE(STEP)
#undef STEP
}

const Loops loops = {LANES, read, stream<Fill, false>, stream<Fill, true>, stream<Copy, false>, stream<Copy, true>,
                     stream<Add, false>, stream<Add, true>, stream<Triad, false>, stream<Triad, true>, fma_chain, integer_chain,
                     fma_registers, integer_registers};

#undef FOUR
#undef EIGHT
#undef TWELVE
