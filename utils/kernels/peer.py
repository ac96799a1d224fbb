"""torch.compile as the peer: the same ops, written into the same output buffer, and the text of the kernel that it generates."""

from __future__ import annotations

from collections.abc import Callable

from utils.kernels import forms
from utils.kernels.data import Data
from utils.kernels.forms import Form
from utils.measure import seams
from utils.measure.device_clock import MeasurementError


def function(form: Form) -> Callable:
    """f(x, bias, residual, out): the form's ops as torch spells them, the last one written into `out`."""

    def chain(x, bias, residual, out):
        out.copy_(forms.eager(form, x, bias, residual))

    return chain


def eager(form: Form, data: Data) -> Callable[[], None]:
    """A call that runs the ops one by one, every one but the last into a buffer of its own, the last one into data's output."""
    import torch

    x, bias, residual = data.parts(form)
    last = form.with_(residual=False)

    def call():
        y = forms.eager(last, x, bias)
        if form.residual:
            torch.add(residual, y, out=data.out)
        else:
            data.out.copy_(y)

    return call


def compiled(form: Form, data: Data) -> Callable[[], None]:
    """A call of the ops compiled by torch.compile for this shape, given the same output buffer; compiled here, by a first call.
    MeasurementError, in words, where it cannot compile."""
    import torch

    made = torch.compile(function(form), dynamic=False)
    given = (*data.parts(form), data.out)

    def call():
        made(*given)

    try:
        with torch.no_grad():
            call()
    except Exception as error:  # no C++ compiler, no Triton, a graph that it refuses: each in its own way
        raise MeasurementError(f"torch.compile failed: {' '.join(str(error).split())[:200]}") from None
    return call


def source(form: Form, data: Data) -> dict:
    """What torch.compile generates for the form: {"language": "C++" or "Triton", "kernels": how many, "kernel": the text of the
    kernels alone, "whole": all of the generated module}. MeasurementError, in words, where it cannot compile."""
    import torch

    torch.compiler.reset()  # code that was compiled before is not written again
    try:
        with torch.no_grad():
            texts = seams.generated_code(torch.compile(function(form), dynamic=False), *data.parts(form), data.out)
    except Exception as error:
        raise MeasurementError(f"torch.compile failed: {' '.join(str(error).split())[:200]}") from None
    whole = "\n".join(texts)
    language = "Triton" if "@triton.jit" in whole else "C++"
    kernels = _kernels(whole, language)
    return {"language": language, "kernels": len(kernels), "kernel": "\n\n".join(kernels), "whole": whole}


def _kernels(text: str, language: str) -> list[str]:
    """The kernels' own text, cut from the module between the marks that it is generated with."""
    mark, end = ("async_compile.triton(", "''', device_str") if language == "Triton" else ("async_compile.cpp", "''')")
    out = []
    for piece in text.split(mark)[1:]:
        body = piece.split("'''", 1)[-1] if "'''" in piece else piece.split('"""', 1)[-1]
        body = body.split(end)[0].split('""")')[0].strip()
        if language == "Triton" and "@triton.jit" in body:
            body = body[body.index("@triton.jit") :]
        out.append(body)
    return out
