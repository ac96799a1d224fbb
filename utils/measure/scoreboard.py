"""The scoreboard: any callable counted, timed and judged. `scoreboard(fn, *inputs)` says what limits it and what could help.

Counted from shapes: ops, FLOPs, bytes op by op and as one kernel would move them (`intensity`). Timed: the step on the wall
clock, and on a GPU what the host needs to issue it. Seen by the profiler on a GPU: kernels, how long the device was busy, where
the host waited. On a CPU one thread is host and device: its host part is an estimate, the number of ops that compute times the
price of an add of one element in the same race, and read-outs cost nothing there but are listed: on a GPU each would wait.
What torch.compile made is never watched, or it would run op by op from then on: its launches and bytes are read from the code it
generates, its FLOPs counted in what it was written as. Pass it itself: inside another function it is not recognised.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from utils.measure import alloc_trace, generated_kernels, intensity, live_storages, profiled, seams
from utils.measure.device_clock import MeasurementError
from utils.measure.either_clock import Progress, machine_name, need, race, settled, within
from utils.measure.quick_roofs import quick_roofs
from utils.measure.wall_arms import issuing, until_idle
from utils.model import traces
from utils.model.limits import Facts, Roofs, Verdict, judge
from utils.model.readings import Race

DTYPE = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}
READ_OUTS = ("_local_scalar_dense", "nonzero", "_unique2", "equal", "is_nonzero", "masked_select", "allclose")
WHOLE, HOST, ONE = "the step", "issued only", "one small add"


@dataclass(frozen=True)
class Board:
    """What was found of one callable. Times in ns, memory in bytes.

    `launches`: kernels by the profiler on a GPU (None where it could not start), else ops that compute; `ops` the latter on both.
    `peak`: memory that the step needs beyond what was there, at most; `requested` the same before the allocator rounds up (on a
    GPU). `device_ns`: busy time on a GPU; on a CPU the step less the host's estimate. `read_outs`: ops after which the host knows
    a value, each with its number; `waits`: synchronising calls seen by the profiler. `work`: op by op. `seen`: the trace.
    `generated`: the launches of compiled code, None for a callable that is not compiled or whose code cannot be read.
    """

    name: str
    device: str
    machine: str
    dtype: str
    work: intensity.Work
    peak: int
    requested: int | None
    race: Race
    facts: Facts
    verdict: Verdict
    roofs: Roofs
    read_outs: dict[str, int]
    waits: dict[str, int]
    launches: int | None
    seen: traces.Seen | None
    notes: tuple[str, ...] = ()
    generated: tuple[generated_kernels.Launch, ...] | None = None

    @property
    def ops(self) -> int:
        return len(self.work.computing if self.generated is None else self.generated)

    @property
    def bytes(self) -> int:
        """What its launches move, each by itself."""
        return self.work.bytes if self.generated is None else sum(launch.bytes for launch in self.generated)

    def to_dict(self) -> dict:
        """As plain JSON: what a study keeps of it."""
        return {
            "name": self.name,
            "device": self.device,
            "dtype": self.dtype,
            "launches": self.launches,
            "ops": self.ops,
            "bytes": self.bytes,
            "least_bytes": self.work.least_bytes,
            "flops": self.work.flops,
            "unknown": list(self.work.unknown),
            "peak": self.peak,
            "requested": self.requested,
            "step_ns": self.facts.step_ns,
            "host_ns": self.facts.host_ns,
            "device_ns": self.facts.device_ns,
            "wait_ns": self.facts.wait_ns,
            "read_outs": self.read_outs,
            "waits": self.waits,
            "verdict": self.verdict.kind,
            "reason": self.verdict.reason,
            "cures": [{"name": c.name, "best_ns": c.best_ns} for c in self.verdict.cures],
            "roofs": {"gbps": self.roofs.gbps, "products": self.roofs.products, "vector": self.roofs.vector},
            "aa_error": self.race.aa_error,
            "notes": list(self.notes),
        }


def scoreboard(
    fn: Callable,
    *inputs,
    name: str | None = None,
    device: str | None = None,
    roofs: Roofs | None = None,
    at_most_s: float = 3.0,
    progress: Progress | None = None,
) -> Board:
    """Count, time and judge `fn(*inputs)`; it runs a few dozen times, so what it changes (parameters, say) keeps changing.

    device: "cpu" or "cuda"; left out, where the tensors are that its ops are given. roofs: `limits.Roofs` of this device; left
    out, they are measured once a process. A CPU's step and its roofs are measured on one thread with malloc pinned: threads of a
    team wait for each other, and beside a neighbour that is all one sees. About `at_most_s` seconds, and 5 more for the roofs.
    Raises TypeError where `fn` is not callable, MeasurementError in words where it fails, where it runs no op at all, or without
    the device.
    """
    if not callable(fn):
        raise TypeError(f"the scoreboard runs a callable, and this is a {type(fn).__name__}: pass the function, not its result")
    step = partial(fn, *inputs)
    report = progress or (lambda done, text: None)
    report(0.0, "counting")
    original = seams.original_of(fn)
    work, read_outs, devices = _counted(step if original is None else partial(original, *inputs))
    device = device or _device(devices)
    need(device, "the scoreboard")
    dtype = _dtype(work)
    generated, told = (None, ()) if original is None else _generated(original, inputs)
    peak, requested = _memory(step, device, compiled=original is not None)
    with settled(device) as notes:
        report(0.1, "finding the roofs of this device, once")
        roofs = roofs or roofs_of(device, dtype)
        found = _timed(step, device, at_most_s, within(progress, 0.5, 0.4))
    notes, seen, waits = [*notes, *told], None, {}
    step_ns = found[WHOLE].ns
    common = {"step_ns": step_ns, "products": len(products(work)), **_work(work)}
    ops = len(work.computing)
    if generated is not None:
        ops, common["bytes"] = len(generated), sum(launch.bytes for launch in generated)
        common["least_bytes"] = min(common["least_bytes"], common["bytes"])
    if device == "cuda":
        report(0.9, "profiling")
        try:
            seen = traces.seen(profiled.inside(profiled.profile_works([(WHOLE, step)]), WHOLE)[1:], last_wait=False)
        except (MeasurementError, RuntimeError, ValueError) as error:
            notes.append(f"the profiler saw nothing, so the kernels are not counted: {error}")
    if seen is not None:
        waits = seen.waits
        wait_ns = min(seen.wait_ns, max(0.0, found[HOST].ns - 1.0))
        facts = Facts(
            host_ns=found[HOST].ns - wait_ns,
            device_ns=min(seen.busy_ns, step_ns),
            launches=seen.launches + seen.replays,
            wait_ns=wait_ns,
            waits=sum(waits.values()),
            **common,
        )
    elif device == "cuda":
        floor = max(common["bytes"] / roofs.gbps, 1.0)
        notes.append("how long the device was busy is the least that its bytes allow")
        facts = Facts(host_ns=found[HOST].ns, device_ns=min(floor, step_ns), launches=ops, **common)
    else:
        host = min(ops * found[ONE].ns, step_ns)
        notes.append(f"the host's part is an estimate: {ops:,} ops at the price of an add of one element")
        reads = sum(read_outs.values())  # none costs anything here, and no graph could hold one
        facts = Facts(host_ns=host, device_ns=step_ns - host, launches=ops, waits=reads, serial=True, **common)
    if work.unknown:
        notes.append(f"no rule counts the FLOPs of {', '.join(work.unknown)}")
    report(1.0, "judged")
    return Board(
        name or getattr(fn, "__name__", type(fn).__name__),
        device,
        machine_name(device),
        dtype,
        work,
        peak,
        requested,
        found,
        facts,
        judge(facts, roofs),
        roofs,
        read_outs,
        waits,
        (seen.kernels if seen else None) if device == "cuda" else ops,
        seen,
        tuple(notes),
        generated,
    )


def products(work: intensity.Work) -> list[intensity.OpWork]:
    """The ops that torch's own FLOP counter knows: products, convolutions, fused attention, and their backward."""
    return [op for op in work.computing if op.product]


def roofs_of(device: str, dtype: str) -> Roofs:
    """The roofs of this device for products of `dtype`, on as many threads as torch has now; measured once a process, in 5 s."""
    known = quick_roofs(device, dtype)
    return Roofs(known["gbps"], known[f"gemm_{dtype}"], known.get("vector_fp32"))


def _counted(step: Callable) -> tuple[intensity.Work, dict[str, int], Counter]:
    """(the work of one step, its read-outs, the devices of the tensors that its ops are given); warmed up before."""

    counter, devices = intensity.Counter(), Counter()

    def call(op: str, run: Callable, args: tuple, kwargs: dict):
        devices.update(t.device.type for t in seams.tensors_in((args, kwargs)))
        out = counter.call(op, run, args, kwargs)
        devices.update(t.device.type for t in seams.tensors_in(out))
        return out

    try:
        step()
        with seams.watching_calls(call):
            out = step()
    except Exception as error:
        raise MeasurementError(f"the callable failed: {type(error).__name__}: {error}") from error
    work = intensity.finished(counter, out)
    if not work.computing:
        raise MeasurementError("the callable ran no op of torch that computes: there is nothing to put on the scoreboard")
    names = Counter(op.op.split(".")[0] for op in counter.ops)
    return work, {name: names[name] for name in READ_OUTS if names[name]}, devices


def _generated(original: Callable, inputs: tuple) -> tuple[tuple[generated_kernels.Launch, ...] | None, tuple[str, ...]]:
    """(the launches of the code that torch.compile generates for it, or None where that cannot be read; what is to be told)."""
    try:
        return generated_kernels.of(original, *inputs), ("compiled: launches and bytes are read from the generated code",)
    except MeasurementError as error:
        return None, (f"compiled, and its code cannot be read: launches and bytes are those before compiling ({error})",)


def _device(devices: Counter) -> str:
    """The device of a step: a GPU's where any of its tensors is there."""
    known = [name for name in devices if name in ("cuda", "cpu")]
    if not known:
        raise MeasurementError(f"the scoreboard knows cpu and cuda; this step's tensors are on {', '.join(devices) or 'nothing'}")
    return "cuda" if "cuda" in known else "cpu"


def _dtype(work: intensity.Work) -> str:
    """The dtype that moves most of the bytes: "fp32", "bf16" or "fp16" (fp32 where it is none of them)."""
    moved: Counter = Counter()
    for op in products(work) or work.computing:
        moved[op.dtype] += op.bytes
    return next((DTYPE[name] for name, _ in moved.most_common() if name in DTYPE), "fp32")


def _work(work: intensity.Work) -> dict:
    """What the verdict needs of the counted work."""
    moved: Counter = Counter()
    for op in work.computing:
        moved[op.dtype] += op.bytes
    floating = [(b, name) for name, b in moved.items() if name in DTYPE]
    return {
        "bytes": work.bytes,
        "least_bytes": min(work.least_bytes, work.bytes),
        "flops": work.flops,
        "product_flops": sum(op.flops for op in products(work)),
        "element": {"float32": 4}.get(max(floating)[1], 2) if floating else 4,
    }


def _memory(step: Callable, device: str, *, compiled: bool) -> tuple[int, int | None]:
    """(bytes that the step takes at most beyond what was there, the same as requested)."""
    import torch

    if device == "cpu" and compiled:  # no watcher of ops may look at it
        step()
        return alloc_trace.trace(step, device).peak, None
    if device == "cpu":
        with live_storages.storages() as counted:
            step()
        return counted.peak, None
    torch.cuda.synchronize()
    before = torch.cuda.memory_stats()
    torch.cuda.reset_peak_memory_stats()
    step()
    torch.cuda.synchronize()
    after = torch.cuda.memory_stats()

    def grown(kind: str) -> int | None:
        peak, start = after.get(f"{kind}.all.peak"), before.get(f"{kind}.all.current")
        return None if peak is None or start is None else max(0, peak - start)

    return grown("allocated_bytes") or 0, grown("requested_bytes")


def _timed(step: Callable, device: str, at_most_s: float, progress: Progress | None) -> Race:
    """One race by the wall clock: the step until the device is idle; on a GPU its issue alone, on a CPU an add of one element."""
    arms = {WHOLE: until_idle(step, device)}
    if device == "cuda":
        arms[HOST] = issuing(step, device)
    else:
        arms[ONE] = until_idle(_small_add(), device)
    try:
        found = race("cpu", {}, arms=arms, blocks=20, at_most_s=at_most_s, progress=progress)
    except Exception as error:
        raise MeasurementError(f"the callable failed while it was timed: {type(error).__name__}: {error}") from error
    return replace(found, device=device)


def _small_add() -> Callable:
    import torch

    a, b = torch.rand(1), torch.rand(1)
    return lambda: a + b
