"""What a fused chain computes: scalar adds, a broadcast bias, GELU, dropout and a residual, each of them or not; and its bytes.

A `Form` is the arithmetic alone; how a kernel goes about it (how GELU is had, how random numbers are drawn, how the bias is
found) is part of it too, so that one form is one row of a table and one arm of a race. Activations are rows x cols, contiguous.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from utils.model.step_model import BYTES

P = 0.1  # what dropout is asked for
SHIFT = 0.25  # what each scalar add adds
GELUS = ("", "erf", "cheap")
# How dropout's random numbers are had: none; `rand` a float a call and element, compared with p; `one` word of 32 bits a call
# and element; all `four` words of a call; `eight` halves of 16 bits of a call.
DRAWS = ("", "rand", "one", "four", "eight")
BIASES = ("", "modulo", "mask", "rows")  # the column by int64 %, by an AND (a power of two), or known from the row's program


@dataclass(frozen=True)
class Form:
    """y = residual + dropout(gelu(x + SHIFT + … + SHIFT + bias)), with the parts that are named; one of GELUS, DRAWS, BIASES.

    `adds` is the number of scalar adds. A draw `rand`, and a bias by `modulo` or `mask`, make the first, flat kernel (one
    element a lane, no rows); every other form is the kernel of rows.
    """

    adds: int = 0
    bias: str = ""
    gelu: str = ""
    draw: str = ""
    residual: bool = False

    def __post_init__(self):
        if self.bias not in BIASES or self.gelu not in GELUS or self.draw not in DRAWS or self.adds < 0:
            raise ValueError(f"no such form: {self}")

    @property
    def flat(self) -> bool:
        """Whether this is the first try's kernel, which knows no rows."""
        return self.draw == "rand" or self.bias in ("modulo", "mask")

    @property
    def ops(self) -> int:
        """Ops of the eager spelling: what torch would launch, one kernel each on a GPU."""
        return self.adds + sum(map(bool, (self.bias, self.gelu, self.draw, self.residual)))

    def words(self, rows: int, cols: int) -> int:
        """Elements that the fused kernel has to move: x, the residual and the bias read once, y written once."""
        return (2 + self.residual) * rows * cols + (cols if self.bias else 0)

    def eager_words(self, rows: int, cols: int) -> int:
        """Elements that the ops move one by one, dropout's mask left out (`eager_mask_bytes`)."""
        each = rows * cols
        unary = self.adds + bool(self.bias) + bool(self.gelu) + bool(self.draw)
        return (2 * unary + 3 * self.residual) * each + (cols if self.bias else 0)

    def nbytes(self, rows: int, cols: int, dtype: str) -> int:
        """Bytes that the fused kernel has to move."""
        return self.words(rows, cols) * BYTES[dtype]

    def eager_nbytes(self, rows: int, cols: int, dtype: str, mask_bytes: int = 1) -> int:
        """Bytes that the ops move one by one; dropout writes a mask of `mask_bytes` an element (on a CPU: the dtype's own)."""
        return self.eager_words(rows, cols) * BYTES[dtype] + (mask_bytes * rows * cols if self.draw else 0)

    def with_(self, **changes) -> Form:
        """This form with some parts changed."""
        return replace(self, **changes)


ADD = Form(residual=True)  # x + residual: the plain add that every share is of
BLOCK_TAIL = Form(bias="rows", gelu="cheap", draw="eight", residual=True)  # the roof reached
FIRST_TRY = Form(bias="modulo", gelu="erf", draw="rand", residual=True)

# The chain, fused step by step: every row is one launch.
STEPS = {
    "a + b": ADD,
    "two ops": Form(adds=1, residual=True),
    "eight ops": Form(adds=7, residual=True),
    "with bias": Form(adds=7, bias="rows", residual=True),
    "with gelu": Form(bias="rows", gelu="cheap", residual=True),
}
# The first try taken apart: what is left when a part goes.
ABLATIONS = {
    "first try": FIRST_TRY,
    "bias by mask": FIRST_TRY.with_(bias="mask"),
    "without the draw": FIRST_TRY.with_(draw=""),
    "without erf": FIRST_TRY.with_(gelu=""),
    "with neither": FIRST_TRY.with_(gelu="", draw=""),
    "with neither, bias by mask": FIRST_TRY.with_(gelu="", draw="", bias="mask"),
    "the add alone": Form(residual=True),
}
# The way back to the roof, one change a rung.
LADDER = {
    "first try": FIRST_TRY,
    "rows, no %": Form(bias="rows", gelu="erf", draw="one", residual=True),
    "cheap gelu": Form(bias="rows", gelu="cheap", draw="one", residual=True),
    "four words": Form(bias="rows", gelu="cheap", draw="four", residual=True),
    "eight halves": BLOCK_TAIL,
}


def threshold(draw: str, p: float = P) -> int:
    """Draws below it are dropped: of 2^16 for halves, of 2^32 for words."""
    bits = 16 if draw == "eight" else 32
    if not 0 <= p < 1:
        raise ValueError(f"dropout's p lies in [0, 1), not {p}")
    return round(p * 2**bits)


def dropped(draw: str, p: float = P) -> float:
    """The probability that an element is dropped, exactly: p rounded to a multiple of 2^-16 or 2^-32 (`rand`: p itself)."""
    return p if draw in ("", "rand") else threshold(draw, p) / 2 ** (16 if draw == "eight" else 32)


def scale(draw: str, p: float = P) -> float:
    """What a kept element is multiplied by: 1 / (1 - dropped), from the very threshold that drops."""
    return 1.0 / (1.0 - dropped(draw, p)) if draw else 1.0


def reference(form: Form, x, bias=None, residual=None, keep=None):
    """The form in float64, with dropout's mask given: the truth that every kernel is checked against."""
    import torch

    y = x.double()
    for _ in range(form.adds):
        y = y + SHIFT
    if form.bias:
        y = y + bias.double()
    if form.gelu:
        # -y/sqrt(2) goes into erfc, which keeps all of its digits in the tail where 1 + erf has lost them
        y = torch.where(y == 0, y, y * 0.5 * torch.special.erfc(-y * 0.5**0.5))
    if form.draw:
        y = torch.where(keep, y * scale(form.draw), torch.zeros_like(y))
    return y + residual.double() if form.residual else y


def eager(form: Form, x, bias=None, residual=None, p: float = P):
    """The same ops as torch spells them, one kernel each on a GPU: the peer, and what torch.compile is given."""
    import torch.nn.functional as F

    y = x
    for _ in range(form.adds):
        y = y + SHIFT
    if form.bias:
        y = y + bias
    if form.gelu:
        y = F.gelu(y)
    if form.draw:
        y = F.dropout(y, p, training=True)
    return residual + y if form.residual else y
