"""The five ops of the toy block, small and wide: op by op, captured, fused, both, and compiled; what capturing does not cure.

Small, the block is the host's: its ops are issued one by one. Wide, the same ops are the device's: their bytes and the product
take longer than issuing them. Each step gets a new input: every captured way copies it into the static one, inside its price.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from utils.kernels import cpu_door, on_gpu
from utils.kernels.data import Data, wrong, wrong_eager
from utils.kernels.forms import BLOCK_TAIL, Form
from utils.measure import op_record, op_replay
from utils.measure.chains_of_adds import own_code
from utils.measure.device_clock import MeasurementError
from utils.measure.either_clock import Progress, need, race, settled, within
from utils.measure.graph_by_hand import WARM_UPS, captured
from utils.measure.placed_ops import usual_dtype
from utils.measure.record import in_words
from utils.measure.stopwatch import time_device, time_host
from utils.measure.toy_block import DROPPED, LARGE, SMALL, steady
from utils.model.readings import Race

EAGER, CAPTURED, FUSED, BOTH = "eager", "captured", "fused", "fused and captured"
COMPILED, REDUCED = "torch.compile", "reduce-overhead"
KEYS = {CAPTURED: "captured", FUSED: "fused", BOTH: "both", COMPILED: "compiled", REDUCED: "reduced"}
BARE = "{}, input in place"
SIZES = {"small": SMALL, "wide": LARGE}


def block(x, w, b):
    """x + dropout(gelu(x @ w + b)), as the texts have it."""
    import torch

    return x + torch.nn.functional.dropout(torch.nn.functional.gelu(x @ w + b), DROPPED, training=True)


def drawless(x, w, b):
    """The same block without dropout: no random number is drawn."""
    import torch

    return x + torch.nn.functional.gelu(x @ w + b)


@dataclass
class Step:
    """One way to run a step: `run()` does it on the input that is there, `out()` gives its result, `once_s` is what was paid
    before the first step; `product`, where the tail is a kernel of the course, is what that kernel is given; `bare` is a
    captured step without copying the input in, for a program that puts it there itself."""

    run: Callable[[], object]
    out: Callable[[], object]
    once_s: float = 0.0
    product: object = None
    bare: Callable[[], object] | None = None


class Inputs:
    """The block's inputs on one device at one size: `x` is what a step is given, the weights are the same at every step.

    `form` is what follows the product: the tail with dropout, or without its draw."""

    def __init__(self, device: str, shape: tuple[int, int], form: Form = BLOCK_TAIL):
        import torch

        from utils.measure.gemm_peak import torch_dtype

        rows, side = shape
        kind = torch_dtype(usual_dtype(device))
        self.device, self.rows, self.side, self.form = device, rows, side, form
        self.block = block if form.draw else drawless
        self.x = torch.randn(rows, side, device=device).to(kind)
        self.w = (torch.randn(side, side, device=device) / side**0.5).to(kind)
        self.b = torch.randn(side, device=device).to(kind)

    def fresh(self) -> None:
        """Other values of x."""
        import torch

        self.x.copy_(torch.randn_like(self.x))

    def data(self, x, out, h=None) -> Data:
        """The tail's buffers: h (x @ w, or a place for it) in, x as the residual."""
        import torch

        return Data(torch.empty_like(x) if h is None else h, self.b, x, out)


def steps_of(inputs: Inputs, missing: dict[str, str], *, compilers: bool = True, only: Collection[str] = ()) -> dict[str, Step]:
    """The ways that there are here (of `only`, where it names some); what cannot be had is told in `missing`. Runs each a few
    times."""
    device = inputs.device
    makers: dict[str, Callable[[], Step]] = {
        EAGER: lambda: kept(lambda: inputs.block(inputs.x, inputs.w, inputs.b)),
        CAPTURED: lambda: _captured(inputs),
        FUSED: lambda: _fused(inputs),
        BOTH: lambda: _fused_captured(inputs) if device == "cuda" else _fused_listed(inputs),
    }
    if compilers:
        makers[COMPILED] = lambda: compiled(inputs)
    if compilers and device == "cuda":
        makers[REDUCED] = lambda: compiled(inputs, mode="reduce-overhead")
    found = {}
    for name, make in makers.items():
        if only and name not in only:
            continue
        try:
            found[name] = make()
        except MeasurementError as error:
            missing[name] = str(error)
        except Exception as error:  # a compiler or a driver that refuses, each in its own way: the others go on
            missing[name] = f"{type(error).__name__}: {in_words(error)}"
    return found


def kept(f: Callable[[], object], once_s: float = 0.0) -> Step:
    """A step whose result is kept until the next one has run, as in a program."""
    last: list = [None]

    def run():
        last[0] = f()

    return Step(run, lambda: last[0], once_s)


def _captured(inputs: Inputs) -> Step:
    made = captured(lambda x: inputs.block(x, inputs.w, inputs.b), inputs.x)
    return Step(lambda: made(inputs.x), lambda: made.outputs, made.seconds, bare=made.replay)


def tail(data: Data, form: Form = BLOCK_TAIL) -> Callable[[], object]:
    """The fused tail on these buffers, by the best way there is on their device."""
    return on_gpu.fused(form, data) if data.x.is_cuda else cpu_door.launch(form, data, streaming=False, threads=1)


def _fused(inputs: Inputs) -> Step:
    import torch

    start = time.perf_counter()
    data = inputs.data(inputs.x, torch.empty_like(inputs.x))
    rest = tail(data, inputs.form)

    def run() -> None:
        torch.mm(inputs.x, inputs.w, out=data.x)
        rest()

    for _ in range(WARM_UPS):
        run()
    if inputs.device == "cuda":
        torch.cuda.synchronize()
    return Step(run, lambda: data.out, time.perf_counter() - start, data.x)


def _fused_captured(inputs: Inputs) -> Step:
    """On CUDA: the product and the fused kernel in one graph. Its random numbers are those of the seed that was captured."""
    import torch

    from utils.measure.graph_by_hand import Graph

    graph = Graph(inputs.device)
    start = time.perf_counter()
    static = inputs.x.clone()
    data = inputs.data(static, torch.empty_like(static))
    rest = tail(data, inputs.form)

    def both() -> None:
        torch.mm(static, inputs.w, out=data.x)
        rest()

    with graph.warm_up():
        for _ in range(WARM_UPS):
            both()
    with graph.capture():
        both()
    took = time.perf_counter() - start

    def run() -> None:
        static.copy_(inputs.x)
        graph.replay()

    return Step(run, lambda: data.out, took, data.x, graph.replay)


def _fused_listed(inputs: Inputs) -> Step:
    """On a CPU: the baked product and the C++ chain, one after the other in one C++ list."""
    import torch

    op_replay.why_not()
    op_record.ready()
    start = time.perf_counter()
    static = inputs.x.clone()
    with op_record.recording() as record:
        h = torch.mm(static, inputs.w)
    data = inputs.data(static, torch.empty_like(static), h)
    replay = op_replay.Replay(record.calls, op_replay.BAKED)
    replay.then(*tail(data, inputs.form).entry())
    took = time.perf_counter() - start

    def run() -> None:
        static.copy_(inputs.x)
        replay()

    return Step(run, lambda: data.out, took, data.x, lambda: replay())


def compiled(inputs: Inputs, mode: str | None = None) -> Step:
    """torch.compile of the block; `once_s` is its first calls, whatever was compiled before."""
    import torch

    module = as_module(inputs)
    start = time.perf_counter()
    made = torch.compile(module, dynamic=False, **({"mode": mode} if mode else {}))
    for _ in range(WARM_UPS):
        made(inputs.x)
    if inputs.device == "cuda":
        torch.cuda.synchronize()
    return kept(lambda: made(inputs.x), time.perf_counter() - start)


def as_module(inputs: Inputs):
    """The block as a module whose weights are its parameters: a compiler then knows that they stay where they are, and copies
    them at no step. Its code is its own."""
    import torch

    forward = _forward if inputs.form.draw else _forward_drawless
    module = type("Block", (torch.nn.Module,), {"forward": own_code(forward)})()
    module.w, module.b = (torch.nn.Parameter(t, requires_grad=False) for t in (inputs.w, inputs.b))
    return module


def _forward(self, x):
    return block(x, self.w, self.b)


def _forward_drawless(self, x):
    return drawless(x, self.w, self.b)


def said(step: Step, inputs: Inputs) -> str:
    """What is wrong with a step on a fresh input; "" when nothing is."""
    inputs.fresh()
    step.run()
    out = step.out()
    product = inputs.x @ inputs.w
    if step.product is None:
        return wrong_eager(inputs.form, inputs.data(inputs.x, out, product), out)
    off = float((step.product.float() - product.float()).abs().max())
    if off > 0.05:  # a few roundings of two-byte numbers around 1
        return f"a product is off by {off:.3g}"
    return wrong(inputs.form, inputs.data(inputs.x, out, step.product))


def blocks(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """ "rows": [{"size" ("small", "wide"), "way", "key", "step_us" (what one more step adds to a row of them), "host_us",
    "device_us" (CUDA), "bare_us" (a captured step without copying the input in, None for others), "gain" (eager's step
    over this one's), "once_s" (capture, or first calls), "wrong" (words, or "")}],
    "shapes" {size: [rows, side]}, "races" {size: ns}, "missing" {way: why}, "numbers": gains as "small_captured", "wide_both"
    (KEYS), the same without the copy as "small_both_bare", "small_eager", "wide_eager" (ns a step), "small_copy" (ns, copying
    the input in), "wrong", "aa_error" (small). The input is copied in by every captured way. About 5 s quick, and what compiling
    takes."""
    need(device, "the block")
    import torch

    rows, races, shapes, numbers, missing = [], {}, {}, {}, {}
    with settled(device) as notes, torch.no_grad():
        for at, (size, shape) in enumerate(SIZES.items()):
            bar = within(progress, 0.5 * at, 0.5)
            if bar:
                bar(0.0, f"the {size} block: capturing and compiling")
            inputs = Inputs(device, shape[device])
            lost: dict[str, str] = {}
            steps = steps_of(inputs, lost)
            missing |= {f"{way}, {size}": why for way, why in lost.items()}
            words = {way: said(step, inputs) for way, step in steps.items()}
            runs = {way: step.run for way, step in steps.items()}
            bare = {BARE.format(way): step.bare for way, step in steps.items() if step.bare}
            took, race_, extra = timed(device, runs, bare, inputs, quick, within(bar, 0.3, 0.7))
            races[size], shapes[size] = race_, list(shape[device])
            for way, step in steps.items():
                rows.append(
                    {
                        "size": size,
                        "way": way,
                        "key": KEYS.get(way, "eager"),
                        "step_us": took[way] * 1e-3,
                        "bare_us": took[BARE.format(way)] * 1e-3 if BARE.format(way) in took else None,
                        **extra[way],
                        "gain": took[EAGER] / took[way],
                        "once_s": step.once_s,
                        "wrong": words[way],
                    }
                )
            numbers |= {f"{size}_{KEYS[way]}": took[EAGER] / took[way] for way in steps if way in KEYS}
            for way in steps:
                if (name := BARE.format(way)) in took:
                    numbers[f"{size}_{KEYS[way]}_bare"] = took[EAGER] / took[name]
            numbers |= {f"{size}_eager": took[EAGER], f"{size}_copy": took["copy"]}
    wrongs = [f"{row['way']}, {row['size']}: {row['wrong']}" for row in rows if row["wrong"]]
    numbers |= {"wrong": float(len(wrongs)), "aa_error": races["small"].aa_error}
    notes += [usual_dtype(device), *wrongs, *(f"{way}: {why}" for way, why in missing.items())]
    return {"device": device, "rows": rows, "shapes": shapes, "races": races, "missing": missing, "numbers": numbers,
            "notes": notes}  # fmt: skip


def timed(
    device: str, runs: dict[str, Callable], bare: dict[str, Callable], inputs: Inputs, quick: bool, progress: Progress | None
) -> tuple[dict[str, float], Race, dict[str, dict]]:
    """(ns that one more step adds, the race with its A/A pair, and of each way what host and device take apart)."""
    import torch

    place = torch.empty_like(inputs.x)
    every = runs | bare | {"copy": lambda: place.copy_(inputs.x)}
    budget = {"blocks": 12 if quick else 40, "at_most_s": 2.0 if quick else 6.0}
    if device == "cpu":
        found = race(device, every, control=EAGER, progress=progress, **budget)
        return {way: found[way].ns for way in every}, found, {way: {"host_us": None, "device_us": None} for way in runs}
    took = steady(device, every, at_most_s=budget["at_most_s"], progress=within(progress, 0.0, 0.4))
    found = time_device(runs, device=device, control=EAGER, progress=within(progress, 0.4, 0.3), **budget)
    hosts = time_host(runs, device=device, control=EAGER, progress=within(progress, 0.7, 0.3), **budget)
    apart = {way: {"host_us": hosts[way].ns * 1e-3, "device_us": found[way].ns * 1e-3} for way in runs}
    return {way: took[way].ns for way in every}, found, apart
