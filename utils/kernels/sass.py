"""Instructions per element of a form's Triton kernel, by opcode, for a GPU that need not be there: Triton brings ptxas along.

A static count: every instruction of the kernel's text once, over the elements that a thread works on. The kernels of rows are
straight lines, so that it is also what runs; the first try's remainder of 64 bits holds a short way and a long one, and both are
counted. Padding after the end is not.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from functools import cache
from pathlib import Path

from utils.kernels import triton_door
from utils.kernels.cuda_text import rows_of
from utils.kernels.forms import Form
from utils.kernels.triton_door import Tuning
from utils.measure.device_clock import MeasurementError

POINTER = {"bf16": "*bf16", "fp16": "*fp16", "fp32": "*fp32"}
# What an opcode is for; the first prefix that fits. Integer instructions are addresses, random numbers and unpacking.
KINDS = {
    "random and integer": (
        "IMAD",
        "LOP3",
        "SHF",
        "IADD",
        "ISETP",
        "LEA",
        "VIADD",
        "IABS",
        "SHL",
        "SHR",
        "BFE",
        "SEL",
        "I2F",
        "F2I",
    ),
    "arithmetic": ("FFMA", "FADD", "FMUL", "FMNMX", "FSEL", "FSETP", "MUFU", "FCHK", "HFMA2", "HADD2", "HMUL2"),
    "pack and move": ("F2FP", "F2F", "PRMT", "MOV", "S2R", "CS2R", "S2UR", "R2UR", "P2R", "R2P"),
    "memory": ("LDG", "STG", "LDS", "STS", "LDC", "ULDC"),
    "uniform": ("U",),  # once for a whole warp, on a path of its own
}
_INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+([^;]+;)")
_LINE = re.compile(r"^(?:@!?U?P[T0-9]+\s+)?([A-Z][A-Z0-9_.]*)")


@cache
def counted(form: Form, dtype: str = "bf16", tuning: Tuning | None = None, arch: int = 90) -> dict:
    """The kernel compiled for compute capability arch / 10, counted:

    {"opcodes": {opcode: instructions an element}, most first; "kinds": the same in groups (`KINDS`), "total", "elements" (of a
    thread), "bytes" (an element moves them, the bias left out), "per_byte", "shared" (bytes), "warps", "arch", "triton"}. Ten
    seconds for the first form, one or two for the next. MeasurementError, in words, without Triton or with its interpreter on.
    """
    tuning = tuning or triton_door.default(form, dtype, 1 << 20)
    compiled = _compiled(form, dtype, tuning, arch)
    elements = tuning.block * (1 if form.flat else rows_of(form)) / (32 * tuning.warps)
    counts = Counter(found[1] for line in _body(compiled) if (found := _LINE.match(line)))
    if not counts:
        raise MeasurementError("no instruction could be read in what Triton's disassembler wrote")
    nbytes = form.with_(bias="").nbytes(1, 1, dtype)
    total = sum(counts.values()) / elements
    import triton

    return {
        "opcodes": {name: n / elements for name, n in counts.most_common()},
        "kinds": {kind: n / elements for kind, n in _grouped(counts).items()},
        "total": total,
        "elements": elements,
        "bytes": nbytes,
        "per_byte": total / nbytes,
        "shared": compiled.metadata.shared,
        "warps": tuning.warps,
        "arch": arch,
        "triton": triton.__version__,
    }


def sass(form: Form, dtype: str = "bf16", tuning: Tuning | None = None, arch: int = 90) -> str:
    """The kernel's machine code as text, to be read. MeasurementError as `counted`."""
    return "\n".join(_body(_compiled(form, dtype, tuning or triton_door.default(form, dtype, 1 << 20), arch)))


@cache
def _compiled(form: Form, dtype: str, tuning: Tuning, arch: int):
    kernels = triton_door.kernels()
    try:
        import triton
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource

        kernel = kernels.flat if form.flat else kernels.rows_of
        if not isinstance(kernel, triton.JITFunction):
            raise MeasurementError("Triton's interpreter is on in this process (TRITON_INTERPRET), which compiles nothing")
        pointers = dict.fromkeys(("x", "bias", "residual", "out"), POINTER[dtype])
        if form.flat:
            kinds = pointers | {"n": "i64", "cols": "i32", "seed": "i64", "p": "fp32", "scale": "fp32"}
            constants = triton_door.flat_constants(form, tuning.block)
        else:
            kinds = pointers | {"n_rows": "i32", "cols": "i32", "seed": "i64", "threshold": "u32", "scale": "fp32"}
            constants = triton_door.constants(form, dtype, tuning, True)
        names = list(kernel.arg_names)
        whole = {(names.index(n),): [["tt.divisibility", 16]] for n in (*pointers, "cols", "n", "n_rows") if n in names}
        source = ASTSource(
            kernel,
            {n: kinds.get(n, "constexpr") for n in names},
            constexprs={(names.index(n),): value for n, value in constants.items()},
            attrs=whole,
        )
        return triton.compile(source, target=GPUTarget("cuda", arch, 32), options={"num_warps": tuning.warps})
    except MeasurementError:
        raise
    except Exception as error:  # the compiler's inner doors move from version to version
        raise MeasurementError(f"Triton could not compile the kernel for another GPU: {_said(error)}") from None


def _body(compiled) -> list[str]:
    """The instructions up to the last EXIT: what follows is an endless branch and padding.

    By cuobjdump itself and not by Triton's `asm["sass"]`, which in 3.7 stops after 4,096 instructions without a word.
    """
    import triton

    try:
        tool = triton.knobs.nvidia.cuobjdump.path
        with tempfile.TemporaryDirectory() as folder:
            binary = Path(folder) / "kernel.cubin"
            binary.write_bytes(compiled.asm["cubin"])
            command = [tool, "-sass", str(binary)]
            text = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    except Exception as error:  # a tool that is missing or does not run here, a format that has moved
        raise MeasurementError(f"the disassembler that Triton brings along gave nothing: {_said(error)}") from None
    lines = [found[1].strip() for line in text.splitlines() if (found := _INSTRUCTION.match(line))]
    last = max((i for i, line in enumerate(lines) if "EXIT" in line), default=len(lines) - 1)
    return [line for line in lines[: last + 1] if not line.startswith("NOP")]


def _grouped(counts: Counter) -> dict[str, int]:
    out = dict.fromkeys((*KINDS, "rest"), 0)
    for name, n in counts.items():
        out[next((kind for kind, prefixes in KINDS.items() if name.startswith(prefixes)), "rest")] += n
    return out


def _said(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
