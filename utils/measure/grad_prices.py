"""What autograd costs in time and instructions: forward with and without it, a node more in backward, a result dropped."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace

from utils.measure import small_models
from utils.measure.memory_of_modes import GRAD, INFERENCE, NO_GRAD, modes
from utils.measure.stopwatch import time_host
from utils.model.readings import Race, Reading

Progress = Callable[[float, str], None]

# (model, batch), the last of each so large that the arithmetic sets the time of a step.
STEPS = {
    "cpu": ((small_models.MLP, 1), (small_models.MLP, 64), (small_models.MLP, 1024), (small_models.WIDE, 512)),
    "cuda": ((small_models.MLP, 1), (small_models.MLP, 256), (small_models.MLP, 4096), (small_models.WIDE, 8192)),
}
FEW, MANY = 10, 60  # ops of the two chains whose difference is the price of one more
OPS = ("add", "mul")
PLAIN, FORWARD, BACKWARD = PASSES = ("forward under no_grad", "forward", "backward")
KEPT, DROPPED, HELD = "result kept", "result dropped", "result dropped, an older one kept"


# ------------------------------------------------------------------------------------------------ three modes


def mode_races(device: str = "cpu", *, at_most_s: float = 3.0, progress: Progress | None = None) -> dict[str, Race]:
    """`mode_race` of every step of STEPS by name ("MLP, batch 1"), each for about `at_most_s` seconds at most."""
    steps, found = STEPS[device], {}
    for at, (model, size) in enumerate(steps):
        part = None if progress is None else _part(progress, at, len(steps))
        found[f"{model}, batch {size}"] = mode_race(device, model, size, progress=part, at_most_s=at_most_s)
    return found


def mode_race(
    device: str, model: str, size: int, *, blocks: int = 40, progress: Progress | None = None, at_most_s: float | None = 60.0
) -> Race:
    """One inference of a small model on a batch of `size`: with grad, under no_grad, in inference_mode (ns a step).

    The mode is entered outside the clock. On CUDA a step ends when its result is there: each call waits for the device.
    """
    f = _step(device, small_models.make(model, device), small_models.batch(model, size, device))
    inside = {name: enter for name, enter in modes().items() if name != GRAD}
    variants = dict.fromkeys((GRAD, NO_GRAD, INFERENCE), f)
    race = time_host(variants, blocks=blocks, inside=inside, progress=progress, at_most_s=at_most_s)
    return replace(race, device=device)  # the host's clock, with the device's work in it


def _step(device: str, model, x) -> Callable:
    import torch

    def step():
        return model(x)

    def step_to_its_end():
        result = model(x)
        torch.cuda.synchronize()
        return result

    return step_to_its_end if device == "cuda" else step


def _part(progress: Progress, at: int, of: int) -> Progress:
    return lambda done, text: progress((at + done) / of, text)


def page_faults(device: str = "cpu", steps: int = 10) -> dict[str, dict[str, float]]:
    """Pages that the system had to hand out in one step, by step of STEPS and mode: memory that a forward cannot use again is
    asked for anew. Linux and macOS; of the host's memory only, so on CUDA it says little."""
    import resource

    found = {}
    for name, size in STEPS[device]:
        f = _step(device, small_models.make(name, device), small_models.batch(name, size, device))
        found[f"{name}, batch {size}"] = {mode: _faults(f, enter, steps, resource) for mode, enter in modes().items()}
    return found


def _faults(f: Callable, enter: Callable, steps: int, resource) -> float:
    kept = None
    with enter():
        for _ in range(5):
            kept = f()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(steps):
            kept = f()
        after = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    del kept
    return (after - before) / steps


def saved_share(race: Race, mode: str = INFERENCE) -> float:
    """The share of a step with grad that a mode saves: 0.2 for a fifth; 0 where no difference is seen."""
    found = race.difference(mode, GRAD)
    return found.ns / race[GRAD].ns if found.seen else 0.0


# ------------------------------------------------------------------------------------------------ one node more


def chain_race(device: str = "cpu", *, blocks: int = 30, progress: Progress | None = None) -> Race:
    """Chains of FEW and of MANY adds and muls with a tensor that needs no gradient: forward without grad, with it, backward (ns).

    Backward runs on a graph that is kept, so it frees nothing and adds nothing into a leaf.
    """
    import torch

    b = torch.rand(1, device=device) + 0.5
    gradient = torch.rand(1, device=device)
    variants, inside = {}, {}
    for op, f in {"add": operator.add, "mul": operator.mul}.items():
        for n in (FEW, MANY):
            a = torch.rand(1, device=device).requires_grad_()
            result = _chain(f, a, b, n)
            variants[arm(op, PLAIN, n)] = _forward(f, a, b, n)
            inside[arm(op, PLAIN, n)] = torch.no_grad
            variants[arm(op, FORWARD, n)] = _forward(f, a, b, n)
            variants[arm(op, BACKWARD, n)] = _backward(result, a, gradient)
    return time_host(variants, device=device, blocks=blocks, inside=inside, control=arm("add", FORWARD, MANY), progress=progress)


def arm(op: str, which: str, n: int) -> str:
    """The name of one arm of the chain race: "add, backward, 60"."""
    return f"{op}, {which}, {n}"


def _chain(f: Callable, a, b, n: int):
    c = a
    for _ in range(n):
        c = f(c, b)
    return c


def _forward(f: Callable, a, b, n: int) -> Callable:
    return lambda: _chain(f, a, b, n)


def _backward(result, leaf, gradient) -> Callable:
    import torch

    return lambda: torch.autograd.grad(result, leaf, gradient, retain_graph=True)


def per_op(race: Race) -> Race:
    """The chain race as prices of one op more ("add, backward"), its A/A pair from the chain that ran twice."""
    again = race.control[1]
    few = race[arm("add", FORWARD, FEW)]
    readings = {f"{op}, {which}": _slope(f"{op}, {which}", *_ends(race, op, which)) for op in OPS for which in PASSES}
    control = (f"add, {FORWARD}", f"add, {FORWARD} (again)")
    readings[control[1]] = _slope(control[1], few, race[again])
    notes = (f"one op more: the slope between chains of {FEW} and {MANY}",)
    return Race(
        readings, control, device=race.device, block_ms=race.block_ms, timer_ns=race.timer_ns, loop_ns=race.loop_ns, notes=notes
    )


def _ends(race: Race, op: str, which: str) -> tuple[Reading, Reading]:
    return race[arm(op, which, FEW)], race[arm(op, which, MANY)]


def _slope(name: str, few: Reading, many: Reading) -> Reading:
    """The price of one op more, block by block: what both chains pay once cancels."""
    slopes = ((high - low) / (MANY - FEW) for low, high in zip(few.samples, many.samples, strict=True))
    return Reading(name, tuple(slopes), many.calls_per_block * (MANY - FEW))


def start_of_backward(race: Race, op: str = "add") -> float:
    """What a backward costs before its first node, in ns: the shorter chain's backward less its nodes."""
    few, many = _ends(race, op, BACKWARD)
    return few.ns - FEW * _slope(op, few, many).ns


# ------------------------------------------------------------------------------------------------ the life of a result


def result_race(device: str = "cpu", *, blocks: int = 40, progress: Progress | None = None) -> Race:
    """`a + b` of one element with grad: the result kept till the next, dropped at once, and dropped while an older result of the
    same inputs lives, whose graph holds their accumulators (ns). Each arm has inputs of its own: any graph would hold theirs.

    A Python object for an accumulator would hold it as well, and change the price: on torch 2.13 a node that Python knows takes
    the GIL whenever a first or last C++ handle comes or goes.
    """
    import torch

    pairs = [[torch.rand(1, device=device).requires_grad_() for _ in range(2)] for _ in range(3)]
    older = pairs[2][0] + pairs[2][1]

    def dropping(a, b) -> Callable:
        def dropped() -> None:
            a + b

        return dropped

    def keeping(a, b) -> Callable:
        return lambda: a + b

    variants = {KEPT: keeping(*pairs[0]), DROPPED: dropping(*pairs[1]), HELD: dropping(*pairs[2])}
    race = time_host(variants, device=device, blocks=blocks, progress=progress)
    del older
    return race


def accumulators(tensors) -> list:
    """The gradient accumulators of leaf tensors; where none lives, asking makes one."""
    from torch.autograd.graph import get_gradient_edge

    return [get_gradient_edge(t).node for t in tensors]


def accumulator_lives(device: str = "cpu") -> dict[str, bool]:
    """Whether the accumulator of `a` is the same one afterwards: for each way to treat the result of `a + b`. It is marked."""
    import torch

    def marked(a) -> bool:
        (node,) = accumulators([a])
        was = bool(node.metadata.get("marked"))
        node.metadata["marked"] = True
        return was

    found = {}
    for way in (KEPT, DROPPED, HELD):
        a, b = (torch.rand(1, device=device).requires_grad_() for _ in range(2))
        result = a + b
        older = a + b if way == HELD else None
        marked(a)
        if way != KEPT:
            del result
        found[way] = marked(a)
        del older
    return found


# ------------------------------------------------------------------------------------------------ instructions

LEAVES = "a = torch.rand(1).requires_grad_()\nb = torch.rand(1).requires_grad_()"
MODEL = (
    "from utils.measure import small_models\n"
    "model = small_models.make(small_models.MLP)\n"
    "x = small_models.batch(small_models.MLP, {})"
)
COUNTED = {  # what is counted in each mode: code, set-up, and at most so many rounds
    "a + b": ("c = a + b", LEAVES, 500),
    "a * b": ("c = a * b", LEAVES, 500),
    **{f"{small_models.MLP}, batch {n}": ("y = model(x)", MODEL.format(n), 4) for n in (1, 16)},
}
ENTER = {
    GRAD: ("", ""),
    NO_GRAD: ("mode = torch.no_grad()\nmode.__enter__()", "mode.__exit__(None, None, None)"),
    INFERENCE: ("mode = torch.inference_mode()\nmode.__enter__()", "mode.__exit__(None, None, None)"),
}


def instructions(progress: Progress | None = None) -> dict[str, float]:
    """Instructions of one execution on this CPU, by valgrind: `c = a + b`, `c = a * b` and the MLP's step in each mode
    ("a + b, no_grad"), and the add with its result dropped, an older one kept or not. About two minutes.

    Raises CallgrindError, in words, where nothing can be counted.
    """
    from utils.measure.callgrind import Statement, count

    statements = [
        Statement(f"{name}, {mode}", code, "\n".join(filter(None, [setup, enter])), teardown=leave, most_rounds=rounds)
        for mode, (enter, leave) in ENTER.items()
        for name, (code, setup, rounds) in COUNTED.items()
    ]
    statements.append(Statement(f"a + b, {DROPPED}", "a + b", LEAVES))
    statements.append(Statement(f"a + b, {HELD}", "a + b", f"{LEAVES}\nolder = a + b"))
    return {name: tree.total for name, tree in count(statements, progress).items()}


def saving_two(counted: dict[str, float]) -> float:
    """What saving two tensors takes: what grad adds to a product, which saves both inputs, less what it adds to a sum, which
    saves none (instructions). Both make one node with two edges."""
    added = {op: counted[f"{op}, {GRAD}"] - counted[f"{op}, {NO_GRAD}"] for op in ("a + b", "a * b")}
    return added["a * b"] - added["a + b"]
