"""The buffers that every arm of a comparison shares, random but for the output, and the check of what an arm leaves there."""

from __future__ import annotations

from dataclasses import dataclass, replace

from utils.kernels import forms, philox
from utils.kernels.forms import Form, scale
from utils.measure.either_clock import filled
from utils.measure.gemm_peak import torch_dtype

SEED = (7 << 32) + 2026
CHECKED_ROWS = 64  # from each end of the activation: the truth is float64, and comparing all of it takes seconds
ULP = {"bf16": 2.0**-8, "fp16": 2.0**-11, "fp32": 2.0**-22}  # the relative error of one rounding (fp32: of a few)
GELU_OFF = 4e-4  # of the short polynomial, at most, over all x: a bf16 ulp where it is largest is 8e-4


@dataclass(frozen=True)
class Data:
    """x, residual and out: rows x cols, contiguous, of one dtype; bias: cols. `seed` is the key of the random numbers."""

    x: object
    bias: object
    residual: object
    out: object
    seed: int = SEED

    @property
    def rows(self) -> int:
        return self.x.shape[0]

    @property
    def cols(self) -> int:
        return self.x.shape[1]

    @property
    def dtype(self) -> str:
        return {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}[str(self.x.dtype).removeprefix("torch.")]

    def parts(self, form: Form) -> tuple:
        """(x, bias, residual) with None for what the form does not use."""
        return self.x, self.bias if form.bias else None, self.residual if form.residual else None


def random(rows: int, cols: int, dtype: str, device: str = "cpu", seed: int = SEED) -> Data:
    """Buffers of normal random numbers of this shape (a block of a million, repeated)."""
    import torch

    kind, n = torch_dtype(dtype), rows * cols

    def normal():
        # uniform numbers by the room that fills buffers, made normal in place by their inverse distribution
        flat = filled(n, device, kind)
        for start in range(0, n, 1 << 22):
            piece = flat[start : start + (1 << 22)]
            piece.copy_(torch.special.ndtri(piece.float().clamp(1e-6, 1 - 1e-6)))
        return flat.view(rows, cols)

    return Data(
        normal(), torch.randn(cols, device=device).to(kind), normal(), torch.empty(rows, cols, dtype=kind, device=device), seed
    )


def poison(data: Data) -> None:
    """Fill the output with NaN, so that an arm that writes nothing is seen."""
    data.out.fill_(float("nan"))


def poisoned_copy(data: Data) -> Data:
    """The same inputs with an output of their own, full of NaN."""
    copy = replace(data, out=data.out.clone())
    poison(copy)
    return copy


def wrong(form: Form, data: Data, *, truncates: bool = False) -> str:
    """What is wrong with the output of an arm that draws as the course's kernels do, in words; "" when nothing is.

    The first and last rows are compared with the float64 reference and the recomputed mask; each element may be one rounding of
    its dtype off (two when the machine cuts off where it should round: Triton's interpreter, with bf16), and its GELU by what a
    short polynomial is.
    """
    import torch

    off = 0.0
    for rows in _ends(data.rows):
        x, bias, residual = (t if t is None or t.dim() == 1 else t[rows] for t in data.parts(form))
        keep = None
        if form.draw:
            # draws are numbered from the first row: whole groups from there on, the wanted rows of them
            keep = torch.from_numpy(philox.keep(form.draw, rows.stop, data.cols, data.seed, first=rows.start)).to(data.x.device)
        truth = forms.reference(form, x, bias, residual, keep)
        got = data.out[rows].double()
        if not bool(torch.isfinite(got).all()):
            return "part of the output was not written"
        # the sum is rounded once (an interpreter cuts it off instead), and the arithmetic before it is fp32's
        allowed = ULP[data.dtype] * (2 if truncates else 1.01) * truth.abs() + 3e-6
        if form.gelu == "cheap" and data.dtype != "fp32":
            allowed += GELU_OFF * scale(form.draw)
        off = max(off, float(((got - truth).abs() / allowed).max()))
    return "" if off <= 1 else f"an element is {off:.3g} times as far off as one rounding allows"


def _ends(rows: int) -> list[slice]:
    n = min(CHECKED_ROWS, rows)
    return [slice(0, n)] + ([slice(rows - n, rows)] if rows > n else [])


def wrong_eager(form: Form, data: Data, out) -> str:
    """The same of an arm that draws by torch's own generator: what it kept must be right, and about as much as asked for.

    torch rounds to the dtype after every op, so an element may be one rounding an op off."""
    import torch

    rows = slice(0, min(CHECKED_ROWS, data.rows))
    x, bias, residual = (t if t is None or t.dim() == 1 else t[rows] for t in data.parts(form))
    got = out[rows].double()
    everything = torch.ones_like(got, dtype=torch.bool)
    kept = forms.reference(form.with_(draw=form.draw and "rand"), x, bias, residual, everything)
    allowed = (form.ops + 1) * ULP[data.dtype] * (x.double().abs() + kept.abs() + 4) + 3e-6
    good = (got - kept).abs() <= allowed
    if not form.draw:
        return "" if bool(good.all()) else "an element is further off than its roundings allow"
    gone = (got - (residual.double() if form.residual else 0.0)).abs() <= allowed
    if not bool((good | gone).all()):
        return "an element is neither kept nor dropped"
    clear = ~(good & gone)
    share = float(gone[clear].double().mean())
    n = int(clear.sum())
    return (
        "" if abs(share - forms.P) < 6 * (forms.P * (1 - forms.P) / n) ** 0.5 + 1e-3 else f"dropped {share:.2%} of the elements"
    )
