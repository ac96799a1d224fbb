"""The price of `a + b` inside a program: after N other, really different ops, for a growing N.

The add is timed where it stands: N ops run, the clock is read, `c = a + b`, the clock is read again. The same program with
nothing between the two readings is timed beside it and taken off, so that the clock's own cost, in the same state of the
caches, is not charged to the add. Repeating one op alone keeps its code in the CPU's fast front end; a program does not.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import cycle, repeat

from utils.measure.stopwatch import interleave
from utils.measure.torch_threads import one_torch_thread
from utils.model.readings import Race, Reading

Progress = Callable[[float, str], None]
AFTER = (1, 2, 5, 10, 20, 40, 79)
NOTHING, ADDS, OPS = "after nothing", "after adds of other tensors", "after other ops"
clock = time.perf_counter_ns


@one_torch_thread()
def in_program_curve(
    device: str = "cpu",
    grad: bool = False,
    *,
    after: tuple[int, ...] = AFTER,
    blocks: int = 40,
    block_ms: float = 3.0,
    seed: int | None = None,
    progress: Progress | None = None,
) -> tuple[tuple[int, Reading], ...]:
    """(N, price of `c = a + b` after N other ops in ns) for each N of `after`, at most 79; all in one interleaved race.

    On CUDA the queue is emptied before each pass of the program, so that the host never waits for the device.
    """
    import torch

    ops = other_ops(device, grad)
    if max(after) > len(ops):
        raise ValueError(f"there are {len(ops)} other ops, so N cannot be {max(after)}")
    a, b = (torch.rand(1, device=device).requires_grad_(grad) for _ in range(2))
    synchronise = torch.cuda.synchronize if device == "cuda" else _nothing
    arms, calls = {}, {}
    for n in after:
        arms[f"after {n}"] = _timed_add(ops, n, a, b, synchronise)
        arms[f"clock after {n}"] = _timed_nothing(ops, n, synchronise)
        calls[f"after {n}"] = calls[f"clock after {n}"] = _passes(ops, n, synchronise, block_ms)
    readings = interleave(arms, blocks=blocks, calls=calls, seed=seed, progress=progress, at_most_s=20.0)
    curve = []
    for n in after:
        r = readings[f"after {n}"].minus(readings[f"clock after {n}"].ns)
        curve.append((n, Reading(f"after {n} other ops", r.samples, r.calls_per_block)))
    return tuple(curve)


@one_torch_thread()
def code_or_data(
    device: str = "cpu", count: int = max(AFTER), *, blocks: int = 40, block_ms: float = 3.0, progress: Progress | None = None
) -> Race:
    """One race that tells other code from other data: `c = a + b` in ns after NOTHING, after `count` adds of other tensors
    (ADDS: the same code, other data) and after `count` other ops (OPS, which also run twice as the A/A pair)."""
    import torch

    a, b = torch.rand(1, device=device), torch.rand(1, device=device)
    synchronise = torch.cuda.synchronize if device == "cuda" else _nothing
    programs = {NOTHING: [], ADDS: more_adds(device)[:count], OPS: other_ops(device)[:count]}
    programs[f"{OPS} (again)"] = programs[OPS]
    arms, calls = {}, {}
    for name, ops in programs.items():
        n = len(ops)
        arms[name], arms[f"clock {name}"] = _timed_add(ops, n, a, b, synchronise), _timed_nothing(ops, n, synchronise)
        calls[name] = calls[f"clock {name}"] = min(1000, _passes(ops, n, synchronise, block_ms))
    calls[f"{OPS} (again)"] = calls[f"clock {OPS} (again)"] = calls[OPS]
    readings = interleave(arms, blocks=blocks, calls=calls, progress=progress, at_most_s=20.0)
    net = {name: readings[name].minus(readings[f"clock {name}"].ns) for name in programs}
    return Race(net, control=(OPS, f"{OPS} (again)"), device=device, block_ms=block_ms)


def _nothing() -> None:
    """On CPU there is no queue to empty."""


def _programs(ops: list, count: int):
    """Endlessly: `count` neighbouring ops, each time from another place in the ring of all ops.

    A block repeats one of them, as a program repeats itself; what stands right before the add differs from block to block, so
    that no neighbour makes the price.
    """
    ring = ops + ops
    for start in cycle(31 * k % (len(ops) or 1) for k in range(len(ops) or 1)):
        yield ring[start : start + count]


def _timed_add(ops, count, a, b, synchronise):
    programs = _programs(ops, count)

    def arm(n: int, a=a, b=b) -> float:
        took, program = 0, next(programs)
        for _ in repeat(None, n):
            synchronise()
            for op in program:
                op()
            start = clock()
            c = a + b  # noqa: F841
            took += clock() - start
        return took * 1e-9

    return arm


def _timed_nothing(ops, count, synchronise):
    programs = _programs(ops, count)

    def arm(n: int) -> float:
        took, program = 0, next(programs)
        for _ in repeat(None, n):
            synchronise()
            for op in program:
                op()
            start = clock()
            took += clock() - start
        return took * 1e-9

    return arm


def _passes(ops, count, synchronise, block_ms: float) -> int:
    """How often the program runs in a block of about `block_ms`, at least 8 times so that a block averages."""
    run = _timed_nothing(ops, count, synchronise)
    run(20)
    start = clock()
    run(20)
    return max(8, round(block_ms * 1e6 * 20 / (clock() - start)))


def more_adds(device: str = "cpu", grad: bool = False) -> list[Callable[[], object]]:
    """79 adds of other tensors: as many calls as `other_ops`, other data, but the code of the add that is timed."""
    import torch

    def one_more() -> Callable[[], object]:
        x, y = (torch.rand(1, device=device).requires_grad_(grad) for _ in range(2))
        return lambda: x + y

    return [one_more() for _ in range(max(AFTER))]


def other_ops(device: str = "cpu", grad: bool = False) -> list[Callable[[], object]]:
    """79 different ops on small tensors, none of them an add, in an order that keeps relatives apart. None reads a value back."""
    import torch

    x, y = (torch.rand(8, 8, device=device).requires_grad_(grad) for _ in range(2))
    v = torch.rand(8, device=device).requires_grad_(grad)
    i = torch.randint(0, 8, (8,), device=device)
    m = torch.rand(8, 8, device=device) > 0.5
    image = torch.rand(1, 2, 8, 8, device=device).requires_grad_(grad)
    weight = torch.rand(2, 2, 3, 3, device=device).requires_grad_(grad)
    f = torch.nn.functional
    named: list[Callable[[], object]] = [
        lambda: x * y,
        lambda: x @ y,
        lambda: x.exp(),
        lambda: x.sum(),
        lambda: torch.cat((x, y)),
        lambda: f.relu(x),
        lambda: x.softmax(-1),
        lambda: x.t(),
        lambda: torch.where(m, x, y),
        lambda: x.argmax(-1),
        lambda: f.layer_norm(x, (8,)),
        lambda: x.reshape(4, 16),
        lambda: x - y,
        lambda: x.cumsum(0),
        lambda: f.gelu(x),
        lambda: x.index_select(0, i),
        lambda: torch.stack((x, y)),
        lambda: x.mean(0),
        lambda: x < y,
        lambda: x.sqrt(),
        lambda: x.unsqueeze(0),
        lambda: f.linear(x, y, v),
        lambda: x.clamp(0.2, 0.8),
        lambda: x.sort(-1),
        lambda: x.tanh(),
        lambda: x.permute(1, 0),
        lambda: x.var(),
        lambda: x.masked_fill(m, 0.0),
        lambda: f.conv2d(image, weight),
        lambda: x / (y + 1.0),
        lambda: x.flatten(),
        lambda: x.amax(-1),
        lambda: x.sigmoid(),
        lambda: torch.outer(v, v),
        lambda: x.expand(2, 8, 8),
        lambda: x.log1p(),
        lambda: f.avg_pool2d(image, 2),
        lambda: x.prod(-1),
        lambda: x.neg(),
        lambda: torch.maximum(x, y),
        lambda: x.gather(0, i.expand(8, 8)),
        lambda: x.abs(),
        lambda: x.select(0, 1),
        lambda: f.silu(x),
        lambda: x.norm(),
        lambda: x.tril(),
        lambda: x.sin(),
        lambda: torch.einsum("ij,jk->ik", x, y),
        lambda: x.narrow(0, 1, 4),
        lambda: x.pow(3),
        lambda: f.embedding(i, x),
        lambda: x.roll(1, 0),
        lambda: x.log_softmax(-1),
        lambda: x.floor(),
        lambda: x.clone(),
        lambda: f.max_pool2d(image, 2),
        lambda: x.flip(0),
        lambda: x.rsqrt(),
        lambda: torch.lerp(x, y, 0.3),
        lambda: x.topk(3),
        lambda: x.to(torch.float64),
        lambda: f.leaky_relu(x),
        lambda: x.diagonal(),
        lambda: x.logsumexp(-1),
        lambda: torch.addcmul(x, x, y),
        lambda: x.repeat(2, 1),
        lambda: x.cos(),
        lambda: f.mse_loss(x, y),
        lambda: x.split(4),
        lambda: x.sign(),
        lambda: x.std(-1),
        lambda: f.pad(x, (1, 1)),
        lambda: x.square(),
        lambda: torch.atan2(x, y),
        lambda: x.unfold(0, 2, 2),
        lambda: f.softplus(x),
        lambda: x.reciprocal(),
        lambda: torch.bmm(x.unsqueeze(0), y.unsqueeze(0)),
        lambda: x.erf(),
    ]
    return named
