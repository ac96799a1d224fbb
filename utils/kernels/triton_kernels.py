"""The chain as Triton kernels: the flat first try, and the kernel of rows whose parts can be taken out one by one.

Importing this needs Triton; `utils.kernels.triton_door` is the way in that says in words what is missing. With
TRITON_INTERPRET=1 in the environment before the import the same text runs on a CPU, slowly: for correctness, never for speed.
"""

import triton
import triton.language as tl

# Literals of the kernels, as Triton wants them. Philox's are Random123's.
_ROUND_A: tl.constexpr = tl.constexpr(0xD2511F53)
_ROUND_B: tl.constexpr = tl.constexpr(0xCD9E8D57)
_KEY_A: tl.constexpr = tl.constexpr(0x9E3779B9)
_KEY_B: tl.constexpr = tl.constexpr(0xBB67AE85)
_SHIFT: tl.constexpr = tl.constexpr(0.25)  # forms.SHIFT


@triton.jit
def erf_gelu(x):
    """GELU as it is written down; erff is a library function of some twenty instructions."""
    return 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))


@triton.jit
def cheap_gelu(x, C: tl.constexpr, REACH: tl.constexpr):
    """max(x, 0) - t 2^p(t), t = min(|x|, REACH), p's coefficients in C, lowest first: see utils.kernels.gelu. A NaN comes through
    the max."""
    t = tl.minimum(tl.abs(x), REACH)
    p = t * C[len(C) - 1] + C[len(C) - 2]
    for k in tl.static_range(3, len(C) + 1):
        p = p * t + C[len(C) - k]
    return tl.maximum(x, 0.0, propagate_nan=tl.PropagateNan.ALL) - t * tl.exp2(p)


@triton.jit
def philox(low, high, seed):
    """Four words of Philox4x32-10 for the counter (low, high, 0, 0). Each product is taken once, 64 bits wide: its two halves are
    both used, where tl.philox asks for the high and the low half in two multiplications."""
    c0 = low
    c1 = high
    c2 = low * 0
    c3 = c2
    wide = tl.full((), seed, tl.uint64)  # a small seed comes in 32 bits, and 1 as a constant
    k0 = (wide & 0xFFFFFFFF).to(tl.uint32)
    k1 = (wide >> 32).to(tl.uint32)
    for _ in tl.static_range(10):
        a = c0.to(tl.uint64) * _ROUND_A
        b = c2.to(tl.uint64) * _ROUND_B
        c0 = (b >> 32).to(tl.uint32) ^ c1 ^ k0
        c1 = b.to(tl.uint32)
        c2 = (a >> 32).to(tl.uint32) ^ c3 ^ k1
        c3 = a.to(tl.uint32)
        k0 = tl.add(k0, _KEY_A, sanitize_overflow=False)
        k1 = tl.add(k1, _KEY_B, sanitize_overflow=False)
    return c0, c1, c2, c3


@triton.jit
def nothing_of(x):
    """A uint32 zero for each element of the loaded x. LLVM folds it away; what stays is the layout: added to a counter, it makes
    Triton compute the counter on the lane that holds the element, where it would otherwise draw on another lane and carry the
    mask across through shared memory (seen in Triton 3.6 and 3.7 as LDS.U8 and SEL, two instructions an element)."""
    if tl.constexpr(x.dtype.primitive_bitwidth) == 16:
        zero = x.to(tl.uint16, bitcast=True).to(tl.uint32) >> 16
    else:
        zero = (x.to(tl.uint32, bitcast=True).to(tl.uint64) >> 32).to(tl.uint32)
    return zero


@triton.jit
def flat(
    x, bias, residual, out, n, cols, seed, p, scale,
    BIAS: tl.constexpr, GELU: tl.constexpr, DRAW: tl.constexpr, RESIDUAL: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The first try: one element a lane, its column by a remainder of 64 bits, erf, and a call of the generator for every
    element, of whose four words three are thrown away."""
    o = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = o < n
    y = tl.load(x + o, mask=inside).to(tl.float32)
    if BIAS == "modulo":
        y += tl.load(bias + o % cols, mask=inside).to(tl.float32)
    if BIAS == "mask":
        y += tl.load(bias + (o & (cols - 1)), mask=inside).to(tl.float32)
    if GELU == "erf":
        y = erf_gelu(y)
    if DRAW == "rand":
        y = tl.where(tl.rand(seed, o) > p, y * scale, 0.0)
    if RESIDUAL:
        y += tl.load(residual + o, mask=inside).to(tl.float32)
    tl.store(out + o, y.to(out.dtype.element_ty), mask=inside)


@triton.jit
def rows_of(
    x, bias, residual, out, n_rows, cols, seed, threshold, scale,
    C: tl.constexpr, REACH: tl.constexpr,
    ADDS: tl.constexpr, BIAS: tl.constexpr, GELU: tl.constexpr, DRAW: tl.constexpr, RESIDUAL: tl.constexpr,
    GROUP: tl.constexpr, BATCH: tl.constexpr, BLOCK: tl.constexpr, WHOLE: tl.constexpr, ACROSS: tl.constexpr,
    CACHE: tl.constexpr, EVICT: tl.constexpr,
):  # fmt: skip
    """A program walks down GROUP rows of BLOCK columns: the bias is loaded once, no column is ever computed by a remainder, and
    with DRAW "four" (GROUP 4) or "eight" (GROUP 8) each lane spends all the bits of one call on its column.

    BATCH rows are loaded before the first of them is used, so that many bytes are in flight. WHOLE: every tile lies inside.
    ACROSS: neighbouring programs lie side by side, else below each other.
    """
    group = tl.program_id(1 if ACROSS else 0)
    first = group * GROUP
    column = tl.program_id(0 if ACROSS else 1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < cols
    if BIAS != "":
        b = (tl.load(bias + column) if WHOLE else tl.load(bias + column, mask=inside)).to(tl.float32)
    for start in tl.static_range(0, GROUP, BATCH):
        xs = ()
        rs = ()
        for j in tl.static_range(BATCH):
            row = first + start + j
            at = row.to(tl.int64) * cols
            if WHOLE:
                xs = xs + (tl.load(x + at + column, cache_modifier=CACHE, eviction_policy=EVICT),)
                if RESIDUAL:
                    rs = rs + (tl.load(residual + at + column, cache_modifier=CACHE, eviction_policy=EVICT),)
            else:
                here = inside & (row < n_rows)
                xs = xs + (tl.load(x + at + column, mask=here),)
                if RESIDUAL:
                    rs = rs + (tl.load(residual + at + column, mask=here),)
        if start == 0 and (DRAW == "four" or DRAW == "eight"):
            counter = group.to(tl.int64) * cols + column
            w = philox(counter.to(tl.uint32) + nothing_of(xs[0]), (counter >> 32).to(tl.uint32), seed)
        for j in tl.static_range(BATCH):
            row = first + start + j
            at = row.to(tl.int64) * cols
            y = xs[j].to(tl.float32)
            for _ in tl.static_range(ADDS):
                y += _SHIFT
            if BIAS != "":
                y += b
            if GELU == "erf":
                y = erf_gelu(y)
            if GELU == "cheap":
                y = cheap_gelu(y, C, REACH)
            if DRAW == "one":
                alone = at + column
                w = philox(alone.to(tl.uint32) + nothing_of(xs[j]), (alone >> 32).to(tl.uint32), seed)
                y = tl.where(w[0] >= threshold, y, 0.0)
            if DRAW == "four":
                y = tl.where(w[start + j] >= threshold, y, 0.0)
            if DRAW == "eight":
                # the high half as it stands: its low bits cannot change a comparison with a multiple of 2^16
                half = w[(start + j) // 2] if (start + j) % 2 else w[(start + j) // 2] << 16
                y = tl.where(half >= threshold, y, 0.0)
            if DRAW != "":
                y *= scale  # after the choice, so that it becomes one multiply-add with the residual
            if RESIDUAL:
                y += rs[j].to(tl.float32)
            if WHOLE:
                tl.store(out + at + column, y.to(out.dtype.element_ty), cache_modifier=CACHE, eviction_policy=EVICT)
            else:
                tl.store(out + at + column, y.to(out.dtype.element_ty), mask=inside & (row < n_rows))
