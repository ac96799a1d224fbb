"""What a compiled function launches, read from the code that torch.compile wrote for it: kernels, their bytes and FLOPs.

A watcher of ops may not look at compiled code: under it torch runs the original, op by op, and goes on doing so afterwards. So
the text of the generated module is read: each call of a library and of a generated kernel, the buffers that are handed to it
and their sizes. Bytes are counted as in `intensity`: every buffer once that a launch reads, once that it writes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from math import prod, sqrt

from utils.measure import seams
from utils.measure.device_clock import MeasurementError

ITEM = {
    "float64": 8,
    "int64": 8,
    "float32": 4,
    "int32": 4,
    "bfloat16": 2,
    "float16": 2,
    "int16": 2,
    "int8": 1,
    "uint8": 1,
    "bool": 1,
}
PRODUCTS = ("mm", "addmm")
_NAME = r"(?:arg\d+_\d+|primals_\d+|tangents_\d+|buf\d+)"
_INPUT = re.compile(rf"({_NAME}) = rand_strided\(\(([\d, ]*)\), \([\d, ]*\),.*?dtype=torch\.(\w+)\)")
_MADE = re.compile(rf"({_NAME}) = empty_strided\w*\(\(([\d, ]*)\), \([\d, ]*\), (?:device='\w+', dtype=)?torch\.(\w+)\)")
_AGAIN = re.compile(rf"({_NAME}) = (?:reinterpret_tensor\()?({_NAME})\b")
_CALL = re.compile(r"(extern_kernels\.\w+|(?:torch\.ops\.)?aten\.\w+(?:\.\w+)?|cpp_\w+|triton_\w+\.run)\((.*)\)\s*$")
_ARITHMETIC = re.compile(r"\btmp\d+ [-+*/<>]=? tmp\d+|\b(?:erf|exp|tanh|sqrt|rsqrt|log)\(")


@dataclass(frozen=True)
class Launch:
    """One launch of the generated code: what is called, bytes read and written, FLOPs (None where they are not in the text)."""

    name: str
    read: int
    written: int
    flops: float | None
    product: bool = False

    @property
    def bytes(self) -> int:
        return self.read + self.written

    def to_dict(self) -> dict:
        return asdict(self)


def of(f: Callable, *inputs) -> tuple[Launch, ...]:
    """The launches of `f` compiled anew for these inputs, in order; a few seconds, or what its compiler takes.

    `f` is the function or module as written, not what torch.compile made of it. MeasurementError, in words, without a compiler
    or where the text cannot be read.
    """
    import torch

    return first_call(torch.compile(f, dynamic=False), *inputs)


def first_call(compiled: Callable, *inputs) -> tuple[Launch, ...]:
    """The same of what torch.compile made and nobody has called yet."""
    try:
        texts = seams.generated_code(compiled, *inputs)
    except Exception as error:  # a compiler that refuses, each in its own way
        raise MeasurementError(f"torch.compile gave no code: {' '.join(str(error).split())[:200]}") from None
    found = tuple(launch for text in texts for launch in read(text))
    if not found:
        raise MeasurementError("no launch was found in the code that torch.compile generated")
    return found


def read(text: str) -> list[Launch]:
    """The launches in one generated module. MeasurementError where a launch's buffers have no size in it."""
    inputs = {name: _buffer(shape, kind) for name, shape, kind in _INPUT.findall(text)}
    body = text.split("def call(", 1)[-1]
    for end in ("def get_args(", "def benchmark_compiled_module("):
        body = body.split(end)[0]
    buffers, out = dict(inputs), []
    for line in body.splitlines():
        line = line.split("#")[0].strip()
        if made := _MADE.match(line):
            buffers[made[1]] = _buffer(made[2], made[3])
        elif again := _AGAIN.match(line):
            if again[2] in buffers:
                buffers[again[1]] = buffers[again[2]]
        elif (called := _CALL.search(line)) and re.search(_NAME, called[2]):
            out.append(_launch(called[1], called[2], buffers, text))
    return out


@dataclass(frozen=True)
class _Buffer:
    elements: int
    bytes: int


def _buffer(shape: str, kind: str) -> _Buffer:
    elements = prod(int(n) for n in shape.replace(" ", "").split(",") if n)
    return _Buffer(elements, elements * ITEM.get(kind, 4))


def _launch(name: str, arguments: str, buffers: dict[str, _Buffer], text: str) -> Launch:
    given = list(dict.fromkeys(re.findall(_NAME, arguments)))
    if missing := [one for one in given if one not in buffers]:
        raise MeasurementError(f"{name} is given {', '.join(missing)}, whose size is not in the generated code")
    short = name.removeprefix("extern_kernels.").removeprefix("torch.ops.").removesuffix(".run")
    if short != name.removesuffix(".run") or name.startswith("aten."):
        written = re.findall(rf"out=({_NAME})", arguments)
        read_ = [one for one in given if one not in written]
        product = short in PRODUCTS
        flops = _product(short, [buffers[one] for one in read_], buffers[written[0]]) if product and written else 0.0
        return Launch(short, _bytes(read_, buffers), _bytes(written, buffers), flops, product)
    kernel, parameters = _source(short, text)
    roles = dict(zip(given, parameters, strict=False))
    written = [one for one in given if "out" in roles.get(one, "")]
    both = [one for one in written if re.search(rf"load\w*\(\(?\s*{roles[one]}\b", kernel)]
    read_ = [one for one in given if one not in written or one in both]
    most = max((buffers[one].elements for one in given), default=0)
    return Launch(short, _bytes(read_, buffers), _bytes(written, buffers), _an_element(kernel) * most if kernel else None)


def _bytes(names: list[str], buffers: dict[str, _Buffer]) -> int:
    return sum(buffers[name].bytes for name in names)


def _product(name: str, given: list[_Buffer], out: _Buffer) -> float:
    """2 m n k, from how many elements the factors and the product have; a bias that is added counts one an element."""
    a, b = given[-2:] if len(given) > 1 else (given[0], given[0])
    k = sqrt(a.elements * b.elements / out.elements)
    return 2.0 * out.elements * k + (out.elements if name == "addmm" else 0)


def _source(name: str, text: str) -> tuple[str, list[str]]:
    """(the kernel's own text, the names of its pointers in order); empty where it is not in the module."""
    found = re.search(rf"^{re.escape(name)} = async_compile\.\w+\(.*?^'''", text, re.MULTILINE | re.DOTALL)
    if found is None:
        return "", []
    source = found[0]
    signature = re.search(r"def \w+\((.*?)\)|void\s+kernel\((.*?)\)", source, re.DOTALL)
    return source, re.findall(r"\b(?:in|out|in_out)_ptr\d+\b", next(filter(None, signature.groups())) if signature else "")


def _an_element(kernel: str) -> int:
    """Arithmetic and special functions that the kernel does for one element (of its bodies for vectors and single elements the
    larger one)."""
    return max(
        sum(bool(_ARITHMETIC.search(line)) for line in piece.splitlines()) for piece in re.split(r"C10_(?:UN)?LIKELY", kernel)
    )
