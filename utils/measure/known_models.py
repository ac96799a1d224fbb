"""Models for the scoreboard: GPT-2 and a ResNet as others wrote them, where their libraries are there, and a small transformer.

Random weights, nothing is downloaded. And a second count of what one of them runs, by torch's profiler, to hold the board's
against: the board watches ops as they are dispatched, or on a GPU reads the profiler's trace; here its events are asked instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from importlib import import_module

from utils.measure import alloc_trace, language_model
from utils.measure.device_clock import MeasurementError
from utils.measure.either_clock import Progress, need, within
from utils.measure.record import in_words
from utils.measure.scoreboard import Board, scoreboard

GPT2, RESNET, SMALL = "GPT-2 (transformers)", "ResNet (timm)", "a small transformer"
NEEDS = {GPT2: "transformers", RESNET: "timm"}
SIZE = language_model.Size("small", width=128, layers=4, heads=4, vocabulary=1000, batch=1, tokens=32)

Model = tuple[Callable, tuple]  # a callable that gives a tensor, and its inputs


def available() -> dict[str, str]:
    """Each model's name, and why it cannot be had here: "" where it can. Imports what there is, which takes seconds."""
    out = {}
    for name, library in NEEDS.items():
        try:
            import_module(library)
            out[name] = ""
        except Exception as error:  # not installed, or built for another torch: each fails in its own way
            why = f"{library} is not installed" if isinstance(error, ModuleNotFoundError) and error.name == library else ""
            out[name] = why or f"{library} does not load: {in_words(error)}"
    return out | {SMALL: ""}


def make(name: str, device: str = "cpu") -> Model:
    """(a callable that runs the model forward without gradients, its inputs). On a CPU the others' models are small ones of
    their kind. KeyError for another name; MeasurementError, in words, where it cannot be had."""
    makers = {GPT2: _gpt2, RESNET: _resnet, SMALL: _small}
    try:
        return makers[name](device)
    except (ImportError, RuntimeError, OSError) as error:
        raise MeasurementError(f"{name} cannot be had here: {in_words(error)}") from error


def pick(device: str = "cpu") -> tuple[str, Model]:
    """The first of GPT-2, ResNet and the small transformer that can be had, with its name."""
    for name, why in available().items():
        if not why:
            try:
                return name, make(name, device)
            except MeasurementError:
                continue
    raise MeasurementError("no model can be had here")  # not even torch's own layers


def _without_grad(model, result: Callable = lambda out: out) -> Callable:
    import torch

    def forward(x):
        with torch.no_grad():
            return result(model(x))

    return forward


def _gpt2(device: str) -> Model:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    small = {"n_layer": 4, "n_head": 4, "n_embd": 128, "vocab_size": 1000, "bos_token_id": 0, "eos_token_id": 0}
    config = GPT2Config(**(small if device == "cpu" else {}))
    model = GPT2LMHeadModel(config).to(device).eval()
    ids = torch.randint(config.vocab_size, (1, 32 if device == "cpu" else 128), device=device)
    return _without_grad(model, lambda out: out.logits), (ids,)


def _resnet(device: str) -> Model:
    import timm
    import torch

    name, side, batch = ("resnet18", 64, 1) if device == "cpu" else ("resnet50", 224, 8)
    model = timm.create_model(name, pretrained=False).to(device).eval()
    return _without_grad(model), (torch.randn(batch, 3, side, side, device=device),)


def _small(device: str) -> Model:
    import torch

    model = language_model.model(SIZE, device, torch.float32)
    return _without_grad(model), (language_model.tokens(SIZE, device),)


# ------------------------------------------------------------------------------------------------ the second count


def by_profiler(fn: Callable, inputs: tuple, board: Board) -> int:
    """What one call runs by the profiler's events: kernels on a GPU, on a CPU calls of the ops that compute.

    On a CPU an op counts where the profiler shows it outermost under a name that the board knows (an op made of others, such as
    a linear layer, is not among those: its parts are). MeasurementError where the profiler shows nothing.
    """
    import torch
    from torch.profiler import ProfilerActivity, profile

    alloc_trace.quiet_profiler()
    on_gpu = board.device == "cuda"
    fn(*inputs)
    if on_gpu:
        torch.cuda.synchronize()
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    with profile(activities=activities) as seen:
        fn(*inputs)
        if on_gpu:
            torch.cuda.synchronize()
    events = seen.events()
    found = (
        _kernels(events) if on_gpu else sum(_outermost(events, {op.op.split(".")[0] for op in board.work.ops}, board).values())
    )
    if not found:
        raise MeasurementError("the profiler of this torch shows nothing of the call")
    return found


def _kernels(events) -> int:
    """Events of the device that are no copy and no fill, and no mark of a stretch of the host's."""
    from torch.autograd import DeviceType

    on_device = [e for e in events if e.device_type == DeviceType.CUDA and not getattr(e, "is_user_annotation", False)]
    return sum(not e.name.startswith(("Memcpy", "Memset")) for e in on_device)


def _outermost(events, names: Collection[str], board: Board) -> Counter:
    """Calls of ops that compute, by name, each counted where its name is seen first on the way inwards."""
    computing = {op.op.split(".")[0] for op in board.work.computing}
    found: Counter = Counter()
    for event in events:
        short = event.name.removeprefix("aten::")
        if short in names and short in computing and not _inside(event, names):
            found[short] += 1
    return found


def _inside(event, names: Collection[str]) -> bool:
    above = event.cpu_parent
    while above is not None:
        if above.name.removeprefix("aten::") in names:
            return True
        above = above.cpu_parent
    return False


# ------------------------------------------------------------------------------------------------ the part of the study


def models(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """The boards of every model that can be had (quick: of the small transformer alone):

    "rows": [a `Board` as plain data, with "profiled" (the same launches by the profiler, None where it failed)], "missing"
    {name: why}, "numbers": "models", "agree" (1.0 where every launch was counted twice alike), "launches" and "profiled" (the
    small transformer's), "worst" (the largest difference, over the count). About 4 s, and 5 for the roofs once a process.
    MeasurementError without the device.
    """
    need(device, "models on the scoreboard")
    names = {SMALL: ""} if quick else available()
    rows, missing = [], {name: why for name, why in names.items() if why}
    todo = [name for name, why in names.items() if not why]
    for at, name in enumerate(todo):
        try:
            fn, inputs = make(name, device)
            bar = within(progress, at / len(todo), 1 / len(todo))
            found = scoreboard(fn, *inputs, name=name, device=device, at_most_s=1.0, progress=bar)
        except MeasurementError as error:
            missing[name] = str(error)
            continue
        try:
            profiled = by_profiler(fn, inputs, found)
        except (MeasurementError, RuntimeError) as error:
            missing[f"{name}, by the profiler"] = in_words(error)
            profiled = None
        rows.append(found.to_dict() | {"profiled": profiled})
    if not rows:
        raise MeasurementError(f"no model could be put on the board: {missing}")
    return {"device": device, "rows": rows, "missing": missing, "numbers": _numbers(rows),
            "notes": [f"{name}: {why}" for name, why in missing.items()]}  # fmt: skip


def _numbers(rows: list[dict]) -> dict[str, float]:
    twice = [row for row in rows if row["profiled"] and row["launches"]]
    out = {"models": float(len(rows))}
    if twice:
        off = [abs(row["launches"] - row["profiled"]) / row["profiled"] for row in twice]
        out |= {"agree": float(not any(off)), "worst": max(off)}
    small = next((row for row in twice if row["name"] == SMALL), None)
    return out | ({"launches": float(small["launches"]), "profiled": float(small["profiled"])} if small else {})
