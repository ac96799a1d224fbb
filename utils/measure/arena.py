"""The toy block in an arena that was planned before: every result is given its place, nothing is allocated.

The ops are spelled so that each can be given its result (`out=`); op by op they are those of the block, dropout's mask included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from utils.measure.alloc_trace import trace
from utils.measure.block_memory import SCALARS, Toy
from utils.measure.either_clock import Progress, need, settled
from utils.measure.toy_block import DROPPED
from utils.model import memory_plan

SMALL = {"cpu": (256, 256), "cuda": (4096, 1024)}  # rows, side of the block whose plans are run
OFFLINE = ("best fit", "by size", "by area", "by time")
ONLINE = "first fit"
LAYER_BATCH = 4


# ------------------------------------------------------------------------------------------------ plans of real traces


def arena(device: str = "cpu", progress: Progress | None = None, *, quick: bool = False) -> dict:
    """Arenas for what was traced, planner by planner, beside their lower bound, and the block run in some of them:

    "programs": {name: {"buffers": [[size, start, end], …], "plans": {planner: {"offsets": […], "size"}}}}, "rows": [{"program",
    "buffers", "sum", "bound" (peak), "planner", "size", "over" (size over bound)}], "numbers": by program ("block", "training",
    "layer") "…_best" and "…_by_size", "…_best_fit", "…_first_fit" (over the bound), "…_sum" (over the bound); "same" (1.0: the
    block in its planned arena gives the very numbers of the block op by op), "overlapped" (1.0: with one buffer laid
    over another that is still needed, it does not), "requests_before", "requests_in_arena" (blocks taken by a pass). About 3 s.
    """
    need(device, "an arena")
    with settled(device) as notes:
        toy = Toy(device, SMALL[device])
        programs = {
            "block": ("the block, forward", toy.forward),
            "training": ("the block, forward and backward", toy.training),
            "layer": ("a transformer layer, forward and backward", layer_step(device)),
        }
        rows, shown, numbers = [], {}, {}
        for at, (short, (name, f)) in enumerate(programs.items()):
            if progress:
                progress(at / 4, name)
            f()
            found = trace(f, device).at_least(SCALARS)
            buffers = found.buffers()
            bound, everything = memory_plan.peak(buffers), memory_plan.total(buffers)
            plans = {planner: plan(buffers) for planner, plan in memory_plan.PLANNERS.items()}
            for planner, plan in plans.items():
                memory_plan.validate(buffers, plan.offsets)
                rows.append(
                    {"program": name, "buffers": len(buffers), "sum": everything, "bound": bound}
                    | {"planner": planner, "size": plan.size, "over": plan.size / bound}
                )
            shown[name] = {
                "buffers": [[b.size, b.start, b.end] for b in buffers],
                "ops": [block.op for block in found.blocks],
                "plans": {p: {"offsets": [plan.offsets[b.id] for b in buffers], "size": plan.size} for p, plan in plans.items()},
            }
            numbers |= {
                f"{short}_best": min(plans[p].size for p in OFFLINE) / bound,
                f"{short}_by_size": plans["by size"].size / bound,
                f"{short}_best_fit": plans["best fit"].size / bound,
                f"{short}_first_fit": plans[ONLINE].size / bound,
                f"{short}_sum": everything / bound,
            }
        numbers |= _tried(toy)
        notes = [*notes, f"{toy.dtype}, sizes rounded up to {memory_plan.ALIGN} bytes"]
    return {"device": device, "rows": rows, "programs": shown, "numbers": numbers, "notes": notes}


def layer_step(device: str) -> Callable:
    """A training step of a transformer layer, whose gradients are handed out: many buffers of many sizes."""
    import torch

    from utils.measure import small_models

    model, x = small_models.make(small_models.BLOCK, device), small_models.batch(small_models.BLOCK, LAYER_BATCH, device)
    parameters = list(model.parameters())

    def step():
        y = model(x)
        return y, torch.autograd.grad(y.square().mean(), parameters)

    return step


def _tried(toy: Toy) -> dict[str, float]:
    """The block op by op and in its arena with the same draws: the same numbers, and in an arena too small others."""
    import torch

    with torch.no_grad():
        spelled(toy)  # what a first call takes for good
        found = trace(lambda: spelled(toy), toy.device).at_least(SCALARS)
        buffers = found.buffers()
        plan = memory_plan.by_size(buffers)
        places = [plan.offsets[b.id] for b in buffers]
        over = [*places[:3], places[2], *places[4:]]  # the mask is drawn over the GELU that it is to be multiplied with
        inside, squeezed = in_arena(toy, places), in_arena(toy, over)

        def drawn(f: Callable):
            torch.manual_seed(7)
            return f().clone()

        want = drawn(lambda: spelled(toy))
        same, wrong = bool(torch.equal(want, drawn(inside))), not torch.equal(want, drawn(squeezed))
        before, during = (
            len(trace(f, toy.device).at_least(SCALARS).blocks) for f in (lambda: spelled(toy), _and_one(inside, toy.device))
        )
    return {"same": float(same), "overlapped": float(wrong), "requests_before": float(before), "requests_in_arena": during - 1.0}


def _and_one(f: Callable, device: str) -> Callable:
    """`f`, and one block taken after it, so that a trace of it is never empty."""
    import torch

    return lambda: (f(), torch.empty(SCALARS * 4, dtype=torch.uint8, device=device))


# ------------------------------------------------------------------------------------------------ running in an arena


def spelled(toy: Toy):
    """The block forward, op by op as torch's CPU runs it: dropout is a mask, drawn, scaled, and a product."""
    import torch
    import torch.nn.functional as F

    h = toy.x @ toy.w
    h = h + toy.b
    g = F.gelu(h)
    del h
    mask = torch.empty_like(g).bernoulli_(1 - DROPPED).div_(1 - DROPPED)
    d = g * mask
    del g, mask
    return toy.x + d


def in_arena(toy: Toy, places: Sequence[int]) -> Callable:
    """The same with its six results at these offsets (bytes) of one arena; the result lies in the arena too."""
    import torch

    rows, side = toy.x.shape
    arena = torch.empty(max(places) + toy.activation, dtype=torch.uint8, device=toy.device)
    h, hb, g, mask, d, y = (arena[p : p + toy.activation].view(toy.x.dtype).view(rows, side) for p in places)
    x, w, b, gelu = toy.x.detach(), toy.w.detach(), toy.b.detach(), torch.ops.aten.gelu.out

    def run():
        torch.mm(x, w, out=h)
        torch.add(h, b, out=hb)
        gelu(hb, out=g)
        mask.bernoulli_(1 - DROPPED).div_(1 - DROPPED)
        torch.mul(g, mask, out=d)
        return torch.add(x, d, out=y)

    return run
