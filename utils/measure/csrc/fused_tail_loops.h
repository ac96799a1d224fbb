// The walk of fused_tail.cpp for one vector width; included once for each, inside a namespace of its own.
//
// Before it: VEC (bytes of a vector), FMA(x, a, b) = x * a + b, STREAM(p, x): a store that goes past the caches, WIDE(a, b): the
// 64-bit products of the even 32-bit lanes; MIN, MAX (the second number where one of the two is NaN).

typedef float Floats __attribute__((vector_size(VEC), may_alias));
typedef uint32_t Words __attribute__((vector_size(VEC), may_alias));
typedef uint64_t Longs __attribute__((vector_size(VEC), may_alias));
typedef float Loose __attribute__((vector_size(VEC), may_alias, aligned(4)));
constexpr int LANES = VEC / 4, PIECES = COLUMNS / LANES;

// A job's numbers, each in all lanes, where the multiply-adds can take them from the first cache.
struct Constants {
  Floats p[TERMS], shift, scale, reach;
  Words threshold;
  explicit Constants(const Job& job)
      : shift(Floats{} + job.shift), scale(Floats{} + job.scale), reach(Floats{} + job.reach), threshold(Words{} + job.threshold) {
    for (int k = 0; k < TERMS; ++k) p[k] = Floats{} + job.p[k];
  }
};

// A line of vectors at once, and each polynomial as an even and an odd one: a multiply-add waits for the one before it, so that
// many chains must be under way together. The loops over a line's pieces are unrolled by force: their arrays are then registers.
#define PIECE _Pragma("GCC unroll 16") for (int i = 0; i < PIECES; ++i)

// p becomes 2^p, for p in [-120, 0]: the whole part goes into the exponent, the rest through the minimax polynomial of degree five
// of 2^f on [-1/2, 1/2] (to 8 parts in 10^8).
ALWAYS void exp2_of(Floats (&p)[PIECES]) {
  const Floats magic = Floats{} + 12582912.0f; // 1.5 * 2^23: adding it rounds to a whole number, in the low bits
  Floats z[PIECES], even[PIECES], odd[PIECES];
  PIECE {
    z[i] = p[i] + magic;
    p[i] -= z[i] - magic;
    const Floats square = p[i] * p[i];
    even[i] = FMA(Floats{} + 9.675541893e-3f, square, Floats{} + 2.402212024e-1f);
    odd[i] = FMA(Floats{} + 1.327647245e-3f, square, Floats{} + 5.550713092e-2f);
    even[i] = FMA(even[i], square, Floats{} + 1.000000119f);
    odd[i] = FMA(odd[i], square, Floats{} + 6.931469440e-1f);
  }
  PIECE p[i] = (Floats)((Words)FMA(odd[i], p[i], even[i]) + ((Words)z[i] << 23));
}

// max(x, 0) - t 2^p(t), t = min(|x|, reach): see utils/kernels/gelu.py. MAX gives its second number where one is NaN.
ALWAYS void gelu(Floats (&x)[PIECES], const Constants& is) {
  static_assert(TERMS % 2 == 0, "an even and an odd polynomial of as many terms");
  const Floats zero = {};
  Floats t[PIECES], square[PIECES], even[PIECES], odd[PIECES];
  PIECE {
    t[i] = MIN((Floats)((Words)x[i] & 0x7fffffffu), is.reach);
    square[i] = t[i] * t[i];
    odd[i] = FMA(is.p[TERMS - 1], square[i], is.p[TERMS - 3]);
    even[i] = FMA(is.p[TERMS - 2], square[i], is.p[TERMS - 4]);
  }
#pragma GCC unroll 16
  for (int k = TERMS - 5; k >= 1; k -= 2) {
    PIECE odd[i] = FMA(odd[i], square[i], is.p[k]);
    PIECE even[i] = FMA(even[i], square[i], is.p[k - 1]);
  }
  PIECE odd[i] = FMA(odd[i], t[i], even[i]);
  exp2_of(odd);
  PIECE x[i] = FMA(zero - t[i], odd[i], MAX(zero, x[i]));
}

// The high and the low halves of the products of all lanes with m.
ALWAYS void product(Words a, uint32_t m, Words& high, Words& low) {
  const Words by = Words{} + m;
  const Longs even = WIDE(a, by), odd = WIDE((Longs)a >> 32, by);
  low = (Words)((even & 0xffffffffull) | (odd << 32));
  high = (Words)((even >> 32) | (odd & 0xffffffff00000000ull));
}

// Four words of Philox4x32-10 for the counters first, first + 1, …, one a lane.
inline void philox(uint64_t first, uint64_t seed, Words (&w)[4]) {
  const Words low = Words{} + (uint32_t)first;
  Words lane;
  for (int i = 0; i < LANES; ++i) lane[i] = i;
  Words c0 = low + lane;
  Words c1 = (uint32_t)(first >> 32) - (Words)(c0 < low); // a lane that wrapped around compares as -1
  Words c2 = {}, c3 = {}, ah, al, bh, bl;
  uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    product(c0, 0xD2511F53u, ah, al);
    product(c2, 0xCD9E8D57u, bh, bl);
    c0 = bh ^ c1 ^ k0;
    c1 = bl;
    c2 = ah ^ c3 ^ k1;
    c3 = al;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  w[0] = c0, w[1] = c1, w[2] = c2, w[3] = c3;
}

ALWAYS void fetch(Floats (&to)[PIECES], const float* from) {
  PIECE to[i] = *reinterpret_cast<const Loose*>(from + i * LANES);
}

// One line: COLUMNS columns from x, bias and r (each read right where it is used: there are few registers) to out. `w` are the words
// of its columns, `j` the row's place in its group.
template <bool BIAS, bool GELU, bool DROP, bool RESIDUAL, bool STREAMING>
ALWAYS void values(
    const Job& job, const Constants& is, const float* from, const float* bias, const float* residual, float* out,
    const Words (&w)[PIECES][4], int j) {
  Floats x[PIECES], r[PIECES];
  // The arithmetic of a line fills the core's window, so that it would see the next loads too late: they are asked for here.
  for (int i = 0; i < COLUMNS; i += 16) {
    __builtin_prefetch(from + AHEAD + i, 0, 0);
    if constexpr (RESIDUAL) __builtin_prefetch(residual + AHEAD + i, 0, 0);
  }
  fetch(x, from);
  for (int64_t k = 0; k < job.adds; ++k) PIECE x[i] += is.shift;
  if constexpr (BIAS) {
    fetch(r, bias);
    PIECE x[i] += r[i];
  }
  if constexpr (GELU) gelu(x, is);
  if constexpr (RESIDUAL) fetch(r, residual);
  if constexpr (DROP) {
    PIECE {
      const Words draws = j % 2 ? w[i][j / 2] >> 16 : w[i][j / 2] & 0xffffu;
      x[i] = (Floats)((Words)x[i] & ~(Words)(draws < is.threshold));
      x[i] = RESIDUAL ? FMA(x[i], is.scale, r[i]) : x[i] * is.scale;
    }
  } else if constexpr (RESIDUAL) {
    PIECE x[i] += r[i];
  }
  PIECE {
    if constexpr (STREAMING) {
      STREAM(out + i * LANES, x[i]);
    } else {
      *reinterpret_cast<Loose*>(out + i * LANES) = x[i];
    }
  }
}

// The line of a row that begins at column c, or the fewer columns that are left.
template <bool BIAS, bool GELU, bool DROP, bool RESIDUAL, bool STREAMING>
inline void line(const Job& job, const Constants& is, int64_t row, int64_t c, const Words (&w)[PIECES][4], int j) {
  const int64_t at = row * job.cols + c, left = job.cols - c;
  if (left >= COLUMNS) {
    values<BIAS, GELU, DROP, RESIDUAL, STREAMING>(job, is, job.x + at, job.bias + c, job.residual + at, job.out + at, w, j);
  } else {
    float some[4][COLUMNS] = {};
    std::memcpy(some[0], job.x + at, left * sizeof(float));
    if constexpr (BIAS) std::memcpy(some[1], job.bias + c, left * sizeof(float));
    if constexpr (RESIDUAL) std::memcpy(some[2], job.residual + at, left * sizeof(float));
    values<BIAS, GELU, DROP, RESIDUAL, false>(job, is, some[0], some[1], some[2], some[3], w, j);
    std::memcpy(job.out + at, some[3], left * sizeof(float));
  }
}

// The words of as many counters as a vector has lanes, word by word; how many that is.
int words_of(uint64_t first, uint64_t seed, uint32_t* out) {
  Words w[4];
  philox(first, seed, w);
  std::memcpy(out, w, sizeof w);
  return LANES;
}

template <bool BIAS, bool GELU, bool DROP, bool RESIDUAL, bool STREAMING>
void walk(const Job& given, int64_t first, int64_t last) {
  constexpr auto one = line<BIAS, GELU, DROP, RESIDUAL, STREAMING>;
  const Job job = given; // a copy that no store can change, as far as the compiler knows
  const Constants is(job);
  const int64_t cols = job.cols;
  Words w[DROP ? STRIP / COLUMNS : 1][PIECES][4] = {};
  for (int64_t g = first; g < last; ++g) {
    const int64_t top = g * ROWS, end = job.rows < top + ROWS ? job.rows : top + ROWS;
    if constexpr (DROP) { // rows share their draws: those of a strip are made first, so that memory still meets row after row
      for (int64_t left = 0; left < cols; left += STRIP) {
        const int64_t right = cols < left + STRIP ? cols : left + STRIP;
        for (int64_t c = left; c < right; c += COLUMNS)
          for (int i = 0; i < PIECES; ++i) philox((uint64_t)g * cols + c + i * LANES, job.seed, w[(c - left) / COLUMNS][i]);
        for (int64_t row = top; row < end; ++row)
          for (int64_t c = left; c < right; c += COLUMNS) one(job, is, row, c, w[(c - left) / COLUMNS], int(row - top));
      }
    } else {
      for (int64_t row = top; row < end; ++row)
        for (int64_t c = 0; c < cols; c += COLUMNS) one(job, is, row, c, w[0], 0);
    }
  }
  if constexpr (STREAMING) fence();
}

// The walk with the parts of a job: one bit a part, so that what is left out is not compiled in.
template <int PARTS>
constexpr Walk with_parts() {
  return walk<bool(PARTS & 1), bool(PARTS & 2), bool(PARTS & 4), bool(PARTS & 8), bool(PARTS & 16)>;
}

template <int... I>
inline Walk pick(int parts, std::integer_sequence<int, I...>) {
  constexpr Walk all[] = {with_parts<I>()...};
  return all[parts];
}

inline Walk walk_of(const Job& job) {
  const int parts = (job.bias ? 1 : 0) | (job.gelu ? 2 : 0) | (job.drop ? 4 : 0) | (job.residual ? 8 : 0) | (job.streaming ? 16 : 0);
  return pick(parts, std::make_integer_sequence<int, 32>{});
}

#undef PIECE
